"""`best_fit`: each job where it ends latest within its deadline."""

from __future__ import annotations

from ..protocol import Batch, Plan


class BestFit:
    """Each job, as it comes, to the resource where it ends latest but still in time.

    Notes
    -----
    Named in Hao et al. 2014, section 1 ("postpones completion as far as the deadline allows"). A job that fits nowhere
    stays unplaced; without a deadline it goes where it ends last. Ties to the lowest resource. O(nm).

    References
    ----------
    Hao, Lu, Liu, Wen, Three grid job scheduling heuristics for data-intensive and computing-intensive jobs, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> BestFit().assign(Batch.of_times(np.array([[2.0, 3.0], [2.0, 5.0]]), deadline=np.array([4.0, 4.0]))).resource
    array([1, 0])
    """

    deadlines = True

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""
        from ..kernels import BEST_FIT, one_by_one

        return Plan(*one_by_one(batch.times, batch.free, batch.now, batch.deadline, BEST_FIT))
