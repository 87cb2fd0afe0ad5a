# SPDX-License-Identifier: Apache-2.0
"""The histories of `pqstar`, and compiled functions that mark a submission by its near, mid and far history.

The histories are growing arrays of submissions and waits, with links between similar jobs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from batchcast.compiled import allocating, inner, kernel
from batchcast.compiled.arrays import Record, array_in, insert_sorted
from batchcast.events.event import SUBMIT
from batchcast.events.kernel import apply_event, free_procs, jobs_of, oldest_start, queue_of, running_of
from batchcast.events.record import LEFT, QUEUED, STARTED
from batchcast.records import array_fields, enlarged, point_to

SIMILAR_S = 3600.0
NEVER = 2**62

LINKS = ("large", "boundary", "cell", "before_in_cell", "before_in_class")
SUBMISSION = np.dtype([("rank_size", "f8"), ("rank_limit", "f8"), *((name, "i8") for name in LINKS)])
"""One entry per job: its submission, and links between similar jobs."""
JOBS_OF_CELL = ("is_used", "next", "last", "last_started", "last_quick", "first_started", "first_long")
CELL = np.dtype([("limit", "f8"), *((name, "i8") for name in JOBS_OF_CELL)])
"""One entry per distinct (processors, limit): its last job, its first and last jobs with known waits, its chain."""
CLASS = np.dtype([("cells", "i8"), ("last", "i8")])
"""One entry per distinct number of processors: its cells' chain and its last job, both plus one; 0 is none."""


class Rules(NamedTuple):
    """The parameters of `pqstar` in the form that compiled code reads: threshold (s), flags, and depth."""

    threshold: float
    strict_large: bool
    strict_rank: bool
    quick_evidence: bool
    missing_passes: bool
    median_point: bool
    depth: int
    left_teach: bool


MEMORY = np.dtype(
    [
        *array_fields("submissions", "cells", "classes"),
        *((name, "f8" if name == "threshold" else "i8") for name in Rules._fields),
        ("noted", "i8"),  # number of stored submissions
        ("peak", "f8"),  # size of the machine; if unknown, the most processors in use so far
        ("large", "f8"),  # a job with at least this many processors is large
    ]
)
submissions_of = array_in("submissions", SUBMISSION)
cells_of = array_in("cells", CELL)
classes_of = array_in("classes", CLASS)


class Histories:
    """The record of `pqstar` and its arrays; 56 bytes per job."""

    def __init__(self, rules: Rules, jobs: int = 1024, cells: int = 64, classes: int = 64) -> None:
        self.record = np.zeros(1, MEMORY)
        for name, value in rules._asdict().items():
            self.record[name] = value
        self.submissions = np.zeros(jobs, SUBMISSION)
        self.cells, self.classes = np.zeros(cells, CELL), np.zeros(classes, CLASS)
        self._point()

    def make_room(self, jobs: int, cells: int, classes: int) -> None:
        """Enlarge the arrays to at least the given numbers of jobs, shapes and sizes, in amortised O(1) time."""
        if jobs > len(self.submissions) or cells > len(self.cells) or classes > len(self.classes):
            self.submissions = enlarged(self.submissions, max(2 * jobs, len(self.submissions)))
            self.cells = enlarged(self.cells, max(2 * cells, len(self.cells)))
            self.classes = enlarged(self.classes, max(2 * classes, len(self.classes)))
            self._point()

    def _point(self) -> None:
        """Store the addresses of the arrays in the record."""
        point_to(self.record, submissions=self.submissions, cells=self.cells, classes=self.classes)

    def __getstate__(self) -> tuple[np.ndarray, ...]:
        return self.record, self.submissions, self.cells, self.classes

    def __setstate__(self, state: tuple[np.ndarray, ...]) -> None:
        self.record, self.submissions, self.cells, self.classes = state
        self._point()


@kernel
def large_from(size: float, strict: bool) -> float:
    """Return the smallest power of two that is at least (with `strict`: above) the square root of the machine's
    processors."""
    power = 1.0
    while power * power < size or (strict and power * power == size):
        power *= 2.0
    return power


@inner
def measure(s: Record, m: Record) -> None:
    """Set the size of a large job from the machine's size or, if unknown, from the most processors in use so far."""
    size = s.size if s.size == s.size else max(m.peak, s.running_procs)
    if size != m.peak or m.large == 0.0:
        m.peak = size
        m.large = large_from(size, m.strict_large != 0)


@kernel
def count_large(s: Record, m: Record) -> int:
    """Return the number of large jobs that run now."""
    jobs, running = jobs_of(s), running_of(s)
    count = 0
    for k in range(s.running_first, s.running_end):
        count += jobs[running[k]].procs >= m.large
    return count


@inner
def has_taught(m: Record, job: Record) -> bool:
    """Return whether a job's wait is known and the method learns from it."""
    return bool(job.lesson == STARTED or (job.lesson == LEFT and m.left_teach != 0))


@inner
def enter_cell(cells: np.ndarray, classes: np.ndarray, cell: int, klass: int, limit: float) -> None:
    """Add a new shape to the chain of its size class."""
    shape = cells[cell]
    if shape.is_used:
        return
    shape.is_used = 1
    shape.limit = limit
    shape.next = classes[klass].cells
    classes[klass].cells = cell + 1
    shape.last = -1
    shape.last_started = -1
    shape.last_quick = -1
    shape.first_started = NEVER
    shape.first_long = NEVER


@inner
def look_at_queue(
    s: Record, end: int, now: float, procs: float, limit: float, threshold: float
) -> tuple[float, float, float, int]:
    """Return the job's ranks by size and by limit in the queue, and two more results of one pass over the queue up to
    entry `end`.

    The two more results are the processors of the jobs that may start first, and the last similar job that has waited
    beyond the threshold (-1: none).
    """
    jobs, queue = jobs_of(s), queue_of(s)
    smaller, shorter, ahead, stuck = 0, 0, 0.0, -1
    for k in range(s.queue_first, end):
        j = queue[k]
        job = jobs[j]
        less, sooner = job.procs < procs, job.limit < limit
        smaller += less
        shorter += sooner
        if less or sooner:
            ahead += job.procs
        if j > stuck and job.procs == procs and abs(job.limit - limit) <= SIMILAR_S and now - job.submit > threshold:
            stuck = j
    size = max(end - s.queue_first, 1)
    return smaller / size, shorter / size, ahead, stuck


@inner
def near_boundary(m: Record, large_now: int) -> int:
    """Return the first job of the near history, in which the number of large running jobs was the same as now."""
    submissions, n = submissions_of(m), m.noted
    boundary: int = submissions[n - 1].boundary if n > 0 and submissions[n - 1].large == large_now else n
    return boundary


@inner
def note_submission(s: Record, m: Record, cell: int, klass: int) -> None:
    """Store the next job's submission; the queue may already contain the job, as its last entry."""
    submissions, cells, classes = submissions_of(m), cells_of(m), classes_of(m)
    i, large_now = m.noted, count_large(s, m)
    job = jobs_of(s)[i]
    end = s.queue_end - 1 if i == s.entry else s.queue_end
    submissions[i].rank_size, submissions[i].rank_limit, _, _ = look_at_queue(s, end, 0.0, job.procs, job.limit, np.inf)
    submissions[i].boundary = near_boundary(m, large_now)
    submissions[i].large = large_now
    submissions[i].cell = cell
    enter_cell(cells, classes, cell, klass, job.limit)
    submissions[i].before_in_cell = cells[cell].last
    submissions[i].before_in_class = classes[klass].last - 1
    cells[cell].last = i
    classes[klass].last = i + 1
    m.noted = i + 1


@inner
def note_wait(s: Record, m: Record, i: int) -> None:
    """Update the first and last known waits of job i's shape, after the wait of job i became known."""
    shape = cells_of(m)[submissions_of(m)[i].cell]
    shape.last_started = max(shape.last_started, i)
    shape.first_started = min(shape.first_started, i)
    if jobs_of(s)[i].wait <= m.threshold:
        shape.last_quick = max(shape.last_quick, i)
    else:
        shape.first_long = min(shape.first_long, i)


UNMARKED, NEAR, MID_SIZE, MID_LIMIT, MID_FREE, FAR = range(6)


@inner
def mid_boundary(s: Record, near_first: int, oldest: float) -> int:
    """Return the last job before `near_first` at whose submission none of the jobs that run now was running (-1: none).

    No job that runs now was running then exactly if every job that runs now started after the submission, so one
    bisection finds the job.
    """
    jobs = jobs_of(s)
    low, high = 0, near_first
    while low < high:
        middle = (low + high) // 2
        if jobs[middle].submit < oldest:
            low = middle + 1
        else:
            high = middle
    return low - 1


@inner
def evidence_between(s: Record, m: Record, first_cell: int, limit: float, above: int, below: int) -> bool:
    """Return whether a similar job with a known wait was submitted between the jobs `above` and `below`."""
    jobs, submissions, cells = jobs_of(s), submissions_of(m), cells_of(m)
    c = first_cell
    while c >= 0:
        last = cells[c].last_quick if m.quick_evidence else cells[c].last_started
        if last > above and abs(cells[c].limit - limit) <= SIMILAR_S:
            j = cells[c].last
            while j > above:
                taught = j < below and has_taught(m, jobs[j])
                if taught and (m.quick_evidence == 0 or jobs[j].wait <= m.threshold):
                    return True
                j = submissions[j].before_in_cell
        c = cells[c].next - 1
    return False


@inner
def rank_limits(s: Record, m: Record, near_first: int, now: float) -> tuple[float, float]:
    """Return the rank thresholds of the near history by size and by limit; infinite or -1 if the paper gives none."""
    jobs, submissions = jobs_of(s), submissions_of(m)
    most_size, most_limit, least_size, least_limit = -1.0, -1.0, np.inf, np.inf
    for j in range(near_first, m.noted):
        if jobs[j].status == QUEUED:
            quick, late = False, now - jobs[j].submit > m.threshold
        else:
            taught = has_taught(m, jobs[j])
            quick = taught and jobs[j].wait <= m.threshold
            late = taught and not quick
        if quick:
            most_size, most_limit = max(most_size, submissions[j].rank_size), max(most_limit, submissions[j].rank_limit)
        elif late:
            least_size = min(least_size, submissions[j].rank_size)
            least_limit = min(least_limit, submissions[j].rank_limit)
    if most_size < 0:  # if there are no quick jobs, the late jobs decide; if there are neither, `missing` decides
        most = np.inf if m.missing_passes or least_size < np.inf else -1.0
        most_size, most_limit = most, most
    return min(most_size, least_size), min(most_limit, least_limit)


@inner
def far_agrees(m: Record, first_cell: int, limit: float, last: int) -> bool:
    """Return whether similar jobs up to job `last` have started and all of them started within the threshold."""
    cells = cells_of(m)
    agrees = False
    c = first_cell
    while c >= 0:
        if abs(cells[c].limit - limit) <= SIMILAR_S:
            if cells[c].first_long <= last:
                return False
            agrees |= cells[c].first_started <= last
        c = cells[c].next - 1
    return agrees


@allocating
def similar_median(s: Record, m: Record, last_of_class: int, limit: float, above: int, below: int) -> float:
    """Return the median wait of the latest `depth` similar started jobs between the jobs `above` and `below`."""
    jobs, submissions = jobs_of(s), submissions_of(m)
    waits = np.empty(m.depth)
    count = 0
    j = last_of_class
    while j > above and count < m.depth:
        if j < below and has_taught(m, jobs[j]) and abs(jobs[j].limit - limit) <= SIMILAR_S:
            count = insert_sorted(waits, waits, count, jobs[j].wait, jobs[j].wait)
        j = submissions[j].before_in_class
    if count == 0:
        threshold: float = m.threshold
        return threshold
    median: float = 0.5 * (waits[(count - 1) // 2] + waits[count // 2])
    return median


@kernel
def judge(
    state: np.ndarray, memory: np.ndarray, now: float, procs: float, limit: float, klass: int
) -> tuple[int, float, int]:
    """Decide whether a job that is submitted now is a quick starter.

    Returns the mark (which history and criterion decided), the predicted wait in seconds, and the number of jobs in
    the near history. `klass` (the job's size class) is -1 for an unknown size.
    """
    s, m = state[0], memory[0]
    classes, n = classes_of(m), m.noted
    near_first = near_boundary(m, count_large(s, m))
    if klass < 0 or classes[klass].cells == 0:
        return UNMARKED, np.nan, n - near_first
    first_cell, last = classes[klass].cells - 1, classes[klass].last - 1
    rank_size, rank_limit, ahead, stuck = look_at_queue(s, s.queue_end, now, procs, limit, m.threshold)
    mark, above, below = UNMARKED, -1, n
    if stuck < near_first and evidence_between(s, m, first_cell, limit, near_first - 1, n):
        mark, above = NEAR, near_first - 1
    else:
        mid = mid_boundary(s, near_first, oldest_start(s))
        if stuck <= mid and evidence_between(s, m, first_cell, limit, mid, near_first):
            most_size, most_limit = rank_limits(s, m, near_first, now)
            if rank_size < most_size or (rank_size == most_size and not m.strict_rank):
                mark = MID_SIZE
            elif rank_limit < most_limit or (rank_limit == most_limit and not m.strict_rank):
                mark = MID_LIMIT
            elif free_procs(s) - ahead > procs:
                mark = MID_FREE
            above, below = mid, near_first
        if mark == UNMARKED and far_agrees(m, first_cell, limit, mid):
            mark, above, below = FAR, -1, mid + 1
    if mark == UNMARKED:
        return mark, np.nan, n - near_first
    point = m.threshold
    if m.median_point:
        point = min(point, similar_median(s, m, last, limit, above, below))
    return mark, max(point, 1.0), n - near_first


@kernel
def note_event(state: np.ndarray, memory: np.ndarray, cell: int, klass: int) -> None:
    """Store the state's latest event: a submission of shape `cell` (if 0 or more), a wait, or a new machine size."""
    s, m = state[0], memory[0]
    if m.large == 0.0:
        measure(s, m)
    if cell >= 0:
        note_submission(s, m, cell, klass)
    elif s.taught == s.taught and has_taught(m, jobs_of(s)[s.entry]):
        note_wait(s, m, s.entry)
    measure(s, m)


@kernel
def replay_log(
    state: np.ndarray,
    memory: np.ndarray,
    requests: np.ndarray,
    events: np.ndarray,
    cell: np.ndarray,
    klass: np.ndarray,
    ask: np.ndarray,
    mark: np.ndarray,
    point: np.ndarray,
    near_jobs: np.ndarray,
) -> None:
    """Replay a whole log into an empty state; write the mark, the predicted wait and the number of near jobs for every
    job in the mask `ask`."""
    s, m = state[0], memory[0]
    measure(s, m)
    for e in range(len(events)):
        i, now = events[e].entry, events[e].time
        submitted = events[e].rank == SUBMIT
        if submitted and ask[i]:
            mark[i], point[i], near_jobs[i] = judge(state, memory, now, requests[i].procs, requests[i].limit, klass[i])
        apply_event(s, requests, events[e])
        note_event(state, memory, cell[i] if submitted else -1, klass[i])
