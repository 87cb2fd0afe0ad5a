"""Two processes that want the same kernel: one compiles it, the other waits and reads it, and neither ever hangs."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

from numba.core import compiler_lock

from .progress import watch_compiler

LOCK: Any = compiler_lock  # numba has no annotations here
FILE = "compiling"
_held: set[int] = set()


def compile_once(compiled: Any, folder: str) -> None:
    """Let a dispatcher with its cache in `folder` compile each kind of arguments in one process at a time.

    A kernel has a byte of one file, held while it is compiled or read (a record lock of POSIX, gone with its process).
    It asks for those that it calls while it holds its own; calls have no cycles, so nobody waits in one. numba's own
    lock is taken first: threads of a process wait there. Where a file cannot be locked each compiles for itself.
    """
    name = f"{compiled.py_func.__module__}.{compiled.py_func.__qualname__}".removeprefix("batchcast.")
    compile_here: Callable[[Any], Any] = compiled.compile

    def compile_alone(kinds: Any) -> Any:
        with LOCK.global_compiler_lock, _alone(folder, name):
            return compile_here(kinds)

    compiled.compile = compile_alone


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
