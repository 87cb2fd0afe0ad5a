# SPDX-License-Identifier: Apache-2.0
"""`minh_wolters`: templates joined with instance-based learning, weights found by a genetic algorithm."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...events.event import Event
from ...events.state import SystemState
from ...job import JobRequest
from ..fallback import LEVELS, sample_quantiles
from ..knn.genetic import Gene, minimise
from ..knn.nearest import mean_and_std, mean_of_last, planned, scaling
from ..knn.store import Batches, Store
from ..knn.trial import NOMINALS, NUMBERS, RANGES, USER, score
from ..knn.weighted import Groups, grouped_estimates, weighted_nearest
from ..protocol import Grounds, Prediction

ATTRIBUTES = (*NOMINALS, *NUMBERS)
GENES = (
    *(Gene("bit") for _ in NOMINALS),
    *(Gene("real", 0.0, 1.0) for _ in ATTRIBUTES),
    *(Gene("int", *RANGES[name]) for name in ("n", "k")),
    *(Gene("real", *RANGES[name]) for name in ("alpha", "beta")),
)


class Weighted(NamedTuple):
    """Template bits, a weight for each attribute, N, K, alpha, beta."""

    template: int
    weights: tuple[float, ...]
    n: int
    k: int
    alpha: float
    beta: float

    @classmethod
    def of(cls, genome: np.ndarray) -> Weighted:
        """From a genome in the order of GENES."""
        template = sum(int(bit) << field for field, bit in enumerate(genome[:4]))
        n, k, alpha, beta = genome[11:].tolist()
        return cls(template, tuple(genome[4:11].tolist()), int(n), int(k), alpha, beta)


UNTRAINED = Weighted(USER, (1.0,) * len(ATTRIBUTES), 3000, 5, 0.0, 1.0)


class MinhWolters:
    """Mean run time of the K nearest same-template jobs under a weighted distance, plus a safety term, capped.

    Parameters
    ----------
    h, t1, t2
        Submissions of HistSet, TrainingSet and TestSet, see `knn_ga`.
    population, generations
        Of the genetic search; at least 3 and 1.
    sample
        Jobs of the TrainingSet that are tried, spread evenly, at least 1.
    apart
        Whether jobs above and up to the HistSet's median number of processors are searched and predicted apart.
    pu_weight
        Multiplies (1 - PU)^2 in the fitness.
    seed
        Of the search.

    Raises
    ------
    ValueError
        For a number outside its range.

    Notes
    -----
    The method as Xu et al. 2018 describe it (their eq. 1): D(x, y) = sqrt(sum w d^2 / sum w), d 0 or 1 for user,
    group, queue and application, |x - y|/range for processors, limit and memory (range of the HistSet), 1 if
    unknown; min(mean + alpha std, beta limit). Their own settings are not public: no reproduction is claimed.
    Template, weights, N, K, alpha and beta are searched per batch by the genetic algorithm of `knn_ga` in its
    windows and with its fitness, on a sample, since with weights nothing can be sorted beforehand. No neighbour:
    the mean of the last N, then the limit. O(N) a prediction; `trained` says what each batch found and its
    evaluations.

    References
    ----------
    Minh, Wolters, Using historical data to predict application runtimes on backfilling parallel systems, PDP 2010,
    doi:10.1109/PDP.2010.18.
    Xu, Xiong, Xiao, On-line prediction of application run time using schedule historical data, 2018,
    doi:10.3969/j.issn.1001-3695.2018.08.0624.

    Examples
    --------
    >>> MinhWolters().predict(JobRequest(0, 1, 0.0, 1.0, 60.0, float("nan")), SystemState()).point
    60.0
    """

    levels = LEVELS
    uses = ATTRIBUTES

    def __init__(
        self,
        h: int = 3000,
        t1: int = 1500,
        t2: int = 1000,
        population: int = 20,
        generations: int = 20,
        sample: int = 200,
        apart: bool = False,
        pu_weight: float = 1.0,
        seed: int = 0,
    ) -> None:
        if generations < 1 or population < 3 or sample < 1:
            raise ValueError("generations and sample are at least 1, population at least 3")
        self.batches = Batches(h, t1, t2)
        self.refit_every_jobs = self.batches.cadence
        self.population, self.generations, self.sample = population, generations, sample
        self.apart = apart
        self.pu_weight = pu_weight
        self.seed = seed
        self.store = Store(NOMINALS, NUMBERS)
        self.batch = -1
        self.span = np.zeros(len(NUMBERS))
        self.parted_at = math.nan
        self.small = self.big = UNTRAINED
        self.trained: list[dict[str, Any]] = []

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """The estimate from the neighbours that have finished by now."""
        store = self.store
        codes, values = store.code(job), store.value(job)
        chosen = self.big if values[0] > self.parted_at else self.small
        span = self.span if self.batch >= 0 else store.scaling_so_far()[1]
        finished = store.finished
        near = weighted_nearest(
            finished["codes"], finished["values"], codes, values, self._null(), span, np.array(chosen.weights),
            chosen.template, chosen.n, chosen.k, self.parted_at,
        )  # fmt: skip
        run, (limit, fallback) = finished["run"], store.limit(job)
        if len(near):
            mean, std = mean_and_std(run, near)
            used, basis = run[near], f"{len(near)} nearest by weighted attributes"
            grounds = Grounds.CLASS
        elif len(run):
            mean, std = mean_of_last(finished["total"], len(run), chosen.n), 0.0
            used, basis, grounds = run[-chosen.n :], "mean of all", Grounds.EVERYONE
        else:
            return Prediction(max(fallback, 1.0), basis="limit: no history", grounds=Grounds.LIMIT)
        point = planned(mean, std, limit, chosen.alpha, chosen.beta)
        return Prediction(point, LEVELS, sample_quantiles(used.tolist(), limit), basis, grounds)

    def observe(self, event: Event, at: SystemState) -> None:
        """Notes requests and, when they end, run times."""
        self.store.observe(event)

    def refit(self, now: float) -> None:
        """Search the parameters of the batch that is due; nothing when none is."""
        before, self.batch = self.batch, self.store.moved_on(self.batches, self.batch)
        if (batch := self.batch) == before:
            return
        history = self.store.window(*self.batches.history(batch))["values"]
        self.span = scaling(history)[1]
        known = history[:, 0][~np.isnan(history[:, 0])]
        self.parted_at = float(np.median(known)) if self.apart and len(known) else math.nan
        training = self.store.window(*self.batches.training(batch))
        rows = np.flatnonzero(~np.isnan(training["run"]))
        is_big = training["values"][rows, 0] > self.parted_at
        self.small = self._searched(now, "all" if not self.apart else "small", rows[~is_big], training, self.small)
        if self.apart:
            self.big = self._searched(now, "big", rows[is_big], training, self.big)

    def _searched(
        self, now: float, side: str, rows: np.ndarray, training: dict[str, np.ndarray], before: Weighted
    ) -> Weighted:
        if not len(rows):
            return before
        rows = rows[np.linspace(0, len(rows) - 1, min(self.sample, len(rows))).astype(int)]
        finished = self.store.finished
        done = np.searchsorted(finished["place"], training["done"][rows])
        groups = Groups.of(
            finished["codes"], finished["values"], training["codes"][rows], training["values"][rows], self._null(),
            self.span, self.parted_at,
        )  # fmt: skip
        fixed = (groups, finished["run"], finished["total"], done, training["fallback"][rows])
        limit, actual = training["limit"][rows], training["run"][rows]

        def tried(genome: np.ndarray) -> tuple[float, float, float]:
            chosen = Weighted.of(genome)
            mean, std = grouped_estimates(*fixed, np.array(chosen.weights), chosen.template, chosen.n, chosen.k)
            return score(mean, std, limit, actual, chosen.alpha, chosen.beta, self.pu_weight)

        search = minimise(
            GENES,
            lambda genome: tried(genome)[0],
            np.random.default_rng((self.seed, self.batch, len(side))),
            population=self.population,
            generations=self.generations,
        )
        chosen, (_, mae, pu) = Weighted.of(search.best), tried(search.best)
        template = "+".join(name for field, name in enumerate(NOMINALS) if (chosen.template >> field) & 1)
        self.trained.append(
            {
                "now": now, "batch": self.batch, "first_job": self.batches.training(self.batch)[1], "side": side,
                "template": template or "(empty)",
                **{f"weight_{name}": weight for name, weight in zip(ATTRIBUTES, chosen.weights)},
                "n": chosen.n, "k": chosen.k, "alpha": chosen.alpha, "beta": chosen.beta, "fitness": search.fitness,
                "training_jobs": len(rows), "training_mae_s": mae, "training_underestimate_rate": pu,
                "evaluations": search.evaluations,
            }
        )  # fmt: skip
        return chosen

    def _null(self) -> np.ndarray:
        """Per name field the code that means unknown; -2 where nothing is unknown."""
        return np.array([known.get(None, -2) for known in self.store.codes], dtype=np.int32)
