# SPDX-License-Identifier: Apache-2.0
"""`parzen`: predicts the most likely run time by a Gaussian kernel density of past run times of the same class."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...events.event import End, Event, Submit
from ...events.state import SystemState
from ...job import JobRequest
from ...predict.fallback import LEVELS, LargestLimit, sample_quantiles
from ...predict.gate import class_key
from ...predict.protocol import SHORTEST, Grounds, Prediction, at_least_a_second

NARROWEST = 0.02
STEPS = 8


@dataclass(eq=False, repr=False)
class Parzen:
    """Predicts the most likely (or mean) run time of finished jobs with equal `keys`, by a density of log10 run times.

    Parameters
    ----------
    keys
        Columns known at submission; jobs with equal values in these columns form a class. An unknown value counts as a
        value of its own.
    window
        Number of last finished jobs of a class from which the density is computed, at least 1; `none` uses all jobs.
    statistic
        `mode` predicts the density's highest point; `mean` predicts 10^(mean of the logs).

    Raises
    ------
    ValueError
        For a `window` below 1.

    Notes
    -----
    The baseline "PDR" of Wu et al. 2019, whose details are not public: this method is a similar baseline, not a
    reproduction. Bandwidth: The bandwidth follows Silverman's rule 0.9 min(std, IQR/1.34) n^(-1/5), at least 0.02
    decades. If the class has no finished jobs, the user's last `window` jobs are used, then the last jobs of all users,
    then the time limit. Quantiles are order statistics of the run times; the point prediction is between one second and
    the time limit. A prediction takes O(window^2) time for the mode and O(window) for the mean.

    References
    ----------
    Wu, Shen, Zhang, Liao, Wang, Li, Runtime prediction of jobs for backfilling optimization, 2019.
    Silverman, Density estimation for statistics and data analysis, 1986, doi:10.1201/9781315140919.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 6000.0, float("nan"), user_id="ada"), SystemState()
    >>> method = Parzen()
    >>> for run in (100.0, 100.0, 100.0, 4000.0):
    ...     method.observe(End(run, job, run, 0.0), state)
    >>> round(method.predict(job, state).point)
    100
    """

    levels = LEVELS

    keys: tuple[str, ...] = ("user_id", "procs")
    window: int | None = 100
    statistic: Literal["mode", "mean"] = "mode"

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError("window is at least 1 job, or none")
        self.uses = self.keys
        self.limits = LargestLimit()
        self.same: dict[tuple[Any, ...], deque[float]] = {}
        self.users: dict[Any, deque[float]] = {}
        self.everybody: deque[float] = deque(maxlen=self.window)

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict the mode or mean of the run times in the job's class, else of the user's jobs, else of all users'
        jobs."""
        sources = (
            (self.same.get(class_key(job, self.keys)), "same " + ", ".join(self.keys), Grounds.CLASS),
            (self.users.get(job.user_id) if job.user_id is not None else None, "same user", Grounds.OWN_HISTORY),
            (self.everybody, "all users", Grounds.EVERYONE),
        )
        for runs, words, grounds in sources:
            if runs:
                logs = np.log10(np.maximum(runs, SHORTEST))
                value = density_mode(logs) if self.statistic == "mode" else float(logs.mean())
                point = at_least_a_second(10.0**value, job.req_time)
                quantiles = sample_quantiles(runs, job.req_time)
                basis = f"{self.statistic} of the density of {len(runs)}, {words}"
                return Prediction(point, LEVELS, quantiles, basis, grounds)
        return self.limits.forecast(job)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the last run times of each class, of each user and of all users."""
        if isinstance(event, End):
            job: JobRequest = event.job
            run: float = event.run_time
            self.same.setdefault(class_key(job, self.keys), deque(maxlen=self.window)).append(run)
            self.users.setdefault(job.user_id, deque(maxlen=self.window)).append(run)
            self.everybody.append(run)
        elif isinstance(event, Submit):
            self.limits.note(event.job.req_time)


def bandwidth(values: np.ndarray) -> float:
    """Return Silverman's bandwidth, 0.9 min(std, IQR/1.34) n^(-1/5), with a minimum in case all values are equal."""
    low, high = np.percentile(values, (25, 75))
    spreads = [s for s in (float(values.std()), float(high - low) / 1.34) if s > 0]
    return max(0.9 * min(spreads, default=0.0) * float(len(values) ** -0.2), NARROWEST)


def density_mode(values: np.ndarray) -> float:
    """Return the position of the maximum of the Gaussian kernel density of `values` (n,), n >= 1.

    The mean-shift algorithm climbs from the densest sample (the first sample wins a tie); the density rises at every
    step. O(n^2).

    >>> round(density_mode(np.array([1.0, 1.0, 1.1, 5.0])), 1)
    1.0
    """
    width = bandwidth(values)
    names, counts = np.unique(values, return_counts=True)
    weights = np.exp(-0.5 * ((names[:, None] - names[None, :]) / width) ** 2) * counts
    at = float(names[int(np.argmax(weights.sum(axis=1)))])
    for _ in range(STEPS):
        near = np.exp(-0.5 * ((names - at) / width) ** 2) * counts
        at = float((near * names).sum() / near.sum())
    return at
