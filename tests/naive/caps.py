"""The slow twin of `trace.implied.caps`: refusals by looking at every job, caps by trying every value."""

from __future__ import annotations

import numpy as np

from batchcast.trace.implied import caps
from batchcast.trace.implied.caps import LOOKS, PATIENCE_S, Queue


def held_at(queue: Queue, rows: np.ndarray, size: np.ndarray, when: float) -> float:
    """What the jobs of `rows` hold at an instant."""
    return float(sum(size[k] for k in rows if queue.start[k] <= when < queue.end[k]))


def refusal(queue: Queue, codes: np.ndarray, j: int) -> float:
    """The first of the looks at which the job had room for ten minutes and was passed afterwards; NaN: none."""
    n = len(codes)
    wait = queue.start[j] - queue.submit[j]
    if codes[j] < 0 or not wait > 2 * PATIENCE_S or queue.size[j] > queue.capacity:
        return float("nan")
    everybody = np.arange(n)
    for look in range(LOOKS):
        when = queue.submit[j] + (look + 0.5) / LOOKS * (wait - PATIENCE_S)
        changes = [t for t in (*queue.start, *queue.end) if when < t <= when + PATIENCE_S]
        most = max(held_at(queue, everybody, queue.size, t) for t in (when, *changes))
        passed = any(
            when <= queue.start[k] < queue.start[j] - 1e-9
            and queue.submit[k] > queue.submit[j]
            and codes[k] != codes[j]
            and queue.size[k] >= queue.size[j]
            and not queue.limit[k] < queue.limit[j]
            for k in range(n)
        )
        if most + queue.size[j] <= queue.capacity and passed:
            return when
    return float("nan")


def caps_of(queue: Queue, codes: np.ndarray, size: np.ndarray, refused: np.ndarray) -> tuple[float, str] | None:
    """The value of the cap that most refusals speak for, and whose it is (empty: everybody's)."""
    groups = sorted({int(code) for code in codes if code >= 0})
    rows = {g: np.flatnonzero(codes == g) for g in groups}
    peak = {
        g: max((held_at(queue, rows[g], size, t) for t in (*queue.start[rows[g]], *queue.end[rows[g]])), default=0.0)
        for g in groups
    }
    level = {
        g: [held_at(queue, rows[g], size, refused[j]) + size[j] for j in rows[g] if refused[j] == refused[j]]
        for g in groups
    }
    best: tuple[int, float, str] | None = None
    for value in sorted({peak[g] for g in groups if level[g]}):
        shows = [
            g
            for g in groups
            if peak[g] <= value
            and (beyond := sum(x > value for x in level[g])) > 0
            and beyond >= caps.PURITY * len(level[g])
        ]
        jobs = sum(x > value for g in shows for x in level[g])
        against = sum(x <= value for g in groups if peak[g] <= value for x in level[g])
        above = sum(peak[g] > value for g in groups)
        fine = jobs >= caps.LEAST_JOBS and len(shows) >= caps.LEAST_GROUPS and jobs >= caps.PURITY * (jobs + against)
        if fine and any(peak[g] == value for g in shows) and above <= caps.ABOVE * len(shows):
            best = max(best or (jobs, value, ""), (jobs, value, ""), key=lambda b: (b[0], -b[1]))
    if best is not None:
        return best[1], best[2]
    for g in groups:
        jobs = sum(x > peak[g] for x in level[g])
        if jobs >= caps.LEAST_OWN and jobs >= caps.PURITY * len(level[g]) and (best is None or jobs > best[0]):
            best = jobs, peak[g], str(g)
    return None if best is None else (best[1], best[2])
