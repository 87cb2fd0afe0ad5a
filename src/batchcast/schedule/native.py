# SPDX-License-Identifier: Apache-2.0
"""Planners built into the kernel: `last_2` and `recent_mean` as one branch, equal to their Python twins.

A further planner is a code in `state`, a branch here and in `simulation.planner`, and a record of its own (settings and
memory), which the state points to as `memory`; nothing else of the kernel knows it.
"""

from __future__ import annotations

import numpy as np

from ..compiled import inlined
from ..compiled.arrays import Record, array_in
from ..records import array_fields
from .state import RECENT, Memory, memory_as

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
