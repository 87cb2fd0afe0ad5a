# SPDX-License-Identifier: Apache-2.0
"""The checks of `batchcast doctor`: whether every part exists and answers, whether memory is measured, whether the
machine for simulations is up to date, and what to do.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...columns import FEWEST, is_copied
from ...errors import BatchcastError, how_to_install
from ...formats.sighting import gathers_memory
from ...machines.machine import Machine
from ...predict.protocol import method_name
from ...store.place import VERSION as SCHEMA
from ...store.place import is_open, machine_path
from ...store.reader import Reader
from ...version import __version__
from .. import batch_system
from ..answers.accuracy import fallback_reason, verdict
from ..answers.answer import CLOCKS_APART_S, local_time, staleness
from ..answers.disclosure import choose_cluster
from ..answers.track_record import LEAST_RECORD, TRACK_RECORD_S, answering_method, track_record
from ..planning.checkup import OPERATORS, add_operator, failed, finding, ground_findings, judged, standing_findings
from ..settings import NAMES, NO_MACHINE, Settings, is_private, machine_at, meaning, own_name

MOST_FALLBACKS = 0.5
"""If another method had to answer for more than this share of jobs (fallbacks), `doctor` warns."""
CLIENTS = {"slurm": ("squeue", "sacct", "scontrol"), "pbs": ("qstat",)}


def settings_in_force(settings: Settings) -> list[dict[str, Any]]:
    """Return every setting with its value, its source and its meaning."""
    return [
        {"setting": name, "value": settings.shown(name), "from": settings.source[name], "meaning": meaning(name)}
        for name in NAMES
    ]


def check(settings: Settings, ask: bool = True) -> Iterator[dict[str, Any]]:
    """Yield findings, each with `check`, `state` (ok, warning, failed), `found` and `do` (the remedy). With
    `ask=False`, no daemon is queried.
    """
    yield finding("versions", "ok", f"batchcast {__version__}, Python {platform.python_version()}")
    for name in ("sqlalchemy", "psycopg") if str(settings["store"]).startswith("postgres") else ("sqlalchemy",):
        if importlib.util.find_spec(name) is None:
            found = f"{name} is not installed: collect and plan need it; report, walltime and start work without it,"
            yield finding("parts", "warning", f"{found} by one query each", how_to_install("store", name))
    for name in CLIENTS.get(settings["scheduler"], ()):
        path = shutil.which(name)
        do = f"install {settings['scheduler']}'s clients, or run batchcast on a machine that has them"
        yield judged(f"client {name}", path, path or "not on PATH", do, "failed")
    yield from _overruled(settings)
    asked = list(_daemons(settings)) if ask else []
    yield from asked
    said = {one["found"] for one in asked if one["check"] == "memory now"}
    # skip the collector's finding on memory if it equals the present one
    yield from (one for one in store_findings(settings, ask) if one["check"] != "memory" or one["found"] not in said)


def _overruled(settings: Settings) -> Iterator[dict[str, Any]]:
    """Report settings with different values in two sources, such as a file and the environment, because the collector
    and users may then use different values.
    """
    for one in settings.overruled:
        now = f"{settings.shown(one.name)} ({settings.source[one.name]})"
        was = settings.replaced(**{one.name: one.value}).shown(one.name)
        bad = "failed" if one.name == "store" and not settings.source[one.name].startswith("--") else "warning"
        do = "set it in one place only: the collector and all users must use the same value"
        yield finding(f"setting {one.name}", bad, f"{now} overrules {was} ({one.source})", do)


def _daemons(settings: Settings) -> Iterator[dict[str, Any]]:
    """Query the batch system and its accounting, and report the answers."""
    scheduler, health = batch_system.open_scheduler(settings)
    site = None
    try:
        site = scheduler.site()
        tested = settings["scheduler"] != "slurm" or site.version.startswith(("22.05", "24.11"))
        fact = f"{site.cluster}, {settings['scheduler']} {site.version}"
        do = "batchcast is tested with Slurm 22.05 and 24.11, and reads fields by name: compare one job with scontrol"
        yield judged("batch system", tested, fact, f"{do} show job")
        enough = site.keeps_s >= 3 * settings["interval_s"] or site.accounting
        do = "raise MinJobAge or lower interval_s: ends between two cycles would be missed"
        yield judged("finished jobs stay visible", enough, f"{site.keeps_s:.0f} s", do)
        yield _privacy(settings, {"site": {"private": site.private}}, "PrivateData now")
        yield gathering(site.gathers) | {"check": "memory now"}
    except BatchcastError as error:
        yield failed("batch system", error, "check that the daemon runs and that this machine can reach it")
        # after a failed query, the first scheduler object sends no queries for a while
        scheduler, health = batch_system.open_scheduler(settings)
    yield _queue(scheduler)
    if site is not None:
        yield from ground_findings(scheduler, settings)
    if settings["scheduler"] == "slurm":
        if site is not None:
            yield _slurm_clock(scheduler)
        try:
            now = time.time()
            history = scheduler.history(now - 3600, now)
            seconds = health()["slurmdbd"]["seconds"]
            yield finding("accounting", "ok", f"{len(history.jobs)} jobs ended in the last hour, {seconds:.2f} s")
        except BatchcastError as error:
            bad = "failed" if site is None or site.accounting else "warning"
            do = "slurmdbd provides the history, and the ends of jobs that the queue no longer shows; predictions"
            yield finding("accounting", bad, error.message, f"{do} continue without it")


def _privacy(settings: Settings, memory: dict[str, Any], source: str) -> dict[str, Any]:
    """Report whether jobs are private, and which setting decides this."""
    by = source if settings["private"] == "auto" else f"private = {settings['private']} ({settings.source['private']})"
    words = "no: every user sees all jobs"
    if is_private(settings, memory):
        words = "yes: users see their own jobs, and figures over several users"
    return finding("jobs are private", "ok", f"{words}, by {by}")


def _queue(scheduler: Any) -> dict[str, Any]:
    """Query the queue once, and report the result."""
    try:
        seen = scheduler.snapshot()
    except BatchcastError as error:
        return failed("queue", error, "does squeue --all answer on this machine?")
    broken = f", {seen.broken} could not be read" if seen.broken else ""
    do = "compare with squeue --all; batchcast collect --record FILE records the answers"
    return judged("queue", not broken, f"{len(seen.jobs)} jobs shown{broken}", do)


def _slurm_clock(scheduler: Any) -> dict[str, Any]:
    """Report the difference between slurmctld's clock and this machine's clock."""
    apart = scheduler.clock_ahead()
    if apart is None:
        do = "compare the output of date here and on slurmctld's machine"
        return finding("clock", "warning", "sdiag prints no time", do)
    do = "run NTP on both machines; until then predictions are late by this difference"
    return finding("clock", "ok" if abs(apart) <= CLOCKS_APART_S else "warning", f"{apart:+.1f} s from slurmctld's", do)


def store_findings(settings: Settings, ask: bool = False) -> Iterator[dict[str, Any]]:
    """Yield findings about the store, its disk and its collector. Unless `ask` is set, the batch system is not
    queried.
    """
    path = Path(settings["store"])
    try:
        reader = Reader(settings["store"])
        version = reader.schema_version()
    except BatchcastError as error:
        yield failed("store", error, "start batchcast collect")
        return
    fact = f"{reader.safe_url}, schema {version}"
    yield judged("store", version == SCHEMA, fact, "batchcast collect brings it up to date")
    if "://" not in settings["store"]:
        mode = path.stat()
        hidden = any(is_private(settings, reader.memory(name)) for name in reader.clusters())
        exposed = hidden and is_open(settings["store"])
        fact = f"uid {mode.st_uid}, mode {mode.st_mode & 0o777:o}, {mode.st_size / 1e6:.1f} MB, writable here: "
        fact += "yes" if os.access(path, os.W_OK) else "no"
        fact += ", although jobs are hidden: every user can read the jobs in the store" if exposed else ""
        do = f"chmod 600 {path}* ; batchcast collect closes it in its next cycle"
        yield judged("store's owner", not exposed, fact, do, "failed")
        free = shutil.disk_usage(path.parent).free
        fact, do, bad = f"{free / 1e9:.1f} GB free", "free disk space before the file system is full", "warning"
        if free < FULL:
            fact = f"{free / 1e6:.0f} MB free: the collector cannot write"
            do, bad = "free disk space: no event is recorded until then", "failed"
        yield judged("store's disk", free > 200e6, fact, do, bad)
        pages = reader.pages()
        do = "restore a backup, or start with a new store: the collector reads the history from accounting again"
        yield finding("store's pages", "ok" if pages == "ok" else "failed", pages, do)
    try:
        yield from _collector(reader, settings, ask)
    except BatchcastError as error:
        yield failed("collector", error)


FULL = 20e6
"""A disk with fewer free bytes than this counts as full, because SQLite needs some space for its journal."""


def _last_cycle(memory: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Report the problems of the collector's last cycle, as its log states them."""
    if problems := memory.get("problems"):
        unwritten = any(word in one for one in problems for word in ("nothing was written", "readonly", "is full"))
        do = "journalctl -u batchcast-collect shows the earlier cycles"
        yield finding("last cycle", "failed" if unwritten else "warning", "; ".join(problems[:3]), do)


def _collector(reader: Any, settings: Settings, ask: bool) -> Iterator[dict[str, Any]]:
    """Report whether the collector runs and is up to date, and what it has stored."""
    cluster = choose_cluster(reader, settings["cluster"] or None)
    memory, now = reader.memory(cluster), time.time()
    notes = staleness(memory, now)
    do = "systemctl status batchcast-collect, journalctl -u batchcast-collect"
    if blind := memory.get("blind"):
        since = f"since {local_time(blind['since'])} {blind['why']}"
        fact = f"{since}: its live clock is stopped, and no job is given up as lost"
        grant = add_operator(memory.get("collected_by") or "the collector's user")
        yield finding("collector's sight", "failed", fact, grant)
    bad = "failed" if is_collector_down(memory, now) else "warning"
    yield from _last_cycle(memory)
    yield judged("collector", not notes, "; ".join(notes) or "up to date", do, bad)
    yield _privacy(settings, memory, f"PrivateData when it was last read, {local_time(memory.get('cycle_at'))}")
    if ask and settings["scheduler"] == "slurm":
        yield from _sight(reader, cluster, memory, settings)
        yield machine_finding(settings, cluster, memory)
    yield from _coverage(reader, cluster, memory, now)
    yield from _learning(memory)
    yield from _fallbacks(reader, cluster, now)
    yield from memory_findings(reader, cluster, memory, now)
    yield from standing_findings(reader, cluster, settings, now)
    jobs = reader.ask("counts", cluster=cluster)[0]
    late, changed = memory.get("late", 0), jobs["corrected"]
    since = time.strftime("%Y-%m-%d", time.localtime(jobs["first"])) if jobs["first"] else "-"
    fact = f"{jobs['jobs']} jobs since {since}; {late} events came late, and accounting changed the times of {changed}"
    yield finding(
        "history", "ok" if jobs["jobs"] else "warning", f"{fact} jobs afterwards", "raise settle_s" * bool(late)
    )


def is_collector_down(memory: dict[str, Any], now: float) -> bool:
    """Return whether the last cycle is so old that answers are wrong: twenty intervals, and at least ten minutes."""
    long = max(600.0, 20 * float(memory.get("interval_s") or 30.0))
    seen = memory.get("snapshot_at")
    return seen is None or now - seen > long or now - (memory.get("told_until") or now) > long + 3600


def _sight(reader: Any, cluster: str, memory: dict[str, Any], settings: Settings) -> Iterator[dict[str, Any]]:
    """Report whether the collector's user sees all jobs. If some jobs are hidden, answers are wrong, although no error
    occurs.
    """
    scheduler = batch_system.open_scheduler(settings)[0]
    who = memory.get("collected_by") or own_name()
    try:
        hides, level, busy = scheduler.hides_jobs(), scheduler.admin_level(who), scheduler.busy_nodes()
    except BatchcastError as error:
        yield failed("sight", error, "can sacctmgr and sinfo be run here?", "warning")
        return
    if hides and who != "root":
        may, do = level.lower() in OPERATORS, f"sacctmgr modify user {who} set adminlevel=operator"
        word = f"is {level}" if may else f"has the level {level}" if level else "is in no association"
        if not level:
            do = f"sacctmgr add user {who} account=ACCOUNT adminlevel=operator (modify does not add users)"
        fact = f"Slurm hides jobs, and the collector's user {who} {word}"
        yield finding("sight by right", "ok" if may else "failed", fact, do)
    seen = reader.ask("running", cluster=cluster, user=who)[0]
    blind = busy > 0 and not seen["others"] and busy > (seen["own_nodes"] or 0)
    fact = f"{seen['others']} running jobs of other users are visible; sinfo shows {busy} nodes busy"
    do = f"check what squeue --all shows as {who}: PrivateData may hide jobs"
    yield judged("sight", not blind, fact, do, "failed")


def _coverage(reader: Any, cluster: str, memory: dict[str, Any], now: float) -> Iterator[dict[str, Any]]:
    """Report whether the 90 % bound of start times holds, by the track record and the rule that `accuracy` uses."""
    method = answering_method(memory)
    record = track_record(reader, cluster, None, method, now - TRACK_RECORD_S, now=now)
    if record.get("judged", 0) < LEAST_RECORD:
        found = f"fewer than {LEAST_RECORD} predictions by {method_name(method)} have a known outcome yet"
        yield finding("track record", "ok", found)
        return
    held = all(verdict(of["judged"], of["coverage_90"]) != "too early" for of in (record, record["long"]) if of)
    n, kept, late = record["judged"], record["coverage_90"], record["overdue"]
    fact = f"{kept:.0%} of {n} jobs of the last 30 days started by the 90 % time of {method_name(method)}"
    fact += f"; {late} still wait beyond that time" if late else ""
    if long := record["long"]:
        fact += f"; {long['coverage_90']:.0%} of {long['judged']} with a predicted wait of 10 min or more"
    do = "put another method first in `wait`: batchcast accuracy compares the methods"
    yield judged("track record", held, fact, do, "failed")


def _fallbacks(reader: Any, cluster: str, now: float) -> Iterator[dict[str, Any]]:
    """Report run-time methods for which another method answers most jobs."""
    for row in reader.ask("fell_back", cluster=cluster, since=now - TRACK_RECORD_S):
        if row["forecasts"] < LEAST_RECORD or row["fell_back"] <= MOST_FALLBACKS * row["forecasts"]:
            continue
        share, why = row["fell_back"] / row["forecasts"], fallback_reason(row["basis"] or "")
        fact = f"{method_name(row['method'])} fell back for {share:.0%} of {row['forecasts']} jobs of the last 30 days"
        do = "name another method first in `runtime`: methods on input files have no features of live jobs"
        yield finding("fallback", "warning", f"{fact} ({why})", do)


def _learning(memory: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Report whether models can be fitted, and whether the clock with its models can be saved for the next start."""
    methods = [name.partition(":")[0] for name in memory.get("wait_methods") or ()]
    if "forecast" in methods:
        why, do = "", how_to_install("learn")
        try:
            importlib.import_module("lightgbm")
        except ModuleNotFoundError:
            why = "LightGBM is not installed"
        except Exception as error:  # the usual cause is a missing system library
            why = f"LightGBM cannot be loaded ({error})"
            do = "install the library that the error names (libgomp1 on Debian)"
        without = f"{why}: forecast cannot fit its model, and answers from simulation alone"
        do += ", where the collector runs, and start it again"
        yield judged("learning", not why, without if why else "models can be fitted", do)
    for name, do in (
        ("not_kept", "free disk space there, or give the collector's user the folder: without the file"),
        ("methods_not_kept", "let pickle save the method (batchcast.testing.check_predictor shows where): until then"),
    ):
        if trouble := memory.get(name):
            do += ", each start replays all history"
            yield finding("what was learned", "warning", f"not kept: {trouble}", do)


WITHIN_S = 30 * 86400.0
SET = (
    "in slurm.conf JobAcctGatherType=jobacct_gather/cgroup (or /linux) and JobAcctGatherFrequency=30, then restart "
    "slurmctld and every slurmd: jobs that start from then on are measured"
)
_SAYS = {
    "linux": "of a task's processes, added up, so that shared pages count for each process"
    " (not with UsePss or NoShared)",
    "cgroup": "of a task's control group",
}


_UNMEASURED = {
    "zero": "ended before a sample",
    "bad": "have an invalid amount, which is ignored",
    "ran_out": "ran out of memory",
}


def gathering(gathers: Mapping[str, str]) -> dict[str, Any]:
    """Return a finding on how accounting measures memory, from Slurm's settings JobAcctGather (Type, Frequency,
    Params).

    >>> gathering({"Type": "jobacct_gather/none"})["state"]
    'warning'
    >>> gathering({"Type": "jobacct_gather/linux", "Frequency": "task=15", "Params": "OverMemoryKill"})["found"]
    "jobacct_gather/linux: every 15 s the memory of a task's processes, added up, so that ..."
    """
    kind = gathers.get("Type", "")
    if kind.startswith("pbs"):
        return finding("memory", "ok", "PBS keeps the peak of each job over all its nodes (resources_used.mem)")
    if not gathers_memory(gathers):
        fact = f"accounting measures no memory (JobAcctGatherType = {kind or 'not set'})"
        return finding("memory", "warning", fact, SET)
    every, says = sampled_every(gathers.get("Frequency", "")), _SAYS.get(kind.rpartition("/")[2], "of a task")
    is_killed = "overmemorykill" in gathers.get("Params", "").lower()
    kills = "; OverMemoryKill ends jobs by this measurement" if is_killed else ""
    if every == 0:
        found = f"{kind}: only when a step ends the memory {says}{kills}"
        return finding("memory", "warning", found, "JobAcctGatherFrequency=30: at its end a step uses little memory")
    return finding(
        "memory", "ok", f"{kind}: every {every:g} s the memory {says}; peaks between two samples are missed{kills}"
    )


def sampled_every(frequency: str) -> float:
    """Return the seconds between two samples of a task, from JobAcctGatherFrequency. Slurm's default is 30.

    >>> sampled_every("task=15,energy=60"), sampled_every("10"), sampled_every("0"), sampled_every("energy=60")
    (15.0, 10.0, 0.0, 30.0)
    """
    match = re.search(r"(?:^|task=)(\d+)", frequency.strip().lower())
    return float(match[1]) if match else 30.0


def memory_findings(reader: Reader, cluster: str, memory: Mapping[str, Any], now: float) -> Iterator[dict[str, Any]]:
    """Report from the store how memory is measured, and for how many jobs of the last 30 days it was measured."""
    gathers = (memory.get("site") or {}).get("gathers")
    if gathers is None:
        return
    yield gathering(gathers)
    if not gathers_memory(gathers):
        return
    (jobs,) = reader.ask("measured", cluster=cluster, since=now - WITHIN_S)
    words = [f"for {jobs['measured']} of {jobs['ended']} jobs that ran in the last 30 days"]
    words += [f"{jobs[name]} {what}" for name, what in _UNMEASURED.items() if jobs[name]]
    if copied := is_copied(jobs["copied"], jobs["measured"]):
        words.append("nearly all amounts equal the requests, so memory is not measured, and none is suggested")
    silent = jobs["ended"] >= FEWEST and not jobs["measured"]
    do = "does sacct -a --format=JobID,MaxRSS show amounts for steps?"
    yield judged("memory measured", not (copied or silent), "; ".join(words), do)


REFRESH = "is batchcast collect running? it refreshes the machine within five minutes, or reports why it cannot"
SCHEDULES = ("PriorityWeight", "SchedulerParameters", "PriorityType", "PriorityMaxAge", "PriorityDecayHalfLife",
             "SelectTypeParameters", "PreemptType", "PreemptMode", "AccountingStorageEnforce")  # fmt: skip
"""Settings in slurm.conf whose names begin like this determine which job starts when."""
MOST_NAMED = 3
"""A sentence about nodes, partitions or QOS lists at most this many names."""


def machine_finding(settings: Settings, cluster: str, memory: Mapping[str, Any]) -> dict[str, Any]:
    """Compare the machine in use with Slurm's present configuration, by six queries. The finding is `failed` if
    predictions use an outdated machine.
    """
    from ..collector.machine import in_service  # loads compiled code, which the service's page does not need

    path, named = machine_path(settings["store"], cluster), settings["machine"]
    if named == NO_MACHINE:
        fact = "machine = none: waits are simulated on a pool of processors, and their bounds are wide"
        return finding("machine", "warning", fact, "remove the setting: the collector captures the machine")
    trouble = (memory.get("machine") or {}).get("trouble")
    if not named and not path.exists():
        fact = f"not captured{f': {trouble}' if trouble else ' yet'}: waits are simulated on a pool of processors"
        return finding("machine", "failed" if trouble else "warning", fact, REFRESH)
    if not named and not os.access(path, os.R_OK):
        return finding("machine", "ok", f"captured; only the collector's user can read {path}")
    try:
        known = machine_at(named, path)
        now = in_service(batch_system.open_scheduler(settings)[0].machine())
    except BatchcastError as error:
        return failed("machine", error, "`batchcast machine capture` shows the details", "warning")
    assert known is not None
    if not (changed := differences(in_service(known), now)):
        same = f"{len(known.node_names())} nodes, {len(known.partitions)} partitions"
        return finding("machine", "ok", f"{same}, equal to Slurm's present configuration")
    do = f"remove machine = {named}: then the collector keeps the machine up to date" if named else REFRESH
    fact = f"{named or path} differs from Slurm's present configuration: {'; '.join(changed[:4])}"
    return finding("machine", "failed", fact, do)


def differences(old: Machine, new: Machine) -> list[str]:
    """Return sentences about nodes, partitions, QOS, reservations, accounts and settings that differ between two
    machines.

    Nodes that are down do not count as a difference, because the collector often reads which nodes are down.

    >>> from batchcast.machines.machine import homogeneous
    >>> differences(homogeneous(2, 4, PriorityWeightQOS="1"), homogeneous(3, 4, PriorityWeightQOS="9"))
    ['nodes are new: n3', 'partitions have changed: all', 'PriorityWeightQOS is 9, not 1']
    """
    sentences = _of_kind("nodes", _nodes(old), _nodes(new))
    for kind in ("partitions", "QOS", "reservations"):
        before, after = ({one.name: one for one in getattr(each, kind.lower())} for each in (old, new))
        sentences += _of_kind(kind, before, after)
    if {repr(a) for a in old.associations} != {repr(a) for a in new.associations}:
        sentences.append("accounts, users or their limits differ")
    for word in sorted(w for w in {*old.settings, *new.settings} if w.startswith(SCHEDULES)):
        was, now = (each.settings.get(word, "not set") for each in (old, new))
        if was != now:
            sentences.append(f"{word} is {now}, not {was}")
    return sentences


def _nodes(machine: Machine) -> Mapping[str, object]:
    """Return the properties of each node, by name."""
    return {
        name: (g.cpus, g.sockets, g.threads, g.memory_mib, dict(g.gres), g.features, g.weight)
        for g in machine.nodes
        for name in g.names
    }


def _of_kind(kind: str, before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """Return sentences that list which names are new, removed or changed."""
    found = {
        "are new": [name for name in after if name not in before],
        "are gone": [name for name in before if name not in after],
        "have changed": [name for name, one in after.items() if name in before and repr(before[name]) != repr(one)],
    }
    return [f"{kind} {what}: {_some(names)}" for what, names in found.items() if names]


def _some(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
