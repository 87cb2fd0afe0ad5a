"""The waiting queue as slots in arrival order with minima per block of 16: a pass skips what cannot fit.

A queue of 1,000 jobs is 63 blocks, so a pass that finds nothing reads 63 entries. A longer one has an index (`index`).
"""

from __future__ import annotations

import numpy as np

from .compiled import inlined
from .heap import push
from .index import build, enter, head_by_key, leave
from .orders import candidate_key, head_key
from .state import BLOCK, GONE


@inlined
def enqueue(r, jobs, slots, blocks, index, job):
    """Append a job; O(1), now and then O(waiting) to close the gaps left by jobs that started."""
    if r.tail - r.head > 2 * r.waiting + 2 * BLOCK or r.tail >= slots.size:
        compact(r, jobs, slots, blocks, index)
    put(r, jobs, slots, blocks, r.tail, job)
    r.newest = r.tail
    r.tail += 1
    r.waiting += 1
    if r.indexed:
        enter(r, slots, index, r.newest)


@inlined
def put(r, jobs, slots, blocks, place, job):
    """Fill a slot and lower its block's minima."""
    it, slot, block = jobs[job], slots[place], blocks[place // BLOCK]
    if place % BLOCK == 0:
        block.procs = GONE
        block.planned = np.inf
        block.head_key = np.inf
    slot.job = job
    slot.procs = it.procs
    slot.planned = it.planned
    block.procs = min(block.procs, np.int64(it.procs))
    block.planned = min(block.planned, it.planned)
    if r.head_order != 0:
        slot.head_key = head_key(r, it)
        block.head_key = min(block.head_key, slot.head_key)
    if r.candidate_order != 0:
        slot.candidate_key = candidate_key(r, it)


@inlined
def compact(r, jobs, slots, blocks, index):
    """Move the live slots to the front, arrival order kept."""
    kept = 0
    for place in range(r.head, r.tail):
        if slots[place].procs != GONE:
            put(r, jobs, slots, blocks, kept, slots[place].job)
            kept += 1
    r.head = 0
    r.tail = kept
    if r.indexed:
        build(r, slots, index)


@inlined
def dequeue(r, slots, blocks, index, place):
    """Empty a slot and recompute its block's minima where it held one; O(BLOCK)."""
    slot, block = slots[place], blocks[place // BLOCK]
    least = slot.procs <= block.procs or slot.planned <= block.planned
    least = least or r.head_order != 0
    procs = np.int64(slot.procs)
    slot.procs = GONE
    slot.planned = np.inf
    slot.head_key = np.inf
    r.waiting -= 1
    if r.waiting == 0:
        r.head = 0
        r.tail = 0
        return
    while slots[r.head].procs == GONE:
        r.head += 1
    if least:
        remeasure(r, slots, blocks, place // BLOCK)
    if r.indexed:
        leave(r, slots, index, place, procs)


@inlined
def remeasure(r, slots, blocks, number):
    """Recompute the minima of one block."""
    procs, planned, least_key = GONE, np.inf, np.inf
    for place in range(max(number * BLOCK, r.head), min(number * BLOCK + BLOCK, r.tail)):
        slot = slots[place]
        procs = min(procs, np.int64(slot.procs))
        planned = min(planned, slot.planned)
        if r.head_order != 0:
            least_key = min(least_key, slot.head_key)
    block = blocks[number]
    block.procs = procs
    block.planned = planned
    block.head_key = least_key


@inlined
def rekey(r, jobs, slots, blocks):
    """Compute all keys of the head order anew, where they change with time; O(waiting), once a pass."""
    for number in range(r.head // BLOCK, (r.tail - 1) // BLOCK + 1):
        least_key = np.inf
        for place in range(max(number * BLOCK, r.head), min(number * BLOCK + BLOCK, r.tail)):
            slot = slots[place]
            if slot.procs != GONE:
                slot.head_key = head_key(r, jobs[slot.job])
                least_key = min(least_key, slot.head_key)
        blocks[number].head_key = least_key
    r.looked_at += r.tail - r.head


@inlined
def head_place(r, slots, blocks, index):
    """The slot of the head job: the earliest arrival, or the smallest key; the queue must not be empty.

    O(blocks); of an indexed queue O(log queue).
    """
    if r.head_order == 0:
        return r.head
    if r.indexed and not r.head_varying:
        return head_by_key(r, slots, index)
    best, least_key = -1, np.inf
    for number in range(r.head // BLOCK, (r.tail - 1) // BLOCK + 1):
        if blocks[number].head_key < least_key:
            best, least_key = number, blocks[number].head_key
    r.looked_at += (r.tail - r.head) // BLOCK + BLOCK
    if best < 0:
        return r.head
    for place in range(max(best * BLOCK, r.head), min(best * BLOCK + BLOCK, r.tail)):
        if slots[place].head_key == least_key:
            return place
    return r.head


@inlined
def any_fits(r, blocks):
    """Whether any queued job asks for no more than the free processors; O(blocks)."""
    for number in range(r.head // BLOCK, (r.tail - 1) // BLOCK + 1):
        if blocks[number].procs <= r.free:
            return True
    return False


@inlined
def next_candidate(r, jobs, slots, blocks, head, by_request, start):
    """The first job from slot `start` on, other than the head, that may be backfilled now, in candidate order; else -1.

    It may when it asks for no more than the free processors and either ends by the plan at the shadow time or before,
    or asks for no more than the extra processors. Ties of the key go to the earlier arrival. With `by_request` a job's
    length is its request, which the blocks do not know: they filter by width alone.
    """
    now, free, shadow_time, extra_procs = r.now, r.free, r.shadow_time, r.extra_procs
    best, best_key = -1, np.inf
    keyed = r.candidate_order != 0
    looked_at = 0
    for number in range(start // BLOCK, (r.tail - 1) // BLOCK + 1):
        block = blocks[number]
        looked_at += 1
        if block.procs > free or (block.procs > extra_procs and not by_request and now + block.planned > shadow_time):
            continue
        for place in range(max(number * BLOCK, start), min(number * BLOCK + BLOCK, r.tail)):
            slot = slots[place]
            looked_at += 1
            if slot.procs > free or place == head:
                continue
            if slot.procs > extra_procs and now + length(jobs, slot, by_request) > shadow_time:
                continue
            if not keyed:
                r.looked_at += looked_at
                return place
            if r.candidate_varying:
                slot.candidate_key = candidate_key(r, jobs[slot.job])
            if best < 0 or slot.candidate_key < best_key:
                best, best_key = place, slot.candidate_key
    r.looked_at += looked_at
    return best


@inlined
def length(jobs, slot, by_request):
    """For how long a waiting job is taken to run: as planned, or as requested."""
    if by_request:
        return jobs[slot.job].request
    return slot.planned


@inlined
def collect(r, jobs, slots, blocks, choices, head, by_request):
    """All jobs that may be backfilled now, as a heap by key and arrival; returns how many. One look at the queue."""
    count = looked_at = 0
    for number in range(r.head // BLOCK, (r.tail - 1) // BLOCK + 1):
        looked_at += 1
        if blocks[number].procs > r.free:
            continue
        looked_at += BLOCK
        for place in range(max(number * BLOCK, r.head), min(number * BLOCK + BLOCK, r.tail)):
            slot = slots[place]
            if slot.procs > r.free or place == head:
                continue
            if slot.procs > r.extra_procs and r.now + length(jobs, slot, by_request) > r.shadow_time:
                continue
            count = push(choices, count, slot.candidate_key, place, place)
    r.looked_at += looked_at
    return count
