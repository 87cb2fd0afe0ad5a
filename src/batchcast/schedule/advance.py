# SPDX-License-Identifier: Apache-2.0
"""The scheduling kernel of a processor pool: it returns to its caller when the caller must act, and resumes.

`advance` runs until it needs a prediction, a job exceeds its planned run time, the log of decisions is full, or all
jobs have ended.
"""

from __future__ import annotations

import math

import numpy as np

from ..compiled import branching, inlined, inner
from ..compiled.arrays import Record
from . import state as pool
from .index import leave
from .orders import candidate_key, corrected, head_key, learn_recent, recent_memory_of, recent_plan
from .passes import give_back, note_end, one_pass
from .queue import drop_plan, enqueue, note, put_off, remeasure
from .state import KernelState, asides_of, endings_of, instant_of, jobs_of, log_of, plan_of, results_of, slots_of


@inner
def note_result(s: Record, rules: Record, ended: int) -> None:
    """Record an ended job's run time for its class of similar jobs, and update the planned run times of queued jobs in
    that class. O(queue).

    A job's new planned run time is the geometric mean of its first planned run time and of the last eight run times in
    its class of similar jobs since the job's submission, equally weighted, and at most the requested time.
    """
    asides = asides_of(s)
    similar_class = asides[ended].similar_class
    if similar_class < 0:
        return
    results = results_of(s)[similar_class]
    jobs = jobs_of(s)
    position = int(results[0]) % pool.RESULTS
    results[0] += 1.0
    results[1 + position] = s.now
    results[1 + pool.RESULTS + position] = math.log(max(jobs[ended].run, 1.0))
    slots = slots_of(s)
    for position in range(s.head, s.tail):
        slot = slots[position]
        if slot.procs != pool.GONE and asides[slot.job].similar_class == similar_class:
            plan_slot_anew(s, rules, position, results)


@inlined
def plan_slot_anew(s: Record, rules: Record, position: int, results: np.ndarray) -> None:
    """Plan the job in a slot by its first planned run time and the run times of similar jobs since its submission, and
    update its keys and all minima that depend on the planned run time."""
    slot = slots_of(s)[position]
    entry = jobs_of(s)[slot.job]
    total, count = math.log(max(entry.first, 1.0)), 1
    for k in range(min(int(results[0]), pool.RESULTS)):
        if results[1 + k] >= entry.submit:
            total += results[1 + pool.RESULTS + k]
            count += 1
    planned = max(min(math.exp(total / count), entry.request), 1.0)
    if entry.planned == planned:
        return
    entry.planned = planned
    slot.planned = planned
    if rules.head_order != 0:
        slot.head_key = head_key(s, rules, entry)
    if rules.candidate_order != 0:
        slot.candidate_key = candidate_key(s, rules, entry)
    remeasure(s, rules, position // pool.BLOCK)
    if s.indexed:
        leave(s, rules, position, np.int64(slot.procs))
    s.dirty = 1


def advance(state: KernelState) -> int:
    """Run until the caller must act, and return the reason: DONE, NEEDS_PREDICTION, JOB_OVERDUE or LOG_FULL.

    The state's field `job` has the index of the job that caused the return. If the reason is NEEDS_PREDICTION, the
    caller sets the job's planned run time `planned`. If the reason is JOB_OVERDUE, the caller sets a longer planned run
    time `planned`. If the reason is LOG_FULL, the caller empties the log, or enlarges the log if it was empty. After
    each of these actions, the caller calls `advance` again. The amortised cost is O(log running) per end and O(running
    + blocks) per pass.
    """
    return go_on(state.record, state.rules)


@branching
def go_on(record: np.ndarray, settings: np.ndarray) -> int:
    """Run the kernel until the caller must act: the compiled part of `advance`."""
    s, rules = record[0], settings[0]
    jobs, endings, instant, log = jobs_of(s), endings_of(s), instant_of(s), log_of(s)
    while True:
        if s.phase == pool.NEXT:
            if log.size > 0 and s.logged > 0 and s.logged + 4 * (s.running + s.waiting) + 64 > log.size:
                return pool.LOG_FULL
            s.now = next_instant(s)
            if s.now == np.inf:
                return pool.DONE
            s.phase = pool.OVERDUES
        if s.phase == pool.OVERDUES:
            if correct_overdue(s, rules):
                return pool.JOB_OVERDUE
            s.phase = pool.SUBMITS if rules.event_order == pool.PYSS else pool.ENDS
        if s.phase == pool.ENDS:
            while s.ending > 0 and endings[0].key <= s.now:
                job = endings[0].item
                s.ending = pool.pop(endings, s.ending)
                end_job(s, rules, job)
            s.phase = pool.PASS if rules.event_order == pool.PYSS else pool.SUBMITS
        if s.phase == pool.PREDICTED:
            arrive(s, rules, s.job)
            s.phase = pool.SUBMITS
        if s.phase == pool.SUBMITS:
            while s.next_submit < jobs.size and jobs[s.next_submit].submit <= s.now:
                s.job = s.next_submit
                s.next_submit += 1
                if rules.planner == pool.ASKED or s.job == s.last:
                    s.phase = pool.PREDICTED
                    return pool.NEEDS_PREDICTION
                arrive(s, rules, s.job)
            s.phase = pool.ENDS if rules.event_order == pool.PYSS else pool.PASS
        if s.phase == pool.PASS:
            if rules.event_order == pool.INSTANT:
                one_pass(s, rules)
            else:
                if s.next_start <= s.now or s.rebuild:
                    one_pass(s, rules)
                while s.instant_first < s.instant_end:
                    s.instant_first += 1
                    end_job(s, rules, instant[s.instant_first - 1])
            s.phase = pool.ENDS if further_round(s) else pool.NEXT


@inlined
def next_instant(s: Record) -> float:
    """Return the time of the next submission, actual or planned end, or reservation; infinity if there is none."""
    jobs = jobs_of(s)
    time: float = s.next_start
    if s.next_submit < jobs.size:
        time = min(time, jobs[s.next_submit].submit)
    if s.ending > 0:
        time = min(time, endings_of(s)[0].key)
    if s.running > 0:
        time = min(time, plan_of(s)[0].end)
    return time


@inlined
def correct_overdue(s: Record, rules: Record) -> bool:
    """Lengthen the planned run times that running jobs exceeded; return true if a predictor must revise the planned run
    time of `s.job`."""
    jobs, plan = jobs_of(s), plan_of(s)
    position = 0
    while position < s.running and plan[position].end <= s.now:
        job = plan[position].job
        entry = jobs[job]
        if entry.start + entry.run > s.now:
            if not (s.answered and s.job == job):
                entry.step += 1
                s.corrections += 1
                note(s, pool.LOG_OVERDUE, job)
                elapsed = s.now - entry.start
                entry.planned = corrected(rules.correction, elapsed, entry.first, entry.request, entry.step - 1)
                if rules.ask_overdue:
                    s.job = job
                    s.answered = 1
                    return True
            s.answered = 0
            if not entry.start + entry.planned > s.now:  # else the clock would not advance
                entry.planned = max(entry.request, entry.run)
            put_off(s, position, entry.start + entry.planned)
            s.dirty = 1
            s.rebuild = rules.backfill == pool.CONSERVATIVE
        elif rules.event_order == pool.PYSS:
            drop_plan(s, job, plan[position].end)
            entry.released = 1
            s.free += entry.procs
            s.dirty = 1
        else:
            position += 1
    return False


@inlined
def end_job(s: Record, rules: Record, job: int) -> None:
    """Remove an ended job from the machine, and let the built-in planner learn its run time. With the event order of
    pyss, a scheduling pass follows."""
    entry = jobs_of(s)[job]
    if not entry.released:
        drop_plan(s, job, entry.start + entry.planned)
        s.free += entry.procs
    s.dirty = 1
    if rules.backfill == pool.CONSERVATIVE:
        give_back(s, entry)
    if rules.planner == pool.RECENT:
        learn_recent(recent_memory_of(s)[0], entry)
    if s.aside:
        if rules.due_after < np.inf:
            note_end(s, job)
        if rules.refresh:
            note_result(s, rules, job)
    note(s, pool.LOG_END, job)
    if rules.event_order == pool.PYSS:
        one_pass(s, rules)


@inlined
def arrive(s: Record, rules: Record, job: int) -> None:
    """Add a job to the queue, planned by the built-in planner if there is one. With the event order of pyss, a
    scheduling pass follows."""
    jobs = jobs_of(s)
    if rules.planner == pool.RECENT:
        jobs[job].planned = recent_plan(recent_memory_of(s)[0], jobs[job])
    jobs[job].first = jobs[job].planned
    enqueue(s, rules, job)
    s.arrived += 1
    if rules.event_order == pool.PYSS:
        one_pass(s, rules)


@inlined
def further_round(s: Record) -> bool:
    """Return whether jobs with run time 0 have started at this instant; if so, their ends are processed next."""
    instant = instant_of(s)
    again: bool = s.instant_first < s.instant_end
    for position in range(s.instant_first, s.instant_end):
        s.ending = pool.push(endings_of(s), s.ending, s.now, np.int64(instant[position]), instant[position])
    s.instant_first = 0
    s.instant_end = 0
    return again
