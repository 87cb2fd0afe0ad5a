# SPDX-License-Identifier: Apache-2.0
"""The broker's own heuristic, `by_preference`: time and cost of jobs that can end by their deadlines."""

from __future__ import annotations

import numpy as np

from .model import Batch, Plan


class ByPreference:
    """Places each job on the resource with the least sum of time and cost, weighted by the job's user.

    Parameters
    ----------
    cost
        Weight of cost against time for jobs that have no weight, 0 (time alone, which is `emin_min`) to 1 (cost alone).
    urgent
        Jobs that fewer than this share of the resources can finish in time are placed first; 0 switches this rule off.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Hao et al. name users' preferences as future work; the formula is our own. Job i with weight w goes to the resource
    j with the least (1 - w) (c(i,j) - now) / T_i + w p_j Ext(i,j) / C_i, among the resources that end the job in time:
    c is the completion, p the price of a time unit, T_i and C_i are the job's mean run time and mean cost over the
    resources that can run it. The job with the earliest completion at its chosen resource is placed, and the step is
    repeated. Without prices only time counts. Ties go to the first job, then to the first resource. The cost is O(n^2 +
    nm), and a scan of m resources whenever another job took a job's resource.

    References
    ----------
    Hao, Lu, Liu, Wen, Three grid job scheduling heuristics for data-intensive and computing-intensive jobs, 2014.

    Examples
    --------
    >>> batch = Batch.of_times(np.array([[4.0, 5.0]]))._replace(price=np.array([3.0, 1.0]))
    >>> ByPreference(cost=0).assign(batch).resource, ByPreference(cost=1).assign(batch).resource
    (array([0]), array([1]))
    """

    deadlines = True

    def __init__(self, cost: float = 0.5, urgent: float = 0.2) -> None:
        if not 0.0 <= cost <= 1.0:
            raise ValueError("cost is a weight, 0 to 1")
        self.cost, self.urgent = cost, share(urgent)

    def assign(self, batch: Batch) -> Plan:
        """Return the plan for the waiting jobs."""
        times, free = batch.times, batch.free.copy()
        n, m = times.shape
        slower, dearer = self._weighted(batch)
        ends = np.where(np.isfinite(times) & (free + times <= batch.deadline[:, None]), free + times, np.inf)
        chosen, finish = np.zeros(n, dtype=np.int64), np.full(n, np.inf)
        stale, waits = np.arange(n), np.ones(n, dtype=bool)
        resource = np.full(n, -1, dtype=np.int64)
        placed: list[int] = []
        while waits.any():
            if len(stale):
                can_end = np.isfinite(ends[stale])
                sums = slower[stale, None] * np.where(can_end, ends[stale] - batch.now, 0.0) + dearer[stale]
                chosen[stale] = np.where(can_end, sums, np.inf).argmin(axis=1)
                finish[stale] = ends[stale, chosen[stale]]
            able = np.isfinite(ends).sum(axis=1)
            pressing = np.flatnonzero(waits & (able > 0) & (able < self.urgent * m))
            if len(pressing):
                job = int(pressing[batch.deadline[pressing].argmin()])
            else:
                job = int(np.where(waits, finish, np.inf).argmin())
            if not (waits[job] and finish[job] < np.inf):
                break
            column = int(chosen[job])
            resource[job], waits[job] = column, False
            placed.append(job)
            free[column] += times[job, column]
            later = free[column] + times[:, column]
            ends[:, column] = np.where(np.isfinite(times[:, column]) & (later <= batch.deadline), later, np.inf)
            stale = np.flatnonzero(waits & (chosen == column))
        return Plan(np.array(placed, dtype=np.int64), resource)

    def _weighted(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Return, for the weighted sum of time and cost, each job's factor (n,) of the time to completion and the
        weighted costs (n, m)."""
        times, fits = batch.times, np.isfinite(batch.times)
        count = np.maximum(fits.sum(axis=1), 1)
        own = np.full(len(times), np.nan) if batch.cost_weight is None else batch.cost_weight
        weight = np.where(np.isnan(own), self.cost, own) if batch.price is not None else np.zeros(len(times))
        known = np.where(fits, times, 0.0)
        cost = known * (0.0 if batch.price is None else batch.price)
        mean_time, mean_cost = known.sum(axis=1) / count, cost.sum(axis=1) / count
        slower = (1.0 - weight) / np.where(mean_time > 0, mean_time, 1.0)
        return slower, (weight / np.where(mean_cost > 0, mean_cost, 1.0))[:, None] * cost


def share(value: float) -> float:
    """Return a share of the resources (a job is urgent if fewer resources can finish it in time); ValueError if the
    share is not between 0 and 1."""
    if not 0.0 <= value <= 1.0:
        raise ValueError("urgent is a share of the resources, 0 to 1")
    return value
