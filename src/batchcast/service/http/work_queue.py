# SPDX-License-Identifier: Apache-2.0
"""Work queues for short requests and for requests that read much history. Users take turns.

A user who requests twenty reports does not delay other users. A child process (`child_process`) reads history, because
a thread would block the Python interpreter.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
from starlette.requests import Request

from ...errors import BatchcastError
from ...store.reader import TooLong, time_to_read
from ..answers.disclosure import Viewer
from ..child_process import in_child
from .admission import Peer

QUICK_AT_ONCE, HEAVY_AT_ONCE = 4, 1
QUICK_EACH, HEAVY_EACH = 2, 1
MOST_WAITING = 20
ANSWER_S = 120.0
T = TypeVar("T")


class TooManyWaiting(BatchcastError):
    """One user has too many open requests."""

    status = 429


class Asker(NamedTuple):
    """The names by which a request takes its turn and by which open requests are counted.

    For a known user both names are the user's name. Unknown users (over TCP) share one turn, so that they do not make
    known users wait longer. Connections of unknown users are counted separately, so that one connection does not block
    the others.
    """

    turn: str
    counted: str


def asker_of(viewer: Viewer, peer: Peer) -> Asker:
    """Return the names under which the work queues order and count a viewer's request on a connection."""
    return Asker(viewer.name, viewer.name) if viewer.name else Asker("", f"connection {id(peer)}")


class WorkQueue:
    """Answers at most `at_once` requests at the same time, and at most `each` per user, in order of arrival."""

    def __init__(self, at_once: int, each: int, work: Callable[[Callable[[], Any], float], Awaitable[Any]]) -> None:
        self._room = anyio.CapacityLimiter(at_once)
        self._each, self._work = each, work
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # only of open requests
        self._inside: Counter[str] = Counter()

    async def run(self, asker: Asker, answer: Callable[[], T]) -> T:
        """Wait for a turn and return the answer. Raises TooManyWaiting if the user has too many open requests, TooLong
        after `ANSWER_S` seconds.
        """
        if self._inside[asker.counted] >= MOST_WAITING:
            why = f"{MOST_WAITING} questions of {asker.turn or 'this connection'} are already waiting"
            raise TooManyWaiting(why, hint="send one request after the other")
        until = time.monotonic() + ANSWER_S
        self._inside[asker.counted] += 1
        turn = self._turns.setdefault(asker.turn, asyncio.Semaphore(self._each))
        try:
            async with asyncio.timeout(ANSWER_S), turn, self._room:
                result: T = await self._work(answer, until - time.monotonic())
                return result
        except TimeoutError:
            raise TooLong(f"no answer within {ANSWER_S:.0f} s", hint="a shorter time span") from None
        finally:
            self._inside -= Counter([asker.counted])


class WorkQueues:
    """The work queues of a server, created inside its event loop. The queue `watch` is for checks of the store, so that
    they do not wait for reports.
    """

    def __init__(self) -> None:
        self.quick = WorkQueue(QUICK_AT_ONCE, QUICK_EACH, in_thread)
        self.heavy = WorkQueue(HEAVY_AT_ONCE, HEAVY_EACH, in_child)
        self.watch = WorkQueue(HEAVY_AT_ONCE, HEAVY_EACH, in_child)


class ClientGone(BatchcastError):
    """The client has disconnected."""

    status = 499


async def while_asked(request: Request, answer: Coroutine[Any, Any, T]) -> T:
    """Return an answer. If the client disconnects before the work ends, cancel the work and raise ClientGone."""
    work, hung_up = asyncio.ensure_future(answer), asyncio.ensure_future(_hung_up(request))
    try:
        await asyncio.wait((work, hung_up), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ClientGone("the client no longer waits for this answer")
        return work.result()
    finally:
        for one in (work, hung_up):
            one.cancel()
        await asyncio.gather(work, hung_up, return_exceptions=True)


async def _hung_up(request: Request) -> None:
    """Return when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def in_thread(answer: Callable[[], T], seconds: float) -> T:
    """Run a call in a thread and return its result. A thread cannot be stopped, so the call must check the time limit
    itself.
    """
    with time_to_read(seconds):
        return await anyio.to_thread.run_sync(answer)
