# SPDX-License-Identifier: Apache-2.0
"""Work on several processors by forked processes, so that inputs need not be sent to them.

Every answer is what the same call gives here; how many processes there are changes no result.
"""

from __future__ import annotations

import pickle
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from .errors import BatchcastError, check_least

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")


def in_processes(
    tasks: Sequence[Callable[[], T]], workers: int = 1, finished: Callable[[int], None] | None = None
) -> list[T]:
    """What each task answers, in order; with one worker here, one after the other, else in as many processes at once.

    Answers come back pickled. What a task raises is raised here, the first in order of the tasks; `finished` hears how
    many are done. Ctrl-C ends the processes.

    >>> in_processes([lambda: 1 + 1, lambda: 2 * 3, lambda: 9], workers=2)
    [2, 6, 9]
    """
    check_least("workers", workers, 1)
    if workers == 1 or len(tasks) < 2:
        return list(_here(tasks, finished))
    from multiprocessing.connection import wait

    answers: dict[int, Any] = {}
    waiting = list(range(len(tasks)))[::-1]
    running: dict[Connection, int] = {}
    started = [_forked(tasks) for _ in range(min(workers, len(tasks)))]
    try:
        for here, _ in started:
            running[here] = waiting.pop()
            here.send(running[here])
        while running:
            ready = wait(list(running))
            for here in [one for one in running if one in ready]:
                place = running.pop(here)
                answers[place] = _received(here)
                if isinstance(answers[place], _Raised):
                    waiting.clear()  # all before it have begun: no later task can change which error is the first
                if finished is not None:
                    finished(len(answers))
                if waiting:
                    running[here] = waiting.pop()
                    here.send(running[here])
    finally:
        for here, process in started:
            here.close()
            process.kill()
            process.join()
    for place in sorted(answers):
        if isinstance(answers[place], _Raised):
            raise answers[place].error
    return [answers[place] for place in range(len(tasks))]


class Task(NamedTuple, Generic[T]):
    """Work that says how far it is: what a progress bar calls it, how many steps it has, and the call that does it."""

    label: str
    steps: int | None
    run: Callable[[Callable[[int], None]], T]


def under_bars(
    label: str, tasks: Sequence[Task[T]], workers: int, bar: Callable[[str, int | None], Any]
) -> list[T]:  # fmt: skip
    """Run tasks under progress bars: one bar per task if they run in sequence, else one bar for all tasks."""
    if workers > 1 and len(tasks) > 1:
        with bar(label, len(tasks)) as tick:
            return in_processes([partial(task.run, _unheard) for task in tasks], workers, tick)
    answers = []
    for task in tasks:
        with bar(task.label, task.steps) as tick:
            answers.append(task.run(tick))
    return answers


def _unheard(done: int) -> None:
    """Nobody looks into a process of its own."""


class _Raised:
    """What a task raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _here(tasks: Sequence[Callable[[], T]], finished: Callable[[int], None] | None) -> Iterator[T]:
    for done, task in enumerate(tasks, start=1):
        yield task()
        if finished is not None:
            finished(done)


def _forked(tasks: Sequence[Callable[[], Any]]) -> tuple[Connection, Any]:
    """A process that works on the tasks whose places it is sent, and the end where its answers arrive."""
    import multiprocessing

    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_work, args=(tasks, here, there), daemon=True)
    with warnings.catch_warnings():  # Python 3.12: a thread draws the progress bar; the child never touches its locks
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    there.close()
    return here, process


def _work(tasks: Sequence[Callable[[], Any]], parents: Connection, there: Connection) -> None:
    parents.close()  # else it would not hear that the parent is gone
    signal.set_wakeup_fd(-1)  # signals of the parent are the parent's to mind
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        try:
            task = tasks[there.recv()]
        except EOFError:
            return
        try:
            there.send(_answer(task))
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            there.send(_Raised(RuntimeError(f"an answer cannot be sent from a process of its own: {error}")))
        except BrokenPipeError:  # the parent was killed
            return


def _answer(task: Callable[[], Any]) -> Any:
    try:
        return task()
    except BatchcastError as error:
        return _Raised(error)
    except Exception as error:  # its own kind may not be one that can be sent
        text = "".join(traceback.format_exception(error))
        return _Raised(RuntimeError(f"{type(error).__name__} in a process of its own: {error}\n{text}"))


def _received(here: Connection) -> Any:
    try:
        return here.recv()
    except EOFError:
        why = "a process ended before its answer (killed, or out of memory)"
        return _Raised(BatchcastError(why, hint="fewer workers"))
