"""What waiting jobs see now, each at its own place in the queue: one compiled pass, the futures simulated once."""

from __future__ import annotations

import math

import numpy as np

from ...compiled import kernel
from ...events.kernel import jobs_of, queue_of
from ...schedule.forward_kernel import next_instant
from ...schedule.forward_state import HEAD, JOBS
from .draws import draw_future, see_draws
from .features import AT_DRAWS, Room, look_around, plans_of
from .lessons import PEAK, Lessons


@kernel
def describe_queue(
    state: np.ndarray,
    m: Lessons,
    now: float,
    runs: np.ndarray,
    room: Room,
    places: np.ndarray,
    waits: np.ndarray,
    out: np.ndarray,
) -> None:
    """NAMES of features for the queued jobs at `places` into `out` (places, features), each as if those behind it had
    not come.

    Each of the drawn futures is simulated once, until all who wait have started: `waits` (plans, queued) gets when,
    in seconds from now, NaN for who never fits. O(places (queued + running)) and a heap's logarithm.
    """
    s = state[0]
    jobs, queue, f = jobs_of(s), queue_of(s), room.future
    n = s.queue_end - s.queue_first
    most = 0.0
    for k in range(n):
        most = max(most, jobs[queue[s.queue_first + k]].procs)
    size = s.size if s.size == s.size else max(m.numbers[PEAK], most)
    waits[:] = np.nan
    for plan in range(plans_of(s)):
        draw_future(f, s, runs, -1, now, plan, size)
        while f.tally[HEAD] < f.tally[JOBS]:
            if not next_instant(f):
                break
        for k in range(n):
            waits[plan, k] = f.start[k] - now if math.isfinite(f.start[k]) else math.nan
    for place in range(len(places)):
        k = places[place]
        i = queue[s.queue_first + k]
        look_around(s, m, jobs[i], i, s.queue_first + k, now, runs, runs[i], room)
        for plan in range(len(room.waits)):
            room.waits[plan] = waits[plan, k]
        see_draws(room.waits, room.out[AT_DRAWS:])
        for column in range(len(room.out)):
            out[place, column] = room.out[column]
