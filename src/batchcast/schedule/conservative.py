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
def schedule_conservatively(r, jobs, slots, blocks, index, plan, endings, instant, profile, holes, log):
    """One pass at `now`: move reservations up where something was freed, place the arrivals, start whose time it is."""
    if r.waiting > 0:
        forget_past(r, profile)
        fresh = r.tail - r.arrived
        if r.rebuild:
            place_anew(r, jobs, slots, plan, profile)
        else:
            if r.ended and r.holes > 0:
                move_up(r, jobs, slots, profile, holes, fresh)
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
def move_up(r, jobs, slots, profile, holes, end):
    """Place waiting jobs again in arrival order.

    A job that stayed where it was last time can only gain where processors were freed since then (`holes`). What moved
    jobs leave behind counts for all jobs after them now, and for those before them next time.
    """
    old = r.holes
    most = np.int64(0)
    for number in range(old):
        most = max(most, measure(r, profile, holes[number]))
    for place in range(r.head, end):
        slot = slots[place]
        if slot.procs > most:  # an empty slot too
            continue
        it = jobs[slot.job]
        start = it.start
        for number in range(r.holes):
            start = min(start, fit_into(r, profile, holes[number], it, start))
        if start < it.start:
            hold(r, profile, it.start, it.start + it.planned, -it.procs)
            hold(r, profile, start, start + it.planned, it.procs)
            add_hole(r, holes, it.start, it.start + it.planned)
            most = look_again(r, profile, holes, it, start)
            it.start = start
            r.next_start = min(r.next_start, start)
    for number in range(old, r.holes):
        holes[number - old] = holes[number]
    r.holes -= old


@kernel
def fit_into(r, profile, hole, it, limit):
    """The earliest start of a job that reaches into a hole and is below `limit`, else its reservation.

    Where a job is reserved too late for that to matter, a hole that had no room for a narrower and shorter one has
    none for it: most jobs of a long queue are told so without a look at the profile.
    """
    if it.procs > hole.most or it.start <= hole.start or hole.end <= r.now:
        return it.start
    octave = 0
    while 2 << octave <= it.procs:
        octave += 1
    far = it.start >= hole.end + it.planned
    if far and hole.fails[octave] <= it.planned:
        return it.start
    start = earlier_fit(r, profile, it.procs, it.planned, it.start, hole.start, min(hole.end, limit))
    if far and start == it.start and limit == it.start:
        octave += 1 << octave < it.procs
        hole.reach = max(hole.reach, hole.end + it.planned)
        for wider in range(octave, hole.fails.size):
            hole.fails[wider] = min(hole.fails[wider], it.planned)
    return start


@kernel
def add_hole(r, holes, start, end):
    """Note that something was freed; where there are too many holes the last one grows."""
    if r.holes == holes.size:
        last = holes[r.holes - 1]
        last.start = min(last.start, start)
        last.end = max(last.end, end)
        return
    holes[r.holes].start = start
    holes[r.holes].end = end
    r.holes += 1


@kernel
def measure(r, profile, hole):
    """How many processors are free at once somewhere in a hole; nothing has failed to fit yet."""
    hole.most = most_free(r, profile, hole.start, hole.end)
    hole.reach = -np.inf
    hole.fails[:] = np.inf
    return hole.most


@kernel
def look_again(r, profile, holes, it, start):
    """After a job moved to `start`: measure the holes that concerns; returns the most free of all."""
    most = np.int64(0)
    for number in range(r.holes):
        hole = holes[number]
        if number == r.holes - 1 or it.start < max(hole.reach, hole.end):
            measure(r, profile, hole)
        elif start < hole.end and start + it.planned > hole.start:
            hole.most = most_free(r, profile, hole.start, hole.end)
        most = max(most, hole.most)
    return most


@kernel
def place_anew(r, jobs, slots, plan, profile):
    """Forget all reservations; running jobs hold what they planned, waiting ones are placed in arrival order."""
    clear_profile(r, profile)
    for place in range(r.running):
        profile_hold_running(r, plan[place], profile)
    r.next_start = np.inf
    r.holes = 0
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
def give_back(r, it, profile, holes):
    """A job ended: what it still held is free from now on, and waiting jobs may be placed again."""
    r.ended = 1
    end = it.start + it.planned
    if end > r.now:
        forget_past(r, profile)
        hold(r, profile, r.now, end, -it.procs)
        add_hole(r, holes, r.now, end)


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
