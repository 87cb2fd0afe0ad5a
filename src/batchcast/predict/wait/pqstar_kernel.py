"""The compiled half of `pqstar`: one submission judged, one wait learned, one whole log replayed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ...events.event import END, START, SUBMIT, WITHDRAW
from .ledger import (
    HEAD,
    IN_QUEUE,
    JOBS,
    QUEUED,
    RUN_PROCS,
    RUNNING,
    SIZE,
    STARTS,
    end_job,
    free_procs,
    learn_wait,
    leave_queue,
    note_gap,
    oldest_start,
    start_job,
    submit_job,
)

UNMARKED, NEAR, MID_SIZE, MID_LIMIT, MID_FREE, FAR = range(6)
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


class Rules(NamedTuple):
    """The reading, as numbers: threshold (s), strict sizes and ranks, quick evidence only, missing sides, depth."""

    threshold: float
    strict_large: bool
    strict_rank: bool
    quick_evidence: bool
    missing_passes: bool
    median_point: bool
    depth: int


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
def large_from(size, strict):
    """The smallest power of two not below (strict: above) the square root of the machine's processors."""
    power = 1.0
    while power * power < size or (strict and power * power == size):
        power *= 2.0
    return power


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
def mid_boundary(jobs, near, oldest):
    """The last job before `near` whose running set was disjoint from the one now (-1: none): it lies outside.

    Disjoint exactly when every job running now started after that submission, so one bisection finds it.
    """
    low, high = 0, near
    while low < high:
        middle = (low + high) // 2
        if jobs.submit[middle] < oldest:
            low = middle + 1
        else:
            high = middle
    return low - 1


@njit(cache=True)
def evidence_since(cells, first_cell, limit, since, quick_only):
    """Whether a similar started job was submitted at or after `since`."""
    c = first_cell
    while c >= 0:
        if abs(cells.limit[c] - limit) <= SIMILAR_S:
            last = cells.last_quick[c] if quick_only else cells.last_started[c]
            if last >= since:
                return True
        c = cells.next[c] - 1
    return False


@njit(cache=True)
def evidence_between(jobs, seen, cells, first_cell, limit, above, below, rules):
    """Whether a similar started job was submitted after `above` and before `below`."""
    c = first_cell
    while c >= 0:
        last = cells.last_quick[c] if rules.quick_evidence else cells.last_started[c]
        if last > above and abs(cells.limit[c] - limit) <= SIMILAR_S:
            j = cells.last[c]
            while j > above:
                told = j < below and jobs.learned[j] == 1
                if told and (not rules.quick_evidence or jobs.wait[j] <= rules.threshold):
                    return True
                j = seen.before_in_cell[j]
        c = cells.next[c] - 1
    return False


@njit(cache=True)
def rank_limits(jobs, seen, near, n, now, rules):
    """The two rank thresholds of the near history (infinity and -1 where the text leaves them open)."""
    most_size, most_limit, least_size, least_limit = -1.0, -1.0, np.inf, np.inf
    for j in range(near, n):
        if jobs.status[j] == QUEUED:
            quick, late = False, now - jobs.submit[j] > rules.threshold
        else:
            quick = jobs.learned[j] == 1 and jobs.wait[j] <= rules.threshold
            late = jobs.learned[j] == 1 and not quick
        if quick:
            most_size, most_limit = max(most_size, seen.rank_size[j]), max(most_limit, seen.rank_limit[j])
        elif late:
            least_size, least_limit = min(least_size, seen.rank_size[j]), min(least_limit, seen.rank_limit[j])
    if most_size < 0:  # no quick job: the other side decides; neither: as the rules say
        most = np.inf if rules.missing_passes or least_size < np.inf else -1.0
        most_size, most_limit = most, most
    return min(most_size, least_size), min(most_limit, least_limit)


@njit(cache=True)
def far_agrees(cells, first_cell, limit, last):
    """Whether similar jobs up to `last` have started and every one of them was quick."""
    found = False
    c = first_cell
    while c >= 0:
        if abs(cells.limit[c] - limit) <= SIMILAR_S:
            if cells.first_long[c] <= last:
                return False
            found |= cells.first_started[c] <= last
        c = cells.next[c] - 1
    return found


@njit(cache=True)
def similar_median(jobs, seen, last_of_class, limit, above, below, rules):
    """Median wait of the latest `depth` similar started jobs after `above` and before `below`."""
    waits = np.empty(rules.depth)
    found = 0
    j = last_of_class
    while j > above and found < rules.depth:
        if j < below and jobs.learned[j] == 1 and abs(jobs.limit[j] - limit) <= SIMILAR_S:
            waits[found] = jobs.wait[j]
            found += 1
        j = seen.before_in_class[j]
    if found == 0:
        return rules.threshold
    ordered = np.sort(waits[:found])
    return 0.5 * (ordered[(found - 1) // 2] + ordered[found // 2])


@njit(cache=True)
def judge(jobs, tally, seen, cells, classes, large_now, now, procs, limit, klass, rules):
    """A job submitted now: which history and criterion mark it quick, the point, and how many jobs are near.

    `klass` is -1 for a size never seen. Returns (mark, point in seconds, near jobs).
    """
    n = tally.counts[JOBS]
    near = near_boundary(seen, n, large_now)
    if klass < 0 or classes.cells[klass] == 0:
        return UNMARKED, np.nan, n - near
    first_cell, last = classes.cells[klass] - 1, classes.last[klass] - 1
    rank_size, rank_limit, ahead, stuck = look_at_queue(jobs, tally, now, procs, limit, rules.threshold)
    mark, above, below = UNMARKED, -1, n
    if stuck < near and evidence_since(cells, first_cell, limit, near, rules.quick_evidence):
        mark, above = NEAR, near - 1
    else:
        mid = mid_boundary(jobs, near, oldest_start(jobs, tally))
        if stuck <= mid and evidence_between(jobs, seen, cells, first_cell, limit, mid, near, rules):
            most_size, most_limit = rank_limits(jobs, seen, near, n, now, rules)
            if rank_size < most_size or (rank_size == most_size and not rules.strict_rank):
                mark = MID_SIZE
            elif rank_limit < most_limit or (rank_limit == most_limit and not rules.strict_rank):
                mark = MID_LIMIT
            elif free_procs(tally) - ahead > procs:
                mark = MID_FREE
            above, below = mid, near
        if mark == UNMARKED and far_agrees(cells, first_cell, limit, mid):
            mark, above, below = FAR, -1, mid + 1
    if mark == UNMARKED:
        return mark, np.nan, n - near
    point = rules.threshold
    if rules.median_point:
        point = min(point, similar_median(jobs, seen, last, limit, above, below, rules))
    return mark, max(point, 1.0), n - near


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


@njit(cache=True)
def count_large(jobs, tally, large):
    """How many running jobs ask for at least `large` processors; only when the machine's size changed."""
    found = 0
    for place in range(tally.counts[HEAD], tally.counts[STARTS]):
        i = jobs.started[place]
        if jobs.status[i] == RUNNING and jobs.place[i] == place and jobs.procs[i] >= large:
            found += 1
    return found


@njit(cache=True)
def replay_log(time, kind, index, procs, limit, waits, cell, klass, jobs, tally, seen, cells, classes, ask, rules):
    """A whole log into blank arrays: mark, point and near jobs of every job asked for (0, NaN, 0 elsewhere)."""
    n, size = len(procs), tally.total[SIZE]
    mark, point, near = np.zeros(n, np.int8), np.full(n, np.nan), np.zeros(n, np.int64)
    large, peak, large_now, before = large_from(size, rules.strict_large), 0.0, 0, -np.inf
    for e in range(len(time)):
        i, now = index[e], time[e]
        note_gap(jobs, tally, now - before)
        before = now
        if kind[e] == SUBMIT:
            if ask[i]:
                mark[i], point[i], near[i] = judge(
                    jobs, tally, seen, cells, classes, large_now, now, procs[i], limit[i], klass[i], rules
                )
            note_submission(jobs, tally, seen, cells, classes, large_now, now, procs[i], limit[i], cell[i], klass[i])
            submit_job(jobs, tally, i, now, procs[i], limit[i])
            continue
        if kind[e] == START:
            start_job(jobs, tally, i, now)
            large_now += procs[i] >= large
        elif kind[e] == WITHDRAW:
            leave_queue(jobs, tally, i)
        elif kind[e] == END:
            large_now -= procs[i] >= large
            end_job(jobs, tally, i)
        if kind[e] != END and learn_wait(jobs, tally, i, waits[i]):
            note_wait(jobs, seen, cells, i, rules.threshold)
        if size != size and tally.total[RUN_PROCS] > peak:  # unknown machine: the most ever seen running
            peak = tally.total[RUN_PROCS]
            if large_from(peak, rules.strict_large) != large:
                large = large_from(peak, rules.strict_large)
                large_now = count_large(jobs, tally, large)
    return mark, point, near
