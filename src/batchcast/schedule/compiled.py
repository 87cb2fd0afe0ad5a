"""The decorator of every kernel: compiled once, cached on disk, exact floating point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile with numba, without fast-math (schedules are compared start by start), cached where a place can be found.

    Where no cache can be written (a read-only installation without a home directory) the kernel still compiles, at
    every start.
    """
    return _compiled(function, _nrt=False)


def allocating(function: F) -> F:
    """The same for a kernel that makes arrays of its own."""
    return _compiled(function)


def _compiled(function: F, **options: bool) -> F:
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)  # type: ignore[call-overload]
    except RuntimeError:  # numba: no locator available for the cache
        return numba.njit(nogil=True, error_model="numpy", **options)(function)  # type: ignore[call-overload]
