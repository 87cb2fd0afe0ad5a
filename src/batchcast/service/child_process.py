# SPDX-License-Identifier: Apache-2.0
"""Runs an answer that reads much history in a process of its own, so that other answers do not wait for it.

A thread would share the interpreter with the event loop and with every other answer, and what it allocates would stay
with the server. A child has an interpreter of its own, runs at a lower priority, gives everything back at its end, and
can be ended at any moment. For what must be answered in milliseconds one is kept (`KeptChild`). The question and its
result are pickled over its pipes, from and to this program only.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from ..errors import BatchcastError, Unreachable
from ..store.reader import TooLong, time_to_read

NICE = 5
MOST_MB = 500
"""What an answer may hold, a fitted model and what reads it (330 MB) included; with the server's own it stays below the
MemoryMax of its unit."""
LOOK_S, LONGEST_S = 0.1, 120.0
MOST_BYTES = 2**26
_TOO_MUCH = 75
KEPT_S, RENEW_S, AGAIN_S, SOON_S = 86400.0, 15.0, 15.0, 0.1
"""How long a kept process stays without a question; how often it looks for news; how long one that failed is left
alone; how long a question waits for one that is loading."""
_CODE = "from batchcast.service.child_process import work; work(%d, %d)"
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
T = TypeVar("T")


async def in_child(answer: Callable[[], T], seconds: float) -> T:
    """The result of a call that pickles. What it raises of batchcast's errors is raised here, with its hint.

    Ended when this is cancelled, when this process ends, and when it holds more than `MOST_MB`: TooLong then, as after
    so many seconds. RuntimeError for a defect. Costs about a quarter of a second of CPU beside the answer.
    """
    starting = asyncio.ensure_future(_started(NICE))
    try:
        child = await asyncio.shield(starting)
        try:
            return cast(T, await _exchange(child, answer, seconds))
        except (ConnectionError, asyncio.IncompleteReadError):  # it has ended already: its code says why
            code = await child.wait()
    finally:
        await _ended(starting)
    if code == _TOO_MUCH:
        raise TooLong(f"this answer takes more than {MOST_MB} MB", hint="a shorter time span")
    if code < 0:
        raise TooLong(f"this answer was ended by signal {-code}", hint="a shorter time span")
    raise RuntimeError(f"the process of this answer ended with {code}")


async def _exchange(child: asyncio.subprocess.Process, answer: Callable[[], Any], seconds: float) -> Any:
    """The result of one question, or the error it raised. The child's input stays open: its end is this process's."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(pickle.dumps((seconds, answer)))
    await child.stdin.drain()
    size = int.from_bytes(await child.stdout.readexactly(8), "big")
    good, result = pickle.loads(await child.stdout.readexactly(size))
    if good:
        return result
    raise result


async def _started(nice: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", _CODE % (nice, MOST_MB),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=MOST_BYTES, env=_environment(),
        start_new_session=True,  # Ctrl-C is for the server, which ends this one
    )  # fmt: skip


async def _ended(starting: asyncio.Future[asyncio.subprocess.Process]) -> None:
    """Killed where it runs, and waited for: whoever is cancelled again meanwhile (the service ends) waits all the same.

    What ended the answer is raised after this.
    """
    while not starting.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([starting])
    if starting.cancelled() or starting.exception():
        return
    child = starting.result()
    while child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        with contextlib.suppress(asyncio.CancelledError):
            await child.wait()


class KeptChild:
    """One process that answers question after question and keeps what it has loaded: kernels, a fitted model, a clock.

    Its first answer takes seconds, the next ones milliseconds. Whoever asks while it loads is told so within .1 s. One
    question at a time. It ends after a day without a question, with this process, and where it holds more than
    `MOST_MB`; the next question starts another. One event loop uses it.
    """

    def __init__(self, renew: Callable[[], Any]) -> None:
        self._renew = renew
        self._keeping: asyncio.Task[None] | None = None
        self._child: asyncio.subprocess.Process | None = None
        self._turn, self._ready = asyncio.Lock(), asyncio.Event()
        self._asked, self._failed = 0.0, -1e300
        self._under_way: set[asyncio.Future[Any]] = set()
        self._error: BatchcastError | None = None

    async def run(self, answer: Callable[[], T]) -> T:
        """The result of a call that pickles; Unreachable while there is nobody to ask."""
        self._asked = time.monotonic()
        if self._child is None:
            if self._keeping is None and self._asked - self._failed >= AGAIN_S:
                self._error, self._keeping = None, asyncio.create_task(self._keep())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), SOON_S)
        if self._child is None:
            raise self._error or Unreachable("the forecasts are being loaded", hint="ask again in some seconds")
        asked = asyncio.ensure_future(self._in_turn(self._child, answer))
        self._under_way.add(asked)
        asked.add_done_callback(self._over)
        return cast(T, await asyncio.shield(asked))  # whoever asked may hang up: the process finishes its answer

    def _over(self, asked: asyncio.Future[Any]) -> None:
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
        starting = asyncio.ensure_future(_started(0))
        try:
            child = await asyncio.shield(starting)
            while time.monotonic() - self._asked < KEPT_S:
                await self._in_turn(child, self._renew)
                self._child = child
                self._ready.set()
                await asyncio.sleep(RENEW_S)
        except BatchcastError as error:
            self._error, self._failed = error, time.monotonic()
        except RuntimeError as error:
            self._error = Unreachable(f"the forecasts cannot be loaded: {error}", hint="the server's own log")
            self._failed = time.monotonic()
        finally:
            self._child = self._keeping = None
            self._ready.clear()
            await _ended(starting)

    async def _in_turn(self, child: asyncio.subprocess.Process, answer: Callable[[], Any]) -> Any:
        async with self._turn:
            try:
                return await _exchange(child, answer, LONGEST_S)
            except (ConnectionError, asyncio.IncompleteReadError):
                raise Unreachable("the process that forecasts has ended", hint="ask again in some seconds") from None


def _environment() -> dict[str, str]:
    """As this process, its modules from the same places, and one thread for what would take every core."""
    places = os.pathsep.join(place for place in sys.path if place)
    return {**os.environ, "PYTHONPATH": places, **dict.fromkeys(_ONE_THREAD, "1")}


def work(nice: int, most_mb: int) -> None:
    """The child: question after question from stdin, the results to stdout, each after its length."""
    with contextlib.suppress(OSError):  # where memory is short, this process goes and not the server
        Path("/proc/self/oom_score_adj").write_text("1000")
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whoever prints does not print into the result
    os.nice(nice)
    threading.Thread(target=_watch, args=(most_mb,), daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            seconds, answer = pickle.load(sys.stdin.buffer)
            result = pickle.dumps(_tried(answer, seconds))
            out.write(len(result).to_bytes(8, "big") + result)
            out.flush()


def _tried(answer: Callable[[], Any], seconds: float) -> tuple[bool, Any]:
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
    """End this process when nobody waits for it any more, or when it holds too much."""
    page, left = os.sysconf("SC_PAGESIZE"), select.poll()
    left.register(0, select.POLLHUP)
    while not left.poll(1000 * LOOK_S):
        if int(Path("/proc/self/statm").read_text().split()[1]) * page > most_mb * 1e6:
            os._exit(_TOO_MUCH)
    os._exit(1)
