# SPDX-License-Identifier: Apache-2.0
"""The histories of `pqstar`: growing arrays of submissions and waits, with links between similar jobs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compiled import inner, kernel
from ...compiled.arrays import Record, array_in
from ...events.kernel import jobs_of, queue_of, running_of
from ...events.record import LEFT, STARTED
from ...records import array_fields, enlarged, point_to

SIMILAR_S = 3600.0
NEVER = 2**62

SEEN = np.dtype(
    [  # one entry per job: its submission, and links between similar jobs
        ("large", "i8"),
        ("boundary", "i8"),
        ("rank_size", "f8"),
        ("rank_limit", "f8"),
        ("cell", "i8"),
        ("before_in_cell", "i8"),
        ("before_in_class", "i8"),
    ]
)
CELL = np.dtype(
    [  # one entry per distinct (processors, limit): its last job, its first and last jobs with known waits, its chain
        ("limit", "f8"),
        *(
            (name, "i8")
            for name in ("used", "next", "last", "last_started", "last_quick", "first_started", "first_long")
        ),
    ]
)
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
        *array_fields("seen", "cells", "classes"),
        *((name, "f8" if name == "threshold" else "i8") for name in Rules._fields),
        ("noted", "i8"),  # number of stored submissions
        ("peak", "f8"),  # size of the machine; if unknown, the most processors in use so far
        ("large", "f8"),  # a job with at least this many processors is large
    ]
)
seen_of = array_in("seen", SEEN)
cells_of = array_in("cells", CELL)
classes_of = array_in("classes", CLASS)


class Histories:
    """The record of `pqstar` and its arrays; 56 bytes per job."""

    def __init__(self, rules: Rules, jobs: int = 1024, cells: int = 64, classes: int = 64) -> None:
        self.record = np.zeros(1, MEMORY)
        for name, value in rules._asdict().items():
            self.record[name] = value
        self.seen, self.cells, self.classes = np.zeros(jobs, SEEN), np.zeros(cells, CELL), np.zeros(classes, CLASS)
        self._point()

    def make_room(self, jobs: int, cells: int, classes: int) -> None:
        """Enlarge the arrays to at least the given numbers of jobs, shapes and sizes, in amortised O(1) time."""
        if jobs > len(self.seen) or cells > len(self.cells) or classes > len(self.classes):
            self.seen = enlarged(self.seen, max(2 * jobs, len(self.seen)))
            self.cells = enlarged(self.cells, max(2 * cells, len(self.cells)))
            self.classes = enlarged(self.classes, max(2 * classes, len(self.classes)))
            self._point()

    def _point(self) -> None:
        point_to(self.record, seen=self.seen, cells=self.cells, classes=self.classes)

    def __getstate__(self) -> tuple[np.ndarray, ...]:
        return self.record, self.seen, self.cells, self.classes

    def __setstate__(self, state: tuple[np.ndarray, ...]) -> None:
        self.record, self.seen, self.cells, self.classes = state
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
    if shape.used:
        return
    shape.used = 1
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
    seen, n = seen_of(m), m.noted
    boundary: int = seen[n - 1].boundary if n > 0 and seen[n - 1].large == large_now else n
    return boundary


@inner
def note_submission(
    s: Record, m: Record, end: int, large_now: int, now: float, procs: float, limit: float, cell: int, klass: int
) -> None:
    """Store the next job's submission; the queue entries up to `end` are the jobs before it."""
    seen, cells, classes = seen_of(m), cells_of(m), classes_of(m)
    i = m.noted
    rank_size, rank_limit, _, _ = look_at_queue(s, end, now, procs, limit, np.inf)
    seen[i].rank_size = rank_size
    seen[i].rank_limit = rank_limit
    seen[i].boundary = near_boundary(m, large_now)
    seen[i].large = large_now
    seen[i].cell = cell
    enter_cell(cells, classes, cell, klass, limit)
    seen[i].before_in_cell = cells[cell].last
    seen[i].before_in_class = classes[klass].last - 1
    cells[cell].last = i
    classes[klass].last = i + 1
    m.noted = i + 1


@inner
def note_wait(s: Record, m: Record, i: int) -> None:
    """Update the first and last known waits of job i's shape, after the wait of job i became known."""
    shape = cells_of(m)[seen_of(m)[i].cell]
    shape.last_started = max(shape.last_started, i)
    shape.first_started = min(shape.first_started, i)
    if jobs_of(s)[i].wait <= m.threshold:
        shape.last_quick = max(shape.last_quick, i)
    else:
        shape.first_long = min(shape.first_long, i)
