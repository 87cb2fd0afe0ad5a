"""`doctor`: is everything there and does it answer, and what to do where not."""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import BatchcastError, NoAnswer, UsageError
from .answers import CLOCKS_APART_S, choose_cluster, staleness
from .settings import SETTINGS, Settings

CLIENTS = {"slurm": ("squeue", "sacct", "scontrol"), "pbs": ("qstat",)}


def settings_in_force(settings: Settings) -> list[dict[str, Any]]:
    """Every setting, its value, where it came from, and what it means."""
    return [
        {"setting": name, "value": settings.shown(name), "from": settings.source[name], "meaning": setting.meaning}
        for name, setting in SETTINGS.items()
    ]


def check(settings: Settings, ask: bool = True) -> Iterator[dict[str, Any]]:
    """One finding at a time: `check`, `state` (ok, warning, failed), `found`, `do`. `ask=False` calls no daemon."""
    yield _finding("versions", "ok", f"batchcast {__version__}, Python {platform.python_version()}", "")
    for name in CLIENTS.get(settings["scheduler"], ()):
        path = shutil.which(name)
        yield _finding(
            f"client {name}",
            "ok" if path else "failed",
            path or "not on PATH",
            "" if path else f"install {settings['scheduler']}'s clients, or run where they are",
        )
    if ask:
        yield from _daemons(settings)
    yield from store_findings(settings)


def _daemons(settings: Settings) -> Iterator[dict[str, Any]]:
    from .connect import open_scheduler

    scheduler, health = open_scheduler(settings)
    site = None
    try:
        site = scheduler.site()
        known = ("22.05",)
        tested = settings["scheduler"] != "slurm" or site.version.startswith(known)
        yield _finding(
            "batch system",
            "ok" if tested else "warning",
            f"{site.cluster}, {settings['scheduler']} {site.version}",
            ""
            if tested
            else "run for real on Slurm 22.05 only; fields are asked for by name: compare one job with scontrol "
            "show job",
        )
        enough = site.keeps_s >= 3 * settings["interval_s"] or site.accounting
        yield _finding("finished jobs stay visible", *(("ok", f"{site.keeps_s:.0f} s", "") if enough
                       else ("warning", f"{site.keeps_s:.0f} s", "raise MinJobAge or look more often: ends "
                                                                 "between two looks would be missed")))  # fmt: skip
        yield _finding(
            "jobs are private", "ok", "yes: users see their own and figures of several" if site.private else "no", ""
        )
    except BatchcastError as error:
        yield _finding(
            "batch system", "failed", error.message, error.hint or "is the daemon up? can this machine reach it?"
        )
    if site is not None:
        yield _queue(scheduler)
    if settings["scheduler"] == "slurm" and site is not None:
        yield _slurm_clock(scheduler)
        try:
            now = time.time()
            found = scheduler.history(now - 3600, now)
            yield _finding(
                "accounting",
                "ok",
                f"{len(found.jobs)} jobs ended in the last hour, {health()['slurmdbd']['seconds']:.2f} s",
                "",
            )
        except BatchcastError as error:
            yield _finding(
                "accounting",
                "failed" if site.accounting else "warning",
                error.message,
                "slurmdbd gives history and the ends the queue no longer shows; forecasts go on without it",
            )


def _queue(scheduler: Any) -> dict[str, Any]:
    """One look at the queue."""
    try:
        seen = scheduler.snapshot()
    except BatchcastError as error:
        return _finding("queue", "failed", error.message, error.hint or "does squeue --all answer on this machine?")
    broken = f", {seen.broken} could not be read" if seen.broken else ""
    return _finding(
        "queue",
        "warning" if broken else "ok",
        f"{len(seen.jobs)} jobs shown{broken}",
        "compare with squeue --all; batchcast collect --record FILE keeps what was answered" if broken else "",
    )


def _slurm_clock(scheduler: Any) -> dict[str, Any]:
    """slurmctld's clock against this machine's."""
    apart = scheduler.clock_ahead()
    if apart is None:
        return _finding("clock", "warning", "sdiag names no instant", "compare date here and on slurmctld's machine")
    return _finding(
        "clock",
        "ok" if abs(apart) <= CLOCKS_APART_S else "warning",
        f"{apart:+.1f} s from slurmctld's",
        "run NTP on both; until then forecasts come that much later",
    )


def store_findings(settings: Settings) -> Iterator[dict[str, Any]]:
    """The store, its place and its collector, without a call to any daemon of the batch system."""
    from ..store.reader import Reader

    path = Path(settings["store"])
    try:
        reader = Reader(settings["store"])
        version = int(reader.rows("SELECT value FROM meta WHERE name = 'schema_version'")[0]["value"])
    except BatchcastError as error:
        yield _finding("store", "failed", error.message, error.hint or "start batchcast collect")
        return
    from ..store.database import VERSION as SCHEMA

    yield _finding(
        "store",
        "ok" if version == SCHEMA else "warning",
        f"{reader.shown}, schema {version}",
        "" if version == SCHEMA else "batchcast collect brings it up to date",
    )
    if "://" not in settings["store"]:
        mode = path.stat()
        yield _finding(
            "store's owner",
            "ok",
            f"uid {mode.st_uid}, mode {mode.st_mode & 0o777:o}, {mode.st_size / 1e6:.1f} MB, writable here: "
            f"{'yes' if os.access(path, os.W_OK) else 'no'}",
            "",
        )
        free = shutil.disk_usage(path.parent).free
        yield _finding(
            "store's disk",
            "ok" if free > 200e6 else "warning",
            f"{free / 1e9:.1f} GB free",
            "" if free > 200e6 else "make room before it is full",
        )
        yield _pages(reader)
    try:
        yield from _collector(reader, settings)
    except BatchcastError as error:
        yield _finding("collector", "failed", error.message, error.hint)


def _pages(reader: Any) -> dict[str, Any]:
    """SQLite's own look at its file."""
    try:
        said = str(next(iter(reader.rows("PRAGMA quick_check")[0].values())))
    except BatchcastError as error:
        said = error.message
    return _finding(
        "store's pages",
        "ok" if said == "ok" else "failed",
        said,
        "restore a backup, or start anew: history comes back from accounting",
    )


def _collector(reader: Any, settings: Settings) -> Iterator[dict[str, Any]]:
    """Is it running and up to date, and what has it kept."""
    try:
        cluster = choose_cluster(reader, settings["cluster"] or None)
    except (NoAnswer, UsageError) as error:
        yield _finding("collector", "failed", error.message, error.hint)
        return
    said = staleness(reader.memory(cluster), time.time())
    yield _finding(
        "collector",
        "warning" if said else "ok",
        "; ".join(said) or "up to date",
        "systemctl status batchcast-collect, journalctl -u batchcast-collect" if said else "",
    )
    jobs = reader.rows("SELECT count(*) AS jobs, min(submit_time) AS first FROM jobs WHERE cluster = :c", c=cluster)[0]
    late = reader.memory(cluster).get("late", 0)
    changed = reader.rows(
        "SELECT count(*) AS n FROM jobs WHERE cluster = :c AND told_end IS NOT NULL"
        " AND (told_end <> end_time OR told_start <> start_time)",
        c=cluster,
    )[0]["n"]
    since = time.strftime("%Y-%m-%d", time.localtime(jobs["first"])) if jobs["first"] else "-"
    yield _finding(
        "history",
        "ok" if jobs["jobs"] else "warning",
        f"{jobs['jobs']} jobs since {since}; {late} events came late, accounting changed {changed} told ones",
        "" if not late else "raise settle_s",
    )


def _finding(name: str, state: str, found: str, do: str) -> dict[str, Any]:
    return {"check": name, "state": state, "found": found, "do": do}
