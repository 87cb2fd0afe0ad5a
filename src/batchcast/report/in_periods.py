"""The table of what was gone through period by period: the figures that sums can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .accuracy import COLUMNS as FORECASTS
from .blocks import Table
from .simulation import COLUMNS as SCHEDULES

NOTE = "Medians, percentiles and intervals need every job at once: each job's answer is in the folder."


def totals_table(rows: Sequence[Mapping[str, Any]], jobs: int, periods: int, source: str) -> Table:
    """Rows of `metrics.totals` as a table with the columns of `runtime` or `simulate` that they have."""
    columns = [column for column in (SCHEDULES if "policy" in rows[0] else FORECASTS) if column.key in rows[0]]
    return Table(f"{jobs:,} jobs in {periods:,} periods, the state carried on · {source}", columns, rows, NOTE)
