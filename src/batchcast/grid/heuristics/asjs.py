# SPDX-License-Identifier: Apache-2.0
"""`asjs`: adaptive scoring, each job to the cluster of highest score."""

from __future__ import annotations

import numpy as np

from ..protocol import Batch, Plan
from .deadline_pairs import share


class Asjs:
    """Each job, as it comes, to the resource of highest cluster score CS = a ATP + b ACP that can end it in time.

    Parameters
    ----------
    compute
        b, in [0, 1], and a = 1 - b; by default `data_share`, as Hao et al. 2014 print in table 1.
    data_share
        The share of data jobs.
    urgent
        Share of the resources: a job that fewer can still finish in time goes first; 0 switches the rule off.
    load_unit
        Mean least times of the waiting jobs that count as a full load (`reproduce grid --sweep` chose it).

    Raises
    ------
    ValueError
        For a number outside its range.

    Notes
    -----
    Known from its abstract and its citations only (papers/grid-heuristics.md). ATP is the mean available bandwidth to
    the other clusters (the narrower of the two links), ACP speed * (1 - load). Here every resource is a cluster of one;
    its load is the work it is bound to over `load_unit`, which passes 1 where jobs queue; and both terms are divided by
    their means over the grid, since the sources give no common unit. The score moves with each placement (local update)
    and with each mapping event (global update). The urgent rule is Hao's, "used in the experiments"; a resource that
    would miss the deadline is passed over. Where only a matrix is known a resource's speed is the inverse of its mean
    time. Ties to the lowest resource. O(n^2 + nm), O(nm) with urgent=0.

    References
    ----------
    Chang, Lin, Lin, An adaptive scoring job scheduling algorithm for grid computing, Information Sciences 207, 2012,
    doi:10.1016/j.ins.2012.04.019.
    Hao, Lu, Liu, Wen, Three grid job scheduling heuristics for data-intensive and computing-intensive jobs, 2014.

    Examples
    --------
    >>> Asjs().assign(Batch.of_times(np.array([[2.0, 3.0], [2.0, 3.0]]))).resource
    array([0, 1])
    """

    deadlines = True

    def __init__(
        self, compute: float | None = None, data_share: float = 0.5, urgent: float = 0.2, load_unit: float = 1.1
    ) -> None:
        self.compute = share(data_share if compute is None else compute)
        self.urgent = share(urgent)
        if not load_unit > 0:
            raise ValueError("load_unit is a number above 0")
        self.load_unit = load_unit

    def assign(self, batch: Batch) -> Plan:
        """The plan for the jobs waiting now."""
        from ..kernels import by_score

        times = batch.times
        if not len(times):
            return Plan(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        speed = batch.speed
        if np.isnan(speed).any():
            finite = np.isfinite(times)
            speed = finite.sum(axis=0) / np.maximum(np.where(finite, times, 0.0).sum(axis=0), 1e-300)
        link = _mean_links(batch.bandwidth) if np.isfinite(batch.bandwidth).all() else np.ones(len(speed))
        least = times.min(axis=1)
        unit = self.load_unit * float(least[np.isfinite(least)].mean()) if np.isfinite(least).any() else 1.0
        power, link = self.compute * speed / speed.mean(), (1.0 - self.compute) * link / link.mean()
        limit = self.urgent * len(speed)
        return Plan(*by_score(times, batch.free, batch.now, batch.deadline, power, link, unit or 1.0, limit))


def _mean_links(bandwidth: np.ndarray) -> np.ndarray:
    """Mean over the other resources of the narrower of the two links; a lone resource has its own. O(m log m)."""
    m = len(bandwidth)
    if m == 1:
        return bandwidth
    order = np.argsort(bandwidth, kind="stable")
    narrow = bandwidth[order]
    below = np.concatenate([[0.0], np.cumsum(narrow)[:-1]])
    means = np.empty(m)
    means[order] = (below + narrow * (m - 1 - np.arange(m))) / (m - 1)
    return means
