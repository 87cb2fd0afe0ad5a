# SPDX-License-Identifier: Apache-2.0
"""`soft_walltime`: CESNET's rule for PBS: the time limit times the largest share that recent jobs used of their time
limits.
"""

from __future__ import annotations

import math
from collections import deque

from ...events.event import End, Event
from ...events.state import SystemState
from ...job import JobRequest, Name
from ..fallback import DAY
from ..protocol import Grounds, Prediction, at_least_a_second


class SoftWalltime:
    """Predicts the time limit times the largest share of its limit that one of the user's last `k` jobs used, plus a
    margin.

    Parameters
    ----------
    k
        Number of the user's latest finished jobs that count, at least 1.
    margin_s
        Margin that is added, in seconds, at least 0.
    long_factor
        Factor for jobs with a time limit above one day, at least 1. The factor is applied before the margin is added.

    Raises
    ------
    ValueError
        If a number is outside its range.

    Notes
    -----
    This is the rule of CESNET's hook `softwalltime-predictor` for PBS Professional, in its form since July 2022. The
    published description of the rule is older: the margin of 15 minutes was added in November 2021, and the factor 2
    for limits above one day in July 2022. The scheduler needs an upper estimate, so the rule is a poor point
    prediction. The prediction is at most the time limit. A job without a limit counts as a job of 24 hours, as in the
    hook. Without a finished job of the user, the time limit is predicted. Departure: the hook predicts again when a job
    starts that waited more than an hour; this class predicts only at submission. Costs O(k) per job, and memory for k
    numbers per user.

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
        """Return the soft limit, between one second and the time limit."""
        limit = _limit(job)
        shares = self.shares.get(job.user_id) if job.user_id is not None else None
        if not shares or (share := min(max(shares), 1.0)) <= 0:  # without history, the hook sets no soft limit
            return Prediction(at_least_a_second(limit), basis="limit: no history", grounds=Grounds.LIMIT)
        factor = self.long_factor if limit > DAY else 1.0
        point = at_least_a_second(limit * share * factor + self.margin_s, limit)
        basis = f"{share:.0%} of the limit, the most of the user's last {len(shares)}, plus {self.margin_s / 60:g} min"
        return Prediction(point, basis=basis, grounds=Grounds.OWN_HISTORY)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store which shares of their time limits each user's last k finished jobs used."""
        if isinstance(event, End) and event.job.user_id is not None:
            shares = self.shares.setdefault(event.job.user_id, deque(maxlen=self.k))
            shares.append(event.run_time / max(_limit(event.job), 1.0))


def _limit(job: JobRequest) -> float:
    """Return the job's time limit in seconds; one day if the job has no limit."""
    return job.req_time if math.isfinite(job.req_time) else DAY
