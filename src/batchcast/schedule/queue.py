# SPDX-License-Identifier: Apache-2.0
"""The queue and the running jobs of the scheduling kernel.

The queue is an array of slots in arrival order, with minima per block of 16. The minima of each block let a scheduling
pass skip blocks in which no job fits. The running jobs are an array sorted by planned end, from which the reservation
of a head job is computed. The risk budget of backfilling belongs to the queue.
"""

from __future__ import annotations

import numpy as np

from ..compiled import inlined, inner
from ..compiled.arrays import Record
from .index import build, enter, head_by_key, leave
from .orders import aged_key, candidate_key, head_key, ordering
from .state import (
    BLOCK,
    GONE,
    LOG_START,
    PYSS,
    REQUESTED,
    TAIL,
    asides_of,
    blocks_of,
    choices_of,
    endings_of,
    instant_of,
    jobs_of,
    log_of,
    plan_of,
    pop,
    push,
    slots_of,
    tails_of,
)


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
    if s.tail - s.head > 2 * s.waiting + 2 * BLOCK or s.tail >= slots_of(s).size:
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
    entry, slot, block = jobs_of(s)[job], slots_of(s)[place], blocks_of(s)[place // BLOCK]
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
    slot, block = slots[place], blocks_of(s)[place // BLOCK]
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
    procs, planned, least_key = GONE, np.inf, np.inf
    for place in range(max(number * BLOCK, s.head), min(number * BLOCK + BLOCK, s.tail)):
        slot = slots[place]
        procs = min(procs, np.int64(slot.procs))
        planned = min(planned, slot.planned)
        if rules.head_order != 0:
            least_key = min(least_key, slot.head_key)
    block = blocks_of(s)[number]
    block.procs = procs
    block.planned = planned
    block.head_key = least_key


@inner
def rekey(s: Record, rules: Record) -> None:
    """Recompute the queue-order key of every waiting job if these keys change with time. The call takes O(waiting jobs)
    time, once per scheduling pass."""
    jobs, slots, blocks = jobs_of(s), slots_of(s), blocks_of(s)
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
    slots, blocks = slots_of(s), blocks_of(s)
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
    asides, slots = asides_of(s), slots_of(s)
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
    jobs, slots, blocks = jobs_of(s), slots_of(s), blocks_of(s)
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
    seconds: float = jobs_of(s)[slot.job].request if by_request else slot.planned
    return seconds


@inner
def collect(s: Record, rules: Record, head: int, by_request: bool) -> int:
    """Collect the jobs that may be backfilled now, as a heap by key and arrival; return their number."""
    slots, blocks, choices = slots_of(s), blocks_of(s), choices_of(s)
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


@inlined
def add_plan(s: Record, job: int, procs: int, planned_end: float) -> None:
    """Insert a running job by its planned end, after jobs with an equal end. O(running)."""
    plan = plan_of(s)
    place = s.running
    while place > 0 and plan[place - 1].end > planned_end:
        plan[place] = plan[place - 1]
        place -= 1
    plan[place].end = planned_end
    plan[place].job = job
    plan[place].procs = procs
    s.running += 1


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
    for place in range(low, last):
        plan[place] = plan[place + 1]


@inlined
def put_off(s: Record, place: int, planned_end: float) -> None:
    """Give the running job at position `place` a later planned end, and move the job after jobs with an equal end.
    O(passed jobs)."""
    plan = plan_of(s)
    job, procs, last = plan[place].job, plan[place].procs, s.running - 1
    while place < last and plan[place + 1].end <= planned_end:
        plan[place] = plan[place + 1]
        place += 1
    plan[place].end = planned_end
    plan[place].job = job
    plan[place].procs = procs


@inlined
def reserve(s: Record, procs: int) -> None:
    """Compute when a head job of `procs` processors can start if running jobs end as planned, and how many processors
    are then left over.

    Mu'alem & Feitelson (TPDS 2001): go through the running jobs by planned end until enough processors are free; all
    jobs that end at this instant count. O(running).
    """
    plan = plan_of(s)
    free, place, running = s.free, 0, s.running
    while free < procs and place < running:
        free += plan[place].procs
        place += 1
    shadow_time = plan[place - 1].end if place > 0 else s.now
    while place < running and plan[place].end == shadow_time:
        free += plan[place].procs
        place += 1
    s.shadow_time = shadow_time
    s.extra_procs = free - procs
    s.reserved = 1


@inner
def reserve_by_request(s: Record, rules: Record, head: int, procs: int) -> None:
    """Compute the reservation as `reserve` does, but let each running job end at start + request. O(running).

    A job that was backfilled at the risk of delaying the job `head` counts as ending at the start that was reserved at
    that time, if this start is in the future. The risk budget was charged for that reserved start; a later reservation
    would let other jobs be backfilled without a charge.
    """
    jobs, asides, plan, choices = jobs_of(s), asides_of(s), plan_of(s), choices_of(s)
    count = 0
    for place in range(s.running):
        entry = jobs[plan[place].job]
        end = entry.start + entry.request
        if rules.risk_budget > 0.0:
            aside = asides[plan[place].job]
            if aside.passed == head and aside.until > s.now:
                end = min(end, aside.until)
        count = push(choices, count, end, place, entry.procs)
    free = s.free
    s.shadow_time = s.now
    while count > 0 and (free < procs or choices[0].key == s.shadow_time):
        free += choices[0].item
        s.shadow_time = choices[0].key
        count = pop(choices, count)
    s.extra_procs = free - procs
    s.reserved = 1


@inlined
def start_job(s: Record, rules: Record, place: int, backfilled: int) -> None:
    """Start the job of a slot. Jobs with equal ends are in log order, or in order of start with the event order of
    pyss."""
    job = slots_of(s)[place].job
    entry = jobs_of(s)[job]
    entry.start = s.now
    entry.backfilled = backfilled
    s.free -= entry.procs
    s.sequence += 1
    dequeue(s, rules, place)
    if rules.running_ends == REQUESTED:
        entry.planned = max(entry.request, entry.run)
    add_plan(s, job, entry.procs, s.now + entry.planned)
    note(s, LOG_START, job)
    if entry.run <= 0.0:
        instant_of(s)[s.instant_end] = job
        s.instant_end += 1
    else:
        push_end(s, s.now + entry.run, s.sequence if rules.event_order == PYSS else np.int64(job), job)


@inlined
def push_end(s: Record, time: float, tie: np.int64, job: int) -> None:
    """Push a job's actual end onto the heap of ends."""
    s.ending = push(endings_of(s), s.ending, time, tie, job)


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
