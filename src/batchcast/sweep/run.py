# SPDX-License-Identifier: Apache-2.0
"""Runs a study: its tasks on local processes, on Dask, or on jobs of Slurm.

Results are stored as they come. Tasks of a lost worker run again; a task that fails is named, and the rest goes on.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from ..errors import Unreachable, UsageError
from .study import Slurm
from .task import Failed, Task, attempt

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
    context.set_forkserver_preload(["batchcast.sweep.task"])
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
            "--pool slurm: by which network do nodes reach this host? ([slurm] interface in the study, or --interface)",
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
    """The pool that `--pool` names: `local`, `slurm`, or the address of a Dask scheduler."""
    if place == "local":
        return local(workers)
    if place == "slurm":
        return on_slurm(wish, say, folder)
    if place.startswith(("tcp://", "tls://", "ucx://")):
        return on_dask(place, say)
    raise UsageError(f"--pool: no {place!r} (accepted: local, slurm, tcp://HOST:PORT of a Dask scheduler)")


Row = Mapping[str, Any]


class Ran(NamedTuple):
    """How many results were kept, and what failed."""

    kept: int
    failed: list[Failed]


def run(
    tasks: Iterable[Task],
    pool: Pool,
    keep: Callable[[Row], None],
    *,
    perform: Callable[[Task], Row | Failed] = attempt,
    tick: Callable[[int], None] = lambda done: None,
    tell: Callable[[Failed], None] = lambda one: None,
) -> Ran:
    """Perform tasks on a pool, at most `pool.window` at a time, and keep each result when it comes.

    A process that dies takes those of its pool with it: what was under way runs again, one at a time, and a task alone
    with a process that died is the one that failed. O(1) a task besides the work.
    """
    waiting, suspects = deque(tasks), deque[Task]()
    flight = _Flight(pool, perform)
    failed: list[Failed] = []
    kept = 0
    while waiting or suspects or flight.tasks:
        if suspects:
            if not flight.tasks and flight.takes(suspects[0]):
                suspects.popleft()
        else:
            while waiting and len(flight.tasks) < pool.window and flight.takes(waiting[0]):
                waiting.popleft()
        if not flight.tasks:
            pool.renew()
            continue
        landed, lost = flight.land()
        if len(lost) == 1:
            landed.append((lost[0], Failed(lost[0].key, lost[0].label, "its process died (out of memory, or killed)")))
        else:
            suspects.extend(lost)
        for _, outcome in landed:
            if isinstance(outcome, Failed):
                failed.append(outcome)
                tell(outcome)
            else:
                keep(outcome)
                kept += 1
        tick(kept + len(failed))
    return Ran(kept, failed)


class _Flight:
    """Tasks handed out and not back yet."""

    def __init__(self, pool: Pool, perform: Callable[[Task], Row | Failed]) -> None:
        self.tasks: dict[Future[Any], Task] = {}
        self._pool, self._perform = pool, perform
        self._back: SimpleQueue[Future[Any]] = SimpleQueue()

    def takes(self, task: Task) -> bool:
        """Hand a task out; false where the pool broke meanwhile: its futures come back and say so."""
        try:
            future = self._pool.executor.submit(self._perform, task)
        except BrokenExecutor:
            return False
        self.tasks[future] = task
        future.add_done_callback(self._back.put)
        return True

    def land(self) -> tuple[list[tuple[Task, Any]], list[Task]]:
        """What came back, one task or all of a pool that broke: tasks with their outcome, and tasks lost with it."""
        first = self._back.get()
        if not isinstance(_error(first), BrokenExecutor):
            return [(task := self.tasks.pop(first), _outcome(first, task))], []
        every = dict(self.tasks)
        self.tasks.clear()
        wait(every)
        self._back = SimpleQueue()
        self._pool.renew()
        lost = [task for future, task in every.items() if isinstance(_error(future), BrokenExecutor)]
        return [(t, _outcome(f, t)) for f, t in every.items() if not isinstance(_error(f), BrokenExecutor)], lost


def _error(future: Future[Any]) -> BaseException | None:
    if future.cancelled():
        raise Unreachable("the workers are gone", hint="the same command again: finished tasks are kept")
    return future.exception()


def _outcome(future: Future[Any], task: Task) -> Any:
    """A task's row, or its failure: also what its cluster says of it (a worker killed again and again)."""
    error = _error(future)
    return future.result() if error is None else Failed(task.key, task.label, f"{type(error).__name__}: {error}")
