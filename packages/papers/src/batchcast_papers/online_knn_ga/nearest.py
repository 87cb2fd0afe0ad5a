# SPDX-License-Identifier: Apache-2.0
"""Finds the K nearest of the last N finished jobs that match a template, and predicts a run time from them.

The neighbours of a training set are sorted once per template (`neighbour_orders`), because the order does not depend on
N, K, alpha or beta. For each query, all candidates are sorted once by distance, and at equal distance by recency, the
latest first; queries with equal numbers share the order. A genome then needs only one pass over the sorted list, which
skips candidates that are not among the last N jobs in completion order. Most entries of the list are never needed: an
entry can be among the K nearest for some N only if fewer than `most` of the nearer entries are more recent. Of n
candidates, about most * (1 + log(n/most)) remain in the list.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from batchcast.compiled import allocating
from batchcast.compiled.arrays import insert_sorted


def scaling(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return minimum and range of each column of a table (n, m), ignoring NaN; the range is 0 if a column is constant
    or all NaN.

    >>> scaling(np.array([[1.0, 5.0], [3.0, 5.0]]))
    (array([1., 5.]), array([2., 0.]))
    """
    low, high = (ends.reduce(values, axis=0, initial=np.nan) for ends in (np.fmin, np.fmax))
    return np.where(np.isnan(low), 0.0, low), np.where(np.isfinite(high - low), high - low, 0.0)


@allocating
def normal(value: float, low: float, span: float) -> float:
    """Return f(x) = (x - min)/(max - min), eq. 2 of Xu et al. 2018; 0 if the column is constant, NaN for NaN."""
    if value != value:
        return value
    return (value - low) / span if span > 0.0 else 0.0


def normalised(values: np.ndarray, low: np.ndarray, span: np.ndarray) -> np.ndarray:
    """Return a table (n, m) with all values normalised by `normal`."""
    safe = np.where(span > 0, span, 1.0)
    return np.where(np.isnan(values), np.nan, np.where(span > 0, (values - low) / safe, 0.0))


@allocating
def distance(row: np.ndarray, query: np.ndarray) -> float:
    """Return the distance Sim of eq. 3 over normalised numbers (m,); two unknown values add 0, one unknown value adds
    1."""
    total = 0.0
    for column in range(len(row)):
        x, y = row[column], query[column]
        if x == x and y == y:
            total += (x - y) * (x - y)
        elif x == x or y == y:
            total += 1.0
    return float(np.sqrt(total))


@allocating
def alike(codes: np.ndarray, query_codes: np.ndarray, template: int) -> bool:
    """Return whether the codes are equal in every field whose bit is set in `template`."""
    for field in range(len(codes)):
        if (template >> field) & 1 and codes[field] != query_codes[field]:
            return False
    return True


@allocating
def nearest(
    codes: np.ndarray,
    values: np.ndarray,
    query_codes: np.ndarray,
    query: np.ndarray,
    low: np.ndarray,
    span: np.ndarray,
    template: int,
    n: int,
    k: int,
) -> np.ndarray:
    """Return the positions of the k nearest of the last n finished jobs that match the template, nearest first.

    `codes` (jobs, fields) and `values` (jobs, m) are in completion order; `query` is normalised. Among equal distances,
    the job that completed last comes first. The search takes O(n (m + k)) time.
    """
    best, positions, count = np.empty(k), np.empty(k, dtype=np.int64), 0
    row = np.empty(values.shape[1])
    for back in range(min(n, len(codes))):
        position = len(codes) - 1 - back
        if not alike(codes[position], query_codes, template):
            continue
        for column in range(len(row)):
            row[column] = normal(values[position, column], low[column], span[column])
        count = insert_sorted(best, positions, count, distance(row, query), position)
    return positions[:count]


@allocating
def mean_and_std(run: np.ndarray, positions: np.ndarray) -> tuple[float, float]:
    """Return mean and population standard deviation of run times, by their differences to the nearest job's run time.

    The differences make the deviation of equal run times exactly 0.
    """
    first, one, two = run[positions[0]], 0.0, 0.0
    for position in positions:
        d = run[position] - first
        one += d
        two += d * d
    count = len(positions)
    mean = one / count
    return first + mean, np.sqrt(max(two / count - mean * mean, 0.0))


@allocating
def mean_of_last(total: np.ndarray, count: int, n: int) -> float:
    """Return the mean run time of the last n of the first `count` finished jobs, from running totals; count >= 1."""
    n = min(n, count)
    before = total[count - n - 1] if count > n else 0.0
    return float((total[count - 1] - before) / n)


@allocating
def planned(mean: float, std: float, limit: float, alpha: float, beta: float) -> float:
    """Return Est2 = min(Est + alpha std, beta r) of eqs. 5 and 6; without a limit r there is no cap; the result is at
    least one second."""
    estimate = mean + alpha * std
    if limit == limit and beta * limit < estimate:
        estimate = beta * limit
    return max(estimate, 1.0)


LOCAL_MODELS = ("mean", "linear", "svr")
REGRESSIONS = ("linear", "forest", "svr")
TREES = 10


def local_estimate(model: str, table: np.ndarray, run: np.ndarray, query: np.ndarray, seed: int = 0) -> float:
    """Return the run time (s) that a regression over `table` (k, m) and `run` (k,) predicts at `query` (m,).

    Unknown values count as -1 (features are normalised to about [0, 1] or standardised). The predicted run time is
    clipped to the range of the neighbours' run times, because a fit on a few jobs cannot extrapolate. If there is one
    neighbour, or all run times are equal, the prediction is this run time. `linear` is least squares of smallest norm;
    `svr` is scikit-learn's SVR (Gaussian kernel, default parameters) on standardised run times; `forest` is a random
    forest of 10 trees.
    """
    low, high = float(run.min()), float(run.max())
    if low == high:
        return low
    known, asked = np.nan_to_num(table, nan=-1.0), np.nan_to_num(query, nan=-1.0)
    value = float(fitted(model, known, run, seed)(asked[None, :])[0])
    return min(max(value, low), high)


SMALLEST = 1e-10
"""A singular value below this share of the largest one counts as a rounding error of centring, and is not fitted.
NumPy's default threshold (the table's size times the machine precision) would fit some rounding errors.
"""


class Linear:
    """A linear regression: least squares of smallest norm, with an intercept."""

    def __init__(self, table: np.ndarray, run: np.ndarray) -> None:
        self.centre = table.mean(axis=0)
        self.mean = float(run.mean())
        self.weights = np.linalg.lstsq(table - self.centre, run - self.mean, rcond=SMALLEST)[0]

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.mean + (rows - self.centre) @ self.weights)


class Scaled:
    """A scikit-learn regressor that is fitted to standardised run times."""

    def __init__(self, model: Any, table: np.ndarray, run: np.ndarray) -> None:
        self.centre, self.spread = float(run.mean()), float(run.std()) or 1.0
        self.model = model.fit(table, (run - self.centre) / self.spread)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.centre + self.spread * self.model.predict(rows))


def fitted(model: str, table: np.ndarray, run: np.ndarray, seed: int = 0) -> Linear | Scaled:
    """Return a function from rows (n, m) to run times (n,), fitted to `table` (k, m) and `run` (k,). Seconds."""
    if model == "linear":
        return Linear(table, run)
    from sklearn import config_context

    with config_context(assume_finite=True, skip_parameter_validation=True):
        if model == "svr":
            from sklearn.svm import SVR

            return Scaled(SVR(), table, run)
        from sklearn.ensemble import RandomForestRegressor

        return Scaled(RandomForestRegressor(TREES, random_state=seed), table, run)


class Orders(NamedTuple):
    """The sorted neighbours under one template: query i's candidates, nearest first, are `entries[start[i]:start[i +
    1]]`."""

    start: np.ndarray
    entries: np.ndarray


def neighbour_orders(
    queries: np.ndarray,
    query_codes: np.ndarray,
    finished_before: np.ndarray,
    values: np.ndarray,
    codes: np.ndarray,
    templates: Iterable[int],
    most: int,
) -> dict[int, Orders]:
    """Return each template's sorted neighbours of the queries, given by normalised numbers (t, m), codes (t, f) and
    counts of finished jobs (t,).

    Candidates of query i are the first finished_before[i] rows of `values` (jobs, m), normalised, and `codes` (jobs,
    f), in completion order. `most` is the largest number K of neighbours. The cost per template is O(d n log n + t n)
    for n jobs and t queries, of which d are distinct.
    """
    distinct, group = np.unique(np.nan_to_num(queries, nan=np.inf), axis=0, return_inverse=True)
    vectors = np.where(np.isinf(distinct), np.nan, distinct)
    order = sorted_candidates(vectors, values)
    by_key: dict[bytes, Orders] = {}
    orders = {}
    for template in templates:
        label = classes(np.concatenate([codes, query_codes]), template)
        key = label.tobytes()
        if key not in by_key:  # a field without new information gives the same classes, hence the same order
            parted = (label[: len(codes)], label[len(codes) :])
            by_key[key] = Orders(*needed(order, group.ravel(), finished_before, *parted, most))
        orders[template] = by_key[key]
    return orders


def classes(codes: np.ndarray, template: int) -> np.ndarray:
    """Return labels, int64 (n,): rows of `codes` (n, fields) that are equal in the template's fields get equal labels.

    Labels are numbered by first appearance, so templates that split the rows into the same classes give the same
    labels.

    >>> classes(np.array([[7, 1], [5, 1], [7, 2]]), 0b01).tolist()
    [0, 1, 0]
    """
    label = np.zeros(len(codes), dtype=np.int64)
    for field in range(codes.shape[1]):
        if (template >> field) & 1:
            column = codes[:, field].astype(np.int64)
            column -= column.min(initial=0)
            both = label * (column.max(initial=0) + 1) + column
            _, first, label = np.unique(both, return_index=True, return_inverse=True)
            label = np.argsort(np.argsort(first))[label.ravel()]
    return label


@allocating
def sorted_candidates(vectors: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return, for each query vector (d, m), the candidates (jobs, m) sorted by distance, then recency, (d, jobs)."""
    jobs = len(values)
    order = np.empty((len(vectors), jobs), dtype=np.int32)
    away = np.empty(jobs)
    for v in range(len(vectors)):
        for back in range(jobs):
            away[back] = distance(values[jobs - 1 - back], vectors[v])
        ranked = np.argsort(away, kind="mergesort")
        for at in range(jobs):
            order[v, at] = jobs - 1 - ranked[at]
    return order


@allocating
def needed(
    order: np.ndarray,
    group: np.ndarray,
    finished_before: np.ndarray,
    labels: np.ndarray,
    query_labels: np.ndarray,
    most: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the index at which each query's entries begin, and the entries that any N and K <= most can need, query
    after query."""
    start = np.zeros(len(group) + 1, dtype=np.int64)
    entries = np.empty(1024, dtype=np.int32)
    # the `most` latest positions in completion order so far, as negative numbers, so that the latest comes first
    latest = np.empty(most, dtype=np.int64)
    for i in range(len(group)):
        at = start[i]
        count = 0
        for place in order[group[i]]:
            if place >= finished_before[i] or labels[place] != query_labels[i]:
                continue
            if count == most and place < -latest[most - 1]:
                continue
            if at == len(entries):
                entries = np.concatenate((entries, np.empty_like(entries)))
            entries[at] = place
            at += 1
            count = insert_sorted(latest, latest, count, -place, -place)
        start[i + 1] = at
    return start, entries[: start[-1]].copy()
