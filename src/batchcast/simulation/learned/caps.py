# SPDX-License-Identifier: Apache-2.0
"""Learns caps from a log: a user or account never exceeds some use of a resource although its jobs wait and fit on the
machine.

A *refusal* is a job that waited although for ten minutes there was room for this job and for all other waiting jobs; or
a job that was overtaken: another user's later job with no smaller request started while it waited, and afterwards there
was room for the overtaken job for ten minutes. The queue order or a reservation cannot explain repeated refusals at one
level of use. The level of a refusal is the use (processors, jobs, GPUs) that the job's user would have reached if the
job had started. The value of a cap is the largest recorded use that is below the levels of the refusals.

The module also finds jobs that waited for reasons that the log does not record: a dependency, a begin time, a hold, a
throttle of an array.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ...events.machine_size import steps
from ...events.recorded import outcome
from ...machines.machine import Limits
from ...table import Nominal, Trace
from ...table.memory import share_of, units_of

TRES = {"cpu": "cpu", "gpu": "gres/gpu"}
"""Slurm's names of what a cap may limit, except jobs."""
PATIENCE_S = 600.0
OUTAGE_S = 4 * 3600.0  # period without a start that counts as an outage, in which no job is refused
LOOKS = 6  # number of instants of a job's wait that are examined
PASSERS = 300  # number of starts that are searched for a job that overtook
LEAST_JOBS, LEAST_OWN = 10, 50  # minimum number of refusals above a cap for all users, and above a single user's cap
LEAST_GROUPS = 3  # minimum number of groups with refusals above a cap for all, or with their peak at it
PURITY = 0.8  # minimum share of the refusals that a cap must explain
ABOVE = 0.1  # maximum share of the groups that use more than a cap for all


@dataclass(frozen=True, slots=True)
class Cap:
    """A cap and its evidence: each user or account (`kind`), or only the one called `name`, uses at most `value` of the
    resource `resource` (cpu, jobs, gpu).

    `jobs` of `groups` users or accounts were refused above the cap; `against` jobs were refused below the cap for no
    reason that the log shows; `above` groups used more than the cap.
    """

    kind: str
    resource: str
    value: float
    name: str
    jobs: int
    groups: int
    against: int
    above: int


@dataclass(frozen=True, slots=True)
class Queue:
    """The jobs of one partition that ran: instants (s), sizes and time limits (NaN: no limit), shape (n,) each; and the
    partition's size.

    `gpus` and `nodes` (n,) are None if unknown; `gpus_there` and `nodes_there` are the partition's numbers of GPUs and
    nodes. `memory` is each job's request per processor. `alone` is true if the partition shares no nodes with other
    partitions.
    """

    submit: np.ndarray
    start: np.ndarray
    end: np.ndarray
    size: np.ndarray
    limit: np.ndarray
    capacity: float
    gpus: np.ndarray | None = None
    gpus_there: float = 0.0
    nodes: np.ndarray | None = None
    nodes_there: float = 0.0
    memory: np.ndarray | None = None
    alone: bool = True

    @property
    def resources(self) -> list[tuple[np.ndarray, float]]:
        """Return the resources that running jobs use: each job's amount (n,), and the partition's total."""
        gpus = [] if self.gpus is None else [(self.gpus, self.gpus_there)]
        return [(self.size, self.capacity), *gpus]

    @property
    def counted(self) -> dict[str, np.ndarray]:
        """Return the resources that a cap may limit, such as processors: (n,) each."""
        found = {"cpu": self.size, "jobs": np.ones(len(self.size))}
        return found if self.gpus is None else {**found, "gpu": self.gpus}


def queue_of(trace: Trace, rows: np.ndarray, procs: str, capacity: float) -> tuple[Queue, np.ndarray]:
    """Return the jobs of `rows` that ran and have a known size and wait, and their rows."""
    submit, wait, run = (column[rows] for column in outcome(trace))
    size = trace.procs(procs)[rows]
    ran = (run > 0) & (size > 0) & (trace.wait_time[rows] >= 0)
    submit, start = submit[ran], (submit + wait)[ran]
    rows = rows[ran]
    gpus = np.nan_to_num(trace.number("req_gpus")[rows])
    found = Queue(submit, start, start + run[ran], size[ran], trace.req_time[rows], capacity)
    memory = share_of(trace, "req_mem_kib", "processor")[rows]
    nodes = np.nan_to_num(units_of(trace, "node", "alloc")[rows])
    return replace(found, gpus=gpus if gpus.any() else None, memory=memory, nodes=nodes if nodes.any() else None), rows


def eligible(trace: Trace, queue: Queue, rows: np.ndarray) -> Queue:
    """Return the queue with submission times moved to the times at which jobs became eligible."""
    submit = np.fmax(queue.submit, trace.number("eligible_time")[rows])
    return replace(queue, submit=np.minimum(submit, queue.start))


def find_caps(queue: Queue, groups: dict[str, np.ndarray], is_held: np.ndarray) -> list[Cap]:
    """Find the caps of a partition, the cap with most evidence first; each cap explains refusals that earlier caps do
    not explain.
    """
    # `is_held` marks jobs that waited for reasons not in the log; their waits are not refusals.
    #
    # `tests/naive/implied.py` is a slow version. The search takes O(n log n) time and some microseconds per refusal.
    caps: list[Cap] = []
    explained = is_held.copy()
    kinds = [
        (kind, codes, resource, size) for kind, codes in groups.items() for resource, size in queue.counted.items()
    ]
    most = {(kind, resource): peaks_of(queue, codes, size) for kind, codes, resource, size in kinds}
    for _ in range(len(most)):
        best = None
        for kind, codes in groups.items():
            refused = refusals(queue, codes, explained)
            levels = {resource: held_levels(queue, codes, size, refused) for resource, size in queue.counted.items()}
            beyond = {resource: level > most[kind, resource][codes] for resource, level in levels.items()}
            for resource, level in levels.items():
                other = np.logical_or.reduce([beyond[name] for name in beyond if name != resource])
                cap = best_cap(kind, resource, codes, level, most[kind, resource], other)
                if cap is None or (best is not None and cap.jobs <= best[0].jobs):
                    continue
                if cap.name or kind == widest_of(queue, groups, kind, resource, cap.value):
                    best = cap, level if not cap.name else np.where(codes == int(cap.name), level, np.nan)
        if best is None:
            return caps
        caps.append(best[0])
        explained |= best[1] > best[0].value
    return caps


def limits_of(caps: Sequence[Cap]) -> Limits:
    """Return the caps that apply to all users or accounts as limits of a QOS."""
    by = {(cap.kind, cap.resource): cap.value for cap in caps}
    tres = {of: {name: by[of, what] for what, name in TRES.items() if (of, what) in by} for of in ("user", "account")}
    return Limits(
        max_jobs_per_user=by.get(("user", "jobs"), math.inf),
        max_jobs_per_account=by.get(("account", "jobs"), math.inf),
        max_tres_per_user=tres["user"],
        max_tres_per_account=tres["account"],
    )


def widest_of(queue: Queue, groups: dict[str, np.ndarray], kind: str, resource: str, value: float) -> str:
    """Return the kind of group (user, account) that a cap limits: The result is `kind`, or a wider kind (accounts) if
    single users do not reach the cap.

    Under a cap on users, an account can use more than the cap; under a cap on accounts, it cannot. If the log shows
    evidence for neither kind, the result is `kind`.
    """
    size = queue.counted[resource]
    for wider, codes in groups.items():
        level, own = (_level_at_start(queue, each, size) for each in (codes, groups[kind]))
        known = (codes >= 0) & (groups[kind] >= 0) & (size > 0)
        together = known & (own < value)
        if wider != kind and not (level[known] > value).any() and (together & (level == value)).sum() >= LEAST_JOBS:
            return wider
    return kind


def _level_at_start(queue: Queue, codes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return how much each job's group used just after the job's start (n,)."""
    level = np.zeros(len(codes))
    for rows in _rows_of(codes):
        level[rows] = held_at(queue.start[rows], queue.end[rows], size[rows], queue.start[rows])
    return level


def refusals(queue: Queue, codes: np.ndarray, explained: np.ndarray) -> np.ndarray:
    """Return the instant (n,) at which each job was refused; NaN for jobs that were not refused."""
    at = np.full(len(codes), np.nan)
    wait = queue.start - queue.submit
    candidates = np.flatnonzero((codes >= 0) & ~explained & (wait > 2 * PATIENCE_S))
    rooms = [_Room(queue, size, there) for size, there in queue.resources]
    spare = rooms if queue.nodes is None else [*rooms, _Room(queue, queue.nodes, queue.nodes_there)]
    order = np.argsort(queue.start, kind="stable")
    starts = queue.start[order]
    for share in (np.arange(LOOKS) + 0.5) / LOOKS if queue.alone else ():
        left = candidates[np.isnan(at[candidates])]
        instant = queue.submit[left] + share * (wait[left] - PATIENCE_S)
        last = np.searchsorted(starts, instant, side="right") - 1  # the job itself starts after this instant
        quiet = (last < 0) | (starts[last + 1] - starts[last] >= OUTAGE_S)
        left, instant = left[~quiet], instant[~quiet]
        room = np.logical_and.reduce([each.has(left, instant) for each in rooms])
        left, instant = left[room], instant[room]
        room = np.logical_and.reduce([each.has_beside_others(codes, left, instant) for each in spare])
        at[left[room]] = instant[room]
    left = candidates[np.isnan(at[candidates])]
    first, last = np.searchsorted(starts, queue.submit[left]), np.searchsorted(starts, queue.start[left] - PATIENCE_S)
    for row, begin, end in zip(left.tolist(), first.tolist(), last.tolist(), strict=True):
        others = order[begin : min(end, begin + PASSERS)]
        instant = queue.start[others[passes(queue, codes, others, row)]]
        if len(instant):
            repeated = np.full(len(instant), row)
            instant = instant[np.logical_and.reduce([each.has(repeated, instant) for each in rooms])]
            at[row] = instant[0] if len(instant) else np.nan
    return at


class _Room:
    """The use of a resource over time, with the maxima over periods; the machine has `there` units of the resource."""

    def __init__(self, queue: Queue, size: np.ndarray, total: float) -> None:
        self.queue, self.size, self.total = queue, size, total
        self.time, running = steps(queue.start, queue.end, size)
        self.most = range_maxima(running)

    def has(self, rows: np.ndarray, instant: np.ndarray) -> np.ndarray:
        """Return whether each job had enough of the resource for ten minutes after an instant, or does not request the
        resource."""
        first = np.searchsorted(self.time, instant, side="right") - 1
        last = np.searchsorted(self.time, instant + PATIENCE_S, side="right") - 1
        most, asks = most_between(self.most, np.maximum(first, 0), last), self.size[rows]
        return np.asarray((most + asks <= self.total) | (asks <= 0))

    def has_beside_others(self, codes: np.ndarray, rows: np.ndarray, instant: np.ndarray) -> np.ndarray:
        """Return whether there was enough of the resource for other groups' waiting jobs and for the group's largest
        waiting job."""
        q, found = self.queue, np.zeros(len(rows), bool)
        every = np.stack([instant, instant + PATIENCE_S])
        taken = held_at(q.submit, q.end, self.size, every)  # use of waiting and running jobs
        for group in np.unique(codes[rows]).tolist():
            mine, own = codes[rows] == group, np.flatnonzero(codes == group)
            largest = np.zeros(every[:, mine].shape)
            for size in np.unique(self.size[own]).tolist():
                alike = own[self.size[own] == size]
                waiting = held_at(q.submit[alike], q.start[alike], np.ones(len(alike)), every[:, mine])
                taken[:, mine] -= size * waiting
                largest[waiting > 0] = size
            found[mine] = (taken[:, mine] + largest <= self.total).all(axis=0)
        return np.asarray(found | (self.size[rows] <= 0))


def held_at(begin: np.ndarray, end: np.ndarray, size: np.ndarray, when: np.ndarray) -> np.ndarray:
    """Return the total use at the instants `when`, of amounts `size` that are used from `begin` to before `end`."""
    time, held = steps(begin, end, size)
    place = np.searchsorted(time, when, side="right") - 1
    return np.asarray(np.where(place >= 0, held[np.maximum(place, 0)], 0.0))


def passes(queue: Queue, codes: np.ndarray, candidates: np.ndarray, row: int) -> np.ndarray:
    """Return which jobs of `candidates` belong to another user, were submitted later than job `row`, and are no smaller
    or shorter than this job."""
    found = (queue.submit[candidates] > queue.submit[row]) & (codes[candidates] != codes[row])
    for asks in (queue.size, queue.limit, queue.gpus, queue.memory):
        if asks is not None:
            found &= ~(asks[candidates] < asks[row])  # comparisons with unknown values (NaN) are false
    return np.asarray(found)


def held_levels(queue: Queue, codes: np.ndarray, size: np.ndarray, refused: np.ndarray) -> np.ndarray:
    """Return the use that each refused job's group would have reached with the job (n,); NaN for other jobs."""
    levels = np.full(len(codes), np.nan)
    for rows in _rows_of(codes):
        mine = rows[~np.isnan(refused[rows])]
        levels[mine] = held_at(queue.start[rows], queue.end[rows], size[rows], refused[mine]) + size[mine]
    return levels


def peaks_of(queue: Queue, codes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the largest use of each group over the whole log, by code."""
    used = (steps(queue.start[rows], queue.end[rows], size[rows])[1] for rows in _rows_of(codes))
    return np.array([level.max(initial=0.0) for level in used])


def _rows_of(codes: np.ndarray) -> list[np.ndarray]:
    """Return the rows of the jobs with each code, in the order of codes from 0."""
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(int(codes.max(initial=-1)) + 2))
    return [order[begin:end] for begin, end in pairwise(bounds.tolist())]


def best_cap(
    kind: str, resource: str, codes: np.ndarray, levels: np.ndarray, peaks: np.ndarray, exceeds_other: np.ndarray
) -> Cap | None:
    """Return the cap with most evidence: a cap for all groups if enough groups show this cap, else a cap for one group.

    Refusals that exceed their group's largest use of another resource (`exceeds_other`, a mask (n,)) do not count
    against a cap.
    """
    known = ~np.isnan(levels)
    if not known.any():
        return None
    group, level, spoken = codes[known], levels[known], ~exceeds_other[known]
    best: Cap | None = None
    for value in np.unique(peaks[np.unique(group)]).tolist():
        beyond = np.bincount(group[level > value], minlength=len(peaks))
        within = np.bincount(group[(level <= value) & spoken], minlength=len(peaks))
        shows = (beyond > 0) & (beyond >= PURITY * (beyond + within)) & (peaks <= value)
        above = int((peaks > value).sum())
        jobs, count, against = int(beyond[shows].sum()), int(shows.sum()), int(within[peaks <= value].sum())
        stands, alike = int((shows & (peaks == value)).sum()), int((shows | (peaks == value)).sum())
        enough = jobs >= LEAST_JOBS and alike >= LEAST_GROUPS and jobs >= PURITY * (jobs + against)
        if enough and stands and above <= ABOVE * count and (best is None or jobs > best.jobs):
            best = Cap(kind, resource, value, "", jobs, count, against, above)
    if best is not None:
        return best
    for one in np.unique(group).tolist():
        mine = group == one
        jobs, against = int((mine & (level > peaks[one])).sum()), int((mine & (level <= peaks[one]) & spoken).sum())
        if jobs >= LEAST_OWN and jobs >= PURITY * (jobs + against) and (best is None or jobs > best.jobs):
            best = Cap(kind, resource, float(peaks[one]), str(one), jobs, 1, against, 0)
    return best


def range_maxima(values: np.ndarray) -> list[np.ndarray]:
    """Return the maxima over all ranges of 1, 2, 4, ... values, for `most_between`."""
    levels, width = [values], 1
    while 2 * width <= len(values):
        one = levels[-1]
        levels.append(np.maximum(one[:-width], one[width:]))
        width *= 2
    return levels


def most_between(levels: list[np.ndarray], first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the largest value in each range of positions from `first` to `last`, both included.

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
"""Number of similar jobs that must start before a job that was submitted earlier."""
AHEAD_S = 600.0
ALIKE = (
    *("user_id", "account", "partition_id", "qos"),
    *("req_procs", "req_time", "req_nodes", "req_mem_kib", "req_gpus", "nice", "features"),
)


def find_held(trace: Trace) -> np.ndarray:
    """Return a mask (n,) of held jobs: a job counts as held if two later jobs of its user with the same request started
    ten minutes earlier.

    No queue order lets a user's similar later job overtake a job, so the job was not eligible. Jobs of an unknown user
    never count as held. O(n log n).

    >>> log = Trace.from_arrays({"submit_time": [0, 1, 2], "wait_time": [5000, 9, 9], "run_time": [9, 9, 9],
    ...                          "user_id": ["ada"] * 3})
    >>> find_held(log).tolist()
    [True, False, False]
    """
    submit, wait, run = outcome(trace)
    start = np.where(np.isnan(run), np.nan, submit + wait)
    codes = trace.nominal("user_id").codes.astype(np.int64)
    known = (codes >= 0) & ~np.isnan(start) & (trace.wait_time >= 0)
    kind, known_at_submit = codes, trace.at_submission()
    for name in ALIKE[1:]:
        if name in trace.names:
            is_nominal = isinstance(known_at_submit.get(name), Nominal)
            values = trace.nominal(name).codes if is_nominal else np.nan_to_num(trace.number(name), nan=-1)
            pairs = np.stack([kind, np.unique(values, return_inverse=True)[1]])
            kind = np.unique(pairs, axis=1, return_inverse=True)[1]
    held = np.zeros(len(trace), bool)
    rows = np.flatnonzero(known)
    order = rows[np.lexsort((rows, submit[rows], kind[rows]))]
    starts: list[float] = []
    last = -1
    for row in order[::-1].tolist():  # the latest submission of each kind of job first
        if kind[row] != last:
            starts, last = [], int(kind[row])
        held[row] = bisect_left(starts, start[row] - AHEAD_S) >= PASSED
        insort(starts, float(start[row]))
    return held


def with_releases(trace: Trace, is_held: np.ndarray) -> Trace:
    """Return the log in which each held job becomes eligible at its start, because the log does not show an earlier
    release."""
    submit, wait, _ = outcome(trace)
    known = trace.number("eligible_time")
    eligible = np.where(is_held & np.isnan(known), submit + wait, known)
    return trace.with_columns({"eligible_time": eligible})
