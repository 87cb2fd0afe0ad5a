"""The one definition of a job that never ran, for a single job and for whole columns. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:  # an answer from a store asks for single jobs, without numpy
    import numpy as np


@overload
def never_ran(start: float, held_nothing: bool) -> bool: ...
@overload
def never_ran(start: np.ndarray, held_nothing: np.ndarray) -> np.ndarray: ...
def never_ran(start: float | np.ndarray, held_nothing: bool | np.ndarray) -> bool | np.ndarray:
    """Whether a job that is over never ran: it has no start, or it is known to have held nothing.

    Slurm gives a job that is cancelled in the queue a start, the instant at which it left.

    Parameters
    ----------
    start : float or array (n,)
        On any clock, seconds; NaN where there is none.
    held_nothing : bool or array (n,)
        The record says so: no node, no processor.

    Returns
    -------
    bool or array (n,)

    Examples
    --------
    >>> never_ran(100.0, True), never_ran(100.0, False), never_ran(float("nan"), False)
    (True, False, True)
    """
    return (start != start) | held_nothing
