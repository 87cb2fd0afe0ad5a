# SPDX-License-Identifier: Apache-2.0
"""The queue as slots in arrival order, with minima per block of 16, and the risk budget of backfilling.

The minima of each block let a scheduling pass skip blocks in which no job fits.
"""

from __future__ import annotations

import numpy as np

from ..compiled import inlined, inner
from ..compiled.arrays import Record
from .heap import push
from .index import build, enter, head_by_key, leave
from .orders import aged_key, candidate_key, head_key, ordering
from .state import BLOCK, GONE, TAIL, asides_of, blocks_of, choices_of, jobs_of, slots_of, tails_of


@inlined
def chance_beyond(s: Record, job: int, seconds: float) -> float:
    """Return the probability that a waiting job runs longer than `seconds`, from its predicted quantiles; infinity if
    unknown."""
    if jobs_of(s)[job].request <= seconds:
        return 0.0
    quantiles = tails_of(s)[job]
    chance = np.inf
    for k in range(len(TAIL)):
        if quantiles[k] <= seconds:
            chance = 1.0 - TAIL[k]
    return chance


@inlined
def is_in_budget(s: Record, rules: Record, head: int, place: int) -> bool:
    """Return whether the risk budget of the reserved job in slot `head` allows the job in slot `place` to start before
    it."""
    slots = slots_of(s)
    chance = chance_beyond(s, slots[place].job, s.shadow_time - s.now)
    return bool(asides_of(s)[slots[head].job].spent + chance <= rules.risk_budget)


@inlined
def take_risk(s: Record, rules: Record, head: int, place: int) -> bool:
    """If the reserved job's risk budget allows it, charge the budget with the risk of a delay by the job in slot
    `place`."""
    if not (rules.risk_budget > 0.0 and is_in_budget(s, rules, head, place)):
        return False
    slots = slots_of(s)
    reserved, passing = asides_of(s)[slots[head].job], asides_of(s)[slots[place].job]
    reserved.spent += chance_beyond(s, slots[place].job, s.shadow_time - s.now)
    passing.passed = slots[head].job
    passing.until = s.shadow_time
    return True


@inlined
def enqueue(s: Record, rules: Record, job: int) -> None:
    """Append a job to the queue. The call takes O(1) time, sometimes O(waiting jobs) to close the gaps of started
    jobs."""
    slots = slots_of(s)
    if s.tail - s.head > 2 * s.waiting + 2 * BLOCK or s.tail >= slots.size:
        compact(s, rules)
    put(s, rules, s.tail, job)
    s.newest = s.tail
    s.tail += 1
    s.waiting += 1
    if s.indexed:
        enter(s, rules, s.newest)


@inlined
def put(s: Record, rules: Record, place: int, job: int) -> None:
    """Enter a job into a slot, and lower the minima of the slot's block."""
    jobs = jobs_of(s)
    slots = slots_of(s)
    blocks = blocks_of(s)
    entry, slot, block = jobs[job], slots[place], blocks[place // BLOCK]
    if place % BLOCK == 0:
        block.procs = GONE
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


@inner
def compact(s: Record, rules: Record) -> None:
    """Move the used slots to the front, in arrival order."""
    slots = slots_of(s)
    kept = 0
    for place in range(s.head, s.tail):
        if slots[place].procs != GONE:
            put(s, rules, kept, slots[place].job)
            kept += 1
    s.head = 0
    s.tail = kept
    if s.indexed:
        build(s, rules)


@inlined
def dequeue(s: Record, rules: Record, place: int) -> None:
    """Clear a slot, and recompute the minima of its block if they came from the slot's job. O(BLOCK)."""
    slots = slots_of(s)
    blocks = blocks_of(s)
    slot, block = slots[place], blocks[place // BLOCK]
    least = slot.procs <= block.procs or slot.planned <= block.planned
    least = least or rules.head_order != 0
    procs = np.int64(slot.procs)
    slot.procs = GONE
    slot.planned = np.inf
    slot.head_key = np.inf
    s.waiting -= 1
    if s.waiting == 0:
        s.head = 0
        s.tail = 0
        return
    while slots[s.head].procs == GONE:
        s.head += 1
    if least:
        remeasure(s, rules, place // BLOCK)
    if s.indexed:
        leave(s, rules, place, procs)


@inlined
def remeasure(s: Record, rules: Record, number: int) -> None:
    """Recompute the minima of one block of the queue."""
    slots = slots_of(s)
    blocks = blocks_of(s)
    procs, planned, least_key = GONE, np.inf, np.inf
    for place in range(max(number * BLOCK, s.head), min(number * BLOCK + BLOCK, s.tail)):
        slot = slots[place]
        procs = min(procs, np.int64(slot.procs))
        planned = min(planned, slot.planned)
        if rules.head_order != 0:
            least_key = min(least_key, slot.head_key)
    block = blocks[number]
    block.procs = procs
    block.planned = planned
    block.head_key = least_key


@inner
def rekey(s: Record, rules: Record) -> None:
    """Recompute the queue-order key of every waiting job if these keys change with time. The call takes O(waiting jobs)
    time, once per scheduling pass."""
    jobs = jobs_of(s)
    slots = slots_of(s)
    blocks = blocks_of(s)
    by = ordering(s, rules)  # read once: the compiler cannot know that writing a key does not change the settings
    first, end, on_request = s.head, s.tail, rules.head_on
    for number in range(first // BLOCK, (end - 1) // BLOCK + 1):
        least_key = np.inf
        for place in range(max(number * BLOCK, first), min(number * BLOCK + BLOCK, end)):
            slot = slots[place]
            if slot.procs != GONE:
                entry = jobs[slot.job]
                key = aged_key(by, entry, entry.request if on_request else entry.planned)
                slot.head_key = key
                least_key = min(least_key, key)
        blocks[number].head_key = least_key
    s.looked_at += end - first


@inlined
def head_place(s: Record, rules: Record) -> int:
    """Return the slot of the head job. The queue must have at least one job.

    Jobs that waited longer than `due_after` allows come first, in order of arrival. After these due jobs comes the
    earliest arrival if it has waited longer than `first_after`, and then the job with the smallest key. The call takes
    O(blocks) time, O(log queue) with an index, or O(queue) if a job may be due.
    """
    slots = slots_of(s)
    blocks = blocks_of(s)
    first: int = s.head
    if s.now > s.least_due:
        due = first_due(s)
        if due >= 0:
            return due
    if rules.head_order == 0:
        return first
    if rules.first_after < np.inf and s.now - jobs_of(s)[slots[first].job].submit > rules.first_after:
        return first
    if s.indexed and not rules.head_varying:
        return head_by_key(s)
    best, least_key = -1, np.inf
    for number in range(s.head // BLOCK, (s.tail - 1) // BLOCK + 1):
        if blocks[number].head_key < least_key:
            best, least_key = number, blocks[number].head_key
    s.looked_at += (s.tail - s.head) // BLOCK + BLOCK
    if best < 0:
        return first
    for place in range(max(best * BLOCK, first), min(best * BLOCK + BLOCK, s.tail)):
        if slots[place].head_key == least_key:
            return place
    return first


@inner
def first_due(s: Record) -> int:
    """Return the slot of the earliest arrival that is due by `due_after`, or -1, and set `least_due`. O(queue)."""
    asides = asides_of(s)
    slots = slots_of(s)
    least, found = np.inf, -1
    for place in range(s.head, s.tail):
        if slots[place].procs != GONE:
            due = asides[slots[place].job].due
            least = min(least, due)
            if found < 0 and s.now > due:
                found = place
    s.least_due = least
    s.looked_at += s.tail - s.head
    return found


@inlined
def any_fits(s: Record) -> bool:
    """Return whether any queued job needs at most the free processors. O(blocks)."""
    blocks = blocks_of(s)
    for number in range(s.head // BLOCK, (s.tail - 1) // BLOCK + 1):
        if blocks[number].procs <= s.free:
            return True
    return False


@inlined
def next_candidate(s: Record, rules: Record, head: int, by_request: bool, start: int) -> int:
    """Return the first job from slot `start` on, in candidate order, that may be backfilled now, or -1; never the head.

    A job may be backfilled if it needs at most the free processors, and either ends by the shadow time or needs at most
    the extra processors. Among jobs with equal keys, the earlier arrival comes first. With `by_request`, the length of
    a job is its requested time; the blocks do not store requested times, so blocks are then skipped by width alone.
    """
    jobs = jobs_of(s)
    slots = slots_of(s)
    blocks = blocks_of(s)
    now, free, shadow_time, extra_procs = s.now, s.free, s.shadow_time, s.extra_procs
    best, best_key = -1, np.inf
    keyed = rules.candidate_order != 0
    risky = by_request and rules.risk_budget > 0.0
    looked_at = 0
    for number in range(start // BLOCK, (s.tail - 1) // BLOCK + 1):
        block = blocks[number]
        looked_at += 1
        if block.procs > free or (block.procs > extra_procs and not by_request and now + block.planned > shadow_time):
            continue
        for place in range(max(number * BLOCK, start), min(number * BLOCK + BLOCK, s.tail)):
            slot = slots[place]
            looked_at += 1
            if slot.procs > free or place == head:
                continue
            fits = slot.procs <= extra_procs or now + length(s, slot, by_request) <= shadow_time
            if not (fits or (risky and is_in_budget(s, rules, head, place))):
                continue
            if not keyed:
                s.looked_at += looked_at
                return place
            if rules.candidate_varying:
                slot.candidate_key = candidate_key(s, rules, jobs[slot.job])
            if best < 0 or slot.candidate_key < best_key:
                best, best_key = place, slot.candidate_key
    s.looked_at += looked_at
    return best


@inlined
def length(s: Record, slot: Record, by_request: bool) -> float:
    """Return the length that the pass assumes for a waiting job: its planned or its requested time."""
    jobs = jobs_of(s)
    seconds: float = jobs[slot.job].request if by_request else slot.planned
    return seconds


@inner
def collect(s: Record, rules: Record, head: int, by_request: bool) -> int:
    """Collect the jobs that may be backfilled now, as a heap by key and arrival; return their number."""
    slots = slots_of(s)
    blocks = blocks_of(s)
    choices = choices_of(s)
    now, free, shadow_time, extra_procs = s.now, s.free, s.shadow_time, s.extra_procs
    risky = by_request and rules.risk_budget > 0.0
    count = looked_at = 0
    for number in range(s.head // BLOCK, (s.tail - 1) // BLOCK + 1):
        looked_at += 1
        if blocks[number].procs > free:
            continue
        looked_at += BLOCK
        for place in range(max(number * BLOCK, s.head), min(number * BLOCK + BLOCK, s.tail)):
            slot = slots[place]
            if slot.procs > free or place == head:
                continue
            fits = slot.procs <= extra_procs or now + length(s, slot, by_request) <= shadow_time
            if not (fits or (risky and is_in_budget(s, rules, head, place))):
                continue
            count = push(choices, count, slot.candidate_key, place, place)
    s.looked_at += looked_at
    return count
