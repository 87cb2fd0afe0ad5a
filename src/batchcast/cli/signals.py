"""Waiting that SIGTERM and SIGINT end."""

from __future__ import annotations

from collections.abc import Callable


def stop_on_signals() -> Callable[[float], bool]:
    """Waits so many seconds; true as soon as SIGTERM or SIGINT has come, also one that came between two waits.

    After SIGINT the process has as long as any other command to end; after SIGTERM, as long as it needs.
    """
    import select
    import signal
    import socket

    from .interrupt import hurry

    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: hurry())

    def stop(seconds: float, keep_open: socket.socket = theirs) -> bool:
        return bool(select.select([ours], [], [], seconds)[0])

    return stop
