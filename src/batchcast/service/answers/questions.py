# SPDX-License-Identifier: Apache-2.0
"""Answers users' questions from a store, for the command line and the HTTP API, under the same privacy rules.

If the site hides jobs, users get answers about their own jobs, and figures over at least `least_users` users. Callers
without an identity get only these figures. Root and the user who runs the service get all answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import NoAnswer, Refused
from ...formats.slurm.reasons import Rule, rule
from ...store.reader import Row
from ...store.rows import NOTHING
from ...units import format_duration, span
from ..answers import track_record
from ..settings import Settings, is_private
from .accuracy import LIMIT, MEMORY, advice_record, calibration_verdicts
from .accuracy import accuracy as scores
from .advice import advise, as_request, with_limits_of_walltime, within_days
from .answer import Answer, Sentence, age_of, default_partition, of_partition, staleness
from .disclosure import Site, Viewer, Whose, disclosed, may_show, open_site, rounded, start_settings, whole_days
from .fair_share import pass_fields
from .hints import Hints, Like, QueueSnapshot
from .start import Release, latest_start, release, start_answer
from .track_record import RecordKey, TrackRecord

NOT_YET = Sentence("the accuracy of such predictions is being computed: ask again in a minute")


def start_from_store(
    settings: Settings,
    ids: Sequence[str],
    user: str | None,
    viewer: Viewer,
    now: float,
    cached_records: Mapping[RecordKey, TrackRecord] | None = None,
) -> Answer:
    """Predict when waiting jobs start, selected by id, by user, or by both. Raises NoStore if there is no collector.

    Track records in `cached_records` are reused, because computing one reads a month of predictions.
    """
    with open_site(settings, viewer, now) as site:
        if user is not None or viewer.name is None:
            site.check_may_see(user)
        method = track_record.answering_method(site.memory)
        rows = site.reader.waiting(site.cluster, method, ids, user)
        if site.private:
            rows = [row for row in rows if row["user_id"] == viewer.name]
        if not rows:
            raise _not_waiting(site, ids, user)
        records = cached_records
        if records is None:
            parts = {row["partition_id"] for row in rows}
            records = {(part, site.least): track_record.record_of(site, part) for part in parts}
        return _of_waiting(site, rows, [release(site, row) for row in rows], records)


def start_from_snapshot(
    settings: Settings, queue: QueueSnapshot, ids: Sequence[str], user: str | None, viewer: Viewer, now: float
) -> Answer | None:
    """Answer from the queue in memory; None if the answer needs the store, to explain a refusal or a wait."""
    hidden = is_private(settings, queue.memory) and not viewer.sees_all
    if hidden and (user is not None or viewer.name is None) and viewer.name != user:
        return None
    store_stays_closed: Any = None
    site = Site(store_stays_closed, queue.cluster, queue.memory, hidden, settings, viewer, now)
    rows = [row for row in queue.waiting(ids, user) if not hidden or row["user_id"] == viewer.name]
    # a limit that other jobs use up, and a reservation, can be explained only from the store
    if not rows or any(rule(row["reason"] or "") in (Rule.LIMIT, Rule.RESERVATION) for row in rows):
        return None
    return _of_waiting(site, rows, [None] * len(rows), queue.records)


def _of_waiting(
    site: Site, rows: Sequence[Row], holds: Sequence[Release | None], records: Mapping[RecordKey, TrackRecord]
) -> Answer:
    """Return the answer about waiting jobs, each with the end of its hold (`holds`) and its partition's track record.

    If `records` does not have the track record of a partition yet, a warning says so.
    """
    now, results = site.now, []
    keys = [(row["partition_id"], site.least) for row in rows]
    for row, key, held in zip(rows, keys, holds):
        answer = answer_of_waiting(row, site.memory, now, held)
        record = track_record.record_fields(records.get(key, {}), answer["likely_wait_s"])
        results.append(site.disclosed({**answer, **record}))
    stale = staleness(site.memory, now) or age_of(results, now)
    if all(r["method"] is None for r in results):
        hint = f"the collector makes a prediction within one interval; {'; '.join(stale or ['it is up to date'])}"
        raise NoAnswer(f"there is no prediction for {', '.join(r['job_id'] for r in results[:5])} yet", hint=hint)
    unknown = (math.isnan(r["likely_wait_s"]) and r["grounds"] == NOTHING for r in results)
    if all(unknown) and all(rule(r["reason"]) in (Rule.MACHINE, Rule.ELIGIBLE) for r in results):
        raise NoAnswer(
            f"too little history on {site.cluster}: no job like {results[0]['job_id']} has started yet",
            hint="ask again when some jobs have started; batchcast start --start shows Slurm's own estimate",
        )
    notes = stale if all(key in records for key in keys) else [*stale, NOT_YET]
    return Answer({"cluster": site.cluster}, start_settings(site.settings, now), notes, results)


def answer_of_waiting(row: Row, memory: Mapping[str, Any], now: float, held: Release | None) -> dict[str, Any]:
    """Return the answer about a waiting job, with the time when its priority exceeds those of the jobs before it."""
    start = start_answer(row, now, held, latest_start(row, memory, now), memory.get("reservations") or [])
    return {**start, **pass_fields(memory, row["job_id"], now)}


def _not_waiting(site: Site, ids: Sequence[str], user: str | None) -> NoAnswer:
    """Return an error that says what happened to jobs that do not wait, as far as this viewer may see it."""
    if not ids:
        why = f"no job of {user} is waiting in {site.cluster}, as far as the collector knows"
        return NoAnswer(why, hint="a job just submitted appears within a minute")
    for row in (row for job_id in ids for row in site.reader.ask("latest_run", cluster=site.cluster, job_id=job_id)):
        if site.private and row["user_id"] != site.viewer.name:
            continue
        ago = span(max(site.now - row["start_time" if row["open"] else "end_time"], 0.0))
        doing, hint = f"it ended ({row['status']}) {ago} ago", "batchcast report shows what it used"
        if row["open"]:
            is_running, hint = row["state"] == "running", "squeue shows it"
            doing = f"it has run for {ago}" if is_running else f"it started {ago} ago and is {row['state']} now"
        return NoAnswer(f"job {row['job_id']} is not waiting: {doing}", hint=hint)
    return NoAnswer(
        f"job {', '.join(ids)} is not waiting in {site.cluster}, as far as the collector knows",
        hint="squeue shows whether it runs or has ended; a job just submitted appears within a minute",
    )


def walltime(
    settings: Settings,
    what: str | None,
    glob: str | None,
    user: str,
    viewer: Viewer,
    risk: float,
    now: float,
    options: Mapping[str, str] | None = None,
) -> Answer:
    """Suggest a time limit and memory for the next similar job, with reasons.

    The job is given by `what` (a job id or a script), by a pattern of names (`glob`), or by sbatch's `options`.
    """
    with open_site(settings, viewer, now) as site:
        return walltime_of(site, what, glob, user, risk, options)


def walltime_of(
    site: Site, what: str | None, glob: str | None, user: str, risk: float, options: Mapping[str, str] | None = None
) -> Answer:
    """Answer `walltime` from a store that is already open."""
    answer = advise(site, what, glob, user, risk, options)
    shown: dict[str, Any] = {"risk": risk}
    shown |= {name: format_duration(site.settings[name]) for name in ("limit_floor", "limit_step", "limit_most")}
    shown |= {name: as_request(site.settings[name]) for name in ("memory_floor", "memory_step")}
    shown["similar_within_days"] = within_days(site)
    return site.answer(shown, [answer])


def hint(
    settings: Settings, cluster: str, memory: dict[str, Any], hints: Hints, like: Like, viewer: Viewer, now: float
) -> Answer:
    """Answer at a submission, from memory: limit, memory and likely start of a similar job. The user in the setting
    `submit_from` may ask on behalf of every user.
    """
    hidden = is_private(settings, memory) and not viewer.sees_all
    if hidden and viewer.name not in (like.user, settings["submit_from"]):
        raise Refused("jobs are private here", hint="hints about your own jobs")
    partition = like.partition or default_partition(memory)
    like = like._replace(partition=partition)
    if viewer.sees_all or viewer.name == like.user:
        hints.others.wrote(like)
    found = hints.about(like, now, of_partition(memory, partition))
    asked = {"partition_id": partition, "req_procs": like.procs, "expected_start": None}
    latest = latest_start(asked, memory, now)
    found |= {name: min(found[name], latest) for name in ("likely_start_s", "by_90_start_s")}
    return Answer({"cluster": cluster}, {"like": like._asdict()}, [], disclosed([found], hidden))


def accuracy(
    settings: Settings, since: float, until: float, partition: str | None, viewer: Viewer, now: float
) -> Answer:
    """Compare predictions made in [since, until), epoch seconds, with their outcomes, and judge their reliability."""
    with open_site(settings, viewer, now) as site:
        least = site.least
        if site.private:
            since, until = whole_days(since, until)
        results = scores(site.reader, site.cluster, since, until, partition, least, now)
        if not results:
            why = f"no prediction of {site.cluster} in that time{f' by {least} users or more' if least > 1 else ''}"
            raise NoAnswer(why, hint="choose an earlier -S, or let the collector run a while")
        shown = {
            "store": settings.shown("store"),
            "starttime_s": since,
            "endtime_s": until,
            "partition": partition,
            "least_users": least,
            "belief": calibration_verdicts(site, partition),
            "arms": _arms(site, since, until) if partition is None else [],
            "who_pays": who_pays(site, since, until) if partition is None else [],
            "limits": advice_record(site, LIMIT, since, until, partition),
            "memory": advice_record(site, MEMORY, since, until, partition),
        }
        return site.answer(shown, results)


def _arms(site: Site, since: float, until: float) -> list[dict[str, Any]]:
    """Return the two arms of the planning trial. Without a trial the list is empty, and NumPy is not imported."""
    if not 0 < site.settings["plan_percent"] < 100:
        return []
    from .who_pays import arms

    return arms(site.reader, site.cluster, site.settings, since, until, site.least)


def who_pays(site: Site, since: float, until: float) -> list[dict[str, Any]]:
    """Return whose waits the planned order changes. Without a planned order the list is empty, and NumPy is not
    imported.
    """
    if site.settings["plan"] not in ("order", "both"):
        return []
    from .who_pays import who_pays as simulated

    return simulated(site, since, until)


def report(settings: Settings, who: Whose, since: float, until: float, viewer: Viewer, now: float) -> Answer:
    """Return what finished jobs requested and used. The answer's setting `advice` has the suggestions."""
    with open_site(settings, viewer, now) as site:
        return report_of(site, who, since, until)


def report_of(site: Site, who: Whose, since: float, until: float) -> Answer:
    """Answer `report` from a store that is already open."""
    from .usage import advise_requests, summary

    settings, viewer = site.settings, site.viewer
    hidden = site.private and (who.user is None or who.user != viewer.name)
    if hidden and who.user is not None:
        site.check_may_see(who.user)
    since, until = whole_days(since, until) if hidden else (since, until)
    least = settings["least_users"] if hidden else 1
    rows = site.used(who, since, until, least)
    by = "partition_id" if hidden else "job_name" if who.user else "user_id"
    if hidden and not may_show(rows, least):
        why = f"jobs are private here, and no complete day of that time has jobs of {least} users"
        raise NoAnswer(why, hint="choose an earlier -S, or ask for your own jobs")
    if not rows:
        why = f"no finished job of {who.user or who.account or who.partition} in that time"
        raise NoAnswer(why, hint="an earlier -S, e.g. -S now-90days")
    results = summary(rows, by)
    if hidden:
        shown_names = {name or "-" for (name,), group in rows.grouped(by) if may_show(group, least)}
        results = [rounded(r) for r in results if r[by] in shown_names]
    advised = [] if hidden else advise_requests(rows, settings["limit_floor"], settings["limit_step"])
    shown = {
        "store": settings.shown("store"),
        **who._asdict(),
        "starttime_s": since,
        "endtime_s": until,
        "by": by,
        "advice": [] if hidden else with_limits_of_walltime(site, advised) if who.user else advised,
    }
    return site.answer(shown, results)
