# SPDX-License-Identifier: Apache-2.0
"""Heuristics that plan only jobs that can end by their deadlines: `emin_min`, `ebest`, `esufferage`, `asjs`."""

from __future__ import annotations

from typing import Literal

import numpy as np

from batchcast.broker.model import Batch, Plan
from batchcast.broker.preference import share


class EminMin:
    """Min-min over pairs of job and resource that meet the job's deadline, urgent jobs first.

    Parameters
    ----------
    urgent
        Jobs that fewer than this share of the resources can finish in time are placed first; 0 switches this rule off.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Algorithm 1 of Hao et al. 2014: among pairs with c(i,j) <= deadline_i (equations 2 and 3) the pair with the least
    completion time c is placed, and the step is repeated. The code departs from the printed pseudo code, in which the
    minimum starts at 0 and run times Ext are compared; we consider these two details misprints. Urgent jobs (section 3)
    are placed before all others, earliest deadline first, on the resource on which they complete first. A job that no
    resource can finish in time stays unplaced. Ties go to the first job, then to the first resource. O(nm log n).

    References
    ----------
    Hao, Lu, Liu, Wen, Three grid job scheduling heuristics for data-intensive and computing-intensive jobs, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> EminMin(0.6).assign(Batch.of_times(np.array([[4.0, 9.0], [2.0, 3.0]]), deadline=np.array([4.0, 4.0]))).resource
    array([0, 1])
    """

    deadlines = True

    def __init__(self, urgent: float = 0.2) -> None:
        self.urgent = share(urgent)

    def assign(self, batch: Batch) -> Plan:
        """Return the plan for the waiting jobs."""
        return by_pair(batch, False, self.urgent)


def by_pair(batch: Batch, latest: bool, urgent: float) -> Plan:
    """Repeatedly place the (job, resource) pair with the earliest completion or, if `latest` is true, with the least
    slack; urgent jobs first."""
    from ..kernels import pairs, resource_orders

    orders = resource_orders(batch.times, batch.deadline if latest else None)
    by_slack = resource_orders(batch.times, batch.deadline) if urgent and not latest else orders
    return Plan(*pairs(batch.times, batch.free, batch.deadline, orders, by_slack, latest, urgent * len(batch.free)))


def by_key(batch: Batch, rule: str, urgent: float) -> Plan:
    """Repeatedly place the job with the largest key on its best resource, urgent jobs first; `rule` is the name of the
    key's constant in `grid.kernels`."""
    from .. import kernels

    by_resource, limit = np.ascontiguousarray(batch.times.T), urgent * len(batch.free)
    key = getattr(kernels, rule)
    return Plan(*kernels.jobs_by_key(batch.times, by_resource, batch.free, batch.deadline, key, limit))


class Ebest:
    """Repeatedly places the feasible (job, resource) pair with the least slack, deadline_i - completion(i,j) >= 0.

    Parameters
    ----------
    urgent
        Jobs that fewer than this share of the resources can finish in time are placed first; 0 switches this rule off.
    reading
        `pair` (the rule above), or `job`, another interpretation of Hao et al. 2014's "jobs with pressing deadlines
        first": the job with the least slack at its earliest completion goes first. The reading `job` delays jobs less,
        and its mean results are closer to the means that the paper prints.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Algorithm 2 of Hao et al. 2014 (equation 11): jobs run as late as their deadlines allow. The urgent rule is the same
    as in `emin_min`. If no job has a deadline, every slack is infinite and jobs go in index order to the first resource
    that can run them. Ties go to the first job, then to the first resource. O(nm log n).

    References
    ----------
    Hao, Lu, Liu, Wen, Three grid job scheduling heuristics for data-intensive and computing-intensive jobs, 2014.

    Examples
    --------
    >>> Ebest(urgent=0).assign(Batch.of_times(np.array([[4.0, 9.0], [2.0, 3.0]]), deadline=np.array([9.0, 4.0]))).order
    array([0, 1])
    """

    deadlines = True

    def __init__(self, urgent: float = 0.2, reading: Literal["pair", "job"] = "pair") -> None:
        if reading not in ("pair", "job"):
            raise ValueError(f"reading {reading!r} (accepted: pair, job)")
        self.urgent, self.reading = share(urgent), reading

    def assign(self, batch: Batch) -> Plan:
        """Return the plan for the waiting jobs."""
        return by_key(batch, "LEAST_SLACK", self.urgent) if self.reading == "job" else by_pair(batch, True, self.urgent)


class Esufferage:
    """Repeatedly places the job with the largest difference between its two earliest feasible completion times.

    Parameters
    ----------
    urgent
        Jobs that fewer than this share of the resources can finish in time are placed first; 0 switches this rule off.
    lone
        A job with one feasible resource goes `first` (its second completion is infinite), or `last` (its sufferage is
        0, which is another reading of the printed pseudo code, because that code never sets the second completion).

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Algorithm 3 of Hao et al. 2014. The urgent rule is the same as in `emin_min`. Ties go to the first job, then to the
    first resource. The cost is O(n^2), and a scan of m resources whenever a job's best or second-best resource changed.

    References
    ----------
    Hao, Lu, Liu, Wen, Three grid job scheduling heuristics for data-intensive and computing-intensive jobs, 2014.

    Examples
    --------
    >>> Esufferage(0).assign(Batch.of_times(np.array([[4.0, 5.0], [2.0, 9.0]]), deadline=np.array([9.0, 8.0]))).order
    array([1, 0])
    """

    deadlines = True

    def __init__(self, urgent: float = 0.2, lone: Literal["first", "last"] = "first") -> None:
        if lone not in ("first", "last"):
            raise ValueError(f"lone {lone!r} (accepted: first, last)")
        self.urgent, self.lone = share(urgent), lone

    def assign(self, batch: Batch) -> Plan:
        """Return the plan for the waiting jobs."""
        return by_key(batch, "SUFFERAGE" if self.lone == "first" else "LONE_LAST", self.urgent)


class Asjs:
    """Assigns each job on arrival to the resource with the highest cluster score a ATP + b ACP that meets the deadline.

    Parameters
    ----------
    compute
        The weight b of the computing score ACP, in [0, 1], with a = 1 - b; the default is `data_share`, as in table 1
        of Hao et al. 2014.
    data_share
        The share of jobs that have input files.
    urgent
        Jobs that fewer than this share of the resources can finish in time are placed first; 0 switches this rule off.
    load_unit
        The amount of assigned work that counts as a full load, as a multiple of the waiting jobs' mean least time
        (chosen by `reproduce grid --sweep`).

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    Only the abstract and citations of the paper were available (papers/grid-heuristics.md). ATP is the mean available
    bandwidth to the other clusters (the bandwidth of the narrower of the two links); ACP is speed * (1 - load). In this
    implementation, every resource is a cluster of one machine. The load of a resource is its assigned work divided by
    `load_unit`, and exceeds 1 if jobs queue. ATP and ACP are divided by their means over the grid, because the sources
    give no common unit. The score changes with each placement (local update) and with each mapping event (global
    update). The urgent rule is from Hao et al. ("used in the experiments"); a resource that would miss the job's
    deadline is skipped. If only a matrix is known, a resource's speed is the inverse of its mean time. Ties go to the
    first resource. The cost is O(n^2 + nm), or O(nm) with urgent=0.

    References
    ----------
    Chang, Lin, Lin, An adaptive scoring job scheduling algorithm for grid computing, Information Sciences 207, 2012,
    doi:10.1016/j.ins.2012.04.019.
    Hao, Lu, Liu, Wen, Three grid job scheduling heuristics for data-intensive and computing-intensive jobs, 2014.

    Examples
    --------
    >>> Asjs().assign(Batch.of_times(np.array([[2.0, 3.0], [2.0, 3.0]]))).resource
    array([0, 1])
    """

    deadlines = True

    def __init__(
        self, compute: float | None = None, data_share: float = 0.5, urgent: float = 0.2, load_unit: float = 1.1
    ) -> None:
        self.compute = share(data_share if compute is None else compute)
        self.urgent = share(urgent)
        if not load_unit > 0:
            raise ValueError("load_unit is a number above 0")
        self.load_unit = load_unit

    def assign(self, batch: Batch) -> Plan:
        """Return the plan for the waiting jobs."""
        from ..kernels import by_score

        times = batch.times
        if not len(times):
            return Plan(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        speed = batch.speed
        if np.isnan(speed).any():
            finite = np.isfinite(times)
            speed = finite.sum(axis=0) / np.maximum(np.where(finite, times, 0.0).sum(axis=0), 1e-300)
        link = _mean_links(batch.bandwidth) if np.isfinite(batch.bandwidth).all() else np.ones(len(speed))
        least = times.min(axis=1)
        unit = self.load_unit * float(least[np.isfinite(least)].mean()) if np.isfinite(least).any() else 1.0
        power, link = self.compute * speed / speed.mean(), (1.0 - self.compute) * link / link.mean()
        limit = self.urgent * len(speed)
        return Plan(*by_score(times, batch.free, batch.now, batch.deadline, power, link, unit or 1.0, limit))


def _mean_links(bandwidth: np.ndarray) -> np.ndarray:
    """Return each resource's mean bandwidth (of the narrower link) to the other resources. O(m log m)."""
    m = len(bandwidth)
    if m == 1:
        return bandwidth
    order = np.argsort(bandwidth, kind="stable")
    narrow = bandwidth[order]
    below = np.concatenate([[0.0], np.cumsum(narrow)[:-1]])
    means = np.empty(m)
    means[order] = (below + narrow * (m - 1 - np.arange(m))) / (m - 1)
    return means
