"""How good forecast chances and quantiles of waits are: pure functions on arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def log_crps(wait: np.ndarray, levels: Sequence[float], quantiles: np.ndarray) -> np.ndarray:
    """The CRPS (n,) of log(1 + wait) by quantiles (n, m) in seconds at `levels`: twice their mean pinball loss.

    Gneiting & Raftery (2007), section 4.2, on the levels given and no others; one median alone gives the absolute error
    of the logarithm.

    >>> log_crps(np.array([np.e - 1.0]), (0.5,), np.array([[0.0]])).tolist()
    [1.0]
    """
    level = np.asarray(levels, float)
    error = np.log1p(wait)[:, None] - np.log1p(np.maximum(quantiles, 0.0))
    return np.asarray(2.0 * np.maximum(level * error, (level - 1.0) * error).mean(axis=1))


def identified_curve(score: np.ndarray, quick: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of jobs marked quick from the highest `score` (n,) down: the misguided share of all, the identified of the quick.

    Both (m,) ascending, a point for each distinct score, the first where nobody is marked. O(n log n).

    >>> identified_curve(np.array([0.9, 0.5, 0.5]), np.array([True, True, False]))[1].tolist()
    [0.0, 0.5, 1.0]
    """
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0.0, True)) if len(score) else np.zeros(0, int)
    late, found = np.cumsum(~quick[order])[ends], np.cumsum(quick[order])[ends]
    total, count = max(int(quick.sum()), 1), max(len(score), 1)
    return np.append(0.0, late / count), np.append(0.0, found / total)


def identified_at(score: np.ndarray, quick: np.ndarray, misguided: float) -> float:
    """The share of quick starters identified when at most `misguided` of all jobs are marked wrongly.

    >>> identified_at(np.array([0.9, 0.5, 0.4]), np.array([True, False, True]), 0.1)
    0.5
    """
    late, found = identified_curve(score, quick)
    return float(found[np.searchsorted(late, misguided + 1e-12, side="right") - 1])


def kept_by_window(kept: np.ndarray, window: int = 5000) -> np.ndarray:
    """The share of `kept` (n,) in each window of so many jobs, in order; a last one shorter than half is left out.

    >>> kept_by_window(np.array([True, False, True, True, True]), 2).tolist()
    [0.5, 1.0, 1.0]
    """
    parts = [kept[low : low + window] for low in range(0, len(kept), window)]
    return np.array([part.mean() for part in parts if len(part) >= window / 2 or len(parts) == 1])


def reliability(chance: np.ndarray, happened: np.ndarray, bins: int = 10) -> list[tuple[float, float, int]]:
    """Mean forecast chance, observed share and number of forecasts in each of `bins` equal classes that has any.

    >>> reliability(np.array([0.1, 0.9, 1.0]), np.array([False, True, True]), 2)
    [(0.1, 0.0, 1), (0.95, 1.0, 2)]
    """
    which = np.minimum((chance * bins).astype(int), bins - 1)
    rows = []
    for k in np.unique(which).tolist():
        inside = which == k
        rows.append((float(chance[inside].mean()), float(happened[inside].mean()), int(inside.sum())))
    return rows
