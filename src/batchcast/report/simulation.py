"""The table of `simulate`: what waits and slowdowns came out under each policy planned with each predictor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .blocks import Table, TableColumn

COLUMNS = (
    TableColumn("policy", "policy"),
    TableColumn("predictor", "planned with"),
    TableColumn("mean_wait_s", "mean wait", "seconds"),
    TableColumn("median_wait_s", "median", "seconds"),
    TableColumn("p95_wait_s", "p95", "seconds"),
    TableColumn("max_wait_s", "max", "seconds"),
    TableColumn("mean_bounded_slowdown", "mean bsld", "number"),
    TableColumn("median_bounded_slowdown", "median bsld", "number"),
    TableColumn("utilization", "util.", "share"),
    TableColumn("backfilled_share", "backfilled", "share"),
    TableColumn("corrections", "corrections", "count"),
)


def simulation_table(rows: Sequence[Mapping[str, Any]], jobs: int, total: int) -> Table:
    """Flat rows, one for a policy and a predictor, under what was simulated."""
    return Table(f"{jobs:,} jobs simulated on {total:,} processors; bounded slowdown with tau = 10 s", COLUMNS, rows)
