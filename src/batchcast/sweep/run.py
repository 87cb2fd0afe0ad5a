"""A study run: tasks handed out, results kept as they come, the lost tried again, the failed said and passed over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import BrokenExecutor, Future, wait
from queue import SimpleQueue
from typing import Any, NamedTuple

from ..errors import Unreachable
from .pool import Pool
from .task import Task
from .work import Failed, attempt

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
