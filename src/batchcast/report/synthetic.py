"""A real log and a synthetic one like it, side by side in a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .blocks import Table, TableColumn

_QUANTILES = ("p25", "p50", "p75", "p95")
_SPREADS = (
    ("procs", "processors", ""),
    ("run_time", "run time, s", "_s"),
    ("interarrival", "between arrivals, s", "_s"),
    ("req_time", "request, s", "_s"),
)
_SINGLE = (
    ("jobs", "jobs", 0),
    ("load", "load", 3),
    ("users", "users", 0),
    ("serial_share", "on one processor", 3),
    ("power_of_two_share", "on a power of two", 3),
    ("mean_run_s", "mean run time, s", 0),
    ("apa", "users' accuracy (apa)", 3),
    ("at_request_share", "ran to 99 % of the request", 3),
    ("request_values", "different requests", 0),
    ("popular_requests_share", "share of the 20 most popular", 3),
    ("like_last_run", "run time / the user's last one", 3),
    ("same_user_next_share", "next job is the same user's", 3),
)


def comparison_table(real: Mapping[str, Any], synthetic: Mapping[str, Any]) -> Table:
    """Quantities down, the log, the synthetic one and the distance of their distributions across."""
    rows = []
    for key, label, digits in _SINGLE:
        distance = {"apa": "distance_accuracy", "like_last_run": "distance_last_run_ratio"}.get(key, "")
        values = [f"{row[key]:,.{digits}f}" for row in (real, synthetic)]
        rows.append(_row(label, values, synthetic.get(distance)))
    for key, label, unit in _SPREADS:
        for quantile in _QUANTILES:
            values = [f"{row[f'{key}_{quantile}{unit}']:,.0f}" for row in (real, synthetic)]
            distance_of = synthetic[f"distance_{key}"] if quantile == _QUANTILES[-1] else None
            rows.append(_row(f"{label}, {quantile}", values, distance_of))
    columns = [
        TableColumn("quantity", "quantity"),
        *(TableColumn(name, name) for name in ("log", "synthetic", "distance")),
    ]
    return Table(str(real["workload"]).rsplit("/", 1)[-1], columns, rows)


def _row(quantity: str, values: Sequence[str], distance: float | None) -> dict[str, str]:
    return {"quantity": quantity, "log": values[0], "synthetic": values[1], "distance": _shown(distance)}


def _shown(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.3f}"
