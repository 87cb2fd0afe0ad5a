"""The first use compiles: one line on a terminal says so and goes when it is done; a pipe sees nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from numba.core import event as compiler

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
