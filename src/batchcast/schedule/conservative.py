# SPDX-License-Identifier: Apache-2.0
"""Conservative backfilling (Mu'alem & Feitelson, TPDS 2001).

Every job gets a reservation at its submission; a profile stores the free processors over time.
"""

from __future__ import annotations

import numpy as np

from ..compiled import inner, kernel
from ..compiled.arrays import Record
from .queue import start_job
from .state import GONE, jobs_of, plan_of, profile_of, slots_of


@kernel
def forget_past(s: Record) -> None:
    """Set `first_step` to the step that contains now; from time to time, move the remaining steps to the front."""
    profile = profile_of(s)
    first = s.first_step
    while first + 1 < s.steps and profile[first + 1].time <= s.now:
        first += 1
    if first > 64 and 2 * first > s.steps:
        for place in range(first, s.steps):
            profile[place - first] = profile[place]
        s.steps -= first
        first = 0
    s.first_step = first


@inner
def step_at(s: Record, time: float) -> int:
    """Return the index of the step that begins at `time`; insert it if needed. O(log steps), plus a shift to insert."""
    profile = profile_of(s)
    low: int = s.first_step
    high: int = s.steps
    while low < high:
        middle = (low + high) // 2
        if profile[middle].time < time:
            low = middle + 1
        else:
            high = middle
    if low < s.steps and profile[low].time == time:
        return low
    place = s.steps
    while place > low:
        profile[place] = profile[place - 1]
        place -= 1
    profile[low].time = time
    profile[low].free = profile[low - 1].free
    s.steps += 1
    return low


@inner
def drop_step(s: Record, place: int) -> None:
    """Remove a step if its number of free processors is the same as in the step before it."""
    profile = profile_of(s)
    if place > s.first_step and place < s.steps and profile[place].free == profile[place - 1].free:
        s.steps -= 1
        for later in range(place, s.steps):
            profile[later] = profile[later + 1]


@kernel
def hold(s: Record, start: float, end: float, procs: int) -> None:
    """Reserve processors over [start, end), where start is now or later; negative `procs` releases them. O(steps)."""
    profile = profile_of(s)
    first = step_at(s, start)
    last = step_at(s, end)
    for place in range(first, last):
        profile[place].free -= procs
    drop_step(s, last)
    drop_step(s, first)


@kernel
def earliest_fit(s: Record, procs: int, length: float) -> float:
    """Return the earliest time from now on at which `procs` processors are free for `length` seconds. O(steps)."""
    profile = profile_of(s)
    start: float = s.now
    for place in range(s.first_step, s.steps):
        if profile[place].free < procs:
            start = profile[place + 1].time
        elif place + 1 == s.steps or profile[place + 1].time >= start + length:
            break
    return start


@kernel
def earlier_fit(s: Record, procs: int, length: float, reserved: float, before: float) -> float:
    """Return a start earlier than a job's reservation and than `before`, else the reservation.

    A job always fits inside its own reservation, so the profile's steps after the reservation's start need no check.
    """
    profile = profile_of(s)
    start: float = s.now
    limit = min(reserved, before)
    for place in range(s.first_step, s.steps):
        if start >= limit:
            return reserved
        if profile[place].free < procs:
            if place + 1 == s.steps:
                return reserved
            start = profile[place + 1].time
        elif place + 1 == s.steps or profile[place + 1].time >= min(start + length, reserved):
            return start
    return reserved


@kernel
def most_free(s: Record, until: float) -> np.int64:
    """Return the largest number of processors that are free at one time between now and `until`. O(steps)."""
    profile = profile_of(s)
    most = np.int64(0)
    for place in range(s.first_step, s.steps):
        if profile[place].time >= until:
            break
        most = max(most, profile[place].free)
    return most


@inner
def conservative_pass(s: Record, rules: Record) -> None:
    """Make one pass at `now`: move reservations up, reserve processors for new jobs, start jobs whose reservation
    begins now."""
    jobs, slots = jobs_of(s), slots_of(s)
    if s.waiting > 0:
        forget_past(s)
        fresh = s.tail - s.arrived
        if s.rebuild:
            place_anew(s)
        else:
            if s.ended and s.freed_until > s.now:
                move_up(s, fresh)
            for place in range(max(fresh, s.head), s.tail):
                reserve_for(s, jobs[slots[place].job])
        if s.next_start <= s.now:
            start_due(s, rules)
    elif s.rebuild:
        place_anew(s)
    s.rebuild = 0
    s.ended = 0
    s.arrived = 0


@inner
def reserve_for(s: Record, entry: Record) -> None:
    """Reserve processors for a job, and record the reservation as its start."""
    entry.start = earliest_fit(s, entry.procs, entry.planned)
    hold(s, entry.start, entry.start + entry.planned, entry.procs)
    s.next_start = min(s.next_start, entry.start)


@inner
def move_up(s: Record, end: int) -> None:
    """Try to give waiting jobs earlier reservations, in arrival order.

    A job that kept its reservation in the last pass can only gain from processors that were freed since then. So the
    search for an earlier start covers only times until the latest instant at which processors were freed, and only if
    enough processors are free at one time before it. Processors that a moved job leaves are available to later jobs in
    this pass, and to earlier jobs in the next pass.
    """
    jobs, slots = jobs_of(s), slots_of(s)
    freed, left_behind = s.freed_until, -np.inf
    most = most_free(s, freed)
    for place in range(s.head, end):
        slot = slots[place]
        if slot.procs > most:  # includes empty slots
            continue
        entry = jobs[slot.job]
        start = earlier_fit(s, entry.procs, entry.planned, entry.start, freed)
        if start < entry.start:
            hold(s, entry.start, entry.start + entry.planned, -entry.procs)
            hold(s, start, start + entry.planned, entry.procs)
            left_behind = max(left_behind, entry.start + entry.planned)
            freed = max(freed, left_behind)
            entry.start = start
            s.next_start = min(s.next_start, start)
            most = most_free(s, freed)
    s.freed_until = left_behind


@inner
def place_anew(s: Record) -> None:
    """Discard all reservations; enter running jobs by their planned ends, and reserve for waiting jobs by arrival."""
    jobs, slots, plan, profile = jobs_of(s), slots_of(s), plan_of(s), profile_of(s)
    s.first_step = 0
    s.steps = 1
    profile[0].time = s.now
    profile[0].free = s.free
    for place in range(s.running):
        entry, last = plan[place], profile[s.steps - 1]
        profile[s.steps].time = entry.end
        profile[s.steps].free = last.free + entry.procs
        if last.time == entry.end:
            last.free += entry.procs
        else:
            s.steps += 1
    s.next_start = np.inf
    s.freed_until = -np.inf
    for place in range(s.head, s.tail):
        if slots[place].procs != GONE:
            reserve_for(s, jobs[slots[place].job])


@inner
def give_back(s: Record, entry: Record) -> None:
    """Release the remaining time of an ended job's reservation, so that waiting jobs can move to earlier starts."""
    s.ended = 1
    end = entry.start + entry.planned
    if end > s.now:
        forget_past(s)
        hold(s, s.now, end, -entry.procs)
        s.freed_until = max(s.freed_until, end)


@inner
def start_due(s: Record, rules: Record) -> None:
    """Start the jobs whose reservation begins now, in arrival order. O(waiting)."""
    jobs, slots = jobs_of(s), slots_of(s)
    s.next_start = np.inf
    head = s.head
    for place in range(head, s.tail):
        if slots[place].procs == GONE:
            continue
        start = jobs[slots[place].job].start
        if start > s.now:
            s.next_start = min(s.next_start, start)
            continue
        start_job(s, rules, place, 1 if place != s.head else 0)
        if s.waiting == 0:
            return
