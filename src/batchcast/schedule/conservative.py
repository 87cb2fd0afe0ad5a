"""Conservative backfilling: every job has a reservation from its submission on (Mu'alem & Feitelson, TPDS 2001).

When a job ends before its plan, waiting jobs are placed again one by one in arrival order, each against the
reservations of all others: so nobody's start ever moves back, unless a running job outlives its plan; then all
reservations are made anew in arrival order.
"""

from __future__ import annotations

import numpy as np

from .compiled import kernel
from .profile import clear_profile, earlier_fit, earliest_fit, forget_past, hold, most_free
from .start import start_job
from .state import GONE


@kernel
def schedule_conservatively(r, jobs, slots, blocks, index, plan, endings, instant, profile, log):
    """One pass at `now`: move reservations up where something was freed, place the arrivals, start whose time it is."""
    if r.waiting > 0:
        forget_past(r, profile)
        fresh = r.tail - r.arrived
        if r.rebuild:
            place_anew(r, jobs, slots, plan, profile)
        else:
            if r.ended and r.freed_until > r.now:
                move_up(r, jobs, slots, profile, fresh)
            for place in range(max(fresh, r.head), r.tail):
                reserve_for(r, jobs[slots[place].job], profile)
        if r.next_start <= r.now:
            start_due(r, jobs, slots, blocks, index, plan, endings, instant, log)
    elif r.rebuild:
        place_anew(r, jobs, slots, plan, profile)
    r.rebuild = 0
    r.ended = 0
    r.arrived = 0


@kernel
def reserve_for(r, it, profile):
    """Give a job its first or its new reservation, noted as its start."""
    it.start = earliest_fit(r, profile, it.procs, it.planned)
    hold(r, profile, it.start, it.start + it.planned, it.procs)
    r.next_start = min(r.next_start, it.start)


@kernel
def move_up(r, jobs, slots, profile, end):
    """Place waiting jobs again in arrival order.

    A job that stayed where it was last time can only gain where processors were freed since then: until the latest
    freed instant, and only if somewhere before it enough are free. What moved jobs leave behind counts for all jobs
    after them now, and for those before them next time.
    """
    freed, left_behind = r.freed_until, -np.inf
    most = most_free(r, profile, freed)
    for place in range(r.head, end):
        slot = slots[place]
        if slot.procs > most:  # an empty slot too
            continue
        it = jobs[slot.job]
        start = earlier_fit(r, profile, it.procs, it.planned, it.start, freed)
        if start < it.start:
            hold(r, profile, it.start, it.start + it.planned, -it.procs)
            hold(r, profile, start, start + it.planned, it.procs)
            left_behind = max(left_behind, it.start + it.planned)
            freed = max(freed, left_behind)
            it.start = start
            r.next_start = min(r.next_start, start)
            most = most_free(r, profile, freed)
    r.freed_until = left_behind


@kernel
def place_anew(r, jobs, slots, plan, profile):
    """Forget all reservations; running jobs hold what they planned, waiting ones are placed in arrival order."""
    clear_profile(r, profile)
    for place in range(r.running):
        profile_hold_running(r, plan[place], profile)
    r.next_start = np.inf
    r.freed_until = -np.inf
    for place in range(r.head, r.tail):
        if slots[place].procs != GONE:
            reserve_for(r, jobs[slots[place].job], profile)


@kernel
def profile_hold_running(r, entry, profile):
    """Until its planned end a running job's processors are not free: the profile rises there."""
    profile[r.steps].time = entry.end
    profile[r.steps].free = profile[r.steps - 1].free + entry.procs
    if profile[r.steps - 1].time == entry.end:
        profile[r.steps - 1].free += entry.procs
    else:
        r.steps += 1


@kernel
def give_back(r, it, profile):
    """A job ended: what it still held is free from now on, and waiting jobs may be placed again."""
    r.ended = 1
    end = it.start + it.planned
    if end > r.now:
        forget_past(r, profile)
        hold(r, profile, r.now, end, -it.procs)
        r.freed_until = max(r.freed_until, end)


@kernel
def start_due(r, jobs, slots, blocks, index, plan, endings, instant, log):
    """Start the jobs whose reservation has come, in arrival order; O(waiting)."""
    r.next_start = np.inf
    head = r.head
    for place in range(head, r.tail):
        if slots[place].procs == GONE:
            continue
        start = jobs[slots[place].job].start
        if start > r.now:
            r.next_start = min(r.next_start, start)
            continue
        start_job(r, jobs, slots, blocks, index, plan, endings, instant, log, place, 1 if place != r.head else 0)
        if r.waiting == 0:
            return
