# SPDX-License-Identifier: Apache-2.0
"""Forward simulation: computes when a job at the end of the queue starts, if no job arrives and all plans are exact.

Because no job arrives and every plan is exact, each head job needs only one reservation. `ForwardPlan` is the schedule
of one queue; the compiled functions above it work on the arrays of a schedule (`Forward`).
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from ..compiled import by_address, inlined, inner, kernel
from .state import GONE, HEAP, pop, push

FCFS, EASY, EASY_SJBF, GREEDY = range(4)
SIZE, FREE, EXTRA, HEAD, JOBS, RUNNING, NEAR, FAR, OPENINGS, POLICY, RESERVED = range(11)
NOW, SHADOW = range(2)
BLOCK, WIDE = 16, 256
OPENING_RECORD = np.dtype(
    [("time", "f8"), ("shadow", "f8"), ("shortest", "f8"), ("below", "f8"), ("free", "i8"), ("extra", "i8")]
)


@by_address
class Forward(
    namedtuple(
        "Forward",
        "tally time running_end running_procs procs planned start order position slot_procs slot_planned block_procs"
        " block_planned wide_procs wide_planned near far openings",
    )
):
    """The arrays: the constants SIZE to RESERVED index `tally`, NOW and SHADOW index `time`. The queue is in order of
    arrival.

    `start` is infinity if a job waits, at most now if it runs, and -infinity if it left the queue or never fits.
    `order` maps positions among the backfill candidates to jobs, and `position` maps jobs to positions. `slot_*` has
    processors and planned run times by candidate position; `block_*` and `wide_*` have their minima over 16 and 256
    positions.
    """


def blank_forward(size: int, running: int, queued: int, policy: int) -> Forward:
    """Allocate arrays for this many running and queued jobs; every queued job may also run."""
    blocks, wides = queued // BLOCK + 1, queued // WIDE + 1
    count, time = np.zeros(11, np.int64), np.zeros(2)
    count[SIZE], count[POLICY] = size, policy
    run, ends = running + queued, running + queued + 1
    return Forward(
        *(count, time, np.empty(run), _indices(run), _indices(queued), np.empty(queued), np.empty(queued)),
        *(_indices(queued), _indices(queued), _indices(queued), np.empty(queued)),
        *(_indices(blocks), np.empty(blocks), _indices(wides), np.empty(wides)),
        *(np.empty(ends, HEAP), np.empty(ends, HEAP), np.empty(run + queued + 2, OPENING_RECORD)),
    )


def _indices(n: int) -> np.ndarray:
    """Allocate an int64 array of shape (n,)."""
    return np.empty(n, np.int64)


BEGIN, OPENING, JOIN = range(3)
"""Commands of `go_forward`."""


@kernel
def go_forward(f: Forward, command: int, now: float, procs: int, planned: float) -> float:
    """Execute a command; Python calls only this function, so that a pass is compiled once.

    BEGIN: simulate from `now`; return how many jobs start at `now`. OPENING: return the index of the first opening
    (start opportunity) for the job, or -1. JOIN: add the job to the end of the queue; return its start.
    """
    if command == BEGIN:
        begin(f, now)
        due = 0
        for q in range(f.tally[JOBS]):
            due += f.start[q] == now
        return float(due)
    if command == OPENING:
        return float(first_opening(f, procs, planned))
    return join_queue(f, procs, planned)


@kernel
def fill(
    f: Forward, size: int, policy: int, running_end: np.ndarray, running_procs: np.ndarray,
    procs: np.ndarray, planned: np.ndarray, order: np.ndarray,
) -> float:  # fmt: skip
    """Load running jobs and queue, and return the earliest end; an empty `order` means order of arrival."""
    f.tally[:] = 0
    f.time[:] = 0.0
    f.tally[SIZE], f.tally[POLICY], f.tally[JOBS], f.tally[RUNNING] = size, policy, len(procs), len(running_end)
    first_end = np.inf
    for k in range(len(running_end)):
        f.running_end[k], f.running_procs[k] = running_end[k], running_procs[k]
        first_end = min(first_end, running_end[k])
    for q in range(len(procs)):
        f.procs[q], f.planned[q] = procs[q], planned[q]
        f.start[q] = np.inf if procs[q] <= size else -np.inf
        f.order[q] = order[q] if len(order) > 0 else q
    return first_end


@inner
def begin(f: Forward, now: float) -> None:
    """Reset the state to `now` and make a scheduling pass: jobs that started earlier keep running, all other jobs
    wait."""
    count, far = f.tally, 0
    free = count[SIZE]
    for k in range(count[RUNNING]):
        if f.running_end[k] > now:
            far = push(f.far, far, f.running_end[k], k, f.running_procs[k])
            free -= f.running_procs[k]
    n = count[JOBS]
    for q in range(n):
        if f.start[q] >= now:
            f.start[q] = np.inf
        elif f.start[q] + f.planned[q] > now:
            far = push(f.far, far, f.start[q] + f.planned[q], count[RUNNING] + q, f.procs[q])
            free -= f.procs[q]
    for position in range(n):
        fill_slot(f, position)
    opened = count[OPENINGS]
    while opened > 0 and f.openings[opened - 1].time >= now:
        opened -= 1
    count[OPENINGS] = opened
    count[FREE], count[FAR] = free, far
    count[NEAR] = count[HEAD] = count[RESERVED] = 0
    f.time[NOW] = now
    one_pass(f)


@inlined
def fill_slot(f: Forward, position: int) -> None:
    """Enter a job at a candidate position and update the minima of its block; positions must be filled in order."""
    q = f.order[position]
    f.position[q] = position
    waits = f.start[q] == np.inf
    procs, planned = (f.procs[q], f.planned[q]) if waits else (GONE, np.inf)
    f.slot_procs[position], f.slot_planned[position] = procs, planned
    b, w = position // BLOCK, position // WIDE
    if position % BLOCK == 0:
        f.block_procs[b], f.block_planned[b] = GONE, np.inf
    if position % WIDE == 0:
        f.wide_procs[w], f.wide_planned[w] = GONE, np.inf
    f.block_procs[b], f.block_planned[b] = min(f.block_procs[b], procs), min(f.block_planned[b], planned)
    f.wide_procs[w], f.wide_planned[w] = min(f.wide_procs[w], procs), min(f.wide_planned[w], planned)


@inlined
def empty_slot(f: Forward, position: int) -> None:
    """Clear a candidate position, and recompute the block minima that depended on the candidate. O(16)."""
    procs, planned = f.slot_procs[position], f.slot_planned[position]
    f.slot_procs[position], f.slot_planned[position] = GONE, np.inf
    b, w, n = position // BLOCK, position // WIDE, f.tally[JOBS]
    if procs > f.block_procs[b] and planned > f.block_planned[b]:
        return
    end = min(b * BLOCK + BLOCK, n)
    f.block_procs[b], f.block_planned[b] = least_of(f.slot_procs, f.slot_planned, b * BLOCK, end)
    if procs > f.wide_procs[w] and planned > f.wide_planned[w]:
        return
    end = min((w + 1) * (WIDE // BLOCK), (n - 1) // BLOCK + 1)
    f.wide_procs[w], f.wide_planned[w] = least_of(f.block_procs, f.block_planned, w * (WIDE // BLOCK), end)


@inlined
def least_of(procs: np.ndarray, planned: np.ndarray, first: int, end: int) -> tuple[np.int64, float]:
    """Return the smallest number of processors and the shortest planned run time from index `first` to `end`."""
    least_procs, least_planned = GONE, np.inf
    for k in range(first, end):
        least_procs, least_planned = min(least_procs, procs[k]), min(least_planned, planned[k])
    return least_procs, least_planned


@inner
def one_pass(f: Forward) -> None:
    """Start head jobs while they fit, reserve for the next head, backfill, and record openings for later jobs."""
    count, now = f.tally, f.time[NOW]
    head, n = count[HEAD], count[JOBS]
    while True:
        while head < n and f.start[head] != np.inf:
            head += 1
        if head == n or f.procs[head] > count[FREE]:
            break
        run_job(f, head, np.inf)
        count[RESERVED] = 0
    count[HEAD] = head
    if head == n:
        f.time[SHADOW] = np.inf
        count[EXTRA] = count[FREE]
        leave_open(f, -np.inf)
        return
    if count[POLICY] == FCFS:
        return
    if count[POLICY] == GREEDY:  # without a reservation, every job that fits starts
        f.time[SHADOW] = np.inf
    elif not count[RESERVED]:
        reserve_once(f, f.procs[head])
    shadow = f.time[SHADOW]
    if count[POLICY] == EASY_SJBF:
        leave_open(f, -np.inf)
    position = next_place(f, 0)
    while position >= 0:
        q = f.order[position]
        if now + f.planned[q] > shadow:
            count[EXTRA] -= f.procs[q]
        run_job(f, q, shadow)
        if count[POLICY] == EASY_SJBF:  # a shorter job would start before this job, all others after it
            f.openings[count[OPENINGS] - 1].below = f.planned[q]
            leave_open(f, f.planned[q])
        position = next_place(f, position + 1)
    if count[POLICY] in (EASY, GREEDY):
        leave_open(f, -np.inf)


@inlined
def run_job(f: Forward, q: int, shadow: float) -> None:
    """Start job q now; put it in the heap `near` if its planned end is not after the shadow time, else in `far`."""
    count, now = f.tally, f.time[NOW]
    end = now + f.planned[q]
    f.start[q] = now
    count[FREE] -= f.procs[q]
    empty_slot(f, f.position[q])
    if end <= shadow and shadow < np.inf:
        count[NEAR] = push(f.near, count[NEAR], end, count[RUNNING] + q, f.procs[q])
    else:
        count[FAR] = push(f.far, count[FAR], end, count[RUNNING] + q, f.procs[q])


@inlined
def reserve_once(f: Forward, procs: int) -> None:
    """Compute the shadow time of a new head job: move running jobs from `far` to `near` until the head fits."""
    count = f.tally
    free, shadow = count[FREE], f.time[NOW]
    while count[FAR] > 0 and (free < procs or f.far[0].key == shadow):
        shadow = f.far[0].key
        free += f.far[0].item
        count[NEAR] = push(f.near, count[NEAR], shadow, f.far[0].tie, f.far[0].item)
        count[FAR] = pop(f.far, count[FAR])
    f.time[SHADOW] = shadow
    count[EXTRA] = free - procs
    count[RESERVED] = 1


@inlined
def next_place(f: Forward, first: int) -> int:
    """Return the first candidate from position `first` on that fits and does not delay the head job, or -1."""
    position, n = first, f.tally[JOBS]
    while position < n:
        b, w = position // BLOCK, position // WIDE
        if position % WIDE == 0 and not may_pass(f, f.wide_procs[w], f.wide_planned[w]):
            position += WIDE
        elif position % BLOCK == 0 and not may_pass(f, f.block_procs[b], f.block_planned[b]):
            position += BLOCK
        elif may_pass(f, f.slot_procs[position], f.slot_planned[position]):
            return position
        else:
            position += 1
    return -1


@inlined
def may_pass(f: Forward, procs: int, planned: float) -> bool:
    """Return whether a job of this size fits now and does not delay the head job."""
    count = f.tally
    return bool(procs <= count[FREE] and (procs <= count[EXTRA] or f.time[NOW] + planned <= f.time[SHADOW]))


@inlined
def leave_open(f: Forward, shortest: float) -> None:
    """Record an opening: the start and free processors for jobs with a planned run time of at least `shortest` at this
    point of the pass."""
    count = f.tally
    opening = f.openings[count[OPENINGS]]
    opening.time, opening.shadow = f.time[NOW], f.time[SHADOW]
    opening.shortest, opening.below = shortest, np.inf
    opening.free, opening.extra = count[FREE], count[EXTRA]
    count[OPENINGS] += 1


@inner
def next_instant(f: Forward) -> bool:
    """Advance to the next planned end and make the scheduling pass of that instant; return False if no job runs."""
    count = f.tally
    which = NEAR if count[NEAR] > 0 else FAR
    heap = f.near if count[NEAR] > 0 else f.far
    if count[which] == 0:
        return False
    now = heap[0].key
    while count[which] > 0 and heap[0].key == now:
        count[FREE] += heap[0].item
        count[which] = pop(heap, count[which])
    f.time[NOW] = now
    one_pass(f)
    return True


@inner
def first_opening(f: Forward, procs: int, planned: float) -> int:
    """Return the first opening for a job at the end of the queue, or -1 if it never fits; simulate on demand."""
    i = 0
    while True:
        while i < f.tally[OPENINGS]:
            o = f.openings[i]
            fits = procs <= o.free and (procs <= o.extra or o.time + planned <= o.shadow)
            if fits and o.shortest <= planned < o.below:
                return i
            i += 1
        if not next_instant(f):
            return -1


@inner
def join_queue(f: Forward, procs: int, planned: float) -> float:
    """Add a job to the end of the queue, simulate again from the time at which the job affects other jobs, and return
    the job's start (infinity if it never fits).

    A job affects other jobs when it starts, or when it becomes the head and has a reservation. The call takes O(1) time
    if the job starts in the latest pass, else O(queued + running).
    """
    count, q = f.tally, f.tally[JOBS]
    opening = first_opening(f, procs, planned)
    first = max(opening, 0)
    start: float = f.openings[first].time if opening >= 0 else np.inf
    if count[POLICY] != GREEDY:  # without reservations, waiting jobs do not affect other jobs
        while first > 0 and f.openings[first].shadow == np.inf and f.openings[first - 1].shadow == np.inf:
            first -= 1
    since = f.openings[first].time
    if since == start == f.time[NOW] and count[POLICY] != EASY_SJBF:
        join_here(f, procs, planned)
        return start
    f.procs[q], f.planned[q], f.start[q] = procs, planned, np.inf if opening >= 0 else -np.inf
    position = q
    while count[POLICY] == EASY_SJBF and position > 0 and f.planned[f.order[position - 1]] > planned:
        f.order[position] = f.order[position - 1]
        position -= 1
    f.order[position] = q
    count[JOBS] = q + 1
    begin(f, since)
    return start


@inlined
def join_here(f: Forward, procs: int, planned: float) -> None:
    """Start the last job of the queue in the latest pass, which changes only the opening (start opportunity) of that
    pass."""
    count = f.tally
    q = count[JOBS]
    f.procs[q], f.planned[q], f.start[q], f.order[q] = procs, planned, np.inf, q
    count[JOBS] = q + 1
    fill_slot(f, q)
    empty = count[HEAD] == q
    if f.time[NOW] + planned > f.time[SHADOW]:
        count[EXTRA] -= procs
    run_job(f, q, f.time[SHADOW])
    if empty:
        count[HEAD], count[EXTRA] = q + 1, count[FREE]
    opening = f.openings[count[OPENINGS] - 1]
    opening.free, opening.extra = count[FREE], count[EXTRA]


POLICIES = {"fcfs": FCFS, "easy": EASY, "easy-sjbf": EASY_SJBF}
SPARE = 64
NO_ORDER = np.zeros(0, np.int64)


class ForwardPlan:
    """The planned schedule of a queue and its running jobs under FCFS, EASY, or EASY with shortest-job backfill.

    The method follows Mu'alem & Feitelson (TPDS 2001) with exact plans. The schedule is computed only as far as a call
    requires. The computed schedule stays valid when jobs join the end of the queue (`append`), when queued jobs start
    as planned (`started`), and when time passes without an event (`moved_to`). `running_end` has planned ends after
    `now`, in any order. The queue is in order of arrival. The running jobs must use at most `size` processors. A queued
    job that is larger than `size` is ignored. Times are instants in seconds. Construction and simulation cost O(jobs
    log jobs), a call of `start_of` O(number of recorded openings).

    >>> plan = ForwardPlan(0.0, 4, np.array([60.0]), np.array([2]), np.array([4]), np.array([100.0]))
    >>> plan.start_of(2, 50.0), plan.start_of(2, 70.0)
    (0.0, 160.0)
    >>> plan.append(2, 50.0), plan.start_of(2, 50.0)
    (0.0, 160.0)
    """

    def __init__(
        self,
        now: float,
        size: int,
        running_end: np.ndarray,
        running_procs: np.ndarray,
        queued_procs: np.ndarray,
        queued_planned: np.ndarray,
        policy: str = "easy",
        room: Forward | None = None,
    ) -> None:
        """Create the schedule; the arrays of an old schedule, `room`, are reused if they are large enough."""
        n, running = len(queued_procs), len(running_end)
        self.by_length = policy == "easy-sjbf"
        if room is None or n >= len(room.procs) or running > len(room.running_end) - len(room.procs):
            room = blank_forward(size, 2 * running, 2 * n + SPARE, POLICIES[policy])
        self.arrays, self.now = room, now
        order = np.argsort(queued_planned, kind="stable") if self.by_length else NO_ORDER
        self.first_end = fill(
            room, size, POLICIES[policy], running_end, running_procs, queued_procs, queued_planned, order
        )
        self.due = int(self._go(BEGIN, now))

    @property
    def size(self) -> int:
        """The number of processors of the machine."""
        return int(self.arrays.tally[SIZE])

    def __len__(self) -> int:
        """Return the number of jobs that are or were in the queue, including jobs that have started."""
        return int(self.arrays.tally[JOBS])

    def start_of(self, procs: int, planned: float) -> float:
        """Return when a job that joins the end of the queue now starts; infinity if it never fits."""
        i = int(self._go(OPENING, self.now, procs, planned))
        return float(self.arrays.openings[i]["time"]) if i >= 0 else np.inf

    def append(self, procs: int, planned: float) -> float:
        """Add a job to the end of the queue, and return its start. The call takes O(jobs) time if the computed schedule
        extends beyond this start.

        The plan changes from the job's start on, or from the time at which the job becomes the head and has a
        reservation.
        """
        if len(self) == len(self.arrays.procs):
            self._grow()
        start = self._go(JOIN, self.now, procs, planned)
        self.due += start == self.now
        return start

    def started(self, position: int, time: float) -> bool:
        """Mark the queued job at position `position` as running if it starts now as planned; if False, the caller must
        plan again."""
        f = self.arrays
        if self.by_length or f.start[position] != time or time != self.now:
            return False
        k = f.tally[RUNNING]
        end = time + f.planned[position]
        f.running_end[k], f.running_procs[k] = end, f.procs[position]
        f.tally[RUNNING] = k + 1
        f.start[position] = -np.inf
        self.first_end = min(self.first_end, float(end))
        self.due -= 1
        return True

    def moved_to(self, now: float) -> bool:
        """Move the plan to `now` if it is valid and there was no event; if False, make a new plan.

        The plan is not valid if a job should have started by now, or should have ended more than a second ago.
        """
        if now == self.now:
            return True
        if now < self.now or self.due or self.first_end < now + 1.0:
            return False
        openings = self.arrays.openings[: self.arrays.tally[OPENINGS]]
        openings["time"][openings["time"] == self.now] = now
        if self.arrays.time[NOW] == self.now:
            self.arrays.time[NOW] = now
        self.now = now
        return True

    def _go(self, what: int, now: float, procs: int = 0, planned: float = 0.0) -> float:
        """Execute a command of `go_forward` on the arrays of this schedule."""
        return float(go_forward(self.arrays, what, float(now), int(procs), float(planned)))

    def _grow(self) -> None:
        """Double the capacity of the queue, and compute the plan again from its first instant."""
        old, n, running = self.arrays, len(self), int(self.arrays.tally[RUNNING])
        self.arrays = f = blank_forward(self.size, running, 2 * n + SPARE, int(old.tally[POLICY]))
        for name in ("procs", "planned", "start", "order"):
            getattr(f, name)[:n] = getattr(old, name)[:n]
        for name in ("running_end", "running_procs"):
            getattr(f, name)[:running] = getattr(old, name)[:running]
        f.tally[JOBS], f.tally[RUNNING] = n, running
        self._go(BEGIN, self.now)
