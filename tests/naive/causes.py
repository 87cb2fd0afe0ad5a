"""The slow twin of `trace.implied.causes`: each second of each job's waiting time is looked at by itself."""

from __future__ import annotations

import numpy as np

from batchcast.trace.implied.caps import Queue
from batchcast.trace.implied.causes import KINDS


def seconds(queue: Queue, place: np.ndarray, simulated: np.ndarray, judged: np.ndarray) -> np.ndarray:
    """What `by_cause` says, of times in whole seconds."""
    found = np.zeros((len(place), len(KINDS)))
    jobs = range(len(place))

    def state(t: float) -> tuple[float, list[int]]:
        running = sum(queue.size[k] for k in jobs if queue.start[k] <= t < queue.end[k])
        return running, [k for k in jobs if queue.submit[k] <= t < queue.start[k]]

    def no_less(k: int, j: int) -> bool:
        """The first is of the second's place, no smaller and no shorter."""
        return place[k] == place[j] and queue.size[k] >= queue.size[j] and not queue.limit[k] < queue.limit[j]

    def kind(j: int, t: float) -> str:
        if t < simulated[j]:
            return "explained"
        running, waiting = state(t)
        if running + sum(queue.size[k] for k in waiting) <= queue.capacity:
            return "room"
        passers = [k for k in jobs if max(simulated[j], queue.submit[j]) <= queue.start[k] <= t]
        if any(no_less(k, j) and queue.submit[k] > queue.submit[j] for k in passers):
            return "order"
        head = min(waiting, key=lambda k: (queue.submit[k], k))
        if running + queue.size[head] <= queue.capacity:
            return "capacity"
        return "behind" if running + queue.size[j] <= queue.capacity else "full"

    for j in jobs:
        if not judged[j]:
            continue
        if np.isnan(simulated[j]):
            found[j, KINDS.index("left out")] = queue.start[j] - queue.submit[j]
            continue
        for t in range(int(queue.submit[j]), int(queue.start[j])):
            found[j, KINDS.index(kind(j, t))] += 1
        over = simulated[j] - queue.start[j]
        if over > 0:
            running, waiting = state(queue.start[j])
            before = any(no_less(j, k) and queue.submit[k] < queue.submit[j] for k in waiting)
            longer = "more" if running > queue.capacity else "turn" if before else "later"
            found[j, KINDS.index(longer)] = over
    return found
