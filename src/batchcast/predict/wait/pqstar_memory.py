"""What `pqstar` writes down of every submission and wait, as growing arrays: the histories, indexed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from .ledger import IN_QUEUE, JOBS

SIMILAR_S = 3600.0
NEVER = 2**62


class Seen(NamedTuple):
    """What each job's submission looked like, and chains of like jobs: one entry a job."""

    large: np.ndarray
    boundary: np.ndarray
    rank_size: np.ndarray
    rank_limit: np.ndarray
    cell: np.ndarray
    before_in_cell: np.ndarray
    before_in_class: np.ndarray


class Cells(NamedTuple):
    """One entry per distinct (processors, limit): its last job, first and last learned jobs, and the class's chain."""

    limit: np.ndarray
    used: np.ndarray
    next: np.ndarray
    last: np.ndarray
    last_started: np.ndarray
    last_quick: np.ndarray
    first_started: np.ndarray
    first_long: np.ndarray


class Classes(NamedTuple):
    """One entry per distinct number of processors: its cells' chain and its last job (both plus one; 0 is none)."""

    cells: np.ndarray
    last: np.ndarray


def blank_seen(capacity: int) -> Seen:
    """Room for so many jobs."""
    index = lambda: np.zeros(capacity, np.int64)  # noqa: E731
    return Seen(index(), index(), np.zeros(capacity), np.zeros(capacity), index(), index(), index())


def blank_cells(capacity: int) -> Cells:
    """Room for so many distinct shapes."""
    index = lambda: np.zeros(capacity, np.int64)  # noqa: E731
    return Cells(np.zeros(capacity), *(index() for _ in range(7)))


def blank_classes(capacity: int) -> Classes:
    """Room for so many distinct sizes."""
    return Classes(np.zeros(capacity, np.int64), np.zeros(capacity, np.int64))


@njit(cache=True)
def enter_cell(cells, classes, cell, klass, limit):
    """Link a shape into its size class when it is met for the first time."""
    if cells.used[cell]:
        return
    cells.used[cell] = 1
    cells.limit[cell] = limit
    cells.next[cell] = classes.cells[klass]
    classes.cells[klass] = cell + 1
    cells.last[cell] = -1
    cells.last_started[cell] = -1
    cells.last_quick[cell] = -1
    cells.first_started[cell] = NEVER
    cells.first_long[cell] = NEVER


@njit(cache=True)
def look_at_queue(jobs, tally, now, procs, limit, threshold):
    """One pass over the queue: both ranks, processors asked for by what may go first, the last similar stuck job."""
    n = tally.counts[IN_QUEUE]
    smaller, shorter, ahead, stuck = 0, 0, 0.0, -1
    for k in range(n):
        j = jobs.queue[k]
        less, sooner = jobs.procs[j] < procs, jobs.limit[j] < limit
        smaller += less
        shorter += sooner
        if less or sooner:
            ahead += jobs.procs[j]
        if (
            j > stuck
            and jobs.procs[j] == procs
            and abs(jobs.limit[j] - limit) <= SIMILAR_S
            and now - jobs.submit[j] > threshold
        ):
            stuck = j
    size = max(n, 1)
    return smaller / size, shorter / size, ahead, stuck


@njit(cache=True)
def near_boundary(seen, n, large_now):
    """The first job of the near history: the run of submissions that saw as many large running jobs as now."""
    if n > 0 and seen.large[n - 1] == large_now:
        return seen.boundary[n - 1]
    return n


@njit(cache=True)
def note_submission(jobs, tally, seen, cells, classes, large_now, now, procs, limit, cell, klass):
    """Write down what the next job's submission looks like, before the job enters the queue."""
    i = tally.counts[JOBS]
    rank_size, rank_limit, _, _ = look_at_queue(jobs, tally, now, procs, limit, np.inf)
    seen.rank_size[i] = rank_size
    seen.rank_limit[i] = rank_limit
    seen.boundary[i] = near_boundary(seen, i, large_now)
    seen.large[i] = large_now
    seen.cell[i] = cell
    enter_cell(cells, classes, cell, klass, limit)
    seen.before_in_cell[i] = cells.last[cell]
    seen.before_in_class[i] = classes.last[klass] - 1
    cells.last[cell] = i
    classes.last[klass] = i + 1


@njit(cache=True)
def note_wait(jobs, seen, cells, i, threshold):
    """Job i's wait was learned: its shape's first and last evidence."""
    c = seen.cell[i]
    cells.last_started[c] = max(cells.last_started[c], i)
    cells.first_started[c] = min(cells.first_started[c], i)
    if jobs.wait[i] <= threshold:
        cells.last_quick[c] = max(cells.last_quick[c], i)
    else:
        cells.first_long[c] = min(cells.first_long[c], i)
