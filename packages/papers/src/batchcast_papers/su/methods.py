# SPDX-License-Identifier: Apache-2.0
"""The method of Wang et al. 2021, `su`, and the methods with which they compare: `plain_regression` and `trip`.

`su` predicts run times from jobs in the same cluster of the user's job names (k-means on edit distances).
`plain_regression` predicts run times by one regression over all jobs ("Single-" columns of the paper). `trip` (Fan
2017) predicts the time limit if the user's limits were accurate or the history is short, else it uses Tobit regression.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from batchcast.events.event import End, Event, Submit, Withdraw
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.fallback import LEVELS, LargestLimit
from batchcast.predict.gate import ABSURD, class_key, field_value, finite_or_nan
from batchcast.predict.protocol import Grounds, Prediction, at_least_a_second
from batchcast_papers.learning import Warming, sample_quantiles, size_and_hour

from ..online_knn_ga.genetic import Rows, score
from ..online_knn_ga.nearest import REGRESSIONS, Linear, Scaled, fitted, local_estimate

TRIED = (2, 3, 4, 5, 6, 8, 10, 12, 15)
STARTS = 50
"""Starts of k-means for each k. For 8 seeds and 40 to 149 names, 20 starts were up to 3.3 % worse than 50 starts."""


class TextClusters(NamedTuple):
    """The cluster of each text, the chosen number k of clusters, and the SSE and Calinski-Harabasz score of each tried
    k."""

    labels: dict[str, int]
    k: int
    tried: tuple[int, ...]
    sse: tuple[float, ...]
    score: tuple[float, ...]


def cluster_texts(counts: Mapping[str, int], most: int = 500, seed: int = 0, starts: int = STARTS) -> TextClusters:
    """Cluster texts that occurred `counts` times each by Levenshtein distance (rapidfuzz) and k-means++ (scikit-learn).

    The method follows Wang et al. 2021, eqs. 1 to 3. In the paper a sample is a row of the distance matrix LD over all
    jobs. This implementation clusters the distinct texts s with weight n_s, and column s is scaled by sqrt(n_s), which
    gives equal sums of squares at bounded cost. k is the tried value (2, 3, ... 15, below the number of texts) with the
    largest Calinski-Harabasz score up to the elbow of SSE; ties go to the smaller k. If the elbow did not limit k, the
    score would keep rising, because names that differ only in a number are separated. If there are only one or two
    texts, each text is a cluster. Only the `most` most frequent texts are clustered (ties: the first in `counts`); each
    other text joins the cluster of its nearest text. The call needs O(most^2) distances and memory.

    >>> cluster_texts({"ada_wing": 3, "ada_mesh": 1}).labels
    {'ada_wing': 0, 'ada_mesh': 1}
    """
    found = _clustered(tuple(counts.items()), most, seed, starts)
    return found._replace(labels=dict(found.labels))  # return a copy, because the caller adds names to the dictionary


@lru_cache(maxsize=2048)
def _clustered(counts: tuple[tuple[str, int], ...], most: int, seed: int, starts: int) -> TextClusters:
    """Return the result of `cluster_texts`; cached, because several `su` predictors in one replay cluster the same
    names."""
    texts = [text for text, _ in sorted(counts, key=lambda one: -one[1])[:most]]
    if len(texts) < 3:
        return TextClusters({text: label for label, text in enumerate(texts)}, len(texts), (), (), ())
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    number = dict(counts)
    weights = np.array([float(number[text]) for text in texts])
    distances = cdist(texts, texts, scorer=Levenshtein.distance, dtype=np.float64) * np.sqrt(weights)
    labels, found = _best_of(distances, weights, seed, starts)
    found.labels.update(zip(texts, labels))
    found.labels.update({text: found.labels[nearest_text(text, texts)] for text in number if text not in found.labels})
    return found


def nearest_text(text: str, texts: list[str]) -> str:
    """Return the element of `texts` with the smallest edit distance to `text`; the first element wins a tie."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import extractOne

    return str(extractOne(text, texts, scorer=Levenshtein.distance)[0])


def _best_of(table: np.ndarray, weights: np.ndarray, seed: int, starts: int) -> tuple[list[int], TextClusters]:
    """Return the cluster of each row for the best number k of clusters, and the scores of each tried k."""
    from sklearn.cluster import KMeans

    n = float(weights.sum())
    centre = np.average(table, axis=0, weights=weights)
    total = float(weights @ ((table - centre) ** 2).sum(axis=1))
    tried = tuple(k for k in TRIED if k < len(np.unique(table, axis=0)))
    if not tried:
        return [0] * len(table), TextClusters({}, 1, tried, (), ())
    fits = [KMeans(k, n_init=starts, random_state=seed).fit(table, sample_weight=weights) for k in tried]
    sse = tuple(float(fit.inertia_) for fit in fits)
    score = tuple(calinski_harabasz(total, within, n, k) for within, k in zip(sse, tried))
    until = tried.index(elbow((1, *tried), (total, *sse))) + 1
    best = int(np.argmax(score[:until]))
    return fits[best].labels_.tolist(), TextClusters({}, tried[best], tried, sse, score)


def elbow(ks: tuple[int, ...], sse: tuple[float, ...]) -> int:
    """Return the elbow: the k after the first whose SSE is farthest below the line from the first to the last point;
    the first k wins a tie.

    >>> elbow((1, 2, 3, 4), (100.0, 12.0, 10.0, 8.0))
    2
    """
    x, y = np.array(ks, float), np.array(sse)
    line = y[0] + (y[-1] - y[0]) * (x - x[0]) / (x[-1] - x[0])
    return ks[1 + int(np.argmax((line - y)[1:]))]


def calinski_harabasz(total: float, within: float, n: float, k: int) -> float:
    """Return tr(B)/tr(W) * (n - k)/(k - 1), eq. 3, computed from sums of squares; infinite if the sum of squares within
    clusters is 0.

    >>> calinski_harabasz(total=100.0, within=20.0, n=12.0, k=2)
    40.0
    """
    if within <= 0:
        return np.inf
    return (total - within) / within * (n - k) / (k - 1)


def finite_number(value: Any) -> float:
    """Return a value as a number; NaN if it is unknown, not finite, or text that is not a number.

    >>> finite_number("250000"), finite_number("fine"), finite_number(None)
    (250000.0, nan, nan)
    """
    with suppress(TypeError, ValueError):
        return finite_or_nan(float(value))
    return np.nan


KS = (5, 10, 20, 40)
ALPHAS = tuple(round(0.8 + 0.05 * step, 2) for step in range(25))
MEMORY = 2000
Cluster = tuple[str, int]


@dataclass(eq=False, repr=False)
class Su:
    """Predicts alpha times a regression over the k nearest jobs in the cluster of the job's user and name.

    Parameters
    ----------
    model
        The kind of regression that is fitted to the k neighbours: `linear`, `forest` or `svr`. Predictions are clipped
        to the range of the neighbours' run times.
    every
        Number of submissions between two searches of k and alpha, at least 1; the first searches follow after fewer
        submissions, see `Warming`.
    search
        Number of last finished jobs on which k and alpha are searched, at least 1.
    objective
        `balanced`: (sum|P - R|/sum R) / exp((1 - UR)^2), as in Xu et al. 2018; `mae` uses only the first factor.
    clusters
        Whether job names are clustered.
    utc_offset
        Seconds that are added to the log's clock to get local time.
    also
        Further numeric columns for the distance between jobs, for example the size of a mesh; they must be known at
        submission. If a value is unknown or not a number, the distance to it is 1 standard deviation.
    seed
        Random seed of k-means and of the models.
    starts
        Number of starts of k-means for each number of clusters; the best start is used.

    Raises
    ------
    ValueError
        For an unknown model, or if a parameter is below 1.

    Notes
    -----
    Equations 1 to 5 of Wang et al. 2021. Clusters: k-means clusters each user's texts user_jobname by edit distance,
    see `cluster_texts`; if the log has no names, the number of the executable replaces the name. A user's names are
    clustered again when the number of the names has grown by half; until then a new name joins the cluster of the
    nearest name. Neighbours are the nearest of the cluster's last 2000 finished jobs, by standardised processors and
    sin and cos of the hour of submission; the distance to an unknown value is 1; ties go to the more recent job. If the
    user's cluster has no finished jobs, the last 2000 jobs of all users are used. The paper does not print k and alpha:
    a search finds k and alpha, and predicts each job in the search from jobs that had finished before the job's
    submission. Departures: predictions are capped by the limit if it is known. Quantiles are order statistics of the
    neighbours' run times. A prediction costs O(2000) and one small fit; `trained` lists each refit with its result and
    its number of fitted regressions.

    References
    ----------
    Wang, Dai, Yu, Dong, Predicting running time of aerodynamic jobs in HPC system by combining supervised and
    unsupervised learning method, 2021.
    Xu, Xiong, Xiao, On-line prediction of application run time using schedule historical data, 2018,
    doi:10.3969/j.issn.1001-3695.2018.08.0624.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job = JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan"), user_id="ada", job_name="wing")
    >>> method, state = Su(model="linear"), SystemState()
    >>> for run in (100.0, 100.0):
    ...     method.observe(End(run, job, run, 0.0), state)
    >>> method.predict(job, state).point
    100.0
    """

    levels = LEVELS
    uses: ClassVar[tuple[str, ...]] = ("user_id", "job_name", "app_id", "procs")
    either = (("job_name", "app_id"),)

    model: Literal["linear", "forest", "svr"] = "svr"
    every: int = 2000
    search: int = 100
    objective: Literal["balanced", "mae"] = "balanced"
    clusters: bool = True
    utc_offset: float = 0.0
    also: tuple[str, ...] = ()
    seed: int = 0
    starts: int = STARTS

    def __post_init__(self) -> None:
        if self.model not in REGRESSIONS:
            raise ValueError(f"model is one of {', '.join(REGRESSIONS)}")
        if self.search < 1:
            raise ValueError("search is at least 1 job")
        self.pace = Warming(self.every)
        self.refit_every_jobs = self.pace.cadence
        self.submitted = 0
        self.pu_weight = 1.0 if self.objective == "balanced" else 0.0
        self.k, self.alpha = 10, 1.0
        self.limits = LargestLimit()
        self.uses = (*type(self).uses, *self.also)  # type: ignore[misc]
        width = 3 + len(self.also)
        self.centre, self.spread = np.zeros(width), np.ones(width)
        self.finished = Rows(
            values=(width, np.float64), run=(0, np.float64), limit=(0, np.float64), finished_before=(0, np.int64)
        )
        self.names_of_end: list[tuple[str, str]] = []  # user and text of each finished job
        self.open: dict[int, int] = {}
        self.members: dict[Cluster, list[int]] = {}
        self.names: dict[str, Counter[str]] = {}
        self.label: dict[str, dict[str, int]] = {}
        self.clustered: dict[str, int] = {}
        self.trained: list[dict[str, Any]] = []

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict alpha times the regression over the nearest jobs, at most the time limit."""
        query = self._standard(np.array(self._values(job)))
        near, is_own = self._nearest(self._cluster(*user_and_text(job)), query, self.k, self.finished.length)
        if not len(near):
            return self.limits.forecast(job)
        basis = "of the cluster of its name" if is_own else "of all jobs"
        run = self.finished["run"][near]
        point = at_least_a_second(self.alpha * self._regress(near, query), job.req_time)
        quantiles = sample_quantiles(run.tolist(), job.req_time)
        return Prediction(point, LEVELS, quantiles, f"{self.model} over the {len(near)} nearest {basis}", Grounds.MODEL)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store a submitted job's name and the number of jobs finished before it; add the run time of an ended job."""
        if isinstance(event, Submit):
            job, (user, text) = event.job, user_and_text(event.job)
            self.limits.note(job.req_time)
            self.submitted += 1
            self.open[job.row] = self.finished.length
            self.names.setdefault(user, Counter())[text] += 1
            self.label.setdefault(user, {}).setdefault(text, self._cluster(user, text)[1])
        elif isinstance(event, End):
            job, place, names = event.job, self.finished.length, user_and_text(event.job)
            self.finished.append(self._values(job), event.run_time, job.req_time, self.open.pop(job.row, place))
            self.names_of_end.append(names)
            self.members.setdefault(self._cluster(*names), []).append(place)
        elif isinstance(event, Withdraw):
            self.open.pop(event.job.row, None)

    def refit(self, now: float) -> None:
        """If a refit is due, cluster the names of users with new names, standardise again, and search k and alpha on
        past jobs."""
        if not self.pace.due(self.submitted):
            return
        names = self.names.items() if self.clusters else ()
        grown = [user for user, texts in names if 2 * len(texts) >= 3 * self.clustered.get(user, 0)]
        for user in grown:
            self.clustered[user] = len(self.names[user])
            self.label[user] = cluster_texts(self.names[user], seed=self.seed, starts=self.starts).labels
        if grown:
            self.members = {}
            for place, user_and_name in enumerate(self.names_of_end):
                self.members.setdefault(self._cluster(*user_and_name), []).append(place)
        if not self.finished.length:
            return
        values = self.finished["values"][-20 * MEMORY :]
        known = np.where(np.isnan(values).all(axis=0), 0.0, values)
        spread = np.nanstd(known, axis=0)
        self.centre, self.spread = np.nanmean(known, axis=0), np.where(spread > 0, spread, 1.0)
        fits = self._search()
        found = {"now": now, "first_job": self.submitted, "k": self.k, "alpha": self.alpha}
        counts = {"users_clustered": len(grown), "clusters": len(self.members)}
        training_jobs = min(self.search, self.finished.length)
        self.trained.append({**found, **counts, "training_jobs": training_jobs, "evaluations": fits})

    def _cluster(self, user: str, text: str) -> Cluster:
        """Return the cluster of a job's text, or of the user's nearest text; label 0 if the user has no text yet."""
        known = self.label.get(user)
        if not known or not self.clusters:
            return user, 0
        if text not in known:
            text = nearest_text(text, list(known))
        return user, known[text]

    def _standard(self, values: np.ndarray) -> np.ndarray:
        """Return standardised values, in standard deviations from the mean."""
        return np.asarray((values - self.centre) / self.spread)

    def _values(self, job: JobRequest) -> tuple[float, ...]:
        """Return the values for distances between jobs: processors, hour of submission, and the columns of `also`."""
        further = (field_value(job, name) for name in self.also)
        return (*size_and_hour(job, self.utc_offset), *map(finite_number, further))

    def _nearest(self, cluster: Cluster, query: np.ndarray, k: int, finished_before: int) -> tuple[np.ndarray, bool]:
        """Return the k nearest members of a cluster among the first `finished_before` finished jobs, nearest first
        and, at equal distance, newest first. If there is no member, return the k nearest of all jobs, and False."""
        members = np.array(self.members.get(cluster, [])[-2 * MEMORY :], dtype=np.int64)
        own = members[members < finished_before][-MEMORY:]
        places = (own if len(own) else np.arange(max(finished_before - MEMORY, 0), finished_before))[::-1]
        gap = np.nan_to_num(self._standard(self.finished["values"][places]) - query, nan=1.0, posinf=1e150)
        order = np.argsort((np.clip(gap, -1e150, 1e150) ** 2).sum(axis=1), kind="stable")
        return places[order[:k]], len(own) > 0

    def _regress(self, near: np.ndarray, query: np.ndarray) -> float:
        """Return the run time (s) that a regression over the jobs `near` predicts for the query."""
        table = self._standard(self.finished["values"][near])
        return local_estimate(self.model, table, self.finished["run"][near], query, self.seed)

    def _search(self) -> int:
        """Set k and alpha to the best values for the last finished jobs; return the number of fitted regressions."""
        places = np.arange(max(self.finished.length - self.search, 0), self.finished.length)
        actual, limit = self.finished["run"][places], self.finished["limit"][places]
        best = (np.inf, self.k, self.alpha)
        fits = 0
        for k in KS:
            estimate = np.full(len(places), np.nan)
            for at, place in enumerate(places):
                finished_before = int(self.finished["finished_before"][place])
                query = self._standard(self.finished["values"][place])
                near, _ = self._nearest(self._cluster(*self.names_of_end[place]), query, k, finished_before)
                if len(near):
                    estimate[at] = self._regress(near, query)
                    fits += 1
            answered = ~np.isnan(estimate)
            for alpha in ALPHAS if answered.any() else ():
                capped = alpha * estimate[answered]
                value = score(capped, 0.0 * capped, limit[answered], actual[answered], 0.0, 1.0, self.pu_weight)[0]
                best = min(best, (value, k, alpha))
        _, self.k, self.alpha = best
        return fits


def user_and_text(job: JobRequest) -> tuple[str, str]:
    """Return the user, and the text user_jobname, with the executable's number if the job has no name."""
    name = job.job_name if job.job_name is not None else job.app_id
    user = "" if job.user_id is None else str(job.user_id)
    return user, f"{user}_{'' if name is None else name}"


@dataclass(eq=False, repr=False)
class PlainRegression:
    """Predicts run times by one regression (`linear`, `forest`, `svr`) on processors and hour of submission.

    Parameters
    ----------
    model
        The kind of regression: `linear`, `forest` or `svr`.
    every
        Number of submissions between two fits, at least 1; the first fits follow after fewer submissions, as in
        `Warming`.
    window
        Number of last finished jobs on which the regression is fitted, at least 1.
    utc_offset
        Seconds that are added to the log's clock to get local time.
    seed
        Random seed of the models.

    Raises
    ------
    ValueError
        For an unknown model, or if a parameter is below 1.

    Notes
    -----
    This method is the baseline of `su` in section "Experimental results" of Wang et al. 2021: the same regressions but
    without clusters and neighbours, fitted to standardised features and run times. Unknown processors count as the
    mean. Before the first fit, the prediction is the mean run time of finished jobs or, if there are none, the time
    limit. Predicted run times are between one second and the time limit. A prediction costs one evaluation of the
    regression; the attribute `trained` lists the refits.

    References
    ----------
    Wang, Dai, Yu, Dong, Predicting running time of aerodynamic jobs in HPC system by combining supervised and
    unsupervised learning method, 2021.

    Examples
    --------
    >>> PlainRegression("linear").predict(JobRequest(0, 1, 0.0, 1.0, 60.0, float("nan")), SystemState()).point
    60.0
    """

    uses = ("procs",)

    model: Literal["linear", "forest", "svr"] = "svr"
    every: int = 1000
    window: int = 3000
    utc_offset: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.model not in REGRESSIONS:
            raise ValueError(f"model is one of {', '.join(REGRESSIONS)}")
        if self.window < 1:
            raise ValueError("window is at least 1 job")
        self.pace = Warming(self.every)
        self.refit_every_jobs = self.pace.cadence
        self.submitted = 0
        self.limits = LargestLimit()
        self.finished: deque[tuple[float, float, float, float]] = deque(maxlen=self.window)
        self.total = 0.0
        self.count = 0
        self.fit: Linear | Scaled | None = None
        self.centre, self.spread = np.zeros(3), np.ones(3)
        self.trained: list[dict[str, Any]] = []

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict the value of the regression; before the first fit, predict the mean run time or the time limit."""
        if self.fit is not None:
            row = self._standard(np.array([size_and_hour(job, self.utc_offset)]))
            value = float(self.fit(row)[0])
            if np.isfinite(value):
                return Prediction(
                    at_least_a_second(value, job.req_time),
                    basis=f"{self.model} over all history",
                    grounds=Grounds.MODEL,
                )
        if self.count:
            mean = at_least_a_second(self.total / self.count, job.req_time)
            return Prediction(mean, basis="mean of all", grounds=Grounds.EVERYONE)
        return self.limits.forecast(job)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the run time of each job that ends, and count submissions."""
        if isinstance(event, End):
            self.finished.append((*size_and_hour(event.job, self.utc_offset), event.run_time))
            self.total += event.run_time
            self.count += 1
        elif isinstance(event, Submit):
            self.submitted += 1
            self.limits.note(event.job.req_time)

    def refit(self, now: float) -> None:
        """If a fit is due, fit the regression to the last finished jobs."""
        if not self.pace.due(self.submitted) or not self.finished:
            return
        table = np.array(self.finished)
        values, run = table[:, :3], table[:, 3]
        known = ~np.isnan(values[:, 0])
        self.centre = np.array([values[known, 0].mean() if known.any() else 0.0, *values[:, 1:].mean(axis=0)])
        spread = np.array([values[known, 0].std() if known.any() else 0.0, *values[:, 1:].std(axis=0)])
        self.spread = np.where(spread > 0, spread, 1.0)
        self.fit = fitted(self.model, self._standard(values), run, self.seed)
        self.trained.append({"now": now, "training_jobs": len(run), "evaluations": 1})

    def _standard(self, values: np.ndarray) -> np.ndarray:
        """Return standardised values, in standard deviations from the mean."""
        return np.nan_to_num((values - self.centre) / self.spread, nan=0.0)


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
            job, key = event.job, kind_of(event.job)
            asked = job.req_time if 0 < job.req_time < math.inf else math.inf
            self.past.setdefault(key, deque(maxlen=self.window)).append((job.procs, asked, event.run_time))
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
    """Return the logarithm of a number of processors or a time limit; 0 if it is unknown."""
    return math.log(min(max(value, 1.0), ABSURD)) if value == value else 0.0
