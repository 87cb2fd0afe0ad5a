# SPDX-License-Identifier: Apache-2.0
"""The five pictures that a paper needs, with matplotlib: errors, coverage, waits, a Gantt chart, a frontier.

Each takes `ax`, an Axes to draw on (by default a new one), and returns it: titles and files are matplotlib's own.
matplotlib is no dependency: `pip install matplotlib`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .errors import UsageError
from .events.recorded import Forecasts
from .simulation.schedule import Schedule, place
from .table import Trace

MOST_BARS = 5000


def errors(log: Trace, forecasts: Mapping[str, Forecasts], ax: Any = None) -> Any:
    """How far off each method's run times are: share of jobs (0 to 1) by absolute error in seconds, on a log scale."""
    ax = _axes(ax)
    for name, said in forecasts.items():
        error = np.abs(said.points - log.run_time)
        error = np.sort(error[~np.isnan(error)])
        ax.step(np.maximum(error, 1.0), np.arange(1, len(error) + 1) / max(len(error), 1), where="post", label=name)
    ax.set(xscale="log", xlabel="absolute error (s)", ylabel="share of jobs", ylim=(0, 1))
    return _with_legend(ax, forecasts)


def coverage(outcome: np.ndarray, forecasts: Mapping[str, Forecasts], ax: Any = None) -> Any:
    """How often outcomes (n,) lie within each method's quantiles, beside the levels: the diagonal is honest."""
    ax = _axes(ax)
    ax.plot((0, 1), (0, 1), color="0.7", linestyle="--")
    for name, said in forecasts.items():
        known = ~np.isnan(said.quantiles) & ~np.isnan(outcome)[:, None]
        within = (outcome[:, None] <= said.quantiles) & known
        ax.plot(said.levels, within.sum(axis=0) / np.maximum(known.sum(axis=0), 1), marker="o", label=name)
    ax.set(xlabel="level", ylabel="share within", xlim=(0, 1), ylim=(0, 1))
    return _with_legend(ax, forecasts)


def waits(schedules: Mapping[str, Schedule], log: Trace | None = None, ax: Any = None) -> Any:
    """Share of jobs (0 to 1) by their wait in seconds under each schedule, and as recorded where a log is given."""
    ax = _axes(ax)
    each = {name: schedule.wait_time for name, schedule in schedules.items()}
    each |= {} if log is None else {"recorded": log.wait_time[log.wait_time >= 0]}
    for name, wait in each.items():
        ordered = np.sort(wait)
        ax.step(
            np.maximum(ordered, 1.0), np.arange(1, len(ordered) + 1) / max(len(ordered), 1), where="post", label=name
        )
    ax.set(xscale="log", xlabel="wait (s)", ylabel="share of jobs", ylim=(0, 1))
    return _with_legend(ax, each)


def gantt(schedule: Schedule, begin: float = -np.inf, end: float = np.inf, ax: Any = None) -> Any:
    """Which processors each job held from `begin` to `end`, seconds on the log's clock; backfilled ones apart.

    UsageError for more than 5,000 jobs: choose a shorter stretch. Processors are numbered by `simulation.place`.
    """
    ax = _axes(ax)
    held = place(schedule.start_time, schedule.end_time, schedule.procs, schedule.total)
    rows = np.flatnonzero((schedule.start_time < end) & (schedule.end_time > begin))
    if len(rows) > MOST_BARS:
        raise UsageError(
            f"{len(rows):,} jobs are too many for one picture (accepted: {MOST_BARS:,}); set begin and end"
        )
    for row in rows.tolist():
        start, length = schedule.start_time[row], schedule.end_time[row] - schedule.start_time[row]
        for low, high in held[row]:
            color = "C1" if schedule.backfilled[row] else "C0"
            ax.broken_barh([(start, length)], (low, high - low + 1), facecolors=color, edgecolor="white", linewidth=0.3)
    if len(rows):
        ax.set_xlim(max(begin, schedule.start_time[rows].min()), min(end, schedule.end_time[rows].max()))
    ax.set(xlabel="time (s)", ylabel="processor", ylim=(0, schedule.total))
    return ax


def frontier(schedules: Mapping[str, Schedule], ax: Any = None) -> Any:
    """Each schedule by its mean and its longest wait in hours; joined are those that none beats in both."""
    ax = _axes(ax)
    points = {name: (s.wait_time.mean() / 3600.0, s.wait_time.max() / 3600.0) for name, s in schedules.items()}
    middle = sum(mean for mean, _ in points.values()) / max(len(points), 1)
    for k, (name, (mean, longest)) in enumerate(sorted(points.items(), key=lambda one: one[1])):
        ax.plot(mean, longest, marker="o", color="C0")
        side, up = ("right", -4) if mean > middle else ("left", 4), 4 if k % 2 else -12
        ax.annotate(name, (mean, longest), xytext=(side[1], up), textcoords="offset points", ha=side[0])
    best = sorted(
        p for p in points.values() if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points.values())
    )
    ax.plot([mean for mean, _ in best], [longest for _, longest in best], color="0.6", zorder=0)
    ax.set(xlabel="mean wait (h)", ylabel="longest wait (h)")
    return ax


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UsageError("pictures need matplotlib", hint="pip install matplotlib") from None
    return Figure(layout="constrained").subplots()


def _with_legend(ax: Any, each: Mapping[str, Any]) -> Any:
    if each:
        ax.legend()
    return ax
