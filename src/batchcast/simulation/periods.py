# SPDX-License-Identifier: Apache-2.0
"""`simulate_periods`: simulates a log month by month in constant memory.

Each period continues with the queue, the running jobs and the predictor's state of the period before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise
from typing import Any

import numpy as np

from ..compiled import kernel
from ..compiled.arrays import address_of, called_there
from ..errors import UsageError
from ..events.state import SystemState
from ..predict.registry import method_of, parse_spec
from ..predict.runtime.baselines import Last2, RecentMean
from ..schedule import state as pool
from ..schedule.advance import go_on
from ..schedule.orders import learn_recent, recent_memory_of, recent_plan
from ..schedule.state import KernelState, Memory, jobs_of, log_of, make_jobs, make_state
from ..table import Trace
from .clock import DrivenPredictor
from .own_clock import OwnPolicy
from .policies import as_policy
from .policy import Policy
from .schedule import Schedule
from .workload import Rings, Workload, make_workload, requests_of

go_on_there = called_there(go_on)
ELSEWHERE = ("next_submit", "job", "tail", "head", "newest", "indexed", "leaves", "logged", "first_step", "steps",
             "instant_first", "instant_end")  # fmt: skip
"""Fields of the record that are indices into arrays; all other fields are copied unchanged."""


def present_jobs(state: KernelState) -> np.ndarray:
    """Return the numbers of the jobs that wait, run, need a planned run time or are not submitted yet, ascending; all
    other jobs have ended."""
    s, arrays = state.record[0], state.arrays
    running, ending = arrays["plan"]["job"][: s["running"]], arrays["endings"]["item"][: s["ending"]]
    instant = arrays["instant"][s["instant_first"] : s["instant_end"]]
    to_come = np.arange(s["next_submit"], len(state.jobs))
    asked = np.array([s["job"]] if s["phase"] == pool.PREDICTED else [], np.int64)
    return np.unique(np.concatenate([_queued(state)["job"], running, ending, instant, to_come, asked]).astype(np.int64))


def carry_state(
    state: KernelState, present: np.ndarray, new: np.ndarray, total: int, memory: Memory | None
) -> KernelState:
    """Return the kernel's state with only the jobs `present` (see `present_jobs`), followed by the `new` jobs.

    The schedule does not change: jobs, the queue and the running jobs keep their orders. The shadow run (`due_after`),
    updated plans (`refresh`) and quantiles for `risk_budget` are not copied, so policies with these settings are
    rejected. The call takes O(present + new jobs) time.
    """
    s, old = state.record[0], state.arrays
    new_index = np.full(len(state.jobs), -1, np.int64)
    new_index[present] = np.arange(len(present))
    jobs = np.concatenate([state.jobs[present], new])
    rules = {name: state.rules[name][0] for name in state.rules.dtype.names or ()}
    moved = make_state(jobs, total, memory=memory, log_size=len(state.log), **rules)
    arrays = moved.arrays
    for name in pool.STATE.names or ():
        if name not in ELSEWHERE and name.removesuffix("_size") not in arrays:
            moved.record[name] = state.record[name]
    queue = _queued(state)
    waiting = len(queue)
    arrays["slots"][:waiting] = queue
    arrays["slots"]["job"][:waiting] = new_index[queue["job"]]
    arrays["blocks"][: -(-waiting // pool.BLOCK)] = _minima(queue)
    running = old["plan"][: s["running"]]
    arrays["plan"][: len(running)] = running
    arrays["plan"]["job"][: len(running)] = new_index[running["job"]]
    endings = old["endings"][: s["ending"]].copy()
    endings["item"] = new_index[endings["item"]]
    if state.rules["event_order"][0] != pool.PYSS:
        endings["tie"] = endings["item"]
    arrays["endings"][: len(endings)] = endings
    instant = old["instant"][s["instant_first"] : s["instant_end"]]
    arrays["instant"][: len(instant)] = new_index[instant]
    steps = old["profile"][s["first_step"] : s["steps"]]
    arrays["profile"][: len(steps)] = steps
    newest = np.flatnonzero(queue["job"] == old["slots"]["job"][s["newest"]]) if waiting else np.zeros(0, np.int64)
    moved.record["newest"] = newest[0] if len(newest) else 0
    moved.record["tail"], moved.record["instant_end"], moved.record["steps"] = waiting, len(instant), len(steps)
    moved.record["job"] = new_index[s["job"]] if s["phase"] == pool.PREDICTED else 0
    moved.record["next_submit"] = np.searchsorted(present, s["next_submit"])
    return moved


def _queued(state: KernelState) -> np.ndarray:
    """Return the queue's slots that contain a job, in order of arrival."""
    s = state.record[0]
    slots = state.arrays["slots"][s["head"] : s["tail"]]
    live: np.ndarray = slots[slots["procs"] != pool.GONE]
    return live


def _minima(queue: np.ndarray) -> np.ndarray:
    """Return the block minima of a queue without gaps."""
    edges = np.arange(0, len(queue), pool.BLOCK)
    blocks = np.empty(len(edges), pool.BLOCKS)
    for name in pool.BLOCKS.names or ():
        blocks[name] = np.minimum.reduceat(queue[name], edges) if len(edges) else 0
    return blocks


class CompiledPlanner:
    """Plans with requested times, with actual run times (`actual`), or by the compiled `last_2` and `recent_mean`."""

    asks = 0

    def __init__(self, is_oracle: bool = False, rings: Rings | None = None) -> None:
        self.is_oracle = is_oracle
        self.rings = rings

    @property
    def memory(self) -> Memory | None:
        """Return the predictor's memory in the kernel."""
        return self.rings.memory if self.rings is not None else None

    def prepare(self, period: Trace, work: Workload, jobs: np.ndarray, first: int, procs: str) -> None:
        """Plan the new jobs, or assign the ring buffers of their classes."""
        length = np.minimum(work.run, work.request) if self.is_oracle else work.request
        jobs["first"] = jobs["planned"] = np.maximum(length, 1.0)
        if self.rings is not None:
            self.rings.assign(period, work, jobs)

    def keep(self, present: np.ndarray) -> None:
        """Do nothing, because this planner stores no data of single jobs."""

    def go_on(self, state: KernelState, more: bool) -> int:
        """Advance until the kernel returns DONE or LOG_FULL, or with `more` until the last job of the period needs a
        planned run time."""
        scheduler = address_of(go_on, state.record, state.rules)
        last = len(state.jobs) - 1 if more else -1
        return int(follow_period(scheduler, state.record, state.rules, self.rings is not None, last))


class PythonPlanner(DrivenPredictor):
    """Plans with a predictor in Python, with the same steps as `clock.drive`."""

    memory = None

    @property
    def asks(self) -> int:
        """Return 1 if the predictor revises the plans of overdue jobs."""
        return int(hasattr(self.predictor, "revise"))

    def prepare(self, period: Trace, work: Workload, jobs: np.ndarray, first: int, procs: str) -> None:
        """Create the new jobs' requests, numbered by their rows in the whole log."""
        requests, statuses = requests_of(period, work, procs, first + work.rows)
        self.requests += requests
        self.statuses += statuses

    def keep(self, present: np.ndarray) -> None:
        """Drop the requests of jobs that have ended."""
        self.requests = [self.requests[job] for job in present.tolist()]
        self.statuses = [self.statuses[job] for job in present.tolist()]
        self.at.forget()


def planner_of(runtime: Any, trace: Trace, total: int, plan_level: float | None) -> CompiledPlanner | PythonPlanner:
    """Return the planner of a predictor: compiled if `simulate` has a compiled form that needs O(1) memory per class of
    jobs."""
    name = parse_spec(runtime)[0] if isinstance(runtime, str) else ""
    if name in ("requested", "actual"):
        return CompiledPlanner(is_oracle=name == "actual")
    predictor = method_of("runtime", runtime, known_at_submit=trace.info.known_at_submit, max_procs=total)
    if plan_level is None and type(predictor) in (Last2, RecentMean):
        return CompiledPlanner(rings=Rings(predictor))
    return PythonPlanner(predictor, SystemState(float(total)), plan_level)


@kernel
def follow_period(scheduler: int, record: np.ndarray, rules: np.ndarray, remembers: bool, last: int) -> int:
    """Advance until job `last` needs a planned run time, the log of decisions is full or all jobs have ended; learn
    from jobs that end."""
    s = record[0]
    jobs, log = jobs_of(s), log_of(s)
    while True:
        if s.phase == pool.PREDICTED:
            if s.job == last:
                return pool.NEEDS_PREDICTION
            if remembers:
                jobs[s.job].planned = recent_plan(recent_memory_of(s)[0], jobs[s.job])
        reason: int = go_on_there(scheduler, record, rules)
        if remembers:
            for k in range(s.logged):
                if log[k].kind == pool.LOG_END:
                    learn_recent(recent_memory_of(s)[0], jobs[log[k].job])
        s.logged = 0
        if reason != pool.NEEDS_PREDICTION:
            return reason


LOG_SIZE = 1 << 14


def simulate_periods(
    periods: Iterable[Trace],
    policy: Any = None,
    predictor: Any = None,
    *,
    total: float | None = None,
    procs: str = "req",
    wide: str = "drop",
    default_request: float | None = None,
    plan_level: float | None = None,
) -> Iterator[Schedule]:
    """Simulate a log that is read in periods, like `simulate` in closed loop; memory does not grow with the length of
    the log.

    Parameters
    ----------
    periods
        The log in order of submission (`trace.parquet.LogFolder.periods`).
    policy, predictor, total, procs, wide, plan_level
        As in `simulate`. Every start is the same as in a simulation of the whole log at once.
    default_request
        Seconds used to plan jobs without a requested time; for the results of `simulate`, give
        `LogFolder.largest_request`.

    Yields
    ------
    Schedule
        After each period, the jobs that ended since the last yield, in log order. `rows` are rows of the whole log;
        `corrections` and `left_out` also count only since the last yield.

    Raises
    ------
    UsageError
        For settings that need the whole log at once: `wide="widen"`, policies with `due_after`, `risk_budget` or
        `refresh`, and a scheduler of your own.

    Notes
    -----
    The simulation keeps in memory one period, the waiting and running jobs, and the predictor's state. A job takes
    about half a microsecond if the predictor is compiled.

    Examples
    --------
    >>> log = Trace.from_arrays({"submit_time": [0, 0, 1], "run_time": [9, 9, 2], "req_time": [10, 10, 3],
    ...                          "req_procs": [2, 4, 2]})
    >>> [s.start_time.tolist() for s in simulate_periods([log[:2], log[2:]], total=4)]
    [[], [0.0, 9.0, 1.0]]
    """
    plan = as_policy(policy)
    if isinstance(plan, OwnPolicy):
        raise UsageError(f"{plan.name} is a scheduler in Python, which needs the whole log at once",
                         hint="without --in-periods")  # fmt: skip
    runtime = plan.predictor if predictor is None else predictor
    _check(plan, wide)
    run: _Run | None = None
    first, left_out, notes = 0, Counter[str](), list[str]()
    for period, following in pairwise(chain(periods, [None])):
        assert period is not None
        work = make_workload(period, total, procs=procs, wide=wide, kill=plan.kill, default_request=default_request)
        left_out.update(work.left_out)
        notes += work.notes
        if run is None and len(work.rows):
            run = _Run(plan, work.total, planner_of(runtime, period, work.total, plan_level))
        if run is not None:
            run.feed(period, work, first, procs)
            run.go_on(more=following is not None)
            yield run.ended(following is not None, dict(left_out), tuple(notes))
            left_out, notes = Counter(), []
        first += len(period)


def _check(policy: Policy, wide: str) -> None:
    """Reject settings whose state cannot be carried over periods."""
    if wide == "widen":
        raise UsageError("--wide widen needs the whole log at once: its widest job may come last",
                         hint="--procs-total N --wide cut")  # fmt: skip
    for word in ("due_after", "risk_budget", "refresh"):
        if getattr(policy, word) != getattr(Policy(), word):
            raise UsageError(f"a policy with {word} needs the whole log at once: its state is not carried over periods",
                             hint=f"without {word}")  # fmt: skip


class _Run:
    """The kernel's present state, and the rows of its jobs in the whole log."""

    def __init__(self, policy: Policy, total: int, planner: CompiledPlanner | PythonPlanner) -> None:
        self.total = total
        self.planner = planner
        self.rules = {"planner": pool.ASKED, "ask_overdue": planner.asks, **policy.rules()}
        self.state: KernelState | None = None
        self.rows, self.job_id = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.present = np.zeros(0, np.int64)
        self.corrections = 0

    def feed(self, period: Trace, work: Workload, first: int, procs: str) -> None:
        """Add the jobs of a further period, and drop jobs that have ended."""
        if work.total != self.total:
            raise UsageError(f"the machine has {self.total} processors, and {work.total} in a later period")
        new = make_jobs(work.submit, work.procs, work.run, work.request, np.maximum(work.request, 1.0))
        self.planner.keep(self.present)
        self.planner.prepare(period, work, new, first, procs)
        if self.state is None:
            self.state = make_state(new, self.total, memory=self.planner.memory, log_size=LOG_SIZE, **self.rules)
        else:
            self.state = carry_state(self.state, self.present, new, self.total, self.planner.memory)
        self.rows = np.concatenate([self.rows[self.present], first + work.rows])
        self.job_id = np.concatenate([self.job_id[self.present], period.job_id[work.rows]])

    def go_on(self, more: bool) -> None:
        """Advance until the last job of the period needs a planned run time; without `more`, until all jobs have
        ended."""
        assert self.state is not None
        while self.planner.go_on(self.state, more) == pool.LOG_FULL:
            self.state.enlarge_log()

    def ended(self, more: bool, left_out: Mapping[str, int], notes: tuple[str, ...]) -> Schedule:
        """Return the jobs that have ended since the last call; at the end of the log, all remaining jobs."""
        assert self.state is not None
        jobs = self.state.jobs
        self.present = present_jobs(self.state) if more else np.zeros(0, np.int64)
        is_over = np.ones(len(jobs), bool)
        is_over[self.present] = False
        over = jobs[is_over]
        corrections = int(self.state.record["corrections"][0])
        since, self.corrections = self.corrections, corrections
        submit, start, planned = (over[name].copy() for name in ("submit", "start", "first"))
        procs, backfilled = over["procs"].astype(np.int64), over["backfilled"].astype(bool)
        times = (submit, start, start + over["run"], procs, planned, backfilled)
        counts = (self.total, corrections - since, left_out, notes)
        return Schedule(self.rows[is_over], self.job_id[is_over], *times, *counts)
