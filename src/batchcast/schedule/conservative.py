"""Conservative backfilling: every job has a reservation from its submission on (Mu'alem & Feitelson, TPDS 2001).

When a job ends before its plan, waiting jobs are placed again one by one in arrival order, each against the
reservations of all others: so nobody's start ever moves back, unless a running job outlives its plan; then all
reservations are made anew in arrival order.
"""

from __future__ import annotations

import numpy as np

from ..compiled import inner
from ..compiled.arrays import Record
from .profile import (
    clear_profile,
    earlier_fit,
    earliest_fit,
    forget_past,
    hold,
    most_free,
)
from .start import start_job
from .state import GONE, jobs_of, plan_of, profile_of, slots_of


@inner
def schedule_conservatively(s: Record, rules: Record) -> None:
    """One pass at `now`: move reservations up where something was freed, place the arrivals, start whose time it is."""
    jobs = jobs_of(s)
    slots = slots_of(s)
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
    """Give a job its first or its new reservation, noted as its start."""
    entry.start = earliest_fit(s, entry.procs, entry.planned)
    hold(s, entry.start, entry.start + entry.planned, entry.procs)
    s.next_start = min(s.next_start, entry.start)


@inner
def move_up(s: Record, end: int) -> None:
    """Place waiting jobs again in arrival order.

    A job that stayed where it was last time can only gain where processors were freed since then: until the latest
    freed instant, and only if somewhere before it enough are free. What moved jobs leave behind counts for all jobs
    after them now, and for those before them next time.
    """
    jobs = jobs_of(s)
    slots = slots_of(s)
    freed, left_behind = s.freed_until, -np.inf
    most = most_free(s, freed)
    for place in range(s.head, end):
        slot = slots[place]
        if slot.procs > most:  # an empty slot too
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
    """Forget all reservations; running jobs hold what they planned, waiting ones are placed in arrival order."""
    jobs = jobs_of(s)
    slots = slots_of(s)
    plan = plan_of(s)
    clear_profile(s)
    for place in range(s.running):
        profile_hold_running(s, plan[place])
    s.next_start = np.inf
    s.freed_until = -np.inf
    for place in range(s.head, s.tail):
        if slots[place].procs != GONE:
            reserve_for(s, jobs[slots[place].job])


@inner
def profile_hold_running(s: Record, entry: Record) -> None:
    """Until its planned end a running job's processors are not free: the profile rises there."""
    profile = profile_of(s)
    profile[s.steps].time = entry.end
    profile[s.steps].free = profile[s.steps - 1].free + entry.procs
    if profile[s.steps - 1].time == entry.end:
        profile[s.steps - 1].free += entry.procs
    else:
        s.steps += 1


@inner
def give_back(s: Record, entry: Record) -> None:
    """A job ended: what it still held is free from now on, and waiting jobs may be placed again."""
    s.ended = 1
    end = entry.start + entry.planned
    if end > s.now:
        forget_past(s)
        hold(s, s.now, end, -entry.procs)
        s.freed_until = max(s.freed_until, end)


@inner
def start_due(s: Record, rules: Record) -> None:
    """Start the jobs whose reservation has come, in arrival order; O(waiting)."""
    jobs = jobs_of(s)
    slots = slots_of(s)
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
