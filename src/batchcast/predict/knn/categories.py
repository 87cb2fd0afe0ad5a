# SPDX-License-Identifier: Apache-2.0
"""Categories of like jobs under many templates: their means and confidence intervals, compiled."""

from __future__ import annotations

import numpy as np

from ...compiled import allocating
from .nearest import alike


@allocating
def category_statistics(
    labels: np.ndarray, query_labels: np.ndarray, done: np.ndarray, amount: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count, mean and sample variance of each query's category among the first done[i] finished jobs; one pass.

    `labels` (jobs,) and `amount` (jobs,) are in completion order, NaN amounts do not count; `done` (t,) ascends.
    Welford's updates in completion order.
    """
    size = 1
    for label in labels:
        size = max(size, label + 1)
    for label in query_labels:
        size = max(size, label + 1)
    count = np.zeros(size)
    mean = np.zeros(size)
    square = np.zeros(size)
    out = np.zeros((3, len(done)))
    at = 0
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
        out[0, i] = count[label]
        out[1, i] = mean[label]
        out[2, i] = square[label] / (count[label] - 1.0) if count[label] > 1.0 else np.nan
    return out[0], out[1], out[2]


@allocating
def members(codes: np.ndarray, query: np.ndarray, template: int, amount: np.ndarray) -> np.ndarray:
    """The amounts (not NaN) of the finished jobs in the query's category, in completion order."""
    values = np.empty(len(codes))
    count = 0
    for place in range(len(codes)):
        if amount[place] == amount[place] and alike(codes[place], query, template):
            values[count] = amount[place]
            count += 1
    return values[:count]


@allocating
def welford(amount: np.ndarray) -> tuple[float, float]:
    """Mean and sample variance, updated one by one as `category_statistics` does."""
    mean = 0.0
    square = 0.0
    for i in range(len(amount)):
        step = amount[i] - mean
        mean += step / (i + 1.0)
        square += step * (amount[i] - mean)
    return mean, square / (len(amount) - 1.0) if len(amount) > 1 else np.nan


@allocating
def smallest_interval(
    chosen: np.ndarray, estimate: np.ndarray, interval: np.ndarray, fallback: np.ndarray
) -> np.ndarray:
    """For each job the estimate of the chosen template with the smallest interval; the fallback where none has one.

    `estimate` and `interval` are (templates, jobs), NaN where a template has no answer. Ties: the first chosen.
    """
    estimates = fallback.copy()
    for i in range(len(estimates)):
        least = np.inf
        for template in chosen:
            if interval[template, i] < least:
                least = interval[template, i]
                estimates[i] = estimate[template, i]
    return estimates
