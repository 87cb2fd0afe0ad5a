# SPDX-License-Identifier: Apache-2.0
"""One burst is one piece of evidence: groups of one user's submissions of one week, and figures that none of them owns.

Users submit thousands of like jobs within minutes, all forecast (or scheduled) before the first has ended: a mean over
jobs counts one decision thousands of times. Pure functions on arrays.
"""

from __future__ import annotations

import numpy as np

WEEK_S = 7 * 86400.0


def user_weeks(user: np.ndarray, submit: np.ndarray, size: np.ndarray | None = None) -> np.ndarray:
    """The group of each job: one user's submissions of one week, as whole numbers from 0 (n,).

    Parameters
    ----------
    user
        Codes of users (n,), -1 where unknown.
    submit
        Seconds (n,); weeks are counted from the first submission.
    size
        Codes of size classes (n,), which part jobs of one week whose users are unknown (so a log without users is
        grouped by week and class); without them all such jobs of a week are one group.

    Returns
    -------
    int64 (n,), groups in order of week, then user (unknown ones first, by class). O(n log n).

    >>> user_weeks(np.array([0, 0, 1, 0]), np.array([0.0, 9.0, 9.0, 8 * 86400.0])).tolist()
    [0, 0, 1, 2]
    """
    user, submit = np.asarray(user, dtype=np.int64), np.asarray(submit, dtype=float)
    if not len(submit):
        return np.zeros(0, dtype=np.int64)
    classes = np.zeros(len(user), dtype=np.int64) if size is None else np.asarray(size, dtype=np.int64) + 1
    low = -1 - classes.max()
    who = np.where(user >= 0, user, -1 - classes) - low
    week = ((submit - submit.min()) // WEEK_S).astype(np.int64)
    return np.unique(week * (who.max() + 1) + who, return_inverse=True)[1].astype(np.int64)


def bursts(user: np.ndarray, submit: np.ndarray, gap: float = 3600.0) -> np.ndarray:
    """The burst of each job: one user's submissions, each within `gap` seconds of the one before, whole numbers (n,).

    `user` are codes (n,), `submit` seconds (n,) in any order. For figures of a single user within weeks, where
    `user_weeks` would leave a few groups; bursts of one user are still less apart than those of several. O(n log n).

    >>> bursts(np.array([0, 1, 0, 0]), np.array([0.0, 9.0, 3600.0, 7201.0])).tolist()
    [0, 2, 0, 1]
    """
    user, submit = np.asarray(user, dtype=np.int64), np.asarray(submit, dtype=float)
    order = np.lexsort((submit, user))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(user[order]) != 0) | (np.diff(submit[order]) > gap)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    return group


def group_mean(values: np.ndarray, group: np.ndarray) -> float:
    """The mean over groups of each group's mean: every group counts once, however many jobs it has. NaN of nothing.

    Unknown values (NaN) are left out, and with them groups of nothing else. O(n).

    >>> group_mean(np.array([1.0, 1.0, 1.0, 5.0]), np.array([0, 0, 0, 1]))
    3.0
    """
    known = ~np.isnan(values)
    count = np.bincount(group[known])
    there = count > 0
    if not there.any():
        return float("nan")
    return float((np.bincount(group[known], values[known])[there] / count[there]).mean())


def geometric_mean(values: np.ndarray) -> float:
    """exp of the mean logarithm of values above 0: what bounded slowdowns (1 to some thousands) are averaged by.

    Unknown values (NaN) are left out; NaN of nothing. Feitelson (JSSPP 2001, "Metrics for parallel job scheduling and
    their convergence") shows how few jobs decide the arithmetic mean of slowdowns. O(n).

    >>> round(geometric_mean(np.array([1.0, 100.0])), 6)
    10.0
    """
    values = values[~np.isnan(values)]
    return float(np.exp(np.log(values).mean())) if len(values) else float("nan")


def users_better_and_worse(difference: np.ndarray, user: np.ndarray) -> tuple[float, float]:
    """The shares of users whose mean difference is below and above 0; jobs of unknown users (-1) do not count.

    Unknown differences (NaN) are left out; (NaN, NaN) where no user is left. O(n).

    >>> users_better_and_worse(np.array([-5.0, 1.0, 2.0, 0.0]), np.array([0, 0, 1, 2]))
    (0.3333333333333333, 0.3333333333333333)
    """
    known = ~np.isnan(difference) & (user >= 0)
    if not known.any():
        return float("nan"), float("nan")
    total, count = np.bincount(user[known], difference[known]), np.bincount(user[known])
    mine = total[count > 0]
    return float((mine < 0).mean()), float((mine > 0).mean())


def top_share(values: np.ndarray, group: np.ndarray, most: int = 10) -> float:
    """The share of the sum of values (each 0 or more) that the `most` largest groups own. NaN where the sum is 0.

    >>> top_share(np.array([1.0, 1.0, 8.0]), np.array([0, 1, 2]), most=1)
    0.8
    """
    known = ~np.isnan(values)
    sums = np.sort(np.bincount(group[known], values[known]))[::-1] if known.any() else np.zeros(1)
    total = float(sums.sum())
    return float(sums[:most].sum()) / total if total > 0 else float("nan")
