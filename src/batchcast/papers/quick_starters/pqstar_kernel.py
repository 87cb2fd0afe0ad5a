# SPDX-License-Identifier: Apache-2.0
"""Compiled functions of `pqstar`: mark one submission by its near, mid and far history, and replay a whole log."""

from __future__ import annotations

import numpy as np

from ...compiled import allocating, inner, kernel
from ...compiled.arrays import Record
from ...events.event import SUBMIT
from ...events.kernel import apply_event, free_procs, jobs_of, oldest_start
from ...events.record import QUEUED
from .pqstar_memory import (
    SIMILAR_S,
    cells_of,
    classes_of,
    count_large,
    has_taught,
    look_at_queue,
    measure,
    near_boundary,
    note_submission,
    note_wait,
    seen_of,
)

UNMARKED, NEAR, MID_SIZE, MID_LIMIT, MID_FREE, FAR = range(6)


@inner
def mid_boundary(s: Record, near: int, oldest: float) -> int:
    """Return the last job before `near` at whose submission none of the jobs that run now was running (-1: none).

    No job that runs now was running then exactly if every job that runs now started after the submission, so one
    bisection finds the job.
    """
    jobs = jobs_of(s)
    low, high = 0, near
    while low < high:
        middle = (low + high) // 2
        if jobs[middle].submit < oldest:
            low = middle + 1
        else:
            high = middle
    return low - 1


@inner
def evidence_since(m: Record, first_cell: int, limit: float, since: int) -> bool:
    """Return whether a similar job with a known wait was submitted at or after job `since`."""
    cells = cells_of(m)
    c = first_cell
    while c >= 0:
        if abs(cells[c].limit - limit) <= SIMILAR_S:
            last = cells[c].last_quick if m.quick_evidence else cells[c].last_started
            if last >= since:
                return True
        c = cells[c].next - 1
    return False


@inner
def evidence_between(s: Record, m: Record, first_cell: int, limit: float, above: int, below: int) -> bool:
    """Return whether a similar job with a known wait was submitted between the jobs `above` and `below`."""
    jobs, seen, cells = jobs_of(s), seen_of(m), cells_of(m)
    c = first_cell
    while c >= 0:
        last = cells[c].last_quick if m.quick_evidence else cells[c].last_started
        if last > above and abs(cells[c].limit - limit) <= SIMILAR_S:
            j = cells[c].last
            while j > above:
                taught = j < below and has_taught(m, jobs[j])
                if taught and (m.quick_evidence == 0 or jobs[j].wait <= m.threshold):
                    return True
                j = seen[j].before_in_cell
        c = cells[c].next - 1
    return False


@inner
def rank_limits(s: Record, m: Record, near: int, now: float) -> tuple[float, float]:
    """Return the rank thresholds of the near history by size and by limit; infinite or -1 if the paper gives none."""
    jobs, seen = jobs_of(s), seen_of(m)
    most_size, most_limit, least_size, least_limit = -1.0, -1.0, np.inf, np.inf
    for j in range(near, m.noted):
        if jobs[j].status == QUEUED:
            quick, late = False, now - jobs[j].submit > m.threshold
        else:
            taught = has_taught(m, jobs[j])
            quick = taught and jobs[j].wait <= m.threshold
            late = taught and not quick
        if quick:
            most_size, most_limit = max(most_size, seen[j].rank_size), max(most_limit, seen[j].rank_limit)
        elif late:
            least_size, least_limit = min(least_size, seen[j].rank_size), min(least_limit, seen[j].rank_limit)
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
    jobs, seen = jobs_of(s), seen_of(m)
    waits = np.empty(m.depth)
    count = 0
    j = last_of_class
    while j > above and count < m.depth:
        if j < below and has_taught(m, jobs[j]) and abs(jobs[j].limit - limit) <= SIMILAR_S:
            place = count
            while place > 0 and waits[place - 1] > jobs[j].wait:
                waits[place] = waits[place - 1]
                place -= 1
            waits[place] = jobs[j].wait
            count += 1
        j = seen[j].before_in_class
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
    near = near_boundary(m, count_large(s, m))
    if klass < 0 or classes[klass].cells == 0:
        return UNMARKED, np.nan, n - near
    first_cell, last = classes[klass].cells - 1, classes[klass].last - 1
    rank_size, rank_limit, ahead, stuck = look_at_queue(s, s.queue_end, now, procs, limit, m.threshold)
    mark, above, below = UNMARKED, -1, n
    if stuck < near and evidence_since(m, first_cell, limit, near):
        mark, above = NEAR, near - 1
    else:
        mid = mid_boundary(s, near, oldest_start(s))
        if stuck <= mid and evidence_between(s, m, first_cell, limit, mid, near):
            most_size, most_limit = rank_limits(s, m, near, now)
            if rank_size < most_size or (rank_size == most_size and not m.strict_rank):
                mark = MID_SIZE
            elif rank_limit < most_limit or (rank_limit == most_limit and not m.strict_rank):
                mark = MID_LIMIT
            elif free_procs(s) - ahead > procs:
                mark = MID_FREE
            above, below = mid, near
        if mark == UNMARKED and far_agrees(m, first_cell, limit, mid):
            mark, above, below = FAR, -1, mid + 1
    if mark == UNMARKED:
        return mark, np.nan, n - near
    point = m.threshold
    if m.median_point:
        point = min(point, similar_median(s, m, last, limit, above, below))
    return mark, max(point, 1.0), n - near


@kernel
def note_event(state: np.ndarray, memory: np.ndarray, cell: int, klass: int) -> None:
    """Store the state's latest event: a submission of shape `cell` (if 0 or more), a wait, or a new machine size."""
    s, m = state[0], memory[0]
    if m.large == 0.0:
        measure(s, m)
    if cell >= 0:
        job = jobs_of(s)[m.noted]
        end = s.queue_end - 1 if m.noted == s.entry else s.queue_end
        note_submission(s, m, end, count_large(s, m), job.submit, job.procs, job.limit, cell, klass)
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
    near: np.ndarray,
) -> None:
    """Replay a whole log into an empty state; write the mark, the predicted wait and the number of near jobs for every
    job in the mask `ask`."""
    s, m = state[0], memory[0]
    measure(s, m)
    for e in range(len(events)):
        i, now = events[e].entry, events[e].time
        submitted = events[e].rank == SUBMIT
        if submitted and ask[i]:
            mark[i], point[i], near[i] = judge(state, memory, now, requests[i].procs, requests[i].limit, klass[i])
        apply_event(s, requests, events[e])
        note_event(state, memory, cell[i] if submitted else -1, klass[i])
