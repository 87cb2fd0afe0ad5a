"""What plans a schedule that is fed period by period: compiled into the loop, or a predictor outside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..compiled import kernel
from ..compiled.elsewhere import address_of, call_there
from ..events.state import SystemState
from ..job import JobRequest, Name
from ..predict.gate import check_predictor
from ..predict.registry import make, parse_spec
from ..predict.runtime.last_2 import Last2
from ..predict.runtime.recent_mean import RecentMean
from ..schedule.advance import go_on
from ..schedule.native import learn_recent, recent_memory_of, recent_plan
from ..schedule.state import LOG_END, NEEDS_PREDICTION, PREDICTED, KernelState, Memory, jobs_of, log_of
from ..table import Trace
from .clock import Asked
from .native import Rings
from .workload import Workload


class Compiled:
    """Plans by the requests, by the true run times (`actual`), or by the rings of `last_2` and `recent_mean`."""

    asks = 0

    def __init__(self, is_oracle: bool = False, rings: Rings | None = None) -> None:
        self.is_oracle = is_oracle
        self.rings = rings

    @property
    def memory(self) -> Memory | None:
        """What the kernel remembers."""
        return self.rings.memory if self.rings is not None else None

    def prepare(self, period: Trace, work: Workload, jobs: np.ndarray, first: int, procs: str) -> None:
        """Plan the new jobs, or say where those like them are remembered."""
        length = np.minimum(work.run, work.request) if self.is_oracle else work.request
        jobs["first"] = jobs["planned"] = np.maximum(length, 1.0)
        if self.rings is not None:
            self.rings.assign(period, work, jobs)

    def keep(self, present: np.ndarray) -> None:
        """Nothing is held of single jobs."""

    def go_on(self, state: KernelState, more: bool) -> int:
        """Advance until DONE or LOG_FULL; with `more` until the last job known is to be planned."""
        scheduler = address_of(go_on, state.record, state.rules)
        last = len(state.jobs) - 1 if more else -1
        return int(follow_period(scheduler, state.record, state.rules, self.rings is not None, last))


class Outside:
    """A predictor in Python, driven as by `clock.drive`."""

    memory: Memory | None = None

    def __init__(
        self, predictor: Any, total: float, plan_level: float | None, tick: Callable[[int], None] | None
    ) -> None:
        self.asked = Asked(predictor, SystemState(total), plan_level, tick)
        self.asks = int(hasattr(predictor, "revise"))
        self.requests: list[JobRequest] = []
        self.statuses: list[Name] = []

    def prepare(self, period: Trace, work: Workload, jobs: np.ndarray, first: int, procs: str) -> None:
        """The new jobs' requests, numbered by their rows in the whole log."""
        everyone = list(period.requests(procs))
        statuses = period.nominal("status").decode()
        for row, p, request in zip(work.rows.tolist(), work.procs.tolist(), work.request.tolist()):
            self.requests.append(everyone[row]._replace(row=first + row, procs=float(p), req_time=request))
            self.statuses.append(statuses[row])

    def keep(self, present: np.ndarray) -> None:
        """Forget the jobs that have ended."""
        self.requests = [self.requests[job] for job in present.tolist()]
        self.statuses = [self.statuses[job] for job in present.tolist()]
        self.asked.at.forget()

    def go_on(self, state: KernelState, more: bool) -> int:
        """As `Compiled.go_on`."""
        return self.asked.go_on(state, self.requests, self.statuses, more)


def planner_of(
    runtime: Any, trace: Trace, total: int, plan_level: float | None, tick: Callable[[int], None] | None
) -> Compiled | Outside:
    """What a spec or a predictor of one's own plans with; compiled where `simulate` has it compiled and O(1) a job."""
    name = parse_spec(runtime)[0] if isinstance(runtime, str) else ""
    if name in ("requested", "actual"):
        return Compiled(is_oracle=name == "actual")
    vouched = trace.info.known_at_submit
    predictor = runtime
    if isinstance(runtime, str):
        predictor = make("runtime", runtime, known_at_submit=vouched, max_procs=total)
    else:
        check_predictor(runtime, vouched)
    if plan_level is None and type(predictor) in (Last2, RecentMean):
        return Compiled(rings=Rings(predictor))
    return Outside(predictor, float(total), plan_level, tick)


@kernel
def follow_period(scheduler: int, record: np.ndarray, rules: np.ndarray, remembers: bool, last: int) -> int:
    """Go on until job `last` is to be planned, the log is full or all is done; what ended is learned on the way."""
    s = record[0]
    jobs, log = jobs_of(s), log_of(s)
    while True:
        if s.phase == PREDICTED:
            if s.job == last:
                return NEEDS_PREDICTION
            if remembers:
                jobs[s.job].planned = recent_plan(recent_memory_of(s)[0], jobs[s.job])
        reason: int = call_there(scheduler, record, rules)
        if remembers:
            for k in range(s.logged):
                if log[k].kind == LOG_END:
                    learn_recent(recent_memory_of(s)[0], jobs[log[k].job])
        s.logged = 0
        if reason != NEEDS_PREDICTION:
            return reason
