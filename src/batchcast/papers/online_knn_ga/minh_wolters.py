# SPDX-License-Identifier: Apache-2.0
"""`minh_wolters`: predicts run times from nearest neighbours that match a template, under a weighted distance.

The distance covers names and numbers; a genetic algorithm finds the weights of the distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...compiled import allocating
from ...events.state import SystemState
from ...job import JobRequest
from ...predict.fallback import LEVELS, sample_quantiles
from ...predict.protocol import Grounds, Prediction
from .genetic import INSTEAD, NOMINALS, NUMBERS, USER, Gene, Parameters, RangedMethod, score
from .nearest import alike, insert, mean_and_std, mean_of_last, planned, scaling


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
        for field in range(fields):
            if codes[place, field] != query_codes[field] or query_codes[field] == null[field]:
                total += weights[field]
        for column in range(len(query)):
            d = abs(values[place, column] - query[column])
            if d != d:
                total += weights[fields + column]
            elif span[column] > 0.0:
                d /= span[column]
                total += weights[fields + column] * d * d
        count = insert(best, positions, count, np.sqrt(total / whole) if whole > 0.0 else 0.0, place)
    return positions[:count]


OTHER_SIDE = 1 << 30


class Groups(NamedTuple):
    """The differences between distinct queries and distinct finished jobs, and the members of each group of equal jobs.

    `parts` (q, g, attributes) are the differences d_a before weighting. `differs` (q, g) has a bit for each name field
    that differs, and the bit OTHER_SIDE if exactly one of the two jobs has more than `parted_at` processors. Group j's
    finished jobs are `members[start[j]:start[j + 1]]`, ascending. `asked` and `query_start` give the jobs of each
    distinct query in the same form.
    """

    parts: np.ndarray
    differs: np.ndarray
    start: np.ndarray
    members: np.ndarray
    query_start: np.ndarray
    asked: np.ndarray

    @classmethod
    def of(
        cls,
        codes: np.ndarray,
        values: np.ndarray,
        query_codes: np.ndarray,
        queries: np.ndarray,
        null: np.ndarray,
        span: np.ndarray,
        parted_at: float,
    ) -> Groups:
        """Group finished jobs, and queries, with equal codes and numbers; see `weighted_nearest`. The call takes
        O((jobs + q g) a) time for a attributes."""
        known, start, members = _distinct(codes, values)
        asking, query_start, asked = _distinct(query_codes, queries)
        ours, theirs = query_codes[asking], codes[known]
        unequal = ours[:, None, :] != theirs[None, :, :]
        names = unequal | (ours == null)[:, None, :]
        apart = np.abs(values[known][None, :, :] - queries[asking][:, None, :])
        with np.errstate(invalid="ignore", divide="ignore"):
            numbers = np.where(np.isnan(apart), 1.0, np.where(span > 0, apart / span, 0.0))
        side = (queries[asking][:, 0] > parted_at)[:, None] != (values[known][:, 0] > parted_at)[None, :]
        bits = (unequal * (1 << np.arange(ours.shape[1]))).sum(axis=2)
        differs = bits + OTHER_SIDE * (side & (parted_at == parted_at))
        return cls(np.concatenate([names, numbers], axis=2), differs, start, members, query_start, asked)


def _distinct(codes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return one row of each distinct kind, the rows sorted by kind, and the index at which each kind begins among
    them."""
    table = np.column_stack([codes, np.where(np.isnan(values), -np.inf, values)])
    _, first, kind = np.unique(table, axis=0, return_index=True, return_inverse=True)
    kind = kind.ravel()
    start = np.concatenate([[0], np.cumsum(np.bincount(kind, minlength=len(first)))])
    return first, start, np.argsort(kind, kind="stable")


@allocating
def grouped_estimates(
    groups: Groups,
    run: np.ndarray,
    total: np.ndarray,
    done: np.ndarray,
    fallback: np.ndarray,
    weights: np.ndarray,
    template: int,
    n: int,
    k: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of the run times of each query's nearest jobs; the deviation is NaN if the
    time limit is the prediction.

    The nearest jobs are those of `weighted_nearest` among the first done[i] finished jobs. The call takes O(q g
    (attributes + log g)) time for q distinct queries and g distinct jobs, and then about K steps per query.
    """
    parts, differs, start, members, query_start, asked = groups
    count, attributes = parts.shape[1], parts.shape[2]
    mean, std = np.empty(len(done)), np.empty(len(done))
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
            i = asked[at]
            oldest = done[i] - n
            taken, first = 0, 0
            while first < like and taken < k:
                last = first + 1
                while last < like and apart[order[last]] == apart[order[first]]:
                    last += 1
                for tied in range(first, last):
                    group = which[order[tied]]
                    of_group = members[start[group] : start[group + 1]]
                    upper[tied] = start[group] + np.searchsorted(of_group, done[i])
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
            elif done[i] > 0:
                mean[i], std[i] = mean_of_last(total, done[i], n), 0.0
            else:
                mean[i], std[i] = fallback[i], np.nan
    return mean, std


ATTRIBUTES = (*NOMINALS, *NUMBERS)


UNTRAINED = Parameters(USER, 3000, 5, 0.0, 1.0, (1.0,) * len(ATTRIBUTES))


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
        self.small = self.big = UNTRAINED

    def predict(self, job: JobRequest, at: SystemState) -> Prediction:
        """Predict from the neighbours that have finished by now."""
        store = self.store
        codes, values = store.code(job), store.value(job)
        chosen = self.big if values[0] > self.parted_at else self.small
        span = self.span if self.is_scaled else store.scaling_so_far()[1]
        finished = store.finished
        near = weighted_nearest(
            finished["codes"], finished["values"], codes, values, self._null(), span, np.array(chosen.weights),
            chosen.template, chosen.n, chosen.k, self.parted_at,
        )  # fmt: skip
        run, limit = finished["run"], store.limit(job)[0]
        if len(near):
            mean, std = mean_and_std(run, near)
            used, basis, grounds = run[near], f"{len(near)} nearest by weighted attributes", Grounds.CLASS
        elif len(run):
            mean, std = mean_of_last(finished["total"], len(run), chosen.n), 0.0
            used, basis, grounds = run[-chosen.n :], "mean of all", Grounds.EVERYONE
        else:
            return store.limits.forecast(job)
        point = planned(mean, std, limit, chosen.alpha, chosen.beta)
        return Prediction(point, LEVELS, sample_quantiles(used.tolist(), limit), self.noting(basis), grounds)

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
        if not len(rows):
            return before
        rows = rows[np.linspace(0, len(rows) - 1, min(self.sample, len(rows))).astype(int)]
        finished, jobs = self.store.finished, {name: column[rows] for name, column in training.items()}
        groups = Groups.of(
            finished["codes"], finished["values"], jobs["codes"], jobs["values"], self._null(), self.span,
            self.parted_at,
        )  # fmt: skip
        fixed = (groups, finished["run"], finished["total"], jobs["done"], jobs["fallback"])

        def tried(genome: np.ndarray) -> tuple[float, float, float]:
            chosen = Parameters.of(genome)
            mean, std = grouped_estimates(*fixed, np.array(chosen.weights), chosen.template, chosen.n, chosen.k)
            return score(mean, std, jobs["limit"], jobs["run"], chosen.alpha, chosen.beta, self.pu_weight)

        bits, weights = (Gene("bit") for _ in NOMINALS), (Gene("real", 0.0, 1.0) for _ in ATTRIBUTES)
        genes = (*bits, *weights, *self.ranges())
        search = self.widened(genes, lambda _: lambda genome: tried(genome)[0], len(side))
        _, mae, pu = tried(search.best)
        self.note_best(now, search, len(rows), mae, pu, ATTRIBUTES, side=side)
        return Parameters.of(search.best)

    def _null(self) -> np.ndarray:
        """Return for each name field the code that means an unknown value; -2 if no value is unknown."""
        return np.array([known.get(None, -2) for known in self.store.codes], dtype=np.int32)
