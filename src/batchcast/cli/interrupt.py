# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a command within a second, also one that is deep in compiled code.

And leaves no half-written file; and waiting that SIGTERM and SIGINT end.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

GRACE_S = 0.6
"""How long the main thread has to end by itself: to unwind, to close files, to take a progress bar away."""
CODE = 130
MESSAGE = "interrupted; nothing was left half written\n"


def end_on_interrupt() -> None:
    """Watch for SIGINT from a thread of its own.

    Python tells its main thread of a signal only between two steps of the interpreter, and a kernel may take hours in
    one. The C handler writes the signal's number to a pipe at once; the watching thread reads it (kernels release the
    interpreter lock), gives the main thread `GRACE_S`, and then ends the process. A command that minds signals itself
    (`stop_on_signals`) takes the pipe's place.
    """
    here, there = os.pipe()
    os.set_blocking(there, False)
    signal.set_wakeup_fd(there, warn_on_full_buffer=False)
    sys.unraisablehook = _end_if_interrupted
    threading.Thread(target=_watch, args=(here,), name="interrupt", daemon=True).start()


def _end_if_interrupted(ignored: sys.UnraisableHookArgs) -> None:
    """End the process if Python is about to ignore Ctrl-C.

    Nothing can be raised in a destructor or in a callback of LLVM's: Python would print a traceback there and go on,
    and numba would miss the code that the callback was to hand over.
    """
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        end()
    sys.__unraisablehook__(ignored)


def _watch(pipe: int) -> None:
    while number := os.read(pipe, 1):
        if number[0] == signal.SIGINT:
            time.sleep(GRACE_S)
            end()


def hurry() -> None:
    """End the process in `GRACE_S`, unless it ends by itself before."""
    timer = threading.Timer(GRACE_S, end)
    timer.daemon = True
    timer.start()


def end() -> NoReturn:
    """End the process now: half-written files and worker processes go, the terminal gets its cursor back."""
    if whole := sys.modules.get("batchcast.trace.whole_file"):
        whole.discard_unfinished()
    if processes := sys.modules.get("multiprocessing"):
        for child in processes.active_children():
            child.kill()
    cursor = "\r\x1b[2K\x1b[?25h" if os.isatty(2) else ""
    os.write(2, (cursor + MESSAGE).encode())
    os._exit(CODE)


def leave(code: object) -> NoReturn:
    """End the process with what `atexit` asks for and all that was written, and take no module apart.

    Python frees a million objects one by one before it ends, a tenth to a quarter of a command's time. It does so still
    where threads have to be waited for, under a profiler or debugger, or with an exit code that is no number.
    """
    tools = getattr(sys, "monitoring", None)  # from Python 3.12 on
    watched = sys.getprofile() or sys.gettrace() or (tools and any(map(tools.get_tool, range(6))))
    waited_for = any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())
    if watched or waited_for or sys.flags.inspect or not isinstance(code, int):
        sys.exit(code)  # type: ignore[arg-type]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # none, nobody reads it, closed: as Python ends
            stream.flush()
    os._exit(code)


def stop_on_signals() -> Callable[[float], bool]:
    """Waits so many seconds; true as soon as SIGTERM or SIGINT has come, also one that came between two waits.

    After SIGINT the process has as long as any other command to end; after SIGTERM, as long as it needs.
    """
    import select
    import signal
    import socket

    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: hurry())

    def stop(seconds: float, keep_open: socket.socket = theirs) -> bool:
        return bool(select.select([ours], [], [], seconds)[0])

    return stop
