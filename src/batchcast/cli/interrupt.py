# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends a command within a second, also in compiled code, and leaves no half-written file.

Also provides waits that SIGTERM and SIGINT end.
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
from typing import Any, NoReturn

GRACE_S = 0.6
"""Seconds that the main thread has to end by itself: to unwind, close files and remove the progress bar."""
CODE = 130
MESSAGE = "interrupted; nothing was left half written\n"


def end_on_interrupt() -> None:
    """Watch for SIGINT in a separate thread.

    Python runs signal handlers in the main thread, and only between two instructions of the interpreter; one call of a
    compiled kernel may take hours. Python's C handler writes the signal number to a pipe at once. The watching thread
    reads the pipe (kernels release the interpreter lock), gives the main thread `GRACE_S` seconds, and then ends the
    process. A command that handles signals itself (`stop_on_signals`) takes over the pipe.
    """
    here, there = os.pipe()
    os.set_blocking(there, False)
    signal.set_wakeup_fd(there, warn_on_full_buffer=False)
    sys.unraisablehook = _end_if_interrupted
    threading.Thread(target=_watch, args=(here,), name="interrupt", daemon=True).start()


def _end_if_interrupted(ignored: sys.UnraisableHookArgs) -> None:
    """End the process if Python is about to ignore Ctrl-C.

    In a destructor or an LLVM callback no exception can be raised: Python would print a traceback and continue, and
    numba would lack the code that the callback should have returned.
    """
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        end()
    sys.__unraisablehook__(ignored)


def _watch(pipe: int) -> None:
    """End the process `GRACE_S` seconds after SIGINT; `pipe` receives the number of each signal."""
    while number := os.read(pipe, 1):
        if number[0] == signal.SIGINT:
            time.sleep(GRACE_S)
            end()


def hurry() -> None:
    """End the process after `GRACE_S` seconds, unless it ends by itself before."""
    timer = threading.Timer(GRACE_S, end)
    timer.daemon = True
    timer.start()


def end() -> NoReturn:
    """End the process now: delete half-written files, stop worker processes, and show the terminal's cursor again."""
    if whole := sys.modules.get("batchcast.trace.whole_file"):
        whole.discard_unfinished()
    if processes := sys.modules.get("multiprocessing"):
        for child in processes.active_children():
            child.kill()
    cursor = "\r\x1b[2K\x1b[?25h" if os.isatty(2) else ""
    os.write(2, (cursor + MESSAGE).encode())
    os._exit(CODE)


def leave(code: Any) -> NoReturn:
    """End the process after the `atexit` functions and after writing all output, without freeing Python's objects.

    Python frees a million objects one by one before it ends, which takes 10 to 25 % of a command's time. The process
    ends in Python's normal way if threads must be waited for, under a profiler or debugger, or if the exit code is not
    a number.
    """
    tools = getattr(sys, "monitoring", None)  # from Python 3.12 on
    watched = sys.getprofile() or sys.gettrace() or (tools and any(map(tools.get_tool, range(6))))
    waited_for = any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())
    if watched or waited_for or sys.flags.inspect or not isinstance(code, int):
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # no stream, closed pipe, closed stream: Python ignores these too
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(code)


def stop_on_signals() -> Callable[[float], bool]:
    """Return a function that waits some seconds; it returns true if SIGTERM or SIGINT arrives or has arrived before.

    After SIGINT the process has `GRACE_S` seconds to end, like any other command; after SIGTERM it has unlimited time.
    """
    import select
    import socket

    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGINT, lambda *_: hurry())

    def stop(seconds: float, keep_open: socket.socket = theirs) -> bool:
        return bool(select.select([ours], [], [], seconds)[0])

    return stop
