"""`esufferage`: sufferage over the resources that still meet the deadline."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..protocol import Batch, Plan
from .emin_min import share


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
