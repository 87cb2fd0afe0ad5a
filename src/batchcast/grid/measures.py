"""What is measured of a grid's run, and its spread over runs. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from .clock import REASONS, Outcome

MEASURES = ("unfinished", "mean_wait", "mean_makespan")
SHORT = {"unfinished": "UFJ", "mean_wait": "AWT", "mean_makespan": "AMJ"}
"""The measures as Hao et al. 2014 abbreviate them."""


def measure(outcome: Outcome) -> dict[str, float]:
    """UFJ, AWT and AMJ of one run (Hao et al. 2014, section 4): unfinished jobs, mean wait, mean makespan of a job.

    Wait and makespan (start and finish less arrival, in the time unit of the model) are means over the jobs that ran;
    `_in_time` are those over the jobs that finished in time. Every outcome is also counted, in `reason: ...`.
    """
    ran, in_time = np.isfinite(outcome.finish), outcome.outcome == 0
    wait, response = outcome.start - outcome.arrival, outcome.finish - outcome.arrival
    figures: dict[str, float] = {
        "submitted": len(outcome.outcome),
        "assigned": outcome.assigned,
        "unfinished": outcome.unfinished,
        "mean_wait": _mean(wait[ran]),
        "mean_makespan": _mean(response[ran]),
        "mean_wait_in_time": _mean(wait[in_time]),
        "mean_makespan_in_time": _mean(response[in_time]),
        "mapping_events": outcome.events,
    }
    counts = np.bincount(outcome.outcome, minlength=len(REASONS))
    return figures | {f"reason: {REASONS[k]}": int(counts[k]) for k in range(1, len(REASONS))}


def over_runs(runs: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Means over runs; of the measures also the half width of the 95 % confidence interval (Student's t), `_ci95`.

    >>> over_runs([{"unfinished": 1.0}, {"unfinished": 3.0}])
    {'unfinished': 2.0, 'unfinished_ci95': 12.706}
    """
    means: dict[str, Any] = {}
    for name in runs[0]:
        values = np.array([run[name] for run in runs], dtype=np.float64)
        means[name] = float(values.mean())
        if name in MEASURES or name == "decision_ms_per_job":
            means[f"{name}_ci95"] = half_width(values)
    return means


def half_width(values: np.ndarray) -> float:
    """Half width of the 95 % interval of the mean; NaN for fewer than two values."""
    if len(values) < 2:
        return float("nan")
    return float(t_975(len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))


def t_975(freedom: int) -> float:
    """Student's 97.5 % quantile; within 0.002 from 3 degrees of freedom (Cornish and Fisher's expansion).

    >>> t_975(1), round(t_975(9), 3)
    (12.706, 2.262)
    """
    if freedom <= 4:
        return (12.706, 4.303, 3.182, 2.776)[freedom - 1]
    z = NormalDist().inv_cdf(0.975)
    terms = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return float(z + sum(term / freedom ** (k + 1) for k, term in enumerate(terms)))


def load_and_unfinished(outcome: Outcome, resources: int, points: int = 200) -> dict[str, np.ndarray]:
    """Over time: the share of busy resources, jobs waiting and jobs unfinished so far, at `points` instants.

    O((n + points) log n).
    """
    ran = np.isfinite(outcome.start)
    over = np.where(ran, outcome.finish, outcome.instant)
    known = np.isfinite(outcome.arrival) & np.isfinite(over)
    if not known.any():
        return {name: np.empty(0) for name in ("time", "load", "waiting", "unfinished")}
    time = np.linspace(float(outcome.arrival[known].min()), float(over[known].max()), points)

    def by(instants: np.ndarray) -> np.ndarray:
        return np.searchsorted(np.sort(instants), time, side="right")

    started, ended = by(outcome.start[ran]), by(outcome.finish[ran])
    left = by(np.where(ran, outcome.start, outcome.instant)[known])
    late = (outcome.outcome != 0) & np.isfinite(outcome.instant)
    return {
        "time": time,
        "load": (started - ended) / resources,
        "waiting": by(outcome.arrival[known]) - left,
        "unfinished": by(outcome.instant[late]),
    }


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
