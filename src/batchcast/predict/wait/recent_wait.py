# SPDX-License-Identifier: Apache-2.0
"""`recent_wait`: the median of the last k waits of the same queue and size class. The baseline to beat."""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Hashable
from typing import NamedTuple

import numpy as np

from ...compiled import by_address, inlined, inner, kernel
from ...compiled.arrays import Record
from ...events.event import SUBMIT, Capacity, Change, Event
from ...events.kernel import apply_event, jobs_of, queue_of
from ...events.recorded import Forecasts
from ...events.state import Cancelled, SystemState
from ...job import JobRequest
from ...metrics.accuracy import size_class, size_class_of
from ...table import Trace
from ..protocol import Grounds, Prediction, at_least_a_second
from .groups import NO_CLASS, QueuedByGroup, answered, clock_of, forget, guess, guessed, learned, order_statistic

CLASSES = ("same queue and size class", "same size class", "all jobs")


class RecentWait:
    """Median of the last `k` learned waits of the job's queue and size class, else of the size class, else of all.

    Parameters
    ----------
    k
        Waits that are kept of a class.
    need
        Waits from which on a class answers.
    level
        The bound's level, in (0, 1), nearest rank.
    cancelled
        `count`: a job cancelled in the queue teaches that it waited that long; `skip`: nothing.

    Raises
    ------
    ValueError
        For a number outside its range.

    Notes
    -----
    The yardstick of the other methods. Queued jobs of the class that have already waited longer than the plain median
    count as longer waits (censored, not ignored); the bound takes the same care. O(k) memory a class, O(log k) a job.

    Examples
    --------
    >>> from batchcast.events.event import Start, Submit
    >>> state, method = SystemState(8.0), RecentWait(need=1)
    >>> for row, wait in enumerate((10.0, 30.0, 50.0)):
    ...     job = JobRequest(row, row, 0.0, 1.0, 60.0, float("nan"))
    ...     for event in (Submit(0.0, job), Start(wait, job, wait)):
    ...         state.apply(event); method.observe(event, state)
    >>> method.predict(job, state).point
    30.0
    """

    answers_by = "point"

    def __init__(self, k: int = 50, need: int = 5, level: float = 0.95, cancelled: Cancelled = "count") -> None:
        if k < 1 or need < 1:
            raise ValueError("k and need are at least 1 wait")
        self.k, self.need, self.level = k, need, level
        self.queues, self.sizes, self.all = QueuedByGroup(cancelled), QueuedByGroup(cancelled), QueuedByGroup(cancelled)
        self.recent: dict[Hashable, deque[float]] = {}
        self.ordered: dict[Hashable, list[float]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The median and the level's quantile of the narrowest class that has enough waits."""
        for group, queued, name in self._groups(job):
            ordered = self.ordered.get(group, ())
            if len(ordered) >= self.need or (ordered and group is None):
                point = self._quantile(group, queued, 0.5, at.now)
                bound = max(point, self._quantile(group, queued, self.level, at.now))
                basis = words_of(len(ordered), name)
                grounds = Grounds.EVERYONE if group is None else Grounds.CLASS
                return Prediction(at_least_a_second(point), (self.level,), (at_least_a_second(bound),), basis, grounds)
        point, basis = guess(job, at, self.all.elapsed(None, at.now))
        return Prediction(point, (self.level,), (point,), basis, Grounds.NO_HISTORY)

    def observe(self, event: Event, at: SystemState) -> None:
        """Keeps the last k waits of each class."""
        if isinstance(event, (Capacity, Change)):
            return
        groups = self._groups(event.job)
        left = False
        for group, queued, _ in groups:
            left = queued.follow(event, group)  # they agree
        wait = at.taught(event, self.all.cancelled) if left else None
        if wait is not None:
            for group, _, _ in groups:
                self._learn(group, wait)

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
        size = size_class(clock.procs) + 1
        queue = np.unique(clock.requests["queue"] * (size.max(initial=0) + 1) + size, return_inverse=True)[1]
        sizes = np.unique(size, return_inverse=True)[1] + queue.max(initial=0) + 1
        codes = np.stack([queue.reshape(-1), sizes.reshape(-1), np.full(len(trace), sizes.max(initial=0) + 1)], axis=1)
        out, said = np.full((len(trace), 2), np.nan), np.zeros((len(trace), 2), np.int64)
        recent_waits(
            *(clock.columns.record, clock.requests, clock.events, clock.procs, asked, blank_waits(codes, self.k)),
            *(self.need, self.level, self.all.cancelled == "count", out, said),
        )
        grounds = (Grounds.CLASS, Grounds.CLASS, Grounds.EVERYONE)
        bases = (None if k == NO_CLASS else (words_of(count, CLASSES[k]), grounds[k]) for k, count in said.tolist())
        return answered(self.level, asked, out, bases)

    def _groups(self, job: JobRequest) -> tuple[tuple[Hashable, QueuedByGroup, str], ...]:
        size = size_class_of(job.procs)
        return (
            ((job.queue_id, size), self.queues, CLASSES[0]),
            (size, self.sizes, CLASSES[1]),
            (None, self.all, CLASSES[2]),
        )

    def _quantile(self, group: Hashable, queued: QueuedByGroup, level: float, now: float) -> float:
        ordered = self.ordered[group]
        plain = order_statistic(ordered, level, 0)
        longer = queued.longer(group, plain, now)
        return order_statistic(ordered, level, longer) if longer else plain

    def _learn(self, group: Hashable, wait: float) -> None:
        recent, ordered = self.recent.setdefault(group, deque()), self.ordered.setdefault(group, [])
        if len(recent) == self.k:
            forget(ordered, recent.popleft())
        recent.append(wait)
        insort(ordered, wait)


def words_of(count: int, name: str) -> str:
    """What an answer rests on."""
    return f"median of the last {count} waits, {name}"


@by_address
class Waits(NamedTuple):
    """The last waits of every class, each class's from `begin` on: in order of learning (a ring) and ascending.

    `kept` and `next` of each class: how many are kept, and the ring's next place. `codes` (jobs, kinds) are the classes
    of each job, the narrowest first; no two kinds share a code.
    """

    codes: np.ndarray
    begin: np.ndarray
    kept: np.ndarray
    next: np.ndarray
    recent: np.ndarray
    ordered: np.ndarray


def blank_waits(codes: np.ndarray, most: int) -> Waits:
    """Room for the last `most` waits of each class, `codes` (jobs, kinds) from 0 on."""
    size = np.minimum(np.bincount(codes.reshape(-1), minlength=1), most)
    begin = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    numbers = (np.zeros(len(size), np.int64), np.zeros(len(size), np.int64), np.zeros(begin[-1]), np.zeros(begin[-1]))
    return Waits(np.ascontiguousarray(codes, np.int64), begin, *numbers)


@inner
def remember(classes: Waits, c: int, wait: float) -> None:
    """A class learns a wait and forgets its oldest where it is full."""
    begin, room = classes.begin[c], classes.begin[c + 1] - classes.begin[c]
    recent, ordered = classes.recent[begin : begin + room], classes.ordered[begin : begin + room]
    at, count = classes.next[c], classes.kept[c]
    if count == room:
        count -= 1
        place = 0
        while ordered[place] != recent[at]:
            place += 1
        for a in range(place, count):
            ordered[a] = ordered[a + 1]
    place = count
    while place > 0 and ordered[place - 1] > wait:
        ordered[place] = ordered[place - 1]
        place -= 1
    ordered[place], recent[at] = wait, wait
    classes.next[c], classes.kept[c] = (at + 1) % room, count + 1


@inner
def quantile_of(s: Record, classes: Waits, kind: int, c: int, level: float, now: float) -> float:
    """The level's quantile of a class's waits, its queued jobs that have waited longer than that counted as longer."""
    jobs, queue, count, begin = jobs_of(s), queue_of(s), classes.kept[c], classes.begin[c]
    plain = classes.ordered[begin + rank_of(level, count, count) - 1]
    longer = 0
    for k in range(s.queue_first, s.queue_end):
        if not jobs[queue[k]].submit < now - plain:
            break
        longer += classes.codes[queue[k], kind] == c
    answer: float = classes.ordered[begin + rank_of(level, count + longer, count) - 1]
    return answer


@inlined
def rank_of(level: float, of: int, most: int) -> int:
    """The nearest rank of a level, from 1, at most `most`."""
    return min(max(1, -math.floor(-level * of)), most)


@kernel
def recent_waits(
    state: np.ndarray, requests: np.ndarray, events: np.ndarray, procs: np.ndarray, ask: np.ndarray, classes: Waits,
    need: int, level: float, left_teach: bool, out: np.ndarray, basis: np.ndarray,
) -> None:  # fmt: skip
    """`recent_wait` over a log: point and bound into `out` (n, 2), who answered and how many waits into `basis`."""
    s, kinds = state[0], classes.codes.shape[1]
    for e in range(len(events)):
        event = events[e]
        i, now = event.entry, event.time
        if event.rank == SUBMIT and ask[i]:
            kind = 0
            while kind < kinds and classes.kept[classes.codes[i, kind]] < (need if kind < kinds - 1 else 1):
                kind += 1
            if kind < kinds:
                c = classes.codes[i, kind]
                point = quantile_of(s, classes, kind, c, 0.5, now)
                out[i, 0], out[i, 1] = point, max(point, quantile_of(s, classes, kind, c, level, now))
                basis[i, 0], basis[i, 1] = kind, classes.kept[c]
            else:
                oldest = now - jobs_of(s)[queue_of(s)[s.queue_first]].submit if s.queue_end > s.queue_first else 0.0
                out[i, :] = guessed(s, procs[i], now, oldest)
                basis[i, 0] = NO_CLASS
        apply_event(s, requests, event)
        if learned(s, i, left_teach):
            for kind in range(kinds):
                remember(classes, classes.codes[i, kind], s.taught)
