# SPDX-License-Identifier: Apache-2.0
"""Measures coverage and error of past wait predictions, and chooses the method that answers users."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ...formats.slurm.reasons import Rule, rule
from ...metrics.coverage import is_covered
from ...predict.conditional import given_waited
from ...predict.protocol import SHORTEST
from ...store.reader import Reader, Row
from ...store.rows import NOTHING, as_prediction
from .disclosure import Site, is_of_several, of_complete_days, rounded, whole_days

JOB_ID = re.compile(r"[0-9]{1,19}(?:[_+][0-9]{1,19})?")
"""Accepted forms of a job id: a job, an array task, or a part of a heterogeneous job."""
SHORT_S = 600.0
"""Shorter predicted waits are judged separately: on most machines they are the majority and hide errors of long waits.
"""
TRACK_RECORD_S = 30 * 86400.0
LEAST_RECORD = 20
MOST_RECORDS, ALL = 2000, 2**62
BLOCKS = 10
"""Number of periods for the standard error: jobs of the same period are late together, for example after a drained
node.
"""
LIKE_THIS = 200
"""The share of jobs that started between their 10 % and 90 % times is computed from this many of the latest
predictions.
"""
RecordKey = tuple[str | None, int]
"""A partition (None: all), and the least number of users that its figures must cover (1: any)."""
TrackRecord = Mapping[str, Any]
Records = Mapping[RecordKey, TrackRecord]


def answering_method(memory: dict[str, Any]) -> str:
    """Return the name of the wait predictor that answers users.

    The first wait predictor in the collector's settings answers while the coverage of its 90 % bound is close enough to
    90 %. If the coverage is not close enough, the predictor that the collector has chosen by `best_bound` answers.
    """
    methods = memory.get("wait_methods") or ["recent_wait"]
    chosen = memory.get("answers_by")
    return str(chosen if chosen in methods else methods[0])


def best_bound(records: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Choose the method with the best 90 % bound so far; the first method is preferred.

    A bound is valid if its coverage is at least 90 % minus two standard errors (`error_of_share`). The first method is
    chosen while its bound is valid. If the first method's bound is not valid, the method with the smallest mean pinball
    loss at 90 % among valid bounds is chosen. If no bound is valid, the method with the highest coverage is chosen.
    Methods with fewer than 20 judged predictions are not considered; if the first method has fewer, the result is None.

    >>> of = {"judged": 100, "loss_90_s": 9.0, "error_90": 0.03}
    >>> best_bound({"a": {**of, "coverage_90": 0.13}, "b": {**of, "coverage_90": 0.95}})
    'b'
    >>> best_bound({"a": {**of, "coverage_90": 0.88}, "b": {**of, "coverage_90": 0.95}})
    'a'
    """
    judged = {name: record for name, record in records.items() if record.get("judged", 0) >= LEAST_RECORD}
    first = next(iter(records), None)
    if first not in judged:
        return None
    holding = [name for name, r in judged.items() if r["coverage_90"] >= 0.9 - 2.0 * r["error_90"]]
    if first in holding or not holding:
        return first if holding else max(judged, key=lambda name: judged[name]["coverage_90"])
    return min(holding, key=lambda name: judged[name]["loss_90_s"])


def error_of_share(hits: Sequence[int]) -> float:
    """Return the standard error of the coverage of a 90 % bound.

    `hits` has 1 for each prediction whose upper bound covered the wait, else 0, in order of time. The standard error is
    computed from sums over ten periods with equal numbers of predictions, assuming that the coverage is 90 %,
    and is at least the binomial standard error. So one bad period counts as one piece of evidence, however many jobs
    waited in it.

    >>> [round(error_of_share(hits), 2) for hits in ([1] * 90 + [0] * 10, [1] * 80 + [0] * 20, [1, 0] * 50)]
    [0.09, 0.13, 0.13]
    """
    n = len(hits)
    periods = [hits[n * k // BLOCKS : n * (k + 1) // BLOCKS] for k in range(BLOCKS)]
    over_spells = sum((sum(period) - 0.9 * len(period)) ** 2 for period in periods)
    return math.sqrt(max(over_spells, 0.9 * (1 - 0.9) * n)) / n if n else math.nan


def track_record(
    reader: Reader,
    cluster: str,
    partition: str | None,
    method: str,
    since: float,
    least: int = 1,
    now: float = math.inf,
) -> dict[str, Any]:
    """Return the 90 % coverage, median absolute error and counts of a partition's wait predictions since an instant.

    A job that still waits at `now`, beyond its 90 % time, counts as a miss before it starts (`overdue`). So the
    coverage falls as soon as a queue grows. `judged` counts predictions with a bound whose jobs started or are overdue.
    `came_true` is the share of jobs that started between their 10 % and 90 % times, over the latest `like_this`
    predictions (at most 200). `long` has all these figures for predicted waits of 10 min or more, if there are at least
    20 such predictions. The result is empty without predictions. With `least` above 1, only days with enough
    users and started jobs count, at least 20 jobs are required, and figures are rounded (see `disclosure`).
    """
    hidden = least > 1
    since = whole_days(since, math.inf)[0] if hidden else since
    chosen = {"cluster": cluster, "partition": partition, "method": method, "since": since, "nothing": NOTHING}
    started = partial(reader.each, "started_forecasts", **chosen, most=ALL if hidden else MOST_RECORDS)
    most = ALL if hidden else LIKE_THIS  # with figures over a part of a day, subtraction would reveal the other part
    whole, long = _Tally(most), _Tally(most)
    for row in of_complete_days(started, "known_at", least, now):
        for tally in (whole, long) if row["point_s"] >= SHORT_S else (whole,):
            tally.add(row)
    late = [] if hidden or now == math.inf else overdue(reader, cluster, partition, method, since, now)
    if (hidden and not whole.is_of(least)) or not (whole.errors or late):
        return {}
    late_long = [row for row in late if row["point_s"] >= SHORT_S]
    is_known = len(long.losses) + len(late_long) >= LEAST_RECORD and (not hidden or long.is_of(least))
    return rounded({**whole.figures(late), "long": long.figures(late_long) if is_known else {}}, least)


def overdue(reader: Reader, cluster: str, partition: str | None, method: str, since: float, now: float) -> list[Row]:
    """Return predictions of jobs that still wait beyond their 90 % time. These predictions are misses, whenever the
    jobs start. `outcome_s` of a row is how long its job has waited until `now`.
    """
    chosen = {"cluster": cluster, "partition": partition, "method": method, "since": since, "nothing": NOTHING}
    late = reader.ask("late_forecasts", **chosen, until=now, most=MOST_RECORDS)
    return [row for row in late if rule(row["reason"] or "") is Rule.MACHINE and covered(row, (0.9,)) == [False]]


class _Tally:
    """Running totals over predictions with known outcomes, added from the latest to the oldest."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.users: Counter[Any] = Counter()
        self.errors, self.losses, self.came_true = array("d"), array("d"), array("b")
        self.hits: list[tuple[float, bool]] = []

    def add(self, row: Row) -> None:
        """Add one prediction."""
        self.users[row["user_id"]] += 1
        self.errors.append(abs(row["point_s"] - row["outcome_s"]))
        (hit,) = covered(row, (0.9,))
        if hit is None:
            return
        if len(self.came_true) < self.most:
            early = max(row["outcome_s"], SHORTEST) < given_waited(as_prediction(row), 0.0, (0.1,)).point
            self.came_true.append(hit and not early)
        self.losses.append(_pinball(row))
        self.hits.append((row["as_of"], hit))

    def is_of(self, least: int) -> bool:
        """Return whether the totals cover enough predictions, from enough users."""
        return len(self.errors) >= LEAST_RECORD and is_of_several(self.users, least)

    def figures(self, late: Sequence[Row]) -> dict[str, Any]:
        """Return the figures of the track record, including predictions of overdue jobs."""
        losses = array("d", [*self.losses, *map(_pinball, late)])
        # predictions of jobs that still wait count as the latest
        came_true = array("b", [*(False for _ in late), *self.came_true][: self.most])
        hits = [hit for _, hit in sorted([*self.hits, *((row["as_of"], False) for row in late)])]
        return {
            "forecasts": len(self.errors),
            "judged": len(losses),
            "overdue": len(late),
            "coverage_90": sum(hits) / len(hits) if hits else math.nan,
            "error_90": error_of_share(hits),
            "loss_90_s": sum(losses) / len(losses) if losses else math.nan,
            "median_ae_s": median(self.errors),
            "like_this": len(came_true),
            "came_true": sum(came_true) / len(came_true) if came_true else math.nan,
        }


def record_of(site: Site, partition: str | None, records: Records | None = None) -> TrackRecord:
    """Return the 30-day track record of the method that answers users on this site, from `records` if given."""
    if records is not None:
        return records.get((partition, site.least), {})
    since, method = site.now - TRACK_RECORD_S, answering_method(site.memory)
    return track_record(site.reader, site.cluster, partition, method, since, site.least, site.now)


def best_of(url: str, cluster: str, methods: Sequence[str], now: float) -> str | None:
    """Return the method that `best_bound` chooses from the last 30 days of a store."""
    since = now - TRACK_RECORD_S
    with Reader(url) as reader:
        return best_bound({one: track_record(reader, cluster, None, one, since, now=now) for one in methods})


def _pinball(row: Mapping[str, Any]) -> float:
    """Return the pinball loss of the 90 % bound: a second too low costs nine times a second too high (Koenker 1978)."""
    over = row["outcome_s"] - given_waited(as_prediction(row), 0.0, (0.9,)).point
    return float(max(0.9 * over, -0.1 * over))


def record_fields(record: Mapping[str, Any], wait_s: float = 0.0) -> dict[str, Any]:
    """Return a track record as fields of an answer. If the predicted wait is long, use the record of long waits if
    known.
    """
    long, counts = record.get("long") if wait_s >= SHORT_S else None, ("forecasts", "overdue", "like_this")
    names = ("forecasts", "overdue", "coverage_90", "median_ae_s", "like_this", "came_true")
    fields = {f"track_record_{name}": (long or record).get(name, 0 if name in counts else None) for name in names}
    return {**fields, "track_record_of": "10 min or more" if long else "all"}


def covered(row: Mapping[str, Any], levels: Sequence[float]) -> list[bool | None]:
    """Return for each level whether the outcome was at or below the predicted quantile; None if this quantile was not
    predicted.
    """
    if row["levels"] == "[]":
        return [None] * len(levels)
    bounds = given_waited(as_prediction(row), 0.0, levels).quantiles
    return [bool(is_covered(row["outcome_s"], bound)) if math.isfinite(bound) else None for bound in bounds]


class Coverage:
    """For each level, the number of predictions with a quantile at this level (`judged`), and the number of these
    predictions whose outcome was at or below the quantile (`hits`).
    """

    def __init__(self, levels: Sequence[float], rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self.levels = levels
        self.judged, self.hits = Counter[float](), Counter[float]()
        for row in rows:
            self.add(row)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add one prediction with a known outcome."""
        for level, hit in zip(self.levels, covered(row, self.levels)):
            if hit is not None:
                self.judged[level] += 1
                self.hits[level] += hit

    def shares(self) -> dict[str, float]:
        """Return the coverage at each level as fields of an answer."""
        judged = self.judged
        return {f"coverage_{100 * level:g}": self.hits[level] / (judged[level] or math.nan) for level in self.levels}


def median(values: Iterable[float]) -> float:
    """Return the median; NaN if there are no values.

    >>> median([3.0, 1.0, 2.0, 10.0])
    2.5
    """
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2 if ordered else math.nan
