# SPDX-License-Identifier: Apache-2.0
"""Answers when a waiting job starts: as predicted or, if a reservation or a limit holds it, when that hold ends.

A job may be held by a reservation or by a limit on the jobs, processors, nodes or licences of a user, an account, a QOS
or an array. Running jobs use up a limit, so some of them must end before the waiting jobs under this limit start, in
order of submission. The size of the limit is taken from what the running jobs use now, because the limit is reached.
The likely ends of running jobs follow from their predicted run times, the latest ends from their time limits. The
module also explains in a sentence why a predicted start moved.

No answer gives a start later than the job's latest start by time limits plus a stated margin. The collector computes
the latest start of every waiting job (`collector.machine`) and stores it. `latest_start` returns the bound; `capped`
applies it to renewed predictions and to predictions for new jobs.
"""

from __future__ import annotations

import heapq
import json
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from operator import itemgetter
from typing import Any, NamedTuple

from msgspec.structs import replace

from ...formats.slurm.reasons import Rule, limit_of, plain_reason, reason_name, rule
from ...predict.conditional import chance_to_start, given_waited
from ...predict.protocol import Grounds, Prediction
from ...store.reader import Row
from ...store.rows import NOTHING, as_prediction, newest
from ...units import format_duration, span
from ..settings import Settings
from .answer import Sentence, of_partition
from .disclosure import OfOthers, Site

Job = Mapping[str, Any]

MARGIN_SHARE, MARGIN_S = 0.5, 3600.0
"""A predicted wait exceeds the wait that limits imply by at most this share of that wait, plus this many seconds."""
OLD_S = 3600.0
"""Bounds that the collector computed longer ago than this are not used."""
CUT = "; at most 1.5 times the wait that Slurm's limits imply, plus 1 h"


def queue_place(job: Job) -> tuple[float, float, int]:
    """Return the sort key of a waiting job in the queue order: by priority, then by submission."""
    priority = job.get("priority")
    return -float(priority) if priority is not None else 0.0, job["submit_time"], job["row"]


def time_limit(job: Job) -> float:
    """Return a job's time limit in seconds; infinity if it has none."""
    limit = job.get("req_time") if job.get("limit_now") is None else job["limit_now"]
    return math.inf if limit is None else float(limit)


def latest_start(row: Job, memory: Mapping[str, Any], now: float) -> float:
    """Return the latest start that an answer for this waiting job may give (epoch seconds); infinity if unknown.

    Two bounds on the start may be known: Slurm's own estimate, which uses time limits, and the start after all running
    jobs and all jobs in front have run to their limits (`collector.machine`). The earlier bound is used. A job
    that is not submitted yet is last in the queue. The margin (`MARGIN_SHARE`, `MARGIN_S`) allows for jobs that arrive
    later but start earlier.

    >>> row = {"row": 7, "expected_start": 1000.0, "partition_id": "main", "req_procs": 1.0}
    >>> latest_start(row, {}, 0.0), latest_start({**row, "expected_start": None}, {}, 0.0)
    (5100.0, inf)
    >>> latest_start(row, {"latest": {"at": 0.0, "jobs": {"7": 600}, "new": {"main": [2000.0, 8.0]}}}, 0.0)
    4500.0
    """
    by = row.get("expected_start")
    by = math.inf if by is None or by <= now else float(by)
    known = memory.get("latest") or {}
    if known and now - known["at"] <= OLD_S:
        last, procs = known["new"].get(str(row["partition_id"] or ""), known["new"].get("", (math.inf, math.inf)))
        last = last if float(row.get("req_procs") or 1.0) <= procs else math.inf
        by = min(by, float(known["jobs"].get(str(row.get("row")), last)))
    return with_margin(by, now)


def with_margin(by: float, now: float) -> float:
    """Return the instant `by` plus the margin, which grows with the wait from `now` until `by`.

    >>> with_margin(1000.0, 0.0)
    5100.0
    """
    wait = max(by - now, 0.0)
    return now + wait + MARGIN_SHARE * wait + MARGIN_S


def capped(prediction: Prediction, wait_s: float) -> Prediction:
    """Limit a predicted wait to `wait_s` seconds. If the limit changes the prediction, the prediction's basis says so.

    >>> wait = Prediction(50.0, (0.1, 0.9), (10.0, 900.0), "recent waits")
    >>> capped(wait, 300.0).quantiles, capped(wait, 300.0).basis == "recent waits" + CUT, capped(wait, 900.0) is wait
    ((10.0, 300.0), True, True)
    """
    if max((prediction.point, *prediction.quantiles)) <= wait_s:
        return prediction
    most = max(wait_s, 1.0)
    quantiles = tuple(min(one, most) for one in prediction.quantiles)
    return replace(prediction, point=min(prediction.point, most), quantiles=quantiles, basis=with_cut(prediction.basis))


def with_cut(basis: str) -> str:
    """Return the basis of an answer with a note that the answer was limited; the note is added only once."""
    return basis if basis.endswith(CUT) else f"{basis}{CUT}"


_RESTS_ON = {
    Grounds.SIMULATION: "a simulation of the queue and the running jobs",
    Grounds.MODEL: "a model of the waits of such jobs on this cluster",
    Grounds.CLASS: "past waits of such jobs on this cluster",
    Grounds.OWN_HISTORY: "past waits of this user's jobs on this cluster",
    Grounds.EVERYONE: "past waits of jobs on this cluster",
    NOTHING: "too few such jobs have started so far",
}


def basis_of(wait: Prediction, more: str = "") -> OfOthers:
    """Return the text on what a predicted wait is based. The full text counts the jobs ahead, which could reveal other
    users' jobs.

    >>> from batchcast.predict.protocol import Grounds
    >>> from batchcast.service.answers.disclosure import disclosed
    >>> disclosed(basis_of(Prediction(5.0, basis="behind 40 jobs", grounds=Grounds.MODEL)), hidden=True)
    'a model of the waits of such jobs on this cluster'
    """
    instead = _RESTS_ON.get(wait.grounds, "the present queue") + CUT * wait.basis.endswith(CUT)
    return OfOthers(wait.basis + more, instead + more)


def spread_of(prediction: Prediction, waited: float = 0.0) -> tuple[float, float, float]:
    """Return the median and the 10 % and 90 % quantiles of a prediction for a job that has waited (or run) for `waited`
    seconds. The quantiles are NaN for a prediction without quantiles.

    >>> spread_of(Prediction(100.0, (0.1, 0.5, 0.9), (10.0, 100.0, 500.0))), spread_of(Prediction(100.0))
    ((100.0, 10.0, 500.0), (100.0, nan, nan))
    """
    given = given_waited(prediction, waited, (0.5, 0.1, 0.9))
    _, early, late = given.quantiles if given.levels else (math.nan,) * 3
    return given.point, early, late


SOONER, LATER = "sooner", "later"
SINGULAR = {
    "early": "a job of %(procs)s processors ended %(time)s early: %(by)s sooner",
    "left": "a job ahead of it left the queue: %(by)s sooner",
    "late": "a job of %(procs)s processors runs %(time)s longer than predicted: %(by)s later",
    "came": "a job of higher priority was submitted: %(by)s later",
    "nodes": "node %(nodes)s is drained or down: %(by)s later",
    "back": "node %(nodes)s is back: %(by)s sooner",
}
PLURAL = {
    "early": "%(jobs)s jobs ended early, the largest with %(procs)s processors by %(time)s: %(by)s sooner",
    "left": "%(jobs)s jobs ahead of it left the queue: %(by)s sooner",
    "late": "%(jobs)s jobs run longer than predicted, the largest with %(procs)s processors by %(time)s: %(by)s later",
    "came": "%(jobs)s jobs of higher priority were submitted: %(by)s later",
    "nodes": "nodes %(nodes)s are drained or down: %(by)s later",
    "back": "nodes %(nodes)s are back: %(by)s sooner",
}
HIDDEN = {cause: re.sub(r"%\(jobs\)s |, the largest.*%\(time\)s", "", text) for cause, text in PLURAL.items()}
"""The sentences of `PLURAL` without figures about other users' jobs."""
UNEXPLAINED = {way: f"%(by)s {way}; no event in the queue explains it" for way in (SOONER, LATER)}
PASSED = "the likely start time has passed: %(by)s later"
MANY_PROCESSORS, ONE_PROCESSOR = "%(procs)s processors", "one processor"
MAINTENANCE = (
    "the maintenance %(name)s begins at %(begin)s. With a time limit of at most %(limit)s the job can start before "
    "that; otherwise it probably waits until %(end)s"
)
RESERVED = MAINTENANCE.replace("the maintenance", "the reservation")
SENTENCES: tuple[str, ...] = (PASSED, MAINTENANCE, RESERVED)
SENTENCES += tuple(dict.fromkeys(text for table in (SINGULAR, PLURAL, HIDDEN, UNEXPLAINED) for text in table.values()))
SENTENCES += tuple(text.replace(MANY_PROCESSORS, ONE_PROCESSOR) for text in SENTENCES if MANY_PROCESSORS in text)


def moved(why: str | None) -> dict[str, Any]:
    """Return three fields about a predicted start that moved: the reason in words, the change (s), and since when
    (epoch seconds).

    >>> from batchcast.service.answers.disclosure import disclosed
    >>> early = '{"by_s": -2400, "since": 5, "cause": "early", "jobs": 1, "procs": 512, "seconds": 10800}'
    >>> disclosed(moved(early), hidden=False)
    {'why_it_moved': 'a job of 512 processors ended 3 h early: 40 min sooner', 'moved_by_s': -2400, 'moved_since_s': 5}
    >>> late = '{"by_s": 300, "since": 5, "cause": "late", "jobs": 1, "procs": 1, "seconds": 90}'
    >>> disclosed(moved(late), hidden=False)["why_it_moved"]
    'a job of one processor runs 1 min 30 s longer than predicted: 5 min later'
    >>> disclosed(moved('{"by_s": 1500, "since": 5, "cause": "came", "jobs": 5}'), hidden=True)["why_it_moved"]
    'jobs of higher priority were submitted: 25 min later'
    """
    if not why:
        return {"why_it_moved": "", "moved_by_s": math.nan, "moved_since_s": math.nan}
    reason = json.loads(why)
    cause, by, is_one = reason["cause"], span(abs(reason["by_s"])), reason.get("jobs") == 1
    sentence: Any
    if not cause:
        sentence = Sentence(UNEXPLAINED[SOONER if reason["by_s"] < 0 else LATER], by=by)
    elif cause == "passed":
        sentence = Sentence(PASSED, by=by)
    elif "nodes" in reason:
        sentence = Sentence((SINGULAR if is_one else PLURAL)[cause], nodes=reason["nodes"], by=by)
    else:
        figures, text = {"jobs": f"{reason['jobs']:,}", "by": by}, (SINGULAR if is_one else PLURAL)[cause]
        if "procs" in reason:
            figures |= {"procs": f"{reason['procs']:,g}", "time": span(reason["seconds"])}
            text = text.replace(MANY_PROCESSORS, ONE_PROCESSOR) if reason["procs"] == 1 else text
        sentence = OfOthers(Sentence(text, **figures), Sentence(HIDDEN[cause], by=by))
    return {"why_it_moved": sentence, "moved_by_s": reason["by_s"], "moved_since_s": reason["since"]}


SPANS_S = {"10_min": 600.0, "1_hour": 3600.0, "4_hours": 14400.0, "1_day": 86400.0}
"""An answer gives the probability that the job starts within each of these times (s)."""


RESERVED_UNTIL = "the end of the reservation"
UNKNOWN_HOLD = "the end of the limit or reservation that holds it"
NODES_AWAY = (
    "no answer until an administrator acts: there is no reservation, so the nodes that the job needs are down or "
    "drained"
)


class Release(NamedTuple):
    """The end of a hold on a job: likely and latest time (epoch seconds), the event that ends it, and the basis, in
    words.
    """

    likely: float
    latest: float
    until: str
    basis: Any


def release(site: Site, row: Row) -> Release | None:
    """Return when a reservation or a limit stops holding this waiting job, as far as known; None if neither
    holds it.
    """
    ways = {Rule.RESERVATION: _behind_reservation, Rule.LIMIT: _limit}
    way = ways.get(rule(row["reason"] or ""))
    return way and way(site, row)


def _reservation(site: Site, row: Row) -> Release:
    """Return when the reservation that holds a job ends or, if the job requested the reservation, when it begins."""
    known = [r for r in site.memory.get("reservations") or [] if r["start"] == r["start"] and r["end"] == r["end"]]
    own = next((r for r in known if r["name"] == row.get("reservation")), None)
    if own is not None:
        begin = max(own["start"], site.now)
        return Release(begin, begin, f"the start of reservation {own['name']}", f"reservation {own['name']}")
    ahead = [r for r in known if r["end"] > site.now]
    if ends := [r["end"] for r in ahead if r["maintenance"]] or [r["end"] for r in ahead]:
        return Release(min(ends), max(ends), RESERVED_UNTIL, "the reservations that scontrol shows")
    until, basis = "the end of a reservation whose name is not known", "a reservation"
    # Slurm 24.11 and later also give the reason ReqNodeNotAvail for drained nodes
    if reason_name(row["reason"]) == "ReqNodeNotAvail":
        until, basis = "an administrator's action", NODES_AWAY
    return Release(math.nan, math.nan, until, basis)


SETTLE_S, STEP_S = 600.0, 300.0
"""Seconds that the scheduler needs to start a job with a shortened limit, and the step of suggested limits (s)."""


def fits_before(reservations: Sequence[Mapping[str, Any]], limit_s: float, now: float) -> Sentence | str:
    """Return a sentence with the time limit that lets a job start before a coming reservation; "" if no limit does.

    The reservation is the first one that the job would overlap if it started now and ran to its time limit. The limit
    allows ten minutes for the scheduler to start the job, because the time before the reservation shrinks while the job
    waits.

    >>> friday = {"name": "power", "start": 90_000.0, "end": 120_000.0, "maintenance": True}
    >>> "a time limit of at most 1-00:50:00 the job can start before that" in fits_before([friday], 172_800.0, 0.0)
    True
    >>> fits_before([friday], 3600.0, 0.0)  # it ends before the maintenance begins
    ''
    """
    reach = now + (limit_s if limit_s > 0 else math.inf)
    ahead = [one for one in reservations if one["end"] > one["start"] > now and reach > one["start"]]
    first = min(ahead, key=itemgetter("start"), default=None)
    if first is None or (most := (first["start"] - now - SETTLE_S) // STEP_S * STEP_S) < STEP_S:
        return ""
    begin, end = (time.strftime("%Y-%m-%d %H:%M", time.localtime(first[key])) for key in ("start", "end"))
    text = MAINTENANCE if first["maintenance"] else RESERVED
    return Sentence(text, name=first["name"], begin=begin, limit=format_duration(most), end=end)


def _behind_reservation(site: Site, row: Row) -> Release:
    """Return when a job behind a reservation starts: after the reservation and the jobs of the partition that start
    first.

    The jobs that start first are simulated in order of priority without backfill, because all of them wait for the same
    reservation to end.
    """
    found, now = _reservation(site, row), site.now
    if found.until != RESERVED_UNTIL:
        return found
    partition = of_partition(site.memory, row["partition_id"])
    procs, node_procs = partition.get("procs") or site.memory.get("total_procs"), partition.get("node_procs") or 1.0
    if not procs or not row["partition_id"]:
        return found
    running, waiting = _open_jobs(site, partition=row["partition_id"])
    # jobs held by a limit or by their owner do not start before this job
    others = [job for job in waiting if rule(job["reason"] or "") in (Rule.MACHINE, Rule.RESERVATION)]
    ahead = sorted((job for job in others if queue_place(job) < queue_place(row)), key=queue_place)
    if not ahead:
        return found
    times = []
    for at_most, end in ((False, found.likely), (True, found.latest)):
        held = [(end_of(job, now, at_most), _processors(job, node_procs)) for job in running]
        holders = [(when, amount) for when, amount in held if when > end]
        back = max(float(procs) - sum(amount for _, amount in holders), 0.0)
        lengths = [(length_of(job, at_most), min(_processors(job, node_procs), float(procs))) for job in ahead]
        times.append(own_queue([(end, back), *holders], lengths, min(_processors(row, node_procs), float(procs)), end))
    whole = f"{found.basis}, and {len(ahead)} waiting jobs of {row['partition_id']} that go first"
    basis = OfOthers(whole, f"{found.basis}, and waiting jobs of {row['partition_id']} that go first")
    return Release(times[0], max(times), found.until, basis)


def _open_jobs(site: Site, **chosen: Any) -> tuple[list[Row], list[Row]]:
    """Return the running and the waiting jobs that the query `open_with` selects."""
    jobs = site.reader.ask("open_with", cluster=site.cluster, **chosen)
    return [job for job in jobs if job["start_time"] is not None], [job for job in jobs if job["start_time"] is None]


def _limit(site: Site, row: Row) -> Release:
    """Return when a limit stops holding a job: running jobs under the limit end, and earlier waiting jobs start."""
    name, now = reason_name(row["reason"]), site.now
    chosen, whose = _choice(name, row)
    holders, waiting = _open_jobs(site, **chosen)
    same = [job for job in waiting if reason_name(job["reason"] or "") == name]
    ahead = list(takewhile(lambda job: job["row"] != row["row"], same))
    until = "the end of jobs under the same limit"
    if not holders:
        return Release(math.nan, math.nan, until, f"no running job {whose} is known to count towards this limit")
    counted, times = next((column for part, column in _COLUMNS.items() if part in name.lower()), ""), []
    for at_most in (False, True):
        held = [(end_of(job, now, at_most), _amount(job, counted)) for job in holders]
        lengths = [(length_of(job, at_most), _amount(job, counted)) for job in ahead]
        times.append(own_queue(held, lengths, _amount(row, counted), now))
    whole = f"{len(holders)} running and {len(ahead)} waiting jobs {whose} come first under this limit"
    basis = OfOthers(whole, f"jobs {whose} come first under this limit")
    return Release(times[0], max(times), until, basis)


def own_queue(
    holders: Iterable[tuple[float, float]], ahead: Iterable[tuple[float, float]], amount: float, now: float
) -> float:
    """Return when an amount (of processors, say) is free for a job, if the jobs ahead get their amounts first, in
    order.

    `holders` are (end, amount) of running jobs, `ahead` are (length, amount) of waiting jobs; times are in seconds. O(n
    log n).

    >>> own_queue([(100.0, 1.0)], [(50.0, 1.0), (30.0, 1.0)], 1.0, 0.0)
    180.0
    """
    ends = list(holders)
    heapq.heapify(ends)
    free, start = 0.0, now
    for length, wanted in (*ahead, (math.inf, amount)):
        while free < wanted and ends:
            end, given_back = heapq.heappop(ends)
            free, start = free + given_back, max(start, end)
        free -= min(wanted, free)
        heapq.heappush(ends, (start + length, wanted))
    return start


def _choice(name: str, row: Row) -> tuple[dict[str, Any], str]:
    """Return which open jobs share the limit, as arguments of a query to the store and in words."""
    if name == "JobArrayTaskLimit":
        array = str(row["job_id"]).partition("_")[0]
        return {"tasks": f"{array}!_%"}, f"of array {array}"
    if name == "Licenses":
        licence = str(row["licenses"] or "").split(",")[0].partition(":")[0]
        pattern = licence.replace("!", "!!").replace("_", "!_").replace("%", "!%")
        return {"license": f"%{pattern}%"}, f"with licence {licence}"
    group = limit_of(name)
    if group != "user":
        return {group: row[group]}, f"of this {'QOS' if group == 'qos' else group}"
    return {"user": row["user_id"], **({"qos": row["qos"]} if name.startswith("QOS") else {})}, "of this user"


_COLUMNS = {"cpu": "req_procs", "node": "req_nodes", "mem": "req_mem_kib", "gres": "req_gpus", "licenses": "licenses"}
"""The column that a limit counts, by a part of the limit's name. Other limits count jobs."""


def _amount(job: Mapping[str, Any], column: str) -> float:
    """Return how much of a limit a job uses up."""
    if column == "licenses":
        count = str(job["licenses"] or "").split(",")[0].partition(":")[2]
        return float(count) if count.isdigit() else 1.0
    return float(job[column] or 1.0) if column else 1.0


def _processors(job: Mapping[str, Any], node_procs: float) -> float:
    """Return the processors that a job uses up while it runs: all processors of its nodes if the job is exclusive."""
    alone = (job["exclusive"] or 0.0) > 0
    return max(_amount(job, "req_procs"), alone * _amount(job, "req_nodes") * node_procs)


def length_of(job: Job, at_most: bool = False) -> float:
    """Return the predicted run time of a job, or its time limit if `at_most` is set (s); infinity if it is unknown."""
    longest = time_limit(job)
    return longest if at_most or job["run_point_s"] is None else min(float(job["run_point_s"]), longest)


def end_of(job: Job, now: float, at_most: bool = True) -> float:
    """Return when a running job ends: at its limit or, unless `at_most` is set, as predicted. A job that has run longer
    than predicted is assumed to end halfway between now and its limit.
    """
    begun = float(job["start_time"])
    latest, likely = max(begun + time_limit(job), now), math.nan if at_most else begun + length_of(job)
    if at_most or likely > now:
        return latest if at_most else likely
    return (now + latest) / 2 if math.isfinite(latest) else now


def start_settings(settings: Settings, now: float) -> dict[str, Any]:
    """Return the settings that an answer about start times shows."""
    store = {"store": settings.shown("store"), "scheduler": settings["scheduler"]}
    return {**store, "now_s": now, "track_record_days": 30}


def start_answer(
    row: Row, now: float, held: Release | None = None, latest: float = math.inf, reservations: Sequence[Row] = ()
) -> dict[str, Any]:
    """Return the fields of an answer about one waiting job: its start by the newest prediction, given the wait so far.

    Times are epoch seconds. The answer depends on the reason of the wait (`formats.slurm.reasons.Rule`). For a job that
    waits for the machine it is the prediction, at most `latest` (see `latest_start`). A job held by a
    reservation or a limit starts when this hold ends (`held`). If a job is held by its owner, a begin time or another
    job, the wait counts from the instant in `counts_from`; if that instant is unknown, only waits are given. A job that
    only an administrator can release, or that can never start, has no start. `why_it_moved` is given only for jobs that
    wait for the machine. `maintenance` gives the limit with which the job could start before one of the `reservations`.
    Values that count other users' jobs are `OfOthers` objects, which `disclosed` resolves.
    """
    row = {**newest(row)}
    reason = row["reason"] or ""
    kind, name = rule(reason), reason_name(reason)
    issued = as_prediction(row) if row["point_s"] is not None and row["grounds"] != NOTHING else None
    waited = max(now - row["submit_time"], 0.0) if kind is Rule.MACHINE else 0.0
    point, by_10, by_90 = (math.nan,) * 3 if issued is None else spread_of(issued, waited)
    at = math.nan if kind is Rule.ELIGIBLE else row["submit_time"]
    if name == "BeginTime" and row["eligible_time"] is not None:
        at = row["eligible_time"]
    basis: Any = row["basis"] if issued is None and row["basis"] else _basis(issued, waited, row)
    if kind in (Rule.NEVER, Rule.ADMIN):
        point = by_10 = by_90 = math.nan
        basis = "no answer until an administrator acts" if kind is Rule.ADMIN else "it cannot start as it is"
    elif kind in (Rule.RESERVATION, Rule.LIMIT):
        held = held or Release(math.nan, math.nan, UNKNOWN_HOLD, "the end of that condition is not known")
        point, by_10, by_90 = held.likely - at, math.nan, held.latest - at  # the earliest end of the hold is unknown
        basis = held.basis
    elif kind is Rule.MACHINE and max(point, by_90) > latest - at:
        point, by_10, by_90 = (min(value, latest - at) for value in (point, by_10, by_90))
        # the text for private sites also has the note
        hides = isinstance(basis, OfOthers)
        basis = OfOthers(with_cut(basis.whole), with_cut(basis.instead)) if hides else with_cut(str(basis))
    waits = {"by_10": by_10, "likely": point, "by_90": by_90}
    is_ahead = kind is Rule.RESERVATION and not row.get("reservation")
    shorter = fits_before(reservations, time_limit(row), now) if is_ahead else ""
    predicted = issued if kind is Rule.MACHINE else None
    return {
        "job_id": row["job_id"],
        "partition": row["partition_id"],
        "name": row["job_name"],
        "submit_time_s": row["submit_time"],
        "waited_s": max(now - row["submit_time"], 0.0),
        **{f"{which}_start_s": at + wait for which, wait in waits.items()},
        **{f"{which}_wait_s": wait for which, wait in waits.items()},
        **{
            f"chance_within_{name}": math.nan if predicted is None else chance_to_start(predicted, waited, seconds)
            for name, seconds in SPANS_S.items()
        },
        "counts_from": _counts_from(kind, name, held if kind in (Rule.RESERVATION, Rule.LIMIT) else None),
        "reason": reason,
        "reason_in_words": plain_reason(reason),
        "maintenance": shorter,
        "slurm_start_s": math.nan if row["expected_start"] is None or name == "BeginTime" else row["expected_start"],
        "basis": basis,
        "grounds": row["grounds"],
        "method": row["method"],
        "forecast_as_of_s": math.nan if issued is None else row.get("as_of", math.nan),
        **moved(row.get("renewed_why") if kind is Rule.MACHINE else None),
    }


def _counts_from(kind: Rule, name: str, held: Release | None) -> str:
    """Return the event from which the wait in an answer counts, in words."""
    if kind is Rule.ELIGIBLE:
        begins = {"Dependency": "the end of the jobs that it depends on", "BeginTime": "its begin time"}
        return begins.get(name, "its release")
    if held is not None:
        return held.until
    other = {Rule.NEVER: "never: it cannot start as it is", Rule.ADMIN: "an administrator's action"}
    return other.get(kind, "submission")


def _basis(issued: Prediction | None, waited: float, row: Row) -> Any:
    """Return what the predicted wait of a job is based on, and whether the wait so far is part of it."""
    if issued is None:
        return "no forecast was issued for this job yet: one comes within a minute"
    reach = max((q for q in issued.quantiles if math.isfinite(q)), default=issued.point)
    if waited > reach:
        more = ", so by how long such waits go on" if issued.levels else ""
        return basis_of(issued, f"; it has waited longer than that forecast reached{more}")
    renewed = (row.get("as_of") or -math.inf) > row["submit_time"]
    return basis_of(issued, "; given the time waited so far" if waited > 0 and not renewed else "")
