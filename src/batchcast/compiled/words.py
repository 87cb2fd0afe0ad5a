"""Sets as bits of int64 words: how many are in, and which is the first, one machine instruction each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import extending, types

WORD: Any = types.int64  # numba has no annotations here
COMPILED: Any = extending.intrinsic


def _of_a_word(build: Callable[[Any, Any], Any]) -> Callable[[int], int]:
    """What kernels call: the code that `build` makes of a builder and a word."""

    def instruction(_context: Any, word: Any) -> Any:
        return WORD(WORD), lambda _context, builder, _signature, arguments: build(builder, arguments[0])

    instruction.__name__ = instruction.__qualname__ = build.__name__
    compiled: Callable[[int], int] = COMPILED(instruction)
    return compiled


def _bits(builder: Any, word: Any) -> Any:
    return builder.ctpop(word)


def _lowest(builder: Any, word: Any) -> Any:
    return builder.cttz(word, ir.Constant(ir.IntType(1), 1))


bits = _of_a_word(_bits)  # how many bits are set
lowest = _of_a_word(_lowest)  # the place of the lowest bit set; of 0 it is not defined
