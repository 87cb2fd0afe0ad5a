"""What planning with another quantile would change: mean error against the share of underestimates."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..events.recorded import Forecasts

LEAST, MOST = 0.3, 0.95


class Planned(NamedTuple):
    """Planning with the quantile at `level`: mean absolute error, seconds, and the share of jobs that ran longer."""

    level: float
    mae_s: float
    underestimate_rate: float


def planned_with(forecasts: Forecasts, run_time: np.ndarray, scored: np.ndarray) -> tuple[Planned, ...]:
    """One for each level from 0.3 to 0.95 that the method gives, over the jobs (n,) marked; a point where it has none.

    >>> both = Forecasts(np.array([6.0, 9.0]), (0.5, 0.9), np.array([[5.0, 9.0], [np.nan, np.nan]]), ["", ""])
    >>> planned_with(both, np.array([7.0, 7.0]), np.ones(2, bool))
    (Planned(level=0.5, mae_s=2.0, underestimate_rate=0.5), Planned(level=0.9, mae_s=2.0, underestimate_rate=0.0))
    """
    found = []
    for column, level in enumerate(forecasts.levels):
        plan = forecasts.quantiles[:, column]
        plan = np.where(np.isnan(plan), forecasts.points, plan)[scored]
        known = ~np.isnan(plan)
        if LEAST <= level <= MOST and known.any():
            plan, run = plan[known], run_time[scored][known]
            found.append(Planned(float(level), float(np.abs(plan - run).mean()), float((run > plan).mean())))
    return tuple(found)


def planned_keys(planned: tuple[Planned, ...]) -> dict[str, Any]:
    """The same as flat keys of a predictor's row.

    >>> planned_keys((Planned(0.3, 60.0, 0.7),))
    {'mae_s_at_30': 60.0, 'underestimate_rate_at_30': 0.7}
    """
    keys: dict[str, Any] = {}
    for level, error, under in planned:
        keys |= {f"mae_s_at_{100 * level:g}": error, f"underestimate_rate_at_{100 * level:g}": under}
    return keys
