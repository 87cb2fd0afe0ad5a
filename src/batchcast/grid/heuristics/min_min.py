"""`min_min`: the pair that completes first, again and again."""

from __future__ import annotations

import numpy as np

from ..protocol import Batch, Plan


class MinMin:
    """The (job, resource) pair of least completion time is placed, times move on, repeat.

    Notes
    -----
    Maheswaran et al. 1999 (after Ibarra and Kim 1977). Knows no deadlines. Ties to the lowest job, then the lowest
    resource. O(nm log n): the free time of a resource shifts all its jobs alike, so each keeps one sorted list.

    References
    ----------
    Maheswaran, Ali, Siegel, Hensgen, Freund, Dynamic mapping of a class of independent tasks onto heterogeneous
    computing systems, JPDC 59(2), 1999, doi:10.1006/jpdc.1999.1581.
    Ibarra, Kim, Heuristic algorithms for scheduling independent tasks on nonidentical processors, JACM 24(2), 1977,
    doi:10.1145/322003.322011.

    Examples
    --------
    >>> MinMin().assign(Batch.of_times(np.array([[4.0, 9.0], [2.0, 3.0]]))).resource
    array([0, 0])
    """

    deadlines = False

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""
        from ..kernels import pairs
        from ..orders import resource_orders

        orders = resource_orders(batch.times)
        never = np.full(len(batch.times), np.inf)
        return Plan(*pairs(batch.times, batch.free, never, orders, orders, False, 0.0))
