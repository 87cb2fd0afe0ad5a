"""Slow reference versions of `simulation.learned`: refusals and caps by every value, causes second by second, closed
hours."""

from __future__ import annotations

import math

import numpy as np

from batchcast.simulation.learned import caps
from batchcast.simulation.learned import fit as hours
from batchcast.simulation.learned.caps import LOOKS, OUTAGE_S, PATIENCE_S, Queue
from batchcast.simulation.learned.causes import KINDS
from batchcast.simulation.learned.fit import CLOSED, HOUR_S, ROOM, WEEK_S


def held_at(queue: Queue, rows: np.ndarray, size: np.ndarray, when: float) -> float:
    """Return what the jobs of `rows` use at an instant."""
    return float(sum(size[k] for k in rows if queue.start[k] <= when < queue.end[k]))


def has_room(queue: Queue, j: int, when: float) -> bool:
    """Return whether the job's processors and GPUs are free for ten minutes."""
    everybody = np.arange(len(queue.size))
    looked = [when, *(t for t in (*queue.start, *queue.end) if when < t <= when + PATIENCE_S)]
    return all(
        size[j] <= 0 or max(held_at(queue, everybody, size, t) for t in looked) + size[j] <= there
        for size, there in queue.resources
    )


def has_room_beside_others(queue: Queue, codes: np.ndarray, j: int, when: float) -> bool:
    """Return whether there is room for all running jobs, all other waiting jobs and the largest waiting job of the
    group at once."""
    more = [] if queue.nodes is None else [(queue.nodes, queue.nodes_there)]
    for size, there in [*queue.resources, *more]:
        for t in (when, when + PATIENCE_S):
            running = sum(size[k] for k in range(len(size)) if queue.start[k] <= t < queue.end[k])
            waiting = [k for k in range(len(size)) if queue.submit[k] <= t < queue.start[k]]
            others = sum(size[k] for k in waiting if codes[k] != codes[j])
            own = max(size[k] for k in waiting if codes[k] == codes[j])
            if size[j] > 0 and running + others + own > there:
                return False
    return True


def is_outage(queue: Queue, when: float) -> bool:
    """Return whether an instant lies between two starts that are four hours or more apart, or before the first
    start."""
    before = [t for t in queue.start if t <= when]
    return not before or min(t for t in queue.start if t > when) - max(before) >= OUTAGE_S


def refusal(queue: Queue, codes: np.ndarray, j: int) -> float:
    """Return the first instant at which there was room for the job beside all other jobs, else the first start of a job
    that passed it; NaN if there is neither."""
    wait = queue.start[j] - queue.submit[j]
    if codes[j] < 0 or not wait > 2 * PATIENCE_S:
        return float("nan")
    for look in range(LOOKS if queue.alone else 0):
        when = queue.submit[j] + (look + 0.5) / LOOKS * (wait - PATIENCE_S)
        roomy = has_room(queue, j, when) and has_room_beside_others(queue, codes, j, when)
        if roomy and not is_outage(queue, when):
            return when
    for k in np.argsort(queue.start, kind="stable"):
        asks = [x for x in (queue.size, queue.limit, queue.gpus, queue.memory) if x is not None]
        passed = (
            queue.submit[j] < queue.submit[k]
            and queue.start[k] < queue.start[j] - PATIENCE_S
            and codes[k] != codes[j]
            and not any(x[k] < x[j] for x in asks)
        )
        if passed and has_room(queue, j, queue.start[k]):
            return float(queue.start[k])
    return float("nan")


def caps_of(queue: Queue, codes: np.ndarray, what: str, refused: np.ndarray) -> tuple[float, str] | None:
    """Return the cap value that most refusals support, and its owner (empty: all users)."""
    groups = sorted({int(code) for code in codes if code >= 0})
    rows = {g: np.flatnonzero(codes == g) for g in groups}
    counted = queue.counted

    def peak_of(g: int, size: np.ndarray) -> float:
        return max((held_at(queue, rows[g], size, t) for t in queue.start[rows[g]]), default=0.0)

    def level_of(j: int, size: np.ndarray) -> float:
        return held_at(queue, rows[codes[j]], size, refused[j]) + size[j]

    peak = {g: peak_of(g, counted[what]) for g in groups}
    jobs_of = {g: [j for j in rows[g] if refused[j] == refused[j]] for g in groups}
    other = {
        j: any(level_of(j, size) > peak_of(g, size) for name, size in counted.items() if name != what)
        for g in groups
        for j in jobs_of[g]
    }
    level = {g: [(level_of(j, counted[what]), other[j]) for j in jobs_of[g]] for g in groups}
    best: tuple[int, float, str] | None = None
    for value in sorted({peak[g] for g in groups if level[g]}):
        beyond = {g: sum(x > value for x, _ in level[g]) for g in groups}
        within = {g: sum(x <= value and not apart for x, apart in level[g]) for g in groups}
        shows = [
            g for g in groups if peak[g] <= value and beyond[g] and beyond[g] >= caps.PURITY * (beyond[g] + within[g])
        ]
        jobs = sum(beyond[g] for g in shows)
        against = sum(within[g] for g in groups if peak[g] <= value)
        above = sum(peak[g] > value for g in groups)
        alike = [g for g in groups if g in shows or peak[g] == value]
        fine = jobs >= caps.LEAST_JOBS and len(alike) >= caps.LEAST_GROUPS and jobs >= caps.PURITY * (jobs + against)
        if fine and any(peak[g] == value for g in shows) and above <= caps.ABOVE * len(shows):
            best = max(best or (jobs, value, ""), (jobs, value, ""), key=lambda b: (b[0], -b[1]))
    if best is not None:
        return best[1], best[2]
    for g in groups:
        jobs = sum(x > peak[g] for x, _ in level[g])
        against = sum(x <= peak[g] and not apart for x, apart in level[g])
        if jobs >= caps.LEAST_OWN and jobs >= caps.PURITY * (jobs + against) and (best is None or jobs > best[0]):
            best = jobs, peak[g], str(g)
    return None if best is None else (best[1], best[2])


def seconds(queue: Queue, place: np.ndarray, simulated: np.ndarray, judged: np.ndarray) -> np.ndarray:
    """Return waiting time by cause, as `by_cause` does, computed second by second; all times must be whole seconds."""
    found = np.zeros((len(place), len(KINDS)))
    jobs = range(len(place))

    def state(t: float) -> tuple[float, list[int]]:
        running = sum(queue.size[k] for k in jobs if queue.start[k] <= t < queue.end[k])
        return running, [k for k in jobs if queue.submit[k] <= t < queue.start[k]]

    def no_less(k: int, j: int) -> bool:
        """The first job has the second job's partition, and is neither smaller nor shorter."""
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


def shut(queue: Queue, long: np.ndarray) -> list[bool]:
    """Return for each hour of the week whether these jobs cannot start in it."""
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
