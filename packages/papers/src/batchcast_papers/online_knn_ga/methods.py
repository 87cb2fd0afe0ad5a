# SPDX-License-Identifier: Apache-2.0
"""The method of Xu et al. 2018, `knn_ga`, and two methods that predict from similar jobs, tuned by the same search.

The class `Trial`, the training set of the fitness, can compute the prediction that each job would have got at its
submission. `BatchMethod` and `RangedMethod` are the base classes of the methods.

`knn_ga` predicts from the K most similar of the last N finished jobs, with all parameters tuned online by a genetic
algorithm. `minh_wolters` uses a weighted distance that covers names and numbers. `smith_templates` predicts from the
category of similar jobs with the smallest confidence interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from batchcast.compiled import allocating
from batchcast.compiled.arrays import insert_sorted
from batchcast.events.event import Event
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.predict.fallback import LEVELS
from batchcast.predict.gate import finite_or_nan
from batchcast.predict.protocol import Grounds, Prediction, at_least_a_second
from batchcast_papers.learning import sample_quantiles

from .genetic import Batches, Evolved, Gene, Rows, Store, minimise, score, sweep
from .nearest import (
    LOCAL_MODELS,
    Orders,
    alike,
    classes,
    local_estimate,
    mean_and_std,
    mean_of_last,
    nearest,
    neighbour_orders,
    normal,
    normalised,
    planned,
    scaling,
)

NOMINALS = ("user_id", "group_id", "queue_id", "app_id")
NUMBERS = ("procs", "req_time", "req_mem_kib")
USER = 0b0001
INSTEAD = {"group_id": "account", "queue_id": "partition_id", "app_id": "job_name"}
"""Columns that replace a template's column if the log does not have that column."""
RANGES = {"n": (100, 3000), "k": (1, 50), "alpha": (0.0, 2.0), "beta": (0.1, 2.0)}
Scoring = Callable[[tuple[Gene, ...]], Callable[[np.ndarray], tuple[float, float, float]]]
"""Takes genes, and returns the function that gives the fitness, MAE and PU of a genome of these genes."""


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
        """Convert a genome (x1..x4, weights, N, K, alpha, beta) to parameters; x1..x4 are the bits of the template."""
        *weights, n, k, alpha, beta = genome[4:].tolist()
        template = sum(int(bit) << field for field, bit in enumerate(genome[:4]))
        return cls(template, int(n), int(k), alpha, beta, tuple(weights))


def fields_of(template: int, names: Sequence[str] = NOMINALS) -> tuple[str, ...]:
    """Return the names of a template's fields.

    >>> fields_of(0b0101)
    ('user_id', 'queue_id')
    """
    return tuple(name for field, name in enumerate(names) if (template >> field) & 1)


class Trial(NamedTuple):
    """A prepared training set: sorted neighbours for each template, the columns of the training jobs, and the run times
    of all finished jobs with their running totals."""

    orders: dict[int, Orders]
    jobs: Mapping[str, np.ndarray]
    run: np.ndarray
    total: np.ndarray

    def score(self, chosen: Parameters, pu_weight: float) -> tuple[float, float, float]:
        """Return fitness, MAE and PU on the training set."""
        jobs, orders = self.jobs, (*self.orders[chosen.template], *self.orders[USER])
        mean, std = sweep(*orders, jobs["finished_before"], self.run, self.total, jobs["fallback"], chosen.n, chosen.k)
        return score(mean, std, jobs["limit"], jobs["run"], chosen.alpha, chosen.beta, pu_weight)


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
        """Return the columns of the finished jobs in the batch's TrainingSet; `finished_before` counts stored jobs."""
        window = self.store.window(*self.batches.windows(self.batch)[1:])
        known = ~np.isnan(window["run"])
        jobs = {name: column[known] for name, column in window.items()}
        return jobs | {"finished_before": np.searchsorted(self.store.finished["place"], jobs["finished_before"])}

    @property
    def trains_from(self) -> int:
        """Number of submissions before the first search; 0 for a method that never searches."""
        return (*self.batches.sizes, self.h + self.t1)[0] if self.generations else 0

    @property
    def is_scaled(self) -> bool:
        """Whether a batch has begun, so that the batch's history (HistSet) can scale the numeric columns."""
        return self.batch > self.batches.none

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

    def from_nearest(
        self,
        job: JobRequest,
        chosen: Parameters,
        neighbours: np.ndarray,
        basis: str,
        grounds: Grounds,
        mean: float = np.nan,
    ) -> Prediction:
        """Predict from the nearest finished jobs, else from the last N finished jobs, else the time limit.

        `mean` replaces the mean run time of the nearest jobs, unless it is NaN.
        """
        run, limit = self.store.finished["run"], finite_or_nan(job.req_time)
        if len(neighbours):
            used, (of_near, std) = run[neighbours], mean_and_std(run, neighbours)
            mean = of_near if math.isnan(mean) else mean
        elif len(run):
            used, basis, grounds = run[-chosen.n :], "mean of all", Grounds.EVERYONE
            mean, std = mean_of_last(np.cumsum(run), len(run), chosen.n), 0.0
        else:
            return self.store.limits.forecast(job)
        if not self.trained and self.trains_from:
            basis += f"; not trained before {self.trains_from:,} submissions"
        point = planned(mean, std, limit, chosen.alpha, chosen.beta)
        return Prediction(point, LEVELS, sample_quantiles(used.tolist(), limit), basis, grounds)

    def searched(
        self, now: float, genes: tuple[Gene, ...], scoring: Scoring, jobs: int, *more: int,
        start: np.ndarray | None = None, names: Sequence[str] = (), **first: str,
    ) -> Evolved:  # fmt: skip
        """Run the genetic search over `jobs` training jobs, and record the best parameters; `names` are the attributes
        with weights.

        While a gene of the best genome is at the upper end of its range, the range is doubled, at most `widen` times,
        and the search is repeated. The last four genes of a genome are N, K, alpha and beta.
        """
        spent = 0
        for step in range(self.widen + 1):
            score_of = scoring(genes)
            seeds = (*more, step) if step else more
            search = self.evolved(genes, lambda genome, of=score_of: of(genome)[0], *seeds, start=start)  # type: ignore[misc]
            spent += search.evaluations
            wider = tuple(
                gene._replace(high=2 * gene.high) if place >= len(genes) - len(RANGES) and value >= gene.high else gene
                for place, (gene, value) in enumerate(zip(genes, search.best.tolist()))
            )
            if wider == genes:
                break
            genes, start = wider, search.population
        _, mae, pu = score_of(search.best)
        best = Parameters.of(search.best)
        weights = {f"weight_{name}": weight for name, weight in zip(names, best.weights)}
        numbers = {"n": best.n, "k": best.k, "alpha": best.alpha, "beta": best.beta, "fitness": search.fitness}
        scores = {"training_jobs": jobs, "training_mae_s": mae, "training_underestimate_rate": pu}
        self.note(now, spent, **first, template=self.words_of(best.template), **weights, **numbers, **scores)
        return search


UNTRAINED = Parameters(USER, 3000, 5, 0.0, 1.0)


@dataclass(eq=False, repr=False)
class KnnGa(RangedMethod):
    """Predicts the mean run time of the K nearest jobs under one template plus alpha standard deviations, at most beta
    times the time limit.

    Parameters
    ----------
    h, t1, t2
        Number of submissions in a batch's HistSet (history), TrainingSet and TestSet; the windows advance by t2.
    population
        Number of genomes of the genetic search, at least 3.
    generations
        Number of rounds of the search. With 0 there is no search: the windows advance, and all jobs are predicted with
        the parameters that apply before the first search.
    local_model
        `mean`, or `linear` or `svr`: a regression on the normalised numeric columns of the K neighbours.
    warm_start
        Whether the search of a batch begins with the population of the last batch.
    pu_weight
        Factor of (1 - PU)^2 in the fitness, where PU is the rate of underestimates.
    seed
        Random seed of the search, which is combined with the batch's number.
    first
        Number of submissions before the first search. Until there are h + t1 submissions, the windows grow, and the
        search is repeated whenever the number of submissions has doubled. If `first` is 0, there is no search before h
        + t1 submissions, as in the paper.
    patience
        The search ends after this number of rounds without a better genome; with 0 it never ends early.
    most_n, most_k, most_alpha, most_beta
        Upper ends of the searched ranges of N (from 100), K (from 1), alpha (from 0) and beta (from 0.1).
    widen
        Maximum number of times that a range is doubled if the best genome is at the range's upper end.

    Raises
    ------
    ValueError
        If a parameter is outside its range, or for an unknown model.

    Notes
    -----
    Equations 2 to 7 of Xu et al. 2018. A template is a subset of {user, group, queue, application}. On a log without
    groups, queues or applications, accounts, partitions and job names replace them (`INSTEAD`). Among the last N
    finished jobs, the jobs with equal values in the template's fields are ranked by the distance of eq. 3 over
    processors, limit and memory; two unknown names count as equal. The numbers are min-max normalised over the batch's
    HistSet, without clipping. A numeric column adds 0 to the distance if the value is unknown for both jobs or the
    column is constant, and 1 if the value is unknown for one job. Ties go to the more recently completed job. Est2 =
    min(mean + alpha std, beta limit), without this cap if the job has no limit, and at least one second. If no job
    matches the template, the template {user} is used, then the mean of the last N jobs, then the time limit unchanged.

    Training: before the first job of a TestSet is submitted, `population` x `generations` genomes are tried on the
    finished jobs of the TrainingSet. A genome's predictions use only jobs that had finished at the predicted job's
    submission. Jobs submitted before the HistSet are ignored. Before the first training the template is {user} and K is
    5. A prediction costs O(N). A refit costs one sort of neighbours per template and distinct request, then about
    t1 * K steps per evaluation; `trained` records its result and its number of evaluations.

    Departures from the paper: the genetic operators are ours (see `genetic`), because the paper does not describe them.
    With a regression as `local_model`, the parameters are still searched with the mean. Quantiles are order statistics
    of the neighbours' run times.

    References
    ----------
    Xu, Xiong, Xiao, On-line prediction of application run time using schedule historical data, 2018,
    doi:10.3969/j.issn.1001-3695.2018.08.0624.

    Examples
    --------
    >>> from batchcast.events.event import End
    >>> job, state = JobRequest(0, 1, 0.0, 1.0, 600.0, float("nan"), user_id="ada"), SystemState()
    >>> method = KnnGa()
    >>> for run in (100.0, 200.0):
    ...     method.observe(End(run, job, run, 0.0), state)
    >>> method.predict(job, state).point
    150.0
    """

    uses = (*NOMINALS, *INSTEAD.values(), *NUMBERS)

    least_generations = 0

    local_model: Literal["mean", "linear", "svr"] = "mean"
    warm_start: bool = False
    pu_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.local_model not in LOCAL_MODELS:
            raise ValueError(f"local_model is one of {', '.join(LOCAL_MODELS)}")
        self.parameters = UNTRAINED
        self.low, self.span = np.zeros(len(NUMBERS)), np.zeros(len(NUMBERS))
        self.last_population: np.ndarray | None = None

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict from the neighbours that have finished before the submission."""
        store, chosen = self.store, self.parameters
        codes, values = store.code(job), store.value(job)
        low, span = (self.low, self.span) if self.is_scaled else store.scaling_so_far()
        query = np.array([normal(v, a, b) for v, a, b in zip(values, low, span)])
        finished, mean = store.finished, math.nan
        fixed = (finished["codes"], finished["values"], codes, query, low, span)
        neighbours, grounds = nearest(*fixed, chosen.template, chosen.n, chosen.k), Grounds.CLASS
        words = f"same {self.words_of(chosen.template).replace('+', ', ')}" if chosen.template else "any job"
        if not len(neighbours):
            neighbours, words, grounds = nearest(*fixed, USER, chosen.n, chosen.k), "same user", Grounds.OWN_HISTORY
        if len(neighbours) and self.local_model != "mean":
            table = normalised(finished["values"][neighbours], low, span)
            mean = local_estimate(self.local_model, table, finished["run"][neighbours], query)
        return self.from_nearest(job, chosen, neighbours, f"{len(neighbours)} nearest, {words}", grounds, mean)

    def renew(self, now: float) -> None:
        """Search the parameters for the present batch."""
        self.low, self.span = scaling(self.history())
        if not self.generations:
            return
        first = self.trial(self.most_k)
        if not (jobs := len(first.jobs["run"])):
            return

        def scoring(genes: tuple[Gene, ...]) -> Callable[[np.ndarray], tuple[float, float, float]]:
            """Return a function that scores genomes of the given genes, on sorted neighbours up to the genes' largest
            K."""
            most = int(genes[len(NOMINALS) + 1].high)
            trial = first if most == self.most_k else self.trial(most)
            return lambda genome: trial.score(Parameters.of(genome), self.pu_weight)

        genes = (*(Gene("bit") for _ in NOMINALS), *self.ranges())
        search = self.searched(now, genes, scoring, jobs, start=self.last_population if self.warm_start else None)
        self.last_population = search.population
        self.parameters = Parameters.of(search.best)

    def trial(self, most: int) -> Trial:
        """Prepare the finished jobs of the batch's TrainingSet, to try parameters with K up to `most`."""
        training, finished = self.training(), self.store.finished
        queries, values = (normalised(jobs["values"], self.low, self.span) for jobs in (training, finished))
        orders = neighbour_orders(
            queries, training["codes"], training["finished_before"], values, finished["codes"], range(16), most
        )
        return Trial(orders, training, finished["run"], np.cumsum(finished["run"]))


@allocating
def weighted_nearest(
    codes: np.ndarray,
    values: np.ndarray,
    query_codes: np.ndarray,
    query: np.ndarray,
    null: np.ndarray,
    span: np.ndarray,
    weights: np.ndarray,
    template: int,
    n: int,
    k: int,
    parted_at: float,
) -> np.ndarray:
    """Return the positions of the k nearest of the last n finished jobs that match the template, nearest first.

    The distance is D(x, y) = sqrt(sum w_a d_a^2 / sum w_a): d_a is 0 or 1 for names (the first weights) and |x -
    y|/range for numbers (the other weights). The difference d_a is 1 if one of the two values is unknown (`null` has
    the codes of unknown names), and 0 for a number that is constant. If `parted_at` is not NaN, only jobs count whose
    number of processors (the first numeric column) is on the same side of `parted_at` as that of the query. Ties go to
    the job that completed last. The search takes O(n (fields + k)) time.
    """
    best, positions, count = np.empty(k), np.empty(k, dtype=np.int64), 0
    fields, whole = len(query_codes), weights.sum()
    for back in range(min(n, len(codes))):
        place = len(codes) - 1 - back
        if not alike(codes[place], query_codes, template):
            continue
        if parted_at == parted_at and (values[place, 0] > parted_at) != (query[0] > parted_at):
            continue
        total = 0.0
        for name in range(fields):
            if codes[place, name] != query_codes[name] or query_codes[name] == null[name]:
                total += weights[name]
        for column in range(len(query)):
            d = abs(values[place, column] - query[column])
            if d != d:
                total += weights[fields + column]
            elif span[column] > 0.0:
                d /= span[column]
                total += weights[fields + column] * d * d
        count = insert_sorted(best, positions, count, np.sqrt(total / whole) if whole > 0.0 else 0.0, place)
    return positions[:count]


OTHER_SIDE = 1 << 30
Jobs = Mapping[str, np.ndarray] | Rows
"""Jobs by column."""


class Groups(NamedTuple):
    """The differences between distinct queries and distinct finished jobs, and the members of each group of equal jobs.

    `parts` (q, g, attributes) are the differences d_a before weighting. `differs` (q, g) has a bit for each name field
    that differs, and the bit OTHER_SIDE if exactly one of the two jobs has more than `parted_at` processors. Group j's
    finished jobs are `members[start[j]:start[j + 1]]`, ascending. `query_members` and `query_start` give the jobs of
    each distinct query in the same form.
    """

    parts: np.ndarray
    differs: np.ndarray
    start: np.ndarray
    members: np.ndarray
    query_start: np.ndarray
    query_members: np.ndarray

    @classmethod
    def of(cls, finished: Jobs, jobs: Jobs, null: np.ndarray, span: np.ndarray, parted_at: float) -> Groups:
        """Group finished jobs, and the queries `jobs`, with equal columns `codes` and `values`; see `weighted_nearest`.
        The call takes O((jobs + q g) a) time for a attributes."""
        known, start, members = _distinct(finished)
        asking, query_start, query_members = _distinct(jobs)
        ours, theirs = jobs["codes"][asking], finished["codes"][known]
        queries, values = jobs["values"][asking], finished["values"][known]
        unequal = ours[:, None, :] != theirs[None, :, :]
        names = unequal | (ours == null)[:, None, :]
        apart = np.abs(values[None, :, :] - queries[:, None, :])
        with np.errstate(invalid="ignore", divide="ignore"):
            numbers = np.where(np.isnan(apart), 1.0, np.where(span > 0, apart / span, 0.0))
        side = (queries[:, 0] > parted_at)[:, None] != (values[:, 0] > parted_at)[None, :]
        bits = (unequal * (1 << np.arange(ours.shape[1]))).sum(axis=2)
        differs = bits + OTHER_SIDE * (side & (parted_at == parted_at))
        return cls(np.concatenate([names, numbers], axis=2), differs, start, members, query_start, query_members)


def _distinct(jobs: Jobs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return one row of each distinct kind, the rows sorted by kind, and the index at which each kind begins among
    them."""
    table = np.column_stack([jobs["codes"], np.where(np.isnan(jobs["values"]), -np.inf, jobs["values"])])
    _, first, kind = np.unique(table, axis=0, return_index=True, return_inverse=True)
    kind = kind.ravel()
    start = np.concatenate([[0], np.cumsum(np.bincount(kind, minlength=len(first)))])
    return first, start, np.argsort(kind, kind="stable")


@allocating
def grouped_estimates(
    groups: Groups,
    run: np.ndarray,
    total: np.ndarray,
    finished_before: np.ndarray,
    fallback: np.ndarray,
    weights: np.ndarray,
    template: int,
    n: int,
    k: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of the run times of each query's nearest jobs; the deviation is NaN if the
    time limit is the prediction.

    For job i, the result equals `weighted_nearest` over the first finished_before[i] finished jobs. The call takes
    O(q g (attributes + log g)) time for q distinct queries and g distinct jobs, and then about K steps per query.
    """
    parts, differs, start, members, query_start, query_members = groups
    count, attributes = parts.shape[1], parts.shape[2]
    mean, std = np.empty(len(finished_before)), np.empty(len(finished_before))
    whole = weights.sum()
    apart, which = np.empty(count), np.empty(count, dtype=np.int64)
    near, upper = np.empty(k, dtype=np.int64), np.empty(count, dtype=np.int64)
    for query in range(len(query_start) - 1):
        like = 0
        for group in range(count):
            if differs[query, group] & (template | OTHER_SIDE):
                continue
            d = 0.0
            for a in range(attributes):
                d += weights[a] * parts[query, group, a] * parts[query, group, a]
            apart[like], which[like] = np.sqrt(d / whole) if whole > 0.0 else 0.0, group
            like += 1
        order = np.argsort(apart[:like])
        for at in range(query_start[query], query_start[query + 1]):
            i = query_members[at]
            oldest = finished_before[i] - n
            taken, first = 0, 0
            while first < like and taken < k:
                last = first + 1
                while last < like and apart[order[last]] == apart[order[first]]:
                    last += 1
                for tied in range(first, last):
                    group = which[order[tied]]
                    of_group = members[start[group] : start[group + 1]]
                    upper[tied] = start[group] + np.searchsorted(of_group, finished_before[i])
                while taken < k:
                    newest, from_group = -1, -1
                    for tied in range(first, last):
                        place = upper[tied] - 1
                        if place >= start[which[order[tied]]] and members[place] > newest:
                            newest, from_group = members[place], tied
                    if newest < max(oldest, 0):
                        break
                    near[taken] = newest
                    upper[from_group] -= 1
                    taken += 1
                first = last
            if taken > 0:
                mean[i], std[i] = mean_and_std(run, near[:taken])
            elif finished_before[i] > 0:
                mean[i], std[i] = mean_of_last(total, finished_before[i], n), 0.0
            else:
                mean[i], std[i] = fallback[i], np.nan
    return mean, std


ATTRIBUTES = (*NOMINALS, *NUMBERS)


@dataclass(eq=False, repr=False)
class MinhWolters(RangedMethod):
    """Predicts the mean run time of the K nearest jobs under a weighted distance, plus a safety term, capped by a
    multiple of the time limit.

    Parameters
    ----------
    h, t1, t2
        Number of submissions in a batch's HistSet (history), TrainingSet and TestSet, as in `knn_ga`.
    population, generations
        Numbers of genomes and rounds of the genetic search; at least 3 and 1.
    sample
        Number of jobs of the TrainingSet on which genomes are tried: evenly spaced in the set, at least 1.
    apart
        Whether jobs above the HistSet's median number of processors have their own search, parameters and neighbours.
    pu_weight
        Factor of (1 - PU)^2 in the fitness, where PU is the rate of underestimates.
    seed
        Random seed of the search.
    first, patience, most_n, most_k, most_alpha, most_beta, widen
        See `knn_ga`.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    The method as Xu et al. 2018 describe it (their eq. 1): D(x, y) = sqrt(sum w d^2 / sum w), with d 0 or 1 for user,
    group, queue and application, |x - y|/range for processors, limit and memory (range of the HistSet), and 1 for
    unknown values. The prediction is min(mean + alpha std, beta limit). The settings of Minh and Wolters are not
    public, so this method does not claim to reproduce their results. For each batch, the genetic algorithm of `knn_ga`
    searches template, weights, N, K, alpha and beta, with the windows and the fitness of `knn_ga`. The genetic
    algorithm tries genomes on a sample, because neighbours cannot be sorted in advance if their weights change. If
    there is no neighbour, the prediction is the mean of the last N jobs or, without finished jobs, the time limit. A
    prediction costs O(N); `trained` records each batch's result and its number of evaluations.

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

    uses = (*ATTRIBUTES, *INSTEAD.values())

    population: int = 20
    generations: int = 20
    sample: int = 200
    apart: bool = False
    pu_weight: float = 1.0

    def __post_init__(self) -> None:
        if self.sample < 1:
            raise ValueError("sample is at least 1")
        super().__post_init__()
        self.span = np.zeros(len(NUMBERS))
        self.parted_at = math.nan
        self.small = self.big = UNTRAINED._replace(weights=(1.0,) * len(ATTRIBUTES))

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict from the neighbours that have finished by now."""
        store = self.store
        codes, values = store.code(job), store.value(job)
        chosen = self.big if values[0] > self.parted_at else self.small
        span = self.span if self.is_scaled else store.scaling_so_far()[1]
        finished = store.finished
        neighbours = weighted_nearest(
            finished["codes"], finished["values"], codes, values, self._null(), span, np.array(chosen.weights),
            chosen.template, chosen.n, chosen.k, self.parted_at,
        )  # fmt: skip
        basis = f"{len(neighbours)} nearest by weighted attributes"
        return self.from_nearest(job, chosen, neighbours, basis, Grounds.CLASS)

    def renew(self, now: float) -> None:
        """Search the parameters for the present batch; with `apart`, search the parameters for small and big jobs
        separately."""
        history = self.history()
        self.span = scaling(history)[1]
        known = history[:, 0][~np.isnan(history[:, 0])]
        self.parted_at = float(np.median(known)) if self.apart and len(known) else math.nan
        training = self.training()
        is_big = training["values"][:, 0] > self.parted_at
        side = "small" if self.apart else "all"
        self.small = self._searched(now, side, np.flatnonzero(~is_big), training, self.small)
        if self.apart:
            self.big = self._searched(now, "big", np.flatnonzero(is_big), training, self.big)

    def _searched(
        self, now: float, side: str, rows: np.ndarray, training: dict[str, np.ndarray], before: Parameters
    ) -> Parameters:
        """Search parameters on a sample of the jobs `rows`; if there are no rows, return the parameters `before`."""
        if not len(rows):
            return before
        rows = rows[np.linspace(0, len(rows) - 1, min(self.sample, len(rows))).astype(int)]
        finished, jobs = self.store.finished, {name: column[rows] for name, column in training.items()}
        groups = Groups.of(finished, jobs, self._null(), self.span, self.parted_at)
        fixed = (groups, finished["run"], np.cumsum(finished["run"]), jobs["finished_before"], jobs["fallback"])

        def tried(genome: np.ndarray) -> tuple[float, float, float]:
            chosen = Parameters.of(genome)
            mean, std = grouped_estimates(*fixed, np.array(chosen.weights), chosen.template, chosen.n, chosen.k)
            return score(mean, std, jobs["limit"], jobs["run"], chosen.alpha, chosen.beta, self.pu_weight)

        bits, weights = (Gene("bit") for _ in NOMINALS), (Gene("real", 0.0, 1.0) for _ in ATTRIBUTES)
        genes = (*bits, *weights, *self.ranges())
        search = self.searched(now, genes, lambda _: tried, len(rows), len(side), names=ATTRIBUTES, side=side)
        return Parameters.of(search.best)

    def _null(self) -> np.ndarray:
        """Return for each name field the code that means an unknown value; -2 if no value is unknown."""
        return np.array([known.get(None, -2) for known in self.store.codes], dtype=np.int32)


@allocating
def category_statistics(
    labels: np.ndarray, query_labels: np.ndarray, finished_before: np.ndarray, amount: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return count, mean and sample variance of the run times in each query's category, among the first
    finished_before[i] finished jobs.

    `labels` (jobs,) and `amount` (jobs,) are in completion order; NaN amounts are ignored; `finished_before` (t,) is
    ascending. The function makes one pass, with Welford's updates.
    """
    size = 1
    for label in labels:
        size = max(size, label + 1)
    for label in query_labels:
        size = max(size, label + 1)
    count, mean, square = np.zeros(size), np.zeros(size), np.zeros(size)
    out, at = np.zeros((3, len(finished_before))), 0
    for i in range(len(finished_before)):
        while at < finished_before[i]:
            if amount[at] == amount[at]:
                label = labels[at]
                count[label] += 1.0
                step = amount[at] - mean[label]
                mean[label] += step / count[label]
                square[label] += step * (amount[at] - mean[label])
            at += 1
        label = query_labels[i]
        out[0, i], out[1, i] = count[label], mean[label]
        out[2, i] = square[label] / (count[label] - 1.0) if count[label] > 1.0 else np.nan
    return out[0], out[1], out[2]


@allocating
def members(codes: np.ndarray, query: np.ndarray, template: int, amount: np.ndarray) -> np.ndarray:
    """Return the amounts (not NaN) of the finished jobs in the query's category, in completion order."""
    values, count = np.empty(len(codes)), 0
    for place in range(len(codes)):
        if amount[place] == amount[place] and alike(codes[place], query, template):
            values[count] = amount[place]
            count += 1
    return values[:count]


@allocating
def welford(amount: np.ndarray) -> tuple[float, float]:
    """Return mean and sample variance of the amounts by Welford's updates, as in `category_statistics`."""
    mean, square = 0.0, 0.0
    for i in range(len(amount)):
        step = amount[i] - mean
        mean += step / (i + 1.0)
        square += step * (amount[i] - mean)
    return mean, square / (len(amount) - 1.0) if len(amount) > 1 else np.nan


@allocating
def smallest_interval(
    chosen: np.ndarray, estimate: np.ndarray, interval: np.ndarray, fallback: np.ndarray
) -> np.ndarray:
    """Return each job's estimate by the template in `chosen` with the smallest confidence interval or, without an
    estimate, the job's fallback.

    `estimate` and `interval` have the shape (templates, jobs), NaN if a template has no estimate. Ties go to the first
    template.
    """
    estimates = fallback.copy()
    for i in range(len(estimates)):
        least = np.inf
        for template in chosen:
            if interval[template, i] < least:
                least = interval[template, i]
                estimates[i] = estimate[template, i]
    return estimates


FIELDS = ("user_id", "group_id", "queue_id", "app_id", "procs", "procs_log2")
SIZES = (0b000000, 0b010000, 0b100000)
SLOTS = 6


class Template(NamedTuple):
    """The fields in which jobs must be equal (bits of FIELDS), and whether run times are relative to the time limit."""

    fields: int
    relative: bool

    def words(self, column_of: Callable[[str], str]) -> str:
        """Return the template as text, with the names of the log's columns: `(user_id+account) relative`."""
        columns = map(column_of, fields_of(self.fields, FIELDS))
        return f"({'+'.join(columns)}){' relative' if self.relative else ''}"


UNIVERSE = tuple(
    Template(names | size, relative) for size in SIZES for names in range(16) for relative in (False, True)
)
GENES = (*(Gene("bit") for _ in range(SLOTS)), *(Gene("int", 0, len(UNIVERSE) - 1) for _ in range(SLOTS)))
FIRST_TEMPLATES = tuple(UNIVERSE.index(Template(fields, False)) for fields in (0b011001, 0b010001, 0b000001, 0b000000))


@dataclass(eq=False, repr=False)
class SmithTemplates(BatchMethod):
    """Predicts the mean run time of the category with the smallest confidence interval, with templates that a genetic
    search finds.

    Parameters
    ----------
    h, t1, t2
        Number of submissions in a batch's HistSet (history), TrainingSet and TestSet, as in `knn_ga`.
    population, generations
        Numbers of genomes and rounds of the genetic search; at least 3 and 1.
    seed
        Random seed of the search.
    first, patience
        See `knn_ga`.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Notes
    -----
    A template states in which fields jobs must be equal (user, group, queue, application; processors exactly, by powers
    of two, or not at all), and whether run times or ratios of run time to time limit are averaged. There are 96
    templates. A job belongs to one category of each template. A category of at least two finished jobs gives a mean and
    the half width t(n - 1) s / sqrt(n) of its 90 % confidence interval. The prediction is the mean with the smallest
    interval (ties: the first template). A genome of the search has up to 6 templates; for each batch, the search finds
    the set with the smallest mean absolute error on the TrainingSet. Departures from the paper: there are only means,
    no regressions; templates have no maximum history, and all templates use the jobs submitted since the HistSet began;
    two unknown names count as equal. Without a category of at least two jobs, the prediction is the mean of all
    finished jobs or, without finished jobs, the time limit. Predictions are capped by the limit and at least one
    second. Quantiles are order statistics of the category. A prediction costs O(6 jobs in the window); `trained`
    records the result and the cost of each batch's search.

    References
    ----------
    Smith, Foster, Taylor, Predicting application run times using historical information, JSSPP 1998,
    doi:10.1007/BFb0053984.

    Examples
    --------
    >>> SmithTemplates().predict(JobRequest(0, 1, 0.0, 1.0, 60.0, float("nan")), SystemState()).point
    60.0
    """

    uses = (*FIELDS[:-1], *INSTEAD.values(), "req_time")

    nominals, numbers = FIELDS, ("req_time",)

    population: int = 30
    generations: int = 40

    def __post_init__(self) -> None:
        from scipy.special import stdtrit

        super().__post_init__()
        self.chosen: tuple[int, ...] = FIRST_TEMPLATES
        # 95 % quantiles of Student's t by degrees of freedom; infinite for 0
        self.quantile = np.append(np.inf, stdtrit(np.arange(1, self.h + self.t1 + self.t2 + 1), 0.95))

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict the mean of the job's category with the smallest interval."""
        store, codes = self.store, self.store.code(job)
        limit, run = finite_or_nan(job.req_time), store.finished["run"]
        if not len(run):
            return store.limits.forecast(job)
        least, value, used, basis, grounds = np.inf, np.nan, run, "mean of all", Grounds.EVERYONE
        for number in self.chosen:
            template = UNIVERSE[number]
            scale = limit if template.relative else 1.0
            amount = run / store.finished["values"][:, 0] if template.relative else run
            values = members(store.finished["codes"], codes, template.fields, amount)
            mean, variance = welford(values)
            interval = float(self._interval(np.array(float(len(values))), np.array(variance))) * scale
            if interval < least:
                least, value, used = interval, mean * scale, values * scale
                basis = f"category {template.words(store.column_of)} of {len(values)}"
                grounds = Grounds.CLASS
        point = at_least_a_second(float(value if least < np.inf else run.mean()), limit)
        return Prediction(point, LEVELS, sample_quantiles(used.tolist(), limit), basis, grounds)

    def renew(self, now: float) -> None:
        """Search the templates for the present batch."""
        training = self.training()
        if not len(training["run"]):
            return
        estimate, interval, fallback = self._answers(training)
        actual, limit = training["run"], np.nan_to_num(training["limit"], nan=np.inf)

        def mean_error(genome: np.ndarray) -> float:
            estimates = smallest_interval(np.array(_set(genome), dtype=np.int64), estimate, interval, fallback)
            return float(np.abs(np.maximum(np.minimum(estimates, limit), 1.0) - actual).mean())

        search = self.evolved(GENES, mean_error)
        self.chosen = _set(search.best)
        self.note(
            now, search.evaluations,
            templates=" ".join(UNIVERSE[number].words(self.store.column_of) for number in self.chosen) or "(none)",
            training_jobs=len(actual), training_mae_s=search.fitness,
        )  # fmt: skip

    def _answers(self, training: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return estimate and interval of every template for every training job, (96, t), and the mean of all finished
        jobs, (t,)."""
        finished, finished_before = self.store.finished, training["finished_before"]
        codes = np.concatenate([finished["codes"], training["codes"]])
        run, limit = finished["run"], training["values"][:, 0]
        estimate, interval = np.full((2, len(UNIVERSE), len(finished_before)), np.nan)
        for number, template in enumerate(UNIVERSE):
            label = classes(codes, template.fields)
            amount = run / finished["values"][:, 0] if template.relative else run
            scale = limit if template.relative else np.ones(len(finished_before))
            count, mean, variance = category_statistics(label[: len(run)], label[len(run) :], finished_before, amount)
            estimate[number], interval[number] = mean * scale, self._interval(count, variance) * scale
        # the first template has no fields: its category consists of all finished jobs
        return estimate, interval, np.where(finished_before > 0, estimate[0], training["fallback"])

    def _interval(self, count: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the half width of the 90 % confidence interval of a mean; NaN for fewer than two jobs."""
        degrees = np.clip(count - 1, 0, len(self.quantile) - 1).astype(int)
        return np.asarray(self.quantile[degrees] * np.sqrt(variance / np.maximum(count, 1.0)))


def _set(genome: np.ndarray) -> tuple[int, ...]:
    """Return the numbers of the templates that a genome uses, each once."""
    used = genome[:SLOTS] > 0
    return tuple(dict.fromkeys(genome[SLOTS:][used].astype(int).tolist()))
