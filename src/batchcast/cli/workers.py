"""Work over processes: a `map` of as many as are asked for."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any


@contextmanager
def workers(count: int | None) -> Iterator[Callable[..., Iterable[Any]]]:
    """A `map` over `count` processes (None: one a processor), in order; for one, this process's own.

    Ctrl-C is the asking process's to mind: it ends the others.
    """
    from concurrent.futures import ProcessPoolExecutor

    many = count or os.cpu_count() or 1
    if many == 1:
        yield map
        return
    pool = ProcessPoolExecutor(many, initializer=_leave_signals)
    try:
        yield partial(pool.map, chunksize=2)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _leave_signals() -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
