"""`calibrated`: another method's bounds, moved until they keep what they promise."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...events.event import Change, End, Event, Requeue, Start, Submit, Withdraw
from ...events.state import SystemState
from ...job import JobRequest
from ..calibration.keeper import Keeper, bounds_at
from ..gate import field_value
from ..limit import LargestLimit
from ..protocol import Prediction
from ..registry import load, make

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)


class Calibrated:
    """The point of method `of` as it is, and its quantiles at levels moved online so that the promised ones are kept.

    Parameters
    ----------
    of
        Any method with quantiles; its parameters keep their defaults.
    by
        The field whose values have a shift of their own, beside the one for everybody.
    step, own_step
        How far a miss moves the shift of everybody, and that of one value of `by`.
    level
        One more level to promise, in (0, 1).

    Raises
    ------
    ValueError
        For a number outside its range.

    Notes
    -----
    See `calibration.keeper.Keeper` for how levels move. Jobs still running that have passed a bound count as its misses
    at once. Between the method's own quantiles the bound is read linearly in log seconds; level 1 is the limit (without
    one, the largest seen), and a bound at the limit holds, whatever the seconds a batch system takes to kill. The cost
    is the method's, twice a job, and some tens of microseconds.

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
        self, of: str = "kernel", by: str = "user_id", step: float = 0.002, own_step: float = 0.02, level: float = 0.95
    ) -> None:
        if load("runtime", of) is Calibrated or getattr(load("runtime", of), "is_oracle", False):
            raise ValueError(f"of={of}: neither an oracle nor itself can be calibrated")
        if not 0 < level < 1:
            raise ValueError("level is a quantile above 0 and below 1")
        self.levels = tuple(sorted({*LEVELS, level}))
        self.inner: Any = make("runtime", of)
        self.uses = tuple(dict.fromkeys((*getattr(self.inner, "uses", ()), by)))
        self.by = by
        self.keeper = Keeper(self.levels, step, own_step)
        self.limits = LargestLimit()
        for name in ("refit_every_jobs", "refit_every_s", "falls_back_to", "refit", "revise", "distribution"):
            if hasattr(self.inner, name):
                setattr(self, name, getattr(self.inner, name))

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The method's answer with bounds at the levels asked now."""
        answer, bounds, _ = self._bounds(job, at)
        return Prediction(answer.point, self.levels, tuple(bounds.tolist()), answer.basis, answer.grounds)

    def observe(self, event: Event, at: SystemState) -> None:
        """Submit: promise; Start: the bounds are due from now on; End: kept or not; and the method observes too."""
        self.keeper.waited(event.time)
        if isinstance(event, Submit):
            _, bounds, certain = self._bounds(event.job, at)
            self.keeper.issue(event.job.row, field_value(event.job, self.by), bounds, certain)
            self.limits.note(event.job.req_time)
        elif isinstance(event, Start):
            self.keeper.begin(event.job.row, event.time)
        elif isinstance(event, End):
            self.keeper.known(event.job.row, event.run_time)
        elif isinstance(event, Withdraw | Requeue | Change):
            self.keeper.forget(event.job.row)
        self.inner.observe(event, at)

    def _bounds(self, job: JobRequest, at: SystemState) -> tuple[Prediction, np.ndarray, float]:
        answer: Prediction = self.inner.predict(job, at)
        certain = max(self.limits.of(job.req_time), 1.0)
        if not answer.levels:
            return answer, np.full(len(self.levels), certain), certain
        asked = self.keeper.asked(field_value(job, self.by))
        return answer, bounds_at(asked, answer.levels, answer.quantiles, certain), certain
