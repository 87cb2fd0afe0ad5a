"""Our own past forecasts against what happened, beside Slurm's own of the same moments. Aggregates only."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..store.issued import NOTHING
from ..store.reader import Reader, Row
from .answers import covered_at, median
from .hidden import days_of_several, rounded

LEVELS = (0.5, 0.9)


def accuracy(
    reader: Reader,
    cluster: str,
    since: float,
    until: float,
    partition: str | None = None,
    least_users: int = 1,
    now: float = math.inf,
) -> list[dict[str, Any]]:
    """One flat object per forecast kind, moment and method, for forecasts as of [since, until), epoch seconds.

    `submit`: asked at submission, over all that came out. `slurm`: the moments at which Slurm's own first estimate of
    a job appeared, the same jobs for every method. Errors are of the whole wait or run, in seconds; coverage is the
    share that came out at or below what was said for a level. Forecasts with no history to go by were no
    answer to anyone: they are counted, not scored. Above one `least_users` figures give nobody away, see `hidden`.
    """
    rows = reader.ask("issued", cluster=cluster, since=since, until=until, partition=partition)
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["moment"], row["kind"], row["method"]), []).append(row)
    order = {"submit": 0, "slurm": 1}
    shown = sorted(groups.items(), key=lambda item: (order[item[0][0]], item[0][1], item[0][2]))
    if least_users > 1:
        several = ((key, days_of_several(group, "as_of", least_users, now)) for key, group in shown)
        return [rounded(_scores(*key, group)) for key, group in several if _users(group) >= least_users]
    return [_scores(*key, group) for key, group in shown]


def _users(rows: Sequence[Mapping[str, Any]]) -> int:
    """How many users a group's figures are of: the fewer of those counted and those scored, if any is yet."""
    counted, scored = ({row["user_id"] for row in group} for group in (rows, _came(rows)))
    return min(len(counted), len(scored) or len(counted))


def _came(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The forecasts that are scored."""
    return [row for row in rows if row["outcome_s"] is not None and row["grounds"] != NOTHING]


def _scores(moment: str, kind: str, method: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    came = _came(rows)
    errors = [row["point_s"] - row["outcome_s"] for row in came]
    scores: dict[str, Any] = {
        "predictor": method,
        "kind": kind,
        "moment": moment,
        "forecasts": len(rows),
        "came_out": len(came),
        "no_history": sum(row["grounds"] == NOTHING for row in rows),
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
        scores[f"coverage_{level * 100:g}"] = sum(hits) / len(hits) if hits else math.nan
    return scores
