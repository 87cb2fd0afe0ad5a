"""Where tasks run: processes of this machine, a Dask cluster that is there, or one that Slurm's jobs make up."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ..errors import Unreachable, UsageError
from .study import Slurm

ABREAST = 1000
"""Tasks handed to a Dask cluster and not back yet: enough for its workers never to wait."""

QUIET = "ignore::UserWarning:multiprocessing.resource_tracker"
"""For its tracker, which tells a terminal of the semaphores of a pool that Ctrl-C ended."""


class Pool:
    """An executor and how many tasks it takes at once; `renewed` is another where its processes died."""

    def __init__(self, executor: Executor, window: int, renew: Callable[[], Executor] | None = None) -> None:
        self.executor, self.window, self._renew = executor, window, renew

    def renew(self) -> None:
        """Put a new executor in the place of a broken one."""
        if self._renew is None:
            raise Unreachable("the workers are gone", hint="the same command again: finished tasks are kept")
        self.executor = self._renew()


@contextmanager
def local(workers: int) -> Iterator[Pool]:
    """Processes of this machine. Ctrl-C is the asking process's to mind; it ends the others."""
    os.environ.setdefault("PYTHONWARNINGS", QUIET)
    context = get_context("forkserver")
    context.set_forkserver_preload(["batchcast.sweep.work"])
    made: list[ProcessPoolExecutor] = []

    def start() -> Executor:
        made.append(ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(list(sys.path),)))
        return made[-1]

    try:
        yield Pool(start(), 2 * workers + 2, start)
    finally:
        for pool in made:
            pool.shutdown(wait=True, cancel_futures=True)


def _begin(path: list[str]) -> None:
    """In a worker: signals are the parent's, modules are found where the parent finds them."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = path


@contextmanager
def on_dask(address: str, say: Callable[[str], None], timeout_s: float = 10.0) -> Iterator[Pool]:
    """A Dask scheduler that is there. Unreachable where it does not answer within `timeout_s`."""
    from distributed import Client

    try:
        client = Client(address, timeout=timeout_s, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError) as error:
        raise Unreachable(
            f"{address}: no Dask scheduler answers ({error})", hint="dask scheduler --host 127.0.0.1"
        ) from None
    with _used(client, say) as pool:
        yield pool


@contextmanager
def on_slurm(wish: Slurm, say: Callable[[str], None], folder: Path) -> Iterator[Pool]:
    """A Dask cluster whose workers are jobs of Slurm, kept at their number: a job that ends early is replaced.

    Traffic is encrypted with a key made for this run, which lies in `folder` where only this user reads it: whoever
    else reaches the scheduler's port runs nothing. `folder` is one that the nodes see; workers' output goes there too.
    """
    if not wish.interface:
        raise UsageError(
            "--on slurm: by which network do nodes reach this host? ([slurm] interface in the study, or --interface)",
            hint="`ip -brief address` lists them, e.g. ib0 or eth0",
        )
    from dask_jobqueue.slurm import SLURMCluster
    from distributed import Client

    folder.mkdir(parents=True, exist_ok=True)
    cluster = SLURMCluster(
        queue=wish.partition,
        account=wish.account,
        walltime=wish.walltime,
        memory=wish.memory,
        cores=1,
        processes=1,
        interface=wish.interface,
        scheduler_options={"interface": wish.interface, "dashboard_address": "127.0.0.1:0"},
        job_extra_directives=list(wish.directives),
        job_script_prologue=list(wish.prologue),
        log_directory=str(folder.resolve()),
        shared_temp_directory=str(folder.resolve()),
        security=True,
        python=sys.executable,
        worker_extra_args=["--no-dashboard"],
    )
    with cluster, Client(cluster, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        cluster.adapt(minimum_jobs=wish.workers, maximum_jobs=wish.workers, interval="2s")
        with _used(client, say) as pool:
            yield pool


@contextmanager
def _used(client: Any, say: Callable[[str], None]) -> Iterator[Pool]:
    """A client's executor, and where its dashboard is, for those who have bokeh; what it still holds is let go."""
    if find_spec("bokeh"):
        with suppress(Exception):
            say(f"dashboard: {client.dashboard_link}")
    executor = client.get_executor(pure=False)
    try:
        yield Pool(executor, ABREAST)
    finally:
        executor.shutdown(wait=False)
        client.close()


def pool_on(place: str, workers: int, wish: Slurm, say: Callable[[str], None], folder: Path) -> Any:
    """The pool that `--on` names: `local`, `slurm`, or the address of a Dask scheduler."""
    if place == "local":
        return local(workers)
    if place == "slurm":
        return on_slurm(wish, say, folder)
    if place.startswith(("tcp://", "tls://", "ucx://")):
        return on_dask(place, say)
    raise UsageError(f"--on: no {place!r} (accepted: local, slurm, tcp://HOST:PORT of a Dask scheduler)")
