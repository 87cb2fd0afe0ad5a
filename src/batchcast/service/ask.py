"""The users' questions, answered from a store: for the command line and the HTTP API alike, under one privacy rule.

Where the site hides jobs, a user gets answers about own jobs, and figures only over at least `least_users` users;
somebody without an identity gets such figures alone; root and whoever runs the service gets everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import NoAnswer, Refused
from ..formats.reasons import Rule, rule
from ..store.issued import NOTHING
from ..store.packed import Packed
from ..store.reader import Reader, Row
from ..units import format_duration
from . import answers
from .accuracy import accuracy as scores
from .document import Said
from .hidden import DAY_S, days_over, rounded, whole_days
from .queue import Queue, needs_store
from .records import Part, Record
from .release import Release, release
from .sentence import Sentence
from .settings import Settings, is_private
from .staleness import staleness

if TYPE_CHECKING:
    from .hints import Hints, Like

NOT_YET = Sentence("how such answers have come out here is being worked out: ask again in a minute")


class Asker(NamedTuple):
    """Who asks: a user's name (None: nobody knows), and whether the person may see every job anyhow."""

    name: str | None
    sees_all: bool = False


class Who(NamedTuple):
    """Whose finished jobs: of a user, an account, a partition, or any of these together."""

    user: str | None = None
    account: str | None = None
    partition: str | None = None


class Site(NamedTuple):
    """An open store, the cluster asked about, what the collector remembers of it, and whether jobs are hidden."""

    reader: Reader
    cluster: str
    memory: dict[str, Any]
    private: bool


@contextmanager
def open_site(settings: Settings, asker: Asker, site: Site | None = None) -> Iterator[Site]:
    """The store of the settings as this asker may see it; closed again, unless it was given."""
    if site is not None:
        yield site
        return
    reader = Reader(settings["store"])
    try:
        cluster = answers.choose_cluster(reader, settings["cluster"] or None)
        memory = reader.memory(cluster)
        yield Site(reader, cluster, memory, is_private(settings, memory) and not asker.sees_all)
    finally:
        reader.close()


def check_may_see(site: Site, asker: Asker, user: str | None) -> None:
    """Refused, where jobs are hidden, to anybody but their owner."""
    if site.private and (user is None or asker.name != user):
        who = asker.name or "somebody unknown"
        raise Refused(f"jobs are private here: {who} may not see those of {user or 'everybody'}",
                      hint="your own jobs, or accuracy and report -p for figures over several users")  # fmt: skip


def start(
    settings: Settings,
    ids: Sequence[str],
    user: str | None,
    asker: Asker,
    now: float,
    known: Mapping[Part, Record] | None = None,
) -> Said:
    """When waiting jobs start: by id, of a user, or both. NoStore where nobody collects.

    Track records that are `known` are not worked out again: they go over a month.
    """
    with open_site(settings, asker) as site:
        if user is not None or asker.name is None:
            check_may_see(site, asker, user)
        method = answers.answering_method(site.memory)
        rows = site.reader.waiting(site.cluster, method, ids, user)
        if site.private:
            rows = [row for row in rows if row["user_id"] == asker.name]
        if not rows:
            raise _not_waiting(site, ids, user, asker, now)
        least = settings["least_users"] if site.private else 1
        records = {
            partition: answers.record_of(site.reader, site.cluster, site.memory, partition, least, now, known)
            for partition in {row["partition_id"] for row in rows}
        }
        releases = {row["row"]: release(site.reader, site.cluster, site.memory, row, now) for row in rows}
        said = _said(settings, site.cluster, site.memory, rows, records, releases, now)
        return said if known is None else noted(said, {(part, least) for part in records}, known)


def from_memory(
    settings: Settings, queue: Queue, ids: Sequence[str], user: str | None, asker: Asker, now: float
) -> Said | None:
    """As `start`, from a queue held in memory, or None where it takes the store (to say why not, to look further)."""
    hidden = is_private(settings, queue.memory) and not asker.sees_all
    if hidden and (user is not None or asker.name is None) and asker.name != user:
        return None
    rows = queue.waiting(ids, user)
    if hidden:
        rows = [row for row in rows if row["user_id"] == asker.name]
    if not rows or any(needs_store(row) for row in rows):
        return None
    least = settings["least_users"] if hidden else 1
    records = {row["partition_id"]: queue.records.get((row["partition_id"], least), {}) for row in rows}
    said = _said(settings, queue.cluster, queue.memory, rows, records, {}, now)
    return noted(said, {(part, least) for part in records}, queue.records)


def noted(said: Said, parts: Set[Part], known: Mapping[Part, Record]) -> Said:
    """The answer, with a word where a track record that it quotes is not known yet."""
    return said._replace(warnings=[*said.warnings, NOT_YET]) if parts - known.keys() else said


def _said(
    settings: Settings,
    cluster: str,
    memory: dict[str, Any],
    rows: Sequence[Row],
    records: Mapping[str, Record],
    releases: Mapping[int, Release | None],
    now: float,
) -> Said:
    results = [
        {
            **answers.start_answer(row, now, releases.get(row["row"])),
            **answers.shown(records[row["partition_id"]]),
        }
        for row in rows
    ]
    stale = staleness(memory, now)
    if all(r["method"] is None for r in results):
        raise NoAnswer(f"no forecast has been issued for {', '.join(r['job_id'] for r in results[:5])} yet",
                       hint="the collector issues one within an interval; "
                       + "; ".join(stale or ["it is up to date"]))  # fmt: skip
    unknown = (math.isnan(r["likely_wait_s"]) and r["grounds"] == NOTHING for r in results)
    if all(unknown) and all(rule(r["reason"]) in (Rule.MACHINE, Rule.ELIGIBLE) for r in results):
        raise NoAnswer(
            f"too little history on {cluster}: no job like {results[0]['job_id']} has started yet",
            hint="ask again when some jobs have started; batchcast start --start shows Slurm's own estimate",
        )
    return Said({"cluster": cluster}, start_settings(settings, now), stale, results)


def start_settings(settings: Settings, now: float) -> dict[str, Any]:
    """What an answer about starts rests on."""
    return {
        "store": settings.shown("store"), "scheduler": settings["scheduler"], "now_s": now, "track_record_days": 30,
    }  # fmt: skip


def _not_waiting(site: Site, ids: Sequence[str], user: str | None, asker: Asker, now: float) -> NoAnswer:
    """What became of jobs that do not wait, as far as this asker may know it."""
    if not ids:
        return NoAnswer(f"no job of {user} is waiting in {site.cluster}, as far as the collector knows",
                        hint="a job just submitted appears within a minute")  # fmt: skip
    for row in answers.latest_runs(site.reader, site.cluster, ids):
        if site.private and row["user_id"] != asker.name:
            continue
        if row["open"]:
            ago = format_duration(max(now - row["start_time"], 0.0))
            doing = f"it started {ago} ago and is {row['state']} now"
            if row["state"] == "running":
                doing = f"it has run for {ago}"
            return NoAnswer(f"job {row['job_id']} is not waiting: {doing}", hint="squeue shows it")
        ago = format_duration(max(now - row["end_time"], 0.0))
        return NoAnswer(f"job {row['job_id']} is not waiting: it is over ({row['status']}) since {ago}",
                        hint="batchcast report shows what it used")  # fmt: skip
    return NoAnswer(
        f"job {', '.join(ids)} is not waiting in {site.cluster}, as far as the collector knows",
        hint="squeue shows whether it runs or is gone; a job just submitted appears within a minute",
    )


def walltime(
    settings: Settings,
    what: str | None,
    glob: str | None,
    user: str,
    asker: Asker,
    risk: float,
    now: float,
    site: Site | None = None,
) -> Said:
    """A limit and a memory request for the next job like these; the sentences that say why are among the results."""
    from .limits import advise
    from .memory import as_request

    with open_site(settings, asker, site) as site:
        answer = advise(settings, site, what, glob, user, asker, risk, now)
        shown = {
            "risk": risk,
            "limit_floor": format_duration(settings["limit_floor"]),
            "limit_step": format_duration(settings["limit_step"]),
            "limit_most": format_duration(settings["limit_most"]),
            "memory_floor": as_request(settings["memory_floor"]),
            "memory_step": as_request(settings["memory_step"]),
            "similar_within_days": 180,
        }
        return Said({"cluster": site.cluster}, shown, staleness(site.memory, now), [answer])


def hint(
    settings: Settings, cluster: str, memory: dict[str, Any], hints: Hints, like: Like, asker: Asker, now: float
) -> Said:
    """What a job that is being submitted can be told at once: one's own, or, asked by `submit_from`, anybody's."""
    if is_private(settings, memory) and not asker.sees_all and asker.name not in (like.user, settings["submit_from"]):
        raise Refused("jobs are private here", hint="hints about your own jobs")
    from .advice import of_partition

    partition = like.partition or _default_partition(memory)
    like = like._replace(partition=partition)
    return Said(
        {"cluster": cluster}, {"like": like._asdict()}, [], [hints.about(like, now, of_partition(memory, partition))]
    )


def _default_partition(memory: Mapping[str, Any]) -> str:
    partitions = (memory.get("site") or {}).get("partitions") or {}
    return next((name for name, fields in partitions.items() if fields.get("is_default")), "")


def accuracy(settings: Settings, since: float, until: float, partition: str | None, asker: Asker, now: float) -> Said:
    """Our own forecasts as of [since, until), epoch seconds, against what happened, and how far to believe them."""
    from .advice_record import LIMIT, MEMORY, advice_record
    from .believe import believed

    with open_site(settings, asker) as site:
        least = settings["least_users"] if site.private else 1
        if site.private:
            since, until = whole_days(since, until)
        results = scores(site.reader, site.cluster, since, until, partition, least, now)
        if not results:
            raise NoAnswer(
                f"no forecast of {site.cluster} in that time" + (f" by {least} users or more" if least > 1 else ""),
                hint="an earlier -S, or let the collector run a while",
            )
        shown = {
            "store": settings.shown("store"),
            "starttime_s": since,
            "endtime_s": until,
            "partition": partition,
            "least_users": least,
            "belief": believed(settings, asker, partition, now),
            "arms": _arms(settings, site, since, until, least) if partition is None else [],
            **{
                name: advice_record(site.reader, site.cluster, of, since, until, partition, least, now)
                for name, of in (("limits", LIMIT), ("memory", MEMORY))
            },
        }
        return Said({"cluster": site.cluster}, shown, staleness(site.memory, now), results)


def _arms(settings: Settings, site: Site, since: float, until: float, least: int) -> list[dict[str, Any]]:
    """The arms of a trial of planning; numpy is loaded where there is one."""
    if not 0 < settings["plan_percent"] < 100:
        return []
    from .plan_arms import arms

    return arms(site.reader, site.cluster, settings, since, until, least)


def used(site: Site, who: Who, since: float, until: float, least: int, now: float, statement: str = "used") -> Packed:
    """Finished jobs of a span: where figures must be of several users, of such days that are over alone.

    By `statement`: all of them (`used`), or those whose memory was measured (`used_memory`).
    """
    chosen = {"cluster": site.cluster, "since": since, "until": until, **who._asdict()}
    if least <= 1:
        return Packed(site.reader.each(statement, **chosen))
    several = days_over(site.reader.each(statement, **chosen), "end_time", least, now)
    return Packed(row for row in site.reader.each(statement, **chosen) if row["end_time"] // DAY_S in several)


def report(
    settings: Settings, who: Who, since: float, until: float, asker: Asker, now: float, site: Site | None = None
) -> Said:
    """What finished jobs asked for and used; the advice is under `advice` of the settings."""
    from .usage import advice, summary

    with open_site(settings, asker, site) as site:
        own = site.private and who.user == asker.name and asker.name is not None
        hidden = site.private and not own
        if hidden:
            since, until = whole_days(since, until)
        if who.user is not None and hidden:
            check_may_see(site, asker, who.user)
        least = settings["least_users"]
        rows = used(site, who, since, until, least if hidden else 1, now)
        by = "partition_id" if hidden else "job_name" if who.user else "user_id"
        if hidden and len({row["user_id"] for row in rows}) < least:
            raise NoAnswer(
                f"jobs are private here, and no day of that time that is over has jobs of {least} users",
                hint="an earlier -S, or your own jobs",
            )
        if not rows:
            raise NoAnswer(
                f"no finished job of {who.user or who.account or who.partition} in that time",
                hint="an earlier -S, e.g. -S now-90days",
            )
        results = summary(rows, by)
        if hidden:
            results = [rounded(r) for r in results if r["users"] >= least]
        floor, step = settings["limit_floor"], settings["limit_step"]
        shown = {
            "store": settings.shown("store"),
            **who._asdict(),
            "starttime_s": since,
            "endtime_s": until,
            "by": by,
            "advice": [] if hidden else advice(rows, floor, step),
        }
        return Said({"cluster": site.cluster}, shown, staleness(site.memory, now), results)
