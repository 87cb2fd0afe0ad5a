"""The profile: free processors as a step function of time, in an array of (time, free) from the step of now on.

A step holds until the next one, the last for ever. Neighbours are never equal: what was reserved and released leaves
no trace.
"""

from __future__ import annotations

import numpy as np

from .compiled import kernel


@kernel
def clear_profile(r, profile):
    """All processors that no running job holds are free from now on; the holds of running jobs follow."""
    r.first_step = 0
    r.steps = 1
    profile[0].time = r.now
    profile[0].free = r.free


@kernel
def forget_past(r, profile):
    """Let `first_step` be the step in which now lies; now and then move the live steps to the front."""
    first = r.first_step
    while first + 1 < r.steps and profile[first + 1].time <= r.now:
        first += 1
    if first > 64 and 2 * first > r.steps:
        for place in range(first, r.steps):
            profile[place - first] = profile[place]
        r.steps -= first
        first = 0
    r.first_step = first


@kernel
def step_at(r, profile, time):
    """The index of a step that begins at `time`, made where there is none; O(log steps) and a shift."""
    low, high = r.first_step, r.steps
    while low < high:
        middle = (low + high) // 2
        if profile[middle].time < time:
            low = middle + 1
        else:
            high = middle
    if low < r.steps and profile[low].time == time:
        return low
    place = r.steps
    while place > low:
        profile[place] = profile[place - 1]
        place -= 1
    profile[low].time = time
    profile[low].free = profile[low - 1].free
    r.steps += 1
    return low


@kernel
def drop_step(r, profile, place):
    """Take out a step that is equal to the one before."""
    if place > r.first_step and place < r.steps and profile[place].free == profile[place - 1].free:
        r.steps -= 1
        for later in range(place, r.steps):
            profile[later] = profile[later + 1]


@kernel
def hold(r, profile, start, end, procs):
    """Reserve processors over [start, end), start at now or later; release them with negative `procs`. O(steps)."""
    first = step_at(r, profile, start)
    last = step_at(r, profile, end)
    for place in range(first, last):
        profile[place].free -= procs
    drop_step(r, profile, last)
    drop_step(r, profile, first)


@kernel
def earliest_fit(r, profile, procs, length):
    """The earliest time from now on at which `procs` are free for `length` seconds. O(steps)."""
    start = r.now
    for place in range(r.first_step, r.steps):
        if profile[place].free < procs:
            start = profile[place + 1].time
        elif place + 1 == r.steps or profile[place + 1].time >= start + length:
            break
    return start


@kernel
def step_of(r, profile, time):
    """The index of the step in which a time lies, that of now for earlier ones; O(log steps)."""
    low, high = r.first_step, r.steps
    while high - low > 1:
        middle = (low + high) // 2
        if profile[middle].time <= time:
            low = middle
        else:
            high = middle
    return low


@kernel
def earlier_fit(r, profile, procs, length, reserved, since, before):
    """As `earliest_fit` for a job that holds a reservation: a start below both it and `before`, else the reservation.

    Only placements that reach beyond `since` are looked for: O(log steps + steps there). Within its own reservation a
    job always fits, so only the steps until there are read.
    """
    limit = min(reserved, before)
    first = step_of(r, profile, since - length)
    start = max(r.now, profile[first].time)
    for place in range(first, r.steps):
        if start >= limit:
            return reserved
        if profile[place].free < procs:
            if place + 1 == r.steps:
                return reserved
            start = profile[place + 1].time
        elif place + 1 == r.steps or profile[place + 1].time >= min(start + length, reserved):
            return start
    return reserved


@kernel
def most_free(r, profile, since, until):
    """The most processors that are free at once between two times; O(log steps + steps between)."""
    most = np.int64(0)
    for place in range(step_of(r, profile, since), r.steps):
        if profile[place].time >= until:
            break
        most = max(most, profile[place].free)
    return most
