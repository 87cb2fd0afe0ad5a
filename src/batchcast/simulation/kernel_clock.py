# SPDX-License-Identifier: Apache-2.0
"""The simulated clock with `kernel` as predictor, both compiled; the steps are the same as in
`clock.DrivenPredictor`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..compiled import kernel
from ..compiled.arrays import address_of, called_there
from ..predict.runtime.kernel import Kernel
from ..predict.similarity import steps
from ..predict.similarity.coding import Coded
from ..predict.similarity.memory import ROOMS, Memory, Options, grown, make_memory
from ..schedule import state as pool
from ..schedule.advance import go_on
from ..schedule.state import KernelState, tails_of

go_on_there = called_there(go_on)
NO_SLOT = 100  # all slots for unfinished jobs are in use
TICK = 101  # EVERY more jobs were submitted, so the caller reports progress
EVERY = 20_000
SLOTS = 4096  # initial number of slots for unfinished jobs
REASON, LEFT, ASKED = range(3)
Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # the schedule's jobs and log; numbers and codes by job


def drive_kernel(
    state: KernelState, coded: Coded, predictor: Kernel, tick: Callable[[int], None] | None = None
) -> KernelState:
    """Run the compiled scheduler to the end of the log with a fresh `kernel` in closed loop; return the final state.

    `coded` has the fields of each simulated job that are known at submission, in log order, with the planning request.
    The schedule equals the schedule of `clock.DrivenPredictor` with the same predictor (a test checks this), without a
    Python call per job: about 30 microseconds each.
    """
    n, slots = len(coded.numbers), SLOTS
    numbers, codes = coded.numbers, coded.codes
    memory = make_memory(max(min(predictor.most, n), 1), slots, coded.users + 1, coded.classes + 1, ROOMS)
    free = np.arange(slots - 1, -1, -1)[:-1]
    registers = np.array([-1, slots - 1, 0])
    slot_of = np.zeros(n, np.int64)
    scheduler = address_of(go_on, state.record, state.rules)
    while True:
        columns = (state.jobs, state.log, numbers, codes)
        reason = follow_schedule(
            scheduler, state.record, state.rules, columns, memory, predictor.options, free, slot_of, registers
        )
        if reason == NO_SLOT:
            slots, registers[LEFT] = 2 * slots, slots
            free = np.empty(slots, np.int64)
            free[: registers[LEFT]] = np.arange(slots - 1, registers[LEFT] - 1, -1)
            memory = grown(memory, "slots", slots)
        elif reason == pool.LOG_FULL:
            state.enlarge_log()
        elif reason == pool.DONE:
            return state
        if tick is not None:
            tick(int(registers[ASKED]))


@kernel
def follow_schedule(
    scheduler: int,
    record: np.ndarray,
    rules: np.ndarray,
    columns: Columns,
    m: Memory,
    o: Options,
    free: np.ndarray,
    slot_of: np.ndarray,
    registers: np.ndarray,
) -> int:
    """Run the simulation until all jobs have ended, the log of decisions is full, or a further slot for an unfinished
    job is needed."""
    s, (jobs, log, numbers, codes) = record[0], columns
    while True:
        if registers[REASON] < 0:
            registers[REASON] = go_on_there(scheduler, record, rules)
            for k in range(s.logged):
                job = log[k].job
                if log[k].kind == pool.LOG_START:
                    steps.job_started(m, slot_of[job], log[k].time)
                elif log[k].kind == pool.LOG_END:
                    steps.job_ended(m, o, slot_of[job], log[k].time, jobs[job].run, True)
                    free[registers[LEFT]] = slot_of[job]
                    registers[LEFT] += 1
            s.logged = 0
        reason: int = registers[REASON]
        job = s.job
        if reason == pool.NEEDS_PREDICTION:
            if registers[LEFT] == 0:
                return NO_SLOT
            registers[LEFT] -= 1
            slot_of[job] = free[registers[LEFT]]
            entry = jobs[job]  # without a similar job, the requested time is the planned run time
            steps.write_request(m, slot_of[job], numbers[job], codes[job])
            entry.planned = max(min(steps.predict_point(m, o, slot_of[job], s.now, entry.request), entry.request), 1.0)
            steps.add_new_fields(m, slot_of[job], codes[job])
            if rules[0].risk_budget > 0.0:
                steps.predict_tail(m, slot_of[job], pool.TAIL, tails_of(s)[job])
            registers[ASKED] += 1
        elif reason == pool.JOB_OVERDUE:
            entry = jobs[job]
            elapsed = s.now - entry.start
            numbers[job, 0] = s.now
            steps.write_request(m, 0, numbers[job], codes[job])
            again = steps.predict_again(m, o, 0, slot_of[job], s.now, elapsed)
            entry.planned = max(min(again, entry.request), elapsed + 1.0)
        registers[REASON] = -1
        if reason not in (pool.NEEDS_PREDICTION, pool.JOB_OVERDUE):
            return reason
        if reason == pool.NEEDS_PREDICTION and registers[ASKED] % EVERY == 0:
            return TICK
