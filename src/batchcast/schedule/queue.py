# SPDX-License-Identifier: Apache-2.0
"""The queue and the running jobs of the scheduling kernel.

The queue is an array of slots in arrival order, with minima per block of 16. The minima of each block let a scheduling
pass skip blocks in which no job fits. The running jobs are an array sorted by planned end, from which the reservation
of a head job is computed.
"""

from __future__ import annotations

import numpy as np

from ..compiled import inlined, kernel
from ..compiled.arrays import Record
from . import state as pool
from .index import build, enter, leave
from .orders import candidate_key, head_key
from .state import BLOCK, blocks_of, endings_of, instant_of, jobs_of, log_of, plan_of, slots_of


@inlined
def enqueue(s: Record, rules: Record, job: int) -> None:
    """Append a job to the queue. The call takes O(1) time, sometimes O(waiting jobs) to close the gaps of started
    jobs."""
    if s.tail - s.head > 2 * s.waiting + 2 * BLOCK or s.tail >= slots_of(s).size:
        compact(s, rules)
    enter_slot(s, rules, s.tail, job)
    s.newest = s.tail
    s.tail += 1
    s.waiting += 1
    if s.indexed:
        enter(s, rules, s.newest)


@inlined
def enter_slot(s: Record, rules: Record, position: int, job: int) -> None:
    """Enter a job into a slot, and lower the minima of the slot's block."""
    entry, slot, block = jobs_of(s)[job], slots_of(s)[position], blocks_of(s)[position // BLOCK]
    if position % BLOCK == 0:
        block.procs = pool.GONE
        block.planned = np.inf
        block.head_key = np.inf
    slot.job = job
    slot.procs = entry.procs
    slot.planned = entry.planned
    block.procs = min(block.procs, np.int64(entry.procs))
    block.planned = min(block.planned, entry.planned)
    if rules.head_order != 0:
        slot.head_key = head_key(s, rules, entry)
        block.head_key = min(block.head_key, slot.head_key)
    if rules.candidate_order != 0:
        slot.candidate_key = candidate_key(s, rules, entry)


@kernel
def compact(s: Record, rules: Record) -> None:
    """Move the used slots to the front, in arrival order."""
    slots = slots_of(s)
    kept = 0
    for position in range(s.head, s.tail):
        if slots[position].procs != pool.GONE:
            enter_slot(s, rules, kept, slots[position].job)
            kept += 1
    s.head = 0
    s.tail = kept
    if s.indexed:
        build(s, rules)


@inlined
def dequeue(s: Record, rules: Record, position: int) -> None:
    """Clear a slot, and recompute the minima of its block if they came from the slot's job. O(BLOCK)."""
    slots = slots_of(s)
    slot, block = slots[position], blocks_of(s)[position // BLOCK]
    least = slot.procs <= block.procs or slot.planned <= block.planned
    least = least or rules.head_order != 0
    procs = np.int64(slot.procs)
    slot.procs = pool.GONE
    slot.planned = np.inf
    slot.head_key = np.inf
    s.waiting -= 1
    if s.waiting == 0:
        s.head = 0
        s.tail = 0
        return
    while slots[s.head].procs == pool.GONE:
        s.head += 1
    if least:
        remeasure(s, rules, position // BLOCK)
    if s.indexed:
        leave(s, rules, position, procs)


@inlined
def remeasure(s: Record, rules: Record, number: int) -> None:
    """Recompute the minima of one block of the queue."""
    slots = slots_of(s)
    procs, planned, least_key = pool.GONE, np.inf, np.inf
    for position in range(max(number * BLOCK, s.head), min(number * BLOCK + BLOCK, s.tail)):
        slot = slots[position]
        procs = min(procs, np.int64(slot.procs))
        planned = min(planned, slot.planned)
        if rules.head_order != 0:
            least_key = min(least_key, slot.head_key)
    block = blocks_of(s)[number]
    block.procs = procs
    block.planned = planned
    block.head_key = least_key


@inlined
def insert_by_end(plan: Record, count: int, job: int, procs: int, end: float) -> int:
    """Insert a job into `count` running jobs by its end, after jobs with an equal end; return its position.
    O(count)."""
    position = count
    while position > 0 and plan[position - 1].end > end:
        plan[position] = plan[position - 1]
        position -= 1
    plan[position].end = end
    plan[position].job = job
    plan[position].procs = procs
    return position


@inlined
def drop_plan(s: Record, job: int, planned_end: float) -> None:
    """Remove a running job from the plan. O(running)."""
    plan = plan_of(s)
    low, high = 0, s.running
    while low < high:
        middle = (low + high) // 2
        if plan[middle].end < planned_end:
            low = middle + 1
        else:
            high = middle
    while plan[low].job != job:
        low += 1
    last = s.running - 1
    s.running = last
    for position in range(low, last):
        plan[position] = plan[position + 1]


@inlined
def put_off(s: Record, position: int, planned_end: float) -> None:
    """Give the running job at position `position` a later planned end, and move the job after jobs with an equal end.
    O(passed jobs)."""
    plan = plan_of(s)
    job, procs, last = plan[position].job, plan[position].procs, s.running - 1
    while position < last and plan[position + 1].end <= planned_end:
        plan[position] = plan[position + 1]
        position += 1
    plan[position].end = planned_end
    plan[position].job = job
    plan[position].procs = procs


@inlined
def start_job(s: Record, rules: Record, position: int, backfilled: int) -> None:
    """Start the job of a slot. Jobs with equal ends are in log order, or in order of start with the event order of
    pyss."""
    job = slots_of(s)[position].job
    entry = jobs_of(s)[job]
    entry.start = s.now
    entry.backfilled = backfilled
    s.free -= entry.procs
    s.sequence += 1
    dequeue(s, rules, position)
    if rules.running_ends == pool.REQUESTED:
        entry.planned = max(entry.request, entry.run)
    insert_by_end(plan_of(s), s.running, job, entry.procs, s.now + entry.planned)
    s.running += 1
    note(s, pool.LOG_START, job)
    if entry.run <= 0.0:
        instant_of(s)[s.instant_end] = job
        s.instant_end += 1
    else:
        tie = s.sequence if rules.event_order == pool.PYSS else np.int64(job)
        s.ending = pool.push(endings_of(s), s.ending, s.now + entry.run, tie, job)


@inlined
def note(s: Record, kind: int, job: int) -> None:
    """Log a decision for predictors outside the kernel, if there are any."""
    log = log_of(s)
    if log.size > 0:
        entry = log[s.logged]
        entry.kind = kind
        entry.job = job
        entry.time = s.now
        s.logged += 1
