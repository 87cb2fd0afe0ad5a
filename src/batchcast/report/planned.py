"""The choice between errors and underestimates: every quantile to plan with, as a table and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluation.planned import Planned
from . import figures
from .axes import span
from .blocks import Block, Figure, Table, TableColumn

DEFAULT = "kernel"
COLUMNS = (
    TableColumn("level", "planned with", "text", "the quantile of the forecast that the schedule would take"),
    TableColumn("mae_s", "mean error", "seconds", "mean absolute error, |predicted - actual|"),
    TableColumn("underestimate_rate", "underestimates", "share", "jobs that ran longer than planned"),
)


def shown_method(planned: Mapping[str, Sequence[Planned]]) -> str:
    """The method whose quantiles are shown: `kernel`, else the first that has some; empty where none has."""
    return DEFAULT if planned.get(DEFAULT) else next((name for name, found in planned.items() if found), "")


def planned_table(planned: Mapping[str, Sequence[Planned]]) -> list[Block]:
    """What planning with each quantile would come to; nothing where no method gives any."""
    name = shown_method(planned)
    if not name:
        return []
    rows = [{**found._asdict(), "level": f"{100 * found.level:g} %"} for found in planned[name]]
    title = f"Fewer underestimates: what planning with a quantile of {name} comes to (--plan-level)"
    return [Table(title, COLUMNS, rows)]


def planned_figure(
    planned: Mapping[str, Sequence[Planned]], rows: Sequence[Mapping[str, Any]], slots: Mapping[str, int]
) -> list[Figure]:
    """The curve of that method's quantiles, the forecasts of all methods as points beside it, its own among them."""
    name = shown_method(planned)
    if not name:
        return []
    curve = planned[name]
    series: dict[str, tuple[list[float], list[float]]] = {
        f"{name}, its quantiles": ([p.underestimate_rate for p in curve], [p.mae_s for p in curve])
    }
    highest, beyond = 2.0 * max(p.mae_s for p in curve), []
    for row in rows:
        if row["mae_s"] > highest:
            beyond.append(f"{row['predictor']} ({span(row['mae_s'])}, {100 * row['underestimate_rate']:.0f} %)")
        elif row["mae_s"] == row["mae_s"]:
            series[row["predictor"]] = ([row["underestimate_rate"]], [row["mae_s"]])
    levels = ", ".join(f"{100 * p.level:g}" for p in curve)
    left_out = f" Beyond the picture: {', '.join(beyond)}." if beyond else ""
    figure = figures.lines(
        "Mean error against underestimates",
        series,
        x="share of underestimates",
        y="mean absolute error",
        seconds=True,
        markers=True,
        slots={**slots, f"{name}, its quantiles": slots.get(name, 1)},
        caption="The share of jobs that run longer than planned is a choice: from right to left, plans with the "
        f"quantiles at {levels} %; the forecast itself stands beside the line's point at 50. "
        f"A point below the curve would be a smaller error at the same share of underestimates.{left_out}",
        alt="; ".join(
            f"planned with {100 * p.level:g} %: mean error {span(p.mae_s)}, {100 * p.underestimate_rate:.0f} % "
            "underestimates"
            for p in curve
        )
        + ".",
    )
    layout = {**figure.layout, "hovermode": "closest"}
    layout["xaxis"] = {**layout["xaxis"], "tickformat": ".0%", "rangemode": "tozero"}
    return [Figure(figure.title, figure.data, layout, figure.alt, figure.caption)]
