"""`fast_fit`: each job on the fastest resource that is free now."""

from __future__ import annotations

from ..protocol import Batch, Plan


class FastFit:
    """Each job, as it comes, to the fastest free resource: the one that runs it shortest of those free now.

    Notes
    -----
    Named in Hao et al. 2014, section 1 ("tries to give the job to the fastest resource"), without a formula; here
    fastest means least expected time of this job, and while no resource is free the one that is free first takes it.
    Knows no deadlines. Ties to the lowest resource. O(nm).

    References
    ----------
    Hao, Lu, Liu, Wen, Three grid job scheduling heuristics for data-intensive and computing-intensive jobs, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> FastFit().assign(Batch.of_times(np.array([[2.0, 3.0], [2.0, 3.0], [2.0, 1.0]]))).resource
    array([0, 1, 0])
    """

    deadlines = False

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""
        from ..kernels import FAST_FIT, one_by_one

        return Plan(*one_by_one(batch.times, batch.free, batch.now, batch.deadline, FAST_FIT))
