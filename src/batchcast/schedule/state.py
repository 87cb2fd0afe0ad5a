"""The state record of the scheduling kernel: arrays of named fields, so that one compiled loop can stop and go on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

BLOCK = 16  # slots per block of the queue: one entry of minima stands for 16 jobs
CLASSES = 8  # of width, in the index of a long queue
KEYS, HEAD_KEY, ROW = CLASSES, 2 * CLASSES, 2 * CLASSES + 1  # where a row of it has its candidate keys and head key
LONG_QUEUE = 1024  # slots from which on the queue is indexed
GONE = np.int64(1 << 30)  # processors of an empty slot: never fits

# where `advance` goes on
NEXT, OVERDUES, ENDS, SUBMITS, PREDICTED, PASS = range(6)
# why `advance` came back
DONE, NEEDS_PREDICTION, JOB_OVERDUE, LOG_FULL = range(4)
# who plans: the caller beforehand, the mean of recent jobs (last_2, recent_mean), or a predictor outside
GIVEN, RECENT, ASKED = range(3)
# who decides
NO_BACKFILL, EASY, CONSERVATIVE = range(3)
# which length counts: the planned one or the requested one (of an order's key; of a running job)
PLANNED, REQUESTED = range(2)
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
        ("head_on", "i8"),  # what an order takes for the length: planned or requested
        ("candidate_on", "i8"),
        ("head_ageing", "f8"),  # by how much a key falls per second of waiting
        ("candidate_ageing", "f8"),
        ("head_address", "i8"),  # compiled order of the user, see orders.USER
        ("candidate_address", "i8"),
        ("head_varying", "i8"),  # keys change while jobs wait: computed anew in every pass
        ("candidate_varying", "i8"),
        ("running_ends", "i8"),  # what ends a running job in the plan: planned or requested
        ("head_after", "f8"),  # a head that waited longer is reserved for by requests; infinity: never
        ("need", "i8"),  # finished jobs the native planner wants
        ("whole_seconds", "i8"),  # round its mean down
        ("ask_overdue", "i8"),  # a predictor outside revises the plan of an overdue job
        ("long_queue", "i8"),  # slots from which on the queue is indexed
        # state
        ("origin", "f8"),  # first submission
        ("now", "f8"),
        ("free", "i8"),
        ("phase", "i8"),
        ("job", "i8"),  # the job a reason is about
        ("answered", "i8"),  # that job's new plan is in its record
        ("next_submit", "i8"),
        ("tail", "i8"),  # queue: slots used
        ("head", "i8"),  # queue: no live slot before this one
        ("waiting", "i8"),
        ("indexed", "i8"),  # queue: the index is kept
        ("leaves", "i8"),  # index: nodes of the lowest level
        ("classes_free", "i8"),  # index: classes of width that reach into the free processors ...
        ("classes_extra", "i8"),  # ... and into the extra ones
        ("newest", "i8"),  # slot of the last arrival
        ("running", "i8"),
        ("ending", "i8"),  # size of the heap of ends
        ("sequence", "i8"),  # starts so far
        ("arrived", "i8"),  # submissions since the last pass
        ("dirty", "i8"),  # anything else since the last pass
        ("reserved", "i8"),  # shadow_time and extra_procs are those of the present head
        ("shadow_time", "f8"),
        ("extra_procs", "i8"),
        ("looked_at", "i8"),  # slots and blocks read in search of heads and candidates: what a pass costs
        ("next_start", "f8"),  # conservative: the earliest reservation of a waiting job
        ("freed_until", "f8"),  # conservative: nothing was freed after this instant since jobs were last placed again
        ("ended", "i8"),  # conservative: a job ended since the last pass
        ("rebuild", "i8"),  # conservative: a running job's plan grew, all reservations are made anew
        ("first_step", "i8"),  # profile: the step in which now lies
        ("steps", "i8"),  # profile: steps used
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
BLOCKS = np.dtype([("procs", "i8"), ("planned", "f8"), ("head_key", "f8")])
STEPS = np.dtype([("time", "f8"), ("free", "i8")])
PLAN = np.dtype([("end", "f8"), ("job", "i4"), ("procs", "i4")])
HEAP = np.dtype([("key", "f8"), ("tie", "i8"), ("item", "i8")])
LOG = np.dtype([("time", "f8"), ("job", "i4"), ("kind", "i4")])


class KernelState(NamedTuple):
    """Everything the kernel knows, as the arguments of `advance`. Jobs are in log order; times are seconds."""

    registers: np.ndarray  # REGISTERS, one record
    jobs: np.ndarray  # JOBS (n,)
    slots: np.ndarray  # SLOTS: the queue in arrival order, with gaps
    blocks: np.ndarray  # BLOCKS: minima over 16 slots each
    nodes: np.ndarray  # (nodes + 1, ROW): the index, minima per class of width, while the queue is long
    plan: np.ndarray  # PLAN: running jobs by planned end
    endings: np.ndarray  # HEAP: jobs by true end
    instant: np.ndarray  # int32: zero-length jobs of this instant
    choices: np.ndarray  # HEAP of one pass: candidates by key, running jobs by requested end
    profile: np.ndarray  # STEPS: conservative: free processors over time
    ring: np.ndarray  # (rings, k): last run times
    ring_count: np.ndarray  # finished jobs seen, per ring
    log: np.ndarray  # LOG: decisions told to predictors outside


def make_state(
    jobs: np.ndarray, total: int, *, rings: int = 0, memory: int = 1, log_size: int = 0, **settings: Any
) -> KernelState:
    """A machine of `total` processors, empty, before the first submission; `jobs` in log order, each fitting it.

    `settings` are the first registers by name. O(n) memory: about 150 bytes a job, 64 more for `conservative`.
    """
    n = len(jobs)
    blocks = n // BLOCK + 2
    most_running = min(n, int(total)) + 1
    registers = np.zeros(1, REGISTERS)
    registers["free"] = total
    registers["now"] = -np.inf
    registers["origin"] = jobs["submit"][0] if n else 0.0
    registers["head_after"] = registers["next_start"] = np.inf
    registers["freed_until"] = -np.inf
    registers["long_queue"] = LONG_QUEUE
    registers["leaves"] = blocks
    for name, value in settings.items():
        registers[name] = value
    conservative = int(registers["backfill"][0]) == CONSERVATIVE
    profile = np.empty(4 * n + 4 if conservative else 1, STEPS)
    profile[0] = (-np.inf, total)
    registers["steps"] = 1
    return KernelState(
        registers=registers,
        jobs=jobs,
        slots=np.empty(blocks * BLOCK, SLOTS),
        blocks=np.empty(blocks, BLOCKS),
        nodes=_make_index(jobs["procs"], blocks),
        plan=np.empty(most_running, PLAN),
        endings=np.empty(2 * most_running, HEAP),  # pyss: ends told late overlap new starts
        instant=np.empty(n, np.int32),
        choices=np.empty(n + n // 8 + 64, HEAP),
        profile=profile,
        ring=np.empty((max(rings, 1), max(memory, 1)), np.float64),
        ring_count=np.zeros(max(rings, 1), np.int64),
        log=np.empty(log_size, LOG),
    )


def _make_index(procs: np.ndarray, leaves: int) -> np.ndarray:
    """Room for the index, and the classes: exact widths where there are few, else about as many jobs in each."""
    nodes, size = leaves, leaves
    while size > 1:
        size = (size + 15) // 16
        nodes += size
    index = np.empty((nodes + 1, ROW))
    widths = np.unique(procs)
    if len(widths) > CLASSES:
        widths = np.unique(np.quantile(procs, np.arange(CLASSES) / CLASSES, method="inverted_cdf"))
    index[0] = np.inf
    index[0, : len(widths)] = widths
    return index


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
