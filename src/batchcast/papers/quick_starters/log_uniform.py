# SPDX-License-Identifier: Apache-2.0
"""`log_uniform`: waits fitted by a log-uniform distribution (Downey 1997), over all that has started."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Literal, NamedTuple

import numpy as np

from ...compiled import by_address, inlined, inner, kernel
from ...compiled.arrays import Record
from ...events.event import SUBMIT, Event
from ...events.kernel import apply_event, jobs_of, queue_of
from ...events.recorded import Forecasts
from ...events.state import Cancelled, SystemState
from ...job import JobRequest
from ...metrics.accuracy import size_class, size_class_of
from ...predict.protocol import Grounds, Prediction, at_least_a_second
from ...predict.wait.groups import NO_CLASS, QueuedByGroup, answered, clock_of, guess, guessed, learned
from ...table import Trace

LONGEST_S = 1e8
BINS = 128
KEEP = {"text": 0, "tables": 1000}
STEP = math.log(LONGEST_S) / BINS
LEAST = np.array([0.0 if b == 0 else math.exp(b * STEP) for b in range(BINS)])


class LogUniform:
    """A straight line through the distribution of ln(wait): its `level` quantile is the bound, its median the point.

    Parameters
    ----------
    level
        The bound's level, in (0, 1).
    by
        Whose waits: of `all` jobs, of the job's `queue`, or of its `size` class (1, 2-4, 5-16, 17-64, more processors).
    reading
        `text`: every wait is history; `tables`: the last 1,000 (chosen among a few for nearness to the printed Table 3
        on the jobs scored there, so a table that uses it says so).
    keep
        The last so many waits instead; 0 is all.
    need
        Waits from which on a queue or a size class answers by itself.
    cancelled
        `count`: a job cancelled in the queue teaches that it waited that long; `skip`: nothing.

    Raises
    ------
    ValueError
        For a number outside its range.

    Notes
    -----
    Section 3 of the source (the cumulative distribution is linear in log time), applied to the waits themselves as in
    Kumar and Vadhiyar 2012. The line is the least-squares fit to the observed distribution at the edges of 128 log bins
    between the shortest and the longest wait (floor 1 s), an edge weighing the jobs of its bin. Queued jobs enter as
    censored (Kaplan and Meier): known only to wait at least so far. O(128) a prediction beside a look at the queue's
    submit times.

    References
    ----------
    Downey, Predicting queue times on space-sharing parallel computers, IPPS 1997, doi:10.1109/IPPS.1997.580894.

    Examples
    --------
    >>> method, state = LogUniform(), SystemState(8.0)
    >>> method.predict(JobRequest(0, 1, 0.0, 1.0, 60.0, float("nan")), state).basis
    'no history: fits beside the queue'
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
        """The fitted median and upper quantile, the same for every job of a group at an instant."""
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
        basis = self._words(known, group is not None)
        bound = at_least_a_second(max(bound, point))
        return Prediction(at_least_a_second(point), (self.level,), (bound,), basis, Grounds.MODEL)

    def observe(self, event: Event, at: SystemState) -> None:
        """Counts each learned wait into its bin."""
        job = getattr(event, "job", None)
        group = None if job is None else self._group(job)
        wait = self.queued.observe(event, at, group)
        if wait is not None:
            for history in {group, None}:
                self._learn(history, bin_of(wait))

    def predict_trace(
        self,
        trace: Trace,
        protocol: str = "honest",
        procs: str = "req",
        *,
        total: float | None = None,
        ask: np.ndarray | None = None,
    ) -> Forecasts:
        """The whole log at once: the very numbers of the one-by-one path. `ask` (n,) bool: the jobs to answer."""
        asked = np.ones(len(trace), bool) if ask is None else np.asarray(ask, bool)
        clock = clock_of(trace, protocol, procs, total)
        group = np.zeros(len(trace), np.int64)
        if self.by != "all":
            group[:] = clock.requests["queue"] if self.by == "queue" else size_class(clock.procs) + 2
        out, said = np.full((len(trace), 2), np.nan), np.zeros((len(trace), 2), np.int64)
        log_uniform_waits(
            *(clock.columns.record, clock.requests, clock.events, clock.procs, asked),
            *(histories_of(group, clock.events["value"], self.keep), self.need, self.level),
            *(self.queued.cancelled == "count", out, said),
        )
        out[:, 1] = np.where(said[:, 1] == NO_CLASS, out[:, 0], np.maximum(out[:, 1], out[:, 0]))
        bases = (None if own == NO_CLASS else (self._words(n, own > 0), Grounds.MODEL) for n, own in said.tolist())
        return answered(self.level, asked, out, bases)

    def _words(self, known: int, own: bool) -> str:
        return f"log-uniform fit to {known} waits" + (f" of the same {self.by}" if own else "")

    def _learn(self, group: Hashable, b: int) -> None:
        history = self.histories.setdefault(group, deque())
        counts = self.counts.setdefault(group, np.zeros(BINS))
        counts[b] += 1
        history.append(b)
        if 0 < self.keep < len(history):
            counts[history.popleft()] -= 1

    def _group(self, job: JobRequest) -> Hashable:
        return {"all": None, "size": size_class_of(job.procs), "queue": job.queue_id}[self.by]

    def _censored(self, queues: Iterable[Hashable], now: float) -> np.ndarray:
        longer = np.zeros(BINS + 1)
        for k in queues:
            oldest = self.queued.elapsed(k, now)
            if oldest > 0:  # of every bin at once how many have waited longer than its least wait
                bins = bin_of(oldest) + 1
                longer[:bins] += np.searchsorted(self.queued.submits[k], now - LEAST[:bins])
        return longer[:-1] - longer[1:]


def bin_of(wait: float) -> int:
    """The log bin of a wait (floor 1 s).

    >>> bin_of(0.0), bin_of(1e9)
    (0, 127)
    """
    return min(int(math.log(max(wait, 1.0)) / STEP), BINS - 1)


@kernel
def fitted(counts: np.ndarray, censored: np.ndarray, level: float) -> float:
    """A quantile (seconds) of the log-uniform line through binned waits; `censored` jobs wait at least their bin.

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


@by_address
class Histories(NamedTuple):
    """The binned waits of every group, 0 for all jobs: `counts` (groups, BINS), and each group's ring from `begin` on.

    `kept` (2, groups): waits kept, the ring's next place. `group` of each job; `bins` of what each event may teach;
    `least`, the shortest wait of each bin; `stuck` and `cap`, room for the queued by bin and for bins by group.
    """

    counts: np.ndarray
    begin: np.ndarray
    kept: np.ndarray
    ring: np.ndarray
    group: np.ndarray
    bins: np.ndarray
    least: np.ndarray
    stuck: np.ndarray
    cap: np.ndarray


def histories_of(group: np.ndarray, waits: np.ndarray, keep: int) -> Histories:
    """Room for the last `keep` waits (0: all) of each group, where `group` (jobs,) is 0 for who belongs to none."""
    most = np.bincount(group, minlength=1)
    most[0] = len(group)
    begin = np.concatenate([[0], np.cumsum(np.minimum(most, keep or len(group)))])
    return Histories(
        counts=np.zeros((len(most), BINS)),
        begin=begin,
        kept=np.zeros((2, len(most)), np.int64),
        ring=np.zeros(begin[-1], np.int8),
        group=group,
        bins=np.array([bin_of(wait) for wait in np.nan_to_num(waits).tolist()], np.int64),
        least=LEAST,
        stuck=np.zeros(BINS),
        cap=np.zeros(len(most)),
    )


@inlined
def log_bin(wait: float) -> int:
    """`bin_of` inside a kernel."""
    return min(int(math.log(max(wait, 1.0)) / STEP), BINS - 1)


@inner
def count_stuck(s: Record, h: Histories, group: int, now: float) -> float:
    """Queued jobs of a group (0: of all) into the bins that they have waited through; the longest wait so far."""
    jobs, queue, cap, oldest = jobs_of(s), queue_of(s), h.cap, 0.0
    h.stuck[:], cap[:] = 0.0, -1.0
    for k in range(s.queue_first, s.queue_end):
        submit, own = jobs[queue[k]].submit, h.group[queue[k]]
        if group != 0 and own != group:
            continue
        waited = now - submit
        oldest = max(oldest, waited)
        if cap[own] < 0.0:  # the oldest of its group says how many bins are looked at
            cap[own] = log_bin(waited) + 1 if waited > 0.0 else 0
        b = min(int(cap[own]), log_bin(waited) + 2) - 1
        while b >= 0 and not submit < now - h.least[b]:
            b -= 1
        if b >= 0:
            h.stuck[b] += 1.0
    return oldest


@inner
def count_in(h: Histories, group: int, b: int) -> None:
    """A group's history takes a wait of bin b in and forgets its oldest where it is full."""
    room = h.begin[group + 1] - h.begin[group]
    at = h.begin[group] + h.kept[1, group]
    if h.kept[0, group] == room:
        h.counts[group, h.ring[at]] -= 1.0
    else:
        h.kept[0, group] += 1
    h.ring[at] = b
    h.kept[1, group] = (h.kept[1, group] + 1) % room
    h.counts[group, b] += 1.0


@kernel
def log_uniform_waits(
    state: np.ndarray, requests: np.ndarray, events: np.ndarray, procs: np.ndarray, ask: np.ndarray, h: Histories,
    need: int, level: float, left_teach: bool, out: np.ndarray, said: np.ndarray,
) -> None:  # fmt: skip
    """`log_uniform` over a log: median and quantile into `out` (n, 2); the waits fitted, and whose, into `said`."""
    s = state[0]
    for e in range(len(events)):
        event = events[e]
        i, now = event.entry, event.time
        group = h.group[i]
        if event.rank == SUBMIT and ask[i]:
            use = group if h.kept[0, group] >= need else 0
            oldest = count_stuck(s, h, use, now)
            said[i, 0], said[i, 1] = h.kept[0, use], use
            if h.kept[0, use] == 0:
                said[i, 1] = NO_CLASS
                out[i, :] = guessed(s, procs[i], now, oldest)
            else:
                out[i, 0] = fitted(h.counts[use], h.stuck, 0.5)
                out[i, 1] = fitted(h.counts[use], h.stuck, level)
        apply_event(s, requests, event)
        if learned(s, i, left_teach):
            count_in(h, 0, h.bins[e])
            if group != 0:
                count_in(h, group, h.bins[e])
