"""The store as one viewer may see it: who looks, what is hidden from whom, whose jobs a figure may be of.

Where the site hides jobs, a user gets answers about own jobs, and figures only over at least `least_users` users;
somebody without an identity gets such figures alone; root and whoever runs the service gets everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..errors import NoAnswer, Refused, UsageError
from ..store.packed import Packed
from ..store.reader import Reader
from .hidden import DAY_S, days_over
from .settings import Settings, is_private


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
def open_site(settings: Settings, viewer: Asker, site: Site | None = None) -> Iterator[Site]:
    """The store of the settings as this viewer may see it; closed again, unless it was given."""
    if site is not None:
        yield site
        return
    reader = Reader(settings["store"])
    try:
        cluster = choose_cluster(reader, settings["cluster"] or None)
        memory = reader.memory(cluster)
        yield Site(reader, cluster, memory, is_private(settings, memory) and not viewer.sees_all)
    finally:
        reader.close()


def check_may_see(site: Site, viewer: Asker, user: str | None) -> None:
    """Refused, where jobs are hidden, to anybody but their owner."""
    if site.private and (user is None or viewer.name != user):
        who = viewer.name or "somebody unknown"
        raise Refused(f"jobs are private here: {who} may not see those of {user or 'everybody'}",
                      hint="your own jobs, or accuracy and report -p for figures over several users")  # fmt: skip


def start_settings(settings: Settings, now: float) -> dict[str, Any]:
    """What an answer about starts rests on."""
    return {
        "store": settings.shown("store"), "scheduler": settings["scheduler"], "now_s": now, "track_record_days": 30,
    }  # fmt: skip


def used(site: Site, who: Who, since: float, until: float, least: int, now: float, statement: str = "used") -> Packed:
    """Finished jobs of a span: where figures must be of several users, of such days that are over alone.

    By `statement`: all of them (`used`), or those whose memory was measured (`used_memory`).
    """
    chosen = {"cluster": site.cluster, "since": since, "until": until, **who._asdict()}
    if least <= 1:
        return Packed(site.reader.each(statement, **chosen))
    several = days_over(site.reader.each(statement, **chosen), "end_time", least, now)
    return Packed(row for row in site.reader.each(statement, **chosen) if row["end_time"] // DAY_S in several)


def choose_cluster(reader: Reader, asked: str | None) -> str:
    """The cluster asked for, or the store's only one."""
    clusters = reader.clusters()
    if asked:
        if asked not in clusters:
            raise UsageError(f"no cluster {asked!r} in {reader.shown} (accepted: {', '.join(clusters) or 'none yet'})")
        return asked
    if len(clusters) != 1:
        if not clusters:
            raise NoAnswer(f"{reader.shown} holds no cluster yet", hint="let batchcast collect run one cycle")
        raise UsageError(f"{reader.shown} holds several clusters: choose with -M ({', '.join(clusters)})")
    return clusters[0]
