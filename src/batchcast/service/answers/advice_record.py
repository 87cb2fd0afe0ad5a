# SPDX-License-Identifier: Apache-2.0
"""Compares past suggestions of time limits and memory with what jobs needed and what their users requested."""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

from ...columns import OUT_OF_MEMORY
from ...predict.protocol import Grounds
from ...store.reader import Reader, Row
from ...store.rows import asked_a_node
from .disclosure import DAY_S, complete_days_by, is_of_several, rounded
from .track_record import covered, median

UNSCORED = frozenset({str(Grounds.NO_HISTORY), str(Grounds.LIMIT)})
"""Suggestions with these grounds are based only on the request itself. Users did not see them, so they are not scored.
"""
LEVELS = (0.8, 0.9, 0.95)
WEEK_S = 7 * DAY_S
TIMEOUT = "timeout"


class Quantity(NamedTuple):
    """A quantity whose suggestions are scored (memory or time limit): the query of its rows, and how to read a row.

    `forecast` and `advice` are the kinds of the rows with predictions and with suggestions. `own` returns the user's
    own request, `was_cut` whether the job exceeded that request, `needed` what the job needed, or what it got if that
    was not enough. `error` is the name of the median error in the answer.
    """

    statement: str
    forecast: str
    advice: str
    own: Callable[[Row], float]
    was_cut: Callable[[Row], bool]
    needed: Callable[[Row], float]
    error: str | None


def _limit_of(row: Row) -> float:
    return math.nan if row["req_time"] is None else float(row["req_time"])


def _ran(row: Row) -> float:
    """Return the run time, at most the limit: a batch system needs some seconds to end a job that exceeds its limit."""
    limit, ran = _limit_of(row), float(row["outcome_s"])
    return limit if ran > limit else ran


MEMORY = Quantity(
    "issued_memory", "memory", "request", asked_a_node, lambda row: row["resolution"] == OUT_OF_MEMORY,
    lambda row: float(row["outcome_s"]), "median_ae_kib",
)  # fmt: skip
LIMIT = Quantity("issued_limits", "limit", "limit", _limit_of, lambda row: row["status"] == TIMEOUT, _ran, None)


def advice_record(
    reader: Reader,
    cluster: str,
    of: Quantity,
    since: float,
    until: float,
    partition: str | None,
    least_users: int,
    now: float,
) -> list[dict[str, Any]]:
    """Return one flat object per method for predictions made in [since, until), epoch seconds.

    `exceeded_rate`: share of jobs that would have exceeded the suggestion. `asked_over_used`: sum of suggestions over
    sum of needs. The keys `users_...` give the same figures for the users' own requests. A job that exceeded its own
    request needed more than it got, so it also exceeds a suggestion that is not larger than its request; for a larger
    suggestion the outcome is unknown (`undecided_rate`). `coverage_...`: share of needs at or below the predicted
    quantile. `weeks`: these rates and coverages by week. With `least_users` above 1, figures cover complete days with
    enough users and are rounded (see `disclosure`).
    """
    chosen = {"cluster": cluster, "since": since, "until": until, "partition": partition}
    days: set[tuple[str, float]] = set()
    if least_users > 1:
        rows = reader.each(of.statement, **chosen)
        days = complete_days_by(rows, itemgetter("method"), "as_of", least_users, now)
    methods: dict[str, tuple[_Scores, dict[float, _Scores]]] = {}
    for row in reader.each(of.statement, **chosen):
        if least_users <= 1 or (row["method"], row["as_of"] // DAY_S) in days:
            whole, weeks = methods.setdefault(row["method"], (_Scores(of), {}))
            whole.add(row)
            weeks.setdefault(row["as_of"] // WEEK_S, _Scores(of)).add(row)
    return [
        {**rounded(whole.scores(name), least_users), "weeks": _over_time(weeks, least_users)}
        for name, (whole, weeks) in sorted(methods.items())
        if is_of_several(whole.users, least_users)
    ]


def _over_time(weeks: dict[float, _Scores], least: int) -> list[dict[str, Any]]:
    """Return the figures of each week with suggestions."""
    return [
        {"week_s": week * WEEK_S, **rounded({"requests": judged.counts["asked"], **judged.rates()}, least)}
        for week, judged in sorted(weeks.items())
        if is_of_several(judged.users, least) and judged.counts["asked"]
    ]


class _Scores:
    """Running totals over one method's predictions and suggestions."""

    def __init__(self, of: Quantity) -> None:
        self.of = of
        self.users: Counter[Any] = Counter()
        self.errors = array("d")
        self.counts: Counter[str] = Counter()
        self.sums: defaultdict[str, float] = defaultdict(float)

    def add(self, row: Row) -> None:
        """Add one row: a prediction, a suggestion, or both."""
        self.users[row["user_id"]] += 1
        known = row["outcome_s"] is not None and row["grounds"] not in UNSCORED
        if row["kind"] == self.of.forecast:
            self.counts["forecasts"] += 1
            if known:
                self._judge_bounds(row)
        if row["kind"] == self.of.advice and known:
            self._judge_request(row)

    def _judge_bounds(self, row: Row) -> None:
        needed = self.of.needed(row)
        self.counts["came_out"] += 1
        if self.of.error and not self.of.was_cut(row):
            self.errors.append(abs(row["point_s"] - needed))
        if row["levels"] == "[]":
            return
        for level, hit in zip(LEVELS, covered({**row, "outcome_s": needed}, LEVELS)):
            if hit is not None:
                self.counts[f"judged {level:g}"] += 1
                self.counts[f"held {level:g}"] += hit

    def _judge_request(self, row: Row) -> None:
        needed, own, cut = self.of.needed(row), self.of.own(row), self.of.was_cut(row)
        for name, amount in (("", row["point_s"]), ("users_", own)):
            if amount != amount or amount == math.inf:
                continue
            exceeded = amount <= needed if cut else amount < needed
            self.counts[f"{name}asked"] += 1
            self.counts[f"{name}exceeded"] += exceeded
            self.counts[f"{name}undecided"] += cut and not exceeded
            self.sums[f"{name}asked"] += amount
            self.sums[f"{name}needed"] += needed

    def rates(self) -> dict[str, float]:
        """Return how often jobs exceeded suggestions and the users' own requests, and the coverage of the bounds."""
        counts, sums, rates = self.counts, self.sums, {}
        for name in ("", "users_"):
            rates[f"{name}exceeded_rate"] = counts[f"{name}exceeded"] / (counts[f"{name}asked"] or math.nan)
            rates[f"{name}asked_over_used"] = sums[f"{name}asked"] / (sums[f"{name}needed"] or math.nan)
        rates["undecided_rate"] = counts["undecided"] / (counts["asked"] or math.nan)
        for level in LEVELS:
            judged = counts[f"judged {level:g}"] or math.nan
            rates[f"coverage_{100 * level:g}"] = counts[f"held {level:g}"] / judged
        return rates

    def scores(self, method: str) -> dict[str, Any]:
        """Return the counts, errors and rates of one method as one flat object."""
        counts = self.counts
        figures: dict[str, Any] = {
            "predictor": method,
            "kind": self.of.forecast,
            "forecasts": counts["forecasts"],
            "came_out": counts["came_out"],
            "requests": counts["asked"],
        }
        if self.of.error:
            figures[self.of.error] = median(self.errors)
        return figures | self.rates()
