# SPDX-License-Identifier: Apache-2.0
"""Runs tasks on several processors in forked processes, which inherit their inputs without pickling.

The results do not depend on the number of processes, and equal the results in a single process. `child_command` is the
command line of every Python process that batchcast starts anew.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from .errors import BatchcastError, check_least

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

T = TypeVar("T")


def child_command(*words: str) -> list[str]:
    """Return the command line of a new Python process: `-m batchcast VERB` or `-c CODE` as `words`."""
    # without -P, Python would import click.py or numpy.py from the working directory, which may be anybody's
    return [sys.executable, "-P", *words]


def module_path() -> str:
    """Return the module path of this process as a value of PYTHONPATH."""
    return os.pathsep.join(folder for folder in sys.path if folder)


def in_processes(
    tasks: Sequence[Callable[[], T]], workers: int = 1, finished: Callable[[int], None] | None = None
) -> list[T]:
    """Return the results of all tasks, in order. With one worker, tasks run in sequence in this process, else in
    `workers` processes.

    Results are pickled to return them to this process. If tasks raise exceptions, the exception of the first such task
    is raised here. `finished` is called with the number of finished tasks. Ctrl-C ends the worker processes.

    >>> in_processes([lambda: 1 + 1, lambda: 2 * 3, lambda: 9], workers=2)
    [2, 6, 9]
    """
    check_least("workers", workers, 1)
    finished = finished or _unheard
    if workers == 1 or len(tasks) < 2:
        here_done = []
        for task in tasks:
            here_done.append(task())
            finished(len(here_done))
        return here_done
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
                try:
                    answers[place] = here.recv()
                except EOFError:
                    why = "a process ended before it returned a result (killed, or out of memory)"
                    answers[place] = _Raised(BatchcastError(why, hint="fewer workers"))
                if isinstance(answers[place], _Raised):
                    # all earlier tasks have begun, so later tasks cannot change which error is the first
                    waiting.clear()
                finished(len(answers))
                if waiting:
                    running[here] = waiting.pop()
                    here.send(running[here])
    finally:
        for here, process in started:
            here.close()
            process.kill()
            process.join()
    results = [answers[place] for place in sorted(answers)]
    if error := next((one.error for one in results if isinstance(one, _Raised)), None):
        raise error
    return results


class Task(NamedTuple, Generic[T]):
    """A task with a progress bar: its name, the number of steps, and the function that does the work."""

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
    """A progress function that does not show anything, for processes without a terminal."""


class _Raised(NamedTuple):
    """An exception that a task raised in a worker process."""

    error: BaseException


def _forked(tasks: Sequence[Callable[[], Any]]) -> tuple[Connection, Any]:
    """Start a process that runs the tasks whose numbers it receives; return this end of the pipe, and the process."""
    import multiprocessing

    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_work, args=(tasks, here, there), daemon=True)
    # Python 3.12 warns about forking, because a thread draws the progress bar. The forked child does not use the
    # thread's locks, so the warning does not apply.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    there.close()
    return here, process


def _work(tasks: Sequence[Callable[[], Any]], parents: Connection, there: Connection) -> None:
    """Run the tasks whose numbers arrive on the pipe, and send back the results, until the parent ends."""
    parents.close()  # otherwise this process would not notice the end of its parent
    signal.set_wakeup_fd(-1)  # the parent handles its own signals
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
            there.send(_Raised(RuntimeError(f"a result cannot be sent from a separate process: {error}")))
        except BrokenPipeError:  # the parent process was killed
            return


def _answer(task: Callable[[], Any]) -> Any:
    try:
        return task()
    except BatchcastError as error:
        return _Raised(error)
    except Exception as error:  # it may be impossible to pickle the exception
        text = "".join(traceback.format_exception(error))
        return _Raised(RuntimeError(f"{type(error).__name__} in a separate process: {error}\n{text}"))
