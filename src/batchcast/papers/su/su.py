# SPDX-License-Identifier: Apache-2.0
"""`su`: predicts run times from jobs in the same cluster of the user's job names (k-means on edit distances)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...events.event import End, Event, Submit, Withdraw
from ...events.state import SystemState
from ...job import JobRequest
from ...predict.fallback import LEVELS, LargestLimit, sample_quantiles
from ...predict.gate import Warming, field_value, size_and_hour
from ...predict.protocol import Grounds, Prediction, at_least_a_second
from ..online_knn_ga.genetic import score
from ..online_knn_ga.nearest import REGRESSIONS, local_estimate
from ..online_knn_ga.store import Rows

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
    labels, k, tried, sse, score = _best_of(distances, weights, seed, starts)
    cluster_of = {text: int(label) for text, label in zip(texts, labels)}
    for text in number:
        if text not in cluster_of:
            cluster_of[text] = cluster_of[nearest_text(text, texts)]
    return TextClusters(cluster_of, k, tried, sse, score)


def nearest_text(text: str, texts: list[str]) -> str:
    """Return the element of `texts` with the smallest edit distance to `text`; the first element wins a tie."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import extractOne

    return str(extractOne(text, texts, scorer=Levenshtein.distance)[0])


def _best_of(
    table: np.ndarray, weights: np.ndarray, seed: int, starts: int
) -> tuple[np.ndarray, int, tuple[int, ...], tuple[float, ...], tuple[float, ...]]:
    from sklearn.cluster import KMeans

    n = float(weights.sum())
    centre = np.average(table, axis=0, weights=weights)
    total = float(weights @ ((table - centre) ** 2).sum(axis=1))
    tried = tuple(k for k in TRIED if k < len(np.unique(table, axis=0)))
    labels, sse, score = [np.zeros(len(table), dtype=int)], [], []
    for k in tried:
        fit = KMeans(k, n_init=starts, random_state=seed).fit(table, sample_weight=weights)
        labels.append(fit.labels_)
        sse.append(float(fit.inertia_))
        score.append(calinski_harabasz(total, sse[-1], n, k))
    if not tried:
        return labels[0], 1, tried, (), ()
    until = tried.index(elbow((1, *tried), (total, *sse))) + 1
    best = int(np.argmax(score[:until]))
    return labels[best + 1], tried[best], tried, tuple(sse), tuple(score)


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
    try:
        number = float(value)
    except (TypeError, ValueError):
        return np.nan
    return number if np.isfinite(number) else np.nan


KS = (5, 10, 20, 40)
ALPHAS = tuple(round(0.8 + 0.05 * step, 2) for step in range(25))
MEMORY = 2000
NOBODY = ("", -1)
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
        self.finished = Rows(values=(width, np.float64), run=(0, np.float64), limit=(0, np.float64), done=(0, np.int64))
        self.clusters_of_end: list[Cluster] = []
        self.open: dict[int, int] = {}
        self.members: dict[Cluster, list[int]] = {}
        self.names: dict[str, Counter[str]] = {}
        self.label: dict[str, dict[str, int]] = {}
        self.clustered: dict[str, int] = {}
        self.ends: dict[str, list[tuple[int, str]]] = {}
        self.trained: list[dict[str, Any]] = []

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict alpha times the regression over the nearest jobs, at most the time limit."""
        query = self._standard(np.array(self._values(job)))
        near = self._near(self._cluster(*user_and_text(job)), query, self.k, self.finished.length)
        basis = "of the cluster of its name"
        if not len(near):
            near, basis = self._near(NOBODY, query, self.k, self.finished.length), "of all jobs"
        if not len(near):
            return self.limits.forecast(job)
        run = self.finished["run"][near]
        point = at_least_a_second(self.alpha * self._regress(near, query), job.req_time)
        quantiles = sample_quantiles(run.tolist(), job.req_time)
        return Prediction(point, LEVELS, quantiles, f"{self.model} over the {len(near)} nearest {basis}", Grounds.MODEL)

    def observe(self, event: Event, at: SystemState) -> None:
        """Store a submitted job's name and the number of jobs finished before it; add the run time of an ended job."""
        if isinstance(event, Submit):
            job: JobRequest = event.job
            user, text = user_and_text(job)
            self.limits.note(job.req_time)
            self.submitted += 1
            self.open[job.row] = self.finished.length
            self.names.setdefault(user, Counter())[text] += 1
            self.label.setdefault(user, {}).setdefault(text, self._cluster(user, text)[1])
        elif isinstance(event, End):
            self._end(event.job, event.run_time)
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
            self._recluster(user)
        if not self.finished.length:
            return
        values = self.finished["values"][-20 * MEMORY :]
        known = np.where(np.isnan(values).all(axis=0), 0.0, values)
        spread = np.nanstd(known, axis=0)
        self.centre, self.spread = np.nanmean(known, axis=0), np.where(spread > 0, spread, 1.0)
        fits = self._search()
        self.trained.append(
            {
                "now": now,
                "first_job": self.submitted,
                "k": self.k,
                "alpha": self.alpha,
                "users_clustered": len(grown),
                "clusters": len(self.members),
                "training_jobs": min(self.search, self.finished.length),
                "evaluations": fits,
            }
        )

    def _end(self, job: JobRequest, run: float) -> None:
        user, text = user_and_text(job)
        place = self.finished.length
        done = self.open.pop(job.row, place)
        self.finished.append(self._values(job), run, job.req_time, done)
        self.ends.setdefault(user, []).append((place, text))
        cluster = self._cluster(user, text)
        self.members.setdefault(cluster, []).append(place)
        self.clusters_of_end.append(cluster)

    def _cluster(self, user: str, text: str) -> Cluster:
        """Return the cluster of a job's text, or of the user's nearest text; label 0 if the user has no text yet."""
        known = self.label.get(user)
        if not known or not self.clusters:
            return user, 0
        if text not in known:
            text = nearest_text(text, list(known))
        return user, known[text]

    def _recluster(self, user: str) -> None:
        for label in set(self.label.get(user, {0: 0}).values()):
            self.members.pop((user, label), None)
        self.label[user] = cluster_texts(self.names[user], seed=self.seed, starts=self.starts).labels
        for place, text in self.ends.get(user, ()):
            cluster = self._cluster(user, text)
            self.members.setdefault(cluster, []).append(place)
            self.clusters_of_end[place] = cluster

    def _standard(self, values: np.ndarray) -> np.ndarray:
        return np.asarray((values - self.centre) / self.spread)

    def _values(self, job: JobRequest) -> tuple[float, ...]:
        """Return the values for distances between jobs: processors, hour of submission, and the columns of `also`."""
        further = (field_value(job, name) for name in self.also)
        return (*size_and_hour(job, self.utc_offset), *map(finite_number, further))

    def _near(self, cluster: Cluster, query: np.ndarray, k: int, done: int) -> np.ndarray:
        """Return the k nearest members of a cluster among the first `done` finished jobs, nearest first and, at equal
        distance, newest first."""
        if cluster == NOBODY:
            places = np.arange(max(done - MEMORY, 0), done)
        else:
            members = self.members.get(cluster, [])
            places = np.array(members[-2 * MEMORY :], dtype=np.int64)
            places = places[places < done][-MEMORY:]
        places = places[::-1]
        gap = np.nan_to_num(self._standard(self.finished["values"][places]) - query, nan=1.0, posinf=1e150)
        order = np.argsort((np.clip(gap, -1e150, 1e150) ** 2).sum(axis=1), kind="stable")
        return places[order[:k]]

    def _regress(self, near: np.ndarray, query: np.ndarray) -> float:
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
                done = int(self.finished["done"][place])
                query = self._standard(self.finished["values"][place])
                near = self._near(self.clusters_of_end[place], query, k, done)
                near = near if len(near) else self._near(NOBODY, query, k, done)
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
