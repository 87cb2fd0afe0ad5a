"""Our own past forecasts against what happened, beside Slurm's own of the same moments. Aggregates only."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from ..store.reader import Reader, Row
from .answers import NO_HISTORY, covered_at, median

LEVELS = (0.5, 0.9)


def accuracy(
    reader: Reader, cluster: str, since: float, until: float, partition: str | None = None, least_users: int = 1
) -> list[dict[str, Any]]:
    """One flat object per forecast kind, moment and method, for forecasts as of [since, until), epoch seconds.

    `submit`: asked at submission, over all that came out. `slurm`: the moments at which Slurm's own first estimate of
    a job appeared, the same jobs for every method. Errors are of the whole wait or run, in seconds; coverage is the
    share that came out at or below what was said for a level. Forecasts with no history to go by were no
    answer to anyone: they are counted, not scored. Groups of fewer than `least_users` users are left out.
    """
    rows = reader.rows(
        "SELECT f.kind, f.moment, f.method, f.row, f.point_s, f.levels, f.quantiles_s, f.outcome_s, "
        "f.resolution, f.issued_at,"
        " f.as_of, f.basis, j.user_id, j.start_time FROM forecast_outcomes f JOIN jobs j ON j.row = f.row WHERE "
        "j.cluster = :cluster"
        " AND f.as_of >= :since AND f.as_of < :until AND (CAST(:partition AS TEXT) IS NULL OR j.partition_id = "
        ":partition)",
        cluster=cluster,
        since=since,
        until=until,
        partition=partition,
    )
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["moment"], row["kind"], row["method"]), []).append(row)
    order = {"submit": 0, "slurm": 1}
    shown = sorted(groups.items(), key=lambda item: (order[item[0][0]], item[0][1], item[0][2]))
    return [_scores(*key, found) for key, found in shown if _users(found) >= least_users]


def _users(rows: Sequence[Row]) -> int:
    """How many users a group's figures are of: the fewer of those counted and those scored, if any is yet."""
    counted, scored = ({row["user_id"] for row in found} for found in (rows, _came(rows)))
    return min(len(counted), len(scored) or len(counted))


def _came(rows: Sequence[Row]) -> list[Row]:
    """The forecasts that are scored."""
    return [row for row in rows if row["outcome_s"] is not None and not row["basis"].startswith(NO_HISTORY)]


def _scores(moment: str, kind: str, method: str, rows: Sequence[Row]) -> dict[str, Any]:
    came = _came(rows)
    errors = [row["point_s"] - row["outcome_s"] for row in came]
    scores: dict[str, Any] = {
        "predictor": method,
        "kind": kind,
        "moment": moment,
        "forecasts": len(rows),
        "came_out": len(came),
        "no_history": sum(row["basis"].startswith(NO_HISTORY) for row in rows),
        "withdrawn": sum(row["resolution"] == "withdrawn" for row in rows),
        "still_open": sum(row["resolution"] is None for row in rows),
        "issued_after_start": sum(
            row["start_time"] is not None and row["issued_at"] > row["start_time"] for row in rows
        ),
        "median_ae_s": median(map(abs, errors)),
        "mae_s": sum(map(abs, errors)) / len(errors) if errors else math.nan,
        "bias_s": sum(errors) / len(errors) if errors else math.nan,
        "underestimate_rate": sum(e < 0 for e in errors) / len(errors) if errors else math.nan,
    }
    for level in LEVELS:
        hits = [hit for row in came if json.loads(row["levels"]) and (hit := covered_at(row, level)) is not None]
        scores[f"coverage_{level * 100:.0f}"] = sum(hits) / len(hits) if hits else math.nan
    return scores
