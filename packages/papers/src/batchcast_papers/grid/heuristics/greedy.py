# SPDX-License-Identifier: Apache-2.0
"""Heuristics that place each job once and never move it.

`min_min`, `max_min`, `sufferage` and `sufferage_m99` repeatedly choose a job and a resource together; `mct`, `met`,
`olb`, `fast_fit` and `best_fit` take the jobs in order of arrival.
"""

from __future__ import annotations

import numpy as np

from batchcast.broker.model import Batch, Plan

from .deadlines import EminMin, by_key


def _without_deadlines(batch: Batch) -> Batch:
    """Return the batch with infinite deadlines."""
    return batch._replace(deadline=np.full(len(batch.times), np.inf))


class ByKey:
    """Base class: repeatedly chooses a job and a resource together, by the key that `rule` names in `grid.kernels`."""

    deadlines = False
    rule = ""

    def assign(self, batch: Batch) -> Plan:
        """Return the plan for the waiting jobs."""
        return by_key(_without_deadlines(batch), self.rule, 0.0)


class OneByOne:
    """Base class: assigns the jobs in order of arrival, each by the key that `rule` names in `grid.kernels`."""

    deadlines = False
    rule = ""

    def assign(self, batch: Batch) -> Plan:
        """Return the plan for the waiting jobs."""
        from .. import kernels

        rule = getattr(kernels, self.rule)
        return Plan(*kernels.one_by_one(batch.times, batch.free, batch.now, batch.deadline, rule))


class MinMin:
    """Repeatedly places the (job, resource) pair with the earliest completion time.

    Notes
    -----
    Maheswaran et al. 1999 (after Ibarra and Kim 1977). Deadlines are ignored. Ties go to the first job, then to the
    first resource. The cost is O(nm log n): the time at which a resource becomes free shifts the completion times of
    all jobs on it equally, so one sorted list per resource is enough.

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
        """Return the plan for the waiting jobs."""
        return EminMin(0.0).assign(_without_deadlines(batch))


class MaxMin(ByKey):
    """Repeatedly places the job whose earliest completion time is the latest of all jobs, on the job's best resource.

    Notes
    -----
    Maheswaran et al. 1999, section 3. Deadlines are ignored. Ties go to the first job, then to the first resource. The
    cost is O(n^2), plus a scan of m resources whenever a job's best or second-best resource changed.

    References
    ----------
    Maheswaran, Ali, Siegel, Hensgen, Freund, Dynamic mapping of a class of independent tasks onto heterogeneous
    computing systems, JPDC 59(2), 1999, doi:10.1006/jpdc.1999.1581.

    Examples
    --------
    >>> MaxMin().assign(Batch.of_times(np.array([[4.0, 9.0], [2.0, 3.0]]))).order
    array([0, 1])
    """

    rule = "LARGEST_FIRST"


class Sufferage(ByKey):
    """Repeatedly places the job with the largest sufferage (second-best minus best completion time).

    Notes
    -----
    This is the variant with one assignment per step (Casanova et al. 2000; Gogos et al. 2016); `sufferage_m99` is the
    variant of Maheswaran et al. with passes. The heuristic ignores deadlines; a job that only one resource can run has
    infinite sufferage. Ties go to the first job, then to the first resource. The cost is O(n^2), plus a scan of m
    resources whenever a job's best or second-best resource changed.

    References
    ----------
    Casanova, Legrand, Zagorodnov, Berman, Heuristics for scheduling parameter sweep applications in grid environments,
    HCW 2000, doi:10.1109/HCW.2000.843757.

    Examples
    --------
    >>> Sufferage().assign(Batch.of_times(np.array([[4.0, 5.0], [2.0, 9.0]]))).order
    array([1, 0])
    """

    rule = "SUFFERAGE"


class SufferageM99:
    """Sufferage in passes: a job gets its best resource unless a later job has a strictly larger sufferage for this
    resource.

    Notes
    -----
    Maheswaran et al. 1999, figure 3. A pass gives each resource at most one job; the times at which resources become
    free change after the pass. Deadlines are ignored. Ties go to the earlier job. O(passes n m).

    References
    ----------
    Maheswaran, Ali, Siegel, Hensgen, Freund, Dynamic mapping of a class of independent tasks onto heterogeneous
    computing systems, JPDC 59(2), 1999, doi:10.1006/jpdc.1999.1581.

    Examples
    --------
    >>> SufferageM99().assign(Batch.of_times(np.array([[4.0, 5.0], [2.0, 9.0]]))).order
    array([1, 0])
    """

    deadlines = False

    def assign(self, batch: Batch) -> Plan:
        """Return the plan for the waiting jobs."""
        from ..kernels import sufferage_passes

        return Plan(*sufferage_passes(batch.times, batch.free))


class Mct(OneByOne):
    """Assigns each job on arrival to the resource where it completes first (minimum completion time).

    Notes
    -----
    Braun et al. 2001. Deadlines are ignored. Ties go to the first resource. O(nm).

    References
    ----------
    Braun et al., A comparison of eleven static heuristics for mapping a class of independent tasks onto heterogeneous
    distributed computing systems, JPDC 61(6), 2001, doi:10.1006/jpdc.2000.1714.

    Examples
    --------
    >>> Mct().assign(Batch.of_times(np.array([[2.0, 3.0], [2.0, 3.0]]))).resource
    array([0, 1])
    """

    rule = "MCT"


class Met(OneByOne):
    """Assigns each job on arrival to the resource that runs it fastest, however busy (minimum execution time).

    Notes
    -----
    Braun et al. 2001. Deadlines are ignored. Ties go to the first resource. O(nm).

    References
    ----------
    Braun et al., A comparison of eleven static heuristics for mapping a class of independent tasks onto heterogeneous
    distributed computing systems, JPDC 61(6), 2001, doi:10.1006/jpdc.2000.1714.

    Examples
    --------
    >>> Met().assign(Batch.of_times(np.array([[2.0, 3.0], [2.0, 3.0]]))).resource
    array([0, 0])
    """

    rule = "MET"


class Olb(OneByOne):
    """Assigns each job on arrival to the resource that is free first (opportunistic load balancing).

    Notes
    -----
    Braun et al. 2001. Deadlines are ignored. Ties go to the first resource. O(nm).

    References
    ----------
    Braun et al., A comparison of eleven static heuristics for mapping a class of independent tasks onto heterogeneous
    distributed computing systems, JPDC 61(6), 2001, doi:10.1006/jpdc.2000.1714.

    Examples
    --------
    >>> Olb().assign(Batch.of_times(np.array([[9.0, 3.0], [2.0, 3.0]]))).resource
    array([0, 1])
    """

    rule = "OLB"


class FastFit(OneByOne):
    """Assigns each job on arrival to the free resource that runs it fastest.

    Notes
    -----
    Hao et al. 2014, section 1, name this heuristic ("tries to give the job to the fastest resource") without a formula.
    In this implementation, the fastest resource is the resource with the least expected time of this job. If no
    resource is free, the job goes to the resource that will be free first. Deadlines are ignored. Ties go to the first
    resource. O(nm).

    References
    ----------
    Hao, Lu, Liu, Wen, Three grid job scheduling heuristics for data-intensive and computing-intensive jobs, 2014.

    Examples
    --------
    >>> FastFit().assign(Batch.of_times(np.array([[2.0, 3.0], [2.0, 3.0], [2.0, 1.0]]))).resource
    array([0, 1, 0])
    """

    rule = "FAST_FIT"


class BestFit(OneByOne):
    """Assigns each job on arrival to the resource where it ends latest before its deadline.

    Notes
    -----
    Hao et al. 2014, section 1, name this heuristic ("postpones completion as far as the deadline allows"). A job that
    no resource can end in time is not placed; a job without a deadline goes to the resource on which it ends last. Ties
    go to the first resource. O(nm).

    References
    ----------
    Hao, Lu, Liu, Wen, Three grid job scheduling heuristics for data-intensive and computing-intensive jobs, 2014.

    Examples
    --------
    >>> BestFit().assign(Batch.of_times(np.array([[2.0, 3.0], [2.0, 5.0]]), deadline=np.array([4.0, 4.0]))).resource
    array([1, 0])
    """

    deadlines = True
    rule = "BEST_FIT"
