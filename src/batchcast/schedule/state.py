# SPDX-License-Identifier: Apache-2.0
"""The records of the scheduling kernel: settings (`RULES`) and state (`STATE`), with their arrays and heaps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compiled import inlined
from ..compiled.arrays import Record, array_in
from ..records import array_fields, point_to

BLOCK = 16  # slots per block of the queue: one record of minima covers 16 jobs
CLASSES = 8  # classes of width in the index of a long queue
# columns of an index row: candidate keys, head key, number of columns
KEYS, HEAD_KEY, ROW = CLASSES, 2 * CLASSES, 2 * CLASSES + 1
LONG_QUEUE = 1024  # the queue is indexed from this many slots on
GONE = np.int64(1 << 30)  # processors of an empty slot: it never fits

# where `advance` continues
NEXT, OVERDUES, ENDS, SUBMITS, PREDICTED, PASS = range(6)
# why `advance` returned
DONE, NEEDS_PREDICTION, JOB_OVERDUE, LOG_FULL = range(4)
# who plans run times: the caller in advance, an external predictor, or the built-in mean (last_2, recent_mean)
GIVEN, ASKED, RECENT = range(3)
# the kind of backfill
NO_BACKFILL, EASY, CONSERVATIVE = range(3)
# which time is used as run time, in an order's key or for a running job
PLANNED, REQUESTED = range(2)
# order of events at one instant
INSTANT, PYSS = range(2)
# kinds of entries in the log of decisions
LOG_OVERDUE, LOG_END, LOG_START = range(3)

ORDER = (
    ("order", "i8"),
    ("on", "i8"),  # the run time that the order uses: planned or requested
    ("ageing", "f8"),  # how much a queue-order key falls per second of waiting
    ("address", "i8"),  # address of the user's compiled order, see orders.USER
    ("varying", "i8"),  # keys change while jobs wait, and are computed in every pass
)
RULES = np.dtype(
    [  # codes that select branches of the compiled kernel
        *((name, "i8") for name in ("backfill", "event_order", "planner", "correction")),
        *((f"{which}_{name}", kind) for which in ("head", "candidate") for name, kind in ORDER),
        ("running_ends", "i8"),  # when a running job ends in the plan: planned or requested
        ("head_after", "f8"),  # a head that waited longer gets a reservation by requested times; infinity: never
        ("first_after", "f8"),  # jobs that waited longer come before the order, by arrival; infinity: none
        ("due_after", "f8"),  # jobs that wait by this much longer than in the shadow run come first
        ("due_ends", "i8"),  # when an unfinished job ends in the shadow run: requested or planned
        ("risk_budget", "f8"),  # maximum sum of the risks of delaying a reserved job; 0: no risk
        ("refresh", "i8"),  # update the plans of queued jobs when a job of their class ends
        ("ask_overdue", "i8"),  # an external predictor revises the plan of an overdue job
        ("long_queue", "i8"),  # the queue is indexed from this many slots on
    ]
)

ARRAYS = (
    *("jobs", "slots", "blocks", "nodes", "plan", "endings", "instant", "choices", "profile", "log", "memory"),
    *("asides", "tails", "shadow_queue", "shadow_running", "results"),
)

STATE = np.dtype(
    [
        ("origin", "f8"),  # first submission
        ("now", "f8"),
        ("free", "i8"),
        ("phase", "i8"),
        ("job", "i8"),  # the job that the reason for returning concerns
        ("last", "i8"),  # `advance` returns before this job is planned, whoever plans; -1: no such job
        ("answered", "i8"),  # the new plan of this job is in its record
        ("next_submit", "i8"),
        ("tail", "i8"),  # queue: number of used slots
        ("head", "i8"),  # queue: all slots before this slot are empty
        ("waiting", "i8"),
        ("indexed", "i8"),  # queue: the index exists
        ("leaves", "i8"),  # index: nodes of the lowest level
        ("classes_free", "i8"),  # index: classes of width that begin within the free processors ...
        ("classes_extra", "i8"),  # ... and within the extra processors
        ("newest", "i8"),  # slot of the last arrival
        ("running", "i8"),
        ("ending", "i8"),  # size of the heap of ends
        ("sequence", "i8"),  # number of starts
        ("arrived", "i8"),  # submissions since the last pass
        ("dirty", "i8"),  # any other change since the last pass
        ("reserved", "i8"),  # shadow_time and extra_procs belong to the present head
        ("shadow_time", "f8"),
        ("extra_procs", "i8"),
        ("looked_at", "i8"),  # slots and blocks read in searches of heads and candidates: the cost of passes
        ("next_start", "f8"),  # conservative: the earliest reservation of a waiting job
        ("freed_until", "f8"),  # conservative: no processors after this instant were freed since the last moves
        ("ended", "i8"),  # conservative: a job ended since the last pass
        ("rebuild", "i8"),  # conservative: a running job's plan became longer, so all reservations are made again
        ("first_step", "i8"),  # profile: the step that contains now
        ("steps", "i8"),  # profile: number of used steps
        ("instant_first", "i8"),  # zero-length jobs that started at this instant: first and end of the list
        ("instant_end", "i8"),
        ("logged", "i8"),
        ("corrections", "i8"),
        ("shadow_submit", "i8"),  # shadow run: the next job to submit
        ("shadow_waiting", "i8"),
        ("shadow_count", "i8"),
        ("shadow_free", "i8"),
        ("least_due", "f8"),  # no waiting job is due before this instant
        ("aside", "i8"),  # the array `asides` is in use, for a shadow run or for updates of plans
        *array_fields(*ARRAYS),
    ]
)

JOBS = np.dtype(
    [
        # fields that the workload sets
        ("submit", "f8"),
        ("run", "f8"),
        ("request", "f8"),
        ("procs", "i4"),
        ("user_ring", "i4"),  # the built-in planner's ring of the user, -1 for none
        ("alike_ring", "i4"),  # the built-in planner's ring of similar jobs, -1 for none
        # set by the schedule
        ("step", "i2"),  # number of corrections
        ("backfilled", "u1"),
        ("released", "u1"),  # processors are already counted as free (pyss)
        ("first", "f8"),  # first planned run time
        ("planned", "f8"),  # present planned run time
        ("start", "f8"),
    ],
    align=True,
)
"""A record has 64 bytes, one cache line; another field would slow plain EASY by some per cent on a long log."""

ASIDES = np.dtype(
    [
        # per job, only for a shadow run, a risk budget or updates of plans
        ("due", "f8"),  # the job comes first from this instant on; infinity: unknown yet, or never
        ("spent", "f8"),  # sum of the risks that other jobs took while this job had a reservation
        ("until", "f8"),  # the reserved start of the job that this job overtook at a risk
        ("passed", "i4"),  # the job that was overtaken, -1 for none
        ("similar_class", "i4"),  # class whose run times update this job's plan, -1 for none
        ("over", "u1"),  # ended: the run time is known
    ],
    align=True,
)

SLOTS = np.dtype([("procs", "i4"), ("job", "i4"), ("planned", "f8"), ("head_key", "f8"), ("candidate_key", "f8")])
BLOCKS = np.dtype([("procs", "i8"), ("planned", "f8"), ("head_key", "f8")])
STEPS = np.dtype([("time", "f8"), ("free", "i8")])
PLAN = np.dtype([("end", "f8"), ("job", "i4"), ("procs", "i4")])
HEAP = np.dtype([("key", "f8"), ("tie", "i8"), ("item", "i8")])
SHADOW = np.dtype([("end", "f8"), ("known_end", "f8"), ("start", "f8"), ("job", "i4"), ("procs", "i4")])
TAIL = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)  # levels of the quantiles that give a risk
RESULTS = 8  # number of stored run times per class: their count, when each job ended, log of its run time
LOG = np.dtype([("time", "f8"), ("job", "i4"), ("kind", "i4")])


jobs_of = array_in("jobs", JOBS)  # in log order
slots_of = array_in("slots", SLOTS)  # the queue in arrival order, with gaps
blocks_of = array_in("blocks", BLOCKS)  # minima over 16 slots each
nodes_of = array_in("nodes", np.float64, ROW)  # index of a long queue: minima per class of width
plan_of = array_in("plan", PLAN)  # running jobs by planned end
endings_of = array_in("endings", HEAP)  # running jobs by true end
instant_of = array_in("instant", np.int32)  # zero-length jobs that started at this instant
choices_of = array_in("choices", HEAP)  # heap of one pass: candidates by key, or running jobs by requested end
profile_of = array_in("profile", STEPS)  # conservative: free processors over time
asides_of = array_in("asides", ASIDES)
tails_of = array_in("tails", np.float64, len(TAIL))  # quantiles of the predicted run time, else the request
shadow_queue_of = array_in("shadow_queue", np.int32)  # waiting jobs of the shadow run, in arrival order
shadow_running_of = array_in("shadow_running", SHADOW)  # running jobs of the shadow run, by the ends of their limits
results_of = array_in("results", np.float64, 1 + 2 * RESULTS)  # the latest results of each class
log_of = array_in("log", LOG)  # decisions for external predictors


@inlined
def push(heap: Record, count: int, key: float, tie: int | np.int64, item: int) -> int:
    """Add an entry to a heap of `count` entries, the smallest (key, tie) first; return the new count. O(log count)."""
    place = count
    while place > 0:
        parent = (place - 1) >> 1
        above = heap[parent]
        if above.key < key or (above.key == key and above.tie < tie):
            break
        heap[place] = above
        place = parent
    heap[place].key = key
    heap[place].tie = tie
    heap[place].item = item
    return count + 1


@inlined
def pop(heap: Record, count: int) -> int:
    """Remove the first entry of a heap of `count` entries; return the new count. O(log count).

    The gap moves down to a leaf; the last entry fills the gap and moves up (bottom-up heapsort, Wegener 1993). The
    smaller child is chosen by arithmetic, because a processor cannot predict a branch for it.
    """
    last = count - 1
    moved = heap[last]
    place, child = 0, 2
    while child < last:
        left, right = heap[child - 1], heap[child]
        child -= int((left.key < right.key) | ((left.key == right.key) & (left.tie < right.tie)))
        heap[place] = heap[child]
        place = child
        child = 2 * place + 2
    if child == last:
        heap[place] = heap[child - 1]
        place = child - 1
    while place > 0:
        parent = (place - 1) >> 1
        above = heap[parent]
        if above.key < moved.key or (above.key == moved.key and above.tie <= moved.tie):
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = moved
    return last


class Memory(NamedTuple):
    """The record (1,) of a built-in planner (settings and memory), and the arrays to which it points."""

    record: np.ndarray
    arrays: dict[str, np.ndarray]


class KernelState(NamedTuple):
    """The complete state of the kernel, for `advance(state)`. Jobs are in log order; times are in seconds."""

    record: np.ndarray  # STATE (1,)
    rules: np.ndarray  # RULES (1,)
    arrays: dict[str, np.ndarray]  # the arrays to which the record points
    memory: Memory | None  # of the built-in planner

    @property
    def jobs(self) -> np.ndarray:
        """The job records, an array of JOBS with shape (n,)."""
        return self.arrays["jobs"]

    @property
    def log(self) -> np.ndarray:
        """The decisions for external predictors, an array of LOG."""
        return self.arrays["log"]

    def enlarge_log(self) -> None:
        """Double the capacity of the log of decisions, and discard its entries."""
        self.arrays["log"] = np.empty(2 * len(self.log), LOG)
        point_to(self.record, log=self.log)


def make_state(
    jobs: np.ndarray,
    total: int,
    *,
    memory: Memory | None = None,
    log_size: int = 0,
    similar_class: np.ndarray | None = None,
    tails: np.ndarray | None = None,
    **rules: Any,
) -> KernelState:
    """Create the state of an empty machine with `total` processors, before the first submission.

    `jobs` are in log order, and each job must fit on the machine. `rules` sets fields of RULES. `similar_class` (n,)
    has each job's class of similar jobs for the setting `refresh`, -1 for no class. `tails` (n, TAIL) has run-time
    quantiles for `risk_budget`; the default is the requested time, so that backfilling a job carries no risk. The state
    needs about 150 bytes per job, and 64 more for `conservative`.
    """
    n = len(jobs)
    blocks = n // BLOCK + 2
    most_running = min(n, int(total)) + 1
    record, codes = np.zeros(1, STATE), np.zeros(1, RULES)
    record["free"] = record["shadow_free"] = total
    record["origin"] = jobs["submit"][0] if n else 0.0
    record["now"] = record["freed_until"] = -np.inf
    record["next_start"] = record["least_due"] = np.inf
    record["leaves"], record["steps"], record["last"] = blocks, 1, -1
    codes["head_after"] = codes["first_after"] = codes["due_after"] = np.inf
    codes["long_queue"] = LONG_QUEUE
    for name, value in rules.items():
        codes[name] = value
    shadowed, refreshed = bool(np.isfinite(codes["due_after"][0])), bool(codes["refresh"][0])
    risky = bool(codes["risk_budget"][0] > 0)
    record["aside"] = shadowed or refreshed
    conservative = int(codes["backfill"][0]) == CONSERVATIVE
    asides = np.zeros(n if shadowed or refreshed or risky else 1, ASIDES)
    asides["due"], asides["passed"] = np.inf, -1
    if tails is None:
        tails = np.repeat(jobs["request"][:, None], len(TAIL), axis=1) if risky else np.zeros((1, len(TAIL)))
    asides["similar_class"] = similar_class if refreshed and similar_class is not None else -1
    profile = np.empty(4 * n + 4 if conservative else 1, STEPS)
    profile[0] = (-np.inf, total)
    arrays = {
        "jobs": jobs,
        "slots": np.empty(blocks * BLOCK, SLOTS),
        "blocks": np.empty(blocks, BLOCKS),
        "nodes": _make_index(jobs["procs"], blocks),
        "plan": np.empty(most_running, PLAN),
        "endings": np.empty(2 * most_running, HEAP),  # with the pyss order, ends entered late overlap new starts
        "instant": np.empty(n, np.int32),
        "choices": np.empty(n + n // 8 + 64, HEAP),
        "profile": profile,
        "log": np.empty(log_size, LOG),
        "memory": np.zeros(1, np.int64) if memory is None else memory.record,
        "asides": asides,
        "tails": tails,
        "shadow_queue": np.empty(n if shadowed else 1, np.int32),
        "shadow_running": np.empty(most_running if shadowed else 1, SHADOW),
        "results": np.zeros((int(asides["similar_class"].max(initial=-1)) + 1 or 1, 1 + 2 * RESULTS)),
    }
    point_to(record, **arrays)
    return KernelState(record, codes, arrays, memory)


def _make_index(procs: np.ndarray, leaves: int) -> np.ndarray:
    """Allocate the queue index, and choose its width classes: exact widths if few widths occur, else classes of about
    equal counts."""
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
    """Create job records from arrays (n,): not started, without ring buffers of the built-in planner."""
    jobs = np.zeros(len(submit), JOBS)
    jobs["submit"], jobs["procs"], jobs["run"], jobs["request"] = submit, procs, run, request
    jobs["first"] = jobs["planned"] = planned
    jobs["start"] = np.nan
    jobs["user_ring"] = jobs["alike_ring"] = -1
    return jobs
