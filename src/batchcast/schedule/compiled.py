"""The decorator of every kernel: compiled once, cached on disk, exact floating point, no reference counting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
KEY = types.float64(*[types.float64] * 5)  # (now, submit, procs, planned, wait) -> key


def kernel(function: Callable[..., Any]) -> Any:
    """Compile with numba, without fast-math (schedules are compared start by start), cached where a place can be found.

    Kernels take arrays and allocate nothing: without numba's run-time (`_nrt`) no array is counted at every call,
    which was half of the kernel's time. Where no cache can be written (a read-only installation without a home
    directory) the kernel still compiles, at every start.
    """
    return _compiled(function, OPTIONS)


def inlined(function: Callable[..., Any]) -> Any:
    """The same for a kernel called from few places and often: passing a dozen arrays costs more than its work."""
    return _compiled(function, {**OPTIONS, "forceinline": True})


def allocating(function: Callable[..., Any]) -> Any:
    """The same for a kernel that makes arrays of its own."""
    return _compiled(function, {**OPTIONS, "_nrt": True})


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        return numba.njit(function, cache=True, **options)
    except RuntimeError:  # numba: no locator available for the cache
        return numba.njit(function, **options)


def compile_key(function: Callable[..., float]) -> Any:
    """A Python function of five float64 as machine code with an `address`; whatever numba raises when it cannot.

    The result must be kept as long as its address is used.
    """
    return numba.cfunc(KEY, error_model="numpy")(function)


@intrinsic
def call_address(context: Any, address: Any, *numbers: Any) -> Any:
    """Call the machine code of `compile_key` at an address: an indirect call, nothing looked up, nothing recompiled."""
    from llvmlite import ir

    def build(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        real = ir.DoubleType()
        kind = ir.FunctionType(real, [real] * 5)
        place, values = arguments[0], arguments[1]
        code = builder.inttoptr(place, kind.as_pointer())
        return builder.call(code, cgutils.unpack_tuple(builder, values))

    return types.float64(types.int64, types.UniTuple(types.float64, 5)), build
