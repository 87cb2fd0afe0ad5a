"""*Can I believe it?*: what was said at submission against what happened, beside the scheduler's own estimates."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from typing import Any

from ...errors import NoAnswer
from ...store.issued import NOTHING
from ...store.reader import Row
from .. import answers
from ..access import Asker, Site, open_site
from ..accuracy import accuracy
from ..answers import covered_at
from ..hidden import DAY_S, days_of_several, days_over, rounded, whole_days
from ..renewal_ages import BEFORE, SCORED
from ..settings import Settings
from ..staleness import staleness

WITHIN_S = 60 * 86400.0
MOST = 20_000
GRID = tuple(k / 10 for k in range(1, 10))
LEAST = 20
HORIZONS = ((0.0, 600.0), (600.0, 3600.0), (3600.0, 4 * 3600.0), (4 * 3600.0, 86400.0), (86400.0, math.inf))


def belief(settings: Settings, viewer: Asker, now: float) -> dict[str, Any]:
    """The track record of the method that answers, over several users where jobs are private."""
    with open_site(settings, viewer) as site:
        least = settings["least_users"] if site.private else 1
        since = now - WITHIN_S
        since = whole_days(since, math.inf)[0] if site.private else since
        method = answers.answering_method(site.memory)
        days = days_over(_came_out(site, method, since), "as_of", least, now) if site.private else set()
        judged = (row for row in _came_out(site, method, since) if not site.private or row["as_of"] // DAY_S in days)
        rows = nlargest(MOST, judged, key=lambda row: row["as_of"])[::-1]
        if len(rows) < LEAST or len({row["user_id"] for row in rows}) < least:
            raise NoAnswer("fewer than 20 forecasts have come out yet", hint="let the collector run a while")
        parts = _by_partition(site.reader.ask, site.cluster, method, since, least, now, site.memory)
        beside = [r for r in accuracy(site.reader, site.cluster, since, math.inf, None, least, now)
                  if r["kind"] == "wait"]  # fmt: skip
        whole = _figures(rows)
        return {
            "method": method, "cluster": site.cluster, "now": now, "least": least,
            "whole": rounded(whole) if least > 1 else whole,
            "weeks": _over_time(rows, least), "partitions": parts, "horizons": _by_horizon(rows, least),
            "reliability": _reliability(rows),
            "at_submission": [r for r in beside if r["moment"] == "submit"],
            "beside_slurm": [r for r in beside if r["moment"] == "slurm"],
            "renewed": [_renewed(r) for r in beside if r["moment"] in SCORED and r["came_out"]],
            "stale": staleness(site.memory, now),
        }  # fmt: skip


def _came_out(site: Site, method: str, since: float) -> Iterator[Row]:
    """A method's waits that have come out, one at a time."""
    return (
        row for row in site.reader.each("issued", cluster=site.cluster, since=since, until=math.inf)
        if row["kind"] == "wait" and row["moment"] == "submit" and row["method"] == method
        and row["outcome_s"] is not None and row["grounds"] != NOTHING
    )  # fmt: skip


def _figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Coverage at 50 and 90 %, median error, share that started later than the likely start."""
    errors = [abs(row["point_s"] - row["outcome_s"]) for row in rows]
    figures: dict[str, Any] = {"forecasts": len(rows), "median_ae_s": answers.median(errors)}
    for level in (0.5, 0.9):
        hits = _hits(rows, level)
        figures[f"coverage_{100 * level:g}"] = sum(hits) / len(hits) if hits else math.nan
    return figures


def _hits(rows: Sequence[Mapping[str, Any]], level: float) -> list[bool]:
    """Whether each job had started by what was said for a level, where anything was."""
    return [hit for row in rows if json.loads(row["levels"]) and (hit := covered_at(row, level)) is not None]


def _grouped(rows: Sequence[Mapping[str, Any]], key: Any, least: int) -> list[tuple[Any, list[Mapping[str, Any]]]]:
    """Groups of enough forecasts, and of enough users where that is asked for."""
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return [
        (name, group) for name, group in sorted(groups.items())
        if len(group) >= LEAST and len({row["user_id"] for row in group}) >= least
    ]  # fmt: skip


def _shown(figures: dict[str, Any], least: int) -> dict[str, Any]:
    return rounded(figures) if least > 1 else figures


def _over_time(rows: Sequence[Mapping[str, Any]], least: int) -> list[dict[str, Any]]:
    days = 86400.0 if rows[-1]["as_of"] - rows[0]["as_of"] < 21 * 86400 else 7 * 86400.0
    return [
        {"at": name * days, "label": time.strftime("%m-%d", time.gmtime(name * days)), **_shown(_figures(group), least)}
        for name, group in _grouped(rows, lambda row: row["as_of"] // days, least)
    ]


def _by_partition(
    ask: Any, cluster: str, method: str, since: float, least: int, now: float, memory: Mapping[str, Any]
) -> list[dict[str, Any]]:
    figures = []
    for name in memory.get("site", {}).get("partitions", {}):
        rows = ask("started_forecasts", cluster=cluster, partition=name, method=method, since=since, nothing=NOTHING,
                   most=MOST)  # fmt: skip
        if least > 1:
            rows = days_of_several(rows, "as_of", least, now)
        if len(rows) >= LEAST and len({row["user_id"] for row in rows}) >= least:
            figures.append({"partition": name, **_shown(_figures(rows), least)})
    return figures


def _by_horizon(rows: Sequence[Mapping[str, Any]], least: int) -> list[dict[str, Any]]:
    def bin_of(row: Mapping[str, Any]) -> int:
        return next(k for k, (low, high) in enumerate(HORIZONS) if low <= max(row["point_s"], 0.0) < high)

    return [
        {"low": HORIZONS[k][0], "high": HORIZONS[k][1], **_shown(_figures(group), least)}
        for k, group in _grouped(rows, bin_of, least)
    ]


def _renewed(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Of one method once jobs had waited so long: renewed by then, or what it had said at their submission."""
    method = str(figures["predictor"])
    was = method.endswith(BEFORE)
    return {**figures, "age_s": SCORED[figures["moment"]], "at_submission": was, "method": method.removesuffix(BEFORE)}


def _reliability(rows: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Said against happened: for each level the share of jobs that had started by what was said for it."""
    points = []
    for level in GRID:
        hits = _hits(rows, level)
        if len(hits) >= LEAST:
            points.append((level, round(sum(hits) / len(hits), 2)))
    return points
