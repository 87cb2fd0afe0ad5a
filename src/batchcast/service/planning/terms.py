# SPDX-License-Identifier: Apache-2.0
"""Collects the inputs of planning from settings, site and store: terms, run-time predictions, and submissions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ...formats.slurm.plannable import Plannable, Submitted, why_not
from ...planning.order import ORDER_QUANTILE
from ...planning.record import Entry, How, OrderBy, Terms, in_minutes, opted_in
from ...predict.conditional import given_waited, quantile_of
from ...predict.protocol import Grounds
from ...slurm import limits
from ...slurm.limits import Ground
from ...slurm.transport import Transport
from ...store.rows import as_prediction
from ...units import span
from ..settings import Settings, planned_by

if TYPE_CHECKING:
    from ...store.database import Connection
    from ...store.planned import Standing

Forecasts = Mapping[tuple[str, float], Mapping[str, Any]]
"""Run-time predictions at submission, by job id and submit time."""
LIMITS, ORDERS = ("plan", "limits", "both", "time-min"), ("order", "both")
"""The values of the setting `plan` with which batchcast changes limits, and those with which it changes SiteFactors."""
ORDERED_BY_LIMITS = "the users' time limits"
FEWEST = 50
"""Predictions are judged only if the outcomes of at least this many are known."""
WITHIN_S = 14 * 86400.0
TOO_SHORT = "it would probably end before a cycle of the collector restores its limit"
UNKNOWN = (Grounds.NO_HISTORY, Grounds.LIMIT, Grounds.FALLBACK)


Walls = tuple[Mapping[tuple[str, ...], float], Sequence[str]]
"""The limits of accounting, as `slurm.limits.walls` returns them: largest time limits, and limits on minutes."""


def terms_of(settings: Settings, ground: Ground, accounting: Walls, now: float, stop: str) -> Terms:
    """Return the terms of planning for one cycle: settings, and limits of the site and of its accounting."""
    walls, counted = accounting
    # A limit is restored by the cycle after the job's start; the margin allows for two missed cycles.
    late = 3 * settings["interval_s"]
    return opted_in(settings, now, stop or why_site_refused(settings, ground, counted))._replace(
        **{name: getattr(ground, name) for name in ("over_time", "longest", "defaults", "next_outage", "booted")},
        walls=walls,
        margin=late,
        least=in_minutes(max(late, 60.0)),
        grace=2 * settings["timeout_s"],
        how=How.TIME_MIN if settings["plan"] == How.TIME_MIN else How.LIMIT,
        at_start=bool(settings["plan_list"]),
    )


def why_site_refused(settings: Settings, ground: Ground, counted: Sequence[str]) -> str:
    """Return why this site must not be planned, because its accounting counts time limits; empty if it may be
    planned.
    """
    if settings["plan_allow"] == "minutes":
        return ""
    if "safe" in ground.enforced:
        return "AccountingStorageEnforce has safe: which jobs may start would depend on planned limits"
    return f"accounting limits minutes ({counted[0]})" if counted and "limits" in ground.enforced else ""


def over_time_cuts(before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """Return a sentence for each partition whose OverTimeLimit (s) is lower than in the last cycle.

    >>> over_time_cuts({"main": 3600.0, "short": 600.0}, {"main": 1800.0, "short": 600.0})
    ['OverTimeLimit of partition main was lowered from 1 h to 30 min: limits that need more are restored']
    """
    return [
        f"OverTimeLimit of partition {name} was lowered from {span(was)} to"
        f" {span(now.get(name, 0.0))}: limits that need more are restored"
        for name, was in before.items()
        if now.get(name, 0.0) < was
    ]


def orders_by_limits(settings: Settings) -> bool:
    """Return whether the users' time limits, and not predictions, order the queue."""
    return settings["plan_order_by"] is OrderBy.LIMITS


def plan_words(settings: Settings) -> str:
    """Return a sentence on what planning does: how it sets limits, and by which times it orders jobs.

    >>> from ..settings import load
    >>> plan_words(load({"plan": "both", "plan_order_by": "limits"}, {}))
    "plan = both: planned limits at the 80 % quantile of the predicted run time; order by the users' time limits"
    >>> plan_words(load({"plan": "off"}, {}))
    'plan = off'
    """
    said = []
    if settings["plan"] in LIMITS:
        level = 100 * settings["plan_length_quantile"]
        said.append(f"planned limits at the {level:g} % quantile of the predicted run time")
    if settings["plan"] in ORDERS:
        predicted = f"the {100 * ORDER_QUANTILE:g} % quantile of the predicted run time"
        said.append(f"order by {ORDERED_BY_LIMITS if orders_by_limits(settings) else predicted}")
    return ": ".join(filter(None, (f"plan = {settings['plan']}", "; ".join(said))))


def forecasts_by(issued: Forecasts, settings: Settings) -> Callable[[Plannable], float | str]:
    """Return a function that returns a waiting job's planned time, a quantile of its prediction, or why it has none."""
    level, shortest = settings["plan_length_quantile"], settings["plan_shortest_s"]

    def forecast(job: Plannable) -> float | str:
        row = issued.get((job.job_id, job.submit_time))
        return "it has no forecast yet" if row is None else planned_time(row, level, shortest)

    return forecast


def planned_time(row: Mapping[str, Any], level: float, shortest: float = 0.0) -> float | str:
    """Return a quantile of a prediction in seconds, or the reason why the job cannot be planned by it.

    A prediction is unusable if no similar job has ended, if it lacks this quantile, or if its median is below
    `shortest`: then the job would probably end before a cycle sees it run.
    """
    prediction = as_prediction(row)
    if prediction.grounds in UNKNOWN:
        return "no similar job has ended yet"
    if not prediction.levels:
        return "its forecast has no quantiles"
    if shortest > 0 and given_waited(prediction, 0.0, (0.5,)).point < shortest:
        return TOO_SHORT
    at = quantile_of(prediction, level)
    return at if math.isfinite(at) else f"its forecast does not reach the level {level:g}"


def order_time(row: Mapping[str, Any] | None, settings: Settings) -> float:
    """Return the run time (s) by which a job is ordered, a quantile of its prediction, before its time limit caps it.

    NaN means that the job is ordered by its time limit: with `plan_order_by = "limits"`, without a prediction, or if no
    similar job has ended.
    """
    if row is None or row["point_s"] is None or orders_by_limits(settings):
        return math.nan
    prediction = as_prediction(row)
    return math.nan if prediction.grounds in UNKNOWN else quantile_of(prediction, ORDER_QUANTILE)


def why_forecasts_fail(connection: Connection, cluster: str, settings: Settings, now: float) -> str:
    """Return why planning should not use the predictions: too many recent jobs ran longer than the planned quantile.

    The text is empty if the coverage is within three standard errors of its level, or if too few outcomes are known.
    """
    from ...store import planned

    level = settings["plan_length_quantile"]
    rows = planned.run_outcomes(connection, cluster, planned_by(settings), now - WITHIN_S)
    judged = [(row["outcome_s"], at) for row in rows if isinstance(at := planned_time(row, level), float)]
    if len(judged) < FEWEST:
        return ""
    held = sum(actual <= at for actual, at in judged) / len(judged)
    slack = 3 * math.sqrt(level * (1 - level) / len(judged))
    short = f"{held:.0%} of the last {len(judged)} jobs ran no longer than planned; expected are {level:.0%}"
    return short if held + slack < level else ""


class Stored(NamedTuple):
    """The contents of the store at the start of a planning cycle: planned limits, queue order, site values,
    predictions.

    `ended` lists the planned jobs whose end is known, `off` names the user who switched planning off, and `misfit`
    gives the reason why predictions should not be used. If the store could not be read, `order` is None and `entries`
    has the last known entries.
    """

    entries: dict[str, Entry]
    order: dict[str, Standing] | None = None
    values: Mapping[str, Any] = MappingProxyType({})
    forecasts: Forecasts = MappingProxyType({})
    ended: frozenset[str] = frozenset()
    off: Mapping[str, Any] | None = None
    misfit: str = ""


def read_stored(
    connection: Connection, cluster: str, settings: Settings, stop: str = "", even_if_off: bool = False
) -> Stored:
    """Read the data of one planning cycle. Predictions are not read with `stop`, or if planning is switched off."""
    from ...store import clock_jobs, planned

    values = clock_jobs.read_meta(connection, cluster)
    off = values.get(planned.SWITCH)
    needs_forecasts = not stop and (even_if_off or not off)
    return Stored(
        planned.entries(connection, cluster),
        planned.order_of(values),
        values,
        planned.run_forecasts(connection, cluster, planned_by(settings)) if needs_forecasts else {},
        frozenset(planned.closed(connection, cluster)),
        off,
    )


MOST_LOOKED_UP = 20
"""Largest number of submissions that are looked up per cycle, because each needs one call to slurmctld."""


@dataclass(slots=True)
class Submissions:
    """The options with which waiting jobs were submitted, by raw id."""

    transport: Transport
    by_raw_id: dict[str, Submitted] = field(default_factory=dict)

    def why_not(self, terms: Terms) -> Callable[[Plannable], str]:
        """Return a function that returns why a job cannot be planned by the options of its submission; empty
        if it can.
        """

        def why(job: Plannable) -> str:
            asked = self.by_raw_id.get(job.raw_id)
            return "its submission was not looked up yet" if asked is None else why_not(asked, job, terms.defaults)

        return why

    def look_up(self, jobs: Iterable[Plannable], most: int = MOST_LOOKED_UP) -> bool:
        """Look up at most `most` unknown submissions; return whether at least one was found."""
        raw_ids = [i for i in dict.fromkeys(job.raw_id for job in jobs) if i not in self.by_raw_id][:most]
        found = limits.submissions(self.transport, raw_ids) if raw_ids else {}
        self.by_raw_id |= found
        return bool(found)

    def keep(self, jobs: Sequence[Plannable]) -> None:
        """Discard all submissions except the submissions of the waiting jobs in `jobs`."""
        shown = {job.raw_id for job in jobs if job.waits}
        self.by_raw_id = {raw_id: one for raw_id, one in self.by_raw_id.items() if raw_id in shown}
