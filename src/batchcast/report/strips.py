"""What stands under the Gantt excerpt on its time axis: the processors waited for, and an overview to choose from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..metrics.curves import POINTS, busy_share, steps
from .blocks import Figure

BINS = 160
QUEUE_SLOT, BUSY_SLOT = 4, 0
HOW_TO = (
    "The lower strip is all that is held here: drag across it to choose what is shown above, drag the chosen part or "
    "its ends to move them. By keys: arrows move it, + and − widen and narrow it, Escape (or a double click or tap) "
    "shows all."
)
Times = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def strips(
    schedules: Mapping[str, Times], total: int, low: float, high: float, xaxis: Mapping[str, Any]
) -> tuple[Figure, ...]:
    """The two strips of schedules by name (submit, start, end, processors) between two instants on the log's clock.

    `xaxis` is that of the figure above them, without its title.
    """
    layout = {"xaxis": xaxis, "hovermode": "closest"}
    return _queue(schedules, low, high, layout), _overview(schedules, total, low, high, layout)


def _queue(schedules: Mapping[str, Times], low: float, high: float, layout: Mapping[str, Any]) -> Figure:
    traces = []
    for name, (submit, start, _, procs) in schedules.items():
        at, processors, jobs = waiting(submit, start, procs, low, high)
        values = {"x": short(at - low), "y": short(processors, 1), "customdata": short(jobs, 1)}
        words = "%{y} processors, by %{customdata} jobs"
        traces.append({**_area("waited for", name, QUEUE_SLOT), **values, "hovertemplate": words})
    most = max(traces[0]["y"])
    return Figure(
        "Processors waited for",
        traces,
        {**layout, "yaxis": {"title": {"text": "processors waited for"}, "rangemode": "tozero"}},
        f"Processors waited for over the same time; {most:,.0f} at most under {next(iter(schedules))}.",
        height=160,
    )


def _overview(schedules: Mapping[str, Times], total: int, low: float, high: float, layout: Mapping[str, Any]) -> Figure:
    traces, edges = [], np.linspace(low, high, BINS + 1)
    for name, (_, start, end, procs) in schedules.items():
        busy = busy_share(start, end, procs.astype(float), edges, total)
        values = {"x0": 0, "dx": (high - low) / BINS, "y": short(np.append(busy, busy[-1]))}
        traces.append({**_area("busy", name, BUSY_SLOT), **values, "hovertemplate": "%{y:.0%} of the processors"})
    title = "all of it: share of the processors busy"
    most = max(1.0, *(max(trace["y"]) for trace in traces))
    mean = sum(traces[0]["y"][:-1]) / BINS
    return Figure(
        "Overview",
        traces,
        {**layout, "yaxis": {"title": {"text": title}, "tickformat": ".0%", "range": [0, most]}},
        f"Share of the processors busy over all of that time; {mean:.0%} on average under {next(iter(schedules))}.",
        HOW_TO,
        150,
        overview=True,
    )


def _area(name: str, variant: str, slot: int) -> dict[str, Any]:
    line = {"shape": "hv", "width": 1.5}
    meta = {"slot": slot, "variant": variant}
    return {"type": "scatter", "name": name, "mode": "lines", "fill": "tozeroy", "line": line, "meta": meta}


def waiting(
    submit: np.ndarray, start: np.ndarray, procs: np.ndarray, low: float, high: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Instants, processors and jobs that wait from each on, at `high` too; a job waits from submission up to its start.

    Where they change more than `POINTS` times: means of so many parts of the time, each at its beginning.
    """
    at, sums = steps(submit, start, np.column_stack([procs, np.ones_like(procs)]), low, high)
    if len(at) > POINTS:
        at = np.linspace(low, high, POINTS + 1)
        weights = (procs.astype(float), np.ones(len(procs)))
        sums = np.column_stack([busy_share(submit, start, one, at, 1.0) for one in weights])
        at = at[:-1]
    held = np.vstack([sums, sums[-1:]])
    return np.append(at, high), held[:, 0], held[:, 1]


def short(values: np.ndarray, digits: int = 3) -> list[int | float]:
    """Numbers as JSON writes them in few characters: whole ones without a point.

    >>> short(np.array([1.0, 2.34567]))
    [1, 2.346]
    """
    return [int(v) if v == int(v) else v for v in np.round(values, digits).tolist()]
