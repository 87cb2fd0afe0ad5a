# SPDX-License-Identifier: Apache-2.0
"""Compares past predictions, and Slurm's own estimates, with the outcomes: errors, coverage, and a verdict.

The module also compares past suggestions of time limits and memory with what jobs needed and what their users
requested. All figures are aggregates over several jobs.
"""

from __future__ import annotations

import math
import re
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import nlargest
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from ...columns import OUT_OF_MEMORY
from ...errors import NoAnswer
from ...predict.protocol import Grounds
from ...store.reader import Row
from ...store.rows import NOTHING, asked_a_node
from ...units import span
from ..settings import Settings
from . import track_record
from .answer import staleness
from .disclosure import DAY_S, Site, Viewer, groups, is_of_several, may_show, of_complete_days, open_site, rounded
from .track_record import SHORT_S, Coverage, median

SCORED = {"waited_10min": 600.0, "waited_1h": 3600.0, "waited_4h": 4 * 3600.0, "waited_1d": 86400.0}
"""Once a job has waited this many seconds, its renewed prediction is stored under this name."""
BEFORE = ", as at submission"
"""Suffix of a method's name for its prediction at submission, given the time waited."""

LEVELS = (0.5, 0.9)
COUNTS = ("no_history", "withdrawn", "still_open", "overdue", "issued_after_start")
FALLBACK = "fallback"
"""`grounds` of a prediction that another method gave in place of the chosen method (`predict.protocol.Grounds`)."""


def fallback_reason(basis: str) -> str:
    """Return why another method predicted in place of the chosen method, from the prediction's basis, without figures
    that change with time.

    >>> fallback_reason("kernel is not trained yet (12 finished jobs with features): mean of 3 jobs")
    'kernel is not trained yet'
    """
    return re.sub(r" \(\d[^)]*\)", "", basis.partition(": ")[0])


def accuracy(site: Site, since: float, until: float, partition: str | None = None) -> list[dict[str, Any]]:
    """Return one flat object per kind (wait, run time ...), moment of prediction and method, for predictions made in
    [since, until), epoch seconds.

    Moments: `submit`: predictions at submission, of all jobs with a known outcome. `asked`: predictions by
    `start --test`, if a job with this request was submitted within 15 minutes. `waited_1h` and similar moments:
    predictions that were renewed after a job had waited that long, and the predictions at submission, conditioned on
    the same wait. `slurm`: Slurm's own first estimate of a job's start, and the prediction of every method for the same
    job at the same time. An error is the difference of the whole wait or run time, in seconds. Coverage is the share of
    outcomes at or below the predicted quantile. Predictions that no finished job supported were not shown to users, so
    they are counted but not scored. A job that still waits beyond its 90 % time (`overdue`) counts as not covered; it
    has no error yet. `fell_back_share` is the share of predictions that another method made in place of this method,
    and `fell_back_why` the most frequent reason. If jobs are hidden, the privacy rules of `disclosure` apply, and
    predictions whose outcome is not known yet are left out: their number tells how many jobs wait or run now.
    """
    chosen = {"cluster": site.cluster, "since": since, "until": until, "partition": partition}
    least, reader = site.least, site.reader
    scored: defaultdict[tuple[str, str, str], _Scored] = defaultdict(_Scored)
    for row in of_complete_days(partial(reader.each, "issued", **chosen), "known_at", least, site.now, _KEY):
        scored[_KEY(row)].add(row)
    for (moment, kind, method), group in scored.items() if least <= 1 else ():
        if (moment, kind) == ("submit", "wait"):
            late = track_record.overdue(reader, site.cluster, partition, method, since, site.now)
            group.add_overdue(sum(row["as_of"] < until for row in late))
    order = {moment: place for place, moment in enumerate(("submit", "asked", *SCORED, "slurm"))}
    shown = sorted(scored.items(), key=lambda item: (order[item[0][0]], item[0][1], item[0][2]))
    return [rounded(group.scores(*key), least) for key, group in shown if group.may_show(least)]


_KEY = itemgetter("moment", "kind", "method")
"""Predictions of equal moment, kind and method are scored together."""


class _Scored:
    """Running totals over the predictions of one group: counts, and eight bytes for each known outcome."""

    def __init__(self) -> None:
        self.counted, self.scored = Counter[Any](), Counter[Any]()
        self.errors, self.coverage = array("d"), Coverage(LEVELS)
        self.counts, self.reasons = Counter[str](), Counter[str]()

    def add(self, row: Row) -> None:
        """Add one prediction."""
        self.counted[row["user_id"]] += 1
        counts = self.counts
        counts["forecasts"] += 1
        counts["no_history"] += row["grounds"] == NOTHING
        if row["grounds"] == FALLBACK:
            counts["fell_back"] += 1
            self.reasons[fallback_reason(row["basis"])] += 1
        counts["withdrawn"] += row["resolution"] == "withdrawn"
        counts["still_open"] += row["resolution"] is None
        counts["issued_after_start"] += row["start_time"] is not None and row["issued_at"] > row["start_time"]
        if row["outcome_s"] is None or row["grounds"] == NOTHING:
            return
        self.scored[row["user_id"]] += 1
        self.errors.append(row["point_s"] - row["outcome_s"])
        self.coverage.add(row)

    def add_overdue(self, jobs: int) -> None:
        """Count predictions of jobs that wait longer than their 90 % time as not covered at every level."""
        self.counts["overdue"] += jobs
        self.coverage.judged.update(dict.fromkeys(LEVELS, jobs))

    def may_show(self, least: int) -> bool:
        """Return whether the counts, and the scored predictions if there are any, cover enough users."""
        return is_of_several(self.counted, least) and is_of_several(self.scored or self.counted, least)

    def scores(self, moment: str, kind: str, method: str) -> dict[str, Any]:
        """Return the counts, errors and coverage of this group as one flat object."""
        errors, counts = self.errors, self.counts
        n = len(errors) or math.nan
        return {
            "predictor": method,
            "kind": kind,
            "moment": moment,
            "forecasts": counts["forecasts"],
            "came_out": len(errors),
            **{name: counts[name] for name in COUNTS},
            "fell_back_share": counts["fell_back"] / counts["forecasts"],
            "fell_back_why": self.reasons.most_common(1)[0][0] if self.reasons else "",
            "median_ae_s": median(map(abs, errors)),
            "mae_s": sum(map(abs, errors)) / n,
            "bias_s": sum(errors) / n,
            "underestimate_rate": sum(e < 0 for e in errors) / n,
            **self.coverage.shares(),
        }


WITHIN_DAYS = track_record.TRACK_RECORD_S / DAY_S
MOST = 20_000
GRID = tuple(k / 10 for k in range(1, 10))
LEAST = 20
HORIZONS = ((0.0, SHORT_S), (SHORT_S, 3600.0), (3600.0, 4 * 3600.0), (4 * 3600.0, 86400.0), (86400.0, math.inf))


def calibration(settings: Settings, viewer: Viewer, now: float) -> dict[str, Any]:
    """Return the track record of the method that answers users. If jobs are private, every figure covers several users.

    `headline`, `weeks`, `partitions` and `reliability` cover jobs with a predicted wait of 10 min or more (`of` is
    "long"). If there are too few of these jobs, the four fields cover all jobs (`of` is "all"), and the page says so.
    `short` covers the jobs with shorter predicted waits.
    """
    with open_site(settings, viewer, now) as site:
        return calibration_of(site)


def calibration_of(site: Site) -> dict[str, Any]:
    """Return what `calibration` returns, from a store that is already open."""
    least, now, since = site.least, site.now, site.last_days(WITHIN_DAYS)
    method = track_record.answering_method(site.memory)
    rows = _judged(site, method, since)
    if sum("overdue" not in row for row in rows) < LEAST or not may_show(rows, least):
        raise NoAnswer("fewer than 20 predictions have a known outcome", hint="let the collector run a while")
    parts = groups(rows, _is_long, LEAST, least)
    of, waited = ("long", parts[True]) if True in parts else ("all", rows)
    grid = Coverage(GRID, waited)  # the reliability curve: shares of jobs that had started by the predicted quantiles
    short = _figures(parts[False], least) if of == "long" and False in parts else None
    beside = [r for r in accuracy(site, since, math.inf) if r["kind"] == "wait"]
    return {
        "method": method, "cluster": site.cluster, "now": now, "least": least,
        "of": of, "headline": _figures(waited, least), "short": short,
        "forecasts": rounded({"n": len(rows)}, least)["n"],
        "weeks": _over_time(waited, least), "partitions": _by_partition(site, method, since, long_only=of == "long"),
        "horizons": _by_horizon(rows, least),
        "reliability": [(k, round(grid.hits[k] / n, 2)) for k in GRID if (n := grid.judged[k]) >= LEAST],
        "at_submission": [r for r in beside if r["moment"] == "submit"],
        "beside_slurm": [r for r in beside if r["moment"] == "slurm" and r["came_out"]],
        "renewed": [_renewed(r) for r in beside if r["moment"] in SCORED and r["came_out"]],
        "stale": staleness(site.memory, now),
    }  # fmt: skip


def _is_long(row: Mapping[str, Any]) -> bool:
    """Return whether a job's predicted wait is so long that its user has to plan for it."""
    return bool(row["point_s"] >= SHORT_S)


def _judged(site: Site, method: str, since: float, partition: str | None = None) -> list[Row]:
    """Return a method's latest wait predictions with known outcome, in order of time, for one partition or all.

    Predictions of jobs that still wait beyond their 90 % time are misses (`overdue`). If jobs are private, the list
    does not contain these predictions.
    """
    of = {"partition": partition, "method": method, "since": since, "nothing": NOTHING, "most": track_record.ALL}
    started = partial(site.reader.each, "started_forecasts", cluster=site.cluster, **of)
    judged = of_complete_days(started, "known_at", site.least, site.now)
    late = track_record.overdue(site.reader, site.cluster, partition, method, since, site.now)
    misses = ({**row, "user_id": "", "overdue": True} for row in late if not site.private)
    return nlargest(MOST, chain(judged, misses), key=itemgetter("as_of"))[::-1]


def _figures(rows: Sequence[Mapping[str, Any]], least: int) -> dict[str, Any]:
    """Return coverage at 50 and 90 %, median error of started jobs, and the number of overdue jobs (misses)."""
    errors = [abs(row["point_s"] - row["outcome_s"]) for row in rows if "overdue" not in row]
    figures = {"forecasts": len(rows), "median_ae_s": median(errors), "overdue": len(rows) - len(errors)}
    return rounded({**figures, **Coverage(LEVELS, rows).shares()}, least)


def _over_time(rows: Sequence[Mapping[str, Any]], least: int) -> list[dict[str, Any]]:
    """Return the figures of each day, or of each week if the predictions span at least three weeks."""
    days = 86400.0 if rows[-1]["as_of"] - rows[0]["as_of"] < 21 * 86400 else 7 * 86400.0
    return [
        {"at": name * days, "label": time.strftime("%m-%d", time.gmtime(name * days)), **_figures(group, least)}
        for name, group in sorted(groups(rows, lambda row: row["as_of"] // days, LEAST, least).items())
    ]


def _by_partition(site: Site, method: str, since: float, long_only: bool) -> list[dict[str, Any]]:
    """Return the figures of each partition with enough predictions; of long predicted waits only if `long_only`."""
    figures = []
    for name in site.partitions:
        rows = [row for row in _judged(site, method, since, name) if not long_only or _is_long(row)]
        if len(rows) >= LEAST and may_show(rows, site.least):
            figures.append({"partition": name, **_figures(rows, site.least)})
    return figures


def _by_horizon(rows: Sequence[Mapping[str, Any]], least: int) -> list[dict[str, Any]]:
    """Return the figures of each range of predicted waits (`HORIZONS`) with enough predictions."""
    parts = groups(rows, lambda row: next(part for part in HORIZONS if row["point_s"] < part[1]), LEAST, least)
    return [{"low": low, "high": high, **_figures(of, least)} for (low, high), of in sorted(parts.items())]


def _renewed(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a method for jobs that had waited `age_s`; `at_submission` marks predictions at
    submission.
    """
    method = str(figures["predictor"])
    was = method.endswith(BEFORE)
    return {**figures, "age_s": SCORED[figures["moment"]], "at_submission": was, "method": method.removesuffix(BEFORE)}


NOMINAL = 0.9


def calibration_verdicts(site: Site, partition: str | None) -> list[dict[str, Any]]:
    """Return flat objects with a `sentence` on the reliability of predictions, by predicted wait and by partition.

    The objects cover the last 30 days and groups of at least 20 predictions, under the rules of `disclosure`. The list
    is empty if no group is large enough. If the first object covers only long predicted waits, the objects of
    partitions also cover only long predicted waits.
    """
    try:
        known = calibration_of(site)
    except NoAnswer:
        return []
    parts = [(f"partition {of['partition']}", of) for of in known["partitions"] if partition in (None, of["partition"])]
    if partition is None:
        long = f"predicted waits of {span(SHORT_S)} or more"
        parts.insert(0, (long if known["of"] == "long" else f"all jobs (too few had {long})", known["headline"]))
        if known["short"]:
            parts.insert(1, ("shorter predicted waits", known["short"]))
        waits = [of for of in known["horizons"] if of["low"] >= SHORT_S]
        parts += [(f"predicted waits of {_span(of['low'], of['high'])}", of) for of in waits]
    return [_object(name, known["method"], of) for name, of in parts]


def _object(name: str, method: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict on a group of predictions as one flat object with a `sentence`."""
    count, kept, error = figures["forecasts"], figures["coverage_90"], figures["median_ae_s"]
    word = verdict(count, kept)
    late = f"; {figures['overdue']} still wait past their 90 % time" if figures.get("overdue") else ""
    half = f"the median error is {span(error)}{late}"
    sentences = {
        "believe": f"reliable: {kept:.0%} of {count} jobs started by their 90 % time, {half}",
        "too early": f"not reliable: only {kept:.0%} of {count} jobs started by their 90 % time; {half}",
        "too late": f"cautious: {kept:.0%} of {count} jobs started by their 90 % time; {half}",
        "unknown": f"unknown: too few of {count} predictions had a 90 % time; {half}",
    }
    shown = {"of": name, "method": method, "forecasts": count, "coverage_90": kept, "median_ae_s": error}
    return {**shown, "verdict": word, "sentence": f"{name}: {sentences[word].replace('%', ' %').replace('  %', ' %')}"}


def verdict(count: int, coverage: float) -> str:
    """Judge whether a 90 % bound holds: its coverage is within two standard errors (at least 2 points) of 90 %.

    >>> verdict(400, 0.91), verdict(400, 0.8), verdict(4000, 0.97), verdict(20, float("nan"))
    ('believe', 'too early', 'too late', 'unknown')
    """
    if coverage != coverage or not count:
        return "unknown"
    margin = max(2.0 * math.sqrt(NOMINAL * (1.0 - NOMINAL) / count), 0.02)
    return "believe" if abs(coverage - NOMINAL) <= margin + 1e-12 else "too early" if coverage < NOMINAL else "too late"


def _span(low: float, high: float) -> str:
    """Return a range of waits in words.

    >>> _span(0.0, 600.0), _span(600.0, 3600.0), _span(86400.0, math.inf)
    ('less than 10 min', '10 min to 1 h', '1 d or more')
    """
    if not math.isfinite(high):
        return f"{span(low)} or more"
    return f"{span(low)} to {span(high)}" if low else f"less than {span(high)}"


UNSCORED = frozenset({str(Grounds.NO_HISTORY), str(Grounds.LIMIT)})
"""Suggestions with these grounds are based only on the request itself. Users did not see them, so they are not scored.
"""
ADVICE_LEVELS = (0.8, 0.9, 0.95)
WEEK_S = 7 * DAY_S


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
    """Return the job's own time limit (s); NaN if it has none."""
    return math.nan if row["req_time"] is None else float(row["req_time"])


MEMORY = Quantity(
    "issued_memory", "memory", "request", asked_a_node, lambda row: row["resolution"] == OUT_OF_MEMORY,
    lambda row: float(row["outcome_s"]), "median_ae_kib",
)  # fmt: skip
LIMIT = Quantity(
    "issued_limits", "limit", "limit", _limit_of, lambda row: row["status"] == "timeout",
    # a batch system needs some seconds to end a job that exceeds its limit; `min` ignores a second value that is NaN
    lambda row: min(float(row["outcome_s"]), _limit_of(row)), None,
)  # fmt: skip


def advice_record(
    site: Site, quantity: Quantity, since: float, until: float, partition: str | None = None
) -> list[dict[str, Any]]:
    """Return one flat object per method for predictions made in [since, until), epoch seconds.

    `exceeded_rate`: share of jobs that would have exceeded the suggestion. `asked_over_used`: sum of suggestions over
    sum of needs. The keys `users_...` give the same figures for the users' own requests. A job that exceeded its own
    request needed more than it got, so it also exceeds a suggestion that is not larger than its request; for a larger
    suggestion the outcome is unknown (`undecided_rate`). `coverage_...`: share of needs at or below the predicted
    quantile. `weeks`: these rates and coverages by week. If jobs are hidden, figures cover complete days with enough
    users and are rounded (see `disclosure`).
    """
    chosen = {"cluster": site.cluster, "since": since, "until": until, "partition": partition}
    read, least = partial(site.reader.each, quantity.statement, **chosen), site.least
    methods: dict[str, tuple[_AdviceScores, dict[float, _AdviceScores]]] = {}
    for row in of_complete_days(read, "known_at", least, site.now, itemgetter("method")):
        whole, weeks = methods.setdefault(row["method"], (_AdviceScores(quantity), {}))
        whole.add(row)
        weeks.setdefault(row["as_of"] // WEEK_S, _AdviceScores(quantity)).add(row)
    return [
        {**rounded(whole.scores(name), least), "weeks": _by_week(weeks, least)}
        for name, (whole, weeks) in sorted(methods.items())
        if is_of_several(whole.users, least)
    ]


def _by_week(weeks: dict[float, _AdviceScores], least: int) -> list[dict[str, Any]]:
    """Return the figures of each week with suggestions."""
    return [
        {"week_s": week * WEEK_S, **rounded({"requests": judged.counts["asked"], **judged.rates()}, least)}
        for week, judged in sorted(weeks.items())
        if is_of_several(judged.users, least) and judged.counts["asked"]
    ]


class _AdviceScores:
    """Running totals over one method's predictions and suggestions."""

    def __init__(self, quantity: Quantity) -> None:
        self.quantity, self.errors, self.coverage = quantity, array("d"), Coverage(ADVICE_LEVELS)
        self.users, self.counts, self.sums = Counter[Any](), Counter[str](), defaultdict[str, float](float)

    def add(self, row: Row) -> None:
        """Add one row: a prediction, a suggestion, or both."""
        self.users[row["user_id"]] += 1
        self.counts["forecasts"] += row["kind"] == self.quantity.forecast
        if row["outcome_s"] is None or row["grounds"] in UNSCORED:
            return
        needed, cut = self.quantity.needed(row), self.quantity.was_cut(row)
        if row["kind"] == self.quantity.forecast:
            self.counts["came_out"] += 1
            if self.quantity.error and not cut:
                self.errors.append(abs(row["point_s"] - needed))
            self.coverage.add({**row, "outcome_s": needed})
        requests = (("", row["point_s"]), ("users_", self.quantity.own(row)))
        for name, amount in requests if row["kind"] == self.quantity.advice else ():
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
        counts, sums, rates = self.counts, self.sums, dict[str, float]()
        for name in ("", "users_"):
            rates[f"{name}exceeded_rate"] = counts[f"{name}exceeded"] / (counts[f"{name}asked"] or math.nan)
            rates[f"{name}asked_over_used"] = sums[f"{name}asked"] / (sums[f"{name}needed"] or math.nan)
        undecided = counts["undecided"] / (counts["asked"] or math.nan)
        return {**rates, "undecided_rate": undecided, **self.coverage.shares()}

    def scores(self, method: str) -> dict[str, Any]:
        """Return the counts, errors and rates of one method as one flat object."""
        counts = self.counts
        return {
            "predictor": method,
            "kind": self.quantity.forecast,
            "forecasts": counts["forecasts"],
            "came_out": counts["came_out"],
            "requests": counts["asked"],
            **({self.quantity.error: median(self.errors)} if self.quantity.error else {}),
            **self.rates(),
        }
