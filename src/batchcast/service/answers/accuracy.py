# SPDX-License-Identifier: Apache-2.0
"""Compares past predictions, and Slurm's own estimates, with the outcomes: errors, coverage, and a verdict.

All figures are aggregates over several jobs.
"""

from __future__ import annotations

import json
import math
import re
import time
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain
from typing import Any

from ...errors import NoAnswer
from ...store.reader import Reader, Row
from ...store.rows import NOTHING
from ...units import span
from ..answers import track_record
from ..settings import Settings
from .answer import staleness
from .disclosure import (
    DAY_S,
    Site,
    Viewer,
    complete_days,
    complete_days_by,
    groups,
    is_of_several,
    may_show,
    open_site,
    rounded,
    rows_of_complete_days,
)
from .track_record import SHORT_S, covered, covered_at, median

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

    >>> fallback_reason("irpa is not trained yet (12 finished jobs with features): mean of 3 jobs")
    'irpa is not trained yet'
    """
    return re.sub(r" \(\d[^)]*\)", "", basis.partition(": ")[0])


def accuracy(
    reader: Reader,
    cluster: str,
    since: float,
    until: float,
    partition: str | None = None,
    least_users: int = 1,
    now: float = math.inf,
) -> list[dict[str, Any]]:
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
    and `fell_back_why` the most frequent reason. With `least_users` above 1, the privacy rules of `disclosure` apply.
    """
    chosen = {"cluster": cluster, "since": since, "until": until, "partition": partition}
    days: set[tuple[Key, float]] | None = None
    if least_users > 1:
        days = complete_days_by(reader.each("issued", **chosen), _key, "as_of", least_users, now)
    scored: dict[Key, _Scored] = {}
    for row in reader.each("issued", **chosen):
        key = _key(row)
        if days is None or (key, row["as_of"] // DAY_S) in days:
            scored.setdefault(key, _Scored()).add(row)
    for (moment, kind, method), group in scored.items() if days is None and math.isfinite(now) else ():
        if (moment, kind) == ("submit", "wait"):
            named = {"cluster": cluster, "since": since, "partition": partition, "method": method, "nothing": NOTHING}
            late = track_record.overdue(reader, now, named)
            group.add_overdue(sum(row["as_of"] < until for row in late))
    order = {moment: place for place, moment in enumerate(("submit", "asked", *SCORED, "slurm"))}
    shown = sorted(scored.items(), key=lambda item: (order[item[0][0]], item[0][1], item[0][2]))
    return [rounded(group.scores(*key), least_users) for key, group in shown if group.may_show(least_users)]


Key = tuple[str, str, str]
"""The moment, kind and method of predictions that are scored together."""


def _key(row: Mapping[str, Any]) -> Key:
    return row["moment"], row["kind"], row["method"]


class _Scored:
    """Running totals over the predictions of one group: counts, and eight bytes for each known outcome."""

    def __init__(self) -> None:
        self.counted: Counter[Any] = Counter()
        self.scored: Counter[Any] = Counter()
        self.errors = array("d")
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()

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
        for level, hit in zip(LEVELS, covered(row, LEVELS)) if row["levels"] != "[]" else ():
            if hit is not None:
                counts[f"judged {level:g}"] += 1
                counts[f"held {level:g}"] += hit

    def add_overdue(self, jobs: int) -> None:
        """Count predictions of jobs that wait longer than their 90 % time as not covered at every level."""
        self.counts["overdue"] += jobs
        for level in LEVELS:
            self.counts[f"judged {level:g}"] += jobs

    def may_show(self, least: int) -> bool:
        """Return whether the counts, and the scored predictions if there are any, cover enough users."""
        return is_of_several(self.counted, least) and is_of_several(self.scored or self.counted, least)

    def scores(self, moment: str, kind: str, method: str) -> dict[str, Any]:
        """Return the counts, errors and coverage of this group as one flat object."""
        errors, counts = self.errors, self.counts
        n = len(errors) or math.nan
        figures: dict[str, Any] = {
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
        }
        for level in LEVELS:
            figures[f"coverage_{level * 100:g}"] = counts[f"held {level:g}"] / (counts[f"judged {level:g}"] or math.nan)
        return figures


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
    days = complete_days(_came_out(site, method, since), "as_of", least, now) if site.private else set()
    judged = (row for row in _came_out(site, method, since) if not site.private or row["as_of"] // DAY_S in days)
    rows = nlargest(MOST, chain(judged, _overdue(site, method, since)), key=lambda row: row["as_of"])[::-1]
    if sum("overdue" not in row for row in rows) < LEAST or not may_show(rows, least):
        raise NoAnswer("fewer than 20 predictions have a known outcome", hint="let the collector run a while")
    of, waited, short = _headline(rows, least)
    beside = [r for r in accuracy(site.reader, site.cluster, since, math.inf, None, least, now) if r["kind"] == "wait"]
    return {
        "method": method, "cluster": site.cluster, "now": now, "least": least,
        "of": of, "headline": _figures(waited, least), "short": short,
        "forecasts": rounded({"n": len(rows)}, least)["n"],
        "weeks": _over_time(waited, least), "partitions": _by_partition(site, method, since, long_only=of == "long"),
        "horizons": _by_horizon(rows, least),
        "reliability": _reliability(waited),
        "at_submission": [r for r in beside if r["moment"] == "submit"],
        "beside_slurm": [r for r in beside if r["moment"] == "slurm" and r["came_out"]],
        "renewed": [_renewed(r) for r in beside if r["moment"] in SCORED and r["came_out"]],
        "stale": staleness(site.memory, now),
    }  # fmt: skip


def _headline(
    rows: Sequence[Mapping[str, Any]], least: int
) -> tuple[str, Sequence[Mapping[str, Any]], dict[str, Any] | None]:
    """Return which waits the headline covers ("long", "all"), the predictions of these waits, and the figures of short
    waits if known.
    """
    parts = groups(rows, _is_long, LEAST, least)
    if True not in parts:
        return "all", rows, None
    return "long", parts[True], _figures(parts[False], least) if False in parts else None


def _is_long(row: Mapping[str, Any]) -> bool:
    """Return whether a job's predicted wait is so long that its user has to plan for it."""
    return bool(row["point_s"] >= SHORT_S)


def _came_out(site: Site, method: str, since: float) -> Iterator[Row]:
    """Yield a method's wait predictions with known outcome, one at a time."""
    return (
        row for row in site.reader.each("issued", cluster=site.cluster, since=since, until=math.inf)
        if row["kind"] == "wait" and row["moment"] == "submit" and row["method"] == method
        and row["outcome_s"] is not None and row["grounds"] != NOTHING
    )  # fmt: skip


def _overdue(site: Site, method: str, since: float, partition: str | None = None) -> list[Row]:
    """Return predictions of jobs that still wait beyond their 90 % time and so count as misses. The list is empty if
    jobs are private.
    """
    if site.private:
        return []
    chosen = {"cluster": site.cluster, "partition": partition, "method": method, "since": since, "nothing": NOTHING}
    return [{**row, "user_id": "", "overdue": True} for row in track_record.overdue(site.reader, site.now, chosen)]


def _figures(rows: Sequence[Mapping[str, Any]], least: int) -> dict[str, Any]:
    """Return coverage at 50 and 90 %, median error of started jobs, and the number of overdue jobs (misses)."""
    errors = [abs(row["point_s"] - row["outcome_s"]) for row in rows if "overdue" not in row]
    figures: dict[str, Any] = {"forecasts": len(rows), "median_ae_s": median(errors)}
    figures["overdue"] = len(rows) - len(errors)
    for level in LEVELS:
        hits = _hits(rows, level)
        figures[f"coverage_{100 * level:g}"] = sum(hits) / len(hits) if hits else math.nan
    return rounded(figures, least)


def _hits(rows: Sequence[Mapping[str, Any]], level: float) -> list[bool]:
    """Return whether each job had started by the predicted quantile; predictions without a quantile at this level are
    left out.
    """
    return [hit for row in rows if json.loads(row["levels"]) and (hit := covered_at(row, level)) is not None]


def _over_time(rows: Sequence[Mapping[str, Any]], least: int) -> list[dict[str, Any]]:
    days = 86400.0 if rows[-1]["as_of"] - rows[0]["as_of"] < 21 * 86400 else 7 * 86400.0
    return [
        {"at": name * days, "label": time.strftime("%m-%d", time.gmtime(name * days)), **_figures(group, least)}
        for name, group in sorted(groups(rows, lambda row: row["as_of"] // days, LEAST, least).items())
    ]


def _by_partition(site: Site, method: str, since: float, long_only: bool) -> list[dict[str, Any]]:
    figures, least = [], site.least
    asked = {"cluster": site.cluster, "method": method, "since": since, "nothing": NOTHING, "most": MOST}
    for name in site.partitions:
        started = site.reader.ask("started_forecasts", partition=name, **asked)
        over = rows_of_complete_days(started, "as_of", least, site.now) if least > 1 else started
        over = [*over, *_overdue(site, method, since, name)]
        rows = [row for row in over if not long_only or _is_long(row)]
        if len(rows) >= LEAST and may_show(rows, least):
            figures.append({"partition": name, **_figures(rows, least)})
    return figures


def _by_horizon(rows: Sequence[Mapping[str, Any]], least: int) -> list[dict[str, Any]]:
    def bin_of(row: Mapping[str, Any]) -> int:
        return next(k for k, (low, high) in enumerate(HORIZONS) if low <= max(row["point_s"], 0.0) < high)

    return [
        {"low": HORIZONS[k][0], "high": HORIZONS[k][1], **_figures(group, least)}
        for k, group in sorted(groups(rows, bin_of, LEAST, least).items())
    ]


def _renewed(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a method for jobs that had waited `age_s`; `at_submission` marks predictions at
    submission.
    """
    method = str(figures["predictor"])
    was = method.endswith(BEFORE)
    return {**figures, "age_s": SCORED[figures["moment"]], "at_submission": was, "method": method.removesuffix(BEFORE)}


def _reliability(rows: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Return the reliability curve: for each level, the share of jobs that had started by the predicted quantile."""
    points = []
    for level in GRID:
        hits = _hits(rows, level)
        if len(hits) >= LEAST:
            points.append((level, round(sum(hits) / len(hits), 2)))
    return points


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
    parts = [(f"partition {group['partition']}", group) for group in known["partitions"]
             if partition in (None, group["partition"])]  # fmt: skip
    if partition is not None:
        return [_object(name, known["method"], group) for name, group in parts]
    long = f"predicted waits of {span(SHORT_S)} or more"
    named = [(long if known["of"] == "long" else f"all jobs (too few had {long})", known["headline"])]
    named += [("shorter predicted waits", known["short"])] if known["short"] else []
    named += parts
    named += [
        (f"predicted waits of {_span(group['low'], group['high'])}", group)
        for group in known["horizons"]
        if group["low"] >= SHORT_S
    ]
    return [_object(name, known["method"], group) for name, group in named]


def _object(name: str, method: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    count, kept, error = figures["forecasts"], figures["coverage_90"], figures["median_ae_s"]
    word = verdict(count, kept)
    half = f"the median error is {span(error)}"
    half += f"; {figures['overdue']} still wait past their 90 % time" if figures.get("overdue") else ""
    sentences = {
        "believe": f"reliable: {kept:.0%} of {count} jobs started by their 90 % time, {half}",
        "too early": f"not reliable: only {kept:.0%} of {count} jobs started by their 90 % time; {half}",
        "too late": f"cautious: {kept:.0%} of {count} jobs started by their 90 % time; {half}",
        "unknown": f"unknown: too few of {count} predictions had a 90 % time; {half}",
    }
    shown = {"of": name, "method": method, "forecasts": count, "coverage_90": kept, "median_ae_s": error}
    return {**shown, "verdict": word, "sentence": f"{name}: {sentences[word].replace('%', ' %').replace('  %', ' %')}"}


def verdict(count: int, kept: float) -> str:
    """Judge whether a 90 % bound holds: its coverage is within two standard errors (at least 2 points) of 90 %.

    >>> verdict(400, 0.91), verdict(400, 0.8), verdict(4000, 0.97), verdict(20, float("nan"))
    ('believe', 'too early', 'too late', 'unknown')
    """
    if kept != kept or not count:
        return "unknown"
    margin = max(2.0 * math.sqrt(NOMINAL * (1.0 - NOMINAL) / count), 0.02)
    return "believe" if abs(kept - NOMINAL) <= margin + 1e-12 else "too early" if kept < NOMINAL else "too late"


def _span(low: float, high: float) -> str:
    """Return a range of waits in words.

    >>> _span(0.0, 600.0), _span(600.0, 3600.0), _span(86400.0, math.inf)
    ('less than 10 min', '10 min to 1 h', '1 d or more')
    """
    if not math.isfinite(high):
        return f"{span(low)} or more"
    return f"{span(low)} to {span(high)}" if low else f"less than {span(high)}"
