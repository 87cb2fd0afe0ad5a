"""The waiting queue as slots in arrival order with minima per block of 64: a pass skips what cannot fit.

A queue of 100,000 jobs is 1,600 blocks, so a pass that finds nothing reads 1,600 entries, not 100,000 jobs.
"""

from __future__ import annotations

import numpy as np

from .compiled import kernel
from .orders import order_key
from .state import BLOCK, GONE


@kernel
def enqueue(r, jobs, slots, blocks, job):
    """Append a job; O(1), now and then O(waiting) to close the gaps left by jobs that started."""
    if r.tail - r.head > 3 * r.waiting + 2 * BLOCK or r.tail >= slots.size:
        compact(r, jobs, slots, blocks)
    put(r, jobs, slots, blocks, r.tail, job)
    r.newest = r.tail
    r.tail += 1
    r.waiting += 1


@kernel
def put(r, jobs, slots, blocks, place, job):
    """Fill a slot and lower its block's minima."""
    it, slot, block = jobs[job], slots[place], blocks[place // BLOCK]
    if place % BLOCK == 0:
        block.procs = GONE
        block.planned = np.inf
        block.head_key = np.inf
        block.candidate_key = np.inf
    slot.job = job
    slot.procs = it.procs
    slot.planned = it.planned
    block.procs = min(block.procs, np.int64(it.procs))
    block.planned = min(block.planned, it.planned)
    if r.head_order != 0:
        slot.head_key = order_key(r.head_order, r.now, it.submit, it.procs, it.planned, r.now - it.submit)
        block.head_key = min(block.head_key, slot.head_key)
    if r.candidate_order != 0:
        slot.candidate_key = order_key(r.candidate_order, r.now, it.submit, it.procs, it.planned, r.now - it.submit)
        block.candidate_key = min(block.candidate_key, slot.candidate_key)


@kernel
def compact(r, jobs, slots, blocks):
    """Move the live slots to the front, arrival order kept."""
    kept = 0
    for place in range(r.head, r.tail):
        if slots[place].procs != GONE:
            put(r, jobs, slots, blocks, kept, slots[place].job)
            kept += 1
    r.head = 0
    r.tail = kept


@kernel
def dequeue(r, slots, blocks, place):
    """Empty a slot and recompute its block's minima where it held one; O(BLOCK)."""
    slot, block = slots[place], blocks[place // BLOCK]
    least = slot.procs <= block.procs or slot.planned <= block.planned
    least = least or r.head_order != 0 or r.candidate_order != 0
    slot.procs = GONE
    slot.planned = np.inf
    slot.head_key = np.inf
    slot.candidate_key = np.inf
    r.waiting -= 1
    if r.waiting == 0:
        r.head = 0
        r.tail = 0
        return
    while slots[r.head].procs == GONE:
        r.head += 1
    if least:
        remeasure(r, slots, blocks, place // BLOCK)


@kernel
def remeasure(r, slots, blocks, number):
    """Recompute the minima of one block."""
    procs, planned, head_key, candidate_key = GONE, np.inf, np.inf, np.inf
    for place in range(max(number * BLOCK, r.head), min(number * BLOCK + BLOCK, r.tail)):
        slot = slots[place]
        procs = min(procs, np.int64(slot.procs))
        planned = min(planned, slot.planned)
        if r.head_order != 0:
            head_key = min(head_key, slot.head_key)
        if r.candidate_order != 0:
            candidate_key = min(candidate_key, slot.candidate_key)
    block = blocks[number]
    block.procs = procs
    block.planned = planned
    block.head_key = head_key
    block.candidate_key = candidate_key


@kernel
def head_place(r, slots, blocks):
    """The slot of the head job: the earliest arrival, or the smallest key; the queue must not be empty."""
    if r.head_order == 0:
        return r.head
    best, best_key = r.head, np.inf
    for number in range(r.head // BLOCK, (r.tail - 1) // BLOCK + 1):
        if blocks[number].head_key < best_key:
            for place in range(number * BLOCK, min(number * BLOCK + BLOCK, r.tail)):
                if slots[place].head_key < best_key:
                    best, best_key = place, slots[place].head_key
    return best


@kernel
def any_fits(r, blocks):
    """Whether any queued job asks for no more than the free processors; O(blocks)."""
    for number in range(r.head // BLOCK, (r.tail - 1) // BLOCK + 1):
        if blocks[number].procs <= r.free:
            return True
    return False


@kernel
def next_candidate(r, slots, blocks, head):
    """The first queued job other than the head that may be backfilled now, in candidate order; -1 when there is none.

    It may when it asks for no more than the free processors and either ends by the plan at the shadow time or before,
    or asks for no more than the extra processors. Ties of the key go to the earlier arrival.
    """
    now, free, shadow_time, extra_procs = r.now, r.free, r.shadow_time, r.extra_procs
    best, best_key = -1, np.inf
    keyed = r.candidate_order != 0
    for number in range(r.head // BLOCK, (r.tail - 1) // BLOCK + 1):
        block = blocks[number]
        if block.procs > free or (block.procs > extra_procs and now + block.planned > shadow_time):
            continue
        if keyed and block.candidate_key >= best_key:
            continue
        for place in range(max(number * BLOCK, r.head), min(number * BLOCK + BLOCK, r.tail)):
            slot = slots[place]
            if slot.procs > free or place == head:
                continue
            if slot.procs > extra_procs and now + slot.planned > shadow_time:
                continue
            if not keyed:
                return place
            if slot.candidate_key < best_key:
                best, best_key = place, slot.candidate_key
    return best
