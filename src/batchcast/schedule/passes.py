# SPDX-License-Identifier: Apache-2.0
"""One EASY scheduling pass, and a shadow run of EASY for the policy setting `due_after`.

The shadow run schedules the same submissions by EASY with requested times, to learn when plain EASY would have started
each job. The shadow run receives a job's run time only after the job ended in the real schedule. Before this end, the
job runs in the shadow run to its requested time or, with `due_ends`, to its predicted run time unless it has run
longer.
"""

from __future__ import annotations

import numpy as np

from ..compiled import inlined, inner
from ..compiled.arrays import Record
from .index import next_by_arrival, next_by_key, push_root, watch_length
from .queue import (
    any_fits,
    collect,
    head_place,
    length,
    next_candidate,
    rekey,
    reserve,
    reserve_by_request,
    start_job,
    take_risk,
)
from .state import EASY, PLANNED, asides_of, choices_of, jobs_of, pop, shadow_queue_of, shadow_running_of, slots_of


@inner
def follow_shadow(s: Record, rules: Record) -> None:
    """Advance the shadow run to `now`: one pass per instant with ends, then the new submissions. O(queue) per pass."""
    jobs, queue = jobs_of(s), shadow_queue_of(s)
    end = next_shadow_end(s)
    while end < s.now:
        end_shadows(s, rules, end)
        shadow_pass(s, rules, end)
        end = next_shadow_end(s)
    while s.shadow_submit < s.next_submit and jobs[s.shadow_submit].submit <= s.now:
        queue[s.shadow_waiting] = s.shadow_submit
        s.shadow_waiting += 1
        s.shadow_submit += 1
    while True:
        end_shadows(s, rules, s.now)
        shadow_pass(s, rules, s.now)
        if next_shadow_end(s) > s.now:  # a job that is known to have zero length ends when it starts
            return


@inlined
def next_shadow_end(s: Record) -> float:
    """Return when the next job of the shadow run ends, or infinity. O(running)."""
    running = shadow_running_of(s)
    least: float = np.inf
    for place in range(s.shadow_count):
        least = min(least, running[place].end)
    return least


@inlined
def end_shadows(s: Record, rules: Record, time: float) -> None:
    """Remove jobs that have ended from the shadow run; jobs that only exceeded their prediction continue.
    O(running)."""
    running = shadow_running_of(s)
    kept = 0
    for place in range(s.shadow_count):
        if rules.due_ends == PLANNED and running[place].end <= time:
            running[place].end = running[place].begun + shadow_length(s, rules, running[place].job)
        if running[place].end <= time:
            s.shadow_free += running[place].procs
        else:
            running[kept] = running[place]
            kept += 1
    s.shadow_count = kept


@inner
def shadow_pass(s: Record, rules: Record, time: float) -> None:
    """Make one EASY pass in order of arrival with requested times (Lifka 1995), like `easy_pass`. O(queue)."""
    jobs, queue = jobs_of(s), shadow_queue_of(s)
    waiting = s.shadow_waiting
    first = 0
    while first < waiting and jobs[queue[first]].procs <= s.shadow_free:
        start_shadow(s, rules, queue[first], time)
        first += 1
    kept = 0
    if first < waiting:
        head = int(jobs[queue[first]].procs)
        until, extra = shadow_reservation(s, head, time)
        for place in range(first, waiting):
            job = queue[place]
            procs = int(jobs[job].procs)
            in_time = time + jobs[job].request <= until
            if place > first and procs <= s.shadow_free and (in_time or procs <= extra):
                start_shadow(s, rules, job, time)
                if not in_time:
                    extra -= procs
            else:
                queue[kept] = job
                kept += 1
    s.shadow_waiting = kept


@inlined
def shadow_reservation(s: Record, procs: int, time: float) -> tuple[float, int]:
    """Return when the head can start by running jobs' requested times, and how many processors are then left over."""
    running = shadow_running_of(s)
    free, place, count = s.shadow_free, 0, s.shadow_count
    until: float = time
    while free < procs and place < count:
        free += running[place].procs
        until = running[place].limit_end
        place += 1
    while place < count and running[place].limit_end == until:
        free += running[place].procs
        place += 1
    return until, free - procs


@inner
def start_shadow(s: Record, rules: Record, job: int, time: float) -> None:
    """Start a job in the shadow run, and set when it is due; running jobs are sorted by requested end. O(running)."""
    running = shadow_running_of(s)
    entry, aside = jobs_of(s)[job], asides_of(s)[job]
    limit_end = time + entry.request
    place = s.shadow_count
    while place > 0 and running[place - 1].limit_end > limit_end:
        running[place] = running[place - 1]
        place -= 1
    mine = running[place]
    mine.limit_end = limit_end
    mine.begun = time
    mine.end = time + shadow_length(s, rules, job)
    mine.procs = entry.procs
    mine.job = job
    s.shadow_count += 1
    s.shadow_free -= entry.procs
    aside.due = time + rules.due_after
    if not entry.start <= s.now:
        s.least_due = min(s.least_due, aside.due)


@inlined
def shadow_length(s: Record, rules: Record, job: int) -> float:
    """Return how long a job runs in the shadow run, from what the scheduler can know now."""
    entry = jobs_of(s)[job]
    seconds: float = entry.request
    if asides_of(s)[job].over:
        seconds = entry.run
    elif rules.due_ends == PLANNED and not entry.start + entry.first <= s.now:
        seconds = entry.first
    return seconds


@inner
def note_end(s: Record, job: int) -> None:
    """Give the shadow run the run time of a job that ended in the real schedule. O(running)."""
    running = shadow_running_of(s)
    entry = jobs_of(s)[job]
    asides_of(s)[job].over = 1
    for place in range(s.shadow_count):
        if running[place].job == job:
            end = running[place].begun + entry.run
            running[place].end = end if end > s.now else min(running[place].end, s.now)


FEW = 6  # searches for one candidate each; the remaining candidates are then collected in one search


@inner
def easy_pass(s: Record, rules: Record) -> None:
    """Make one EASY pass at `now`.

    If the only change since a pass that left the queue blocked is one arrival, only this job can start, because as time
    passes fewer jobs fit before the reservation.
    """
    slots = slots_of(s)
    if s.waiting == 0 and rules.due_after == np.inf:
        s.dirty = 0
        s.arrived = 0
        return
    one_came = (
        s.dirty == 0 and s.arrived == 1 and s.waiting > 1 and rules.head_order == 0 and rules.head_after == np.inf
    )
    if rules.due_after < np.inf:
        follow_shadow(s, rules)
        one_came = False
    s.dirty = 0
    s.arrived = 0
    if s.waiting == 0:
        return
    if one_came:
        if rules.backfill == EASY and slots[s.newest].procs <= s.free:
            try_newest(s, rules)
        return
    s.reserved = 0
    watch_length(s, rules)
    if rules.head_varying:
        if not any_fits(s):
            return
        rekey(s, rules)
    head = head_place(s, rules)
    while slots[head].procs <= s.free:
        start_job(s, rules, head, 0)
        if s.waiting == 0:
            return
        head = head_place(s, rules)
    if rules.backfill == EASY and s.free > 0 and s.waiting > 1 and (s.indexed or any_fits(s)):
        by_request = rules.head_after < np.inf and s.now - jobs_of(s)[slots[head].job].submit > rules.head_after
        by_request = by_request or (s.now > s.least_due and s.now > asides_of(s)[slots[head].job].due)
        if by_request:
            reserve_by_request(s, rules, slots[head].job, slots[head].procs)
        else:
            reserve(s, slots[head].procs)
        if s.indexed and not by_request and not rules.candidate_varying:
            backfill_indexed(s, rules, head)
        else:
            backfill_few(s, rules, head, by_request)


@inner
def backfill_few(s: Record, rules: Record, head: int, by_request: bool) -> None:
    """Backfill a short queue: find each of the first few jobs by its own search, and all others by one more search."""
    keyed = rules.candidate_order != 0
    searches = 1
    place = next_candidate(s, rules, head, by_request, s.head)
    while place >= 0 and (searches < FEW or not keyed):
        pass_head(s, rules, head, place, by_request)
        searches += 1
        place = next_candidate(s, rules, head, by_request, s.head if keyed else place + 1)
    if place >= 0:
        backfill_many(s, rules, head, by_request)


@inner
def backfill_indexed(s: Record, rules: Record, head: int) -> None:
    """Backfill a long queue by its index: in order of arrival, or by key from one continued search."""
    place = s.head
    count = push_root(s)
    while s.free > 0 and s.waiting > 1:
        if rules.candidate_order == 0:
            place = next_by_arrival(s, rules, head, place)
        else:
            count, place = next_by_key(s, rules, count, head)
        if place < 0:
            return
        pass_head(s, rules, head, place, False)


@inner
def backfill_many(s: Record, rules: Record, head: int, by_request: bool) -> None:
    """Backfill the jobs that one search of the queue finds, the smallest key first.

    The number of free processors only falls during a pass, so a job that does not fit anymore needs no second test.
    """
    slots, choices = slots_of(s), choices_of(s)
    count = collect(s, rules, head, by_request)
    while count > 0 and s.free > 0:
        place = choices[0].tie
        count = pop(choices, count)
        if slots[place].procs <= s.free:
            pass_head(s, rules, head, place, by_request)


@inner
def try_newest(s: Record, rules: Record) -> None:
    """Backfill the job that has just arrived, if this does not delay the head's reservation."""
    if not s.reserved:
        reserve(s, slots_of(s)[s.head].procs)
    pass_head(s, rules, s.head, s.newest, False)


@inner
def pass_head(s: Record, rules: Record, head: int, place: int, by_request: bool) -> None:
    """Start a candidate if it ends by the shadow time, or else fits into the extra processors or the risk budget."""
    slots = slots_of(s)
    if s.now + length(s, slots[place], by_request) > s.shadow_time:
        if slots[place].procs <= s.extra_procs:
            s.extra_procs -= slots[place].procs
        elif not (by_request and take_risk(s, rules, head, place)):
            return
    start_job(s, rules, place, 1)
