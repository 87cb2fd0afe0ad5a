# SPDX-License-Identifier: Apache-2.0
"""Correct the gain of the best of several schedules for the selection.

The shortest of several mean waits is partly short by chance. Half of the weeks choose a schedule, the other half of
the weeks judge it, and the reverse. What the choice promised beyond what the other weeks confirm is its optimism.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..metrics.bursts import WEEK_S


def optimism(changes: Mapping[str, np.ndarray], submit_time: np.ndarray) -> float:
    """Return by how many seconds the smallest of several mean waits is too small on average, because it was selected.

    Parameters
    ----------
    changes
        The change in wait of each job against today's schedule under each candidate, seconds, shape (n,), NaN unknown.
    submit_time
        Submission of each job, seconds, shape (n,). Jobs of even weeks form one half, jobs of odd weeks the other.

    Returns
    -------
    float
        At least 0. It is 0 for one candidate, if both halves choose the same candidate, or if a half has no job.

    Examples
    --------
    >>> week = np.repeat(np.arange(4) * 7 * 86400.0, 2)
    >>> even = np.arange(8) // 2 % 2 == 0
    >>> one, other = np.where(even, -60.0, 0.0), np.where(even, 0.0, -40.0)
    >>> optimism({"one": one, "other": other}, week), optimism({"one": one}, week)
    (30.0, 0.0)
    """
    if len(changes) < 2 or not len(submit_time):
        return 0.0
    table = np.array(list(changes.values()), float)
    known = ~np.isnan(table).any(axis=0)
    table, submit_time = table[:, known], submit_time[known]
    if not known.any():
        return 0.0
    is_even = ((submit_time - submit_time.min()) // WEEK_S).astype(int) % 2 == 0
    if not is_even.any() or is_even.all():
        return 0.0
    even, odd = table[:, is_even].mean(axis=1), table[:, ~is_even].mean(axis=1)
    share = float(is_even.mean())
    confirmed = share * even[np.argmin(odd)] + (1 - share) * odd[np.argmin(even)]
    return max(0.0, float(confirmed - table.mean(axis=1).min()))
