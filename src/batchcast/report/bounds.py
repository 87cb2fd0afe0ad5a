"""How the calibrated bounds held as jobs went by, and how long they were."""

from __future__ import annotations

import numpy as np

from ..evaluation.limits import Limits
from ..evaluation.target import run_time_target
from . import figures
from .axes import span
from .blocks import Figure

WINDOW = 5000
DRAWN = (0.8, 0.9, 0.95)
LEAST = 500
PLACES = 200
ROUNDING = 1e-9


def bound_figures(limits: Limits) -> list[Figure]:
    """Coverage and sharpness in windows of 5,000 jobs (a fifth of a shorter log); nothing where jobs are too few."""
    rows = np.flatnonzero(limits.scored)
    window = min(WINDOW, len(rows) // 5)
    if window < LEAST or not limits.bounds:
        return []
    run = run_time_target(limits.trace).within[rows]
    ends = np.unique(np.linspace(window, len(rows), PLACES).astype(int))
    held, length = {}, {}
    bounds = {level: limits.bounds[level] for level in DRAWN}
    for level, bound in bounds.items():
        kept = np.concatenate([[0], np.cumsum(run <= bound[rows] * (1.0 + ROUNDING))])
        held[name(level)] = (ends, (kept[ends] - kept[ends - window]) / window)
        length[name(level)] = (ends, _medians(bound[rows], ends, window))
    length["users' limits"] = (ends, _medians(limits.limits["own"][rows], ends, window))
    length["run times"] = (ends, _medians(run, ends, window))
    levels = list(bounds)
    words = "; ".join(f"{name(level)}: {np.mean(np.abs(held[name(level)][1] - level) <= 0.02):.1%}" for level in levels)
    coverage = figures.lines(
        f"How the bounds held, in windows of {window:,} jobs",
        held,
        x="jobs so far",
        y="share of jobs within their bound",
        share=True,
        caption="The promise is a flat line at each bound's own height (dotted). Learned as jobs end, so that a burst "
        f"forecast before its first job ended shows as a dent. Windows within two points of the promise: {words}.",
    )
    lowest = min(float(np.min(share)) for _, share in held.values())
    layout = dict(coverage.layout)
    layout["yaxis"] = {**layout["yaxis"], "range": [max(min(lowest - 0.02, min(levels) - 0.1), 0.0), 1.0]}
    dotted = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "line": {"dash": "dot", "width": 1, "color": "#888"}}
    layout["shapes"] = [{**dotted, "y0": level, "y1": level} for level in levels]
    totals = "; ".join(f"{name(level)}: {span(float(np.mean(bounds[level][rows])))}" for level in levels)
    sharpness = figures.lines(
        f"How long the bounds were, in windows of {window:,} jobs",
        length,
        x="jobs so far",
        y="median",
        seconds=True,
        caption=f"Shorter is better while they hold. Mean over all jobs: {totals}; run times "
        f"{span(float(run.mean()))}, users' limits {span(float(np.mean(limits.limits['own'][rows])))}.",
    )
    return [
        Figure(coverage.title, coverage.data, layout, coverage.alt, coverage.caption),
        sharpness,
    ]


def name(level: float) -> str:
    """A level as people write it.

    >>> name(0.8)
    '80 %'
    """
    return f"{100.0 * level:g} %"


def _medians(values: np.ndarray, ends: np.ndarray, window: int) -> np.ndarray:
    """The median of each window that ends at one of `ends`."""
    return np.array([np.median(values[end - window : end]) for end in ends.tolist()])
