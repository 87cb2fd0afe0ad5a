"""A slow reference version of `batchcast.planning.order`, one record at a time."""

from __future__ import annotations

import math
from typing import NamedTuple


class Row(NamedTuple):
    group: int
    arrival: float
    size: float
    priority: float
    factor: int
    ours: bool
    forecast: float
    party: int


def factors(rows: list[Row], within: str, age: float, band: int, now: float) -> list[int]:
    """Return the factor of each row."""
    records: dict[int, list[Row]] = {}
    for row in rows:
        records.setdefault(row.group, []).append(row)
    blocked = {g for g, tasks in records.items() if any(t.factor != 0 and not t.ours for t in tasks)}
    free = {g: tasks for g, tasks in sorted(records.items()) if g not in blocked}
    if within == "queue":
        answer = {g: by_level(tasks, age, band, now) for g, tasks in free.items()}
    else:
        parties = [{g: t for g, t in free.items() if t[0].party == one} for one in {t[0].party for t in free.values()}]
        peers = [some for party in parties for some in within_band(party, band)]
        spreads = [max(owns) - min(owns) for owns in ([own(t) for t in some.values()] for some in peers)]
        step = 1
        while max(spreads, default=0) > 31 * step:
            step *= 2
        answer = {}
        for some in peers:
            answer |= dealt(some, age, band, now, step)
    return [row.factor if row.group in blocked else answer[row.group] for row in rows]


def own(tasks: list[Row]) -> float:
    return tasks[0].priority - tasks[0].factor


def within_band(party: dict[int, list[Row]], band: int) -> list[dict[int, list[Row]]]:
    """Return the group in parts, from its highest priority down, so that no part is wider than the band."""
    parts: list[dict[int, list[Row]]] = []
    for g in sorted(party, key=lambda g: -own(party[g])):
        if parts and own(next(iter(parts[-1].values()))) - own(party[g]) <= band:
            parts[-1][g] = party[g]
        else:
            parts.append({g: party[g]})
    return parts


def exact(tasks: list[Row]) -> float:
    return 2.5 * math.log2(max(max(t.forecast * t.size for t in tasks), 60.0) / 60.0)


def arrival(tasks: list[Row]) -> float:
    return min((t.arrival for t in tasks if not math.isnan(t.arrival)), default=math.inf)


def by_level(tasks: list[Row], age: float, band: int, now: float) -> int:
    ladder = [band] + [band * (64 - level) // 128 for level in range(1, 64)]
    stands = tasks[0].factor
    if now - arrival(tasks) > age or stands == band:
        return band
    level = 1 + math.floor(min(exact(tasks), 62.0))
    for before in range(1, 64):
        near = before - 1.5 <= exact(tasks) and (exact(tasks) < before + 0.5 or before == 63)
        if stands == ladder[before] and near:
            level = before
    return ladder[level]


def dealt(records: dict[int, list[Row]], age: float, band: int, now: float, step: int) -> dict[int, int]:
    def rank(tasks: list[Row]) -> tuple[float, float]:
        past = now - arrival(tasks) > age
        return (-1.0 if past else exact(tasks) // 1 if exact(tasks) < math.inf else math.inf, arrival(tasks))

    prizes = sorted((own(tasks) for tasks in records.values()), reverse=True)
    answer = {}
    for prize, g in zip(prizes, sorted(records, key=lambda g: (rank(records[g]), g))):
        mine, stands = own(records[g]), records[g][0].factor
        due, least = prize - mine, max(-band, 1 - mine)
        finer: float = step
        while math.floor(due / finer) * finer < min(least, due):
            finer /= 2
        lower = math.floor(due / finer) * finer
        answer[g] = stands if due - 2 * step < stands <= due and stands >= least else lower
    return {g: math.floor(factor) for g, factor in answer.items()}


def ages(looks: list[tuple[float, dict[int, tuple[float, float]]]], processors: float) -> list[float]:
    """Return the age threshold at each instant of `looks`, which has the arrival and work of every waiting job by
    key."""
    first: dict[int, tuple[float, float, float]] = {}  # arrival, work, stored level at the first look
    left: list[list[float]] = []  # weight, time waited, stored level
    answer = []
    for now, jobs in looks:
        waiting = {key: (at, min(work, processors * 172_800.0)) for key, (at, work) in jobs.items() if at == at}
        busy = sum(work for _, work in waiting.values()) / processors
        gone = [key for key in first if key not in waiting]
        for one in left:
            one[0] *= 0.5 ** (len(gone) / 200)
        for key in gone:
            arrival, work, store = first.pop(key)
            left.append([work, now - arrival, store])
        for key, (arrival, work) in waiting.items():
            if key not in first:
                first[key] = arrival, work, max(min(busy, 172_800.0), 1.0)
        longer = 1.0
        if below := sum(weight * store for weight, _, store in left):
            longer = max(longer, sum(weight * waited for weight, waited, _ in left) / below)
        answer.append(min(max(longer * max((store for *_, store in first.values()), default=0.0), 3600.0), 172_800.0))
    return answer
