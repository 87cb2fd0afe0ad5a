# SPDX-License-Identifier: Apache-2.0
"""`user_clusters`: predicts one exponentially smoothed run time for all users with similar submissions."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...events.event import End, Event, Submit
from ...events.state import SystemState
from ...job import JobRequest
from ...predict.fallback import LEVELS, LargestLimit, sample_quantiles
from ...predict.gate import class_key
from ...predict.protocol import Grounds, Prediction, at_least_a_second

KEPT = 50


@dataclass(slots=True)
class Behaviour:
    """The submissions of one user (or key): running sums of inter-arrival times, job sizes and repeated requests."""

    jobs: int = 0
    last: float = math.nan
    log_gap: float = 0.0
    log_size: float = 0.0
    previous: tuple[Any, ...] = ()
    repeats: int = 0

    def submitted(self, job: JobRequest) -> None:
        """Add a submission."""
        request = class_key(job, ("procs", "req_time", "app_id", "job_name"))
        if self.jobs:
            self.log_gap += math.log1p(max(job.submit_time - self.last, 0.0))
            self.repeats += request == self.previous
        self.log_size += math.log2(job.procs) if job.procs > 0 and job.procs < math.inf else 0.0
        self.jobs += 1
        self.last, self.previous = job.submit_time, request

    def features(self) -> tuple[float, float, float]:
        """Return mean log inter-arrival time, mean log2 processors, and the share of repeated requests."""
        gaps = max(self.jobs - 1, 1)
        return self.log_gap / gaps, self.log_size / self.jobs, self.repeats / gaps


@dataclass(eq=False, repr=False)
class UserClusters:
    """Predicts the exponentially smoothed run time of the user's cluster of users with similar submissions.

    Parameters
    ----------
    keys
        Columns known at submission that identify a user.
    clusters
        Maximum number of clusters, at least 1.
    smoothing
        Weight of the newest run time, in (0, 1].
    every
        Number of submissions between two clusterings, at least 1.
    memory
        Number of finished jobs from which smoothed run times are computed again, at least 1.
    seed
        Random seed of k-means.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    The baseline "UBCETE" of Wu et al. 2019, whose details are not public: this method is a similar baseline, not a
    reproduction. All users so far are clustered by k-means (scikit-learn) on standardised features: mean log
    inter-arrival time, mean log2 processors, and share of repeated requests. The number of clusters k is `clusters`, or
    the number of distinct users if that is smaller. The smoothed value of a cluster, s = smoothing * R + (1 -
    smoothing) * s, is computed again from the last `memory` finished jobs at each clustering, and then updated at each
    End. For a user without a cluster, the user's own smoothed value is predicted, else the smoothed value of all users,
    else the time limit. Predicted quantiles are quantiles of the cluster's last 50 run times. The point prediction is
    between one second and the time limit. A prediction costs O(1); a refit costs O(users * clusters + memory), and
    `trained` lists the refits.

    References
    ----------
    Wu, Shen, Zhang, Liao, Wang, Li, Runtime prediction of jobs for backfilling optimization, 2019.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan"), user_id="ada"), SystemState()
    >>> method = UserClusters(smoothing=0.5)
    >>> for run in (10.0, 20.0):
    ...     method.observe(End(run, job, run, 0.0), state)
    >>> method.predict(job, state).point
    15.0
    """

    levels = LEVELS

    keys: tuple[str, ...] = ("user_id",)
    clusters: int = 8
    smoothing: float = 0.3
    every: int = 1000
    memory: int = 20000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.clusters < 1 or self.every < 1 or self.memory < 1 or not 0 < self.smoothing <= 1:
            raise ValueError("clusters, every and memory are at least 1, smoothing is in (0, 1]")
        self.uses = (*self.keys, "procs")
        self.refit_every_jobs = self.every
        self.limits = LargestLimit()
        self.behaviours: dict[tuple[Any, ...], Behaviour] = {}
        self.finished: deque[tuple[tuple[Any, ...], float]] = deque(maxlen=self.memory)
        self.cluster_of: dict[tuple[Any, ...], int] = {}
        self.smooth: dict[Any, float] = {}
        self.recent: dict[Any, deque[float]] = {}
        self.trained: list[dict[str, Any]] = []

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict the smoothed run time of the user's cluster."""
        key = class_key(job, self.keys)
        cluster: Any = self.cluster_of.get(key, key)
        grounds = Grounds.CLASS if key in self.cluster_of else Grounds.OWN_HISTORY
        basis = f"cluster of users who submit alike ({cluster})" if key in self.cluster_of else "same user, no cluster"
        if cluster not in self.smooth:
            cluster, basis, grounds = None, "all users", Grounds.EVERYONE
        if cluster not in self.smooth:
            return self.limits.forecast(job)
        point = at_least_a_second(self.smooth[cluster], job.req_time)
        quantiles = sample_quantiles(self.recent[cluster], job.req_time)
        return Prediction(point, LEVELS, quantiles, "smoothed: " + basis, grounds)

    def observe(self, event: Event, at: SystemState) -> None:
        """Add a submission to its user's sums, and an ended job to the smoothed values of its cluster and of all
        users."""
        if isinstance(event, End):
            key, run = class_key(event.job, self.keys), event.run_time
            self.finished.append((key, run))
            self._learn(key, run)
        elif isinstance(event, Submit):
            job: JobRequest = event.job
            self.limits.note(job.req_time)
            self.behaviours.setdefault(class_key(job, self.keys), Behaviour()).submitted(job)

    def refit(self, now: float) -> None:
        """Cluster the users again, and compute the smoothed values of the clusters again."""
        from sklearn.cluster import KMeans

        if not self.behaviours:
            return
        names = list(self.behaviours)
        table = np.array([self.behaviours[name].features() for name in names])
        spread = table.std(axis=0)
        table = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        k = min(self.clusters, len(np.unique(table, axis=0)))
        labels = KMeans(k, n_init=4, random_state=self.seed).fit_predict(table)
        self.cluster_of = {name: int(label) for name, label in zip(names, labels)}
        self.smooth, self.recent = {}, {}
        for key, run in self.finished:
            self._learn(key, run)
        self.trained.append({"now": now, "users": len(names), "clusters": k, "jobs": len(self.finished)})

    def _learn(self, key: tuple[Any, ...], run: float) -> None:
        for cluster in (self.cluster_of.get(key, key), None):
            before = self.smooth.get(cluster, run)
            self.smooth[cluster] = self.smoothing * run + (1.0 - self.smoothing) * before
            self.recent.setdefault(cluster, deque(maxlen=KEPT)).append(run)
