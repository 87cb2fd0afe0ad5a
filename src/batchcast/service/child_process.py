# SPDX-License-Identifier: Apache-2.0
"""Computes answers that read much history in a child process, so that other answers do not wait for them.

A thread would share the Python interpreter with the event loop and all other answers, and the server would keep its
memory. A child process has its own interpreter, runs at a lower priority, frees its memory when it ends, and can be
killed at any moment. `KeptChild` keeps one child for answers that must take milliseconds. Question and result are
pickled over the child's pipes, which only this program uses.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import select
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from ..errors import BatchcastError, Unreachable
from ..processes import child_command, module_path
from ..store.reader import TooLong, time_to_read

NICE = 5
MOST_MB = 500
"""Memory limit of an answer (MB): a fitted model needs 330 MB, and server and child must stay below the MemoryMax."""
LOOK_S, LONGEST_S = 0.1, 120.0
MOST_BYTES = 2**26
_TOO_MUCH = 75
KEPT_S, RENEW_S, AGAIN_S, SOON_S = 86400.0, 15.0, 15.0, 0.1
"""Times in seconds: a kept process ends `KEPT_S` after the last question, renews its clock every `RENEW_S`, and is
started again `AGAIN_S` after a failure. A question waits at most `SOON_S` for a process that is loading.
"""
_CODE = "from batchcast.service.child_process import work; work(%d, %d)"
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
T = TypeVar("T")


async def in_child(answer: Callable[[], T], seconds: float) -> T:
    """Run a call that can be pickled in a child process and return its result, or raise its error of batchcast.

    The child ends if this task is cancelled, if this process ends, after `seconds`, or if it uses more than `MOST_MB`;
    the last two cases raise TooLong. A RuntimeError means a defect of batchcast. The child costs about 0.25 s of CPU in
    addition to the answer.
    """
    async with _child(NICE) as child:
        try:
            return cast(T, await _exchange(child, answer, seconds))
        except (ConnectionError, asyncio.IncompleteReadError):  # the child has ended early; its exit code says why
            code = await child.wait()
    if code == _TOO_MUCH or code < 0:
        why = f"takes more than {MOST_MB} MB" if code == _TOO_MUCH else f"was ended by signal {-code}"
        raise TooLong(f"this answer {why}", hint="a shorter time span")
    raise RuntimeError(f"the process of this answer ended with {code}")


async def _exchange(child: asyncio.subprocess.Process, answer: Callable[[], Any], seconds: float) -> Any:
    """Send one question to the child; return its result or raise its error. The child's stdin stays open, and closes
    when this process ends; then the child ends too.
    """
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(pickle.dumps((seconds, answer)))
    await child.stdin.drain()
    size = int.from_bytes(await child.stdout.readexactly(8), "big")
    good, result = pickle.loads(await child.stdout.readexactly(size))
    if good:
        return result
    raise result


@contextlib.asynccontextmanager
async def _child(nice: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a child process at this priority, which waits for questions. After the block, kill the child if it still
    runs, and wait for its end, even if this task is cancelled again while the service stops.
    """
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(
        *child_command("-c", _CODE % (nice, MOST_MB)),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=MOST_BYTES, env=_environment(),
        cwd=os.getcwd(),  # the path of the store may be relative
        start_new_session=True,  # the server handles Ctrl-C and ends the child
    ))  # fmt: skip
    try:
        yield await asyncio.shield(starting)
    finally:
        while not starting.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([starting])
        child = None if starting.cancelled() or starting.exception() else starting.result()
        while child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            with contextlib.suppress(asyncio.CancelledError):
                await child.wait()


class KeptChild:
    """One process that answers questions one after another and keeps kernels, a fitted model and a clock loaded.

    The first answer takes seconds, later answers take milliseconds. A question that arrives while the process loads is
    refused within 0.1 s. The process ends after a day without a question, when the server ends, or if it uses more than
    `MOST_MB`; the next question starts a new process. Only one event loop may use this object.
    """

    def __init__(self, renew: Callable[[], Any]) -> None:
        self._renew = renew
        self._keeping: asyncio.Task[None] | None = None
        self._child: asyncio.subprocess.Process | None = None
        self._turn, self._is_loaded = asyncio.Lock(), asyncio.Event()
        self._asked_at, self._failed = 0.0, -1e300
        self._under_way: set[asyncio.Future[Any]] = set()
        self._error: BatchcastError | None = None

    async def run(self, answer: Callable[[], T]) -> T:
        """Run a call that can be pickled in the process and return its result; Unreachable if no process can answer."""
        self._asked_at = time.monotonic()
        if self._child is None:
            if self._keeping is None and self._asked_at - self._failed >= AGAIN_S:
                self._error, self._keeping = None, asyncio.create_task(self._keep())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_loaded.wait(), SOON_S)
        if self._child is None:
            raise self._error or Unreachable("the predictions are being loaded", hint="ask again in a few seconds")
        asked = asyncio.ensure_future(self._in_turn(self._child, answer))
        self._under_way.add(asked)
        asked.add_done_callback(self._over)
        return cast(T, await asyncio.shield(asked))  # if the caller is cancelled, the process still finishes its answer

    def _over(self, asked: asyncio.Future[Any]) -> None:
        """Forget a finished question. Reading its error stops asyncio from logging an error that nobody awaits."""
        self._under_way.discard(asked)
        if not asked.cancelled():
            asked.exception()

    async def close(self) -> None:
        """End the process."""
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping

    async def _keep(self) -> None:
        """Keep one process running, with its clock renewed, until no question has come for `KEPT_S`."""
        try:
            async with _child(0) as child:
                while time.monotonic() - self._asked_at < KEPT_S:
                    await self._in_turn(child, self._renew)
                    self._child = child
                    self._is_loaded.set()
                    await asyncio.sleep(RENEW_S)
        except BatchcastError as error:
            self._error, self._failed = error, time.monotonic()
        except RuntimeError as error:
            self._error = Unreachable(f"the predictions cannot be loaded: {error}", hint="the server's own log")
            self._failed = time.monotonic()
        finally:
            self._child = self._keeping = None
            self._is_loaded.clear()

    async def _in_turn(self, child: asyncio.subprocess.Process, answer: Callable[[], Any]) -> Any:
        """Send a question to the process after all earlier questions, and return its result."""
        async with self._turn:
            try:
                return await _exchange(child, answer, LONGEST_S)
            except (ConnectionError, asyncio.IncompleteReadError):
                raise Unreachable("the prediction process has ended", hint="ask again in a few seconds") from None


def _environment() -> dict[str, str]:
    """Return this process's environment and module path, with one thread for libraries that use every core."""
    return {**os.environ, "PYTHONPATH": module_path(), **dict.fromkeys(_ONE_THREAD, "1")}


def work(nice: int, most_mb: int) -> None:
    """Read questions from stdin, and write each result to stdout after its length. This function runs in the child
    process.
    """
    with contextlib.suppress(OSError):  # if memory runs out, the kernel should kill this process and not the server
        Path("/proc/self/oom_score_adj").write_text("1000")
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed text must not be mixed into the result
    os.nice(nice)
    threading.Thread(target=_watch, args=(most_mb,), daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            seconds, answer = pickle.load(sys.stdin.buffer)
            result = pickle.dumps(_tried(answer, seconds))
            out.write(len(result).to_bytes(8, "big") + result)
            out.flush()


def _tried(answer: Callable[[], Any], seconds: float) -> tuple[bool, Any]:
    """Return (True, result) or (False, error) of a question that may read the store for so many seconds."""
    try:
        with time_to_read(seconds):
            return True, answer()
    except BatchcastError as error:
        return False, error
    except MemoryError:
        os._exit(_TOO_MUCH)
    except Exception as error:
        return False, RuntimeError(f"{type(error).__name__}: {error}")


def _watch(most_mb: int) -> None:
    """End this process if its parent has ended, or if it uses too much memory."""
    page, left = os.sysconf("SC_PAGESIZE"), select.poll()
    left.register(0, select.POLLHUP)
    while not left.poll(1000 * LOOK_S):
        if int(Path("/proc/self/statm").read_text().split()[1]) * page > most_mb * 1e6:
            os._exit(_TOO_MUCH)
    os._exit(1)
