"""Which schedule is worth a trial: its interval stands clear of zero, and somebody could have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluation.simulated import ORACLE, YARDSTICK

SAME = 0.02
Row = Mapping[str, Any]


def worth_trying(rows: Sequence[Row], today: Row) -> tuple[list[Row], list[Row]]:
    """Schedules with a mean wait clearly below today's, and all with a smaller one; the shortest wait first."""
    shorter = sorted(
        (row for row in rows if row["predictor"] != ORACLE and row["mean_wait_s"] <= (1 - SAME) * today["mean_wait_s"]),
        key=lambda row: row["mean_wait_s"],
    )
    sure = [
        row
        for row in shorter
        if row.get("mean_wait_s_verdict", "ahead") == "ahead" and (row["predictor"] == YARDSTICK or helps(row))
    ]
    return sure, shorter


def stands(row: Row) -> bool:
    """Whether a schedule's mean wait stands clear of today's (a row made by hand has no interval, and is taken so)."""
    return row.get("mean_wait_s_verdict", "ahead") in ("ahead", "behind")


def helps(row: Row) -> bool:
    """Whether its mean wait is clearly below that of the limits under the same policy."""
    return bool(row.get("mean_wait_s_limits_verdict", row.get("mean_wait_s_verdict", "ahead")) == "ahead")


def harms(row: Row) -> bool:
    """Whether it is clearly above it."""
    return bool(row.get("mean_wait_s_limits_verdict", row.get("mean_wait_s_verdict", "behind")) == "behind")
