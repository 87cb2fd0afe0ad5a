"""Our own past forecasts against what happened, beside Slurm's own of the same moments. Aggregates only."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable
from typing import Any

from ..store.issued import NOTHING
from ..store.reader import Reader, Row
from .answers import covered, median
from .hidden import DAY_S, rounded
from .renewal_ages import SCORED

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

    `submit`: asked at submission, over all that came out. `waited_1h` and the like: renewed once they had waited so
    long, beside what was said at their submission, given that they had. `slurm`: the moments at which Slurm's own first
    estimate of a job appeared, the same jobs for every method. Errors are of the whole wait or run, in seconds;
    coverage is the share that came out at or below what was said for a level. Forecasts with no history to go by were
    no answer to anyone: they are counted, not scored. Above one `least_users` figures name nobody, see `disclosure`.
    """
    chosen = {"cluster": cluster, "since": since, "until": until, "partition": partition}
    days: dict[Key, set[float]] | None = None
    if least_users > 1:
        days = _days(reader.each("issued", **chosen), least_users, now)
    groups: dict[Key, _Scored] = {}
    for row in reader.each("issued", **chosen):
        key = _key(row)
        if days is None or row["as_of"] // DAY_S in days[key]:
            groups.setdefault(key, _Scored()).add(row)
    order = {moment: place for place, moment in enumerate(("submit", *SCORED, "slurm"))}
    shown = sorted(groups.items(), key=lambda item: (order[item[0][0]], item[0][1], item[0][2]))
    if least_users > 1:
        return [rounded(group.scores(*key)) for key, group in shown if group.users() >= least_users]
    return [group.scores(*key) for key, group in shown]


Key = tuple[str, str, str]
"""Moment, kind, method."""


def _key(row: Row) -> Key:
    return row["moment"], row["kind"], row["method"]


def _days(rows: Iterable[Row], least: int, now: float) -> dict[Key, set[float]]:
    """For each group the days that are over and of enough users (see `disclosure`)."""
    users: dict[Key, dict[float, set[Any]]] = {}
    for row in rows:
        users.setdefault(_key(row), {}).setdefault(row["as_of"] // DAY_S, set()).add(row["user_id"])
    return {
        key: {day for day, names in of.items() if len(names) >= least and day < now // DAY_S}
        for key, of in users.items()
    }


class _Scored:
    """What is kept of the forecasts of one group while they pass by: counts, and eight bytes of each that came out."""

    def __init__(self) -> None:
        self.counted: set[Any] = set()
        self.scored: set[Any] = set()
        self.errors = array("d")
        self.counts: Counter[str] = Counter()

    def add(self, row: Row) -> None:
        """One more forecast."""
        self.counted.add(row["user_id"])
        counts = self.counts
        counts["forecasts"] += 1
        counts["no_history"] += row["grounds"] == NOTHING
        counts["withdrawn"] += row["resolution"] == "withdrawn"
        counts["still_open"] += row["resolution"] is None
        counts["issued_after_start"] += row["start_time"] is not None and row["issued_at"] > row["start_time"]
        if row["outcome_s"] is None or row["grounds"] == NOTHING:
            return
        self.scored.add(row["user_id"])
        self.errors.append(row["point_s"] - row["outcome_s"])
        for level, hit in zip(LEVELS, covered(row, LEVELS)) if row["levels"] != "[]" else ():
            if hit is not None:
                counts[f"judged {level:g}"] += 1
                counts[f"held {level:g}"] += hit

    def users(self) -> int:
        """How many users these figures are of: the fewer of those counted and those scored, if any is yet."""
        return min(len(self.counted), len(self.scored) or len(self.counted))

    def scores(self, moment: str, kind: str, method: str) -> dict[str, Any]:
        """The group's figures."""
        errors, counts = self.errors, self.counts
        n = len(errors) or math.nan
        figures: dict[str, Any] = {
            "predictor": method,
            "kind": kind,
            "moment": moment,
            "forecasts": counts["forecasts"],
            "came_out": len(errors),
            **{name: counts[name] for name in ("no_history", "withdrawn", "still_open", "issued_after_start")},
            "median_ae_s": median(map(abs, errors)),
            "mae_s": sum(map(abs, errors)) / n,
            "bias_s": sum(errors) / n,
            "underestimate_rate": sum(e < 0 for e in errors) / n,
        }
        for level in LEVELS:
            figures[f"coverage_{level * 100:g}"] = counts[f"held {level:g}"] / (counts[f"judged {level:g}"] or math.nan)
        return figures
