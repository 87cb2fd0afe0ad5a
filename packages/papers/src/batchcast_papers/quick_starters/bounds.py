# SPDX-License-Identifier: Apache-2.0
"""The compared methods that predict upper bounds of waits: `log_uniform` and `qbets`.

`log_uniform` fits a log-uniform distribution to the waits of started jobs (Downey 1997). `qbets` bounds a quantile of
the wait by an order statistic of the waits of jobs with similar shapes (processors and limit). A cluster of job shapes
has its own history of waits, which is trimmed at change points.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from batchcast.compiled import kernel
from batchcast.events.event import Capacity, Event, Requeue, Submit
from batchcast.events.state import Cancelled, SystemState
from batchcast.job import JobRequest
from batchcast.metrics.accuracy import size_class_of
from batchcast.predict.protocol import Grounds, Prediction, at_least_a_second
from batchcast.predict.wait.recent_wait import QueuedByGroup, forget, guess, order_statistic

FITTED = "reading=tables was fitted to the printed tables."
LONGEST_S = 1e8
BINS = 128
KEEP = {"text": 0, "tables": 1000}
STEP = math.log(LONGEST_S) / BINS
LEAST = np.array([0.0 if b == 0 else math.exp(b * STEP) for b in range(BINS)])


class LogUniform:
    """Fits a log-uniform distribution to past waits; the predicted wait is the median of this distribution, the bound
    its `level` quantile.

    Parameters
    ----------
    level
        The nominal level of the bound, at least 0.5 and below 1.
    by
        Which waits are used: the waits of `all` jobs, of the job's `queue`, or of the job's `size` class (1, 2-4, 5-16,
        17-64, more processors).
    reading
        How the paper is interpreted: `text` uses all waits. `tables` uses the last 1,000 waits. Of a few choices, 1,000
        gave the results closest to the printed Table 3 on the jobs of this table, so our tables mark results with
        `tables`.
    keep
        Number of last waits that are used, in place of the number that `reading` sets; 0 uses all waits.
    need
        Minimum number of waits for a separate fit to a queue or a size class.
    cancelled
        `count`: the time in the queue of a cancelled job counts as its wait; `skip`: this time is ignored.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    The model comes from section 3 of Downey 1997 (the cumulative distribution is linear in log time), applied to the
    waits themselves as in Kumar and Vadhiyar 2012. The line is the least-squares fit to the observed distribution at
    the edges of 128 log bins between the shortest and the longest wait (waits below 1 s count as 1 s). Each edge is
    weighted by the number of jobs in its bin. Waits of jobs that still wait are censored at their present length
    (Kaplan and Meier). A prediction takes O(128) time, plus a pass over the queue's submit times.

    References
    ----------
    Downey, Predicting queue times on space-sharing parallel computers, IPPS 1997, doi:10.1109/IPPS.1997.580894.

    Examples
    --------
    >>> method, state = LogUniform(), SystemState(8.0)
    >>> method.predict(JobRequest(0, 1, 0.0, 1.0, 60.0, float("nan")), state).basis
    'no history: the job fits beside the waiting jobs'
    """

    answers_by = "bound"

    def __init__(
        self,
        level: float = 0.95,
        by: Literal["all", "queue", "size"] = "all",
        reading: Literal["text", "tables"] = "text",
        keep: int | None = None,
        need: int = 59,
        cancelled: Cancelled = "count",
    ) -> None:
        if not 0.5 <= level < 1:
            raise ValueError("level is between 0.5 and 1")
        if keep is not None and keep < 0:
            raise ValueError("keep is at least 1 wait, or 0 for all")
        self.level, self.by, self.need = level, by, need
        self.remark = FITTED if reading == "tables" else ""
        self.keep = KEEP[reading] if keep is None else keep
        self.queued = QueuedByGroup(cancelled)
        self.histories: dict[Hashable, deque[int]] = {None: deque()}
        self.counts: dict[Hashable, np.ndarray] = {None: np.zeros(BINS)}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict the fitted median and upper quantile, which are equal for all jobs of a group at the same time."""
        group = self._group(job)
        if len(self.histories.get(group, ())) < self.need:
            group = None
        known = len(self.histories[group])
        queues = tuple(self.queued.submits) if group is None else (group,)
        if known == 0:
            oldest = max((self.queued.elapsed(k, at.now) for k in queues), default=0.0)
            point, basis = guess(job, at, oldest)
            return Prediction(point, (self.level,), (point,), basis, Grounds.NO_HISTORY)
        counts, censored = self.counts[group], self._censored(queues, at.now)
        point, bound = fitted(counts, censored, 0.5), fitted(counts, censored, self.level)
        basis = f"log-uniform fit to {known} waits" + ("" if group is None else f" of the same {self.by}")
        bound = at_least_a_second(max(bound, point))
        return Prediction(at_least_a_second(point), (self.level,), (bound,), basis, Grounds.MODEL)

    def observe(self, event: Event, at: SystemState) -> None:
        """When a job's wait becomes known, count it in its bin."""
        if isinstance(event, (Submit, Requeue)):
            self.queued.enter(event.job, self._group(event.job))
        elif not isinstance(event, Capacity) and (wait := self.queued.leave(event, at)) is not None:
            for history in {self._group(event.job), None}:
                self._learn(history, bin_of(wait))

    def _learn(self, group: Hashable, b: int) -> None:
        """Count a wait, given by its bin, in the history of a group; drop the oldest wait beyond `keep`."""
        history = self.histories.setdefault(group, deque())
        counts = self.counts.setdefault(group, np.zeros(BINS))
        counts[b] += 1
        history.append(b)
        if 0 < self.keep < len(history):
            counts[history.popleft()] -= 1

    def _group(self, job: JobRequest) -> Hashable:
        """Return the job's queue or size class; None if all jobs are one group."""
        if self.by == "all":
            return None
        return job.queue_id if self.by == "queue" else size_class_of(job.procs)

    def _censored(self, queues: Iterable[Hashable], now: float) -> np.ndarray:
        """Count the queued jobs by the bin of their wait so far."""
        censored = np.zeros(BINS)
        for k in queues:
            oldest = self.queued.elapsed(k, now)
            if oldest > 0:
                count_waiting(np.array(self.queued.submits[k]), now, bin_of(oldest), censored)
        return censored


def bin_of(wait: float) -> int:
    """Return the log bin of a wait; waits below 1 s are in the first bin.

    >>> bin_of(0.0), bin_of(1e9)
    (0, 127)
    """
    return min(int(math.log(max(wait, 1.0)) / STEP), BINS - 1)


@kernel
def count_waiting(submits: np.ndarray, now: float, b: int, into: np.ndarray) -> None:
    """Count jobs, given by ascending submit times, in `into` by the bin of their wait so far; `b` is the bin of the
    longest of these waits."""
    for submit in submits:
        while b >= 0 and submit >= now - LEAST[b]:
            b -= 1
        if b < 0:
            break
        into[b] += 1.0


@kernel
def fitted(counts: np.ndarray, censored: np.ndarray, level: float) -> float:
    """Return a quantile (s) of the log-uniform line through binned waits; `censored` counts, by bin, the waits that
    still last.

    >>> flat = np.where(np.arange(128) < 64, 1.0, 0.0)   # log-uniform from 1 s to 1e4 s
    >>> round(fitted(flat, np.zeros(128), 0.5)), round(fitted(flat, np.zeros(128), 0.95))
    (100, 6310)
    """
    at_risk = 0.0
    for b in range(len(counts)):
        at_risk += counts[b] + censored[b]
    survive, weight, sx, sy, sxx, sxy = 1.0, 0.0, 0.0, 0.0, 0.0, 0.0
    longest = 0
    for b in range(len(counts)):
        w = counts[b]
        if w > 0:
            survive *= 1.0 - w / at_risk
            x, y = (b + 1) * STEP, 1.0 - survive
            weight, sx, sy, sxx, sxy = weight + w, sx + w * x, sy + w * y, sxx + w * x * x, sxy + w * x * y
            longest = b
        at_risk -= w + censored[b]
    spread = weight * sxx - sx * sx
    slope = (weight * sxy - sx * sy) / spread if spread > 1e-9 else 0.0
    if slope <= 0.0:
        return math.exp((longest + 1) * STEP)
    return math.exp(min((level - sy / weight) / slope + sx / weight, len(counts) * STEP))


HOUR_S = 3600.0


@kernel
def binomial_ranks(q: float, c: float, rank: np.ndarray) -> None:
    """Write into rank[n], for all n, the smallest k with P(Bin(n, q) < k) >= c; n + 1 if no such k exists.

    The k-th smallest of n waits is then an upper bound of the q-quantile with confidence c (Brevik, Nurmi & Wolski,
    PPoPP 2006, section 3). The number of waits above the quantile is Bin(n, 1 - q); `below` is the probability of at
    most `most` such waits, `exactly` the probability of exactly `most`. The two probabilities are updated from n to n +
    1.
    """
    most, below, exactly = 0, 1.0, 1.0
    limit = (1.0 - c) * (1.0 + 1e-12)
    for n in range(len(rank)):
        if n > 0:
            below -= (1.0 - q) * exactly
            exactly *= n * q / (n - most)
        while below <= limit:
            exactly *= (n - most) / (most + 1.0) * ((1.0 - q) / q)
            most += 1
            below += exactly
        rank[n] = n + 1 - most


def binomial_rank(n: int, q: float, c: float) -> int:
    """Return the smallest k such that the k-th smallest of n values bounds the q-quantile with confidence c.

    The result is the smallest k with P(Bin(n, q) < k) >= c, or n + 1 if no order statistic is a bound. Source: Brevik,
    Nurmi & Wolski, "Predicting bounds on queuing delay", PPoPP 2006, section 3.

    >>> binomial_rank(59, 0.95, 0.95), binomial_rank(58, 0.95, 0.95), binomial_rank(1000, 0.95, 0.95)
    (59, 59, 962)
    """
    return int(ranks(q, c, n.bit_length())[n])


@lru_cache(maxsize=64)
def ranks(q: float, c: float, bits: int) -> np.ndarray:
    """Return `binomial_rank` of every n below 2 to the power of `bits`."""
    rank = np.empty(1 << bits, np.int64)
    binomial_ranks(q, c, rank)
    return rank


@lru_cache(maxsize=64)
def shortest_history(q: float, c: float) -> int:
    """Return the smallest number of waits for which an order statistic bounds the q-quantile with confidence c.

    >>> shortest_history(0.95, 0.95)
    59
    """
    return math.ceil(math.log(1.0 - c) / math.log(q))


def shape(job: JobRequest) -> tuple[float, float]:
    """Return processors and limit; unknown processors count as 1, an unknown limit as an hour.

    >>> shape(JobRequest(0, 1, 0.0, 4.0, 1024.0, float("nan")))
    (4.0, 1024.0)
    """
    return job.procs if job.procs >= 1 else 1.0, min(job.req_time, 1e9) if job.req_time >= 1 else HOUR_S


def cluster_shapes(coordinates: np.ndarray, most: int) -> np.ndarray:
    """Return the centers (k, d) of at most `most` clusters of (n, d) shapes, by k-means with k chosen by BIC (Pelleg &
    Moore 2000, section 3).

    The result is deterministic: the first center is the mean, and each further center starts at the shape that is
    farthest from all centers before it.

    >>> import numpy as np
    >>> two = np.array([[0.0, 5.0], [0.1, 5.1], [6.0, 12.0], [6.1, 12.1]] * 30)
    >>> cluster_shapes(two, 4).round(1).tolist()[:1]
    [[...]]
    """
    distinct, counts = np.unique(coordinates, axis=0, return_counts=True)
    starts = ((distinct * counts[:, None]).sum(axis=0) / counts.sum())[None]
    best, best_score = distinct.mean(axis=0, keepdims=True), -math.inf
    for _ in range(min(most, len(distinct))):
        centers = _k_means(distinct, counts, starts)
        score = _bic(distinct, counts, centers)
        if score > best_score:
            best, best_score = centers, score
        starts = np.concatenate([starts, distinct[[_squared(distinct, starts).min(axis=1).argmax()]]])
    return np.asarray(best)


def _k_means(coordinates: np.ndarray, counts: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Return the centers (k, d) of k clusters of weighted shapes, from the centers at the start."""
    weighed = (coordinates * counts[:, None]).T
    for _ in range(50):
        member = _squared(coordinates, centers).argmin(axis=1)
        sizes = np.bincount(member, counts, len(centers))
        sums = np.stack([np.bincount(member, axis, len(centers)) for axis in weighed], axis=1)
        moved = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1.0)[:, None], centers)
        if np.array_equal(moved, centers):
            break
        centers = moved
    return centers


def _squared(coordinates: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Return the squared distances (n, k) of shapes to centers."""
    return np.asarray(((coordinates[:, None, :] - centers[None]) ** 2).sum(axis=2))


def _bic(coordinates: np.ndarray, counts: np.ndarray, centers: np.ndarray) -> float:
    """Return twice the log likelihood of spherical normal clusters of one variance, minus ((d + 1) k) log n."""
    apart, n, (k, d) = _squared(coordinates, centers), counts.sum(), centers.shape
    sizes = np.bincount(apart.argmin(axis=1), counts, k)
    spread = (apart.min(axis=1) * counts).sum()
    variance = max(spread / max(d * (n - k), 1), 1e-3)
    shares = float(sizes[sizes > 0] @ np.log(sizes[sizes > 0] / n))
    return float(2.0 * shares - n * d * math.log(variance) - spread / variance - (d + 1) * k * math.log(n))


# Number of consecutive misses that signals a change point, by lag-1 autocorrelation of log waits in steps of 0.1 from
# 0. The number is the smallest r with P(run >= r | miss) <= 0.05^2 (3 at autocorrelation 0, where the two are equal) in
#   a
# simulated Gaussian AR(1) series of 2 million steps (seed 1), at level 0.95.
RUNS = (3, 4, 4, 5, 5, 6, 7, 9, 12, 21)


class Learned:
    """A known wait and the number of its job's shape; `in_history` turns false when the history of its cluster drops
    the wait."""

    __slots__ = ("in_history", "shape", "wait", "x")

    def __init__(self, shape: int, wait: float) -> None:
        self.shape, self.wait, self.in_history = shape, wait, True
        self.x = math.log(max(wait, 1.0))


class Group:
    """The waits of one cluster in order of start and sorted by length, and the number of consecutive misses so far."""

    __slots__ = ("misses", "ordered", "products", "recent", "squares", "sums")

    def __init__(self) -> None:
        self.recent: deque[Learned] = deque()
        self.ordered: list[float] = []
        self.misses = 0
        self.sums = self.squares = self.products = 0.0

    @classmethod
    def of(cls, entries: Sequence[Learned]) -> Group:
        """Create a group of waits with the given waits at once; the result is the same as after `learn` for each wait
        in order."""
        group = cls()
        group.recent.extend(entries)
        group.ordered = np.sort(np.array([entry.wait for entry in entries])).tolist()
        if entries:
            x = np.array([entry.x for entry in entries])
            group.sums = float(np.add.accumulate(x)[-1])
            group.squares = float(np.add.accumulate(x * x)[-1])
            group.products = float(np.add.accumulate(x[1:] * x[:-1])[-1]) if len(x) > 1 else 0.0
        return group

    def learn(self, entry: Learned, keep: int = 0, *, marks: bool = False) -> None:
        """Append a wait; drop the oldest wait if there are more than `keep` (0: no limit)."""
        if self.recent:
            self.products += entry.x * self.recent[-1].x
        self.sums += entry.x
        self.squares += entry.x * entry.x
        self.recent.append(entry)
        insort(self.ordered, entry.wait)
        if 0 < keep < len(self.recent):
            self._drop_oldest(marks)

    def _drop_oldest(self, marks: bool) -> None:
        """Drop the oldest wait of the group; with `marks`, a later clustering does not restore this wait."""
        old = self.recent.popleft()
        old.in_history = old.in_history and not marks
        forget(self.ordered, old.wait)
        self.sums -= old.x
        self.squares -= old.x * old.x
        if self.recent:
            self.products -= old.x * self.recent[0].x

    def trim(self, length: int, *, marks: bool = False) -> None:
        """Drop all but the latest `length` waits; with `marks`, a later clustering does not restore the dropped
        waits."""
        while len(self.recent) > length:
            self._drop_oldest(marks)
        self.misses = 0

    def autocorrelation(self) -> float:
        """Return the lag-1 autocorrelation of the log waits, 0 to 0.9."""
        n = len(self.recent)
        mean = self.sums / n
        variance = self.squares / n - mean * mean
        if n < 3 or variance <= 1e-12:
            return 0.0
        return min(max((self.products / (n - 1) - mean * mean) / variance, 0.0), 0.9)


SETTINGS = {
    "text": {"by": "product", "clusters": 9, "recluster": 1000, "keep": 0},
    "tables": {"by": "shape", "clusters": 6, "recluster": 1000, "keep": 2000},
}


class Qbets:
    """Predicts an upper bound on the `q` quantile of the wait, with confidence `c`, from the waits of similar jobs.

    Parameters
    ----------
    q, c
        Quantile and confidence, in (0, 1).
    reading
        How the papers are interpreted. `text` means by=product, clusters=9 (mclust's default) and keep=0, so that only
        change points cut a history. `tables` means by=shape, clusters=6 and keep=2000. Of a few choices, `tables` gave
        the results closest to the printed table of Kumar and Vadhiyar 2012 on the jobs of this table, so our tables
        mark results with `tables`. The parameters that a reading sets can also be set separately.
    by
        How jobs are clustered: by the `product` of processors and limit, or by both numbers, their `shape`. The
        authors' companion paper, "Using model-based clustering to improve predictions for queueing delay on parallel
        machines", names the product, and also each of the two numbers alone.
    clusters
        Maximum number of clusters; the Bayesian information criterion chooses the number.
    recluster
        Number of submissions between two clusterings.
    keep
        Number of last waits in a cluster's history; 0 keeps all waits.
    cancelled
        `count`: the time in the queue of a cancelled job counts as its wait; `skip`: this time is ignored.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    The bound is the order statistic of the waits whose rank `binomial_rank` gives. A run of consecutive misses (waits
    above their bound) that is too long to be chance, given the history's autocorrelation, is a change point: the
    history is cut to the shortest length that supports a bound. Queued jobs that have already waited longer than the
    bound count as longer waits. If the history of a cluster is too short, the bound is computed from all jobs.
    Departures: clusters come from k-means on log scales in place of a mixture model; the point prediction is the
    history's median. Times are in seconds. The cost is O(log n) per job.

    References
    ----------
    Nurmi, Brevik, Wolski, QBETS: queue bounds estimation from time series, JSSPP 2007,
    doi:10.1007/978-3-540-78699-3_5.

    Examples
    --------
    >>> Qbets().predict(JobRequest(0, 1, 0.0, 1.0, 60.0, float("nan")), SystemState(4.0)).basis
    'no history: the job fits beside the waiting jobs'
    """

    answers_by = "bound"

    def __init__(
        self,
        q: float = 0.95,
        c: float = 0.95,
        reading: Literal["text", "tables"] = "text",
        by: Literal["product", "shape"] | None = None,
        clusters: int | None = None,
        recluster: int | None = None,
        keep: int | None = None,
        cancelled: Cancelled = "count",
    ) -> None:
        if not (0 < q < 1 and 0 < c < 1):
            raise ValueError("q and c lie between 0 and 1")
        given = {"by": by, "clusters": clusters, "recluster": recluster, "keep": keep}
        self.remark = FITTED if reading == "tables" else ""
        settings: dict[str, Any] = SETTINGS[reading] | {k: v for k, v in given.items() if v is not None}
        self.need = shortest_history(q, c)
        if 0 < settings["keep"] < self.need or settings["clusters"] < 1 or settings["recluster"] < 1:
            raise ValueError(f"keep is 0 (all) or at least {self.need} waits; clusters and recluster at least 1")
        self.q, self.c, self.by, self.clusters, self.keep = q, c, settings["by"], settings["clusters"], settings["keep"]
        self.refit_every_jobs = settings["recluster"]
        self.queued = QueuedByGroup(cancelled)
        self.centers: list[list[float]] = [[0.0] if self.by == "product" else [0.0, 0.0]]
        self.groups = [Group()]
        self.everyone = Group()
        self.recent_coordinates: deque[tuple[float, ...]] = deque(maxlen=self.refit_every_jobs)
        self.learned: deque[Learned] = deque()
        self.issued: dict[int, float] = {}
        self.latest = (-1, math.nan, math.nan)
        self.shapes: dict[tuple[float, float], int] = {}
        self.coordinates_of: list[tuple[float, ...]] = []
        self.cluster_of: list[int] = []

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict the median of the history, and the upper bound of the q quantile."""
        group, members = self._history(self._shape(job))
        if not group.ordered:
            point, basis = guess(job, at, self.queued.elapsed(0, at.now))
            return Prediction(point, (self.q,), (point,), basis, Grounds.NO_HISTORY)
        bound = self._bound(group, members, at.now)
        self.latest = (job.row, at.now, bound)
        point = min(order_statistic(group.ordered, 0.5, 0), bound)
        similar = "similar processors x limit" if self.by == "product" else "similar shape"
        similar = "all jobs" if group is self.everyone else similar
        basis = f"order statistic of {len(group.ordered)} waits, {similar}"
        return Prediction(at_least_a_second(point), (self.q,), (at_least_a_second(bound),), basis, Grounds.CLASS)

    def observe(self, event: Event, at: SystemState) -> None:
        """At a submission, store the predicted bound; when the wait is known, add it to the history and compare it with
        the bound."""
        if isinstance(event, (Submit, Requeue)):
            job, shape = event.job, self._shape(event.job)
            self.queued.enter(job, self.cluster_of[shape])
            if isinstance(event, Requeue):
                self.issued.pop(job.row, None)
                return
            self.recent_coordinates.append(self.coordinates_of[shape])
            group, members = self._history(shape)
            if group.ordered:  # if the job's wait was just predicted, use the predicted bound
                is_latest = self.latest[:2] == (job.row, event.time) and job.submit_time == event.time
                self.issued[job.row] = self.latest[2] if is_latest else self._bound(group, members, event.time)
        elif not isinstance(event, Capacity):
            wait = self.queued.leave(event, at)
            issued = self.issued.pop(event.job.row, math.inf)
            if wait is not None:
                shape = self._shape(event.job)
                entry = Learned(shape, wait)
                self.learned.append(entry)
                self._learn(self.groups[self.cluster_of[shape]], entry, issued)
                self._learn(self.everyone, entry, issued)

    def refit(self, now: float) -> None:
        """Cluster the latest shapes again; fill each cluster's history with the cluster's waits since the last change
        point."""
        self.centers = cluster_shapes(np.array(self.recent_coordinates), self.clusters).tolist()
        self.cluster_of = _squared(np.array(self.coordinates_of), np.array(self.centers)).argmin(axis=1).tolist()
        self.queued.regroup(lambda job: self.cluster_of[self._shape(job)])
        self.learned = deque([entry for entry in self.learned if entry.in_history], maxlen=self.keep or None)
        members: list[list[Learned]] = [[] for _ in self.centers]
        for entry in self.learned:
            members[self.cluster_of[entry.shape]].append(entry)
        self.groups = [Group.of(entries) for entries in members]

    def _shape(self, job: JobRequest) -> int:
        """Return the number of a job's shape; a new shape gets its coordinates and its cluster."""
        key = shape(job)
        number = self.shapes.get(key)
        if number is None:
            number = self.shapes[key] = len(self.coordinates_of)
            procs, limit = math.log2(key[0]), math.log2(key[1])
            coordinates = (procs + limit,) if self.by == "product" else (procs, limit)
            self.coordinates_of.append(coordinates)
            self.cluster_of.append(int(_squared(np.array([coordinates]), np.array(self.centers)).argmin()))
        return number

    def _history(self, shape: int) -> tuple[Group, Sequence[int]]:
        """Return the group of waits that predicts a shape, and the clusters whose queued jobs count as longer waits."""
        cluster = self.cluster_of[shape]
        group = self.groups[cluster]
        if len(group.ordered) >= self.need:
            return group, (cluster,)
        return self.everyone, range(len(self.groups))

    def _bound(self, group: Group, members: Sequence[int], now: float) -> float:
        """Return the upper bound (s) from a group of waits, with the queued jobs of the clusters `members` as longer
        waits."""
        n = len(group.ordered)
        bound = group.ordered[min(binomial_rank(n, self.q, self.c), n) - 1]
        longer = sum([self.queued.longer(k, bound, now) for k in members])
        if not longer:
            return bound
        rank = binomial_rank(n + longer, self.q, self.c)
        if rank <= n:
            return group.ordered[rank - 1]
        return max(group.ordered[-1], *(self.queued.elapsed(k, now) for k in members))

    def _learn(self, group: Group, entry: Learned, issued: float) -> None:
        """Add a wait to a group; after too many consecutive misses, cut the history of the group."""
        marks = group is not self.everyone
        group.misses = group.misses + 1 if entry.wait > issued else 0
        group.learn(entry, self.keep, marks=marks)
        suspect = group.misses >= RUNS[0] and len(group.recent) > self.need
        if suspect and group.misses >= RUNS[round(group.autocorrelation() * 10)]:
            group.trim(self.need, marks=marks)
