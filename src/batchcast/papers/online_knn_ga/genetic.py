# SPDX-License-Identifier: Apache-2.0
"""A small genetic algorithm that minimises over bits, whole numbers and reals, and the training set of its fitness.

The class of the training set can compute the prediction that each job would have got at its submission.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...compiled import allocating
from ...events.event import Event
from ...events.state import SystemState
from ...predict.fallback import LEVELS
from .nearest import Orders, mean_of_last, neighbour_orders, normalised, planned
from .store import Batches, Store


class Gene(NamedTuple):
    """One gene: a `bit`, an `int` or a `real` in [low, high]."""

    kind: str
    low: float = 0.0
    high: float = 1.0


class Evolved(NamedTuple):
    """The best genome, its fitness, the last population (best first) and the number of fitness evaluations."""

    best: np.ndarray
    fitness: float
    population: np.ndarray
    evaluations: int


TOURNAMENT, CROSSOVER, ELITE, STEP = 3, 0.9, 2, 0.1


def minimise(
    genes: Sequence[Gene],
    fitness: Callable[[np.ndarray], float],
    rng: np.random.Generator,
    *,
    population: int = 50,
    generations: int = 100,
    start: np.ndarray | None = None,
    patience: int = 0,
) -> Evolved:
    """Return the best genome of `generations` rounds of `population` genomes (the first round is random, or the
    population `start`).

    Each parent is the winner of a tournament of 3 genomes. Crossover is uniform, with probability 0.9. Each of the L
    genes mutates with probability 1/L: a bit flips, a number takes a Gaussian step of a tenth of its range, rounded and
    clipped. The best 2 genomes survive. The fitness of each distinct genome is computed once. Ties go to the first
    genome. If `patience` is set, the search ends after this number of rounds without a better genome. The cost is
    O(population * generations) computations of the fitness.

    >>> found = minimise([Gene("int", 0, 100)], lambda g: abs(g[0] - 42), np.random.default_rng(0), generations=30)
    >>> float(found.best[0])
    42.0
    """
    low, high = np.array([g.low for g in genes]), np.array([g.high for g in genes])
    kinds = np.array([g.kind for g in genes])
    met: dict[bytes, float] = {}

    def ranked(genomes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the genomes and their fitness, best first."""
        keys = [genome.tobytes() for genome in genomes]
        for key, genome in zip(keys, genomes):
            if key not in met:
                met[key] = float(fitness(genome))
        value = np.array([met[key] for key in keys])
        order = np.argsort(value, kind="stable")
        return genomes[order], value[order]

    now = _random(kinds, low, high, population, rng)
    if start is not None:
        now[: len(start)] = start[:population]
    now, value = ranked(now)
    keep, idle = min(ELITE, population), 0
    for _ in range(generations - 1):
        if 0 < patience <= idle:
            break
        best, children = value[0], _children(now, value, kinds, low, high, rng)
        now, value = ranked(np.concatenate([now[:keep], children[: population - keep]]))
        idle = 0 if value[0] < best else idle + 1
    return Evolved(now[0].copy(), float(value[0]), now, len(met))


def _random(kinds: np.ndarray, low: np.ndarray, high: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    drawn = low + (high - low) * rng.random((size, len(low)))
    whole = np.minimum(np.floor(low + (high - low + 1) * rng.random((size, len(low)))), high)
    return np.asarray(np.where(kinds == "real", drawn, whole))


def _children(
    now: np.ndarray, value: np.ndarray, kinds: np.ndarray, low: np.ndarray, high: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return one child for each genome of the population."""
    size, length = now.shape
    contest = rng.integers(size, size=(2, size, TOURNAMENT))
    winners = np.take_along_axis(contest, np.argmin(value[contest], axis=2)[..., None], axis=2)[..., 0]
    mother, father = now[winners[0]], now[winners[1]]
    crossed = (rng.random((size, 1)) < CROSSOVER) & (rng.random((size, length)) < 0.5)
    child = np.where(crossed, father, mother)
    mutated = rng.random((size, length)) < 1.0 / length
    step = child + STEP * (high - low) * rng.standard_normal((size, length))
    other = np.where(kinds == "bit", 1.0 - child, np.where(kinds == "int", np.rint(step), step))
    return np.asarray(np.where(mutated, np.clip(other, low, high), child))


@allocating
def sweep(
    start: np.ndarray,
    entries: np.ndarray,
    user_start: np.ndarray,
    user_entries: np.ndarray,
    done: np.ndarray,
    run: np.ndarray,
    total: np.ndarray,
    fallback: np.ndarray,
    n: int,
    k: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the estimated run time Est and the deviation std of every training job for one (template, N, K), with the
    fall-backs of the paper's step 5.

    The deviation std is NaN if the time limit is the prediction. The arrays `run` and `total` are in order of
    completion. The call takes about O(jobs * K) time.
    """
    mean, std = np.empty(len(done)), np.empty(len(done))
    for i in range(len(done)):
        oldest = done[i] - n
        mean[i], std[i] = _of_first(entries, start[i], start[i + 1], run, oldest, k)
        if mean[i] != mean[i]:
            mean[i], std[i] = _of_first(user_entries, user_start[i], user_start[i + 1], run, oldest, k)
        if mean[i] != mean[i]:
            if done[i] > 0:
                mean[i], std[i] = mean_of_last(total, done[i], n), 0.0
            else:
                mean[i], std[i] = fallback[i], np.nan
    return mean, std


@allocating
def _of_first(entries: np.ndarray, begin: int, end: int, run: np.ndarray, oldest: int, k: int) -> tuple[float, float]:
    count, first, one, two = 0, 0.0, 0.0, 0.0
    for at in range(begin, end):
        place = entries[at]
        if place < oldest:
            continue
        if count == 0:
            first = run[place]
        d = run[place] - first
        one += d
        two += d * d
        count += 1
        if count == k:
            break
    if count == 0:
        return np.nan, np.nan
    mean = one / count
    return first + mean, np.sqrt(max(two / count - mean * mean, 0.0))


@allocating
def score(
    mean: np.ndarray,
    std: np.ndarray,
    limit: np.ndarray,
    actual: np.ndarray,
    alpha: float,
    beta: float,
    pu_weight: float,
) -> tuple[float, float, float]:
    """Return three values: fitness = (sum|P - R| / sum R) / exp(weight (1 - PU)^2), of which smaller is better, MAE and
    PU.

    Equation 7 of Xu et al. 2018 has the weight 1; other weights are our addition. If every run time R is 0, the sum of
    errors replaces the ratio.
    """
    error, truth, under = 0.0, 0.0, 0
    for i in range(len(actual)):
        p = max(mean[i], 1.0) if std[i] != std[i] else planned(mean[i], std[i], limit[i], alpha, beta)
        error += abs(p - actual[i])
        truth += actual[i]
        under += p < actual[i]
    pu = under / len(actual)
    ratio = error / truth if truth > 0.0 else error
    return ratio / np.exp(pu_weight * (1.0 - pu) ** 2), error / len(actual), pu


NOMINALS = ("user_id", "group_id", "queue_id", "app_id")
NUMBERS = ("procs", "req_time", "req_mem_kib")
USER = 0b0001
TEMPLATES = tuple(range(16))
INSTEAD = {"group_id": "account", "queue_id": "partition_id", "app_id": "job_name"}
"""Columns that replace a template's column if the log does not have that column."""
RANGES = {"n": (100, 3000), "k": (1, 50), "alpha": (0.0, 2.0), "beta": (0.1, 2.0)}


def template_of(genome: np.ndarray) -> int:
    """Return the template in the first four genes of a genome, which have a bit for each field."""
    return sum(int(bit) << field for field, bit in enumerate(genome[:4]))


class Parameters(NamedTuple):
    """The parameters that the search finds: template (bits: user, group, queue, application), N, K, alpha, beta, and
    weights of attributes if the method has weights."""

    template: int
    n: int
    k: int
    alpha: float
    beta: float
    weights: tuple[float, ...] = ()

    @classmethod
    def of(cls, genome: np.ndarray) -> Parameters:
        """Convert a genome (x1..x4, weights, N, K, alpha, beta) to parameters."""
        *weights, n, k, alpha, beta = genome[4:].tolist()
        return cls(template_of(genome), int(n), int(k), alpha, beta, tuple(weights))


def fields_of(template: int, names: Sequence[str] = NOMINALS) -> tuple[str, ...]:
    """Return the names of a template's fields.

    >>> fields_of(0b0101)
    ('user_id', 'queue_id')
    """
    return tuple(name for field, name in enumerate(names) if (template >> field) & 1)


class Trial(NamedTuple):
    """A prepared training set: sorted neighbours for each template, and the jobs that had finished at each job's
    submission."""

    orders: dict[int, Orders]
    done: np.ndarray
    run: np.ndarray
    total: np.ndarray
    limit: np.ndarray
    fallback: np.ndarray
    actual: np.ndarray

    @classmethod
    def of(cls, training: dict[str, np.ndarray], store: Store, low: np.ndarray, span: np.ndarray, most: int) -> Trial:
        """Prepare the training set from the training jobs' columns, the stored finished jobs, the scaling and the
        largest K."""
        finished, done = store.finished, training["done"]
        queries, values = (normalised(jobs["values"], low, span) for jobs in (training, finished))
        orders = neighbour_orders(queries, training["codes"], done, values, finished["codes"].copy(), TEMPLATES, most)
        run, total = finished["run"].copy(), finished["total"].copy()
        return cls(orders, done, run, total, training["limit"], training["fallback"], training["run"])

    def estimates(self, chosen: Parameters) -> tuple[np.ndarray, np.ndarray]:
        """Return the estimate Est and the deviation std of every training job; std is NaN if the time limit is the
        prediction."""
        own, user = self.orders[chosen.template], self.orders[USER]
        return sweep(*own, *user, self.done, self.run, self.total, self.fallback, chosen.n, chosen.k)

    def score(self, chosen: Parameters, pu_weight: float) -> tuple[float, float, float]:
        """Return fitness, MAE and PU on the training set."""
        mean, std = self.estimates(chosen)
        return score(mean, std, self.limit, self.actual, chosen.alpha, chosen.beta, pu_weight)


@dataclass(eq=False, repr=False)
class BatchMethod:
    """Base class of methods whose parameters are found by a genetic search for each batch of jobs; it has the windows,
    the store of jobs and the refits.

    A subclass sets its columns and `least_generations`, and implements the search in the method `renew`.
    """

    h: int = 3000
    t1: int = 1500
    t2: int = 1000
    population: int = 50
    generations: int = 100
    seed: int = field(default=0, kw_only=True)
    first: int = field(default=200, kw_only=True)
    patience: int = field(default=0, kw_only=True)

    levels: ClassVar[tuple[float, ...]] = LEVELS
    either: ClassVar[tuple[tuple[str, str], ...]] = tuple(INSTEAD.items())
    nominals: ClassVar[tuple[str, ...]] = NOMINALS
    numbers: ClassVar[tuple[str, ...]] = NUMBERS
    least_generations: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.generations < self.least_generations or self.population < 3:
            raise ValueError(f"generations is at least {self.least_generations}, population at least 3")
        if self.patience < 0:
            raise ValueError("patience is at least 0")
        self.batches = Batches(self.h, self.t1, self.t2, self.first)
        self.refit_every_jobs = self.batches.cadence
        self.store = Store(self.nominals, self.numbers, INSTEAD)
        self.batch = self.batches.none
        self.trained: list[dict[str, Any]] = []

    def observe(self, event: Event, at: SystemState) -> None:
        """Store the request of a submitted job, and the run time of a job that ends."""
        self.store.observe(event)

    def refit(self, now: float) -> None:
        """Search the parameters of the next batch, if a search is due."""
        due = self.batches.due(self.store.submitted)
        if due > self.batch:
            self.batch = due
            self.store.forget(self.batches.windows(due)[0])
            self.renew(now)

    def renew(self, now: float) -> None:
        """Search the parameters for the present batch."""
        raise NotImplementedError

    def history(self) -> np.ndarray:
        """Return the numbers (n, columns) of the requests in the batch's HistSet."""
        return self.store.window(*self.batches.windows(self.batch)[:2])["values"]

    def training(self) -> dict[str, np.ndarray]:
        """Return the columns of the finished jobs in the batch's TrainingSet; `done` has numbers of stored jobs."""
        window = self.store.window(*self.batches.windows(self.batch)[1:])
        known = ~np.isnan(window["run"])
        jobs = {name: column[known] for name, column in window.items()}
        return jobs | {"done": np.searchsorted(self.store.finished["place"], jobs["done"])}

    @property
    def trains_from(self) -> int:
        """Number of submissions before the first search; 0 for a method that never searches."""
        return (*self.batches.sizes, self.h + self.t1)[0] if self.generations else 0

    @property
    def is_scaled(self) -> bool:
        """Whether a batch has begun, so that the batch's history (HistSet) can scale the numeric columns."""
        return self.batch > self.batches.none

    def noting(self, basis: str) -> str:
        """Return the basis of a prediction, with a note if no search has found parameters yet."""
        is_untrained = not self.trained and self.trains_from > 0
        return f"{basis}; not trained before {self.trains_from:,} submissions" if is_untrained else basis

    def evolved(
        self,
        genes: Sequence[Gene],
        fitness: Callable[[np.ndarray], float],
        *more: int,
        start: np.ndarray | None = None,
    ) -> Evolved:
        """Run a search for this batch; the numbers `more` give this search other random numbers than other searches."""
        place = (self.batch, *more) if self.batch >= 0 else (-self.batch, *more, 1)  # NumPy accepts no negative seed
        rng = np.random.default_rng((self.seed, *place))
        size = {"population": self.population, "generations": self.generations, "patience": self.patience}
        return minimise(genes, fitness, rng, start=start, **size)

    def words_of(self, template: int) -> str:
        """Return the names of the log's columns that a template uses: `user_id+account`."""
        return "+".join(map(self.store.column_of, fields_of(template))) or "(empty)"

    def note(self, now: float, evaluations: int, **found: Any) -> None:
        """Record the result and the cost of a search."""
        first = {"now": now, "batch": self.batch, "first_job": self.batches.windows(self.batch)[2]}
        self.trained.append({**first, **found, "evaluations": evaluations})


@dataclass(eq=False, repr=False)
class RangedMethod(BatchMethod):
    """Base class of `knn_ga` and `minh_wolters`: the searched ranges of their parameters, and the widening of these
    ranges."""

    most_n: int = field(default=int(RANGES["n"][1]), kw_only=True)
    most_k: int = field(default=int(RANGES["k"][1]), kw_only=True)
    most_alpha: float = field(default=RANGES["alpha"][1], kw_only=True)
    most_beta: float = field(default=RANGES["beta"][1], kw_only=True)
    widen: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, (least, _) in RANGES.items():
            if getattr(self, f"most_{name}") < least:
                raise ValueError(f"most_{name} is at least {least:g}")
        if self.widen < 0:
            raise ValueError("widen is at least 0")

    def ranges(self) -> tuple[Gene, ...]:
        """Return the genes of N, K, alpha and beta."""
        return tuple(
            Gene("int" if name in "nk" else "real", least, getattr(self, f"most_{name}"))
            for name, (least, _) in RANGES.items()
        )

    def note_best(
        self, now: float, search: Evolved, jobs: int, mae: float, pu: float, names: Sequence[str] = (), **first: str
    ) -> None:
        """Record the best parameters of a search over `jobs` training jobs; `names` are the attributes with weights."""
        best = Parameters.of(search.best)
        weights = {f"weight_{name}": weight for name, weight in zip(names, best.weights)}
        numbers = {"n": best.n, "k": best.k, "alpha": best.alpha, "beta": best.beta, "fitness": search.fitness}
        scores = {"training_jobs": jobs, "training_mae_s": mae, "training_underestimate_rate": pu}
        template = self.words_of(best.template)
        self.note(now, search.evaluations, **first, template=template, **weights, **numbers, **scores)

    def widened(
        self,
        genes: tuple[Gene, ...],
        fitness: Callable[[tuple[Gene, ...]], Callable[[np.ndarray], float]],
        *more: int,
        start: np.ndarray | None = None,
    ) -> Evolved:
        """Run the genetic search; while a gene of the best genome is at the upper end of its range, double the range
        and search again.

        The range is doubled at most `widen` times. The last four genes of a genome are N, K, alpha and beta. `fitness`
        takes the genes and returns the function that scores genomes of these genes.
        """
        search = self.evolved(genes, fitness(genes), *more, start=start)
        spent = search.evaluations
        for step in range(self.widen):
            wider = tuple(
                gene._replace(high=2 * gene.high) if place >= len(genes) - len(RANGES) and value >= gene.high else gene
                for place, (gene, value) in enumerate(zip(genes, search.best.tolist()))
            )
            if wider == genes:
                break
            genes = wider
            search = self.evolved(genes, fitness(genes), *more, step + 1, start=search.population)
            spent += search.evaluations
        return search._replace(evaluations=spent)
