"""Two lanes for what takes time: questions of a moment, and figures over much history, one at a time for each user.

So whoever asks for twenty reports waits for twenty reports, and nobody else does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

from ..errors import BatchcastError
from ..store.reader import TooLong, time_to_read
from . import api

QUICK_THREADS, HEAVY_THREADS = 4, 1
QUICK_EACH, HEAVY_EACH = 2, 1
MOST_WAITING = 20
ANSWER_S = 120.0
T = TypeVar("T")


class TooMany(BatchcastError):
    """One user has too many questions open."""


def status_of(error: BatchcastError) -> int:
    """The HTTP status of an error, those of a lane among them."""
    return {TooMany: 429, TooLong: 503}.get(type(error)) or api.status_of(error)


class Lane:
    """So many threads for all, so many turns for each user, first come first served."""

    def __init__(self, threads: int, each: int) -> None:
        self._limiter = anyio.CapacityLimiter(threads)
        self._each = each
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._inside: dict[str, int] = {}

    async def run(self, user: str, answer: Callable[[], T]) -> T:
        """The answer, worked out in a thread. TooMany or TooLong instead of a queue without an end."""
        if self._inside.get(user, 0) >= MOST_WAITING:
            raise TooMany(f"{MOST_WAITING} questions of {user or 'somebody'} are waiting already", hint="one by one")
        until = time.monotonic() + ANSWER_S
        self._inside[user] = self._inside.get(user, 0) + 1
        turn = self._turns.setdefault(user, asyncio.Semaphore(self._each))
        try:
            async with asyncio.timeout(ANSWER_S), turn:
                with time_to_read(until - time.monotonic()):  # a thread cannot be stopped from outside
                    return await anyio.to_thread.run_sync(answer, limiter=self._limiter)
        except TimeoutError:
            raise TooLong(f"no answer within {ANSWER_S:.0f} s", hint="a shorter time span") from None
        finally:
            self._inside[user] -= 1
            if not self._inside[user]:
                del self._inside[user]
                self._turns.pop(user, None)


class Lanes:
    """Both lanes of a server; made inside its event loop."""

    def __init__(self) -> None:
        self.quick, self.heavy = Lane(QUICK_THREADS, QUICK_EACH), Lane(HEAVY_THREADS, HEAVY_EACH)
