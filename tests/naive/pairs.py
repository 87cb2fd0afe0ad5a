"""A slow reference version of `simulation.learned.order`: compares every two jobs, and adds up every job's past use."""

from __future__ import annotations

import numpy as np

from batchcast.simulation.learned.caps import PATIENCE_S, Queue
from batchcast.simulation.learned.order import HOUR_S, MOST_RATIO


def pairs(queue: Queue, users: np.ndarray) -> set[tuple[int, int]]:
    """Return the jobs that started while another user's comparable job, for which there was room too, kept waiting."""
    jobs = range(len(users))
    found = set()
    for i in jobs:
        t = queue.start[i]
        running = sum(queue.size[k] for k in jobs if queue.start[k] <= t < queue.end[k])
        for k in jobs:
            waited = (
                min(t - queue.submit[i], t - queue.submit[k]) >= PATIENCE_S and queue.start[k] > t + PATIENCE_S / 10
            )
            size, limit = queue.size[k] / queue.size[i], queue.limit[k] / queue.limit[i]
            alike = 1 / MOST_RATIO <= size <= MOST_RATIO and not limit > MOST_RATIO and not limit < 1 / MOST_RATIO
            room = running - queue.size[i] + queue.size[k] <= queue.capacity
            if waited and alike and room and users[i] >= 0 and users[k] >= 0 and users[i] != users[k]:
                found.add((i, k))
    return found


def standing(queue: Queue, users: np.ndarray, when: float, user: int, half_life: float) -> float:
    """Return the share of users who used at least as much as this user, by the hours in which their jobs ended."""
    hour, use = when // HOUR_S, [0.0] * (int(users.max()) + 1)
    for k in range(len(users)):
        ended = queue.end[k] // HOUR_S
        if users[k] >= 0 and ended < hour:
            use[users[k]] += (
                queue.size[k] * (queue.end[k] - queue.start[k]) * 0.5 ** ((hour - ended) * HOUR_S / half_life)
            )
    return sum(other >= use[user] * (1 - 1e-12) for other in use) / len(use)
