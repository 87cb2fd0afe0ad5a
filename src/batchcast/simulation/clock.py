"""The simulated clock for predictors outside the kernel: it decides, they are asked and taught, event by event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import BatchcastError
from ..events.event import End, Overdue, Start, Submit
from ..events.record import entries_of
from ..events.recorded import Cadence
from ..events.state import SystemState
from ..job import JobRequest, Name
from ..schedule.advance import advance
from ..schedule.state import DONE, JOB_OVERDUE, LOG_END, LOG_FULL, LOG_START, NEEDS_PREDICTION, TAIL, KernelState


def drive(
    state: KernelState,
    requests: Sequence[JobRequest],
    statuses: Sequence[Name],
    predictor: Any,
    total: int,
    plan_level: float | None = None,
    tick: Callable[[int], None] | None = None,
) -> KernelState:
    """Run the kernel to its end with a Python predictor in closed loop; returns the final state.

    The predictor sees the simulated ends and starts, never the recorded ones. Its answer is cut to [1, request]. Cost:
    a call of the kernel and of the predictor per job, about 20 microseconds without the predictor's own.
    """
    at = SystemState(float(total), requests, lambda: entries_of(requests))
    planned, request = state.jobs["planned"], state.jobs["request"]
    job_field, now_field, logged = (state.record[name] for name in ("job", "now", "logged"))
    observe, predict = predictor.observe, predictor.predict
    cadence = Cadence(predictor) if hasattr(predictor, "refit") else None
    risky, tails = bool(state.rules["risk_budget"][0] > 0), state.arrays["tails"]
    submissions = 0
    while True:
        reason = advance(state)
        if logged[0]:
            _tell(state, requests, statuses, at, observe)
        if reason == NEEDS_PREDICTION:
            job = int(job_field[0])
            now = float(now_field[0])
            asked = requests[job]
            at.now = now
            if cadence is not None:
                cadence.submitted(now)
            prediction = predict(asked, at)
            planned[job] = _within(planned_run_time(prediction, plan_level), request[job], asked)
            if risky and prediction.levels:
                tails[job] = tails_at(prediction.levels, np.array([prediction.quantiles]), request[job : job + 1])[0]
            event = Submit(now, asked)
            at.apply(event)
            observe(event, at)
            submissions += 1
            if tick is not None and submissions % 1000 == 0:
                tick(submissions)
        elif reason == JOB_OVERDUE:
            job = int(job_field[0])
            start = float(state.jobs["start"][job])
            elapsed = float(now_field[0]) - start
            revised = predictor.revise(requests[job], elapsed, at)
            if revised is not None:
                planned[job] = max(min(float(revised), request[job]), elapsed + 1.0)
            at.plan(job, start + float(planned[job]))
        elif reason == LOG_FULL:
            state.enlarge_log()
        elif reason == DONE:
            return state


def planned_run_time(prediction: Any, plan_level: float | None) -> float:
    """The length a prediction is planned with: its point, or its quantile at `plan_level` (interpolated linearly)."""
    if plan_level is None or not prediction.levels:
        return float(prediction.point)
    return float(np.interp(plan_level, prediction.levels, prediction.quantiles))


def tails_at(levels: Sequence[float], quantiles: np.ndarray, request: np.ndarray) -> np.ndarray:
    """The quantiles (n, TAIL) that a risk is read off, of those (n, levels) of forecasts: never below what was said.

    A level that the forecast has not gets the next higher one, none higher or NaN the request (n,).
    """
    columns = np.searchsorted(np.asarray(levels) + 1e-12, TAIL)
    wider = np.column_stack([quantiles, request])
    tails: np.ndarray = wider[:, columns]
    tails = np.where(np.isnan(tails), request[:, None], np.minimum(tails, request[:, None]))
    return np.ascontiguousarray(tails)  # the kernel goes by rows


def _within(seconds: float, request: float, job: JobRequest) -> float:
    if not seconds == seconds:
        raise BatchcastError(f"job {job.job_id}: the predictor answered NaN", hint="batchcast.testing.check_predictor")
    return max(min(seconds, float(request)), 1.0)


def _tell(
    state: KernelState,
    requests: Sequence[JobRequest],
    statuses: Sequence[Name],
    at: SystemState,
    observe: Callable[[Any, SystemState], None],
) -> None:
    """Turn the kernel's log into events, in order; leaves the log empty."""
    count = int(state.record["logged"][0])
    jobs = state.jobs
    starts, planned, runs = jobs["start"], jobs["planned"], jobs["run"]
    event: End | Start | Overdue
    for time, job, kind in state.log[:count].tolist():
        asked = requests[job]
        if kind == LOG_END:
            wait = float(starts[job]) - asked.submit_time
            event = End(time, asked, float(runs[job]), wait, statuses[job])
            at.apply(event)
        elif kind == LOG_START:
            event = Start(time, asked, time - asked.submit_time)
            at.apply(event)
            at.plan(job, time + float(planned[job]))
        else:
            start = float(starts[job])
            event = Overdue(time, asked, time - start)
            at.apply(event)
            at.plan(job, start + float(planned[job]))
        observe(event, at)
    state.record["logged"] = 0
