"""The native planner: `last_2` and `recent_mean` as one branch of the kernel, equal to their Python twins."""

from __future__ import annotations

import numpy as np

from .compiled import inlined


@inlined
def plan_natively(r, ring, ring_count, it):
    """The planned run time of a job submitted now: the mean of recent ones, else the request; within [1, request].

    Jobs that look the same come first, then the user's. Means are summed from the oldest, as the Python twins do.
    """
    number = it.alike_ring
    if number < 0 or ring_count[number] == 0:
        number = it.user_ring
    point = it.request
    if number >= 0 and ring_count[number] >= r.need:
        count, k = ring_count[number], ring.shape[1]
        kept = min(count, k)
        total = 0.0
        for back in range(kept, 0, -1):
            total += ring[number, (count - back) % k]
        point = total / kept
        if r.whole_seconds:
            point = np.floor(point)
    return max(min(point, it.request), 1.0)


@inlined
def learn_natively(ring, ring_count, it):
    """A job finished: its run time overwrites the oldest of its rings."""
    for number in (it.alike_ring, it.user_ring):
        if number >= 0:
            ring[number, ring_count[number] % ring.shape[1]] = it.run
            ring_count[number] += 1
