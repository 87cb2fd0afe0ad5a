"""The running jobs: an array sorted by planned end for reservations, and a heap by true end for what happens next."""

from __future__ import annotations

from .compiled import kernel


@kernel
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


@kernel
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
    r.running -= 1
    for place in range(low, r.running):
        plan[place] = plan[place + 1]


@kernel
def push_end(r, endings, time, tie, job):
    """Add a true end to the heap, ordered by (time, tie)."""
    place = r.ending
    r.ending = place + 1
    while place > 0:
        above = endings[(place - 1) // 2]
        if above.time < time or (above.time == time and above.tie < tie):
            break
        endings[place] = above
        place = (place - 1) // 2
    endings[place].time = time
    endings[place].tie = tie
    endings[place].job = job


@kernel
def pop_end(r, endings):
    """Remove the earliest true end and return its job."""
    job = endings[0].job
    last = r.ending - 1
    r.ending = last
    moved = endings[last]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= last:
            break
        if child + 1 < last and before(endings[child + 1], endings[child]):
            child += 1
        if before(moved, endings[child]):
            break
        endings[place] = endings[child]
        place = child
    endings[place] = moved
    return job


@kernel
def before(one, other):
    """Whether one end comes before another."""
    return one.time < other.time or (one.time == other.time and one.tie < other.tie)


@kernel
def reserve(r, plan, procs):
    """Set when a head job of `procs` processors can start by the plan, and how many processors are left over then.

    Mu'alem & Feitelson (TPDS 2001): walk the running jobs by planned end until enough processors are free; all jobs
    planned to end at that very instant count. O(running).
    """
    free, place = r.free, 0
    r.shadow_time = r.now
    while free < procs and place < r.running:
        free += plan[place].procs
        r.shadow_time = plan[place].end
        place += 1
    while place < r.running and plan[place].end == r.shadow_time:
        free += plan[place].procs
        place += 1
    r.extra_procs = free - procs
    r.reserved = 1
