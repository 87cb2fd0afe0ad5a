"""`emin_min`: the pair that completes first among those that still meet their deadline."""

from __future__ import annotations

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
        from ..kernels import pairs
        from ..orders import resource_orders

        orders = resource_orders(batch.times)
        by_slack = resource_orders(batch.times, batch.deadline) if self.urgent else orders
        limit = self.urgent * len(batch.free)
        return Plan(*pairs(batch.times, batch.free, batch.deadline, orders, by_slack, False, limit))


def share(value: float) -> float:
    """The share of resources below which a job is pressing, checked: 0 to 1."""
    if not 0.0 <= value <= 1.0:
        raise ValueError("urgent is a share of the resources, 0 to 1")
    return value
