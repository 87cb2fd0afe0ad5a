"""`last_2`: the mean of the user's two last-finished jobs (Tsafrir, Etsion & Feitelson, TPDS 2007)."""

from __future__ import annotations

import math
from typing import Literal

from ...events.event import END, SUBMIT, Event
from ...events.state import SystemState
from ...job import JobRequest, Name
from ..protocol import Prediction, at_least_a_second
from .requested import largest_limit, limit_or


class Last2:
    """Mean run time of the user's two last-finished jobs; of one if there is only one (`need=1`), else the limit.

    Source: Tsafrir, Etsion & Feitelson 2007, section 4; capped by the limit, as there. Departures: one finished job is
    enough by default (`need=2` is the rule of the 2015 reference schedules) and the mean is not rounded (`round=down`:
    whole seconds). Among jobs that end at one instant, the later in log order counts as the more recent. A job whose
    user is unknown gets its limit. O(1) a job, two numbers a user.

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
        self.largest = 0.0
        self.finished: dict[Name, tuple[float, ...]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The mean of the last two, kept between one second and the limit."""
        last = self.finished.get(job.user_id, ()) if job.user_id is not None else ()
        if len(last) < self.need:
            return Prediction(
                at_least_a_second(limit_or(job.req_time, self.largest)), basis="limit: too little history"
            )
        mean = sum(last) / len(last)
        point = at_least_a_second(float(math.floor(mean)) if self.round == "down" else mean, job.req_time)
        return Prediction(point, basis=f"mean of the user's last {len(last)} finished")

    def observe(self, event: Event, at: SystemState) -> None:
        """Keeps the two last-finished run times of each user."""
        if event.kind == END:
            user = event.job.user_id  # type: ignore[union-attr]
            self.finished[user] = (*self.finished.get(user, ())[-1:], event.run_time)  # type: ignore[union-attr]
        elif event.kind == SUBMIT:
            self.largest = largest_limit(self.largest, event.job.req_time)  # type: ignore[union-attr]
