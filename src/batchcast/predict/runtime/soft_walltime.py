# SPDX-License-Identifier: Apache-2.0
"""`soft_walltime`: the rule by which CESNET's PBS servers plan: the limit times the largest share used of late."""

from __future__ import annotations

import math
from collections import deque

from ...events.event import End, Event
from ...events.state import SystemState
from ...job import JobRequest, Name
from ..fallback import DAY
from ..protocol import Grounds, Prediction, at_least_a_second


class SoftWalltime:
    """Returns the limit times the largest share of it that the user's last `k` finished jobs used, plus a margin.

    Parameters
    ----------
    k
        How many of the user's last finished jobs count, at least 1.
    margin_s
        Seconds that are added, at least 0.
    long_factor
        What is multiplied in, before the margin, for a job whose limit is above a day; at least 1.

    Raises
    ------
    ValueError
        For a number outside its range.

    Notes
    -----
    This is the rule of CESNET's hook `softwalltime-predictor` for PBS Professional, as it has run since 2022: the
    factor 2 for limits above a day came in July 2022 and the 15 minutes in November 2021; the source describes the
    rule before both. The answer is an upper estimate for planning, so it is a poor point forecast. It is never above
    the limit. A job without a limit counts as one of 24 hours, as in the hook. Without a finished job of the user
    the answer is the limit. Departure: the hook also asks again at the start of a job that waited more than an hour;
    here a job is asked about at its submission. O(k) a job, k numbers a user.

    References
    ----------
    Klusáček, Chlumský, Improving accuracy of walltime estimates in PBS Professional using soft walltimes, JSSPP 2022,
    doi:10.1007/978-3-031-22698-4_10.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 7200.0, float("nan"), user_id="ada"), SystemState()
    >>> method = SoftWalltime()
    >>> method.observe(End(1800.0, job, 1800.0, 0.0), state)
    >>> method.predict(job, state).point  # a quarter of two hours, and 15 minutes
    2700.0
    """

    uses = ("user_id",)

    def __init__(self, k: int = 15, margin_s: float = 900.0, long_factor: float = 2.0) -> None:
        if k < 1 or margin_s < 0 or long_factor < 1:
            raise ValueError("k is at least 1 job, margin_s at least 0, long_factor at least 1")
        self.k, self.margin_s, self.long_factor = k, margin_s, long_factor
        self.shares: dict[Name, deque[float]] = {}

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The soft limit, kept between one second and the limit."""
        limit = _limit(job)
        shares = self.shares.get(job.user_id) if job.user_id is not None else None
        if not shares or (share := min(max(shares), 1.0)) <= 0:  # the hook sets nothing then
            return Prediction(at_least_a_second(limit), basis="limit: no history", grounds=Grounds.LIMIT)
        factor = self.long_factor if limit > DAY else 1.0
        point = at_least_a_second(limit * share * factor + self.margin_s, limit)
        basis = f"{share:.0%} of the limit, the most of the user's last {len(shares)}, plus {self.margin_s / 60:g} min"
        return Prediction(point, basis=basis, grounds=Grounds.OWN_HISTORY)

    def observe(self, event: Event, at: SystemState) -> None:
        """Keeps the shares of their limits that each user's last k finished jobs used."""
        if isinstance(event, End) and event.job.user_id is not None:
            shares = self.shares.setdefault(event.job.user_id, deque(maxlen=self.k))
            shares.append(event.run_time / max(_limit(event.job), 1.0))


def _limit(job: JobRequest) -> float:
    """The job's limit in seconds; a day where it has none."""
    return job.req_time if math.isfinite(job.req_time) else DAY
