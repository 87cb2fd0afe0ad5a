# SPDX-License-Identifier: Apache-2.0
"""`emin_min`, `ebest` and `esufferage`: pairs among those that still meet their deadline."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..protocol import Batch, Plan


class EminMin:
    """Min-min over feasible pairs, pressing jobs first.

    Parameters
    ----------
    urgent
        Share of the resources: a job that fewer can still finish in time goes first; 0 switches the rule off.

    Raises
    ------
    ValueError
        For a number outside its range.

    Notes
    -----
    Algorithm 1 of the source: among pairs with c(i,j) <= deadline_i (equations 2 and 3) the least c is placed and
    repeated. Departures: the printed pseudo code starts its minimum at 0 and compares Ext; both are misprints. Urgent
    jobs (section 3) are placed at once, earliest deadline first, where they complete first. A job no resource can
    finish stays unplaced. Ties to the lowest job, then resource. O(nm log n).

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
        """The plan for the jobs waiting now."""
        from ..kernels import pairs, resource_orders

        orders = resource_orders(batch.times)
        by_slack = resource_orders(batch.times, batch.deadline) if self.urgent else orders
        limit = self.urgent * len(batch.free)
        return Plan(*pairs(batch.times, batch.free, batch.deadline, orders, by_slack, False, limit))


def share(value: float) -> float:
    """The share of resources below which a job is pressing, checked: 0 to 1."""
    if not 0.0 <= value <= 1.0:
        raise ValueError("urgent is a share of the resources, 0 to 1")
    return value


class Ebest:
    """The feasible pair of least slack ts(i,j) = deadline_i - c(i,j) >= 0 is placed, again and again.

    Parameters
    ----------
    urgent
        Share of the resources: a job that fewer can still finish in time goes first; 0 switches the rule off.
    reading
        `pair`, or `job`, another reading of the source's "jobs with pressing deadlines first": each job keeps its
        earliest completion and the job of least slack there goes first; it neither delays nor contradicts the printed
        means as much.

    Raises
    ------
    ValueError
        For a number outside its range.

    Notes
    -----
    Algorithm 2 of the source (equation 11), so jobs run as late as their deadlines allow; urgent rule as in `emin_min`.
    Without deadlines every slack is infinite and jobs go in index order to the first resource that can hold them. Ties
    to the lowest job, then resource. O(nm log n).

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
        """The plan for the jobs waiting now."""
        from ..kernels import LEAST_SLACK, jobs_by_key, pairs, resource_orders

        limit = self.urgent * len(batch.free)
        if self.reading == "job":
            by_resource = np.ascontiguousarray(batch.times.T)
            return Plan(*jobs_by_key(batch.times, by_resource, batch.free, batch.deadline, LEAST_SLACK, limit))
        by_slack = resource_orders(batch.times, batch.deadline)
        return Plan(*pairs(batch.times, batch.free, batch.deadline, by_slack, by_slack, True, limit))


class Esufferage:
    """The job of largest difference between its two smallest feasible completions goes to the first of them.

    Parameters
    ----------
    urgent
        Share of the resources: a job that fewer can still finish in time goes first; 0 switches the rule off.
    lone
        A job with one feasible resource goes `first` (its second completion is infinite), or `last`: it suffers
        nothing, another reading of the printed pseudo code, which never sets the second.

    Raises
    ------
    ValueError
        For a number outside its range.

    Notes
    -----
    Algorithm 3 of the source; urgent rule as in `emin_min`. Ties to the lowest job, then resource. O(n^2) and a rescan
    of m resources whenever a job's best or second best moved.

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
        """The plan for the jobs waiting now."""
        from ..kernels import LONE_LAST, SUFFERAGE, jobs_by_key

        rule = SUFFERAGE if self.lone == "first" else LONE_LAST
        limit = self.urgent * len(batch.free)
        by_resource = np.ascontiguousarray(batch.times.T)
        return Plan(*jobs_by_key(batch.times, by_resource, batch.free, batch.deadline, rule, limit))
