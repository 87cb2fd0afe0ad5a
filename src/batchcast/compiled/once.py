# SPDX-License-Identifier: Apache-2.0
"""A lock between processes, so that only one process compiles a kernel, and other processes wait and load the result.

A line on the terminal shows what is being compiled.
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
LEFT = "\r\x1b[2K"  # terminal codes: go to the begin of the line and erase it


class CompilerLine(compiler.Listener):
    """Shows one line on stderr while batchcast's kernels are compiled. Nested compilations of kernels that a kernel
    calls are counted."""

    def __init__(self) -> None:
        self.depth = 0
        self.count = 0

    @contextmanager
    def waiting(self, name: str) -> Iterator[None]:
        """A context that shows that another process compiles a kernel. numba sends no event for loading the result."""
        _show(f"batchcast: another process compiles {name}: waiting for it")
        try:
            yield
        finally:
            _show("")

    def on_start(self, event: Any) -> None:
        """Show the name of the kernel whose compilation begins."""
        function = event.data["dispatcher"].py_func
        self.depth += 1
        if not function.__module__.startswith("batchcast.") or not sys.stderr.isatty():
            return
        self.count += 1
        name = f"{function.__module__.removeprefix('batchcast.')}.{function.__name__}"
        _show(f"batchcast: compiling, once for this machine, a minute at most: {self.count} kernels, now {name}")

    def on_end(self, event: Any) -> None:
        """Remove the line after the outermost kernel is compiled."""
        self.depth -= 1
        if self.depth == 0 and self.count:
            _show("")


def _show(line: str) -> None:
    """Show a line in place of the last line if stderr is a terminal; an empty text removes the last line."""
    if sys.stderr.isatty():
        sys.stderr.write(LEFT + line[:79])
        sys.stderr.flush()


@cache
def watch_compiler() -> CompilerLine:
    """Listen to numba's compiler events; once per process."""
    line = CompilerLine()
    compiler.register(KIND, line)
    return line


FILE = "compiling"
RUNTIME = b"NRT_"  # prefix of functions of numba's run-time, which crash the process if it is not initialised
_locked_here: set[int] = set()


def compile_once(compiled: Any, folder: str, keep: Callable[[], None]) -> None:
    """Let only one process at a time compile or load a kernel whose cache is in `folder`.

    Each kernel has one byte of a lock file. The byte is locked while the kernel is compiled (a POSIX record lock, which
    the system releases when the process ends). During the compilation of a kernel, the kernels that it calls are locked
    as well; calls have no cycles, so there is no deadlock. numba's own lock, which separates the threads of one
    process, is taken first. If the file system has no locks, each process compiles for itself. The function `keep` sets
    up the dispatcher's cache and is called once.
    """
    name = f"{compiled.py_func.__module__}.{compiled.py_func.__qualname__}".removeprefix("batchcast.")
    compile_here: Callable[[Any], Any] = compiled.compile

    find_place = cache(keep)

    def compile_alone(kinds: Any) -> Any:
        with compiler_lock.global_compiler_lock, _alone(folder, name):
            find_place()
            return compile_here(kinds)

    compiled.compile = compile_alone


def read_alone(compiled: Any) -> None:
    """Let a dispatcher load machine code without importing numba's declarations, which are needed only for compiling.

    numba imports them before it looks for the machine code, and the import takes a quarter of a second at every start.
    Code that allocates memory needs numba's run-time, so the run-time is initialised before such code is loaded.
    """
    kept = compiled._cache
    rebuild = kept._impl.rebuild

    def with_runtime(target: Any, stored: Any) -> Any:
        _name, _kind, (machine_code, _bitcode) = stored[0]
        if RUNTIME in machine_code:
            runtime.rtsys.initialize(target)
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
    """A context that locks one kernel against other processes."""
    place = crc32(name.encode())
    if place in _locked_here:
        yield
        return
    with suppress(OSError):  # the file system has no locks
        _take(_opened(folder, os.getpid()), place, name)
    _locked_here.add(place)
    try:
        yield
    finally:
        _locked_here.discard(place)
        with suppress(OSError):
            fcntl.lockf(_opened(folder, os.getpid()), fcntl.LOCK_UN, 1, place)


def _take(file: int, place: int, name: str) -> None:
    """Take the lock of a kernel, and show a message while it waits."""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):  # another process has the lock; POSIX allows either error
        with watch_compiler().waiting(name):
            fcntl.lockf(file, fcntl.LOCK_EX, 1, place)


@cache
def _opened(folder: str, _process: int) -> int:
    """Return the lock file, opened once per process, because closing any descriptor of the file would release all its
    locks.
    """
    return os.open(Path(folder) / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
