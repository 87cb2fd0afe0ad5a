# SPDX-License-Identifier: Apache-2.0
"""`last_2`: the mean of the user's two last-finished jobs (Tsafrir, Etsion & Feitelson, TPDS 2007)."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from ...events.event import End, Event, Submit
from ...events.recorded import Forecasts, outcome, timeline
from ...events.state import SystemState
from ...job import JobRequest, Name
from ...table import Trace
from ..fallback import LargestLimit
from ..gate import class_codes
from ..protocol import Grounds, Prediction, at_least_a_second
from .recent_mean import means_or_limits, recent_runs


class Last2:
    """Predicts the mean run time of the user's last one or two finished jobs, else the time limit.

    Parameters
    ----------
    need
        Number of finished jobs required, 1 or 2.
    round
        Whether the mean is rounded: `no`, or `down` to whole seconds.

    Raises
    ------
    ValueError
        If `need` is neither 1 nor 2.

    Notes
    -----
    As in section 4 of the paper, the result is at most the time limit. Departures: one finished job is enough by
    default (`need=2` is the rule of the 2015 reference schedules), and the mean is not rounded. If jobs end at the same
    instant, the later job in the log counts as more recent. A job whose user is unknown gets its time limit. Costs O(1)
    per job; stores two numbers per user.

    References
    ----------
    Tsafrir, Etsion, Feitelson, Backfilling using system-generated predictions rather than user runtime estimates,
    IEEE TPDS 18(6), 2007, doi:10.1109/TPDS.2007.70606.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan"), user_id="ada"), SystemState()
    >>> method = Last2()
    >>> method.observe(End(50.0, job, 50.0, 0.0), state); method.predict(job, state).point
    50.0
    """

    uses = ("user_id",)

    def __init__(self, need: int = 1, round: Literal["no", "down"] = "no") -> None:
        if need not in (1, 2):
            raise ValueError("need is 1 or 2 finished jobs")
        self.need = need
        self.round = round
        self.limits = LargestLimit()
        self.finished: dict[Name, tuple[float, ...]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Return the mean of the last two run times, between one second and the time limit."""
        last = self.finished.get(job.user_id, ()) if job.user_id is not None else ()
        if len(last) < self.need:
            return self.limits.forecast(job, "limit: too little history")
        mean = sum(last) / len(last)
        point = at_least_a_second(float(math.floor(mean)) if self.round == "down" else mean, job.req_time)
        return Prediction(point, basis=f"mean of the user's last {len(last)} finished", grounds=Grounds.OWN_HISTORY)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the run times of each user's last two finished jobs."""
        if isinstance(event, End):
            user = event.job.user_id
            self.finished[user] = (*self.finished.get(user, ())[-1:], event.run_time)
        elif isinstance(event, Submit):
            self.limits.note(event.job.req_time)

    def predict_trace(self, trace: Trace, protocol: str = "honest", procs: str = "req") -> Forecasts:
        """Predict a whole log with a fresh predictor; equals the event-by-event predictions. O(n log n)."""
        plan, users = timeline(trace, protocol), class_codes(trace.at_submission(procs), ("user_id",), len(trace))[0]
        recent = recent_runs(plan, users, outcome(trace)[2], 2)
        recent[np.isnan(recent[:, 2 - self.need])] = np.nan
        points, counts = means_or_limits(trace, plan, recent, np.floor if self.round == "down" else np.positive)
        words = ("limit: too little history", *(f"mean of the user's last {n} finished" for n in (1, 2)))
        grounds = (Grounds.LIMIT, Grounds.OWN_HISTORY, Grounds.OWN_HISTORY)
        found = counts.tolist()
        return Forecasts(points, (), np.empty((len(trace), 0)), [words[n] for n in found], [grounds[n] for n in found])
