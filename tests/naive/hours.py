"""The slow twin of `trace.implied.hours`: each week's half past each hour is looked at by itself."""

from __future__ import annotations

import math

import numpy as np

from batchcast.trace.implied import fit as hours
from batchcast.trace.implied.caps import Queue
from batchcast.trace.implied.fit import CLOSED, HOUR_S, ROOM, WEEK_S


def shut(queue: Queue, long: np.ndarray) -> list[bool]:
    """Of each hour of the week, whether it is closed to these jobs."""
    jobs, first = range(len(long)), math.floor(min(queue.submit) / WEEK_S) * WEEK_S
    found = []
    for hour in range(168):
        count = closed = roomy = 0
        t = first + (hour + 0.5) * HOUR_S
        while t < max(queue.start) + HOUR_S / 2:
            waits = any(long[k] and queue.submit[k] <= t < queue.start[k] for k in jobs)
            runs = any(long[k] and queue.start[k] <= t < queue.end[k] for k in jobs)
            used = sum(queue.size[k] for k in jobs if queue.start[k] <= t < queue.end[k])
            count += waits
            closed += waits and not runs
            roomy += waits and not runs and used < ROOM * queue.capacity
            t += WEEK_S
        found.append(count >= hours.LEAST_WEEKS and roomy >= hours.LEAST_ROOMY and closed >= CLOSED * count)
    return found
