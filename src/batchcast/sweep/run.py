# SPDX-License-Identifier: Apache-2.0
"""Run the tasks of a study on local processes, on a Dask cluster, or on Slurm jobs.

Each task's result is stored when it arrives. Tasks of a lost worker run again. A task that fails is reported, and the
other tasks continue.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ..errors import Unreachable, UsageError
from .study import Slurm
from .task import Failed, Task, attempt

ABREAST = 1000
"""Largest number of unfinished tasks in a Dask cluster, so that its workers never wait for work."""

QUIET = "ignore::UserWarning:multiprocessing.resource_tracker"
"""Warning filter for multiprocessing's resource tracker, which reports leaked semaphores after Ctrl-C."""


class Pool:
    """An executor of tasks, the number of tasks that it accepts at once, and the tasks that have not returned yet.

    `start` makes the executor, and makes a new executor after the processes of the executor died.
    """

    def __init__(self, start: Callable[[], Executor], window: int) -> None:
        self.executor, self.window, self.start = start(), window, start
        self.tasks: dict[Future[Any], Task] = {}
        self._back: SimpleQueue[Future[Any]] = SimpleQueue()

    def takes(self, task: Task, perform: Callable[[Task], Any]) -> bool:
        """Hand a task to the executor; return False if the executor is broken."""
        try:
            future = self.executor.submit(perform, task)
        except BrokenExecutor:
            return False
        self.tasks[future] = task
        future.add_done_callback(self._back.put)
        return True

    def land(self) -> tuple[list[Any], list[Task]]:
        """Return the outcomes of finished tasks, and the tasks that were lost with a broken executor."""
        first = self._back.get()
        if not isinstance(_error(first), BrokenExecutor):
            return [_outcome(first, self.tasks.pop(first))], []
        every, self.tasks = self.tasks, {}
        wait(every)
        self._back = SimpleQueue()
        self.executor = self.start()
        lost = {future: task for future, task in every.items() if isinstance(_error(future), BrokenExecutor)}
        return [_outcome(future, task) for future, task in every.items() if future not in lost], list(lost.values())


@contextmanager
def local(workers: int) -> Iterator[Pool]:
    """A context with a pool of processes on this machine. On Ctrl-C, this process ends the pool's processes."""
    os.environ.setdefault("PYTHONWARNINGS", QUIET)
    safe_path = os.environ.get("PYTHONSAFEPATH", "")
    os.environ["PYTHONSAFEPATH"] = "1"  # as `-P`, for the processes that multiprocessing starts
    context = get_context("forkserver")
    context.set_forkserver_preload(["batchcast.sweep.task"])
    made: list[ProcessPoolExecutor] = []

    def start() -> Executor:
        made.append(ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(list(sys.path),)))
        return made[-1]

    try:
        yield Pool(start, 2 * workers + 2)
    finally:
        for pool in made:
            pool.shutdown(wait=True, cancel_futures=True)
        os.environ["PYTHONSAFEPATH"] = safe_path  # an empty value counts as none


def _begin(path: list[str]) -> None:
    """Prepare a worker: it ignores signals, which the parent handles, and uses the parent's module path."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.path[:] = path


@contextmanager
def on_dask(address: str, say: Callable[[str], None], timeout_s: float = 10.0) -> Iterator[Pool]:
    """A context with a pool on a running Dask scheduler; Unreachable if it does not answer within `timeout_s`
    seconds.
    """
    from distributed import Client

    try:
        client = Client(address, timeout=timeout_s, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError) as error:
        hint = "dask scheduler --host 127.0.0.1"
        raise Unreachable(f"{address}: no Dask scheduler answers ({error})", hint=hint) from None
    with _client_pool(client, say) as pool:
        yield pool


@contextmanager
def on_slurm(wish: Slurm, say: Callable[[str], None], folder: Path) -> Iterator[Pool]:
    """A context with a Dask cluster whose workers are Slurm jobs. A Slurm job that ends early is replaced."""
    # Traffic is encrypted with a key that is created for this run and that only this user can read. Without the key,
    # other users who reach the scheduler's port cannot run code.
    if not wish.interface:
        raise UsageError(
            "--pool slurm: name the network interface by which nodes reach this host ([slurm] interface in the study, "
            "or --interface)",
            hint="`ip -brief address` lists the interfaces, e.g. ib0 or eth0",
        )
    from dask_jobqueue.slurm import SLURMCluster
    from distributed import Client

    folder.mkdir(parents=True, exist_ok=True)
    # as `-P`: without it, a worker would import numpy.py from the working directory of its job
    safe = ["export PYTHONSAFEPATH=1"]
    if os.getcwd() in sys.path:  # the study names a method of the user's own in this folder
        safe.append(f"export PYTHONPATH=${{PYTHONPATH:+$PYTHONPATH:}}{shlex.quote(os.getcwd())}")
    cluster = SLURMCluster(
        queue=wish.partition, account=wish.account, walltime=wish.walltime, memory=wish.memory, cores=1, processes=1,
        interface=wish.interface,
        scheduler_options={"interface": wish.interface, "dashboard_address": "127.0.0.1:0"},
        job_extra_directives=list(wish.directives), job_script_prologue=[*safe, *wish.prologue],
        log_directory=str(folder.resolve()), shared_temp_directory=str(folder.resolve()), security=True,
        python=sys.executable, worker_extra_args=["--no-dashboard"],
    )  # fmt: skip
    with cluster, Client(cluster, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        cluster.adapt(minimum_jobs=wish.workers, maximum_jobs=wish.workers, interval="2s")
        with _client_pool(client, say) as pool:
            yield pool


@contextmanager
def _client_pool(client: Any, say: Callable[[str], None]) -> Iterator[Pool]:
    """A context with a client's executor; reports the address of the dashboard, and cancels unfinished tasks at the
    end.
    """
    if find_spec("bokeh"):
        with suppress(Exception):
            say(f"dashboard: {client.dashboard_link}")
    pool = Pool(partial(client.get_executor, pure=False), ABREAST)
    try:
        yield pool
    finally:
        pool.executor.shutdown(wait=False)
        client.close()


def pool_on(pool: str, workers: int, wish: Slurm, say: Callable[[str], None], folder: Path) -> Any:
    """Return the pool of workers that the option `--pool` names: `local`, `slurm`, or the address of a Dask
    scheduler."""
    if pool == "local":
        return local(workers)
    if pool == "slurm":
        return on_slurm(wish, say, folder)
    if pool.startswith(("tcp://", "tls://", "ucx://")):
        return on_dask(pool, say)
    raise UsageError(f"--pool: no {pool!r} (accepted: local, slurm, tcp://HOST:PORT of a Dask scheduler)")


Row = Mapping[str, Any]


def run(
    tasks: Iterable[Task],
    pool: Pool,
    keep: Callable[[Row], None],
    *,
    perform: Callable[[Task], Row | Failed] = attempt,
    tick: Callable[[int], None] = lambda done: None,
    tell: Callable[[Failed], None] = lambda one: None,
) -> list[Failed]:
    """Perform tasks on a pool, store each result with `keep` when it arrives, and return the tasks that failed."""
    # If a process dies, the tasks of its pool are lost. The lost tasks run again one at a time, and a task that ran
    # alone when a process died counts as failed.
    waiting, suspects = deque(tasks), deque[Task]()
    failed: list[Failed] = []
    finished = 0
    while waiting or suspects or pool.tasks:
        queue, window = (suspects, 1) if suspects else (waiting, pool.window)
        while queue and len(pool.tasks) < window and pool.takes(queue[0], perform):
            queue.popleft()
        if not pool.tasks:
            pool.executor = pool.start()
            continue
        landed, lost = pool.land()
        if len(lost) == 1:
            why = "the process of this task ended early (out of memory, or killed)"
            landed.append(Failed(lost[0].key, lost[0].label, why))
        else:
            suspects.extend(lost)
        for outcome in landed:
            if isinstance(outcome, Failed):
                failed.append(outcome)
                tell(outcome)
            else:
                keep(outcome)
        finished += len(landed)
        tick(finished)
    return failed


def _error(future: Future[Any]) -> BaseException | None:
    """Return the exception of a future, or None."""
    if future.cancelled():
        raise Unreachable("the workers are gone", hint="run the same command again: finished tasks are kept")
    return future.exception()


def _outcome(future: Future[Any], task: Task) -> Any:
    """Return a task's row or failure, including failures that the cluster reports (such as a worker killed
    repeatedly).
    """
    error = _error(future)
    return future.result() if error is None else Failed(task.key, task.label, f"{type(error).__name__}: {error}")
