# SPDX-License-Identifier: Apache-2.0
"""Caps that a record implies: users (or accounts) who stand at a number while more of theirs wait and there is room.

A *refusal* is a job that waited although its partition had room for it over ten minutes, and that was passed: a job of
somebody else, submitted later, no smaller and no shorter by its limit, started while it waited. Neither the order of
the queue nor a reservation for a larger job explains that again and again at the same level. The level of a refusal is
what its user would have held with it. A cap lies at or above all that was ever held and below the levels refused.

And jobs held for what a log does not say: a dependency, a begin time, a hold, a throttle of an array.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...events.recorded import outcome
from ...table import Nominal, Trace

PATIENCE_S = 600.0
LOOKS = 6  # instants of its wait at which a job is looked at
PASSERS = 300  # starts looked through for one that passed
LEAST_JOBS, LEAST_OWN = 20, 50  # refusals above a cap for everybody, and above one person's own
LEAST_GROUPS = 3
PURITY = 0.8  # share of the refusals that a cap has to explain
ABOVE = 0.1  # who may hold more than a cap for everybody, as a share of those who show it


@dataclass(frozen=True, slots=True)
class Cap:
    """A cap and who speaks for it: `value` of `what` (cpu, jobs) that each group (`of`), or the one `name`, may hold.

    `jobs` were refused above it and `against` at or below it, of `groups` users or accounts; `above` of them held more.
    """

    of: str
    what: str
    value: float
    name: str
    jobs: int
    groups: int
    against: int
    above: int


@dataclass(frozen=True, slots=True)
class Queue:
    """The jobs of one partition that ran: instants in seconds, sizes, limits (NaN: none), (n,) each; its processors.

    `gpus` (n,) of each job and how many GPUs there are (`gpus_there`), where the log tells them; what else a job asks for that
    may keep it from a node (`memory`, (n,)) is compared, not counted. None: the log does not tell it.
    """

    submit: np.ndarray
    start: np.ndarray
    end: np.ndarray
    size: np.ndarray
    limit: np.ndarray
    capacity: float
    gpus: np.ndarray | None = None
    gpus_there: float = 0.0
    memory: np.ndarray | None = None

    @property
    def held(self) -> list[tuple[np.ndarray, float]]:
        """What running jobs hold of the machine, each (n,), and how much of it there is."""
        gpus = [] if self.gpus is None else [(self.gpus, self.gpus_there)]
        return [(self.size, self.capacity), *gpus]

    @property
    def counted(self) -> dict[str, np.ndarray]:
        """What a cap may be on: (n,) each."""
        found = {"cpu": self.size, "jobs": np.ones(len(self.size))}
        return found if self.gpus is None else {**found, "gpu": self.gpus}


def find_caps(queue: Queue, groups: dict[str, np.ndarray], held: np.ndarray) -> list[Cap]:
    """The caps of a partition, the best supported first; each explains refusals that those before it do not.

    Parameters
    ----------
    queue
        Its jobs.
    groups
        The codes (n,) of the jobs' users, accounts, ... by what they are; -1 unknown.
    held
        Jobs (n,) that waited for what the record does not tell: no refusal.

    Notes
    -----
    `tests/naive/caps.py` is the same, slowly. O(n log n) and some microseconds a refusal.
    """
    found: list[Cap] = []
    explained = held.copy()
    for _ in range(len(queue.counted) * len(groups)):
        best = None
        for of, codes in groups.items():
            refused = refusals(queue, codes, explained)
            for what, size in queue.counted.items():
                levels, peaks = held_levels(queue, codes, size, refused)
                cap = best_cap(of, what, codes, refused, levels, peaks)
                if cap is not None and (best is None or cap.jobs > best[0].jobs):
                    best = cap, levels if not cap.name else np.where(codes == int(cap.name), levels, np.nan)
        if best is None:
            return found
        found.append(best[0])
        explained |= best[1] > best[0].value
    return found


def refusals(queue: Queue, codes: np.ndarray, explained: np.ndarray) -> np.ndarray:
    """The instant (n,) at which a job of a known group was refused with room for it, and passed; NaN: never."""
    wait = queue.start - queue.submit
    asked = np.flatnonzero((codes >= 0) & ~explained & (wait > 2 * PATIENCE_S))
    order = np.argsort(queue.start, kind="stable")
    starts = queue.start[order]
    at = np.full(len(wait), np.nan)
    rooms = [_Room.of(queue, size, there) for size, there in queue.held]
    for share in (np.arange(LOOKS) + 0.5) / LOOKS:
        left = asked[np.isnan(at[asked])]
        instant = queue.submit[left] + share * (wait[left] - PATIENCE_S)
        room = np.logical_and.reduce([each.has(left, instant) for each in rooms])
        for_all = room & np.logical_and.reduce([each.has_for_others(codes, left, instant) for each in rooms])
        at[left[for_all]] = instant[for_all]
        room &= ~for_all
        for row, when in zip(left[room].tolist(), instant[room].tolist()):
            begin, end = np.searchsorted(starts, (when, queue.start[row] - 1e-9))
            others = order[begin : min(end, begin + PASSERS)]
            if passes(queue, codes, others, row).any():
                at[row] = when
    return at


@dataclass(frozen=True, slots=True)
class _Room:
    """What jobs hold of something of which so much is `there`: instants, the most held over stretches from each on."""

    queue: Queue
    size: np.ndarray
    there: float
    time: np.ndarray
    most: list[np.ndarray]

    @classmethod
    def of(cls, queue: Queue, size: np.ndarray, there: float) -> _Room:
        time, running = steps(queue.start, queue.end, size)
        return cls(queue, size, there, time, range_maxima(running))

    def has(self, rows: np.ndarray, instant: np.ndarray) -> np.ndarray:
        """Whether each job would have had what it asks for, or asks for none, for ten minutes from an instant on."""
        first = np.searchsorted(self.time, instant, side="right") - 1
        last = np.searchsorted(self.time, instant + PATIENCE_S, side="right") - 1
        most, asks = most_between(self.most, np.maximum(first, 0), last), self.size[rows]
        return np.asarray((most + asks <= self.there) | (asks <= 0))

    def has_for_others(self, codes: np.ndarray, rows: np.ndarray, instant: np.ndarray) -> np.ndarray:
        """Whether all that others waited for, and any one job that the same group did, had room as well."""
        q, found = self.queue, np.zeros(len(rows), bool)
        every = np.stack([instant, instant + PATIENCE_S])
        taken = _held_at(q.submit, q.end, self.size, every)  # what waits and what runs
        for group in np.unique(codes[rows]).tolist():
            mine, own = codes[rows] == group, np.flatnonzero(codes == group)
            largest = np.zeros(every[:, mine].shape)
            for size in np.unique(self.size[own]).tolist():
                alike = own[self.size[own] == size]
                waiting = _held_at(q.submit[alike], q.start[alike], np.ones(len(alike)), every[:, mine])
                taken[:, mine] -= size * waiting
                largest[waiting > 0] = size
            found[mine] = (taken[:, mine] + largest <= self.there).all(axis=0)
        return found | (self.size[rows] <= 0)


def _held_at(begin: np.ndarray, end: np.ndarray, size: np.ndarray, when: np.ndarray) -> np.ndarray:
    """What is held at instants, of sizes held from `begin` to before `end`."""
    time, held = steps(begin, end, size)
    place = np.searchsorted(time, when, side="right") - 1
    return np.asarray(np.where(place >= 0, held[np.maximum(place, 0)], 0.0))


def passes(queue: Queue, codes: np.ndarray, others: np.ndarray, row: int) -> np.ndarray:
    """Which of the jobs are somebody else's, submitted later than the one, no smaller and no shorter by its limit."""
    found = (queue.submit[others] > queue.submit[row]) & (codes[others] != codes[row])
    for asks in (queue.size, queue.limit, queue.gpus, queue.memory):
        if asks is not None:
            found &= ~(asks[others] < asks[row])  # what is unknown is not compared
    return np.asarray(found)


def held_levels(
    queue: Queue, codes: np.ndarray, size: np.ndarray, refused: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What each refused job's group would have held with it (n,), NaN elsewhere; the most that each group held."""
    levels = np.full(len(codes), np.nan)
    peaks = np.zeros(int(codes.max(initial=-1)) + 1)
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(peaks) + 1))
    for group, (begin, end) in enumerate(pairwise(bounds.tolist())):
        rows = order[begin:end]
        if not len(rows):
            continue
        time, running = steps(queue.start[rows], queue.end[rows], size[rows])
        peaks[group] = running.max(initial=0.0)
        mine = rows[~np.isnan(refused[rows])]
        before = np.searchsorted(time, refused[mine], side="right") - 1
        levels[mine] = np.where(before >= 0, running[np.maximum(before, 0)], 0.0) + size[mine]
    return levels, peaks


def best_cap(
    of: str, what: str, codes: np.ndarray, refused: np.ndarray, levels: np.ndarray, peaks: np.ndarray
) -> Cap | None:
    """The cap that most refusals speak for: one for everybody that enough groups show, else one group's own."""
    known = ~np.isnan(refused)
    if not known.any():
        return None
    group, level = codes[known], levels[known]
    best: Cap | None = None
    for value in np.unique(peaks[np.unique(group)]).tolist():
        beyond = np.bincount(group[level > value], minlength=len(peaks))
        within = np.bincount(group[level <= value], minlength=len(peaks))
        shows = (beyond > 0) & (beyond >= PURITY * (beyond + within)) & (peaks <= value)
        above = int((peaks > value).sum())
        jobs, count, against = int(beyond[shows].sum()), int(shows.sum()), int(within[peaks <= value].sum())
        stands = int((shows & (peaks == value)).sum())
        enough = jobs >= LEAST_JOBS and count >= LEAST_GROUPS and jobs >= PURITY * (jobs + against)
        if enough and stands and above <= ABOVE * count and (best is None or jobs > best.jobs):
            best = Cap(of, what, value, "", jobs, count, against, above)
    if best is not None:
        return best
    for one in np.unique(group).tolist():
        mine = level[group == one]
        jobs = int((mine > peaks[one]).sum())
        if jobs >= LEAST_OWN and jobs >= PURITY * len(mine) and (best is None or jobs > best.jobs):
            best = Cap(of, what, float(peaks[one]), str(one), jobs, 1, len(mine) - jobs, 0)
    return best


def steps(start: np.ndarray, end: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Instants at which something changes, in order, and what is held from each on; ends before starts."""
    time = np.concatenate([start, end])
    change = np.concatenate([size, -size])
    order = np.lexsort((change, time))
    return time[order], np.cumsum(change[order])


def range_maxima(values: np.ndarray) -> list[np.ndarray]:
    """For `most_between`: the maxima over every stretch of 1, 2, 4, ... values."""
    levels, width = [values], 1
    while 2 * width <= len(values):
        one = levels[-1]
        levels.append(np.maximum(one[:-width], one[width:]))
        width *= 2
    return levels


def most_between(levels: list[np.ndarray], first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The largest value from each `first` to its `last`, both counted.

    >>> most_between(range_maxima(np.array([3.0, 1.0, 2.0])), np.array([0, 1]), np.array([1, 2])).tolist()
    [3.0, 2.0]
    """
    length = np.maximum(last - first + 1, 1)
    power = np.floor(np.log2(length)).astype(int)
    most = np.empty(len(first))
    for k in np.unique(power).tolist():
        here = power == k
        most[here] = np.maximum(levels[k][first[here]], levels[k][first[here] + length[here] - (1 << k)])
    return most


PASSED = 2
"""How many of its like have to start before a job that was submitted before them."""
AHEAD_S = 600.0
ALIKE = (
    *("user_id", "account", "partition_id", "qos"),
    *("req_procs", "req_time", "req_nodes", "req_mem_kib", "req_gpus", "nice", "features"),
)


def find_held(trace: Trace) -> np.ndarray:
    """Which jobs (n,) were held: two of the same user and request, submitted later, started ten minutes before.

    No order of a queue passes a job for its like of the same user, so it was not eligible. Jobs of an unknown user are
    never called held. O(n log n).

    >>> log = Trace.from_arrays({"submit_time": [0, 1, 2], "wait_time": [5000, 9, 9], "run_time": [9, 9, 9],
    ...                          "user_id": ["ada"] * 3})
    >>> find_held(log).tolist()
    [True, False, False]
    """
    submit, wait, run = outcome(trace)
    start = np.where(np.isnan(run), np.nan, submit + wait)
    codes = trace.nominal("user_id").codes.astype(np.int64)
    known = (codes >= 0) & ~np.isnan(start) & (trace.wait_time >= 0)
    kind = codes
    for name in ALIKE[1:]:
        if name in trace.names:
            values = (
                trace.nominal(name).codes if _is_nominal(trace, name) else np.nan_to_num(trace.number(name), nan=-1)
            )
            kind = np.unique(np.stack([kind, np.unique(values, return_inverse=True)[1]]), axis=1, return_inverse=True)[
                1
            ]
    held = np.zeros(len(trace), bool)
    rows = np.flatnonzero(known)
    order = rows[np.lexsort((rows, submit[rows], kind[rows]))]
    starts: list[float] = []
    last = -1
    for row in order[::-1].tolist():  # of each kind the latest submission first
        if kind[row] != last:
            starts, last = [], int(kind[row])
        held[row] = bisect_left(starts, start[row] - AHEAD_S) >= PASSED
        insort(starts, float(start[row]))
    return held


def with_releases(trace: Trace, held: np.ndarray) -> Trace:
    """The log with held jobs eligible when they started: what the record says of their release."""
    submit, wait, _ = outcome(trace)
    known = trace.number("eligible_time")
    eligible = np.where(held & np.isnan(known), submit + wait, known)
    return trace.with_columns({"eligible_time": eligible})


def _is_nominal(trace: Trace, name: str) -> bool:
    return isinstance(trace.at_submission().get(name), Nominal)
