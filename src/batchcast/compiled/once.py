# SPDX-License-Identifier: Apache-2.0
"""A lock between processes: the first that wants a kernel compiles it, the others wait and load it.

And the line on a terminal that says so.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

from numba.core import compiler_lock, runtime
from numba.core import event as compiler

from .versions import declare

KIND = "numba:compile"
LEFT = "\r\x1b[2K"  # back to the left edge, the line emptied


class CompilerLine(compiler.Listener):
    """Redraws one line of stderr at every kernel of ours that the compiler takes up; nested ones are part of it."""

    def __init__(self) -> None:
        self.depth = 0
        self.count = 0

    @contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """Another process has taken it up: said while that lasts, for reading what it leaves makes no event."""
        shown = sys.stderr.isatty()
        if shown:
            line = f"batchcast: another process compiles {name}: waiting for it"
            sys.stderr.write(LEFT + line[:79])
            sys.stderr.flush()
        try:
            yield
        finally:
            if shown:
                sys.stderr.write(LEFT)
                sys.stderr.flush()

    def on_start(self, event: Any) -> None:
        """The compiler takes up a kernel."""
        function = event.data["dispatcher"].py_func
        self.depth += 1
        if not function.__module__.startswith("batchcast.") or not sys.stderr.isatty():
            return
        self.count += 1
        name = f"{function.__module__.removeprefix('batchcast.')}.{function.__name__}"
        line = f"batchcast: compiling, once for this machine, a minute at most: {self.count} kernels, now {name}"
        sys.stderr.write(LEFT + line[:79])
        sys.stderr.flush()

    def on_end(self, event: Any) -> None:
        """A kernel is compiled; the line is taken away with the outermost one."""
        self.depth -= 1
        if self.depth == 0 and self.count and sys.stderr.isatty():
            sys.stderr.write(LEFT)
            sys.stderr.flush()


@cache
def watch_compiler() -> CompilerLine:
    """Listen to numba from now on; once a process."""
    register: Any = compiler.register
    line = CompilerLine()
    register(KIND, line)
    return line


LOCK: Any = compiler_lock  # numba has no annotations here
SYSTEM: Any = runtime
FILE = "compiling"
RUNTIME = b"NRT_"  # begins the names of numba's run-time; called where nobody has set it up they end the process
_held: set[int] = set()


def compile_once(compiled: Any, folder: str, keep: Callable[[], None]) -> None:
    """Let a dispatcher with its cache in `folder` compile each kind of arguments in one process at a time.

    A kernel has a byte of one file, held while it is compiled or read (a record lock of POSIX, gone with its process).
    It asks for those that it calls while it holds its own; calls have no cycles, so nobody waits in one. numba's own
    lock is taken first: threads of a process wait there. Where a file cannot be locked each compiles for itself.
    `keep` gives the dispatcher its cache, once.
    """
    name = f"{compiled.py_func.__module__}.{compiled.py_func.__qualname__}".removeprefix("batchcast.")
    compile_here: Callable[[Any], Any] = compiled.compile

    find_place = cache(keep)

    def compile_alone(kinds: Any) -> Any:
        with LOCK.global_compiler_lock, _alone(folder, name):
            find_place()
            return compile_here(kinds)

    compiled.compile = compile_alone


def read_alone(compiled: Any) -> None:
    """Let a dispatcher read its machine code from disk without numba's declarations, which only compiling needs.

    numba brings in all it knows to compile before it looks on disk, a quarter of a second at every start; its compiler
    does so anyway where nothing is found. Code that allocates, itself or in what it calls, needs numba's run-time.
    """
    kept = compiled._cache
    rebuild = kept._impl.rebuild

    def with_runtime(target: Any, stored: Any) -> Any:
        _name, _kind, (machine_code, _bitcode) = stored[0]
        if RUNTIME in machine_code:
            SYSTEM.rtsys.initialize(target)
        return rebuild(target, stored)

    def read(kinds: Any, target: Any) -> Any:
        with kept._guard_against_spurious_io_errors():
            if found := kept._load_overload(kinds, target):
                return found
        declare()
        return None

    kept._impl.rebuild = with_runtime
    kept.load_overload = read


@contextmanager
def _alone(folder: str, name: str) -> Iterator[None]:
    place = crc32(name.encode())
    if place in _held:
        yield
        return
    with suppress(OSError):  # no locks in that file system
        _take(_opened(folder, os.getpid()), place, name)
    _held.add(place)
    try:
        yield
    finally:
        _held.discard(place)
        with suppress(OSError):
            fcntl.lockf(_opened(folder, os.getpid()), fcntl.LOCK_UN, 1, place)


def _take(file: int, place: int, name: str) -> None:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):  # somebody has it; POSIX allows both
        with watch_compiler().waiting(name):
            fcntl.lockf(file, fcntl.LOCK_EX, 1, place)


@cache
def _opened(folder: str, _process: int) -> int:
    """One file a process: closing any other of it would let go of all its locks."""
    return os.open(Path(folder) / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
