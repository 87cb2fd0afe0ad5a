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

from ..errors import UsageError
from ..events.setup import RunSetup
from ..events.state import SystemState
from ..predict.registry import method_of, parse_spec
from ..schedule import state as pool
from ..schedule.advance import advance
from ..schedule.queue import compact
from ..schedule.state import KernelState, Memory, make_jobs, make_state
from ..table import Trace
from .clock import DrivenPredictor
from .own_clock import OwnPolicy
from .policies import as_policy
from .policy import Policy
from .schedule import Schedule, schedule_of
from .workload import Rings, Workload, make_workload, requests_of

ELSEWHERE = ("next_submit", "job", "newest", "indexed", "leaves", "logged")
"""Fields of the record that depend on the numbers of jobs and slots; except the ends of arrays, all other fields are
copied unchanged."""
USED_PARTS = {"slots": ("head", "tail"), "plan": ("", "running"), "endings": ("", "ending"),
        "instant": ("instant_first", "instant_end"), "profile": ("first_step", "steps")}  # fmt: skip
"""Arrays whose used part is carried over, and the record's fields with its first index (empty: 0) and its end."""


def used_parts(state: KernelState) -> dict[str, np.ndarray]:
    """Return a copy of the used part of each array; of the queue, the slots that contain a job, in order of arrival."""
    s = state.record[0]
    parts = {
        name: state.arrays[name][s[first] if first else 0 : s[end]].copy() for name, (first, end) in USED_PARTS.items()
    }
    return {**parts, "slots": parts["slots"][parts["slots"]["procs"] != pool.GONE]}


def present_jobs(state: KernelState) -> np.ndarray:
    """Return the numbers of the jobs that wait, run, need a planned run time or are not submitted yet, ascending; all
    other jobs have ended."""
    s, parts = state.record[0], used_parts(state)
    to_come = np.arange(s["next_submit"], len(state.jobs))
    asked = np.array([s["job"]] if s["phase"] == pool.PREDICTED else [], np.int64)
    there = (parts["slots"]["job"], parts["plan"]["job"], parts["endings"]["item"], parts["instant"], to_come, asked)
    return np.unique(np.concatenate(there).astype(np.int64))


def carry_state(
    state: KernelState, present: np.ndarray, new: np.ndarray, total: int, memory: Memory | None
) -> KernelState:
    """Return the kernel's state with only the jobs `present` (see `present_jobs`), followed by the `new` jobs.

    The schedule does not change: jobs, the queue and the running jobs keep their orders. The shadow run (`due_after`),
    updated plans (`refresh`) and quantiles for `risk_budget` are not copied, so policies with these settings are
    rejected. The call takes O(present + new jobs) time.
    """
    s, parts = state.record[0], used_parts(state)
    new_index = np.full(len(state.jobs), -1, np.int64)
    new_index[present] = np.arange(len(present))
    newest = np.flatnonzero(parts["slots"]["job"] == state.arrays["slots"]["job"][s["newest"]])
    rules = {name: state.rules[name][0] for name in state.rules.dtype.names or ()}
    jobs = np.concatenate([state.jobs[present], new])
    moved = make_state(jobs, total, memory=memory, log_size=len(state.log), **rules)
    left = {*ELSEWHERE, *(field for fields in USED_PARTS.values() for field in fields)}
    for name in pool.STATE.names or ():
        if name not in left and name.removesuffix("_size") not in moved.arrays:
            moved.record[name] = s[name]
    for part, field in (("slots", "job"), ("plan", "job"), ("endings", "item")):
        parts[part][field] = new_index[parts[part][field]]
    parts["instant"] = new_index[parts["instant"]]
    if rules["event_order"] != pool.PYSS:
        parts["endings"]["tie"] = parts["endings"]["item"]
    for name, values in parts.items():
        moved.arrays[name][: len(values)] = values
        moved.record[USED_PARTS[name][1]] = len(values)
    compact(moved.record[0], moved.rules[0])
    moved.record["newest"] = newest[0] if len(newest) else 0
    moved.record["job"] = new_index[s["job"]] if s["phase"] == pool.PREDICTED else 0
    moved.record["next_submit"] = np.searchsorted(present, s["next_submit"])
    return moved


LOG_SIZE = 1 << 14


def simulate_periods(
    periods: Iterable[Trace],
    policy: Any = None,
    predictor: Any = None,
    setup: RunSetup = RunSetup(),
) -> Iterator[Schedule]:
    """Simulate a log that is read in periods, like `simulate` in closed loop; memory does not grow with the length of
    the log.

    Yields, after each period, the jobs that ended since the last yield, in log order; every start is the same as in a
    simulation of the whole log at once.

    >>> log = Trace.from_arrays({"submit_time": [0, 0, 1], "run_time": [9, 9, 2], "req_time": [10, 10, 3],
    ...                          "req_procs": [2, 4, 2]})
    >>> [s.start_time.tolist() for s in simulate_periods([log[:2], log[2:]], setup=RunSetup(total=4))]
    [[], [0.0, 9.0, 1.0]]
    """
    # Some settings need the whole log at once and raise UsageError: `wide="widen"`, policies with `due_after`,
    # `risk_budget` or `refresh`, and a scheduler of your own. For the results of `simulate`, `default_request` must be
    # `LogFolder.largest_request`.
    #
    # The simulation keeps in memory one period, the waiting and running jobs, and the predictor's state. A job takes
    # about half a microsecond if the predictor is compiled.
    plan = as_policy(policy)
    if isinstance(plan, OwnPolicy):
        raise UsageError(f"{plan.name} is a scheduler in Python, which needs the whole log at once",
                         hint="without --in-periods")  # fmt: skip
    runtime = plan.predictor if predictor is None else predictor
    _check(plan, setup.wide)
    run: _Run | None = None
    first, left_out, notes = 0, Counter[str](), list[str]()
    for period, following in pairwise(chain(periods, [None])):
        assert period is not None
        work = make_workload(period, setup, kill=plan.kill)
        left_out.update(work.left_out)
        notes += work.notes
        if run is None and len(work.rows):
            run = _Run(plan, work.total, runtime, period, setup.plan_level)
        if run is not None:
            run.feed(period, work, first, setup.procs)
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
    """The kernel's present state, the rows of its jobs in the whole log, and the predictor that plans: in Python
    (`driven`), compiled (`rings`), or none."""

    def __init__(self, policy: Policy, total: int, runtime: Any, trace: Trace, plan_level: float | None) -> None:
        self.total = total
        name = parse_spec(runtime)[0] if isinstance(runtime, str) else ""
        self.is_oracle = name == "actual"
        self.driven, self.rings, predictor = None, None, None
        if name not in ("requested", "actual"):
            predictor = method_of("runtime", runtime, known_at_submit=trace.info.known_at_submit, max_procs=total)
            self.rings = Rings.of(predictor) if plan_level is None else None
            if self.rings is None:
                self.driven = DrivenPredictor(predictor, SystemState(float(total)), plan_level)
        planner = pool.ASKED if self.driven else pool.RECENT if self.rings else pool.GIVEN
        self.rules = {"planner": planner, "ask_overdue": int(hasattr(predictor, "revise")), **policy.rules()}
        self.state: KernelState | None = None
        self.rows, self.job_id = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.present = np.zeros(0, np.int64)
        self.corrections = 0

    def feed(self, period: Trace, work: Workload, first: int, procs: str) -> None:
        """Add the jobs of a further period, and drop jobs that have ended."""
        if work.total != self.total:
            raise UsageError(f"the machine has {self.total} processors, and {work.total} in a later period")
        present, driven = self.present, self.driven
        new = make_jobs(work.submit, work.procs, work.run, work.request, work.lengths(self.is_oracle))
        memory = self.rings.assign(period, work, new) if self.rings else None
        if driven:
            requests, statuses = requests_of(period, work, procs, first + work.rows)
            driven.requests = [driven.requests[job] for job in present.tolist()] + requests
            driven.statuses = [driven.statuses[job] for job in present.tolist()] + statuses
            driven.visible_state.forget()
        if self.state is None:
            log_size = LOG_SIZE if driven else 0
            self.state = make_state(new, self.total, memory=memory, log_size=log_size, **self.rules)
        else:
            self.state = carry_state(self.state, present, new, self.total, memory)
        self.rows = np.concatenate([self.rows[present], first + work.rows])
        self.job_id = np.concatenate([self.job_id[present], period.job_id[work.rows]])

    def go_on(self, more: bool) -> KernelState:
        """Advance until the last job of the period needs a planned run time; without `more`, until all jobs have
        ended. Return the kernel's state."""
        assert self.state is not None
        s, last = self.state.record, len(self.state.jobs) - 1 if more else -1
        s["last"] = last
        if s["phase"] != pool.PREDICTED or s["job"] != last:  # else the period has no job, and the last one still waits
            (self.driven.go_on if self.driven else advance)(self.state)
        return self.state

    def ended(self, more: bool, left_out: Mapping[str, int], notes: tuple[str, ...]) -> Schedule:
        """Return the jobs that end in this period; at the end of the log, all remaining jobs."""
        state = self.go_on(more)
        self.present = present_jobs(state) if more else np.zeros(0, np.int64)
        is_over = np.ones(len(state.jobs), bool)
        is_over[self.present] = False
        over = state.jobs[is_over]
        corrections = int(state.record["corrections"][0])
        since, self.corrections = self.corrections, corrections
        counts = (self.total, corrections - since, left_out, notes)
        return schedule_of(over, self.rows[is_over], self.job_id[is_over], *counts)
