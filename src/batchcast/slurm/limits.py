"""Limits of jobs on a Slurm: what planning must see of jobs and site, and the one command that changes a limit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..errors import BatchcastError
from ..formats.slurm import plannable
from ..formats.slurm.plannable import Plannable
from ..formats.slurm.scontrol import parse_config, parse_records
from ..formats.slurm.squeue import epoch, parse_marked
from ..formats.slurm.submission import Submitted, submitted
from ..units import parse_duration
from .transport import MARK, Transport

LOOK = (
    "squeue",
    "--all",
    "--array",
    "--states=all",
    "--Format=" + ",".join(f"{name}:{MARK}" for name in plannable.FIELDS),
)
_MINS = ("GrpTRESMins", "GrpTRESRunMins", "MaxTRESMins", "GrpWall")


class Look(NamedTuple):
    """The jobs at one look, when it was asked for (epoch, s), and how many pieces could not be read."""

    asked_at: float
    jobs: tuple[Plannable, ...]
    broken: int


class Ground(NamedTuple):
    """What the site says at one look: OverTimeLimit, MaxTime and DefaultTime by partition (s), when slurmctld started
    and the next reservation begins (epoch, s), which limits accounting enforces, and what slurmctld runs
    as a job starts."""

    over_time: Mapping[str, float]
    longest: Mapping[str, float]
    defaults: Mapping[str, float]
    booted: float
    next_outage: float
    enforced: frozenset[str]
    prolog: str = ""


def look(transport: Transport, jobs: Sequence[str] = ()) -> Look:
    """Every job, array tasks one by one, in one call; or some jobs by id, as far as slurmctld knows them."""
    answer = transport.attempt((*LOOK, f"--jobs={','.join(jobs)}"))[0] if jobs else transport.ask(LOOK)
    records, broken = parse_marked(answer.text, answer.mark, plannable.FIELDS, header=True)
    seen = []
    for record in records:
        try:
            seen.append(plannable.plannable(record))
        except BatchcastError:
            broken += 1
    return Look(answer.asked_at, tuple(seen), broken)


def ground(transport: Transport, now: float) -> Ground:
    """Three calls to slurmctld, none of which grows with the queue."""
    config = parse_config(transport.ask(("scontrol", "show", "config")).text)
    partitions = parse_records(transport.ask(("scontrol", "--oneliner", "show", "partition")).text, "PartitionName")
    text = transport.ask(("scontrol", "--oneliner", "show", "reservation")).text
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
    """The longest limits of QOS and associations (s), and what of them counts minutes, which limits would distort."""
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
    """What submissions say of --signal and --time, by raw id.

    Accounting has the submit lines, some seconds after the jobs were submitted: one call; jobs it does not know yet are
    left out. slurmctld has the scripts, which only operators may read: one call each.
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


def update(transport: Transport, target: str, words: Sequence[str]) -> str:
    """Ask slurmctld for a change; what scontrol complained of, in words. Only a look says what holds.

    `target` is what `scontrol update jobid=` takes: ids parted by commas, or tasks of one array.
    """
    _, complaint = transport.attempt(("scontrol", "update", f"jobid={target}", *words))
    return complaint
