# SPDX-License-Identifier: Apache-2.0
"""Work on several processors: processes forked from this one, so that what they work on need not be sent to them.

Every answer is what the same call gives here; how many processes there are changes no result.
"""

from __future__ import annotations

import multiprocessing
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from .errors import BatchcastError, check_least

T = TypeVar("T")


def in_processes(
    tasks: Sequence[Callable[[], T]], workers: int = 1, finished: Callable[[int], None] | None = None
) -> list[T]:
    """What each task answers, in order; with one worker here, one after the other, else in as many processes at once.

    Answers come back pickled. What a task raises is raised here, the first in order of the tasks; `finished` hears how
    many are done. Ctrl-C ends the processes. A process costs some 20 ms to fork.

    >>> in_processes([lambda: 1 + 1, lambda: 2 * 3, lambda: 9], workers=2)
    [2, 6, 9]
    """
    check_least("workers", workers, 1)
    if workers == 1 or len(tasks) < 2:
        return list(_here(tasks, finished))
    answers: dict[int, Any] = {}
    running: dict[Connection, tuple[int, Any]] = {}
    waiting = list(enumerate(tasks))[::-1]
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                place, task = waiting.pop()
                here, process = _forked(task)
                running[here] = place, process
            ready = wait(list(running))
            for here in [one for one in running if one in ready]:
                place, process = running.pop(here)
                answers[place] = _received(here)
                process.join()
                if isinstance(answers[place], _Raised):
                    waiting.clear()  # no later task can change which error is the first
                if finished is not None:
                    finished(len(answers))
    finally:
        for _, process in running.values():
            process.terminate()
            process.join()
    for place in sorted(answers):
        if isinstance(answers[place], _Raised):
            raise answers[place].error
    return [answers[place] for place in range(len(tasks))]


class _Raised:
    """What a task raised."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _here(tasks: Sequence[Callable[[], T]], finished: Callable[[int], None] | None) -> Iterator[T]:
    for done, task in enumerate(tasks, start=1):
        yield task()
        if finished is not None:
            finished(done)


def _forked(task: Callable[[], Any]) -> tuple[Connection, Any]:
    """A process that works on a task, and the end where its answer arrives."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_work, args=(task, there), daemon=True)
    with warnings.catch_warnings():  # Python 3.12: a thread draws the progress bar; the child never touches its locks
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    there.close()
    return here, process


def _work(task: Callable[[], Any], there: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        answer: Any = task()
    except BatchcastError as error:
        answer = _Raised(error)
    except Exception as error:  # its own kind may not be one that can be sent
        text = "".join(traceback.format_exception(error))
        answer = _Raised(RuntimeError(f"{type(error).__name__} in a process of its own: {error}\n{text}"))
    there.send(answer)
    there.close()


def _received(here: Connection) -> Any:
    try:
        return here.recv()
    except EOFError:
        why = "a process ended before its answer (killed, or out of memory)"
        return _Raised(BatchcastError(why, hint="fewer workers"))
    finally:
        here.close()
