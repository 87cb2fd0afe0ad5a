"""What is given to `evaluate` and `replay`, checked before anything runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError, UsageError
from ..table import Trace


def check_log(trace: Trace) -> None:
    """UsageError for what is no log, InputError for one without a job."""
    if not isinstance(trace, Trace):
        forms = "a Trace, as read_trace, Trace.from_arrays and from_arrow make it"
        raise UsageError(f"trace: a {type(trace).__name__} (accepted: {forms})")
    if not len(trace):
        raise InputError(f"{trace.info.source}: no job is left", hint="a wider selection")


def jobs_mask(name: str, mask: Any, trace: Trace) -> np.ndarray:
    """One boolean a job, all true where nothing is given; UsageError for another shape.

    >>> jobs_mask("mask", None, Trace.from_arrays({"submit_time": [0.0, 1.0]}))
    array([ True,  True])
    """
    inside = np.ones(len(trace), bool) if mask is None else np.asarray(mask)
    if inside.shape != (len(trace),) or inside.dtype != bool:
        what = f"{inside.dtype} of shape {inside.shape}"
        raise UsageError(f"{name}: {what} (accepted: one boolean for each of the {len(trace):,} jobs)")
    return inside
