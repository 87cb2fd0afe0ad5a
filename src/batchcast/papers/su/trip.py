# SPDX-License-Identifier: Apache-2.0
"""`trip`: predicts the time limit if the user's limits were accurate or the history is short, else by Tobit regression
(Fan 2017)."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from ...events.event import End, Event, Submit
from ...events.state import SystemState
from ...job import JobRequest
from ...predict.fallback import LEVELS, LargestLimit
from ...predict.gate import ABSURD, class_key
from ...predict.protocol import Grounds, Prediction, at_least_a_second

ROUNDS = 30
SMALLEST = 1e-3


class Tobit(NamedTuple):
    """A linear model of the form y = weights . (1, x) + sigma e with standard normal e."""

    weights: np.ndarray
    sigma: float

    def mean(self, row: np.ndarray) -> float:
        """Return the model's mean at the features `row` (m,)."""
        return float(self.weights[0] + row @ self.weights[1:])


def fit_tobit(table: np.ndarray, y: np.ndarray, censored: np.ndarray) -> Tobit:
    """Fit y (n,) on `table` (n, m) by maximum likelihood; where `censored` (n,) is true, the real value is above y.

    The model of Tobin 1958 is fitted by expectation-maximisation, in at most 30 rounds: each round replaces a censored
    y by its expectation under the present fit, given that the real value is above y, and then fits by least squares (of
    smallest norm if columns are dependent). O(rounds n m^2).

    >>> x = np.arange(20.0)[:, None]
    >>> cut = np.minimum(2.0 * x[:, 0] + 1.0, 21.0)
    >>> fit = fit_tobit(x, cut, cut == 21.0)
    >>> bool(fit.mean(np.array([10.0])) > 20.5)
    True
    """
    from scipy.special import log_ndtr

    matrix = np.column_stack([np.ones(len(y)), table])
    expected, square = y.astype(float), y.astype(float) ** 2
    weights, sigma = np.zeros(matrix.shape[1]), 1.0
    for _ in range(ROUNDS):
        weights = np.linalg.lstsq(matrix, expected, rcond=None)[0]
        mu = matrix @ weights
        variance = float(np.mean(square - 2.0 * expected * mu + mu * mu))
        before, sigma = sigma, math.sqrt(max(variance, SMALLEST**2))
        if not censored.any() or (_ and abs(sigma - before) < 1e-6 * sigma):
            break
        z = (y[censored] - mu[censored]) / sigma
        hazard = np.exp(-0.5 * z * z - 0.5 * math.log(2.0 * math.pi) - log_ndtr(-z))
        expected[censored] = mu[censored] + sigma * hazard
        square[censored] = mu[censored] ** 2 + sigma**2 + sigma * hazard * (y[censored] + mu[censored])
    return Tobit(weights, sigma)


Z = tuple(NormalDist().inv_cdf(level) for level in LEVELS)
Past = tuple[float, float, float]


@dataclass(eq=False, repr=False)
class Trip:
    """Predicts the time limit if the user's limits are accurate, else by a censored (Tobit) regression.

    Parameters
    ----------
    count
        Minimum number of finished jobs of a kind (same user, project and name) for the regression, at least 1.
    trust
        Mean accuracy of the time limits above which the time limit is the prediction, in [0, 1].
    window
        Number of last jobs of a kind that are used, at least `count`.
    every
        Number of submissions between two rounds of fits, at least 1.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    The method follows the description by Wang et al. 2021. A job's project is its account, else its group; its name is
    the job name, else the executable. The accuracy of a time limit is run time divided by limit, at most 1. The
    regression is of log run time on log processors and log limit; the run time of a job that reached its limit is
    censored. The point prediction is the median, capped by the time limit. The thresholds and features are our choice,
    because the description by Wang et al. does not give them. Kinds with new jobs are fitted again on their last
    `window` jobs; before the first fit of a kind, the limit is the prediction. A job without a limit gets the largest
    limit so far, without censoring. The predicted quantiles are quantiles of the fitted log-normal distribution. A
    prediction costs O(1); `trained` counts the fits of each refit.

    References
    ----------
    Fan, Rich, Allcock, Papka, Lan, Trade-off between prediction accuracy and underestimation rate in job runtime
    estimates, IEEE CLUSTER 2017, doi:10.1109/CLUSTER.2017.11.
    Wang, Dai, Yu, Dong, Predicting running time of aerodynamic jobs in HPC system by combining supervised and
    unsupervised learning method, 2021.
    Tobin, Estimation of relationships for limited dependent variables, 1958, doi:10.2307/1907382.

    Examples
    --------
    >>> Trip().predict(JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan"), user_id="ada"), SystemState()).point
    600.0
    """

    levels = LEVELS
    uses = ("user_id", "account", "group_id", "job_name", "app_id", "procs", "req_time")
    either = (("account", "group_id"), ("job_name", "app_id"))

    count: int = 10
    trust: float = 0.8
    window: int = 100
    every: int = 500

    def __post_init__(self) -> None:
        if min(self.count, self.window, self.every) < 1 or self.window < self.count or not 0 <= self.trust <= 1:
            raise ValueError("count, window and every are at least 1, window not below count, trust in [0, 1]")
        self.refit_every_jobs = self.every
        self.limits = LargestLimit()
        self.past: dict[tuple[Any, ...], deque[Past]] = {}
        self.fits: dict[tuple[Any, ...], Tobit] = {}
        self.news: dict[tuple[Any, ...], None] = {}
        self.trained: list[dict[str, Any]] = []

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict the time limit, or the median of the regression."""
        limit = self.limits.of(job.req_time)
        key = kind_of(job)
        fit, past = self.fits.get(key), self.past.get(key, ())
        if fit is None or len(past) < self.count:
            return self.limits.forecast(job, "limit: too little history of this kind")
        accuracy = sum(min(run / max(asked, 1.0), 1.0) for _, asked, run in past) / len(past)
        if accuracy > self.trust:
            return self.limits.forecast(job, "limit: the user's last limits were accurate")
        middle = fit.mean(np.array([_log(job.procs), _log(limit)]))
        values = [at_least_a_second(math.exp(min(middle + z * fit.sigma, 40.0)), limit) for z in (0.0, *Z)]
        return Prediction(
            values[0], LEVELS, tuple(values[1:]), f"Tobit over {len(past)} jobs of this kind", Grounds.MODEL
        )

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the last finished jobs of each kind."""
        if isinstance(event, End):
            job: JobRequest = event.job
            run: float = event.run_time
            key = kind_of(job)
            asked = job.req_time if 0 < job.req_time < math.inf else math.inf
            self.past.setdefault(key, deque(maxlen=self.window)).append((job.procs, asked, run))
            self.news[key] = None
        elif isinstance(event, Submit):
            self.limits.note(event.job.req_time)

    def refit(self, now: float) -> None:
        """Fit the regression of each kind of jobs with new jobs and enough history."""
        due = [key for key in self.news if len(self.past[key]) >= self.count]
        for key in due:
            past = np.array(self.past[key])
            asked = np.where(np.isinf(past[:, 1]), max(self.limits.seconds, 1.0), past[:, 1])
            run = np.maximum(past[:, 2], 1.0)
            table = np.array([[_log(procs), _log(limit)] for procs, limit in zip(past[:, 0], asked)])
            self.fits[key] = fit_tobit(table, np.log(run), run >= np.maximum(past[:, 1], 1.0))
        self.news = {}
        self.trained.append({"now": now, "kinds": len(self.past), "evaluations": len(due)})


def kind_of(job: JobRequest) -> tuple[Any, ...]:
    """Return the kind of a job: its user, project and name."""
    user, account, group, name, app = class_key(job, ("user_id", "account", "group_id", "job_name", "app_id"))
    return user, group if account is None else account, app if name is None else name


def _log(value: float) -> float:
    return math.log(min(max(value, 1.0), ABSURD)) if value == value else 0.0
