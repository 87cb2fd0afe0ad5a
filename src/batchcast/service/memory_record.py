"""Our own past forecasts and advice of memory against what jobs held, beside what their users had asked for."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from ..predict.protocol import Grounds
from ..store.peaks import asked_a_node
from ..store.reader import Reader, Row
from .answers import covered_at, median
from .hidden import DAY_S, rounded
from .memory import OUT_OF_MEMORY

UNSCORED = frozenset({str(Grounds.NO_HISTORY), str(Grounds.LIMIT)})
"""What was said with nothing to go by but the request itself was no answer to anyone."""


def memory_record(
    reader: Reader, cluster: str, since: float, until: float, partition: str | None, least_users: int, now: float
) -> list[dict[str, Any]]:
    """One flat object a method, of forecasts as of [since, until), epoch seconds; KiB a node.

    `exceeded_rate` is the share of jobs that the advised request would have ended, `asked_over_used` the advised
    memory over what was held, in all; both beside the users' own requests for the same jobs (`users_...`). A job that
    ran out needed more than it got: what was advised is exceeded where it is no more than that. Above one
    `least_users` figures are of days that are over and have so many users, and rounded (see `hidden`).
    """
    chosen = {"cluster": cluster, "since": since, "until": until, "partition": partition}
    days: dict[str, set[float]] = {}
    if least_users > 1:
        days = _days(reader.each("issued_memory", **chosen), least_users, now)
    methods: dict[str, _Judged] = {}
    for row in reader.each("issued_memory", **chosen):
        if least_users <= 1 or row["as_of"] // DAY_S in days.get(row["method"], ()):
            methods.setdefault(row["method"], _Judged()).add(row)
    shown = [one.scores(name) for name, one in sorted(methods.items()) if len(one.users) >= least_users]
    return [rounded(one) for one in shown] if least_users > 1 else shown


def _days(rows: Iterable[Row], least: int, now: float) -> dict[str, set[float]]:
    users: dict[str, dict[float, set[Any]]] = {}
    for row in rows:
        users.setdefault(row["method"], {}).setdefault(row["as_of"] // DAY_S, set()).add(row["user_id"])
    return {
        name: {day for day, names in of.items() if len(names) >= least and day < now // DAY_S}
        for name, of in users.items()
    }


class _Judged:
    """One method's forecasts and advice while they pass by."""

    def __init__(self) -> None:
        self.users: set[Any] = set()
        self.errors = array("d")
        self.counts: Counter[str] = Counter()
        self.sums: defaultdict[str, float] = defaultdict(float)

    def add(self, row: Row) -> None:
        """One more forecast (`memory`) or advice (`request`)."""
        self.users.add(row["user_id"])
        advice = row["kind"] == "request"
        self.counts["requests" if advice else "forecasts"] += 1
        if row["outcome_s"] is None or row["grounds"] in UNSCORED:
            return
        ran_out = row["resolution"] == OUT_OF_MEMORY
        if advice:
            self._judge_request(row, ran_out)
            return
        self.counts["came_out"] += 1
        if not ran_out:
            self.errors.append(abs(row["point_s"] - row["outcome_s"]))
        hit = covered_at(row, 0.9)
        if hit is not None:
            self.counts["judged"] += 1
            self.counts["held"] += hit

    def _judge_request(self, row: Row, ran_out: bool) -> None:
        asked = asked_a_node(row)
        for name, amount in (("", row["point_s"]), ("users_", asked)):
            if amount != amount:
                continue
            self.counts[f"{name}asked"] += 1
            self.counts[f"{name}exceeded"] += amount <= row["outcome_s"] if ran_out else amount < row["outcome_s"]
            self.sums[f"{name}asked_kib"] += amount
            self.sums[f"{name}used_kib"] += row["outcome_s"]

    def scores(self, method: str) -> dict[str, Any]:
        """The method's figures."""
        counts, sums = self.counts, self.sums
        figures: dict[str, Any] = {
            "predictor": method,
            "kind": "memory",
            "forecasts": counts["forecasts"],
            "came_out": counts["came_out"],
            "median_ae_kib": median(self.errors),
            "coverage_90": counts["held"] / (counts["judged"] or math.nan),
            "requests": counts["asked"],
        }
        for name in ("", "users_"):
            figures[f"{name}exceeded_rate"] = counts[f"{name}exceeded"] / (counts[f"{name}asked"] or math.nan)
            figures[f"{name}asked_over_used"] = sums[f"{name}asked_kib"] / (sums[f"{name}used_kib"] or math.nan)
        return figures
