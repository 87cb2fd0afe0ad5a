# SPDX-License-Identifier: Apache-2.0
"""The arrays of Slurm's kernels: a machine (site), its jobs, and the state between two instants.

Each kind of object (nodes, jobs, ...) has one record array, because every array argument costs compile time and call
time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...compiled import by_address

FUTURE, QUEUED, RUNNING, DONE, GONE = range(5)  # a job's status
AFTERANY, AFTEROK, AFTERNOTOK = range(3)
NONE = -1
FAR = 1e18


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
    "status part backfilled head place ending runs first_out listed",
    "start began planned ended eligible accrued sized due leaves_at preempted rank",
)
NODE_STATE = _record(
    "used_cpus exclusive_jobs node_jobs tmp_cpus tmp_exclusive tmp_jobs stamp free trial listed chosen taken asks head"
    " set_from set_to set_cpus set_nodes",
    "used_memory tmp_memory booked",
)
ASSOC_STATE = _record("jobs siblings", "usage recent fair level")
POOL_RECORD = _record("node cpus next job beside", "memory end")
SHAPE_RECORD = _record("refused cycle fits", "length")
SLOT_RECORD = _record("next room same rises", "begin end")
QUEUE_RECORD = _record("job part", "tier order")
ACTIVE_RECORD = _record("job", "end")
HEAP_RECORD = _record("kind what", "time")
DOWN_RECORD = _record("node", "begin end")
LIST_RECORD = _record("special due victim")
PART_STATE = _record("failed part_tests idle_pass idle_cpus")
OUT_RECORD = _record("job node cpus")
REGISTERS = _record(
    "",
    "now submitted queue running pool freed sequence asked last full cycle polls first_poll decay prio_now slots tests"
    " heap out taken dirty special quiet first passes stamp grown total count same spare_slot lost",
)


@by_address
class Site(NamedTuple):
    """The arrays of a machine: nodes in order, P partitions, Q QOS, associations, V reservations, G kinds of GRES.

    Sets of nodes are bits of W int64 words: `inside` (P, W), `reserved` (V, W); `features` are bits too. TRES are
    processors, nodes, memory in MiB and the G GRES; FAR means no limit. `billing` (P, TRES) has the weights of TRES in
    usage; `tres_weight` has the priority weights of a job's share of `part_tres` (P, TRES). The `parent` of an
    association is the next association towards the root; `share` is relative to siblings. The table `part` of
    partitions has one more record, which marks the end of the last partition's nodes in `members`.
    """

    node: Any
    gres: Any
    part: Any
    inside: Any
    members: Any
    qos: Any
    qos_tres: Any
    qos_user_tres: Any
    qos_account_tres: Any
    qos_job_tres: Any
    assoc: Any
    assoc_tres: Any
    assoc_job_tres: Any
    billing: Any
    tres_weight: Any
    part_tres: Any
    licenses: Any
    reservation: Any
    reserved: Any
    alike: Any
    sample: Any


@by_address
class Jobs(NamedTuple):
    """Requests in order of submission, as in `machines.request`; -1 means that a resource is not requested. One extra
    record at the end stores where the last request's entries end.

    `plan` is the planned run time of a waiting job: the time limit, or a shorter prediction; `held` is the planned run
    time of a running job. The dependencies of a job begin at `needs[needs_from]` and end where the next record's
    dependencies begin. A job with `fixed` below FAR starts at `fixed` on the nodes from `fixed_node[fixed_from]` on,
    whatever the scheduler decides.
    """

    row: Any
    gres: Any
    licenses: Any
    needs: Any
    needs_kind: Any
    fixed_node: Any
    fixed_cpus: Any


@by_address
class Rules(NamedTuple):
    """Scheduler settings, with the names of slurm.conf; times are in seconds."""

    fifo: int
    multifactor: int
    enforce: int
    sched_interval: float
    batch_sched_delay: float
    queue_depth: int
    poll: float
    bf_interval: float
    bf_resolution: int
    bf_window: int
    bf_max_job_test: int
    bf_max_job_user: int
    bf_max_job_part: int
    bf_max_job_array_resv: int
    bf_min_prio_reserve: float
    bf_min_age_reserve: float
    test_length: float
    half_life: float
    calc_period: float
    max_age: float
    w_age: float
    w_fairshare: float
    w_size: float
    w_partition: float
    w_qos: float
    machine_cpus: float
    sizes_matter: int
    reorder_count: int
    youngest: int
    requeue_delay: float
    preempt_wait: float
    lazy: int
    since: float
    until: float


@by_address
class State(NamedTuple):
    """The state that changes: registers, jobs, nodes, allocations, the ordered queue, counts, tables, scratch arrays.

    `active` has the running jobs by planned end; `bits` (sets, W) has sets of nodes. `slot` is backfill's table of free
    nodes over time: `slot_free` (slots, W) has the nodes without a booking in a slot, `slot_ready` the nodes that have
    free processors by the slot's end. `array_planned` (arrays, P) counts the bookings of a job array in a pass, or
    marks that the pass has refused the array.
    """

    reg: Any
    job: Any
    node: Any
    used_gres: Any
    tmp_gres: Any
    pool: Any
    bits: Any
    queue: Any
    spare: Any
    active: Any
    group_sequence: Any
    array_running: Any
    array_planned: Any
    array_pass: Any
    shape: Any
    qos: Any
    qos_user_jobs: Any
    qos_account_jobs: Any
    qos_tres: Any
    qos_user_tres: Any
    qos_account_tres: Any
    licenses: Any
    assoc: Any
    assoc_tres: Any
    stack: Any
    part: Any
    slot: Any
    slot_free: Any
    slot_ready: Any
    marks: Any
    user_tests: Any
    order: Any
    heap: Any
    down: Any
    list: Any
    out: Any


# rows of State.bits, sets of nodes: up; with free processors; allowed in the present step; without bookings; with
# enough processors for a job; booked by the job; not blocked in a pass; sufficient for a backfill candidate
UP, IDLE, MASK, SEEN, RICH, MINE, OPEN, WITNESS, SETS = range(9)
