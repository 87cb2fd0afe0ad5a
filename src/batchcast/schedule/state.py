"""The state record of the scheduling kernel: arrays of named fields, so that one compiled loop can stop and go on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

BLOCK = 64  # slots per block of the queue: one entry of minima stands for 64 jobs
GONE = np.int64(1 << 30)  # processors of an empty slot: never fits

# where `advance` goes on
NEXT, OVERDUES, ENDS, SUBMITS, PREDICTED, PASS = range(6)
# why `advance` came back
DONE, NEEDS_PREDICTION, JOB_OVERDUE, LOG_FULL = range(4)
# who plans: the caller beforehand, the mean of recent jobs (last_2, recent_mean), or a predictor outside
GIVEN, RECENT, ASKED = range(3)
# who decides
NO_BACKFILL, EASY = range(2)
# how the events of one instant are told
INSTANT, PYSS = range(2)
# what the log of decisions holds
LOG_OVERDUE, LOG_END, LOG_START = range(3)

REGISTERS = np.dtype(
    [
        # settings: codes that select branches of the one kernel, and the parameters of the native planner
        ("backfill", "i8"),
        ("event_order", "i8"),
        ("head_order", "i8"),
        ("candidate_order", "i8"),
        ("planner", "i8"),
        ("correction", "i8"),
        ("need", "i8"),  # finished jobs the native planner wants
        ("whole_seconds", "i8"),  # round its mean down
        ("ask_overdue", "i8"),  # a predictor outside revises the plan of an overdue job
        # state
        ("now", "f8"),
        ("free", "i8"),
        ("phase", "i8"),
        ("job", "i8"),  # the job a reason is about
        ("answered", "i8"),  # that job's new plan is in its record
        ("next_submit", "i8"),
        ("tail", "i8"),  # queue: slots used
        ("head", "i8"),  # queue: no live slot before this one
        ("waiting", "i8"),
        ("newest", "i8"),  # slot of the last arrival
        ("running", "i8"),
        ("ending", "i8"),  # size of the heap of ends
        ("sequence", "i8"),  # starts so far
        ("arrived", "i8"),  # submissions since the last pass
        ("dirty", "i8"),  # anything else since the last pass
        ("reserved", "i8"),  # shadow_time and extra_procs are those of the present head
        ("shadow_time", "f8"),
        ("extra_procs", "i8"),
        ("instant_first", "i8"),  # zero-length jobs started at this instant: first and end of the list
        ("instant_end", "i8"),
        ("logged", "i8"),
        ("corrections", "i8"),
    ]
)

JOBS = np.dtype(
    [
        # what the workload says
        ("submit", "f8"),
        ("run", "f8"),
        ("request", "f8"),
        ("procs", "i4"),
        ("user_ring", "i4"),  # the native planner's memory of the user, -1 none
        ("alike_ring", "i4"),  # and of jobs that look the same, -1 none
        # what the schedule makes of it
        ("step", "i2"),  # corrections so far
        ("backfilled", "u1"),
        ("released", "u1"),  # processors already counted as free (pyss)
        ("first", "f8"),  # first planned run time
        ("planned", "f8"),  # present planned run time
        ("start", "f8"),
    ],
    align=True,
)

SLOTS = np.dtype([("procs", "i4"), ("job", "i4"), ("planned", "f8"), ("head_key", "f8"), ("candidate_key", "f8")])
BLOCKS = np.dtype([("procs", "i8"), ("planned", "f8"), ("head_key", "f8"), ("candidate_key", "f8")])
PLAN = np.dtype([("end", "f8"), ("job", "i4"), ("procs", "i4")])
ENDINGS = np.dtype([("time", "f8"), ("tie", "i8"), ("job", "i8")])
LOG = np.dtype([("time", "f8"), ("job", "i4"), ("kind", "i4")])


class KernelState(NamedTuple):
    """Everything the kernel knows, as the arguments of `advance`. Jobs are in log order; times are seconds."""

    registers: np.ndarray  # REGISTERS, one record
    jobs: np.ndarray  # JOBS (n,)
    slots: np.ndarray  # SLOTS: the queue in arrival order, with gaps
    blocks: np.ndarray  # BLOCKS: minima over 64 slots each
    plan: np.ndarray  # PLAN: running jobs by planned end
    endings: np.ndarray  # ENDINGS: heap of true ends by (time, tie)
    instant: np.ndarray  # int32: zero-length jobs of this instant
    ring: np.ndarray  # (rings, k): last run times
    ring_count: np.ndarray  # finished jobs seen, per ring
    log: np.ndarray  # LOG: decisions told to predictors outside


def make_state(
    jobs: np.ndarray, total: int, *, rings: int = 0, memory: int = 1, log_size: int = 0, **settings: Any
) -> KernelState:
    """A machine of `total` processors, empty, before the first submission; `jobs` in log order, each fitting it.

    `settings` are the first registers by name. O(n) memory: about 110 bytes a job.
    """
    n = len(jobs)
    blocks = n // BLOCK + 2
    most_running = min(n, int(total)) + 1
    registers = np.zeros(1, REGISTERS)
    registers["free"] = total
    registers["now"] = -np.inf
    for name, value in settings.items():
        registers[name] = value
    return KernelState(
        registers=registers,
        jobs=jobs,
        slots=np.empty(blocks * BLOCK, SLOTS),
        blocks=np.empty(blocks, BLOCKS),
        plan=np.empty(most_running, PLAN),
        endings=np.empty(2 * most_running, ENDINGS),  # pyss: ends told late overlap new starts
        instant=np.empty(n, np.int32),
        ring=np.empty((max(rings, 1), max(memory, 1)), np.float64),
        ring_count=np.zeros(max(rings, 1), np.int64),
        log=np.empty(log_size, LOG),
    )


def make_jobs(
    submit: np.ndarray, procs: np.ndarray, run: np.ndarray, request: np.ndarray, planned: np.ndarray
) -> np.ndarray:
    """Job records from arrays (n,), not yet started, without native memory."""
    jobs = np.zeros(len(submit), JOBS)
    jobs["submit"], jobs["procs"], jobs["run"], jobs["request"] = submit, procs, run, request
    jobs["first"] = jobs["planned"] = planned
    jobs["start"] = np.nan
    jobs["user_ring"] = jobs["alike_ring"] = -1
    return jobs
