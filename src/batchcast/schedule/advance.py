"""One resumable scheduling kernel: `advance` runs until it needs a prediction, a job outlived its plan, or all is done.

At one instant: overdue jobs, ends, submits (each planned as it arrives), then one scheduling pass; a zero-length job
started by it ends in a further round of the same instant (DESIGN, Events). The `pyss` order, exactly that of the
reference schedules: planned ends, then each submission with a pass, then each termination in order of start with a
pass, then starts (a zero-length one with its termination and a pass); a running job counts as free from its planned
end; a correction is not followed by a pass.
"""

from __future__ import annotations

import numpy as np

from .compiled import inlined, kernel
from .conservative import give_back, schedule_conservatively
from .corrections import corrected
from .heap import pop
from .native import learn_natively, plan_natively
from .passes import schedule
from .queue import enqueue
from .running import add_plan, drop_plan
from .start import note, push_end
from .state import (
    ASKED,
    CONSERVATIVE,
    DONE,
    ENDS,
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
)


@kernel
def advance(registers, jobs, slots, blocks, index, plan, endings, instant, choices, profile, ring, ring_count, log):
    """Go on from where it stopped (arguments: a `KernelState`); returns why it stopped again.

    The job concerned is in the register `job`. NEEDS_PREDICTION: set its `planned` and call again. JOB_OVERDUE: the
    same with its new planned length. LOG_FULL: empty the log (a larger one where it was not enough) and call again.
    Amortised per job: O(log running) for its end, O(running + blocks) per pass.
    """
    r = registers[0]
    while True:
        if r.phase == NEXT:
            if log.size > 0 and r.logged > 0 and r.logged + 4 * (r.running + r.waiting) + 64 > log.size:
                return LOG_FULL
            r.now = next_instant(r, jobs, plan, endings)
            if r.now == np.inf:
                return DONE
            r.phase = OVERDUES
        if r.phase == OVERDUES:
            if tell_overdue(r, jobs, plan, log):
                return JOB_OVERDUE
            r.phase = SUBMITS if r.event_order == PYSS else ENDS
        if r.phase == ENDS:
            while r.ending > 0 and endings[0].key <= r.now:
                job = endings[0].item
                r.ending = pop(endings, r.ending)
                end_job(r, jobs, plan, profile, ring, ring_count, log, job)
                if r.event_order == PYSS:
                    one_pass(r, jobs, slots, blocks, index, plan, endings, instant, choices, profile, log)
            r.phase = PASS if r.event_order == PYSS else SUBMITS
        if r.phase == PREDICTED:
            arrive(r, jobs, slots, blocks, index, r.job)
            if r.event_order == PYSS:
                one_pass(r, jobs, slots, blocks, index, plan, endings, instant, choices, profile, log)
            r.phase = SUBMITS
        if r.phase == SUBMITS:
            while r.next_submit < jobs.size and jobs[r.next_submit].submit <= r.now:
                r.job = r.next_submit
                r.next_submit += 1
                if r.planner == ASKED:
                    r.phase = PREDICTED
                    return NEEDS_PREDICTION
                if r.planner == RECENT:
                    jobs[r.job].planned = plan_natively(r, ring, ring_count, jobs[r.job])
                arrive(r, jobs, slots, blocks, index, r.job)
                if r.event_order == PYSS:
                    one_pass(r, jobs, slots, blocks, index, plan, endings, instant, choices, profile, log)
            r.phase = ENDS if r.event_order == PYSS else PASS
        if r.phase == PASS:
            if r.event_order == INSTANT:
                if r.backfill == CONSERVATIVE:
                    schedule_conservatively(r, jobs, slots, blocks, index, plan, endings, instant, profile, log)
                else:
                    schedule(r, jobs, slots, blocks, index, plan, endings, instant, choices, log)
            else:
                if r.next_start <= r.now or r.rebuild:
                    one_pass(r, jobs, slots, blocks, index, plan, endings, instant, choices, profile, log)
                while r.instant_first < r.instant_end:
                    r.instant_first += 1
                    end_job(r, jobs, plan, profile, ring, ring_count, log, instant[r.instant_first - 1])
                    one_pass(r, jobs, slots, blocks, index, plan, endings, instant, choices, profile, log)
            r.phase = ENDS if further_round(r, endings, instant) else NEXT


@inlined
def one_pass(r, jobs, slots, blocks, index, plan, endings, instant, choices, profile, log):
    """One scheduling pass of whichever kind the policy is (pyss makes it in four places)."""
    if r.backfill == CONSERVATIVE:
        schedule_conservatively(r, jobs, slots, blocks, index, plan, endings, instant, profile, log)
    else:
        schedule(r, jobs, slots, blocks, index, plan, endings, instant, choices, log)


@inlined
def next_instant(r, jobs, plan, endings):
    """The next time at which anything happens: a submission, an end, planned or true, a reservation; infinity: done."""
    time = np.inf
    if r.next_submit < jobs.size:
        time = jobs[r.next_submit].submit
    if r.ending > 0:
        time = min(time, endings[0].key)
    if r.running > 0:
        time = min(time, plan[0].end)
    return min(time, r.next_start)


@inlined
def tell_overdue(r, jobs, plan, log):
    """Correct the plans that ran out at this instant; true when a predictor must be asked about register `job`."""
    place = 0
    while place < r.running and plan[place].end <= r.now:
        job = plan[place].job
        it = jobs[job]
        if it.start + it.run > r.now:
            if not (r.answered and r.job == job):
                it.step += 1
                r.corrections += 1
                note(r, log, LOG_OVERDUE, job)
                it.planned = corrected(r.correction, r.now - it.start, it.first, it.request, it.step - 1)
                if r.ask_overdue:
                    r.job = job
                    r.answered = 1
                    return True
            r.answered = 0
            replan(r, plan, it, job, plan[place].end)
        elif r.event_order == PYSS:
            drop_plan(r, plan, job, plan[place].end)
            it.released = 1
            r.free += it.procs
            r.dirty = 1
        else:
            place += 1
    return False


@inlined
def replan(r, plan, it, job, old_end):
    """Move a running job to its new planned end (always later than now: a plan in the past would stand still)."""
    drop_plan(r, plan, job, old_end)
    if not it.start + it.planned > r.now:
        it.planned = max(it.request, it.run)
    add_plan(r, plan, job, it.procs, it.start + it.planned)
    r.dirty = 1
    r.rebuild = r.backfill == CONSERVATIVE


@inlined
def end_job(r, jobs, plan, profile, ring, ring_count, log, job):
    """A job leaves the machine, and the native planner learns."""
    it = jobs[job]
    if not it.released:
        drop_plan(r, plan, job, it.start + it.planned)
        r.free += it.procs
    r.dirty = 1
    if r.backfill == CONSERVATIVE:
        give_back(r, it, profile)
    if r.planner == RECENT:
        learn_natively(ring, ring_count, it)
    note(r, log, LOG_END, job)


@inlined
def arrive(r, jobs, slots, blocks, index, job):
    """A planned job joins the queue."""
    jobs[job].first = jobs[job].planned
    enqueue(r, jobs, slots, blocks, index, job)
    r.arrived += 1


@inlined
def further_round(r, endings, instant):
    """Whether zero-length jobs started at this instant are still to end; they become the ends of the next round."""
    again = r.instant_first < r.instant_end
    for place in range(r.instant_first, r.instant_end):
        push_end(r, endings, r.now, np.int64(instant[place]), instant[place])
    r.instant_first = 0
    r.instant_end = 0
    return again
