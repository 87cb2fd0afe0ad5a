"""`ebest`: the pair that uses up its deadline most closely."""

from __future__ import annotations

from ..protocol import Batch, Plan
from .emin_min import share


class Ebest:
    """The feasible pair of least slack ts(i,j) = deadline_i - c(i,j) >= 0 is placed, again and again.

    Hao et al. 2014, algorithm 2 (equation 11), so jobs run as late as their deadlines allow; urgent rule as in
    `emin_min`. Without deadlines every slack is infinite and jobs go in index order to the first resource that can
    hold them. Ties to the lowest job, then resource. O(nm log n).

    >>> import numpy as np
    >>> Ebest(urgent=0).assign(Batch.of_times(np.array([[4.0, 9.0], [2.0, 3.0]]), deadline=np.array([9.0, 4.0]))).order
    array([0, 1])
    """

    deadlines = True

    def __init__(self, urgent: float = 0.2) -> None:
        self.urgent = share(urgent)

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""
        from ..kernels import pairs, resource_orders

        by_slack = resource_orders(batch.times, batch.deadline)
        limit = self.urgent * len(batch.free)
        return Plan(*pairs(batch.times, batch.free, batch.deadline, by_slack, by_slack, True, limit))
