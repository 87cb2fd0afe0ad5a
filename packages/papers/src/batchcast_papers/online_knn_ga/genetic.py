# SPDX-License-Identifier: Apache-2.0
"""What the methods of this paper share: a genetic algorithm, its fitness, and the jobs and windows on which the methods
are trained.

The genetic algorithm minimises over bits, whole numbers and reals. Jobs are stored as arrays, and windows move over the
jobs in log order (Xu et al. 2018, section 2.3).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from batchcast.compiled import allocating
from batchcast.events.event import End, Event, Submit, Withdraw
from batchcast.job import JobRequest
from batchcast.predict.fallback import LargestLimit
from batchcast.predict.gate import field_value, finite_or_nan

from .nearest import mean_of_last, planned


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

    drawn = low + (high - low) * rng.random((population, len(genes)))
    whole = np.minimum(np.floor(low + (high - low + 1) * rng.random((population, len(genes)))), high)
    now = np.where(kinds == "real", drawn, whole)
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
    finished_before: np.ndarray,
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
    mean, std = np.empty(len(finished_before)), np.empty(len(finished_before))
    for i in range(len(finished_before)):
        oldest = finished_before[i] - n
        mean[i], std[i] = _of_first(entries, start[i], start[i + 1], run, oldest, k)
        if mean[i] != mean[i]:
            mean[i], std[i] = _of_first(user_entries, user_start[i], user_start[i + 1], run, oldest, k)
        if mean[i] != mean[i]:
            if finished_before[i] > 0:
                mean[i], std[i] = mean_of_last(total, finished_before[i], n), 0.0
            else:
                mean[i], std[i] = fallback[i], np.nan
    return mean, std


@allocating
def _of_first(entries: np.ndarray, begin: int, end: int, run: np.ndarray, oldest: int, k: int) -> tuple[float, float]:
    """Return mean and standard deviation of the run times of the first k neighbours that completed at or after
    `oldest`; NaN if there are none."""
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


@dataclass(frozen=True)
class Batches:
    """The windows have h, t1 and t2 submissions; batch b (from 0) begins at submission h + t1 + b * t2.

    Before there are h + t1 submissions, the windows grow: a young batch begins after `first` submissions and whenever
    the number of submissions has doubled. A young batch splits all submissions so far into two thirds of history and
    one third of training, like the paper's 4,500 submissions. Young batches have negative batch numbers. If `first` is
    0, there are no young batches.

    >>> batches = Batches(3000, 1500, 1000)
    >>> batches.due(4499), batches.due(4500), batches.due(6700), batches.windows(1)
    (-1, 0, 2, (1000, 4000, 5500))
    >>> young = Batches(3000, 1500, 1000, first=600)
    >>> young.sizes, young.none, young.due(599), young.due(600), young.due(1300), young.windows(-3)
    ((600, 1200, 2400), -4, -4, -3, -2, (0, 400, 600))
    """

    h: int
    t1: int
    t2: int
    first: int = 0

    def __post_init__(self) -> None:
        if min(self.h, self.t1, self.t2) < 1:
            raise ValueError("h, t1 and t2 are at least 1 job")
        if self.first < 0 or 0 < self.first < 3:
            raise ValueError("first is 0 (windows do not grow) or at least 3 jobs")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of submissions after which the young batches (before h + t1 submissions) begin."""
        doublings = ((self.h + self.t1 - 1) // self.first).bit_length() if self.first else 0
        return tuple(self.first << doubling for doubling in range(doublings))

    @property
    def none(self) -> int:
        """The batch number that means that no batch has begun."""
        return -1 - len(self.sizes)

    @property
    def cadence(self) -> int:
        """Number of submissions between two calls of `refit`, so that no batch begins late."""
        return math.gcd(self.h + self.t1, self.t2, *self.sizes[:1])

    def due(self, submitted: int) -> int:
        """Return the batch whose TestSet has the next submission; `none` before the first batch."""
        if submitted >= self.h + self.t1:
            return (submitted - self.h - self.t1) // self.t2
        return bisect_right(self.sizes, submitted) + self.none

    def windows(self, batch: int) -> tuple[int, int, int]:
        """Return the submissions at which the batch's HistSet begins, its TrainingSet begins, and its TestSet
        begins."""
        if batch < 0:
            return 0, 2 * self.sizes[batch] // 3, self.sizes[batch]
        first = batch * self.t2
        return first, first + self.h, first + self.h + self.t1


class Rows:
    """A table of rows that are appended at the end and dropped at the front; an append takes amortised O(1) time."""

    __slots__ = ("columns", "dropped", "length")

    def __init__(self, **columns: tuple[int, type]) -> None:
        """Create an empty table with the given columns, each with its width (0 for a vector) and dtype."""
        self.columns: dict[str, np.ndarray] = {
            name: np.zeros((64, width) if width else 64, dtype) for name, (width, dtype) in columns.items()
        }
        self.length = 0
        self.dropped = 0

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name][: self.length]

    def append(self, *values: Any) -> None:
        """Append a row, with values in the order of the columns."""
        if self.length == len(next(iter(self.columns.values()))):
            for name, column in self.columns.items():
                self.columns[name] = np.concatenate([column, np.zeros_like(column)])
        for column, value in zip(self.columns.values(), values):
            column[self.length] = value
        self.length += 1

    def keep(self, mask: np.ndarray) -> None:
        """Drop the rows for which `mask` (length,) is false."""
        kept = int(mask.sum())
        for column in self.columns.values():
            column[:kept] = column[: self.length][mask]
        self.dropped += self.length - kept
        self.length = kept


@dataclass(eq=False, repr=False)
class Store:
    """Stores requests in order of submission (from 0) and finished jobs in order of completion, with given fields.

    Fields in `nominals` are compared for equality, and stored as codes from 0; an unknown value also has a code. Fields
    in `numbers` are compared by distance; unknown and infinite values are NaN. `instead` names the column that replaces
    a field if a job does not have the field. `run` of a request is NaN until the job's End event. Finished jobs
    submitted before `oldest` are dropped, because no window contains these jobs. If a job's End has no Submit before it
    (because a live clock began later), the job counts as submitted last. O(1) per event.
    """

    nominals: tuple[str, ...]
    numbers: tuple[str, ...]
    instead: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.met: dict[str, str] = {}
        self.codes: tuple[dict[Any, int], ...] = tuple({} for _ in self.nominals)
        shape = {"codes": (len(self.nominals), np.int32), "values": (len(self.numbers), np.float64)}
        self.requests = Rows(
            **shape, limit=(0, np.float64), fallback=(0, np.float64), finished_before=(0, np.int64), run=(0, np.float64)
        )
        self.finished = Rows(**shape, number=(0, np.int64), place=(0, np.int64), run=(0, np.float64))
        self.completions = 0
        self.oldest = 0
        self.limits = LargestLimit()
        self.open: dict[int, int] = {}
        self.low, self.high = np.full(len(self.numbers), np.inf), np.full(len(self.numbers), -np.inf)

    @property
    def submitted(self) -> int:
        """Number of submitted jobs so far."""
        return self.requests.dropped + self.requests.length

    def code(self, job: JobRequest) -> np.ndarray:
        """Return the job's nominal codes (int32); an unknown value gets -1, which equals no finished job's code."""
        names = zip(self.nominals, self.codes)
        return np.array([known.get(self.name_value(job, name), -1) for name, known in names], dtype=np.int32)

    def name_value(self, job: JobRequest, name: str) -> Any:
        """Return the job's value in a column, or in the column that replaces it; None if both are unknown."""
        value = field_value(job, name)
        if value is not None or name not in self.instead:
            return value
        other = field_value(job, self.instead[name])
        # the pair (column, value) differs from every value of the replaced column
        return None if other is None else (self.instead[name], other)

    def column_of(self, name: str) -> str:
        """Return the column that is at present used for a name: `account` for `group_id` on a log without groups."""
        return self.met.get(name, name)

    def value(self, job: JobRequest) -> np.ndarray:
        """Return the job's numbers (float64), NaN if unknown or infinite."""
        return np.array([finite_or_nan(field_value(job, name)) for name in self.numbers])

    def observe(self, event: Event) -> None:
        """Store a request and, when it ends, its run time; other events are ignored."""
        if isinstance(event, Submit):
            job = event.job
            limit, fallback = finite_or_nan(job.req_time), self.limits.of(job.req_time)
            self.note_names(job)
            self.open[job.row] = self.submitted
            value = self.value(job)
            self.requests.append(self.code(job), value, limit, fallback, self.completions, math.nan)
            self.low, self.high = np.fmin(self.low, value), np.fmax(self.high, value)
            self.limits.note(job.req_time)
        elif isinstance(event, End):
            job, number = event.job, self.open.pop(event.job.row, None)
            if number is None:
                number = self.submitted
                self.note_names(job)
            elif number >= self.requests.dropped:
                self.requests.columns["run"][number - self.requests.dropped] = event.run_time
            if number >= self.oldest:
                self.finished.append(self.code(job), self.value(job), number, self.completions, event.run_time)
            self.completions += 1
        elif isinstance(event, Withdraw):
            self.open.pop(event.job.row, None)

    def note_names(self, job: JobRequest) -> None:
        """Give a code to each of the job's names, and record which column each name comes from."""
        for name, known in zip(self.nominals, self.codes):
            value = self.name_value(job, name)
            known.setdefault(value, len(known))
            if isinstance(value, tuple):
                self.met.setdefault(name, value[0])
            elif value is not None:
                self.met[name] = name

    def forget(self, oldest: int) -> None:
        """Drop submissions before number `oldest`."""
        self.oldest = oldest
        self.requests.keep(np.arange(self.requests.length) + self.requests.dropped >= oldest)
        self.finished.keep(self.finished["number"] >= oldest)

    def scaling_so_far(self) -> tuple[np.ndarray, np.ndarray]:
        """Return minimum and range of the numbers of all requests so far; range 0 if a number is constant."""
        span = self.high - self.low
        return self.low, np.where(np.isfinite(span), span, 0.0)

    def window(self, first: int, last: int) -> dict[str, np.ndarray]:
        """Return the requests numbered first to last - 1 as columns (views)."""
        begin, end = (max(number - self.requests.dropped, 0) for number in (first, last))
        return {name: self.requests[name][begin:end] for name in self.requests.columns}
