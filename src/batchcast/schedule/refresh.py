"""Queued jobs planned anew when one of their class ends: the first results of a burst outweigh what came before it."""

from __future__ import annotations

import math

import numpy as np

from ..compiled import inlined, inner
from ..compiled.arrays import Record
from .index import leave
from .orders import candidate_key, head_key
from .queue import remeasure
from .state import BLOCK, GONE, RESULTS, asides_of, jobs_of, results_of, slots_of


@inner
def hear_result(s: Record, rules: Record, ended: int) -> None:
    """Remember a result of its class, and plan the queued jobs of that class anew. O(queue).

    The new plan is the geometric mean of the job's first plan and the class's results since its submission, the last
    eight of them, each counting as much as the plan; within a second and the request.
    """
    asides = asides_of(s)
    like = asides[ended].like
    if like < 0:
        return
    results = results_of(s)[like]
    jobs = jobs_of(s)
    place = int(results[0]) % RESULTS
    results[0] += 1.0
    results[1 + place] = s.now
    results[1 + RESULTS + place] = math.log(max(jobs[ended].run, 1.0))
    slots = slots_of(s)
    for place in range(s.head, s.tail):
        slot = slots[place]
        if slot.procs != GONE and asides[slot.job].like == like:
            plan_slot_anew(s, rules, place, planned_anew(jobs[slot.job], results))


@inlined
def planned_anew(entry: Record, results: np.ndarray) -> float:
    """A waiting job's plan from its first one and the results of its class since it was submitted."""
    known = min(int(results[0]), RESULTS)
    total, count = math.log(max(entry.first, 1.0)), 1
    for k in range(known):
        if results[1 + k] >= entry.submit:
            total += results[1 + RESULTS + k]
            count += 1
    planned: float = max(min(math.exp(total / count), entry.request), 1.0)
    return planned


@inlined
def plan_slot_anew(s: Record, rules: Record, place: int, planned: float) -> None:
    """Give the job of a slot another plan, with its keys and all minima above it."""
    slots = slots_of(s)
    entry = jobs_of(s)[slots[place].job]
    if entry.planned == planned:
        return
    entry.planned = planned
    slot = slots[place]
    slot.planned = planned
    if rules.head_order != 0:
        slot.head_key = head_key(s, rules, entry)
    if rules.candidate_order != 0:
        slot.candidate_key = candidate_key(s, rules, entry)
    remeasure(s, rules, place // BLOCK)
    if s.indexed:
        leave(s, rules, place, np.int64(slot.procs))
    s.dirty = 1
