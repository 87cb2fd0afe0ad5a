# SPDX-License-Identifier: Apache-2.0
"""The arrays of Slurm's kernels: a machine (site), its jobs, and the state between two instants with its first values.

Each kind of object (nodes, jobs, ...) has one record array, because every array argument costs compile time and call
time.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...compiled import by_address
from ..state import HEAP

FUTURE, QUEUED, RUNNING, DONE, GONE = range(5)  # a job's status
AFTERANY, AFTEROK, AFTERNOTOK = range(3)
END, CANCEL, RELEASE, BEGIN, FIXED, NODE, LEAVE = range(7)  # kinds of events
NONE = -1
INFINITE = 1e18


def _record(whole: str, real: str = "") -> np.dtype[Any]:
    """Return a record type with int64 fields, then float64 fields."""
    return np.dtype([*((name, np.int64) for name in whole.split()), *((name, np.float64) for name in real.split())])


NODE_RECORD = _record("cpus weight features", "memory")
PART_RECORD = _record("tier first loaded preempts cancels", "factor max_time default_time mem_node mem_cpu grace")
QOS_RECORD = _record("rank cancels", "factor jobs user_jobs account_jobs grace exempt")
ASSOC_RECORD = _record("parent is_user", "share jobs own_jobs")
RESERVATION_RECORD = _record("", "begin end every within until")
JOB_RECORD = _record(
    "min_nodes max_nodes tasks per_node per_task cpus then form any_gres licensed barred features exclusive nice array"
    " task throttle partitions qos user account assoc group earlier singleton reservation fails needs_from"
    " fixed_part fixed_from preempts",
    "submit run plan held mem_node mem_cpu begin release cancel fixed",
)
JOB_STATE = _record(
    "status part backfilled head position ending runs first_out listed",
    "start began planned eligible accrued sized due leaves_at preempted rank",
)
NODE_STATE = _record(
    "used_cpus exclusive_jobs node_jobs tmp_cpus tmp_exclusive tmp_jobs stamp free trial listed chosen allocated asks"
    " head set_from set_to set_cpus set_nodes",
    "used_memory tmp_memory booked",
)
ASSOC_STATE = _record("jobs siblings", "usage recent fair level")
POOL_RECORD = _record("node cpus next job next_on_node", "memory end")
SHAPE_RECORD = _record("refused cycle fits", "length")
SLOT_RECORD = _record("next room same rises", "begin end")
QUEUE_RECORD = _record("job part", "tier order")
ACTIVE_RECORD = _record("job", "end")
DOWN_RECORD = _record("node", "begin end")
LIST_RECORD = _record("special due victim")
PART_STATE = _record("failed part_tests idle_pass idle_cpus")
OUT_RECORD = _record("job node cpus")
REGISTERS = _record(
    "",
    "now submitted queue running pool freed sequence pass_due last full cycle polls first_poll decay prio_now slots"
    " tests heap out allocated dirty special quiet first passes stamp grown total count same spare_slot lost",
)


@by_address
class Site(
    namedtuple(
        "Site",
        "node gres part inside members qos qos_tres qos_user_tres qos_account_tres qos_job_tres assoc"
        " assoc_tres assoc_job_tres billing tres_weight part_tres licenses reservation reserved alike sample",
    )
):
    """The arrays of a machine: nodes in order, P partitions, Q QOS, associations, V reservations, G kinds of GRES.

    Sets of nodes are bits of W int64 words: `inside` (P, W), `reserved` (V, W); `features` are bits too. TRES are
    processors, nodes, memory in MiB and the G GRES; INFINITE means no limit. `billing` (P, TRES) has the weights of
    TRES in usage; `tres_weight` has the priority weights of a job's share of `part_tres` (P, TRES). The `parent` of an
    association is the next association towards the root; `share` is relative to siblings. The table `part` of
    partitions has one more record, which marks the end of the last partition's nodes in `members`.
    """


@by_address
class Jobs(namedtuple("Jobs", "row gres licenses needs needs_kind fixed_node fixed_cpus")):
    """Requests in order of submission, as in `machines.request`; -1 means that a resource is not requested. One extra
    record at the end stores where the last request's entries end.

    `plan` is the planned run time of a waiting job: the time limit, or a shorter prediction; `held` is the planned run
    time of a running job. The dependencies of a job begin at `needs[needs_from]` and end where the next record's
    dependencies begin. A job with `fixed` below INFINITE starts at `fixed` on the nodes from `fixed_node[fixed_from]`
    on, whatever the scheduler decides.
    """


@by_address
class Rules(NamedTuple):
    """Scheduler settings, with the names and defaults of slurm.conf; times are in seconds."""

    fifo: int = 0
    multifactor: int = 0
    enforce: int = 0
    sched_interval: float = 60.0
    batch_sched_delay: float = 3.0
    default_queue_depth: int = 100
    poll: float = 1.0
    bf_interval: float = 30.0
    bf_resolution: int = 60
    bf_window: int = 1440 * 60
    bf_max_job_test: int = 500
    bf_max_job_user: int = 0
    bf_max_job_part: int = 0
    bf_max_job_array_resv: int = 20
    bf_min_prio_reserve: float = -INFINITE
    bf_min_age_reserve: float = 0.0
    test_length: float = 0.0
    half_life: float = 7 * 86400.0
    calc_period: float = 300.0
    max_age: float = 7 * 86400.0
    w_age: float = 0.0
    w_fairshare: float = 0.0
    w_jobsize: float = 0.0
    w_partition: float = 0.0
    w_qos: float = 0.0
    machine_cpus: float = 1.0
    sizes_matter: int = 0
    reorder_count: int = 1
    youngest: int = 0
    requeue_delay: float = 120.0
    preempt_wait: float = 40.0
    lazy: int = 0
    since: float = -INFINITE
    until: float = INFINITE


@by_address
class State(
    namedtuple(
        "State",
        "reg job node used_gres tmp_gres pool bits queue spare active group_sequence array_running"
        " array_planned array_pass shape qos qos_user_jobs qos_account_jobs qos_tres qos_user_tres"
        " qos_account_tres licenses assoc assoc_tres stack part slot slot_free slot_ready marks user_tests"
        " order heap down list out",
    )
):
    """The state that changes: registers, jobs, nodes, allocations, the ordered queue, counts, tables, scratch arrays.

    `active` has the running jobs by planned end; `bits` (sets, W) has sets of nodes. `slot` is backfill's table of free
    nodes over time: `slot_free` (slots, W) has the nodes without a booking in a slot, `slot_ready` the nodes that have
    free processors by the slot's end. `array_planned` (arrays, P) counts the bookings of a job array in a pass, or
    marks that the pass has refused the array.
    """


# rows of State.bits, sets of nodes: up; with free processors; allowed in the present step; without bookings; with
# enough processors for a job; booked by the job; not blocked in a pass; sufficient for a backfill candidate
UP, IDLE, MASK, SEEN, RICH, MINE, OPEN, WITNESS, SETS = range(9)


MOST_SLOTS = 2048


def records(kind: Any, **columns: Any) -> np.ndarray:
    """Return a record array with the given columns."""
    return filled(kind, len(next(iter(columns.values()))), **columns)


def filled(kind: Any, count: int, **columns: Any) -> np.ndarray:
    """Return a record array of shape (count,) with the given columns or constants; all other columns are 0."""
    table = np.zeros(count, kind)
    for name, values in columns.items():
        table[name] = values
    return table


def codes_of(values: Iterable[Any], without: Any = None) -> np.ndarray:
    """Number the values in order of occurrence; the value `without` has the number NONE."""
    known: dict[Any, int] = {}
    return np.array([NONE if v == without else known.setdefault(v, len(known)) for v in values], np.int64)


def bit_sets(groups: Sequence[Sequence[Any]], bit_of: Mapping[Any, int]) -> np.ndarray:
    """Return sets of named nodes as bits (sets, words)."""
    inside = np.zeros((len(groups), (len(bit_of) + 63) // 64 * 64), bool)
    for k, names in enumerate(groups):
        inside[k, [bit_of[name] for name in names if name in bit_of]] = True
    return np.packbits(inside, axis=1, bitorder="little").view(np.int64)


@dataclass(frozen=True, slots=True)
class Phases:
    """Observed times of a backfill cycle, a priority update and a controller's poll; None if unknown."""

    cycle: float | None = None
    decay: float | None = None
    second: float | None = None


def make_state(
    site: Site,
    jobs: Jobs,
    rules: Rules,
    phases: Phases = Phases(),
    *,
    down: Sequence[tuple[int, float, float]] = (),
    placements: int = 0,
) -> State:
    """Create a state before the first submission, with room for `placements` rows of allocated nodes."""
    n, nodes, width = len(jobs.row) - 1, len(site.node), site.inside.shape[1]
    parts, kinds, assoc = len(site.part) - 1, site.gres.shape[1], len(site.assoc)
    row, qos, users = jobs.row[:-1], len(site.qos), int(jobs.row["user"].max()) + 1
    arrays, tres = int(row["array"].max(initial=-1)) + 1, 3 + kinds
    accounts = int(jobs.row["account"].max()) + 1
    # Each booking splits at most two records of backfill's table.
    slots = min(2 * rules.bf_max_job_test + 2, MOST_SLOTS)
    # slurmctld's times are whole seconds.
    first = float(int(row["submit"].min())) if n else 0.0
    changes = [*down, *turns(site.reservation, float(row["submit"].max(initial=0.0)))]
    pairs = int(np.bitwise_count(row["partitions"]).sum()) + 64
    events = _events(row, changes, first)
    gives_way = site.part["preempts"].any() or row["preempts"].any()  # a preempted job can run several times
    room = len(events) + (4 if gives_way else 1) * n + 8
    heap = np.zeros(room, HEAP)
    heap[: len(events)] = np.array(events, HEAP)
    shape = np.full((int(row["form"].max(initial=0)) + 1, parts), np.array((-1, -1, -1, 0.0), SHAPE_RECORD))
    sets = np.zeros((SETS, width), np.int64)
    sets[IDLE] = sets[UP] = bit_sets([range(nodes)], {i: i for i in range(nodes)})[0]
    job = filled(JOB_STATE, n, part=NONE, head=NONE, start=np.nan, eligible=-1, sized=row["cpus"])
    # Times that are not known yet lie beyond every time, so that comparisons need no flag.
    job["accrued"], job["leaves_at"], job["preempted"] = INFINITE, INFINITE, -INFINITE
    return State(
        _registers(rules, phases, first, len(events)), job, filled(NODE_STATE, nodes + 1, head=NONE, booked=INFINITE),
        np.zeros((nodes, kinds), np.int64), np.zeros((nodes, kinds), np.int64),
        np.zeros(int(site.node["cpus"].sum()) + n + 1, POOL_RECORD), sets, np.zeros(pairs, QUEUE_RECORD),
        np.zeros(pairs, QUEUE_RECORD),
        np.zeros(n + 1, ACTIVE_RECORD), np.full(n + 1, -1.0), np.zeros(arrays, np.int64),
        np.zeros((arrays, parts), np.int64), np.zeros((arrays, parts), np.int64), shape,
        np.zeros(qos, ASSOC_STATE), np.zeros((qos, users), np.int64), np.zeros((qos, accounts), np.int64),
        np.zeros((qos, tres)), np.zeros((qos, users, tres)), np.zeros((qos, accounts, tres)),
        np.zeros(len(site.licenses)), filled(ASSOC_STATE, 2 * assoc + 2, fair=1.0), np.zeros((assoc, tres)),
        np.zeros((assoc + 2, 2), np.int64), np.zeros(parts, PART_STATE), np.zeros(slots, SLOT_RECORD),
        np.zeros((slots, width), np.int64), np.zeros((slots, width), np.int64), np.zeros(n // 64 + 2, np.int64),
        np.zeros(users, np.int64), np.argsort(row["submit"], kind="stable"), heap,
        np.array([tuple(c) for c in changes], DOWN_RECORD), np.zeros(room, LIST_RECORD),
        np.zeros(placements, OUT_RECORD),
    )  # fmt: skip


def _registers(rules: Rules, phases: Phases, first: float, events: int) -> np.ndarray:
    """Return the initial registers; the first submission is at `first`, and periodic events of unknown phase begin at
    that time."""
    second = 0.5 if phases.second is None else phases.second
    reg = filled(REGISTERS, 1, freed=NONE, last=-INFINITE, full=first, now=first - 1, prio_now=first, heap=events)
    reg["first_poll"] = first + (second - first) % rules.poll
    reg["cycle"] = _phase(phases.cycle, first, rules.bf_interval)
    reg["decay"] = _phase(phases.decay, first, rules.calc_period)
    return reg


def _events(row: np.ndarray, down: Sequence[tuple[int, float, float]], first: float) -> list[tuple[float, int, int]]:
    """Return cancellations, releases, begin times, recorded starts and node changes, as events sorted by time."""
    events = []
    for name, kind in (("cancel", CANCEL), ("release", RELEASE), ("begin", BEGIN), ("fixed", FIXED)):
        places = np.flatnonzero((row[name] >= first) & (row[name] < INFINITE))
        events += [(float(row[name][j]), kind, int(j)) for j in places]
    for k, (_, a, b) in enumerate(down):
        events += [(float(at), NODE, k) for at in (a, b) if at < INFINITE]
    return sorted(events)


def _phase(at: float | None, first: float, period: float) -> float:
    """Return the first instant of a periodic event that is not before `first`; None means an unknown phase."""
    return first if at is None else at + math.ceil((first - at) / period) * period


AFTER = 14 * 86400.0


def turns(reservations: np.ndarray, last: float) -> list[tuple[int, float, float]]:
    """Return begin and end of all occurrences of the reservations until two weeks after the submission `last`."""
    found = []
    for r in reservations:
        latest = min(last + AFTER, r["until"])
        count = max(math.ceil((latest - r["begin"]) / r["every"]), 1) if r["every"] > 0 else 1
        # An event of the node NONE changes no node: it only lets the loops look at the queue again, because jobs may
        # use the nodes of a reservation from its end on.
        found += [(NONE, r["begin"] + k * r["every"], r["end"] + k * r["every"]) for k in range(count)]
    return found
