# SPDX-License-Identifier: Apache-2.0
"""`calibrated`: another predictor's bounds, corrected online until they cover the intended share of jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from ...events.event import SUBMIT, Change, End, Event, Requeue, Start, Submit, Withdraw
from ...events.recorded import Forecasts, outcome, timeline
from ...events.state import SystemState
from ...job import JobRequest
from ...table import Trace
from ..calibration.keeper import OnlineCalibration, bounds_at, bounds_over_log
from ..fallback import DAY, LargestLimit, limits_in_order
from ..gate import class_codes, class_key, field_value, numbered
from ..protocol import REFITTED, Prediction, pass_on
from ..registry import load, make

ALIKE = ("queue_id", "partition_id", "procs_log2")
"""Jobs whose owner is unknown share an owner if they agree in these columns."""
LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)


class Calibrated:
    """Corrects the quantiles of a predictor online until their coverage equals their level; its point is unchanged.

    Parameters
    ----------
    of
        Any predictor with quantiles; the predictor runs with its default settings.
    by
        Column whose values (owners) each have their own shift of the levels, in addition to the shared shift. Jobs with
        an unknown value share an owner if they have the same queue, partition and size class.
    step, own_step
        How far a missed bound moves the shared shift, and the shift of one owner.
    level
        A further level of the predicted quantiles, in (0, 1).
    lots
        Whether bounds in a burst of similar jobs are randomized. Randomized bounds have the promised coverage over many
        jobs. Do not use randomized bounds for a single job (see Notes).

    Raises
    ------
    ValueError
        If a number is outside its range.

    Notes
    -----
    `OnlineCalibration` describes how the levels are corrected. A running job that has run longer than a bound counts as
    a miss at once. Between the predictor's own quantiles, the bound is interpolated linearly in log seconds. Level 1 is
    the time limit, or the largest limit so far if the job has none. A bound at the limit always holds: the few seconds
    that a batch system takes to kill a job do not count. If no job had a limit so far, level 1 is one day, and every
    bound can be missed.

    The jobs of a burst mostly meet or miss their bounds together. With `lots`, most jobs of a burst therefore get their
    time limit as bound, and the other jobs get a bound of one second, so that bounds cover the promised share of jobs
    in any burst. Adaptive conformal prediction also gives such bounds when its levels reach 0 and 1 (an empty and an
    infinite set). The bounds that `steady` returns are never randomized. Each job costs some tens of microseconds in
    addition to the predictor's cost.

    References
    ----------
    Gibbs, Candès, Adaptive conformal inference under distribution shift, NeurIPS 2021, doi:10.48550/arXiv.2106.00170.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan"), user_id="ada"), SystemState()
    >>> method = Calibrated()
    >>> for run in (80.0, 50.0, 50.0):
    ...     method.observe(End(run, job, run, 0.0), state)
    >>> method.predict(job, state).point, len(method.predict(job, state).quantiles) == len(LEVELS)
    (50.0, True)
    """

    def __init__(
        self,
        of: str = "kernel",
        by: str = "user_id",
        step: float = 0.002,
        own_step: float = 0.01,
        level: float = 0.95,
        lots: bool = False,
    ) -> None:
        if load("runtime", of) is Calibrated or getattr(load("runtime", of), "is_oracle", False):
            raise ValueError(f"of={of}: neither an oracle nor itself can be calibrated")
        if not 0 < level < 1:
            raise ValueError("level is a quantile above 0 and below 1")
        self.levels = tuple(sorted({*LEVELS, level}))
        self.inner: Any = make("runtime", of)
        self.uses = tuple(dict.fromkeys((*getattr(self.inner, "uses", ()), by)))
        self.by, self.lots = by, lots
        self.answered: tuple[JobRequest, float, Prediction] | None = None
        self.keeper = OnlineCalibration(self.levels, step, own_step)
        self.steps = (step, own_step)
        self.limits = LargestLimit()
        if hasattr(self.inner, "predict_trace"):
            self.predict_trace = self._predict_trace
        pass_on(self.inner, self, *REFITTED, "falls_back_to", "revise", "distribution")

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the prediction with bounds at the current levels, randomized in a burst."""
        answer, bounds, _, drawn = self._bounds(job, at)
        return self._with(answer, bounds if drawn is None else drawn)

    def steady(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the prediction with bounds at the current levels, without randomization."""
        answer, bounds, _, _ = self._bounds(job, at)
        return self._with(answer, bounds)

    def observe(self, event: Event, at: SystemState) -> None:
        """Pass the event on; record bounds at Submit, start their deadlines at Start, and count the bounds as met or
        missed at End."""
        if isinstance(event, Submit):  # record the bounds that `predict` returned for this job
            _, bounds, certain, drawn = self._bounds(event.job, at)
            self.keeper.issue(event.job.row, self._owner(event.job), bounds, certain, drawn)
            self.limits.note(event.job.req_time)
        self.keeper.waited(event.time)
        if isinstance(event, Start):
            self.keeper.begin(event.job.row, event.time)
        elif isinstance(event, End):
            self.keeper.resolve(event.job.row, event.run_time)
        elif isinstance(event, Withdraw | Requeue | Change):
            self.keeper.forget(event.job.row)
        self.answered = None
        self.inner.observe(event, at)

    def drawn_and_steady(
        self,
        trace: Trace,
        protocol: str = "honest",
        procs: str = "req",
        tick: Callable[[int], None] | None = None,
        answers: Forecasts | None = None,
    ) -> tuple[Forecasts, np.ndarray]:
        """Predict a whole log with a new predictor; also return the bounds (n, levels) without randomization.

        The method works only for predictors with a batch method, and takes one compiled pass. Calls `tick(done)` from
        time to time to report progress. `answers` are the predictions of the calibrated predictor, if they have been
        computed already.
        """
        answers = answers or self.inner.predict_trace(trace, protocol, procs)
        plan = timeline(trace, protocol)
        certain = np.maximum(limits_in_order(trace.req_time, plan.index[plan.kind == SUBMIT], math.inf), 1.0)
        steady, drawn = bounds_over_log(
            OnlineCalibration(self.levels, *self.steps),
            (plan.time, plan.kind, plan.index),
            owner=self._owners(trace.at_submission(procs), len(trace)),
            longest=np.where(np.isinf(certain), DAY, certain),
            certain=certain,
            run=outcome(trace)[2],
            predicted=(answers.levels, answers.quantiles),
            lots=self.lots,
            tick=tick,
        )
        return Forecasts(answers.points, self.levels, drawn, answers.basis, answers.grounds), steady

    def _predict_trace(self, trace: Trace, protocol: str = "honest", procs: str = "req") -> Forecasts:
        return self.drawn_and_steady(trace, protocol, procs)[0]

    def _with(self, answer: Prediction, bounds: np.ndarray) -> Prediction:
        return Prediction(answer.point, self.levels, tuple(bounds.tolist()), answer.basis, answer.grounds)

    def _bounds(self, job: JobRequest, at: SystemState) -> tuple[Prediction, np.ndarray, float, np.ndarray | None]:
        """Return the prediction, its bounds at the current levels, the bound that always holds, and randomized bounds
        if any.
        """
        answer, longest = self._answer(job, at), max(self.limits.of(job.req_time), 1.0)
        certain = longest if job.req_time < math.inf or self.limits.seconds > 0 else math.inf
        if not answer.levels:
            return answer, np.full(len(self.levels), longest), certain, None
        owner, curve = self._owner(job), (answer.levels, answer.quantiles, longest)
        drawn = self.keeper.drawn(owner) if self.lots else None
        bounds = bounds_at(self.keeper.requested_levels(owner), *curve)
        return answer, bounds, certain, None if drawn is None else bounds_at(drawn, *curve)

    def _owner(self, job: JobRequest) -> Hashable:
        """Return the owner whose shift and burst a job belongs to."""
        value = field_value(job, self.by)
        return class_key(job, ALIKE) if value is None else value

    def _owners(self, columns: dict[str, Any], count: int) -> np.ndarray:
        """Return the owner of every job of a log, as numbers (count,) from 0."""
        known, owners = class_codes(columns, (self.by,), count)
        alike = np.zeros(count, np.int64)
        for name in ALIKE:
            codes, classes = class_codes(columns, (name,), count)
            alike = numbered(alike * (classes + 1) + codes + 1)[0]
        return numbered(np.where(known >= 0, known, owners + alike))[0]

    def _answer(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the predictor's prediction, which is computed at most once between two events."""
        if self.answered is None or self.answered[0] is not job or self.answered[1] != at.now:
            self.answered = (job, at.now, self.inner.predict(job, at))
        return self.answered[2]
