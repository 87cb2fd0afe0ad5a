# SPDX-License-Identifier: Apache-2.0
"""Orders of the queue, (now, submit, procs, planned, wait) -> key, the smallest first.

And corrections of a plan that a job outlived, by integer code.

And the planners built into the kernel: `last_2` and `recent_mean`, equal to their Python twins.
"""

from __future__ import annotations

import math

import numpy as np

from ..compiled import call_address, inlined
from ..compiled.arrays import Record, array_in
from ..records import array_fields
from .state import RECENT, Memory, memory_as

FCFS, SJF, LJF, SAF, WFP, F1, F2, F3, F4, USER = range(10)
NAMES = {
    "fcfs": FCFS,
    "sjf": SJF,
    "ljf": LJF,
    "saf": SAF,
    "wfp": WFP,
    "f1": F1,
    "f2": F2,
    "f3": F3,
    "f4": F4,
}
VARYING = frozenset({WFP})


@inlined
def order_key(
    order: int, address: int, origin: float, now: float, submit: float, procs: float, planned: float, wait: float
) -> float:
    """The key of a queued job. `origin` is the log's first submission, times are seconds.

    sjf, ljf: planned run time, ascending and descending. saf: procs * planned. wfp: -procs * (wait / planned)^3 (Tang,
    Lan, Desai & Buettner, CLUSTER 2009: WFP). f1..f4: Carastan-Santos & de Camargo, "Obtaining dynamic scheduling
    policies with simulation and machine learning", SC 2017: fitted on r (run time), n (processors) and s (submission,
    here since the log's start, at least 1 s so that its logarithm exists).
    """
    if order == FCFS:
        return submit
    if order == SJF:
        return planned
    if order == LJF:
        return -planned
    if order == SAF:
        return procs * planned
    if order == WFP:
        share = wait / planned
        return -procs * (share * share * share)
    if order == USER:
        key: float = call_address(address, now, submit, procs, planned, wait)
        return math.inf if math.isnan(key) else key
    since = math.log10(max(submit - origin, 1.0))
    if order == F1:
        return math.log10(planned) * procs + 870.0 * since
    if order == F2:
        return math.sqrt(planned) * procs + 25600.0 * since
    if order == F3:
        return planned * procs + 6860000.0 * since
    return planned * math.sqrt(procs) + 530000.0 * since


@inlined
def head_key(s: Record, rules: Record, entry: Record) -> float:
    """The key that decides the head."""
    return aged_key(ordering(s, rules), entry, entry.request if rules.head_on else entry.planned)


@inlined
def candidate_key(s: Record, rules: Record, entry: Record) -> float:
    """The key among candidates."""
    planned = entry.request if rules.candidate_on else entry.planned
    by = (rules.candidate_order, rules.candidate_address, s.origin, s.now, rules.candidate_ageing)
    return aged_key(by, entry, planned)


@inlined
def ordering(s: Record, rules: Record) -> tuple[int, int, float, float, float]:
    """What decides a head's key at this instant beside the job: order, address, origin, now, weight of ageing."""
    return rules.head_order, rules.head_address, s.origin, s.now, rules.head_ageing


@inlined
def aged_key(by: tuple[int, int, float, float, float], entry: Record, planned: float) -> float:
    """An order's key of a job. Ageing adds weight * submit: always the same order as key - weight * wait."""
    order, address, origin, now, ageing = by
    submit = entry.submit
    key: float = order_key(order, address, origin, now, submit, float(entry.procs), planned, now - submit)
    key += ageing * (submit - origin)
    return key


TO_REQUEST, INCREMENTAL, DOUBLING = range(3)
CORRECTIONS = {"requested": TO_REQUEST, "incremental": INCREMENTAL, "doubling": DOUBLING}

INCREMENTS = np.array([1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000], np.float64) * 60.0  # 1 min .. 100 h


@inlined
def corrected(correction: int, elapsed: float, first: float, request: float, step: int) -> float:
    """The planned length after the `step`-th correction (from 0) of a job running for `elapsed` seconds.

    requested: the request. incremental: first prediction + STEPS[step], the request when they are used up. doubling:
    first prediction * 2^(step + 1). Never above the request; where that leaves no time beyond `elapsed`, the request.
    """
    if correction == INCREMENTAL and step < INCREMENTS.size:
        new = first + INCREMENTS[step]
    elif correction == DOUBLING and step < 60:
        new = first * 2.0 ** (step + 1)
    else:
        new = request
    new = min(new, request)
    return new if new > elapsed else request


RECENT_MEMORY = np.dtype(
    [
        ("need", "i8"),  # finished jobs wanted
        ("whole_seconds", "i8"),  # round the mean down
        ("length", "i8"),  # run times a ring remembers
        ("room", "i8"),  # places of a ring: a power of two, so that going round is no division
        *array_fields("rings", "counts"),
    ]
)
rings_of = array_in("rings", np.float64)  # the last run times, ring after ring
counts_of = array_in("counts", np.int64)  # finished jobs seen, by ring
recent_memory_of = memory_as(RECENT_MEMORY)


def recent_memory(rings: int, length: int, **settings: float) -> Memory:
    """The memory of `rings` rings of `length` run times each, empty."""
    rings, length = max(rings, 1), max(length, 1)
    room = 1 << (length - 1).bit_length()
    return Memory(
        RECENT_MEMORY,
        {"length": length, "room": room, **settings},
        rings=np.empty(rings * room),
        counts=np.zeros(rings, np.int64),
    )


@inlined
def plan_natively(s: Record, rules: Record, entry: Record) -> float:
    """The planned run time of a job submitted now, by the planner built in."""
    return recent_plan(recent_memory_of(s)[0], entry)


@inlined
def learn_natively(s: Record, rules: Record, entry: Record) -> None:
    """A job finished: the planner built in learns."""
    if rules.planner == RECENT:
        learn_recent(recent_memory_of(s)[0], entry)


@inlined
def recent_plan(memory: Record, entry: Record) -> float:
    """The mean of recent run times, else the request; within [1, request].

    Jobs that look the same come first, then the user's. Means are summed from the oldest, as the Python twins do.
    """
    rings, counts = rings_of(memory), counts_of(memory)
    number = entry.alike_ring
    if number < 0 or counts[number] == 0:
        number = entry.user_ring
    point = entry.request
    if number >= 0 and counts[number] >= memory.need:
        count, room = counts[number], memory.room
        kept = min(count, memory.length)
        total = 0.0
        for seen in range(count - kept, count):
            total += rings[number * room + (seen & (room - 1))]
        point = total / kept
        if memory.whole_seconds:
            point = np.floor(point)
    planned: float = max(min(point, entry.request), 1.0)
    return planned


@inlined
def learn_recent(memory: Record, entry: Record) -> None:
    """A job finished: its run time overwrites the oldest of its rings."""
    rings, counts = rings_of(memory), counts_of(memory)
    for number in (entry.alike_ring, entry.user_ring):
        if number >= 0:
            rings[number * memory.room + (counts[number] & (memory.room - 1))] = entry.run
            counts[number] += 1
