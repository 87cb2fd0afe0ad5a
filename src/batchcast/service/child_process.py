# SPDX-License-Identifier: Apache-2.0
"""An answer worked out in a process of its own: what goes over much history holds nobody else up.

A thread would share the interpreter with the event loop and with every other answer, and what it allocates would stay
with the server. A child has an interpreter of its own, runs at a lower priority, gives everything back at its end, and
can be ended at any moment. The question and its result are pickled over its pipes, from and to this program only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from ..errors import BatchcastError
from ..store.reader import TooLong, time_to_read

NICE = 5
MOST_MB = 500
"""What an answer may hold, a fitted model and what reads it (330 MB) included; with the server's own it stays below the
MemoryMax of its unit."""
LOOK_S = 0.1
MOST_BYTES = 2**26
_TOO_MUCH = 75
_CODE = "from batchcast.service.child_process import work; work()"
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
T = TypeVar("T")


async def in_child(answer: Callable[[], T], seconds: float) -> T:
    """The result of a call that pickles. What it raises of batchcast's errors is raised here, with its hint.

    Ended when this is cancelled, when this process ends, and when it holds more than `MOST_MB`: TooLong then, as after
    so many seconds. RuntimeError for a defect. Costs about a quarter of a second of CPU beside the answer.
    """
    starting = asyncio.ensure_future(_started())
    try:
        child = await asyncio.shield(starting)
        assert child.stdin is not None
        assert child.stdout is not None
        with contextlib.suppress(ConnectionError):  # it has ended already: its code says why
            child.stdin.write(pickle.dumps((NICE, MOST_MB, seconds, answer)))
            await child.stdin.drain()
        said = await child.stdout.read()  # its input stays open: the end of that is the end of this process
        code = await child.wait()
    finally:
        await _ended(starting)
    if code == _TOO_MUCH:
        raise TooLong(f"this answer takes more than {MOST_MB} MB", hint="a shorter time span")
    if code < 0:
        raise TooLong(f"this answer was ended by signal {-code}", hint="a shorter time span")
    if code:
        raise RuntimeError(f"the process of this answer ended with {code}")
    good, result = pickle.loads(said)
    if good:
        return cast(T, result)
    raise result


async def _started() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", _CODE,
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


def _environment() -> dict[str, str]:
    """As this process, its modules from the same places, and one thread for what would take every core."""
    places = os.pathsep.join(place for place in sys.path if place)
    return {**os.environ, "PYTHONPATH": places, **dict.fromkeys(_ONE_THREAD, "1")}


def work() -> None:
    """The child: one question from stdin, its result to stdout."""
    with contextlib.suppress(OSError):  # where memory is short, this process goes and not the server
        Path("/proc/self/oom_score_adj").write_text("1000")
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whoever prints does not print into the result
    nice, most_mb, seconds, answer = pickle.load(sys.stdin.buffer)
    os.nice(nice)
    threading.Thread(target=_watch, args=(most_mb,), daemon=True).start()
    result = pickle.dumps(_tried(answer, seconds))
    with out:
        out.write(result)


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
    left.register(0, select.POLLIN | select.POLLHUP)
    while not left.poll(1000 * LOOK_S):
        if int(Path("/proc/self/statm").read_text().split()[1]) * page > most_mb * 1e6:
            os._exit(_TOO_MUCH)
    os._exit(1)
