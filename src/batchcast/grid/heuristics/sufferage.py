"""`sufferage`: the job that would lose most by its second best resource goes first."""

from __future__ import annotations

import numpy as np

from ..protocol import Batch, Plan


class Sufferage:
    """The job of largest sufferage (second best minus best completion) is placed on its best resource, repeat.

    Notes
    -----
    The form with one assignment a step (Casanova et al. 2000; Gogos et al. 2016); for Maheswaran's passes see
    `sufferage_m99`. Knows no deadlines; a job with one resource suffers infinitely. Ties to the lowest job, then
    resource. O(n^2) and a rescan of m resources whenever a job's best or second best moved.

    References
    ----------
    Casanova, Legrand, Zagorodnov, Berman, Heuristics for scheduling parameter sweep applications in grid environments,
    HCW 2000, doi:10.1109/HCW.2000.843757.

    Examples
    --------
    >>> Sufferage().assign(Batch.of_times(np.array([[4.0, 5.0], [2.0, 9.0]]))).order
    array([1, 0])
    """

    deadlines = False

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""
        from ..kernels import SUFFERAGE, jobs_by_key

        never = np.full(len(batch.times), np.inf)
        return Plan(*jobs_by_key(batch.times, batch.times.T.copy(), batch.free, never, SUFFERAGE, 0.0))
