"""The running jobs, in an array sorted by planned end, and the reservation of a head job made from it."""

from __future__ import annotations

from .compiled import inlined
from .heap import pop, push


@inlined
def add_plan(r, plan, job, procs, planned_end):
    """Insert a running job by its planned end, after equal ones. O(running)."""
    place = r.running
    while place > 0 and plan[place - 1].end > planned_end:
        plan[place] = plan[place - 1]
        place -= 1
    plan[place].end = planned_end
    plan[place].job = job
    plan[place].procs = procs
    r.running += 1


@inlined
def drop_plan(r, plan, job, planned_end):
    """Take a running job out of the plan. O(running)."""
    low, high = 0, r.running
    while low < high:
        middle = (low + high) // 2
        if plan[middle].end < planned_end:
            low = middle + 1
        else:
            high = middle
    while plan[low].job != job:
        low += 1
    last = r.running - 1
    r.running = last
    for place in range(low, last):
        plan[place] = plan[place + 1]


@inlined
def reserve(r, plan, procs):
    """Set when a head job of `procs` processors can start by the plan, and how many processors are left over then.

    Mu'alem & Feitelson (TPDS 2001): walk the running jobs by planned end until enough processors are free; all jobs
    planned to end at that very instant count. O(running).
    """
    free, place, running = r.free, 0, r.running
    while free < procs and place < running:
        free += plan[place].procs
        place += 1
    shadow_time = plan[place - 1].end if place > 0 else r.now
    while place < running and plan[place].end == shadow_time:
        free += plan[place].procs
        place += 1
    r.shadow_time = shadow_time
    r.extra_procs = free - procs
    r.reserved = 1


@inlined
def reserve_by_request(r, jobs, plan, choices, procs):
    """As `reserve`, but a running job counts until it must end: start + request. O(running)."""
    count = 0
    for place in range(r.running):
        it = jobs[plan[place].job]
        count = push(choices, count, it.start + it.request, place, it.procs)
    free = r.free
    r.shadow_time = r.now
    while count > 0 and (free < procs or choices[0].key == r.shadow_time):
        free += choices[0].item
        r.shadow_time = choices[0].key
        count = pop(choices, count)
    r.extra_procs = free - procs
    r.reserved = 1
