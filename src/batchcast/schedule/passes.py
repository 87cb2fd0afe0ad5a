# SPDX-License-Identifier: Apache-2.0
"""The scheduling passes: EASY, with the head of the queue, its reservation and backfilling with its risk budget; a
shadow run of EASY for the policy setting `due_after`; and conservative backfilling.

The shadow run schedules the same submissions by EASY with requested times, to learn when plain EASY would have started
each job. The shadow run receives a job's run time only after the job ended in the real schedule. Before this end, the
job runs in the shadow run to its requested time or, with `due_ends`, to its predicted run time unless it has run
longer.

With conservative backfilling (Mu'alem & Feitelson, TPDS 2001), every job gets a reservation at its submission; a
profile stores the free processors over time.
"""

from __future__ import annotations

import numpy as np

from ..compiled import inlined, inner, kernel
from ..compiled.arrays import Record
from . import state as pool
from .index import LEVEL, head_by_key, next_by_arrival, next_by_key, top_level, watch_length
from .orders import aged_key, candidate_key, ordering
from .queue import insert_by_end, start_job
from .state import BLOCK, asides_of, blocks_of, choices_of, jobs_of, plan_of, shadow_running_of, slots_of


@inner
def one_pass(s: Record, rules: Record) -> None:
    """Make one scheduling pass, by EASY or conservative backfilling."""
    if rules.backfill == pool.CONSERVATIVE:
        conservative_pass(s, rules)
    else:
        easy_pass(s, rules)


FEW = 6  # number of searches of the queue in one pass; the last search collects all candidates in a heap


@inner
def easy_pass(s: Record, rules: Record) -> None:
    """Make one EASY pass at `now`.

    If the only change since a pass that left the queue blocked is one arrival, only this job can start, because as time
    passes fewer jobs fit before the reservation.
    """
    slots = slots_of(s)
    one_came = s.dirty == 0 and s.arrived == 1 and s.waiting > 1 and rules.head_order == 0
    one_came = one_came and rules.head_after == np.inf and rules.due_after == np.inf
    if rules.due_after < np.inf:
        follow_shadow(s, rules)
    s.dirty = 0
    s.arrived = 0
    if s.waiting == 0:
        return
    if one_came:
        if rules.backfill == pool.EASY and slots[s.newest].procs <= s.free:
            if not s.reserved:
                reserve(s, slots[s.head].procs)
            pass_head(s, rules, s.head, s.newest, False)
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
    if rules.backfill == pool.EASY and s.free > 0 and s.waiting > 1 and (s.indexed or any_fits(s)):
        by_request = rules.head_after < np.inf and s.now - jobs_of(s)[slots[head].job].submit > rules.head_after
        by_request = by_request or (s.now > s.least_due and s.now > asides_of(s)[slots[head].job].due)
        if by_request:
            reserve_by_request(s, rules, slots[head].job, slots[head].procs)
        else:
            reserve(s, slots[head].procs)
        if s.indexed and not by_request and not rules.candidate_varying:
            backfill_indexed(s, rules, head)
        else:
            backfill(s, rules, head, by_request)


@inner
def backfill_indexed(s: Record, rules: Record, head: int) -> None:
    """Backfill a long queue by its index: in order of arrival, or by key from one continued search."""
    position = s.head
    count = pool.push(choices_of(s), 0, 0.0, 0, top_level(s) * LEVEL)  # a search by key begins at the topmost node
    while s.free > 0 and s.waiting > 1:
        if rules.candidate_order == 0:
            position = next_by_arrival(s, rules, head, position)
        else:
            count, position = next_by_key(s, rules, count, head)
        if position < 0:
            return
        pass_head(s, rules, head, position, False)


@inner
def backfill(s: Record, rules: Record, head: int, by_request: bool) -> None:
    """Backfill a short queue in order of arrival, or with the smallest key first.

    If the policy orders the backfill candidates, each of the first few jobs is found by a search of the queue, and all
    other jobs by one more search. The numbers of free and extra processors only fall during a pass, so a job that does
    not fit any more never fits later in the pass.
    """
    slots, choices = slots_of(s), choices_of(s)
    keyed, searches = rules.candidate_order != 0, 1
    count = collect(s, rules, head, by_request, s.head, True)
    while count > 0 and s.free > 0:
        position = choices[0].tie
        if slots[position].procs <= s.free:
            pass_head(s, rules, head, position, by_request)
        if keyed and searches >= FEW:
            count = pool.pop(choices, count)
        else:
            searches += 1
            count = collect(s, rules, head, by_request, s.head if keyed else position + 1, not keyed or searches < FEW)


@inner
def pass_head(s: Record, rules: Record, head: int, position: int, by_request: bool) -> None:
    """Start a candidate if it ends by the shadow time, or else fits into the extra processors or the risk budget."""
    slots = slots_of(s)
    if s.now + length(s, slots[position], by_request) > s.shadow_time:
        if slots[position].procs <= s.extra_procs:
            s.extra_procs -= slots[position].procs
        elif not (by_request and take_risk(s, rules, head, position)):
            return
    start_job(s, rules, position, 1)


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
    for position in range(max(best * BLOCK, first), min(best * BLOCK + BLOCK, s.tail)):
        if slots[position].head_key == least_key:
            return position
    return first


@inner
def first_due(s: Record) -> int:
    """Return the slot of the earliest arrival that is due by `due_after`, or -1, and set `least_due`. O(queue)."""
    asides, slots = asides_of(s), slots_of(s)
    least, found = np.inf, -1
    for position in range(s.head, s.tail):
        if slots[position].procs != pool.GONE:
            due = asides[slots[position].job].due
            least = min(least, due)
            if found < 0 and s.now > due:
                found = position
    s.least_due = least
    s.looked_at += s.tail - s.head
    return found


@inner
def rekey(s: Record, rules: Record) -> None:
    """Recompute the queue-order key of every waiting job if these keys change with time. The call takes O(waiting jobs)
    time, once per scheduling pass."""
    jobs, slots, blocks = jobs_of(s), slots_of(s), blocks_of(s)
    by = ordering(s, rules)  # read once: the compiler cannot know that writing a key does not change the settings
    first, end, on_request = s.head, s.tail, rules.head_on
    for number in range(first // BLOCK, (end - 1) // BLOCK + 1):
        least_key = np.inf
        for position in range(max(number * BLOCK, first), min(number * BLOCK + BLOCK, end)):
            slot = slots[position]
            if slot.procs != pool.GONE:
                entry = jobs[slot.job]
                key = aged_key(by, entry, entry.request if on_request else entry.planned)
                slot.head_key = key
                least_key = min(least_key, key)
        blocks[number].head_key = least_key
    s.looked_at += end - first


@inlined
def any_fits(s: Record) -> bool:
    """Return whether any queued job needs at most the free processors. O(blocks)."""
    blocks = blocks_of(s)
    for number in range(s.head // BLOCK, (s.tail - 1) // BLOCK + 1):
        if blocks[number].procs <= s.free:
            return True
    return False


@inlined
def length(s: Record, slot: Record, by_request: bool) -> float:
    """Return the length that the pass assumes for a waiting job: its planned or its requested time."""
    seconds: float = jobs_of(s)[slot.job].request if by_request else slot.planned
    return seconds


@inner
def collect(s: Record, rules: Record, head: int, by_request: bool, start: int, only_first: bool) -> int:
    """Collect the jobs from slot `start` on that may be backfilled now, as a heap by key and arrival; return their
    number. With `only_first`, only the first of these jobs in candidate order is collected.

    A job may be backfilled if it needs at most the free processors, and either ends by the shadow time or needs at most
    the extra processors, or if the risk budget allows it. With `by_request`, the length of a job is its requested time;
    the blocks do not store requested times, so blocks are then skipped by width alone.
    """
    jobs, slots, blocks, choices = jobs_of(s), slots_of(s), blocks_of(s), choices_of(s)
    now, free, shadow_time, extra_procs = s.now, s.free, s.shadow_time, s.extra_procs
    risky = by_request and rules.risk_budget > 0.0
    count = looked_at = 0
    for number in range(start // BLOCK, (s.tail - 1) // BLOCK + 1):
        block = blocks[number]
        looked_at += 1
        if block.procs > free or (block.procs > extra_procs and not by_request and now + block.planned > shadow_time):
            continue
        for position in range(max(number * BLOCK, start), min(number * BLOCK + BLOCK, s.tail)):
            slot = slots[position]
            looked_at += 1
            if slot.procs > free or position == head:
                continue
            fits = slot.procs <= extra_procs or now + length(s, slot, by_request) <= shadow_time
            if not (fits or risky):  # `pass_head` checks the risk budget
                continue
            if rules.candidate_varying:
                slot.candidate_key = candidate_key(s, rules, jobs[slot.job])
            if not only_first or count == 0 or slot.candidate_key < choices[0].key:
                count = pool.push(choices, 0 if only_first else count, slot.candidate_key, position, position)
            if rules.candidate_order == 0:
                s.looked_at += looked_at
                return count
    s.looked_at += looked_at
    return count


@inlined
def reserve(s: Record, procs: int) -> None:
    """Compute when a head job of `procs` processors can start if running jobs end as planned, and how many processors
    are then left over.

    Mu'alem & Feitelson (TPDS 2001): go through the running jobs by planned end until enough processors are free; all
    jobs that end at this instant count. O(running).
    """
    s.shadow_time, s.extra_procs = reservation(plan_of(s), s.running, s.free, procs, s.now)
    s.reserved = 1


@inlined
def reservation(plan: Record, running: int, free: int, procs: int, now: float) -> tuple[float, int]:
    """Return when `procs` processors are free if the running jobs end in the order of `plan`, and how many processors
    are then left over."""
    position, until = 0, now
    while position < running and (free < procs or plan[position].end == until):
        until = plan[position].end
        free += plan[position].procs
        position += 1
    return until, free - procs


@inner
def reserve_by_request(s: Record, rules: Record, head: int, procs: int) -> None:
    """Compute the reservation as `reserve` does, but let each running job end at start + request. O(running).

    A job that was backfilled at the risk of delaying the job `head` counts as ending at the start that was reserved at
    that time, if this start is in the future. The risk budget was charged for that reserved start; a later reservation
    would let other jobs be backfilled without a charge.
    """
    jobs, asides, plan, choices = jobs_of(s), asides_of(s), plan_of(s), choices_of(s)
    count = 0
    for position in range(s.running):
        entry = jobs[plan[position].job]
        end = entry.start + entry.request
        if rules.risk_budget > 0.0:
            aside = asides[plan[position].job]
            if aside.passed == head and aside.until > s.now:
                end = min(end, aside.until)
        count = pool.push(choices, count, end, position, entry.procs)
    free = s.free
    s.shadow_time = s.now
    while count > 0 and (free < procs or choices[0].key == s.shadow_time):
        free += choices[0].item
        s.shadow_time = choices[0].key
        count = pool.pop(choices, count)
    s.extra_procs = free - procs
    s.reserved = 1


@inlined
def chance_beyond(s: Record, job: int, seconds: float) -> float:
    """Return the probability that a waiting job runs longer than `seconds`, from its predicted quantiles; infinity if
    unknown."""
    if jobs_of(s)[job].request <= seconds:
        return 0.0
    quantiles = pool.tails_of(s)[job]
    chance = np.inf
    for k in range(len(pool.TAIL)):
        if quantiles[k] <= seconds:
            chance = 1.0 - pool.TAIL[k]
    return chance


@inlined
def take_risk(s: Record, rules: Record, head: int, position: int) -> bool:
    """If the reserved job's risk budget allows it, charge the budget with the risk of a delay by the job in slot
    `position`."""
    if not rules.risk_budget > 0.0:
        return False
    slots = slots_of(s)
    reserved, passing = asides_of(s)[slots[head].job], asides_of(s)[slots[position].job]
    chance = chance_beyond(s, slots[position].job, s.shadow_time - s.now)
    if not reserved.spent + chance <= rules.risk_budget:
        return False
    reserved.spent += chance
    passing.passed = slots[head].job
    passing.until = s.shadow_time
    return True


@inner
def follow_shadow(s: Record, rules: Record) -> None:
    """Advance the shadow run to `now`: one pass per instant with ends, then the new submissions. O(queue) per pass."""
    jobs, queue = jobs_of(s), pool.shadow_queue_of(s)
    end = next_shadow_end(s)
    while end < s.now:
        shadow_pass(s, rules, end)
        end = next_shadow_end(s)
    while s.shadow_submit < s.next_submit and jobs[s.shadow_submit].submit <= s.now:
        queue[s.shadow_waiting] = s.shadow_submit
        s.shadow_waiting += 1
        s.shadow_submit += 1
    while True:
        shadow_pass(s, rules, s.now)
        if next_shadow_end(s) > s.now:  # a job that is known to have zero length ends when it starts
            return


@inlined
def next_shadow_end(s: Record) -> float:
    """Return when the next job of the shadow run ends, or infinity. O(running)."""
    running = shadow_running_of(s)
    least: float = np.inf
    for position in range(s.shadow_count):
        least = min(least, running[position].known_end)
    return least


@inlined
def end_shadows(s: Record, rules: Record, time: float) -> None:
    """Remove jobs that have ended from the shadow run; jobs that only exceeded their prediction continue.
    O(running)."""
    running = shadow_running_of(s)
    kept = 0
    for position in range(s.shadow_count):
        if rules.due_ends == pool.PLANNED and running[position].known_end <= time:
            running[position].known_end = running[position].start + shadow_length(s, rules, running[position].job)
        if running[position].known_end <= time:
            s.shadow_free += running[position].procs
        else:
            running[kept] = running[position]
            kept += 1
    s.shadow_count = kept


@inner
def shadow_pass(s: Record, rules: Record, time: float) -> None:
    """Remove ended jobs from the shadow run, then make one EASY pass in order of arrival with requested times (Lifka
    1995), like `easy_pass`. O(queue)."""
    jobs, queue = jobs_of(s), pool.shadow_queue_of(s)
    end_shadows(s, rules, time)
    kept, until, extra = 0, time, 0
    for position in range(s.shadow_waiting):
        job = queue[position]
        procs = int(jobs[job].procs)
        in_time = kept == 0 or time + jobs[job].request <= until  # before the head, no reservation can be delayed
        if procs <= s.shadow_free and (in_time or procs <= extra):
            start_shadow(s, rules, job, time)
            if not in_time:
                extra -= procs
            continue
        if kept == 0:
            until, extra = reservation(shadow_running_of(s), s.shadow_count, s.shadow_free, procs, time)
        queue[kept] = job
        kept += 1
    s.shadow_waiting = kept


@inner
def start_shadow(s: Record, rules: Record, job: int, time: float) -> None:
    """Start a job in the shadow run, and set when it is due; running jobs are sorted by requested end. O(running)."""
    running = shadow_running_of(s)
    entry, aside = jobs_of(s)[job], asides_of(s)[job]
    mine = running[insert_by_end(running, s.shadow_count, job, entry.procs, time + entry.request)]
    mine.start = time
    mine.known_end = time + shadow_length(s, rules, job)
    s.shadow_count += 1
    s.shadow_free -= entry.procs
    aside.due = time + rules.due_after
    if not entry.start <= s.now:
        s.least_due = min(s.least_due, aside.due)


@inlined
def shadow_length(s: Record, rules: Record, job: int) -> float:
    """Return how long a job runs in the shadow run, from what the scheduler can know now."""
    entry = jobs_of(s)[job]
    seconds: float = entry.request
    if asides_of(s)[job].over:
        seconds = entry.run
    elif rules.due_ends == pool.PLANNED and not entry.start + entry.first <= s.now:
        seconds = entry.first
    return seconds


@inner
def note_end(s: Record, job: int) -> None:
    """Give the shadow run the run time of a job that ended in the real schedule. O(running)."""
    running = shadow_running_of(s)
    entry = jobs_of(s)[job]
    asides_of(s)[job].over = 1
    for position in range(s.shadow_count):
        if running[position].job == job:
            end = running[position].start + entry.run
            running[position].known_end = end if end > s.now else min(running[position].known_end, s.now)


@kernel
def forget_past(s: Record) -> None:
    """Set `first_step` to the step that contains now; from time to time, move the remaining steps to the front."""
    profile = pool.profile_of(s)
    first = s.first_step
    while first + 1 < s.steps and profile[first + 1].time <= s.now:
        first += 1
    if first > 64 and 2 * first > s.steps:
        for position in range(first, s.steps):
            profile[position - first] = profile[position]
        s.steps -= first
        first = 0
    s.first_step = first


@inner
def step_at(s: Record, time: float) -> int:
    """Return the index of the step that begins at `time`; insert it if needed. O(log steps), plus a shift to insert."""
    profile = pool.profile_of(s)
    low: int = s.first_step
    high: int = s.steps
    while low < high:
        middle = (low + high) // 2
        if profile[middle].time < time:
            low = middle + 1
        else:
            high = middle
    if low < s.steps and profile[low].time == time:
        return low
    position = s.steps
    while position > low:
        profile[position] = profile[position - 1]
        position -= 1
    profile[low].time = time
    profile[low].free = profile[low - 1].free
    s.steps += 1
    return low


@inner
def drop_step(s: Record, position: int) -> None:
    """Remove a step if its number of free processors is the same as in the step before it."""
    profile = pool.profile_of(s)
    if position > s.first_step and position < s.steps and profile[position].free == profile[position - 1].free:
        s.steps -= 1
        for later in range(position, s.steps):
            profile[later] = profile[later + 1]


@kernel
def hold(s: Record, start: float, end: float, procs: int) -> None:
    """Reserve processors over [start, end), where start is now or later; negative `procs` releases them. O(steps)."""
    profile = pool.profile_of(s)
    first = step_at(s, start)
    last = step_at(s, end)
    for position in range(first, last):
        profile[position].free -= procs
    drop_step(s, last)
    drop_step(s, first)


@kernel
def earliest_fit(s: Record, procs: int, length: float, reserved: float, before: float) -> float:
    """Return the earliest time from now on at which `procs` processors are free for `length` seconds. O(steps).

    `reserved` is the start of the job's present reservation, infinity without a reservation. The result is `reserved`
    if the job cannot start earlier than `reserved` and than `before`. A job always fits inside its own reservation, so
    the profile's steps after the reservation's start need no check.
    """
    profile = pool.profile_of(s)
    start: float = s.now
    limit = min(reserved, before)
    for position in range(s.first_step, s.steps):
        if start >= limit:
            return reserved
        if profile[position].free < procs:
            if position + 1 == s.steps:
                return reserved
            start = profile[position + 1].time
        elif position + 1 == s.steps or profile[position + 1].time >= min(start + length, reserved):
            return start
    return reserved


@kernel
def most_free(s: Record, until: float) -> np.int64:
    """Return the largest number of processors that are free at one time between now and `until`. O(steps)."""
    profile = pool.profile_of(s)
    most = np.int64(0)
    for position in range(s.first_step, s.steps):
        if profile[position].time >= until:
            break
        most = max(most, profile[position].free)
    return most


@inner
def conservative_pass(s: Record, rules: Record) -> None:
    """Make one pass at `now`: move reservations up, reserve processors for new jobs, start jobs whose reservation
    begins now."""
    jobs, slots = jobs_of(s), slots_of(s)
    if s.waiting > 0:
        forget_past(s)
        fresh = s.tail - s.arrived
        if s.rebuild:
            place_anew(s)
        else:
            if s.ended and s.freed_until > s.now:
                move_up(s, fresh)
            for position in range(max(fresh, s.head), s.tail):
                reserve_for(s, jobs[slots[position].job])
        if s.next_start <= s.now:
            start_due(s, rules)
    elif s.rebuild:
        place_anew(s)
    s.rebuild = 0
    s.ended = 0
    s.arrived = 0


@inner
def reserve_for(s: Record, entry: Record) -> None:
    """Reserve processors for a job, and record the reservation as its start."""
    entry.start = earliest_fit(s, entry.procs, entry.planned, np.inf, np.inf)
    hold(s, entry.start, entry.start + entry.planned, entry.procs)
    s.next_start = min(s.next_start, entry.start)


@inner
def move_up(s: Record, end: int) -> None:
    """Try to give waiting jobs earlier reservations, in arrival order.

    A job that kept its reservation in the last pass can only gain from processors that were freed since then. So the
    search for an earlier start covers only times until the latest instant at which processors were freed, and only if
    enough processors are free at one time before it. Processors that a moved job leaves are available to later jobs in
    this pass, and to earlier jobs in the next pass.
    """
    jobs, slots = jobs_of(s), slots_of(s)
    freed, left_behind = s.freed_until, -np.inf
    most = most_free(s, freed)
    for position in range(s.head, end):
        slot = slots[position]
        if slot.procs > most:  # includes empty slots
            continue
        entry = jobs[slot.job]
        start = earliest_fit(s, entry.procs, entry.planned, entry.start, freed)
        if start < entry.start:
            hold(s, entry.start, entry.start + entry.planned, -entry.procs)
            hold(s, start, start + entry.planned, entry.procs)
            left_behind = max(left_behind, entry.start + entry.planned)
            freed = max(freed, left_behind)
            entry.start = start
            s.next_start = min(s.next_start, start)
            most = most_free(s, freed)
    s.freed_until = left_behind


@inner
def place_anew(s: Record) -> None:
    """Discard all reservations; enter running jobs by their planned ends, and reserve for waiting jobs by arrival."""
    jobs, slots, plan, profile = jobs_of(s), slots_of(s), plan_of(s), pool.profile_of(s)
    s.first_step = 0
    s.steps = 1
    profile[0].time = s.now
    profile[0].free = s.free
    for position in range(s.running):
        entry, last = plan[position], profile[s.steps - 1]
        profile[s.steps].time = entry.end
        profile[s.steps].free = last.free + entry.procs
        if last.time == entry.end:
            last.free += entry.procs
        else:
            s.steps += 1
    s.next_start = np.inf
    s.freed_until = -np.inf
    for position in range(s.head, s.tail):
        if slots[position].procs != pool.GONE:
            reserve_for(s, jobs[slots[position].job])


@inner
def give_back(s: Record, entry: Record) -> None:
    """Release the remaining time of an ended job's reservation, so that waiting jobs can move to earlier starts."""
    s.ended = 1
    end = entry.start + entry.planned
    if end > s.now:
        forget_past(s)
        hold(s, s.now, end, -entry.procs)
        s.freed_until = max(s.freed_until, end)


@inner
def start_due(s: Record, rules: Record) -> None:
    """Start the jobs whose reservation begins now, in arrival order. O(waiting)."""
    jobs, slots = jobs_of(s), slots_of(s)
    s.next_start = np.inf
    head = s.head
    for position in range(head, s.tail):
        if slots[position].procs == pool.GONE:
            continue
        start = jobs[slots[position].job].start
        if start > s.now:
            s.next_start = min(s.next_start, start)
            continue
        start_job(s, rules, position, 1 if position != s.head else 0)
        if s.waiting == 0:
            return
