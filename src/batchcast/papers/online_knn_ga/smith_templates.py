# SPDX-License-Identifier: Apache-2.0
"""`smith_templates`: predicts run times from the category of similar jobs with the smallest confidence interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...compiled import allocating
from ...events.state import SystemState
from ...job import JobRequest
from ...predict.fallback import LEVELS, sample_quantiles
from ...predict.protocol import Grounds, Prediction, at_least_a_second
from .genetic import INSTEAD, BatchMethod, Gene, fields_of
from .nearest import alike, classes


@allocating
def category_statistics(
    labels: np.ndarray, query_labels: np.ndarray, done: np.ndarray, amount: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return count, mean and sample variance of the run times in each query's category, among the first done[i]
    finished jobs.

    `labels` (jobs,) and `amount` (jobs,) are in completion order; NaN amounts are ignored; `done` (t,) is ascending.
    The function makes one pass, with Welford's updates.
    """
    size = 1
    for label in labels:
        size = max(size, label + 1)
    for label in query_labels:
        size = max(size, label + 1)
    count, mean, square = np.zeros(size), np.zeros(size), np.zeros(size)
    out, at = np.zeros((3, len(done))), 0
    for i in range(len(done)):
        while at < done[i]:
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

    def __str__(self) -> str:
        return self.words(str)

    def words(self, column_of: Callable[[str], str]) -> str:
        """Return the template as text, with the names of the log's columns: `(user_id+account) relative`."""
        columns = map(column_of, fields_of(self.fields, FIELDS))
        return f"({'+'.join(columns)}){' relative' if self.relative else ''}"


UNIVERSE = tuple(
    Template(names | size, relative) for size in SIZES for names in range(16) for relative in (False, True)
)
GENES = (*(Gene("bit") for _ in range(SLOTS)), *(Gene("int", 0, len(UNIVERSE) - 1) for _ in range(SLOTS)))
UNTRAINED = tuple(UNIVERSE.index(Template(fields, False)) for fields in (0b011001, 0b010001, 0b000001, 0b000000))


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
        self.chosen: tuple[int, ...] = UNTRAINED
        # 95 % quantiles of Student's t by degrees of freedom; infinite for 0
        self.quantile = np.append(np.inf, stdtrit(np.arange(1, self.h + self.t1 + self.t2 + 1), 0.95))

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict the mean of the job's category with the smallest interval."""
        store, codes = self.store, self.store.code(job)
        limit, run = store.limit(job)[0], store.finished["run"]
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
        finished, done = self.store.finished, training["done"]
        codes = np.concatenate([finished["codes"], training["codes"]])
        run, limit = finished["run"], training["values"][:, 0]
        estimate, interval = np.full((2, len(UNIVERSE), len(done)), np.nan)
        for number, template in enumerate(UNIVERSE):
            label = classes(codes, template.fields)
            amount = run / finished["values"][:, 0] if template.relative else run
            scale = limit if template.relative else np.ones(len(done))
            count, mean, variance = category_statistics(label[: len(run)], label[len(run) :], done, amount)
            estimate[number], interval[number] = mean * scale, self._interval(count, variance) * scale
        all_of_them = classes(codes, 0)
        count, mean, _ = category_statistics(all_of_them[: len(run)], all_of_them[len(run) :], done, run)
        return estimate, interval, np.where(count > 0, mean, training["fallback"])

    def _interval(self, count: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return the half width of the 90 % confidence interval of a mean; NaN for fewer than two jobs."""
        degrees = np.clip(count - 1, 0, len(self.quantile) - 1).astype(int)
        return np.asarray(self.quantile[degrees] * np.sqrt(variance / np.maximum(count, 1.0)))


def _set(genome: np.ndarray) -> tuple[int, ...]:
    used = genome[:SLOTS] > 0
    return tuple(dict.fromkeys(genome[SLOTS:][used].astype(int).tolist()))
