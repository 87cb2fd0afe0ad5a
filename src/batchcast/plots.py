# SPDX-License-Identifier: Apache-2.0
"""Pictures for papers, with matplotlib: errors, coverage, waits, a Gantt chart, a frontier, differences.

Each function takes `ax`, the Axes to draw on (by default new Axes), and returns these Axes, so that callers can set
titles and save files with matplotlib. matplotlib is optional; the extra `notebook` installs it. The method `.plot()` of
every result calls these functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .errors import UsageError, how_to_install

MOST_BARS = 5000
UNITS = {"_s": (60.0, "min"), "_core_h": (1.0, "core-hours"), "_gib_h": (1.0, "GiB-hours"), "_mib": (1.0, "MiB")}
"""For each ending of a measure's name, the divisor of the drawn value and the label of the unit."""

NAMES = {"mae_s": "mean absolute error", "mae_mib": "mean absolute error", "mean_abs_error_s": "mean absolute error"}


def errors(log: Any, forecasts: Mapping[str, Any], ax: Any = None) -> Any:
    """Draw the run-time errors of each method: share of jobs (0 to 1) by absolute error in seconds, on a log scale.

    `log` is a trace, or an array of the actual run times (n,) in seconds; `forecasts` are objects with `points` (n,),
    by method.
    """
    truth = getattr(log, "run_time", log)
    return shares({name: np.abs(said.points - truth) for name, said in forecasts.items()}, "absolute error (s)", ax)


def waits(schedules: Mapping[str, Any], log: Any = None, ax: Any = None) -> Any:
    """Draw the share of jobs (0 to 1) by wait in seconds under each schedule, and as recorded if a log is given."""
    each = {name: schedule.wait_time for name, schedule in schedules.items()}
    each |= {} if log is None else {"recorded": log.wait_time[log.wait_time >= 0]}
    return shares(each, "wait (s)", ax)


def gantt(schedule: Any, begin: float = -np.inf, end: float = np.inf, ax: Any = None) -> Any:
    """Draw which processors each job used from `begin` to `end` (seconds on the log's clock); the axis is in hours.

    Backfilled jobs have a separate color. Raises UsageError for more than 5,000 jobs; choose a shorter time span.
    Processors are numbered by `schedule.placed()`.
    """
    ax = axes(ax)
    rows = np.flatnonzero((schedule.start_time < end) & (schedule.end_time > begin))
    if len(rows) > MOST_BARS:
        raise UsageError(
            f"{len(rows):,} jobs are too many for one picture (accepted: {MOST_BARS:,}); set begin and end"
        )
    from matplotlib.collections import PolyCollection  # one artist for all bars: 50,000 artists take minutes

    held, starts, ends = schedule.placed(), schedule.start_time / 3600.0, schedule.end_time / 3600.0
    for passed, color, label in ((False, "C0", "in its turn"), (True, "C1", "backfilled")):
        bars = [
            ((starts[row], low), (ends[row], low), (ends[row], high + 1), (starts[row], high + 1))
            for row in rows.tolist()
            if schedule.backfilled[row] == passed
            for low, high in held[row]
        ]
        if bars:
            ax.add_collection(PolyCollection(bars, facecolors=color, edgecolors="white", linewidths=0.3, label=label))
    if len(rows):
        ax.set_xlim(max(begin / 3600.0, starts[rows].min()), min(end / 3600.0, ends[rows].max()))
    ax.set(xlabel="time (h)", ylabel="processor", ylim=(0, schedule.total))
    if len(ax.collections) > 1:
        ax.legend(loc="upper right")
    return ax


def frontier(schedules: Mapping[str, Any], ax: Any = None) -> Any:
    """Draw each schedule by its mean and longest wait in hours. A line joins the schedules for which no other schedule
    is better in both mean and longest wait."""
    points = {name: (s.wait_time.mean() / 3600.0, s.wait_time.max() / 3600.0) for name, s in schedules.items()}
    return tradeoff(points, "mean wait (h)", "longest wait (h)", ax)


def differences(
    rows: Sequence[Mapping[str, Any]], metric: str = "mean_wait_s", by: Sequence[str] = ("policy", "predictor"),
    ax: Any = None, of: str = "differences",
) -> Any:  # fmt: skip
    """Draw each row's difference from the reference row in one measure, with its 90 % interval.

    `rows` are the rows of a result or of its JSON; `by` has the keys that name a row; `of` is the key under which a row
    has its differences. Differences left of the zero line mean smaller values than the reference.

    >>> stated = {"value": -60.0, "low": -90.0, "high": -30.0}
    >>> rows = [{"policy": "sjf", "against": "fcfs", "differences": {"mean_wait_s": stated}}]
    >>> differences(rows, by=["policy"]).get_xlabel()
    'mean wait less that of fcfs (min)'
    """
    end = next((end for end in UNITS if metric.endswith(end)), "")
    scale, unit = UNITS.get(end, (1.0, ""))
    said = NAMES.get(metric, metric.removesuffix(end).replace("_", " "))
    others = {str(row["against"]) for row in rows if row.get("against")}
    less = f" less that of {others.pop()}" if len(others) == 1 else ", difference"
    each = {
        ", ".join(str(row[name]) for name in by if row.get(name)): tuple(
            np.array([_part(stated, name) for name in ("value", "low", "high")], float) / scale
        )
        for row in rows
        if (stated := row.get(of, {}).get(metric))
    }
    return intervals(each, f"{said}{less}" + (f" ({unit})" if unit else ""), ax)


def _part(stated: Any, name: str) -> Any:
    """Return a field of a `Difference` object, or of the JSON form of a `Difference`."""
    return stated.get(name) if isinstance(stated, Mapping) else getattr(stated, name)


def shares(values: Mapping[str, np.ndarray], xlabel: str, ax: Any = None) -> Any:
    """Draw the share of values (0 to 1) up to each value, on a log scale from 1; unknown values are omitted.

    >>> shares({"wait": np.array([5.0, np.nan, 9.0])}, "wait (s)").get_lines()[0].get_ydata().tolist()
    [0.5, 1.0]
    """
    ax = axes(ax)
    for name, each in values.items():
        known = np.sort(each[~np.isnan(each)])
        ax.step(np.maximum(known, 1.0), np.arange(1, len(known) + 1) / max(len(known), 1), where="post", label=name)
    ax.set(xscale="log", xlabel=xlabel, ylabel="share of jobs", ylim=(0, 1))
    return _with_legend(ax, values)


def coverage(coverage_by_level: Mapping[str, Mapping[float, float]], ax: Any = None) -> Any:
    """Draw the observed coverage of each level for every method; the diagonal is exact coverage."""
    ax = axes(ax)
    ax.plot((0, 1), (0, 1), color="0.7", linestyle="--")
    drawn = {
        name: each for name, each in coverage_by_level.items() if each
    }  # methods without quantiles have no levels to draw
    for name, each in drawn.items():
        ax.plot(list(each), list(each.values()), marker="o", label=name, clip_on=False)
    ax.set(xlabel="level", ylabel="share within", xlim=(0, 1), ylim=(0, 1))
    return _with_legend(ax, drawn)


def tradeoff(points: Mapping[str, tuple[float, float]], xlabel: str, ylabel: str, ax: Any = None) -> Any:
    """Draw named points with two coordinates, where smaller is better. A line joins the points for which no other point
    is better in both coordinates.

    Each point has its own color and shape in the legend, because labels beside close points would overlap.
    """
    ax = axes(ax)
    for k, (name, (x, y)) in enumerate(points.items()):
        ax.plot(x, y, marker="osD^vP*X"[k % 8], color=f"C{k % 10}", linestyle="", label=name)
    best = sorted(
        p for p in points.values() if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points.values())
    )
    ax.plot([x for x, _ in best], [y for _, y in best], color="0.6", zorder=0)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    return _with_legend(ax, points)


def intervals(each: Mapping[str, tuple[float, ...]], xlabel: str, ax: Any = None) -> Any:
    """Draw named values with their intervals, one below the other, and a line at zero."""
    ax = axes(ax)
    ax.axvline(0.0, color="0.7", linestyle="--")
    for place, (middle, low, high) in enumerate(each.values()):
        ax.plot((low, high), (place, place), color="C0")
        ax.plot(middle, place, marker="o", color="C0")
    ax.set(xlabel=xlabel, ylim=(len(each) - 0.5, -0.5))
    ax.set_yticks(range(len(each)), list(each))
    return ax


def axes(ax: Any = None) -> Any:
    """Return the Axes to draw on, by default new Axes; UsageError if matplotlib is not installed."""
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise UsageError("pictures need matplotlib", hint=how_to_install("notebook")) from None
    return Figure(layout="constrained").subplots()


def _with_legend(ax: Any, each: Mapping[str, Any]) -> Any:
    """Return the Axes, with a legend if there is something to name."""
    if each:
        ax.legend()
    return ax
