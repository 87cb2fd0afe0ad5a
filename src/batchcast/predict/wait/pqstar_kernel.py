"""The compiled half of `pqstar`: one submission judged by its near, mid and far history, and a whole log replayed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ...events.event import END, START, SUBMIT, WITHDRAW
from .ledger import (
    HEAD,
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
from .pqstar_memory import SIMILAR_S, look_at_queue, near_boundary, note_submission, note_wait

UNMARKED, NEAR, MID_SIZE, MID_LIMIT, MID_FREE, FAR = range(6)


class Rules(NamedTuple):
    """The reading, as numbers: threshold (s), strict sizes and ranks, quick evidence only, missing sides, depth."""

    threshold: float
    strict_large: bool
    strict_rank: bool
    quick_evidence: bool
    missing_passes: bool
    median_point: bool
    depth: int


@njit(cache=True)
def large_from(size, strict):
    """The smallest power of two not below (strict: above) the square root of the machine's processors."""
    power = 1.0
    while power * power < size or (strict and power * power == size):
        power *= 2.0
    return power


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
