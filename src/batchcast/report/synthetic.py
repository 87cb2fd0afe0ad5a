"""A real log and a synthetic one like it, as a terminal table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

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


def comparison_table(real: Mapping[str, Any], synthetic: Mapping[str, Any]) -> Any:
    """A rich table: quantities down, the log, the synthetic one and the distance of their distributions across."""
    from rich.table import Table

    table = Table(title=str(real["workload"]).rsplit("/", 1)[-1], title_justify="left")
    for name in ("", "log", "synthetic", "distance"):
        table.add_column(name, justify="left" if not name else "right")
    for key, label, digits in _SINGLE:
        distance = {"apa": "distance_accuracy", "like_last_run": "distance_last_run_ratio"}.get(key, "")
        table.add_row(label, *(f"{row[key]:,.{digits}f}" for row in (real, synthetic)), _shown(synthetic.get(distance)))
    for key, label, unit in _SPREADS:
        values = (" ".join(f"{row[f'{key}_{q}{unit}']:,.0f}" for q in _QUANTILES) for row in (real, synthetic))
        table.add_row(f"{label}: {' '.join(_QUANTILES)}", *values, _shown(synthetic[f"distance_{key}"]))
    return table


def _shown(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.3f}"
