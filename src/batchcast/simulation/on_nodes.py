# SPDX-License-Identifier: Apache-2.0
"""Simulates a log's jobs on a described machine under Slurm's scheduler.

The simulation assumes values for unknown parts of a request. Jobs can be placed with a different memory than requested,
and `Ordering` orders the queue by predictions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import InputError, UsageError
from ..events.setup import RunSetup
from ..machines.machine import Machine
from ..machines.request import DETAILS, REASONS, MachineRequests, NodeRequest, keys_by_id
from ..planning import order as planning
from ..planning.order import OrderRule
from ..planning.record import OrderBy
from ..predict.batched import quantiles_of, replay
from ..predict.registry import method_of, parse_spec
from ..schedule.slurm.arrays import codes_of
from ..schedule.slurm.simulate import Lengths, Seen, SlurmSchedule, simulate_slurm
from ..table import Trace
from ..table.memory import share_of
from .clock import possible
from .schedule import Schedule

FOUND_EVERY_S = 300.0
"""Maximum interval (s) between updates of an age limit that is found from the queue, and of exchanged priorities."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """How Slurm's queue is ordered: by predictions or by time limits, and under which rule.

    A predictor orders jobs by the 90 % quantile of its prediction, as `batchcast plan` does; a predictor without
    quantiles orders them by its point prediction. Run times (n,), s, may replace a predictor; NaN stands for the job's
    time limit.

    >>> Ordering.of("forecast:last_2").predictor, Ordering.of("forecast").predictor, Ordering.of("none")
    ('last_2', 'kernel', None)
    """

    by: str
    predictor: Any = "kernel"
    rule: OrderRule = field(default_factory=OrderRule)

    @classmethod
    def of(cls, words: str, within: str = "queue", age: float = math.nan) -> Ordering | None:
        """Parse the value of a command's option (none: None); UsageError if the text contains an unknown word."""
        if words == "none":
            return None
        word, _, spec = words.partition(":")
        with suppress(ValueError):
            if (by := OrderBy(word)) is OrderBy.FORECAST or not spec:
                return cls(by, spec or "kernel", OrderRule(within, age))
        raise UsageError(f"order={words}: unknown (accepted: none, forecast, forecast:PREDICTOR, limits)")


def orderable(machine: Machine) -> Machine:
    """Return the machine with priorities that a SiteFactor can change.

    priority/basic becomes priority/multifactor without weights, which keeps the order of arrival.
    """
    if "multifactor" in machine.settings.get("PriorityType", ""):
        return machine
    settings = {k: v for k, v in machine.settings.items() if not k.startswith("PriorityWeight")}
    settings |= {"PriorityType": "priority/multifactor", "PriorityCalcPeriod": "7-00:00:00"}
    return replace(machine, settings=settings)


class QueueOrder:
    """A function that reorders the waiting jobs by `planning.order`; the simulation calls it every 30 s.

    `length` gives the run time by which a job is ordered. Time limits order the jobs without a history, and the jobs of
    users who had too many jobs that ran longer than predicted. `kind` gives jobs of the same user, name and command the
    same number (`kind_of`); jobs with number 0 need no history. If `kind` is None, no job needs a history.
    """

    def __init__(
        self, rule: OrderRule, machine: Machine, requests: Sequence[NodeRequest],
        length: Callable[[NodeRequest], float], kind: Callable[[NodeRequest], int] | None = None,
    ) -> None:  # fmt: skip
        ordered = sorted(requests, key=lambda r: r.submit)
        self._rule, self._finder = rule, planning.AgeFinder(float(machine.cpus))
        self._submit, self._limit, self._run, self._size = (
            np.array([getattr(r, name) for r in ordered], float) for name in ("submit", "limit", "run", "cpus")
        )
        self._length = np.array([length(r) for r in ordered])
        self._by_limit = np.array([rule.length(math.nan, r.limit) for r in ordered])
        self._user = codes_of(r.user for r in ordered)
        self._party = codes_of((r.qos, tuple(sorted(r.partitions))) for r in ordered)
        self._parties = int(self._party.max(initial=0)) + 1
        self._kind = np.array([kind(r) if kind and rule.own_history else 0 for r in ordered], np.int64)
        self._ended = np.zeros(int(self._kind.max(initial=0)) + 1, bool)  # by kind: whether a job of the kind has ended
        self._ended[0] = True
        self._over, self._first = np.zeros(int(self._user.max(initial=0)) + 1, bool), 0
        may_change = rule.most_overrun < 1 or bool(self._kind.any())
        may_change = may_change and bool((self._length < self._by_limit).any())
        self._due = -math.inf if may_change else math.inf  # when users and kinds are updated next
        self._steady = rule.within == "queue" and rule.age == rule.age and not may_change
        self._last: tuple[bytes, np.ndarray, float] = b"", np.zeros(0, np.int64), math.inf

    def __call__(self, seen: Seen) -> tuple[np.ndarray, float]:
        """Return the factors of the waiting jobs, and when the factors may change without a new job."""
        jobs = seen.positions.tobytes() + seen.arrival.tobytes()
        last, factor, crossing = self._last
        # without a new job or a job that has left the queue, no factor changes
        if self._rule.within != "queue" or jobs != last or seen.now >= min(crossing, self._due):
            factor, crossing = self._decide(seen)
            self._last = jobs, factor, crossing
        if self._steady and not np.isnan(seen.arrival).any():
            return factor, crossing
        return factor, min(crossing, seen.now + FOUND_EVERY_S)

    def _decide(self, seen: Seen) -> tuple[np.ndarray, float]:
        """Return the factors, and when the next job reaches the age limit."""
        mine, rule = seen.positions, self._rule
        group = np.where(seen.array >= 0, len(self._size) + seen.array, mine)
        who = seen.user if rule.within == "user" else seen.account
        party = who.astype(np.int64) * self._parties + self._party[mine]
        if seen.now >= self._due:
            self._due = seen.now + planning.OVERRUNS_EVERY_S
            self._look(seen)
        by_limit = self._over[self._user[mine]] | ~self._ended[self._kind[mine]]
        length = np.where(by_limit, self._by_limit[mine], self._length[mine])
        queue = planning.Queue(
            group, seen.arrival, self._size[mine], seen.priority, seen.factor, seen.factor != 0, length, party
        )
        age = rule.age
        if age != age:
            age = self._finder.look(mine.tolist(), seen.arrival, length * queue.size, seen.now)
        order = planning.decide_order(queue, replace(rule, age=age), seen.now)
        coming = seen.arrival[~order.aged] + age
        return order.factor, float(np.fmin.reduce(coming, initial=math.inf)) + 1e-6

    def _look(self, seen: Seen) -> None:
        """Update the users with too many overruns and the kinds with a history, from recently running jobs."""
        recent = slice(self._first, int(np.searchsorted(self._submit, seen.now, side="right")))
        start = seen.start[recent]
        end = start + self._run[recent]
        self._ended[self._kind[recent][end <= seen.now]] = True
        over_long_ago = end < seen.now - planning.OVERRUN_WINDOW
        counts = np.flatnonzero(~np.isnan(start) & ~over_long_ago) + self._first
        still = np.flatnonzero(~over_long_ago)
        self._first += int(still[0]) if len(still) else 0
        elapsed = np.minimum(seen.now - seen.start[counts], self._run[counts])
        columns = (column[counts] for column in (self._length, self._limit, self._size))
        ran = planning.Ran(self._user[counts], elapsed, *columns)
        self._over[:] = False
        self._over[planning.overrunning(ran, self._rule.most_overrun)] = True


SECOND = "+"
"""Suffix of the key of a second attempt."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """MiB per processor of the first and the second attempt of each job (n,); NaN means the memory in the log, or no
    second attempt.

    Jobs without a measured memory peak are placed as requested, because their need is unknown.
    """

    first: np.ndarray
    second: np.ndarray

    def out_of_memory(self, rows: np.ndarray) -> int:
        """Return the number of simulated jobs (`rows`) whose first attempt runs out of memory."""
        return int((~np.isnan(self.second[rows])).sum())

    def unmeasured(self, rows: np.ndarray) -> int:
        """Return the number of simulated jobs (`rows`) that are placed as requested, because their peak is unknown."""
        return int(np.isnan(self.first[rows]).sum())


def plan_of(
    advised: np.ndarray, peak: np.ndarray, requested: np.ndarray, undecided: np.ndarray, share: np.ndarray
) -> MemoryPlan:
    """Plan the attempts with suggested memory `advised` (n,), MiB per node or processor.

    `share` (n,) converts all amounts to MiB per processor. If a job's known `peak` exceeds the suggestion, the first
    attempt runs out of memory. The second attempt then has the user's memory request if that request is sufficient,
    else the suggestion doubled as often as needed. A job with unknown peak has the user's request. A job that ran out
    of memory in the log (`undecided`) runs as recorded.

    >>> plan_of(*map(np.array, ([2.0, 2.0, 8.0], [3.0, 1.0, np.nan], [16.0, 16.0, 16.0], [False] * 3, [1.0] * 3)))
    MemoryPlan(first=array([ 2.,  2., nan]), second=array([16., nan, nan]))
    """
    measured = ~np.isnan(peak) & ~np.isnan(advised)
    short = measured & ~undecided & (peak > advised)
    doublings = np.ceil(np.log2(np.where(short, peak / advised, 2.0)) - 1e-12)
    again = np.where(requested >= peak, requested, advised * 2.0**doublings)
    first = np.where(measured, advised, np.nan) * share
    return MemoryPlan(first, np.where(short, again, np.nan) * share)


def with_second_attempts(requests: Sequence[NodeRequest], plan: MemoryPlan) -> list[NodeRequest]:
    """Return the requests with the plan's memory; if a first attempt runs out of memory, a second attempt depends on
    its failure.

    A first attempt that fails uses its nodes for the whole run time, which is the highest possible cost of the failure.
    """
    first, second = plan.first.tolist(), plan.second.tolist()
    attempts = []
    for r in requests:
        row = int(r.key)
        if first[row] != first[row]:
            attempts.append(r)
            continue
        runs_out = second[row] == second[row]
        attempts.append(replace(r, mem_per_cpu=first[row], fails=r.fails or runs_out))
        if runs_out:
            again = (("afternotok", r.key),)
            attempts.append(replace(r, key=f"{r.key}{SECOND}", mem_per_cpu=second[row], depends=(*r.depends, *again)))
    return attempts


def has_room(machine: Machine, request: NodeRequest) -> bool:
    """Return whether a partition, if empty, has enough processors with the requested memory per processor.

    >>> from batchcast.machines.machine import homogeneous
    >>> machine = homogeneous(2, 4, 1000.0)
    >>> [has_room(machine, NodeRequest("0", 0, 1, tasks=tasks, mem_per_cpu=500.0)) for tasks in (4, 5)]
    [True, False]
    """
    if not request.mem_per_cpu > 0:
        return True
    usable = {group.names: min(float(group.cpus), group.memory_mib // request.mem_per_cpu) for group in machine.nodes}
    for part in filter(None, map(machine.partition, request.partitions or ("",))):
        if sum(each * len({*names} & {*part.nodes}) for names, each in usable.items()) >= request.cpus:
            return True
    return False


def row_of(request: NodeRequest) -> int:
    """Return the row of the log to which an attempt belongs."""
    return int(request.key.removesuffix(SECOND))


def is_superseded(requests: Sequence[NodeRequest], plan: MemoryPlan) -> np.ndarray:
    """Return a mask (n,) of first attempts that ran out of memory; the start and end of such a job come from the second
    attempt."""
    second = ~np.isnan(plan.second)
    return np.array([not r.key.endswith(SECOND) and bool(second[int(r.key)]) for r in requests], bool)


ASSUMED = (
    "Each job is simulated as tasks of one processor on the requested nodes, or on any nodes, with its memory shared"
    " evenly"
)


REFUSED = "rejected at submission: more processors than the requested nodes have, and ended within a second"


def requests_of(trace: Trace, machine: Machine, procs: str = "req") -> tuple[list[NodeRequest], dict[str, int]]:
    """Return the log's jobs as requests, in the order of rows, and the numbers of omitted jobs by reason.

    Unknown parts of a request are assumed (`ASSUMED`): tasks of one processor, any nodes, the partition's default
    memory, the default partition. `RequestsOfLog` adds the other parts of a request. A job ends at its limit at the
    latest. A job that Slurm refused at submission never waits, so it is left out.
    """
    details = RequestsOfLog(trace, machine)
    # a job that ran on more nodes than requested had requested a minimum number of nodes
    more = (trace.number("alloc_nodes") > trace.number("req_nodes")).tolist()
    each = share_of(trace, "req_mem_kib", "processor").tolist()
    # Slurm refused a job with more processors than its nodes can have; if such a job ran, its nodes were a minimum
    at_once = (trace.number("run_time") == 0) & (trace.wait_time == 0)
    refused = (at_once & (trace.procs(procs) > trace.number("req_nodes") * details.requests.most_cpus)).tolist()
    left = dict.fromkeys((*REASONS, REFUSED), 0)
    jobs: list[NodeRequest] = []
    columns = (trace.requests(procs), trace.run_time.tolist(), more, each, refused)
    for job, run, fewest, memory, was_refused in zip(*columns, strict=True):
        if was_refused:
            left[REFUSED] += 1
            continue
        made = details.requests.request(str(job.row), job, run, exact=not fewest, kib_per_proc=memory)
        if isinstance(made, NodeRequest):
            jobs.append(details.complete(job.row, made))
        else:
            left[made] += 1
    return jobs, left


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """Values that replace users' requests in the planning of the queue: memory, planned run times, and an order.

    With `memory`, jobs are placed with a different memory than requested. A job that runs out of memory runs again, and
    its start is the start of the second attempt. Jobs that could never run as requested are left out, so that all plans
    run the same jobs. `lengths` (n,), seconds, replace the limits of waiting jobs (NaN: the limit). Running jobs are
    planned with their own limits, which `batchcast plan` restores. A predictor in place of `lengths` gives the 80 %
    quantiles of its predictions. `order` sets priorities of waiting jobs every 30 s, like `batchcast plan`;
    `OrderRule.length` bounds the predictions.
    """

    memory: MemoryPlan | None = None
    lengths: Any = None
    order: Ordering | None = None


def simulate_on(
    machine: Machine,
    trace: Trace,
    predictor: Any = "requested",
    setup: RunSetup = RunSetup(),
    *,
    queue: QueuePlan = QueuePlan(),
    clock: Callable[[], float] | None = None,
    tick: Callable[[int], None] | None = None,
) -> Schedule:
    """Return the schedule of a log's jobs on the described machine under Slurm's two loops, planned with `predictor`.

    With the predictor `requested`, Slurm plans with time limits; with `actual`, it plans with actual run times. With
    any other predictor (a spec, a class, an object or a factory), it plans with predictions from a replay of the log
    under `setup.protocol`, at most the limit. `queue` replaces parts of the users' requests. Backfill cycles are
    skipped if the queue and the nodes did not change. Raises InputError if no job fits on the machine.
    """
    jobs, left = requests_of(trace, machine, setup.procs)
    if not jobs:
        why = ", ".join(f"{reason} ({count:,} jobs)" for reason, count in left.items() if count)
        raise InputError(f"no job of {trace.info.source} fits the machine: {why}", hint="batchcast machine show FILE")
    if queue.memory is not None:
        fitting = [r for r in jobs if has_room(machine, r)]
        left["with their requested memory they do not fit the machine"] = len(jobs) - len(fitting)
        jobs = with_second_attempts(fitting, queue.memory)
    plan = _plan(trace, machine, predictor, setup)
    reorder: QueueOrder | None = None
    order = queue.order
    if order is not None:
        machine = orderable(machine)
        spec = "requested" if OrderBy(order.by) is OrderBy.LIMITS else order.predictor
        by = _plan(trace, machine, spec, setup, planning.ORDER_QUANTILE)
        rule, kinds = order.rule, _kinds(trace)

        def length(r: NodeRequest) -> float:
            return rule.length(math.nan if by is None else by(r), r.limit)

        reorder = QueueOrder(rule, machine, jobs, length, lambda r: kinds[row_of(r)])
    before = clock() if clock is not None else math.nan
    lengths = None if plan is None else Lengths(plan)
    if queue.lengths is not None:
        shorter = _plan(trace, machine, queue.lengths, setup, planning.LENGTH_QUANTILE)
        if shorter is not None:  # if it is NaN, the job's own time limit, `min` returns the other number
            lengths = Lengths(lambda r: min(math.inf if plan is None else plan(r), shorter(r)), restored=True)
    schedule = simulate_slurm(machine, jobs, lengths=lengths, reorder=reorder, lazy=1, tick=tick)
    took = clock() - before if clock is not None else math.nan
    return _as_schedule(trace, machine, schedule, queue.memory, left, took)


def _kinds(trace: Trace) -> list[int]:
    """Number the jobs by user, name and command; jobs with equal numbers are each other's history. 0 means an unknown
    user."""
    columns = (trace.nominal(name).decode() for name in ("user_id", "job_name", "app_id"))
    keys = (None if row[0] is None else planning.kind_of(*row) for row in zip(*columns, strict=True))
    numbers: list[int] = (codes_of(keys) + 1).tolist()
    return numbers


def _as_schedule(
    trace: Trace, machine: Machine, schedule: SlurmSchedule, memory: MemoryPlan | None, left: Mapping[str, int],
    took: float,
) -> Schedule:  # fmt: skip
    """Return the schedule of the log's jobs by their last attempts, with the numbers of omitted jobs by reason."""
    kept = ~np.isnan(schedule.start)
    rows = np.array([row_of(r) for r in schedule.requests], dtype=np.int64)
    if memory is not None:
        kept &= ~is_superseded(schedule.requests, memory)
    left = {**left, "never started: no node, limit or reservation lets it": len(set(rows.tolist())) - int(kept.sum())}
    order = np.flatnonzero(kept)
    order = order[np.argsort(rows[order], kind="stable")]
    limits, cpus = (np.array([getattr(r, name) for r in schedule.requests]) for name in ("limit", "cpus"))
    limits = np.where(np.isnan(limits), schedule.run, limits)
    notes = [f"{ASSUMED}. {RequestsOfLog(trace, machine).sentence()}"]
    if schedule.left_out:
        notes.append(f"not modelled: {', '.join(schedule.left_out)}")
    if often := int(schedule.preempted.sum()):
        notes.append(f"{often} runs were preempted, which lost {schedule.lost / 3600:,.0f} core-hours")
    columns = (schedule.submit, schedule.start, schedule.start + schedule.run, cpus, limits, schedule.backfilled)
    submit, start, end, procs, planned, backfilled = (column[order] for column in columns)
    jobs = (rows[order], trace.job_id[rows[order]], submit, start, end, procs, planned, backfilled)
    return Schedule(*jobs, machine.cpus, 0, left, tuple(notes), took)


def _plan(
    trace: Trace, machine: Machine, runtime: Any, setup: RunSetup, level: float | None = None
) -> Callable[[NodeRequest], float] | None:
    """Return a function from a request to its predicted run time (point, or quantile at `level`); None means planning
    with limits."""
    if isinstance(runtime, np.ndarray):
        return lambda r: float(runtime[row_of(r)])
    name = parse_spec(runtime)[0] if isinstance(runtime, str) else ""
    if name == "requested":
        return None
    if name == "actual":
        return lambda r: r.run
    size, vouched = float(machine.cpus), trace.info.known_at_submit
    predictor = method_of("runtime", runtime, known_at_submit=vouched, trace=trace, max_procs=size)
    forecasts = replay(trace, {"it": predictor}, protocol=setup.protocol, procs=setup.procs, total=size)
    times = forecasts["it"].points if level is None else quantiles_of(forecasts["it"], level)
    return lambda r: possible(float(times[row_of(r)]), trace.job_id[row_of(r)])


ENDED_WELL = ("completed", None)
_SOON = 2.0  # seconds within which Slurm sets the eligible time of a job without a hold


class RequestsOfLog:
    """Completes the requests of a log's jobs on a machine.

    Features, licenses and partitions that the machine lacks, and dependencies on jobs outside the log, are ignored. A
    job without dependency and throttle becomes eligible at the log's eligible time, at which a hold or a begin time
    ended.
    """

    def __init__(self, trace: Trace, machine: Machine) -> None:
        self.requests = MachineRequests(machine)
        columns = {name: trace.column(name) for name in DETAILS if name in trace.names}
        self._recorded = {k: v.tolist() if isinstance(v, np.ndarray) else v.decode() for k, v in columns.items()}
        self._eligible = trace.number("eligible_time").tolist()
        self._status = trace.nominal("status").decode()
        self._ids = trace.job_id.tolist()
        rows = enumerate(self._ids) if "dependency" in self._recorded else ()
        self._keys = keys_by_id({str(row): job for row, job in rows})
        self._silent = not (self._recorded or trace.job_id.dtype.kind not in "iu" or "eligible_time" in trace.names)

    def complete(self, row: int, request: NodeRequest) -> NodeRequest:
        """Return the request with the details that the log has about the job."""
        if self._silent:
            return request
        said = {name: values[row] for name, values in self._recorded.items()}
        made = self.requests.complete(request, self._ids[row], said, self._keys)
        if self._keys and self._status[row] not in ENDED_WELL:
            made = replace(made, fails=True)
        held = made.depends or made.singleton or made.throttle
        late = self._eligible[row] > request.submit + _SOON and not held
        return replace(made, begin=float(self._eligible[row])) if late else made

    def sentence(self) -> str:
        """Return sentences that name the details that the log has and the details that it lacks."""
        there = [words for name, words in DETAILS.items() if name in self._recorded]
        missing = [words for words in DETAILS.values() if words not in there]
        if not any(e == e for e in self._eligible):
            missing.append("holds and begin times")
        known = f"The log has {', '.join(there)}. " if there else ""
        unknown = f"The log has no {', '.join(missing)}, so the simulation ignores them." if missing else ""
        return f"{known}{unknown}".rstrip()
