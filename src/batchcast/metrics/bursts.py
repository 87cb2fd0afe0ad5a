# SPDX-License-Identifier: Apache-2.0
"""Group jobs into bursts of one user's submissions, and compute statistics in which each group counts once.

Users submit thousands of similar jobs within minutes, and all these jobs are predicted (or scheduled) before the first
job has ended. A mean over jobs would count one prediction or scheduling decision thousands of times.
"""

from __future__ import annotations

import numpy as np

from .measure import mean

WEEK_S = 7 * 86400.0


def user_weeks(user: np.ndarray, submit: np.ndarray, size: np.ndarray | None = None) -> np.ndarray:
    """Return group numbers from 0, shape (n,), that group jobs by user and week of submission, ordered by week, then by
    user.

    >>> user_weeks(np.array([0, 0, 1, 0]), np.array([0.0, 9.0, 9.0, 8 * 86400.0])).tolist()
    [0, 0, 1, 2]
    """
    # Weeks count from the first submission. The size classes split the jobs of unknown users (-1), so that a log
    # without users is grouped by week and size class.
    #
    # Costs O(n log n).
    user, submit = np.asarray(user, dtype=np.int64), np.asarray(submit, dtype=float)
    if not len(submit):
        return np.zeros(0, dtype=np.int64)
    classes = np.zeros(len(user), dtype=np.int64) if size is None else np.asarray(size, dtype=np.int64) + 1
    low = -1 - classes.max()
    who = np.where(user >= 0, user, -1 - classes) - low
    week = ((submit - submit.min()) // WEEK_S).astype(np.int64)
    return np.unique(week * (who.max() + 1) + who, return_inverse=True)[1].astype(np.int64)


def bursts(user: np.ndarray, submit: np.ndarray, gap: float = 3600.0) -> np.ndarray:
    """Group jobs into bursts: submissions of one user that follow each other within `gap` seconds.

    Use bursts for statistics of a single user within a few weeks, where `user_weeks` would give only a few groups.
    Bursts of one user are less independent of each other than groups of different users.

    >>> bursts(np.array([0, 1, 0, 0]), np.array([0.0, 9.0, 3600.0, 7201.0])).tolist()
    [0, 2, 0, 1]
    """
    # Costs O(n log n).
    user, submit = np.asarray(user, dtype=np.int64), np.asarray(submit, dtype=float)
    order = np.lexsort((submit, user))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(user[order]) != 0) | (np.diff(submit[order]) > gap)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.cumsum(new) - 1
    return group


def group_mean(values: np.ndarray, group: np.ndarray) -> float:
    """Compute the mean over groups of each group's mean.

    Every group counts once, independent of its number of jobs.

    >>> group_mean(np.array([1.0, 1.0, 1.0, 5.0]), np.array([0, 0, 0, 1]))
    3.0
    """
    known = ~np.isnan(values)
    count = np.bincount(group[known])
    has_jobs = count > 0
    return mean(np.bincount(group[known], values[known])[has_jobs] / count[has_jobs])


def geometric_mean(values: np.ndarray) -> float:
    """Compute the geometric mean of positive values.

    batchcast averages bounded slowdowns by the geometric mean, because slowdowns range from 1 to several thousand.

    >>> round(geometric_mean(np.array([1.0, 100.0])), 6)
    10.0
    """
    # Feitelson, "Metrics for parallel job scheduling and their convergence", JSSPP 2001, shows that few jobs dominate
    # the arithmetic mean of slowdowns.
    return float(np.exp(mean(np.log(values[~np.isnan(values)]))))


def users_better_and_worse(difference: np.ndarray, user: np.ndarray) -> tuple[float, float]:
    """Compute the fractions of users whose mean difference is negative and positive.

    >>> users_better_and_worse(np.array([-5.0, 1.0, 2.0, 0.0]), np.array([0, 0, 1, 2]))
    (0.3333333333333333, 0.3333333333333333)
    """
    known = ~np.isnan(difference) & (user >= 0)
    total, count = np.bincount(user[known], difference[known]), np.bincount(user[known])
    sums = total[count > 0]
    return mean(sums < 0), mean(sums > 0)


def top_share(values: np.ndarray, group: np.ndarray, most: int = 10) -> float:
    """Compute the fraction of a sum that comes from the largest groups.

    >>> top_share(np.array([1.0, 1.0, 8.0]), np.array([0, 1, 2]), most=1)
    0.8
    """
    known = ~np.isnan(values)
    sums = np.sort(np.bincount(group[known], values[known]))[::-1] if known.any() else np.zeros(1)
    total = float(sums.sum())
    return float(sums[:most].sum()) / total if total > 0 else float("nan")
