"""The profile: free processors as a step function of time, in an array of (time, free) from the step of now on.

A step holds until the next one, the last for ever. Neighbours are never equal: what was reserved and released leaves
no trace.
"""

from __future__ import annotations

import numpy as np

from ..compiled import inner, kernel
from ..compiled.arrays import Record
from .state import profile_of


@inner
def clear_profile(s: Record) -> None:
    """All processors that no running job holds are free from now on; the holds of running jobs follow."""
    profile = profile_of(s)
    s.first_step = 0
    s.steps = 1
    profile[0].time = s.now
    profile[0].free = s.free


@kernel
def forget_past(s: Record) -> None:
    """Let `first_step` be the step in which now lies; now and then move the live steps to the front."""
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
    """The index of a step that begins at `time`, made where there is none; O(log steps) and a shift."""
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
    """Take out a step that is equal to the one before."""
    profile = profile_of(s)
    if place > s.first_step and place < s.steps and profile[place].free == profile[place - 1].free:
        s.steps -= 1
        for later in range(place, s.steps):
            profile[later] = profile[later + 1]


@kernel
def hold(s: Record, start: float, end: float, procs: int) -> None:
    """Reserve processors over [start, end), start at now or later; release them with negative `procs`. O(steps)."""
    profile = profile_of(s)
    first = step_at(s, start)
    last = step_at(s, end)
    for place in range(first, last):
        profile[place].free -= procs
    drop_step(s, last)
    drop_step(s, first)


@kernel
def earliest_fit(s: Record, procs: int, length: float) -> float:
    """The earliest time from now on at which `procs` are free for `length` seconds. O(steps)."""
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
    """As `earliest_fit` for a job that holds a reservation: a start below both it and `before`, else the reservation.

    Within its own reservation a job always fits, so only the steps until there are read.
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
    """The most processors that are free at once between now and `until`; O(steps)."""
    profile = profile_of(s)
    most = np.int64(0)
    for place in range(s.first_step, s.steps):
        if profile[place].time >= until:
            break
        most = max(most, profile[place].free)
    return most
