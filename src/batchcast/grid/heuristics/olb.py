"""`olb`: each job on the resource that is free first."""

from __future__ import annotations

from ..protocol import Batch, Plan


class Olb:
    """Each job, as it comes, to the resource that is free first, however slow it is (opportunistic load balancing).

    Notes
    -----
    Braun et al. 2001. Knows no deadlines. Ties to the lowest resource. O(nm).

    References
    ----------
    Braun et al., A comparison of eleven static heuristics for mapping a class of independent tasks onto heterogeneous
    distributed computing systems, JPDC 61(6), 2001, doi:10.1006/jpdc.2000.1714.

    Examples
    --------
    >>> import numpy as np
    >>> Olb().assign(Batch.of_times(np.array([[9.0, 3.0], [2.0, 3.0]]))).resource
    array([0, 1])
    """

    deadlines = False

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""
        from ..kernels import OLB, one_by_one

        return Plan(*one_by_one(batch.times, batch.free, batch.now, batch.deadline, OLB))
