"""`max_min`: the job whose best completion is last goes first."""

from __future__ import annotations

import numpy as np

from ..protocol import Batch, Plan


class MaxMin:
    """The job with the largest best completion time is placed on its best resource, again and again.

    Notes
    -----
    Maheswaran et al. 1999, section 3. Knows no deadlines. Ties to the lowest job, then resource. O(n^2) and a rescan
    of m resources whenever a job's best or second best moved.

    References
    ----------
    Maheswaran, Ali, Siegel, Hensgen, Freund, Dynamic mapping of a class of independent tasks onto heterogeneous
    computing systems, JPDC 59(2), 1999, doi:10.1006/jpdc.1999.1581.

    Examples
    --------
    >>> MaxMin().assign(Batch.of_times(np.array([[4.0, 9.0], [2.0, 3.0]]))).order
    array([0, 1])
    """

    deadlines = False

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""
        from ..kernels import LARGEST_FIRST, jobs_by_key

        never = np.full(len(batch.times), np.inf)
        return Plan(*jobs_by_key(batch.times, batch.times.T.copy(), batch.free, never, LARGEST_FIRST, 0.0))
