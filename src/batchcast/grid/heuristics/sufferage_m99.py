"""`sufferage_m99`: sufferage in whole passes, as first published."""

from __future__ import annotations

from ..protocol import Batch, Plan


class SufferageM99:
    """Passes: each job tentatively takes its best resource, giving way to a later one that suffers strictly more.

    Notes
    -----
    Maheswaran et al. 1999, figure 3. A pass gives each resource at most one job; free times move after it. Knows no
    deadlines. Ties stay with the lower job. O(passes n m).

    References
    ----------
    Maheswaran, Ali, Siegel, Hensgen, Freund, Dynamic mapping of a class of independent tasks onto heterogeneous
    computing systems, JPDC 59(2), 1999, doi:10.1006/jpdc.1999.1581.

    Examples
    --------
    >>> import numpy as np
    >>> SufferageM99().assign(Batch.of_times(np.array([[4.0, 5.0], [2.0, 9.0]]))).order
    array([1, 0])
    """

    deadlines = False

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""
        from ..kernels import sufferage_passes

        return Plan(*sufferage_passes(batch.times, batch.free))
