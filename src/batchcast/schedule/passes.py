"""One scheduling pass: start heads while they fit, then backfill around the reservation of the first that does not."""

from __future__ import annotations

import numpy as np

from .compiled import inlined, kernel
from .heap import pop
from .index import next_by_arrival, next_by_key, push_root, watch_length
from .queue import any_fits, collect, head_place, length, next_candidate, rekey
from .running import reserve, reserve_by_request
from .start import start_job
from .state import EASY

FEW = 6  # looks at the queue for one candidate each, before all are collected at one look


@kernel
def schedule(r, jobs, slots, blocks, index, plan, endings, instant, choices, log):
    """One pass at `now`. Nothing is looked at twice: where only one job came since a pass that left the queue blocked,
    that job alone can start, for time only shrinks what fits."""
    one_came = r.dirty == 0 and r.arrived == 1 and r.waiting > 1 and r.head_order == 0 and r.head_after == np.inf
    r.dirty = 0
    r.arrived = 0
    if r.waiting == 0:
        return
    if one_came:
        if r.backfill == EASY and slots[r.newest].procs <= r.free:
            try_newest(r, jobs, slots, blocks, index, plan, endings, instant, log)
        return
    r.reserved = 0
    watch_length(r, slots, index)
    if r.head_varying:
        rekey(r, jobs, slots, blocks)
    head = head_place(r, slots, blocks, index)
    while slots[head].procs <= r.free:
        start_job(r, jobs, slots, blocks, index, plan, endings, instant, log, head, 0)
        if r.waiting == 0:
            return
        head = head_place(r, slots, blocks, index)
    if r.backfill == EASY and r.free > 0 and r.waiting > 1 and (r.indexed or any_fits(r, blocks)):
        by_request = r.head_after < np.inf and r.now - jobs[slots[head].job].submit > r.head_after
        if by_request:
            reserve_by_request(r, jobs, plan, choices, slots[head].procs)
        else:
            reserve(r, plan, slots[head].procs)
        if r.indexed and not by_request and not r.candidate_varying:
            backfill_indexed(r, jobs, slots, blocks, index, plan, endings, instant, choices, log, head)
        else:
            backfill_few(r, jobs, slots, blocks, index, plan, endings, instant, choices, log, head, by_request)


@inlined
def backfill_few(r, jobs, slots, blocks, index, plan, endings, instant, choices, log, head, by_request):
    """Start what may pass the head: the first few by one look at the blocks each, then all others at one look."""
    keyed = r.candidate_order != 0
    looks = 1
    place = next_candidate(r, jobs, slots, blocks, head, by_request, r.head)
    while place >= 0 and (looks < FEW or not keyed):
        pass_head(r, jobs, slots, blocks, index, plan, endings, instant, log, place, by_request)
        looks += 1
        place = next_candidate(r, jobs, slots, blocks, head, by_request, r.head if keyed else place + 1)
    if place >= 0:
        backfill_many(r, jobs, slots, blocks, index, plan, endings, instant, choices, log, head, by_request)


@kernel
def backfill_indexed(r, jobs, slots, blocks, index, plan, endings, instant, choices, log, head):
    """The same for a long queue, by its index: in order of arrival, or by key from one search that goes on."""
    place = r.head
    count = push_root(r, index, choices)
    while r.free > 0 and r.waiting > 1:
        if r.candidate_order == 0:
            place = next_by_arrival(r, slots, index, head, place)
        else:
            count, place = next_by_key(r, slots, index, choices, count, head)
        if place < 0:
            return
        pass_head(r, jobs, slots, blocks, index, plan, endings, instant, log, place, False)


@kernel
def backfill_many(r, jobs, slots, blocks, index, plan, endings, instant, choices, log, head, by_request):
    """Start what may pass the head, the smallest key first, from one more look at the queue.

    What a backfilled job takes, no later one gets back: a job that no longer fits is passed over for good.
    """
    count = collect(r, jobs, slots, blocks, choices, head, by_request)
    while count > 0 and r.free > 0:
        place = choices[0].tie
        count = pop(choices, count)
        if slots[place].procs <= r.free:
            pass_head(r, jobs, slots, blocks, index, plan, endings, instant, log, place, by_request)


@inlined
def try_newest(r, jobs, slots, blocks, index, plan, endings, instant, log):
    """Backfill the job that has just come, if the head's reservation allows."""
    if not r.reserved:
        reserve(r, plan, slots[r.head].procs)
    pass_head(r, jobs, slots, blocks, index, plan, endings, instant, log, r.newest, False)


@inlined
def pass_head(r, jobs, slots, blocks, index, plan, endings, instant, log, place, by_request):
    """Start a candidate that fits now if it ends by the shadow time, or else uses up extra processors only."""
    if r.now + length(jobs, slots[place], by_request) > r.shadow_time:
        if slots[place].procs > r.extra_procs:
            return
        r.extra_procs -= slots[place].procs
    start_job(r, jobs, slots, blocks, index, plan, endings, instant, log, place, 1)
