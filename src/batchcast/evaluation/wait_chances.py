"""What a wait method's whole distributions are worth: their score, how they keep what they promise, whom they identify.

A method that knows chances (`chances` after `predict_trace`, by bins of predict/hazard) is judged by them; any other by
its point and by the quantiles it gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..events.recorded import Forecasts
from ..metrics.chances import identified_at, kept_by_window, log_crps
from ..metrics.wait import BINS_S, good
from ..predict.hazard.bins import ENDS_S, quantiles, reached
from ..predict.protocol import SHORTEST

AT_MISGUIDED = 0.04
WINDOW = 5000
_RANGES = [int(np.flatnonzero(end == ENDS_S)[0]) for end in BINS_S]


def crps_of(wait: np.ndarray, forecasts: Forecasts) -> np.ndarray:
    """The CRPS (n,) of log(1 + wait) of each forecast: by its quantiles where it has a median, else by its point.

    One second is the shortest that a method may answer, so it counts as no wait.
    """
    has_median = 0.5 in forecasts.levels
    values = forecasts.quantiles if has_median else forecasts.points[:, None]
    return log_crps(wait, forecasts.levels if has_median else (0.5,), np.where(values <= SHORTEST, 0.0, values))


def quick_score(forecasts: Forecasts, chances: np.ndarray | None, threshold: float) -> np.ndarray:
    """What ranks jobs (n,) by how likely they start within `threshold`: the chance itself, else the nearer point."""
    if chances is None:
        return -forecasts.points
    return reached(chances, np.full(len(chances), threshold))


def transforms(chances: np.ndarray, wait: np.ndarray) -> np.ndarray:
    """The chance (n,) that was given to a wait no longer than it was, spread evenly within its whole second."""
    spread = (0.5 + np.arange(len(wait)) * 0.6180339887498949) % 1.0
    return reached(chances, wait - spread)


def chance_figures(
    forecasts: Forecasts, chances: np.ndarray | None, wait: np.ndarray, run: np.ndarray, threshold: float
) -> dict[str, Any]:
    """Keys of a row: CRPS, identified at 4 % misguided, intervals kept, good share of the likeliest range.

    All arrays are of the scored jobs alone, in the log's order. `_low` and `_high` are the least and the most over
    windows of 5,000 jobs. Figures a method cannot have are NaN.
    """
    quick = wait <= threshold
    nothing = float("nan")
    figures: dict[str, Any] = {
        "crps_log": float(crps_of(wait, forecasts).mean()),
        "identified_at_4": identified_at(quick_score(forecasts, chances, threshold), quick, AT_MISGUIDED),
    }
    if chances is not None:
        at = transforms(chances, wait)
        figures["good_likeliest"] = float(good(likeliest_point(chances), wait, run).mean())
        kept = {80: (at > 0.1) & (at <= 0.9), 90: (at > 0.05) & (at <= 0.95)}
    else:
        figures["good_likeliest"] = nothing
        kept = {}
    for level in (80, 90):
        shares = kept_by_window(kept[level], WINDOW) if level in kept else np.array([nothing])
        figures |= {
            f"interval_{level}": float(kept[level].mean()) if level in kept else nothing,
            f"interval_{level}_low": float(shares.min()),
            f"interval_{level}_high": float(shares.max()),
        }
    return figures


def likeliest_point(chances: np.ndarray) -> np.ndarray:
    """The median (n,) within the likeliest of the paper's ranges (1, 3, 6, 12, 24, 48 h, more), in seconds.

    >>> likeliest_point(np.linspace(0.0, 1.0, 33)[None, :]).round().tolist()
    [147.0]
    """
    at = np.column_stack([np.zeros(len(chances)), chances[:, _RANGES], np.ones(len(chances))])
    best = np.argmax(np.diff(at, axis=1), axis=1)
    rows = np.arange(len(chances))
    middle = 0.5 * (at[rows, best] + at[rows, best + 1])
    return np.asarray(np.maximum(quantiles(chances, middle[:, None])[:, 0], 1.0))
