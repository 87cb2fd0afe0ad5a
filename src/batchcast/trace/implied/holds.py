# SPDX-License-Identifier: Apache-2.0
"""Jobs held for what a log does not say: a dependency, a begin time, a hold, a throttle of an array."""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from ...events.recorded import outcome
from ...table import Nominal, Trace

PASSED = 2
"""How many of its like have to start before a job that was submitted before them."""
AHEAD_S = 600.0
ALIKE = (
    *("user_id", "account", "partition_id", "qos"),
    *("req_procs", "req_time", "req_nodes", "req_mem_kib", "req_gpus", "nice", "features"),
)


def find_held(trace: Trace) -> np.ndarray:
    """Which jobs (n,) were held: two of the same user and request, submitted later, started ten minutes before.

    No order of a queue passes a job for its like of the same user, so it was not eligible. Jobs of an unknown user are
    never called held. O(n log n).

    >>> log = Trace.from_arrays({"submit_time": [0, 1, 2], "wait_time": [5000, 9, 9], "run_time": [9, 9, 9],
    ...                          "user_id": ["ada"] * 3})
    >>> find_held(log).tolist()
    [True, False, False]
    """
    submit, wait, run = outcome(trace)
    start = np.where(np.isnan(run), np.nan, submit + wait)
    codes = trace.nominal("user_id").codes.astype(np.int64)
    known = (codes >= 0) & ~np.isnan(start) & (trace.wait_time >= 0)
    kind = codes
    for name in ALIKE[1:]:
        if name in trace.names:
            values = (
                trace.nominal(name).codes if _is_nominal(trace, name) else np.nan_to_num(trace.number(name), nan=-1)
            )
            kind = np.unique(np.stack([kind, np.unique(values, return_inverse=True)[1]]), axis=1, return_inverse=True)[
                1
            ]
    held = np.zeros(len(trace), bool)
    rows = np.flatnonzero(known)
    order = rows[np.lexsort((rows, submit[rows], kind[rows]))]
    starts: list[float] = []
    last = -1
    for row in order[::-1].tolist():  # of each kind the latest submission first
        if kind[row] != last:
            starts, last = [], int(kind[row])
        held[row] = bisect_left(starts, start[row] - AHEAD_S) >= PASSED
        insort(starts, float(start[row]))
    return held


def with_releases(trace: Trace, held: np.ndarray) -> Trace:
    """The log with held jobs eligible when they started: what the record says of their release."""
    submit, wait, _ = outcome(trace)
    known = trace.number("eligible_time")
    eligible = np.where(held & np.isnan(known), submit + wait, known)
    return trace.with_columns({"eligible_time": eligible})


def _is_nominal(trace: Trace, name: str) -> bool:
    return isinstance(trace.at_submission().get(name), Nominal)
