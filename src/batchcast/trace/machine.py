"""How big the machine must have been, from what ran on it at once."""

from __future__ import annotations

import numpy as np

from ..events.recorded import outcome
from ..table import Trace


def peak_procs(trace: Trace, rule: str = "alloc") -> float:
    """The most processors the recorded jobs ever held at once; NaN when no job has both a run time and processors.

    Starts and ends are the recorded clock's (a job without a wait starts at submit). At one instant ends come first,
    so a job that follows another on the same processors does not count twice. O(n log n).

    >>> log = Trace.from_arrays({"submit_time": [0, 5, 10], "run_time": [10, 10, 5], "alloc_procs": [4, 2, 4]})
    >>> peak_procs(log)
    6.0
    """
    submit, wait, run = outcome(trace)
    procs = trace.procs(rule)
    ran = (run > 0) & (procs > 0)
    if not ran.any():
        return float("nan")
    start = (submit + wait)[ran]
    time = np.concatenate([start, start + run[ran]])
    change = np.concatenate([procs[ran], -procs[ran]])
    order = np.lexsort((change, time))
    return float(np.cumsum(change[order]).max())
