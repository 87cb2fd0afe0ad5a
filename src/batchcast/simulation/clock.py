# SPDX-License-Identifier: Apache-2.0
"""The simulated clock for predictors in Python, which calls and updates the predictor event by event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import BatchcastError
from ..events.driver import Driver
from ..events.event import End, Overdue, Start, Submit
from ..events.record import entries_of
from ..events.state import SystemState
from ..job import JobRequest, Name
from ..schedule import state as pool
from ..schedule.advance import advance
from ..schedule.state import KernelState


def system_state(total: int, requests: Sequence[JobRequest]) -> SystemState:
    """Return the state of an empty machine for a simulation of the given jobs."""
    return SystemState(float(total), requests, lambda: entries_of(requests))


@dataclass
class DrivenPredictor:
    """A predictor in Python that plans in closed loop, with the state of queue and machine that it sees, the kernel's
    jobs as requests with their final statuses, and the number of predictions.

    The predictor learns from simulated starts and ends, not from the recorded log. Predictions are limited to the range
    from 1 s to the requested time. Each job costs one call of the compiled kernel and one of the predictor: about 20
    microseconds plus the time of the predictor.
    """

    predictor: Any
    visible_state: SystemState
    plan_level: float | None = None
    tick: Callable[[int], None] | None = None
    requests: list[JobRequest] = field(default_factory=list)
    statuses: list[Name] = field(default_factory=list)
    submissions: int = 0

    def __post_init__(self) -> None:
        self.driver = Driver({"": self.predictor}, self.visible_state)

    def go_on(self, state: KernelState) -> None:
        """Advance the kernel until all jobs have ended, or the state's job `last` needs a planned run time."""
        at, tell, requests, statuses = self.visible_state, self.driver.tell, self.requests, self.statuses
        planned, request = state.jobs["planned"], state.jobs["request"]
        job_field, now_field, logged = (state.record[name] for name in ("job", "now", "logged"))
        risky, tails = bool(state.rules["risk_budget"][0] > 0), state.arrays["tails"]
        last = int(state.record["last"][0])
        reason = pool.NEEDS_PREDICTION if state.record["phase"][0] == pool.PREDICTED else advance(state)
        while True:
            if logged[0]:
                _deliver(state, requests, statuses, tell)
            if reason == pool.NEEDS_PREDICTION:
                job = int(job_field[0])
                if job == last:
                    return
                now = float(now_field[0])
                asked = requests[job]
                prediction = tell(Submit(now, asked))[""]
                seconds = possible(planned_run_time(prediction, self.plan_level), asked.job_id)
                planned[job] = max(min(seconds, request[job]), 1.0)
                if risky and prediction.levels:
                    quantiles = np.array([prediction.quantiles])
                    tails[job] = tails_at(prediction.levels, quantiles, request[job : job + 1])[0]
                self.submissions += 1
                if self.tick is not None and self.submissions % 1000 == 0:
                    self.tick(self.submissions)
            elif reason == pool.JOB_OVERDUE:
                job = int(job_field[0])
                start = float(state.jobs["start"][job])
                elapsed = float(now_field[0]) - start
                revised = self.predictor.revise(requests[job], elapsed, at)
                if revised is not None:
                    again = possible(float(revised), requests[job].job_id)
                    planned[job] = max(min(again, request[job]), elapsed + 1.0)
                at.plan(requests[job].row, start + float(planned[job]))
            elif reason == pool.LOG_FULL:
                state.enlarge_log()
            else:
                return
            reason = advance(state)


def planned_run_time(prediction: Any, plan_level: float | None) -> float:
    """Return the run time to plan with: the point prediction, or the predicted quantile at `plan_level` (linear
    interpolation).
    """
    if plan_level is None or not prediction.levels:
        return float(prediction.point)
    return float(np.interp(plan_level, prediction.levels, prediction.quantiles))


def tails_at(levels: Sequence[float], quantiles: np.ndarray, request: np.ndarray) -> np.ndarray:
    """Return the quantiles (n, TAIL) from which a risk is computed, from predicted quantiles (n, levels).

    For a level that the prediction lacks, the next higher predicted level is used. If there is no higher level, or its
    value is NaN, the requested time (n,) is used. So a returned quantile is never below the predicted quantile.
    """
    columns = np.searchsorted(np.asarray(levels) + 1e-12, pool.TAIL)
    wider = np.column_stack([quantiles, request])
    tails: np.ndarray = wider[:, columns]
    tails = np.where(np.isnan(tails), request[:, None], np.minimum(tails, request[:, None]))
    return np.ascontiguousarray(tails)  # the kernel reads contiguous rows


def possible(seconds: float, job_id: Any) -> float:
    """Return a predicted run time in seconds; BatchcastError if the predicted run time is negative or NaN, because no
    schedule can use it.

    >>> possible(60.0, "7")
    60.0
    >>> possible(-1.0, "7")
    Traceback (most recent call last):
    batchcast.errors.BatchcastError: job 7: the predictor answered -1 s (accepted: a run time of 0 s or more)...
    """
    if not seconds >= 0.0:
        said = "NaN" if seconds != seconds else f"{seconds:g} s"
        raise BatchcastError(
            f"job {job_id}: the predictor answered {said} (accepted: a run time of 0 s or more)",
            hint="batchcast.testing.check_predictor lists every other fault",
        )
    return seconds


def _deliver(
    state: KernelState, requests: Sequence[JobRequest], statuses: Sequence[Name], tell: Callable[..., Any]
) -> None:
    """Convert the kernel's log of decisions to events, in order, and empty the log."""
    count = int(state.record["logged"][0])
    jobs = state.jobs
    starts, planned, runs = jobs["start"], jobs["planned"], jobs["run"]
    for time, job, kind in state.log[:count].tolist():
        asked = requests[job]
        if kind == pool.LOG_END:
            wait = float(starts[job]) - asked.submit_time
            tell(End(time, asked, float(runs[job]), wait, statuses[job]))
        elif kind == pool.LOG_START:
            tell(Start(time, asked, time - asked.submit_time), planned_end=time + float(planned[job]))
        else:
            start = float(starts[job])
            tell(Overdue(time, asked, time - start), planned_end=start + float(planned[job]))
    state.record["logged"] = 0
