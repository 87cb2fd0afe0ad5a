# SPDX-License-Identifier: Apache-2.0
"""Slurm's commands for planning: reads jobs, limits and priorities, and changes jobs by `scontrol update`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from ..errors import BatchcastError
from ..formats.slurm import plannable
from ..formats.slurm.plannable import Plannable, Submitted, submitted
from ..formats.slurm.scontrol import parse_config, parse_records
from ..formats.slurm.squeue import epoch, parse_marked
from ..units import parse_duration
from .transport import CONFIG, MARK, PARTITIONS, RESERVATIONS, Transport, readable

_FORMAT = ",".join(f"{name}:{MARK}" for name in plannable.FIELDS)
LOOK = ("squeue", "--all", "--array", "--states=all", f"--Format={_FORMAT}")
_MINS = ("GrpTRESMins", "GrpTRESRunMins", "MaxTRESMins", "GrpWall")


class Look(NamedTuple):
    """All jobs at one time, the time of the query (epoch, s), and the number of records that could not be read."""

    asked_at: float
    jobs: tuple[Plannable, ...]
    broken: int


class Ground(NamedTuple):
    """Facts about the site that planning needs: OverTimeLimit, MaxTime and DefaultTime by partition (s), when slurmctld
    started and when the next reservation begins (epoch, s), which limits accounting enforces, and the script that
    slurmctld runs when a job starts.
    """

    over_time: Mapping[str, float]
    longest: Mapping[str, float]
    defaults: Mapping[str, float]
    booted: float
    next_outage: float
    enforced: frozenset[str]
    prolog: str = ""


def look(transport: Transport, jobs: Sequence[str] = ()) -> Look:
    """Return every job, with each array task as one job, by one call; or the jobs with these ids that
    slurmctld knows.
    """
    answer = transport.attempt((*LOOK, f"--jobs={','.join(jobs)}"))[0] if jobs else transport.ask(LOOK)
    records, broken = parse_marked(answer.text, answer.mark, plannable.FIELDS, header=True)
    jobs_seen, bad = readable(records, lambda record: [plannable.plannable(record)])
    return Look(answer.asked_at, tuple(jobs_seen), broken + bad)


def ground(transport: Transport, now: float) -> Ground:
    """Read facts about the site by three calls to slurmctld, whose answers do not grow with the queue."""
    config = parse_config(transport.ask(CONFIG).text)
    partitions = parse_records(transport.ask(PARTITIONS).text, "PartitionName")
    text = transport.ask(RESERVATIONS).text
    booted = epoch(config.get("BOOT_TIME", ""))
    return Ground(
        over_time=plannable.over_time(partitions, config),
        longest={p["PartitionName"]: parse_duration(p.get("MaxTime", "")) for p in partitions},
        defaults=plannable.default_times(partitions),
        booted=now if math.isnan(booted) else booted,
        next_outage=plannable.next_outage(parse_records(text, "ReservationName"), now),
        enforced=frozenset(config.get("AccountingStorageEnforce", "").lower().split(",")),
        prolog=config.get("PrologSlurmctld", "").replace("(null)", ""),
    )


def walls(transport: Transport) -> tuple[dict[tuple[str, ...], float], list[str]]:
    """Return the longest time limits (MaxWall, s) of QOS and associations, and which of them limit minutes of use."""
    longest: dict[tuple[str, ...], float] = {}
    counted = []
    for kind, names in (("qos", ("Name",)), ("assoc", ("Account", "User"))):
        fields = (*names, "MaxWall", *_MINS)
        text = transport.ask(("sacctmgr", "-nP", "show", kind, f"format={','.join(fields)}")).text
        for line in text.splitlines():
            row = dict(zip(fields, line.split("|")))
            key = ("qos", row["Name"]) if kind == "qos" else ("user", row["Account"], row.get("User", ""))
            if row.get("MaxWall"):
                longest[key] = min(parse_duration(row["MaxWall"]), longest.get(key, math.inf))
            if used := [name for name in _MINS if row.get(name)]:
                counted.append(f"{used[0]} of {' '.join(key)}")
    return longest, counted


def submissions(transport: Transport, raw_ids: Sequence[str]) -> dict[str, Submitted]:
    """Return the options `--signal` and `--time` of submissions, by raw id.

    One call reads the submit lines from accounting, which has them some seconds after a submission; jobs without a line
    are left out. One call per job reads its script from slurmctld, which only operators may do.
    """
    fields = ("JobIDRaw", "SubmitLine")
    words = ("sacct", "--allocations", "--parsable", "--noheader", f"--delimiter={MARK}", f"--jobs={','.join(raw_ids)}")
    answer = transport.ask((*words, f"--format={','.join(fields)}"))
    records, _ = parse_marked(answer.text, answer.mark, fields)
    lines = {r["JobIDRaw"]: r["SubmitLine"] for r in records}
    answers = {}
    for raw_id in raw_ids:
        if line := lines.get(raw_id, "").strip():
            script, complaint = transport.attempt(("scontrol", "write", "batch_script", raw_id, "-"))
            answers[raw_id] = submitted(line, "" if complaint else script.text)
    return answers


class Priority(NamedTuple):
    """The priority of a waiting job record including its SiteFactor, the SiteFactor alone, the record's processors, and
    since when its job is eligible (NaN: not eligible).
    """

    priority: float
    factor: int
    cpus: float
    eligible: float


_WAITING = ("squeue", "--all", "--states=PD", f"--Format=JobID:{MARK},NumCPUs:{MARK},EligibleTime:{MARK}")


def priorities(transport: Transport) -> dict[str, Priority]:
    """Return the priority of every waiting job record by raw id, by two calls. Raises BatchcastError if sprio's output
    is unexpected.

    A job in several partitions gets the highest of its priorities. A number of processors that cannot be read counts as
    0.
    """
    answer = transport.ask(_WAITING)
    records, _ = parse_marked(answer.text, answer.mark, ("JobID", "NumCPUs", "EligibleTime"), header=True)
    shape = {r["JobID"]: (_number(r["NumCPUs"]), epoch(r["EligibleTime"])) for r in records}
    seen: dict[str, Priority] = {}
    for line in transport.ask(("sprio", "-h", "-o", "%i %Y %S")).text.splitlines():
        words = line.split()
        try:
            raw_id, priority, factor = words[0], float(words[1]), int(words[2])
        except (IndexError, ValueError):
            raise BatchcastError(f"sprio printed {line!r}, not a job id, its priority and its SiteFactor") from None
        if raw_id in shape and (raw_id not in seen or priority > seen[raw_id].priority):
            seen[raw_id] = Priority(priority, factor, *shape[raw_id])
    return seen


def why_unordered(transport: Transport, band: int) -> str:
    """Return in one sentence why this site's priorities must not be changed by up to `band`; empty if they may be."""
    config = parse_config(transport.ask(CONFIG).text)
    kind = config.get("PriorityType", "")
    if "multifactor" not in kind:
        return f"PriorityType is {kind or 'not known'}: a SiteFactor needs priority/multifactor"
    plugin = config.get("PrioritySiteFactorPlugin", "").replace("(null)", "").removesuffix("none").strip("/ ")
    if plugin not in ("", "site_factor"):
        return f"PrioritySiteFactorPlugin is {plugin}: it sets the factors itself"
    for kind, several in (("QOS", "QOS"), ("Partition", "partitions")):
        weight = _number(config.get(f"PriorityWeight{kind}", ""))
        gap = weight * _least_gap(_ranks(transport, kind)) if weight > 0 else math.inf
        if band > gap:
            what = f"plan_band = {band} could raise a job above another {several.removesuffix('s')}"
            return f"{what}: the priorities of {several} differ by {gap:.0f} (accepted: at most that)"
    return ""


def _ranks(transport: Transport, kind: str) -> list[float]:
    """Return the priorities of every QOS or every partition."""
    if kind == "QOS":
        text = transport.ask(("sacctmgr", "-nP", "show", "qos", "format=Priority")).text
        return [_number(line) for line in text.splitlines()]
    text = transport.ask(PARTITIONS).text
    return [_number(p.get("PriorityJobFactor", "")) for p in parse_records(text, "PartitionName")]


class Reserving(NamedTuple):
    """The waiting jobs for which backfill reserves processors: their lowest priority (0: any), the largest priority
    that a job gets by its age, and the age (s) at which it gets this priority.
    """

    least: float
    by_age: float
    max_age: float


def reserving(transport: Transport) -> Reserving:
    """Return `bf_min_prio_reserve`, `PriorityWeightAge` and `PriorityMaxAge` of this site."""
    config = parse_config(transport.ask(CONFIG).text)
    words = dict(word.strip().partition("=")[::2] for word in config.get("SchedulerParameters", "").split(","))
    least, by_age = _number(words.get("bf_min_prio_reserve", "")), _number(config.get("PriorityWeightAge", ""))
    return Reserving(least, by_age, parse_duration(config.get("PriorityMaxAge", "7-00:00:00")))


def _number(text: str) -> float:
    """Convert digits to a number; 0 for any other text."""
    text = text.strip()
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _least_gap(values: Sequence[float]) -> float:
    """Return the smallest difference between two different values, as a share of the largest value; infinity if all
    values are equal.
    """
    ranks = sorted(set(values))
    return math.inf if len(ranks) < 2 else min(b - a for a, b in pairwise(ranks)) / ranks[-1]


def update(transport: Transport, target: str, words: Sequence[str]) -> str:
    """Request a change of jobs from slurmctld; return scontrol's error message. Only reading the job again shows
    whether the change took effect.

    `target` is a value for `scontrol update jobid=`: ids separated by commas, or tasks of one array.
    """
    _, complaint = transport.attempt(("scontrol", "update", f"jobid={target}", *words))
    return complaint
