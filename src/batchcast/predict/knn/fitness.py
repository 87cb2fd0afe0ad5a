"""How good a set of parameters would have been on the training set: one sweep down the neighbour orders."""

from __future__ import annotations

import numpy as np

from ...compiled import allocating
from .nearest import mean_of_last, planned


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
    """Est and std of every training job under one (template, N, K); step 5's fall-backs where no neighbour is left.

    std is NaN where the limit itself is the answer. `run` and `total` are in completion order. O(jobs * K) about.
    """
    mean = np.empty(len(done))
    std = np.empty(len(done))
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
    count = 0
    first = 0.0
    one = 0.0
    two = 0.0
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
    """Fitness = (sum|P - R| / sum R) / exp(weight (1 - PU)^2), smaller is better; with it MAE and PU.

    Xu et al. 2018, eq. 7; the weight is ours, 1 in the paper. Where every R is 0 the sum of errors stands alone.
    """
    error = 0.0
    truth = 0.0
    under = 0
    for i in range(len(actual)):
        p = max(mean[i], 1.0) if std[i] != std[i] else planned(mean[i], std[i], limit[i], alpha, beta)
        error += abs(p - actual[i])
        truth += actual[i]
        under += p < actual[i]
    pu = under / len(actual)
    ratio = error / truth if truth > 0.0 else error
    return ratio / np.exp(pu_weight * (1.0 - pu) ** 2), error / len(actual), pu
