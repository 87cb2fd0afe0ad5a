"""The users' questions, answered from a store: for the command line and the HTTP API alike, under one privacy rule.

Where the site hides jobs, a user gets answers about own jobs, and figures only over at least `least_users` users;
somebody without an identity gets such figures alone; root and whoever runs the service gets everything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..errors import NoAnswer, Refused, UsageError
from ..store.reader import Reader
from ..units import format_duration, parse_duration
from . import answers
from .accuracy import accuracy as scores
from .document import Said
from .settings import Settings


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


def is_private(settings: Settings, memory: dict[str, Any]) -> bool:
    """Whether users must not see each other's jobs: as set, else as the site's PrivateData says."""
    if settings["private"] in ("yes", "no"):
        return bool(settings["private"] == "yes")
    return bool(memory.get("site", {}).get("private"))


def share(text: str) -> float:
    """A share of jobs: 5% or 0.05.

    >>> share("5%"), share("0.1")
    (0.05, 0.1)
    """
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise UsageError(f"{text!r} is not a share (accepted: 5%, 0.05)")
    return value


def check_may_see(site: Site, asker: Asker, user: str | None) -> None:
    """Refused, where jobs are hidden, to anybody but their owner."""
    if site.private and (user is None or asker.name != user):
        who = asker.name or "somebody unknown"
        raise Refused(f"jobs are private here: {who} may not see those of {user or 'everybody'}",
                      hint="your own jobs, or accuracy and report -p for figures over several users")  # fmt: skip


def start(settings: Settings, ids: Sequence[str], user: str | None, asker: Asker, now: float) -> Said:
    """When waiting jobs start: by id, of a user, or both. NoStore where nobody collects."""
    with open_site(settings, asker) as site:
        if user is not None or asker.name is None:
            check_may_see(site, asker, user)
        method = answers.answering_method(site.memory)
        rows = answers.waiting_jobs(site.reader, site.cluster, ids, user, method)
        if site.private:
            rows = [row for row in rows if row["user_id"] == asker.name]
        if not rows:
            raise _not_waiting(site, ids, user, asker, now)
        least = settings["least_users"] if site.private else 1
        since = now - answers.TRACK_RECORD_S
        records = {
            partition: answers.track_record(site.reader, site.cluster, partition, method, since, least)
            for partition in {row["partition_id"] for row in rows}
        }
        results = [{**answers.start_answer(row, now), **answers.shown(records[row["partition_id"]])} for row in rows]
        stale = answers.staleness(site.memory, now)
        if all(r["method"] is None for r in results):
            raise NoAnswer(f"no forecast has been issued for {', '.join(r['job_id'] for r in results[:5])} yet",
                           hint="the collector issues one within an interval; "
                           + "; ".join(stale or ["it is up to date"]))  # fmt: skip
        if all(math.isnan(r["likely_wait_s"]) and r["basis"].startswith(answers.NO_HISTORY) for r in results):
            raise NoAnswer(
                f"too little history on {site.cluster}: no job like {results[0]['job_id']} has started yet",
                hint="ask again when some jobs have started; batchcast start --start shows Slurm's own estimate",
            )
        return Said({"cluster": site.cluster}, start_settings(settings, now), stale, results)


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
            return NoAnswer(f"job {row['job_id']} is not waiting: it has run for {ago}", hint="squeue shows it")
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
    """A limit for the next job like these; the sentence that says why is among the results."""
    from .limits import advise

    with open_site(settings, asker, site) as site:
        answer = advise(settings, site, what, glob, user, asker, risk, now)
        shown = {
            "risk": risk,
            "limit_floor": settings["limit_floor"],
            "limit_step": settings["limit_step"],
            "limit_most": settings["limit_most"] or "the partition's",
            "similar_within_days": 180,
        }
        return Said({"cluster": site.cluster}, shown, answers.staleness(site.memory, now), [answer])


def accuracy(settings: Settings, since: float, until: float, partition: str | None, asker: Asker, now: float) -> Said:
    """Our own forecasts as of [since, until), epoch seconds, against what happened."""
    with open_site(settings, asker) as site:
        least = settings["least_users"] if site.private else 1
        results = scores(site.reader, site.cluster, since, until, partition, least)
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
        }
        return Said({"cluster": site.cluster}, shown, answers.staleness(site.memory, now), results)


def report(
    settings: Settings, who: Who, since: float, until: float, asker: Asker, now: float, site: Site | None = None
) -> Said:
    """What finished jobs asked for and used; the advice is under `advice` of the settings."""
    from .usage import advice, summary, usage

    with open_site(settings, asker, site) as site:
        own = site.private and who.user == asker.name and asker.name is not None
        hidden = site.private and not own
        if who.user is not None and hidden:
            check_may_see(site, asker, who.user)
        rows = usage(site.reader, site.cluster, since, until, **who._asdict())
        least = settings["least_users"]
        by = "partition_id" if hidden else "job_name" if who.user else "user_id"
        if hidden and len({row["user_id"] for row in rows}) < least:
            raise NoAnswer(
                f"jobs are private here, and these are of fewer than {least} users",
                hint="a longer time, or your own jobs",
            )
        if not rows:
            raise NoAnswer(
                f"no finished job of {who.user or who.account or who.partition} in that time",
                hint="an earlier -S, e.g. -S now-90days",
            )
        results = [r for r in summary(rows, by) if not hidden or r["users"] >= least]
        floor, step = parse_duration(settings["limit_floor"]), parse_duration(settings["limit_step"])
        shown = {
            "store": settings.shown("store"),
            **who._asdict(),
            "starttime_s": since,
            "endtime_s": until,
            "by": by,
            "advice": [] if hidden else advice(rows, floor, step),
        }
        return Said({"cluster": site.cluster}, shown, answers.staleness(site.memory, now), results)
