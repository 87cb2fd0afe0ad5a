# SPDX-License-Identifier: Apache-2.0
"""`mct`, `met`, `olb`, `fast_fit` and `best_fit`: each job by itself, in order of arrival."""

from __future__ import annotations

from ..protocol import Batch, Plan


class Mct:
    """Each job, as it comes, to the resource where it completes first (minimum completion time).

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
    >>> Mct().assign(Batch.of_times(np.array([[2.0, 3.0], [2.0, 3.0]]))).resource
    array([0, 1])
    """

    deadlines = False

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""
        from ..kernels import MCT, one_by_one

        return Plan(*one_by_one(batch.times, batch.free, batch.now, batch.deadline, MCT))


class Met:
    """Each job, as it comes, to the resource where it runs shortest (minimum execution time), however busy that is.

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
    >>> Met().assign(Batch.of_times(np.array([[2.0, 3.0], [2.0, 3.0]]))).resource
    array([0, 0])
    """

    deadlines = False

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""
        from ..kernels import MET, one_by_one

        return Plan(*one_by_one(batch.times, batch.free, batch.now, batch.deadline, MET))


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
