"""One resumable scheduling kernel: `advance` runs until it needs a prediction, a job outlived its plan, or all is done.

At one instant: overdue jobs, ends, submits (each planned as it arrives), then one scheduling pass; a zero-length job
started by it ends in a further round of the same instant (DESIGN, Events). The `pyss` order, exactly that of the
reference schedules: planned ends, then each submission with a pass, then each termination in order of start with a
pass, then starts (a zero-length one with its termination and a pass); a running job counts as free from its planned
end; a correction is not followed by a pass.
"""

from __future__ import annotations

import numpy as np

from ..compiled import branching, inlined, inner
from ..compiled.arrays import Record
from .conservative import give_back, schedule_conservatively
from .corrections import corrected
from .heap import pop
from .native import learn_natively, plan_natively
from .passes import schedule
from .queue import enqueue
from .refresh import hear_result
from .running import drop_plan, put_off
from .shadow import reveal
from .start import note, push_end
from .state import (
    ASKED,
    CONSERVATIVE,
    DONE,
    ENDS,
    GIVEN,
    INSTANT,
    JOB_OVERDUE,
    LOG_END,
    LOG_FULL,
    LOG_OVERDUE,
    NEEDS_PREDICTION,
    NEXT,
    OVERDUES,
    PASS,
    PREDICTED,
    PYSS,
    RECENT,
    SUBMITS,
    KernelState,
    endings_of,
    instant_of,
    jobs_of,
    log_of,
    plan_of,
)


def advance(state: KernelState) -> int:
    """Go on from where the state stopped; returns why it stopped again: DONE, NEEDS_PREDICTION, JOB_OVERDUE, LOG_FULL.

    The job concerned is in the record's `job`. NEEDS_PREDICTION: set its `planned` and call again. JOB_OVERDUE: the
    same with its new planned length. LOG_FULL: empty the log (a larger one where it was not enough) and call again.
    Amortised per job: O(log running) for its end, O(running + blocks) per pass.
    """
    return go_on(state.record, state.rules)


@branching
def go_on(record: np.ndarray, settings: np.ndarray) -> int:
    """The compiled half of `advance`."""
    s, rules = record[0], settings[0]
    jobs, endings, instant, log = jobs_of(s), endings_of(s), instant_of(s), log_of(s)
    while True:
        if s.phase == NEXT:
            if log.size > 0 and s.logged > 0 and s.logged + 4 * (s.running + s.waiting) + 64 > log.size:
                return LOG_FULL
            s.now = next_instant(s)
            if s.now == np.inf:
                return DONE
            s.phase = OVERDUES
        if s.phase == OVERDUES:
            if tell_overdue(s, rules):
                return JOB_OVERDUE
            s.phase = SUBMITS if rules.event_order == PYSS else ENDS
        if s.phase == ENDS:
            while s.ending > 0 and endings[0].key <= s.now:
                job = endings[0].item
                s.ending = pop(endings, s.ending)
                end_job(s, rules, job)
                if rules.event_order == PYSS:
                    one_pass(s, rules)
            s.phase = PASS if rules.event_order == PYSS else SUBMITS
        if s.phase == PREDICTED:
            arrive(s, rules, s.job)
            if rules.event_order == PYSS:
                one_pass(s, rules)
            s.phase = SUBMITS
        if s.phase == SUBMITS:
            while s.next_submit < jobs.size and jobs[s.next_submit].submit <= s.now:
                s.job = s.next_submit
                s.next_submit += 1
                if rules.planner == ASKED:
                    s.phase = PREDICTED
                    return NEEDS_PREDICTION
                if rules.planner != GIVEN:
                    jobs[s.job].planned = plan_natively(s, rules, jobs[s.job])
                arrive(s, rules, s.job)
                if rules.event_order == PYSS:
                    one_pass(s, rules)
            s.phase = ENDS if rules.event_order == PYSS else PASS
        if s.phase == PASS:
            if rules.event_order == INSTANT:
                if rules.backfill == CONSERVATIVE:
                    schedule_conservatively(s, rules)
                else:
                    schedule(s, rules)
            else:
                if s.next_start <= s.now or s.rebuild:
                    one_pass(s, rules)
                while s.instant_first < s.instant_end:
                    s.instant_first += 1
                    end_job(s, rules, instant[s.instant_first - 1])
                    one_pass(s, rules)
            s.phase = ENDS if further_round(s) else NEXT


@inner
def one_pass(s: Record, rules: Record) -> None:
    """One scheduling pass of whichever kind the policy is (pyss makes it in four places)."""
    if rules.backfill == CONSERVATIVE:
        schedule_conservatively(s, rules)
    else:
        schedule(s, rules)


@inlined
def next_instant(s: Record) -> float:
    """The next time at which anything happens: a submission, an end, planned or true, a reservation; infinity: done."""
    jobs = jobs_of(s)
    plan = plan_of(s)
    endings = endings_of(s)
    time: float = np.inf
    if s.next_submit < jobs.size:
        time = jobs[s.next_submit].submit
    if s.ending > 0:
        time = min(time, endings[0].key)
    if s.running > 0:
        time = min(time, plan[0].end)
    time = min(time, s.next_start)
    return time


@inlined
def tell_overdue(s: Record, rules: Record) -> bool:
    """Correct the plans that ran out at this instant; true when a predictor must be asked about register `job`."""
    jobs = jobs_of(s)
    plan = plan_of(s)
    place = 0
    while place < s.running and plan[place].end <= s.now:
        job = plan[place].job
        entry = jobs[job]
        if entry.start + entry.run > s.now:
            if not (s.answered and s.job == job):
                entry.step += 1
                s.corrections += 1
                note(s, LOG_OVERDUE, job)
                entry.planned = corrected(
                    rules.correction,
                    s.now - entry.start,
                    entry.first,
                    entry.request,
                    entry.step - 1,
                )
                if rules.ask_overdue:
                    s.job = job
                    s.answered = 1
                    return True
            s.answered = 0
            replan(s, rules, entry, place)
        elif rules.event_order == PYSS:
            drop_plan(s, job, plan[place].end)
            entry.released = 1
            s.free += entry.procs
            s.dirty = 1
        else:
            place += 1
    return False


@inlined
def replan(s: Record, rules: Record, entry: Record, place: int) -> None:
    """Move a running job to its new planned end (always later than now: a plan in the past would stand still)."""
    if not entry.start + entry.planned > s.now:
        entry.planned = max(entry.request, entry.run)
    put_off(s, place, entry.start + entry.planned)
    s.dirty = 1
    s.rebuild = rules.backfill == CONSERVATIVE


@inlined
def end_job(s: Record, rules: Record, job: int) -> None:
    """A job leaves the machine, and the native planner learns."""
    jobs = jobs_of(s)
    entry = jobs[job]
    if not entry.released:
        drop_plan(s, job, entry.start + entry.planned)
        s.free += entry.procs
    s.dirty = 1
    if rules.backfill == CONSERVATIVE:
        give_back(s, entry)
    if rules.planner >= RECENT:
        learn_natively(s, rules, entry)
    if s.aside:
        if rules.due_after < np.inf:
            reveal(s, job)
        if rules.refresh:
            hear_result(s, rules, job)
    note(s, LOG_END, job)


@inlined
def arrive(s: Record, rules: Record, job: int) -> None:
    """A planned job joins the queue."""
    jobs = jobs_of(s)
    jobs[job].first = jobs[job].planned
    enqueue(s, rules, job)
    s.arrived += 1


@inlined
def further_round(s: Record) -> bool:
    """Whether zero-length jobs started at this instant are still to end; they become the ends of the next round."""
    instant = instant_of(s)
    again: bool = s.instant_first < s.instant_end
    for place in range(s.instant_first, s.instant_end):
        push_end(s, s.now, np.int64(instant[place]), instant[place])
    s.instant_first = 0
    s.instant_end = 0
    return again
