# SPDX-License-Identifier: Apache-2.0
"""The checks of `batchcast doctor` on planning: whether this site allows it, what to set, and jobs with
planned limits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import BatchcastError
from ...planning.decide import PLANNED_BY_ANOTHER
from ...planning.order import head_start
from ...planning.record import MAY_STAND, ORDER_RECORD, State
from ...slurm import limits
from ...store.reader import Reader
from ...units import span
from ..answers.answer import local_time
from ..settings import Settings, own_name
from .terms import FEWEST, LIMITS, ORDERS, plan_words, why_site_refused

JUDGED = 400
"""The watchdog judges this many predictions with known outcome (store/planned.py)."""
WEEK = 7 * 86400.0
SECOND = (
    "users and operators may do this, but so many changes suggest a second program: batchcast plan --audit "
    "shows when (what: foreign); only one collector per cluster may plan"
)
OPERATORS = ("operator", "administrator")
"""The levels in Slurm's accounting that may change and see all jobs."""
COST = (
    "OverTimeLimit=60 in slurm.conf (or on the partition's line), then scontrol reconfigure: a job is planned with up "
    "to 60 min less than its limit; any job may then run up to 60 min longer than its own limit"
)


def standing(reader: Reader, cluster: str) -> list[dict[str, Any]]:
    """Return the jobs that have a planned limit by their last entry in the store; times are in seconds."""
    return [row for row in reader.ask("planned", cluster=cluster) if row["state"] in MAY_STAND]


def why_stopped(memory: Mapping[str, Any], now: float) -> str:
    """Return why and until when the watchdog has stopped planning; empty if planning is not stopped.

    >>> why_stopped({"plan_alarm": {"why": "a look came late", "until": 5.0}}, 9.0)
    ''
    """
    alarm = memory.get("plan_alarm")
    if not alarm or alarm["until"] <= now:
        return ""
    return f"planning is stopped by the watchdog until {local_time(alarm['until'])}: {alarm['why']}"


def ordered(memory: Mapping[str, Any]) -> list[str]:
    """Return the ids of jobs that have a SiteFactor from batchcast. A restored SiteFactor is stored as 0."""
    return [name for name, (factor, *_) in (memory.get(ORDER_RECORD) or {}).items() if factor]


def standing_findings(reader: Reader, cluster: str, settings: Settings, now: float) -> Iterator[dict[str, Any]]:
    """Yield one finding per job with a planned limit, from the store alone."""
    try:
        rows = standing(reader, cluster)
    except BatchcastError:
        return  # the store was created before planning existed
    memory = reader.memory(cluster)
    switched = memory.get("plan_off")
    if settings["plan"] == "off" and not rows and not switched:
        return
    words = f"switched off by {switched['by']}" if switched else plan_words(settings)
    yield finding("planning", "ok", f"{words}; {len(rows)} jobs have a planned limit")
    if placed := ordered(memory):
        yield finding("order", "ok", f"{len(placed)} jobs have a priority from batchcast (SiteFactor)")
    stopped = "" if settings["plan"] == "off" or switched else why_stopped(memory, now)
    if settings["plan"] in LIMITS or stopped:
        do = "batchcast accuracy shows the coverage of run-time predictions; name another predictor first in `runtime`"
        yield judged("watchdog", not stopped, stopped or bounds(settings), do, "failed")
    if settings["plan"] in LIMITS:
        yield from _hands(reader, cluster, memory, now)
        shortest, look = settings["plan_shortest_s"], settings["interval_s"]
        fact = f"jobs with a median prediction below {shortest:g} s are not planned; "
        fact += f"the collector's cycle is {look:g} s"
        do = f"plan_shortest_s = {look:g}: a job that ends before a cycle keeps its planned limit in accounting"
        yield judged("short jobs", shortest >= look, fact, do)
    for row in rows:
        late = row["state"] == State.RESTORING and now - row["at"] > 3 * settings["interval_s"]
        fact = f"{span(row['planned'])} of {span(row['user_limit'])}, {row['state']} since {local_time(row['at'])}"
        do = "batchcast plan --off restores every limit; check that the collector runs and may change limits"
        yield judged(f"job {row['job_id']}", not late, fact, do)


def _hands(reader: Reader, cluster: str, memory: Mapping[str, Any], now: float) -> Iterator[dict[str, Any]]:
    """Report who else changes time limits. Users and operators may, but a second planning collector must not."""
    if others := memory.get("plan_others"):
        fact = f"{len(others)} jobs, for example {others[0]}, are not planned: {PLANNED_BY_ANOTHER}"
        do = "only one collector per cluster may plan: set plan = off in the others"
        yield finding("another batchcast", "warning", fact, do)
    steps = reader.ask("plan_changes", cluster=cluster, since=now - WEEK)
    of = {state: {row["job_id"] for row in steps if row["what"] == state} for state in (State.PLANNED, State.FOREIGN)}
    ours, theirs = map(len, of.values())
    fact = f"{theirs} of the {ours} jobs planned in the last 7 days had their limits changed by another user or program"
    yield judged("limits changed by others", theirs <= max(5, ours / 10), fact, SECOND)


def bounds(settings: Settings) -> str:
    """Return a sentence with the bounds at which the watchdog stops planning."""
    return (
        f"planning stops for an hour and restores limits if a cycle comes {settings['plan_lag_s']:g} s after "
        f"the last one, if a call to slurmctld takes {settings['plan_call_s']:g} s, or if the share of the "
        f"last {JUDGED} jobs within the planned quantile is below {settings['plan_length_quantile']:.0%} by "
        f"three standard errors (with at least {FEWEST} jobs)"
    )


def ground_findings(scheduler: Any, settings: Settings) -> Iterator[dict[str, Any]]:
    """Report what Slurm's configuration allows: OverTimeLimit of partitions, the right to change limits, limits on
    minutes.
    """
    if settings["plan"] == "off" or settings["scheduler"] != "slurm":
        return
    try:
        ground = limits.ground(scheduler.transport, scheduler.now())
        counted = limits.walls(scheduler.transport)[1]
        level = scheduler.admin_level(own_name())
    except BatchcastError as error:
        yield failed("planning now", error, "do scontrol and sacctmgr answer here?")
        return
    if settings["plan"] in LIMITS:
        yield from _limit_findings(settings, ground, counted)
    if settings["plan"] in ORDERS:
        site = limits.reserving(scheduler.transport)
        yield _order_finding(scheduler, settings, site)
        yield from _order_now(scheduler, settings)
        yield _reserve_finding(site, settings["plan_within"], settings["plan_band"])
    me, what = own_name(), "write comments" if settings["plan"] == "advise" else "change limits"
    fact = "root" if me == "root" else f"{me} is {level or 'in no association'}"
    yield judged(f"right to {what}", me == "root" or level.lower() in OPERATORS, fact, add_operator(me), "failed")


def _limit_findings(settings: Settings, ground: limits.Ground, counted: list[str]) -> Iterator[dict[str, Any]]:
    """Report whether the site meets the conditions for planned limits."""
    named = [name.strip() for name in settings["plan_partitions"].split(",") if name.strip()]
    for name in named or sorted(ground.over_time):
        over = ground.over_time.get(name)
        found = "there is no such partition" if over is None else f"OverTimeLimit is {span(over)}"
        yield judged(f"partition {name}", over, found, COST, "failed" if named else "warning")
    if settings["plan_list"]:
        yield _start(settings["plan_list"], ground.prolog)
    why = why_site_refused(settings, ground, counted)
    do = "plan_allow = minutes, if accounting may count jobs by their planned limits"
    yield judged("what accounting counts", not why, why or "accounting limits no minutes", do, "failed")


def _order_finding(scheduler: Any, settings: Settings, site: limits.Reserving) -> dict[str, Any]:
    """Report whether this site allows changed priorities, by how much a job's priority may rise, and how age counts."""
    try:
        why = limits.why_unordered(scheduler.transport, settings["plan_band"])
        limits.priorities(scheduler.transport)
    except BatchcastError as error:
        return failed("priorities", error, "does sprio answer here?")
    do = "no job is reordered until this setting or plan_band is changed"
    within, band = settings["plan_within"], settings["plan_band"]
    verb, more = ("raises", "") if within == "queue" else ("changes", " in one QOS and one partition")
    fact = f"batchcast {verb} a job's priority by at most {band}, within its {within}{more}"
    if within == "queue" and (longer := head_start(band, site.by_age, site.max_age)) < math.inf:
        fact += f"; half the work raises a job as much as {span(longer)} of waiting does (PriorityWeightAge)"
    return judged("priorities", not why, why or fact, do, "failed")


def _order_now(scheduler: Any, settings: Settings) -> Iterator[dict[str, Any]]:
    """Report the lowest and the highest SiteFactor that a cycle would set now."""
    from ..answers.disclosure import choose_cluster
    from .order import Orderer, extremes

    try:
        with Reader(settings["store"]) as reader:
            cluster = str(choose_cluster(reader, settings["cluster"] or None))
        # imported here because it needs SQLAlchemy, without which `doctor` must still answer
        from ...store.database import Store

        with Store(settings["store"], read_only=True) as store:
            factors, why = Orderer(scheduler.transport, store, settings).preview(cluster)
    except BatchcastError as error:
        yield failed("order now", error, "batchcast plan --dry-run shows more", "warning")
        return
    fact = why or extremes(factors) or "no waiting job opted in"
    beyond = any(abs(factor) > settings["plan_band"] for factor in factors.values())
    yield judged("order now", not beyond, fact, "batchcast plan --off, and report this: it is a defect", "failed")


def _reserve_finding(reserving: limits.Reserving, within: str, band: int) -> dict[str, Any]:
    """Report for which jobs Slurm's backfill reserves processors, with a planned queue order and while batchcast does
    not run.
    """
    name, word = "reserved processors", "bf_min_prio_reserve"
    if reserving.least == 0:
        more = f"; with {word}={band} only for jobs past the age limit" if within == "queue" else ""
        return finding(name, "ok", f"for every waiting job{more}")
    if within == "queue" and reserving.least > band:
        fact = f"{word} is {reserving.least:g}, above plan_band: for no job, however long it waits"
        return finding(name, "warning", fact, f"{word}={band}, then scontrol reconfigure")
    if reserving.by_age < reserving.least:
        when = "while batchcast does not run" if within == "queue" else f"within its {within}, however long it waits"
        fact = f"PriorityWeightAge is {reserving.by_age:g}, below {word}: for no job {when}"
        return finding(name, "warning", fact, f"PriorityWeightAge={reserving.least:g}, then scontrol reconfigure")
    return finding(name, "ok", f"for jobs past the age limit ({word}={reserving.least:g})")


def _start(place: str, prolog: str) -> dict[str, Any]:
    """Report whether slurmctld runs a script when a job starts, and whether the list of planned jobs exists."""
    state, fact, do = "ok", f"slurmctld runs {prolog}, jobs are listed in {place}", ""
    if not prolog:
        state, fact = "warning", "slurmctld runs no script when a job starts"
        do = "PrologSlurmctld = the batchcast-start that `batchcast install` wrote, then scontrol reconfigure"
    elif not Path(place).exists():
        state, fact = "warning", f"there is no {place} yet; the collector writes it when it plans"
        do = "check that the collector runs and may write there"
    return finding("given back at the start", state, fact, do)


def finding(name: str, state: str, fact: str, do: str = "") -> dict[str, Any]:
    """Return one finding of `doctor`: the check, its state (ok, warning, failed), the fact, and what to do."""
    return {"check": name, "state": state, "found": fact, "do": do}


def failed(name: str, error: BatchcastError, do: str = "", state: str = "failed") -> dict[str, Any]:
    """Return a finding about an error; without a hint of the error, `do` says what to do."""
    return finding(name, state, error.message, error.hint or do)


def add_operator(user: str) -> str:
    """Return the command that lets a user see and change all jobs."""
    return f"sacctmgr add user {user} account=ACCOUNT adminlevel=operator (modify instead of add, if the user exists)"


def judged(name: str, good: object, fact: str, do: str, bad: str = "warning") -> dict[str, Any]:
    """Return a finding with the state `ok` if `good` is true, else with the state `bad` and what to do."""
    return finding(name, "ok" if good else bad, fact, "" if good else do)
