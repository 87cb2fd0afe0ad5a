# SPDX-License-Identifier: Apache-2.0
"""One scheduling pass: start heads while they fit, then backfill around the reservation of the first that does not."""

from __future__ import annotations

import numpy as np

from ..compiled import inner
from ..compiled.arrays import Record
from .heap import pop
from .index import next_by_arrival, next_by_key, push_root, watch_length
from .queue import any_fits, collect, head_place, length, next_candidate, rekey, take_risk
from .running import reserve, reserve_by_request, start_job
from .shadow import follow_shadow
from .state import EASY, asides_of, choices_of, jobs_of, slots_of

FEW = 6  # searches for one candidate each, before all others are collected in one


@inner
def easy_pass(s: Record, rules: Record) -> None:
    """One pass at `now`.

    Where only one job came since a pass that left the queue blocked, that job alone can start: time only shrinks what
    fits.
    """
    jobs = jobs_of(s)
    slots = slots_of(s)
    if s.waiting == 0 and rules.due_after == np.inf:
        s.dirty = 0
        s.arrived = 0
        return
    one_came = (
        s.dirty == 0 and s.arrived == 1 and s.waiting > 1 and rules.head_order == 0 and rules.head_after == np.inf
    )
    if rules.due_after < np.inf:
        follow_shadow(s, rules)
        one_came = False
    s.dirty = 0
    s.arrived = 0
    if s.waiting == 0:
        return
    if one_came:
        if rules.backfill == EASY and slots[s.newest].procs <= s.free:
            try_newest(s, rules)
        return
    s.reserved = 0
    watch_length(s, rules)
    if rules.head_varying:
        if not any_fits(s):
            return
        rekey(s, rules)
    head = head_place(s, rules)
    while slots[head].procs <= s.free:
        start_job(s, rules, head, 0)
        if s.waiting == 0:
            return
        head = head_place(s, rules)
    if rules.backfill == EASY and s.free > 0 and s.waiting > 1 and (s.indexed or any_fits(s)):
        by_request = rules.head_after < np.inf and s.now - jobs[slots[head].job].submit > rules.head_after
        by_request = by_request or (s.now > s.least_due and s.now > asides_of(s)[slots[head].job].due)
        if by_request:
            reserve_by_request(s, rules, slots[head].job, slots[head].procs)
        else:
            reserve(s, slots[head].procs)
        if s.indexed and not by_request and not rules.candidate_varying:
            backfill_indexed(s, rules, head)
        else:
            backfill_few(s, rules, head, by_request)


@inner
def backfill_few(s: Record, rules: Record, head: int, by_request: bool) -> None:
    """Start what may pass the head: the first few by one search of the blocks each, then all others in one."""
    keyed = rules.candidate_order != 0
    searches = 1
    place = next_candidate(s, rules, head, by_request, s.head)
    while place >= 0 and (searches < FEW or not keyed):
        pass_head(s, rules, head, place, by_request)
        searches += 1
        place = next_candidate(s, rules, head, by_request, s.head if keyed else place + 1)
    if place >= 0:
        backfill_many(s, rules, head, by_request)


@inner
def backfill_indexed(s: Record, rules: Record, head: int) -> None:
    """The same for a long queue, by its index: in order of arrival, or by key from one search that goes on."""
    place = s.head
    count = push_root(s)
    while s.free > 0 and s.waiting > 1:
        if rules.candidate_order == 0:
            place = next_by_arrival(s, rules, head, place)
        else:
            count, place = next_by_key(s, rules, count, head)
        if place < 0:
            return
        pass_head(s, rules, head, place, False)


@inner
def backfill_many(s: Record, rules: Record, head: int, by_request: bool) -> None:
    """Start what may pass the head, the smallest key first, from one more search of the queue.

    What a backfilled job takes, no later one gets back: a job that no longer fits is passed over for good.
    """
    slots = slots_of(s)
    choices = choices_of(s)
    count = collect(s, rules, head, by_request)
    while count > 0 and s.free > 0:
        place = choices[0].tie
        count = pop(choices, count)
        if slots[place].procs <= s.free:
            pass_head(s, rules, head, place, by_request)


@inner
def try_newest(s: Record, rules: Record) -> None:
    """Backfill the job that has just come, if the head's reservation allows."""
    slots = slots_of(s)
    if not s.reserved:
        reserve(s, slots[s.head].procs)
    pass_head(s, rules, s.head, s.newest, False)


@inner
def pass_head(s: Record, rules: Record, head: int, place: int, by_request: bool) -> None:
    """Start a candidate that fits now if it ends by the shadow time, or else uses up extra processors or the budget."""
    slots = slots_of(s)
    if s.now + length(s, slots[place], by_request) > s.shadow_time:
        if slots[place].procs <= s.extra_procs:
            s.extra_procs -= slots[place].procs
        elif not (by_request and take_risk(s, rules, head, place)):
            return
    start_job(s, rules, place, 1)
