# SPDX-License-Identifier: Apache-2.0
"""`log_uniform`: predicts waits from a log-uniform distribution fitted to the waits of started jobs (Downey 1997)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Literal

import numpy as np

from ...compiled import kernel
from ...events.event import Event
from ...events.state import Cancelled, SystemState
from ...job import JobRequest
from ...metrics.accuracy import size_class_of
from ...predict.protocol import Grounds, Prediction, at_least_a_second
from ...predict.wait.recent_wait import QueuedByGroup, guess

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
        job = getattr(event, "job", None)
        group = None if job is None else self._group(job)
        wait = self.queued.observe(event, at, group)
        if wait is not None:
            for history in {group, None}:
                self._learn(history, bin_of(wait))

    def _learn(self, group: Hashable, b: int) -> None:
        history = self.histories.setdefault(group, deque())
        counts = self.counts.setdefault(group, np.zeros(BINS))
        counts[b] += 1
        history.append(b)
        if 0 < self.keep < len(history):
            counts[history.popleft()] -= 1

    def _group(self, job: JobRequest) -> Hashable:
        if self.by == "all":
            return None
        return job.queue_id if self.by == "queue" else size_class_of(job.procs)

    def _censored(self, queues: Iterable[Hashable], now: float) -> np.ndarray:
        longer = np.zeros(BINS + 1)
        for k in queues:
            oldest = self.queued.elapsed(k, now)
            if oldest > 0:  # for all bins at once: how many jobs have waited longer than the bin's shortest wait
                bins = bin_of(oldest) + 1
                longer[:bins] += np.array(self.queued.submits[k]).searchsorted(now - LEAST[:bins])
        return longer[:-1] - longer[1:]


def bin_of(wait: float) -> int:
    """Return the log bin of a wait; waits below 1 s are in the first bin.

    >>> bin_of(0.0), bin_of(1e9)
    (0, 127)
    """
    return min(int(math.log(max(wait, 1.0)) / STEP), BINS - 1)


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
