# SPDX-License-Identifier: Apache-2.0
"""The scheduling kernel's two records: its settings (`RULES`) and its state (`STATE`), with their arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..compiled.arrays import Record, array_in
from ..records import array_fields, point_to

BLOCK = 16  # slots per block of the queue: one entry of minima stands for 16 jobs
CLASSES = 8  # of width, in the index of a long queue
# where a row of it has its candidate keys and head key
KEYS, HEAD_KEY, ROW = CLASSES, 2 * CLASSES, 2 * CLASSES + 1
LONG_QUEUE = 1024  # slots from which on the queue is indexed
GONE = np.int64(1 << 30)  # processors of an empty slot: never fits

# where `advance` goes on
NEXT, OVERDUES, ENDS, SUBMITS, PREDICTED, PASS = range(6)
# why `advance` came back
DONE, NEEDS_PREDICTION, JOB_OVERDUE, LOG_FULL = range(4)
# who plans: the caller beforehand, a predictor outside, or one built in: the mean of recent jobs (last_2, recent_mean)
GIVEN, ASKED, RECENT = range(3)
# who decides
NO_BACKFILL, EASY, CONSERVATIVE = range(3)
# which length counts: the planned one or the requested one (of an order's key; of a running job)
PLANNED, REQUESTED = range(2)
# in which order the events of one instant come
INSTANT, PYSS = range(2)
# what the log of decisions holds
LOG_OVERDUE, LOG_END, LOG_START = range(3)

RULES = np.dtype(
    [  # codes that select branches of the one kernel
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
        ("first_after", "f8"),  # who waited longer goes before the order, by arrival; infinity: nobody
        ("due_after", "f8"),  # who waits so much longer than in a shadow run of EASY goes first; infinity: nobody
        ("due_ends", "i8"),  # what ends, in that shadow run, a job that has not ended: requested or planned
        ("risk_budget", "f8"),  # what chances of holding up a job reserved for by requests may add up to; 0: none
        ("refresh", "i8"),  # queued jobs are planned anew when one of their class ends
        ("ask_overdue", "i8"),  # a predictor outside revises the plan of an overdue job
        ("long_queue", "i8"),  # slots from which on the queue is indexed
    ]
)

ARRAYS = (
    "jobs",
    "slots",
    "blocks",
    "nodes",
    "plan",
    "endings",
    "instant",
    "choices",
    "profile",
    "log",
    "memory",
    "asides",
    "tails",
    "shadow_queue",
    "shadow_running",
    "results",
)

STATE = np.dtype(
    [
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
        ("shadow_submit", "i8"),  # shadow: the next job to be submitted there
        ("shadow_waiting", "i8"),
        ("shadow_count", "i8"),
        ("shadow_free", "i8"),
        ("least_due", "f8"),  # no waiting job is due before
        ("aside", "i8"),  # what few policies need is kept: a shadow run, or plans made anew
        *array_fields(*ARRAYS),
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
"""64 bytes, a line of the processor's cache: one more field costs plain EASY some hundredths on a long log."""

ASIDES = np.dtype(
    [
        # of each job what only a shadow run, a risk budget or planning anew needs
        ("due", "f8"),  # goes first from then on; infinity: not known yet, or never
        ("spent", "f8"),  # chances of being held up that were taken while it was reserved for
        ("until", "f8"),  # when it was to start, the reserved job that this one passed at a risk
        ("passed", "i4"),  # that job, -1 none
        ("like", "i4"),  # its class, whose results plan it anew, -1 none
        ("over", "u1"),  # ended: its run time is known
    ],
    align=True,
)

SLOTS = np.dtype(
    [
        ("procs", "i4"),
        ("job", "i4"),
        ("planned", "f8"),
        ("head_key", "f8"),
        ("candidate_key", "f8"),
    ]
)
BLOCKS = np.dtype([("procs", "i8"), ("planned", "f8"), ("head_key", "f8")])
STEPS = np.dtype([("time", "f8"), ("free", "i8")])
PLAN = np.dtype([("end", "f8"), ("job", "i4"), ("procs", "i4")])
HEAP = np.dtype([("key", "f8"), ("tie", "i8"), ("item", "i8")])
SHADOW = np.dtype(
    [("limit_end", "f8"), ("end", "f8"), ("begun", "f8"), ("job", "i4"), ("procs", "i4")]
)  # fmt: skip
TAIL = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)  # levels of the quantiles that a risk is read off
RESULTS = 8  # of a class are kept: how many there were, when each ended, its log seconds
LOG = np.dtype([("time", "f8"), ("job", "i4"), ("kind", "i4")])


jobs_of = array_in("jobs", JOBS)  # in log order
slots_of = array_in("slots", SLOTS)  # the queue in arrival order, with gaps
blocks_of = array_in("blocks", BLOCKS)  # minima over 16 slots each
nodes_of = array_in("nodes", np.float64, ROW)  # the index, minima per class of width, while the queue is long
plan_of = array_in("plan", PLAN)  # running jobs by planned end
endings_of = array_in("endings", HEAP)  # jobs by true end
instant_of = array_in("instant", np.int32)  # zero-length jobs of this instant
choices_of = array_in("choices", HEAP)  # of one pass: candidates by key, running jobs by requested end
profile_of = array_in("profile", STEPS)  # conservative: free processors over time
asides_of = array_in("asides", ASIDES)
tails_of = array_in("tails", np.float64, len(TAIL))  # quantiles of each job's forecast, its request where unknown
shadow_queue_of = array_in("shadow_queue", np.int32)  # what waits in the shadow, in arrival order
shadow_running_of = array_in("shadow_running", SHADOW)  # what runs there, by the ends of limits
results_of = array_in("results", np.float64, 1 + 2 * RESULTS)  # the last results of each class
log_of = array_in("log", LOG)  # decisions for predictors outside


def memory_as(dtype: np.dtype) -> Callable[[Record], Any]:
    """How a planner built into the kernel gets its own record (1,) of this dtype out of the state."""
    return array_in("memory", dtype)


class Memory:
    """A built-in planner's record, settings and memory, and the arrays that it points to."""

    def __init__(self, dtype: np.dtype, settings: Mapping[str, float], **arrays: np.ndarray) -> None:
        self.record = np.zeros(1, dtype)
        self.arrays = arrays
        for name, value in settings.items():
            self.record[name] = value
        point_to(self.record, **arrays)


class KernelState(NamedTuple):
    """Everything the kernel knows: `advance(state)`. Jobs are in log order; times are seconds."""

    record: np.ndarray  # STATE (1,)
    rules: np.ndarray  # RULES (1,)
    arrays: dict[str, np.ndarray]  # what the record points to
    memory: Memory | None  # of the built-in planner

    @property
    def jobs(self) -> np.ndarray:
        """JOBS (n,)."""
        return self.arrays["jobs"]

    @property
    def log(self) -> np.ndarray:
        """LOG: decisions for predictors outside."""
        return self.arrays["log"]

    def enlarge_log(self) -> None:
        """Room for twice the decisions; those noted are forgotten."""
        self.arrays["log"] = np.empty(2 * len(self.log), LOG)
        point_to(self.record, log=self.log)


def make_state(
    jobs: np.ndarray,
    total: int,
    *,
    memory: Memory | None = None,
    log_size: int = 0,
    like: np.ndarray | None = None,
    tails: np.ndarray | None = None,
    **rules: Any,
) -> KernelState:
    """A machine of `total` processors, empty, before the first submission; `jobs` in log order, each fitting it.

    `rules` are those of RULES by name; `memory` is that of a planner built in, `like` (n,) the class of each job for
    `refresh`, -1 none; `tails` (n, TAIL) quantiles for `risk_budget`, by default the request, of which nothing is a
    risk. O(n) memory: about 150 bytes a job, 64 more for `conservative`.
    """
    n = len(jobs)
    blocks = n // BLOCK + 2
    most_running = min(n, int(total)) + 1
    record, codes = np.zeros(1, STATE), np.zeros(1, RULES)
    record["free"] = total
    record["now"] = -np.inf
    record["origin"] = jobs["submit"][0] if n else 0.0
    codes["head_after"] = codes["first_after"] = codes["due_after"] = record["next_start"] = np.inf
    record["least_due"], record["shadow_free"] = np.inf, total
    record["freed_until"] = -np.inf
    codes["long_queue"] = LONG_QUEUE
    record["leaves"] = blocks
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
    asides["like"] = like if refreshed and like is not None else -1
    profile = np.empty(4 * n + 4 if conservative else 1, STEPS)
    profile[0] = (-np.inf, total)
    record["steps"] = 1
    arrays = {
        "jobs": jobs,
        "slots": np.empty(blocks * BLOCK, SLOTS),
        "blocks": np.empty(blocks, BLOCKS),
        "nodes": _make_index(jobs["procs"], blocks),
        "plan": np.empty(most_running, PLAN),
        "endings": np.empty(2 * most_running, HEAP),  # pyss: ends noted late overlap new starts
        "instant": np.empty(n, np.int32),
        "choices": np.empty(n + n // 8 + 64, HEAP),
        "profile": profile,
        "log": np.empty(log_size, LOG),
        "memory": np.zeros(1, np.int64) if memory is None else memory.record,
        "asides": asides,
        "tails": tails,
        "shadow_queue": np.empty(n if shadowed else 1, np.int32),
        "shadow_running": np.empty(most_running if shadowed else 1, SHADOW),
        "results": np.zeros((int(asides["like"].max(initial=-1)) + 1 or 1, 1 + 2 * RESULTS)),
    }
    point_to(record, **arrays)
    return KernelState(record, codes, arrays, memory)


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
    submit: np.ndarray,
    procs: np.ndarray,
    run: np.ndarray,
    request: np.ndarray,
    planned: np.ndarray,
) -> np.ndarray:
    """Job records from arrays (n,), not yet started, without native memory."""
    jobs = np.zeros(len(submit), JOBS)
    jobs["submit"], jobs["procs"], jobs["run"], jobs["request"] = (
        submit,
        procs,
        run,
        request,
    )
    jobs["first"] = jobs["planned"] = planned
    jobs["start"] = np.nan
    jobs["user_ring"] = jobs["alike_ring"] = -1
    return jobs
