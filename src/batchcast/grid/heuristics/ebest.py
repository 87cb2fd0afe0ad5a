"""`ebest`: the pair that uses up its deadline most closely."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..protocol import Batch, Plan
from .emin_min import share


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
        from ..kernels import LEAST_SLACK, jobs_by_key, pairs
        from ..orders import resource_orders

        limit = self.urgent * len(batch.free)
        if self.reading == "job":
            by_resource = np.ascontiguousarray(batch.times.T)
            return Plan(*jobs_by_key(batch.times, by_resource, batch.free, batch.deadline, LEAST_SLACK, limit))
        by_slack = resource_orders(batch.times, batch.deadline)
        return Plan(*pairs(batch.times, batch.free, batch.deadline, by_slack, by_slack, True, limit))
