"""The decorator of every kernel: compiled once, cached on disk, exact floating point, no reference counting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile with numba, without fast-math (schedules are compared start by start), cached where a place can be found.

    Kernels take arrays and allocate nothing: without numba's run-time (`_nrt`) no array is counted at every call,
    which was half of the kernel's time. Where no cache can be written (a read-only installation without a home
    directory) the kernel still compiles, at every start.
    """
    return _compiled(function, OPTIONS)


def allocating(function: Callable[..., Any]) -> Any:
    """The same for a kernel that makes arrays of its own."""
    return _compiled(function, {**OPTIONS, "_nrt": True})


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        return numba.njit(function, cache=True, **options)
    except RuntimeError:  # numba: no locator available for the cache
        return numba.njit(function, **options)
