# SPDX-License-Identifier: Apache-2.0
"""Queue orders, corrections of planned run times that a job exceeded, and the built-in planners, selected by integer
codes.

An order maps (now, submit, procs, planned, wait) to a key; the smallest key comes first. The built-in planners `last_2`
and `recent_mean` give the same results as their Python versions.
"""

from __future__ import annotations

import math

import numpy as np

from ..compiled import call_address, inlined
from ..compiled.arrays import Record, array_in
from ..records import array_fields, point_to
from .state import Memory

FCFS, SJF, LJF, SAF, WFP, F1, F2, F3, F4, USER = range(10)
NAMES = dict(zip(("fcfs", "sjf", "ljf", "saf", "wfp", "f1", "f2", "f3", "f4"), range(USER)))
VARYING = frozenset({WFP})


@inlined
def order_key(
    order: int, address: int, origin: float, now: float, submit: float, procs: float, planned: float, wait: float
) -> float:
    """Return the key of a queued job. `origin` is the log's first submission; times are in seconds.

    `sjf` and `ljf` order by planned run time, ascending and descending; `saf` by procs * planned; `wfp` by -procs *
    (wait / planned)^3 (Tang, Lan, Desai & Buettner, CLUSTER 2009). `f1` to `f4` are functions of r (run time), n
    (processors) and s (submission), fitted by Carastan-Santos & de Camargo, "Obtaining dynamic scheduling policies with
    simulation and machine learning", SC 2017. This implementation counts the submission time s from the log's start and
    uses at least 1 s, so that the logarithm of s exists.
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
    """Return the key by which the head of the queue is chosen."""
    return aged_key(ordering(s, rules), entry, entry.request if rules.head_on else entry.planned)


@inlined
def candidate_key(s: Record, rules: Record, entry: Record) -> float:
    """Return the key by which backfill candidates are ordered."""
    planned = entry.request if rules.candidate_on else entry.planned
    by = (rules.candidate_order, rules.candidate_address, s.origin, s.now, rules.candidate_ageing)
    return aged_key(by, entry, planned)


@inlined
def ordering(s: Record, rules: Record) -> tuple[int, int, float, float, float]:
    """Return the settings from which queue-order keys are computed: order, address, origin, now, weight of ageing."""
    return rules.head_order, rules.head_address, s.origin, s.now, rules.head_ageing


@inlined
def aged_key(by: tuple[int, int, float, float, float], entry: Record, planned: float) -> float:
    """Return a job's queue-order key, lowered in proportion to its wait. Adding weight * submission time to each key
    gives the same queue order as subtracting weight * wait."""
    order, address, origin, now, ageing = by
    submit = entry.submit
    key: float = order_key(order, address, origin, now, submit, float(entry.procs), planned, now - submit)
    key += ageing * (submit - origin)
    return key


TO_REQUEST, INCREMENTAL, DOUBLING = range(3)
CORRECTIONS = {"requested": TO_REQUEST, "incremental": INCREMENTAL, "doubling": DOUBLING}

INCREMENTS = np.array([1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000], np.float64) * 60.0  # 1 min .. 100 h


def correct_plan(correction: int, elapsed: float, first: float, request: float, step: int) -> float:
    """Return the planned run time after the `step`-th correction (from 0) of a job that has run for `elapsed` seconds.

    `requested` gives the requested time; `incremental` the first prediction + INCREMENTS[step], after the last
    increment the requested time; `doubling` the first prediction * 2^(step + 1). The new planned run time is at most
    the requested time. If a correction would not exceed `elapsed`, the function returns the requested time.

    >>> float(correct_plan(INCREMENTAL, 100.0, 100.0, 900.0, 0)), correct_plan(DOUBLING, 100.0, 100.0, 900.0, 5)
    (160.0, 900.0)
    """
    if correction == INCREMENTAL and step < INCREMENTS.size:
        new = first + INCREMENTS[step]
    elif correction == DOUBLING and step < 60:
        new = first * 2.0 ** (step + 1)
    else:
        new = request
    new = min(new, request)
    return new if new > elapsed else request


corrected = inlined(correct_plan)  # for kernels

RECENT_MEMORY = np.dtype(
    [
        ("need", "i8"),  # number of finished jobs that a mean requires
        ("whole_seconds", "i8"),  # round the mean down
        ("length", "i8"),  # run times in a ring
        ("room", "i8"),  # capacity of a ring: a power of two, so that wrapping needs no division
        *array_fields("rings", "counts"),
    ]
)
rings_of = array_in("rings", np.float64)  # the latest run times, ring after ring
counts_of = array_in("counts", np.int64)  # number of finished jobs, by ring
recent_memory_of = array_in("memory", RECENT_MEMORY)  # the record (1,) of the built-in planner


def recent_memory(rings: int, length: int, need: int = 1, whole_seconds: bool = False) -> Memory:
    """Create the memory of a built-in planner: `rings` empty ring buffers of `length` run times each."""
    rings, length = max(rings, 1), max(length, 1)
    room = 1 << (length - 1).bit_length()
    record, arrays = np.zeros(1, RECENT_MEMORY), {"rings": np.empty(rings * room), "counts": np.zeros(rings, np.int64)}
    record["need"], record["whole_seconds"], record["length"], record["room"] = need, whole_seconds, length, room
    point_to(record, **arrays)
    return Memory(record, arrays)


@inlined
def recent_plan(memory: Record, entry: Record) -> float:
    """Return the mean of recent run times, else the requested time; at least 1 s, at most the requested time.

    The mean covers the user's similar jobs or, if the user has none, all jobs of the user. Run times are summed from
    the oldest on, as in the Python version of the predictor.
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
    """Store the run time of a finished job in its ring buffers, in place of the oldest run time."""
    rings, counts = rings_of(memory), counts_of(memory)
    for number in (entry.alike_ring, entry.user_ring):
        if number >= 0:
            rings[number * memory.room + (counts[number] & (memory.room - 1))] = entry.run
            counts[number] += 1
