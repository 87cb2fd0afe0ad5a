"""`simulate_periods`: the simulated clock over a log that comes in periods, its state carried from each to the next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import UsageError
from ..schedule.state import ASKED, LOG_FULL, KernelState, make_jobs, make_state
from ..table import Trace
from .carried_planner import Compiled, Outside, planner_of
from .carry import carried, present_jobs
from .policies import policy_of
from .policy import Policy
from .schedule import Schedule
from .workload import Workload, make_workload

LOG_SIZE = 1 << 14


def simulate_periods(
    periods: Iterable[Trace],
    policy: Policy | str | None = None,
    runtime: Any = "requested",
    *,
    total: float | None = None,
    procs: str = "req",
    wide: str = "drop",
    default_request: float | None = None,
    plan_level: float | None = None,
    tick: Callable[[int], None] | None = None,
) -> Iterator[Schedule]:
    """The schedule of a log that comes in periods: `simulate`, closed loop, in memory that does not grow with the log.

    Parameters
    ----------
    periods
        The log in order of submission (`trace.folder.LogFolder.periods`).
    policy, runtime, total, procs, wide, plan_level, tick
        As `simulate` takes them, and with the same answers: every start is that of the whole log at once.
    default_request
        Seconds that jobs without a request are planned with; `LogFolder.largest_request` is what `simulate` takes.

    Yields
    ------
    Schedule
        After each period the jobs that have ended since the one before, in log order; `rows` are those of the whole
        log, `corrections` and `left_out` count since then.

    Raises
    ------
    UsageError
        For what needs the whole log at once, by name: `wide="widen"`, policies with `due_after`, `risk_budget` or
        `refresh`.

    Notes
    -----
    In memory are one period, the waiting and running jobs, and what the predictor remembers. About half a microsecond
    a job natively.

    Examples
    --------
    >>> log = Trace.from_arrays({"submit_time": [0, 0, 1], "run_time": [9, 9, 2], "req_time": [10, 10, 3],
    ...                          "req_procs": [2, 4, 2]})
    >>> [s.start_time.tolist() for s in simulate_periods([log[:2], log[2:]], total=4)]
    [[], [0.0, 9.0, 1.0]]
    """
    policy = policy_of(policy) if isinstance(policy, str) else policy or Policy()
    _check(policy, wide)
    run: _Run | None = None
    first, left_out, notes = 0, Counter[str](), list[str]()
    for period, more in _with_more(periods):
        work = make_workload(period, total, procs=procs, wide=wide, kill=policy.kill, default_request=default_request)
        left_out.update(work.left_out)
        notes += work.notes
        if run is None and len(work.rows):
            run = _Run(policy, work.total, planner_of(runtime, period, work.total, plan_level, tick))
        if run is not None:
            run.feed(period, work, first, procs)
            run.go_on(more)
            yield run.ended(more, dict(left_out), tuple(notes))
            left_out, notes = Counter(), []
        first += len(period)


def _check(policy: Policy, wide: str) -> None:
    """What cannot be carried is said by name."""
    if wide == "widen":
        raise UsageError("--wide widen needs the whole log at once: its widest job may come last",
                         hint="--procs-total N --wide cut")  # fmt: skip
    beside = {"due_after": policy.due_after < float("inf"), "risk_budget": policy.risk_budget > 0}
    for word, is_given in {**beside, "refresh": policy.refresh}.items():
        if is_given:
            raise UsageError(f"a policy with {word} needs the whole log at once: what it keeps beside is not carried",
                             hint=f"without {word}")  # fmt: skip


def _with_more(periods: Iterable[Trace]) -> Iterator[tuple[Trace, bool]]:
    """Each period, and whether another follows."""
    before: Trace | None = None
    for period in periods:
        if before is not None:
            yield before, True
        before = period
    if before is not None:
        yield before, False


class _Run:
    """The kernel where it stands, and which rows of the log its jobs are."""

    def __init__(self, policy: Policy, total: int, planner: Compiled | Outside) -> None:
        self.total = total
        self.planner = planner
        self.rules = {"planner": ASKED, "ask_overdue": planner.asks, **policy.rules()}
        self.state: KernelState | None = None
        self.rows, self.job_id = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.present = np.zeros(0, np.int64)
        self.corrections = 0

    def feed(self, period: Trace, work: Workload, first: int, procs: str) -> None:
        """The jobs of one more period; those that have ended are forgotten."""
        if work.total != self.total:
            raise UsageError(f"the machine has {self.total} processors, and {work.total} in a later period")
        new = make_jobs(work.submit, work.procs, work.run, work.request, np.maximum(work.request, 1.0))
        self.planner.keep(self.present)
        self.planner.prepare(period, work, new, first, procs)
        if self.state is None:
            self.state = make_state(new, self.total, memory=self.planner.memory, log_size=LOG_SIZE, **self.rules)
        else:
            self.state = carried(self.state, self.present, new, self.total, self.planner.memory)
        self.rows = np.concatenate([self.rows[self.present], first + work.rows])
        self.job_id = np.concatenate([self.job_id[self.present], period.job_id[work.rows]])

    def go_on(self, more: bool) -> None:
        """Until the last job known is to be planned, or with no more to come to the end."""
        assert self.state is not None
        while self.planner.go_on(self.state, more) == LOG_FULL:
            self.state.enlarge_log()

    def ended(self, more: bool, left_out: Mapping[str, int], notes: tuple[str, ...]) -> Schedule:
        """The jobs that have ended since they were asked for last; at the end all that are left."""
        assert self.state is not None
        jobs = self.state.jobs
        self.present = present_jobs(self.state) if more else np.zeros(0, np.int64)
        is_over = np.ones(len(jobs), bool)
        is_over[self.present] = False
        over = jobs[is_over]
        corrections = int(self.state.record["corrections"][0])
        since, self.corrections = self.corrections, corrections
        return Schedule(
            rows=self.rows[is_over],
            job_id=self.job_id[is_over],
            submit_time=over["submit"].copy(),
            start_time=over["start"].copy(),
            end_time=over["start"] + over["run"],
            procs=over["procs"].astype(np.int64),
            planned_run_time=over["first"].copy(),
            backfilled=over["backfilled"].astype(bool),
            total=self.total,
            corrections=corrections - since,
            left_out=left_out,
            notes=notes,
        )
