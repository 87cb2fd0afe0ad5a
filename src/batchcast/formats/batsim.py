# SPDX-License-Identifier: Apache-2.0
"""Read and write Batsim's workloads (JSON), and read and write the platforms that Batsim simulates (SimGrid's XML).

A workload gives each job a profile. The run time of a job is known if its profile is a delay or a sequence of delays.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from ..errors import InputError, input_error
from ..machines.machine import Machine, NodeGroup, Partition
from ..machines.request import ONLY_PARTITION
from ..table import LogInfo, Trace
from ..units import counted
from .chunks import load_json

DELAYS = ("delay", "DelayProfile")
SEQUENCES = ("composed", "composition", "sequential_composition", "SequentialCompositionProfile")
"""Types of profiles, in the words of Batsim up to version 4 and of later versions."""
LEAST_DELAY = 0.001
"""Shortest delay in a written workload, in seconds. Batsim aborts at a delay of 0 s."""
SHAPE = '{"nb_res": 100, "jobs": [{"id": 1, "subtime": 0, "res": 4, "profile": "p"}], "profiles": {"p": ...}}'


def looks_like(head: bytes) -> bool:
    """Whether the beginning of a file looks like a Batsim workload.

    >>> looks_like(b' {"nb_res": 4, "jobs": []'), looks_like(b'{"results": []}')
    (True, False)
    """
    return head.lstrip().startswith(b"{") and any(
        f'"{word}"'.encode() in head for word in ("nb_res", "jobs", "profiles")
    )


def read(text: str, source: str = "(memory)", *, strict: bool = False) -> Trace:
    """Read a Batsim workload; times are in seconds on the workload's clock.

    >>> job = '{"id": "w!7", "subtime": 3, "res": 2, "profile": "p", "walltime": 60}'
    >>> trace = read('{"nb_res": 4, "jobs": [%s], "profiles": {"p": {"type": "delay", "delay": 20.5}}}' % job)
    >>> trace.job_id.tolist(), trace.run_time.tolist(), trace.req_time.tolist(), trace.info.max_procs
    (['w!7'], [20.5], [60.0], 4.0)
    """
    # Profiles of type `delay` and sequences of delays (`composed`, with `repeat`) give a run time, in the spelling of
    # every version of Batsim. The run time of other profiles depends on a platform; it is unknown, and a note gives the
    # number of jobs with an unknown run time.
    document = load_json(text, source, "a workload", f"a workload is {SHAPE}")
    if not isinstance(document, dict) or not isinstance(document.get("jobs"), list):
        raise input_error(source, "is not a Batsim workload: it has no list of jobs", accepted=SHAPE)
    profiles: dict[str, Any] = document["profiles"] if isinstance(document.get("profiles"), dict) else {}
    rows, dropped, first = [], 0, ""
    for number, job in enumerate(document["jobs"], 1):
        row = _row(job, profiles)
        if row is None:
            if strict:
                raise input_error(source, f"job {number} has no id, subtime, res or profile", value=job, accepted=SHAPE)
            dropped += 1
            first = first or f"job {number}: {str(job)[:120]}"
        else:
            rows.append(row)
    if not rows:
        what = f"none of its {counted(dropped)} can be read, because id, subtime, res or profile is missing; {first}"
        raise input_error(source, what if dropped else "the workload has no jobs", accepted=SHAPE)
    twice = [name for name, count in Counter(str(row["job_id"]) for row in rows).items() if count > 1]
    if twice:
        accepted = "a different id for each job, as in Batsim"
        raise input_error(source, "two jobs have the same id", value=twice[0], accepted=accepted)
    if all(re.fullmatch("0|[1-9][0-9]{0,14}", str(row["job_id"])) for row in rows):
        rows = [row | {"job_id": int(row["job_id"])} for row in rows]
    unknown = sum(math.isnan(row["run_time"]) for row in rows)
    note = f"{counted(unknown)} with a profile whose run time depends on the platform: run time unknown"
    size = document.get("nb_res", 0)
    known = isinstance(size, int | float) and size > 0
    info = LogInfo(
        source=source,
        format="batsim",
        max_procs=float(size) if known else math.nan,
        max_procs_source="header" if known else "unknown",
        dropped={"job that cannot be read": dropped} if dropped else {},
        notes=(note,) if unknown else (),
    )
    return Trace.from_arrays({name: [row[name] for row in rows] for name in rows[0]}, info)


def _row(job: Any, profiles: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the columns of one job, or None if the job cannot be read."""
    try:
        submit, procs, profile = float(job["subtime"]), float(job["res"]), str(job["profile"])
        limit = float(job.get("walltime", -1))
        ident = job["id"] if isinstance(job["id"], int) else str(job["id"])
    except (TypeError, KeyError, ValueError, AttributeError, OverflowError):
        return None
    if not (math.isfinite(submit) and procs > 0):
        return None
    run = _seconds(profiles.get(profile), profiles, 0)
    return {
        "job_id": ident, "submit_time": submit, "run_time": run, "alloc_procs": procs, "req_procs": procs,
        "req_time": limit if limit > 0 else math.nan,
    }  # fmt: skip


def _seconds(profile: Any, profiles: Mapping[str, Any], depth: int) -> float:
    """Return the run time of a profile in seconds; NaN if the run time depends on the platform."""
    if not isinstance(profile, dict) or depth > 8:
        return math.nan
    try:
        if profile.get("type") in DELAYS:
            return float(profile["delay"])
        if profile.get("type") in SEQUENCES:
            parts = [_seconds(profiles.get(str(name)), profiles, depth + 1) for name in profile["seq"]]
            return math.fsum(parts) * float(profile["repeat"] if "repeat" in profile else profile.get("nb", 1))
    except (KeyError, TypeError, ValueError, OverflowError):
        pass
    return math.nan


def write_batsim_workload(trace: Trace) -> Iterator[str]:
    """Yield the JSON text of a trace as a Batsim workload, with a `delay` profile for each run time."""
    # Jobs without processors or without a run time are left out, because Batsim cannot run them.
    #
    # Submissions begin at 0 s. Job ids are unique texts without `!`, which separates the name of a workload from the id
    # of a job in Batsim. A run time of 0 s becomes `LEAST_DELAY`.
    procs = trace.procs()
    keep = [k for k in range(len(trace)) if procs[k] > 0 and trace.run_time[k] >= 0]
    first = float(trace.submit_time.min()) if len(trace) else 0.0
    size = trace.info.max_procs if trace.info.max_procs > 0 else max((procs[k] for k in keep), default=0)
    lasts = {k: _plain(max(trace.run_time[k], LEAST_DELAY)) for k in keep}
    seen: Counter[str] = Counter()
    yield f'{{"nb_res": {math.ceil(size)}, "jobs": [\n'
    for at, k in enumerate(keep):
        run, limit, ident = lasts[k], trace.req_time[k], str(trace.job_id[k].item()).rpartition("!")[2]
        seen[ident] += 1
        ident = ident if seen[ident] == 1 else f"{ident}~{seen[ident]}"
        job = {"id": ident, "subtime": _plain(trace.submit_time[k] - first), "res": math.ceil(procs[k])}
        job |= {"walltime": _plain(limit)} if limit > 0 and math.isfinite(limit) else {}
        yield json.dumps({**job, "profile": f"delay_{run}"}) + ("\n" if at == len(keep) - 1 else ",\n")
    yield '], "profiles": {\n'
    yield ",\n".join(f'"delay_{run}": {{"type": "delay", "delay": {run}}}' for run in dict.fromkeys(lasts.values()))
    yield "\n}}\n"


def _plain(value: float) -> int | float:
    """Return a whole number as int, and other numbers as float."""
    return int(value) if float(value).is_integer() else float(value)


HOSTS = '<platform version="4.1"><zone id="z" routing="None"><host id="h1" speed="1Gf" core="16"/></zone></platform>'
_SPEED = re.compile(r"[\d.]+(?:[eE][+-]?\d+)?\s*(?:[kMGTPEZY]i?)?(?:f|flops)?")
_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")
_APART = ("storage", "master")
_MOST_HOSTS = 1_000_000


def read_platform(text: str, source: str = "platform.xml") -> Machine:
    """Read the machine that a SimGrid platform describes.

    >>> machine = read_platform(HOSTS)
    >>> machine.node_names(), machine.cpus, machine.nodes[0].features
    (('h1',), 16, ('1Gf',))
    """
    # Hosts can be single, in a `cluster` or in a `cabinet`. Hosts to which Batsim gives no jobs are left out:
    # `master_host`, and hosts with the role master or storage or with the property `excluded`.
    try:
        root = ElementTree.fromstring(text.lstrip().encode("utf-8"))
    except (ElementTree.ParseError, ValueError) as error:
        raise InputError(f"{source}: not XML: {error}", hint=f"a platform is {HOSTS}") from None
    if root.tag != "platform":
        raise input_error(source, "is not a SimGrid platform", value=f"<{root.tag}>", accepted=HOSTS)
    groups: list[NodeGroup] = []
    left_hosts, words = 0, {item.tag for item in root.iter()}
    seen: set[str] = set()
    for item in root.iter():
        if item.tag not in ("host", "cluster", "cabinet", "peer"):
            continue
        props = {each.get("id", ""): each.get("value", "").strip() for each in item.findall("prop")}
        names, cores, speed = _hosts(item, source)
        if any(role in props.get("role", "") for role in _APART) or props.get("excluded", "").lower() == "true":
            left_hosts += len(names)
            continue
        nodes = tuple(name for name in names if not name.startswith("master_host"))
        left_hosts += len(names) - len(nodes)
        if twice := seen.intersection(nodes) or {name for name in nodes if nodes.count(name) > 1}:
            accepted = "a different name for each host"
            raise input_error(source, "two hosts have the same name", value=min(twice), accepted=accepted)
        seen.update(nodes)
        if groups and (groups[-1].cpus, groups[-1].features) == (cores, (speed,)):
            groups[-1] = replace(groups[-1], names=groups[-1].names + nodes)
        elif nodes:
            groups.append(NodeGroup(nodes, cores, features=(speed,)))
        words.update("watts" for name in props if name.startswith("watt"))
    if not groups:
        raise input_error(source, "the platform has no compute host", accepted=HOSTS)
    left_out = (
        (left_hosts, f"{left_hosts} hosts to which Batsim gives no jobs"),
        (any(group.cpus > 1 for group in groups), "Batsim's allocation of whole hosts (batchcast allocates cores)"),
        (len({group.features for group in groups}) > 1, "speeds (a job runs as long as its log says on every host)"),
        (words & {"link", "backbone", "route", "cluster", "cabinet"}, "the network"),
        ("watts" in words, "power states (see batchcast.simulation.energy)"),
        ("include" in words, "included files"),
    )
    whole = Partition(ONLY_PARTITION, tuple(name for group in groups for name in group.names), default=True)
    return Machine(tuple(groups), (whole,), left_out=tuple(sentence for there, sentence in left_out if there))


def _hosts(item: ElementTree.Element, source: str) -> tuple[list[str], int, str]:
    """Return the names of an element's hosts, the cores of each, and the speed in the initial power state."""
    name = item.get("id", "")
    speeds = (item.get("speed") or item.get("power") or "").split(",")
    state, cores = item.get("pstate", "0"), item.get("core") or item.get("cores") or "1"
    speed = speeds[int(state)].strip() if state.isdecimal() and len(state) < 13 and int(state) < len(speeds) else ""
    if not _SPEED.fullmatch(speed):
        raise input_error(source, f"{item.tag} {name!r} has no valid speed", value=item.get("speed"), accepted="1Gf")
    if not cores.isdecimal() or len(cores) > 12 or not 0 < int(cores) <= _MOST_HOSTS:
        what = f"{item.tag} {name!r}: wrong number of cores"
        raise input_error(source, what, value=cores, accepted="a whole number from 1")
    names = [name]
    if item.tag in ("cluster", "cabinet"):
        radical, names = item.get("radical", ""), []
        for part in re.split("[,;]", radical):
            match = _NUMBERS.fullmatch(part.strip())
            low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if not 0 <= high - low < _MOST_HOSTS:
                raise input_error(source, f"{item.tag} {name!r}: wrong radical", value=radical, accepted="0-511, 1-3,7")
            names += [f"{item.get('prefix', '')}{k}{item.get('suffix', '')}" for k in range(low, high + 1)]
    if wrong := [each for each in names if not re.fullmatch(r"[^\s,\[\]]+", each)]:
        accepted = "a name without blanks, commas or brackets"
        raise input_error(source, "wrong name of a host", value=wrong[0], accepted=accepted)
    return names, int(cores), speed


def platform_of(machine: Machine) -> str:
    """Write a SimGrid platform for Batsim, with one host per processor, because a workload's `res` counts hosts.

    >>> print(platform_of(read_platform(HOSTS)).splitlines()[-4])
    <host id="h1-14" coordinates="0 0 0" speed="1Gf"/>
    """
    # All hosts have the same coordinates, as in Batsim's own platforms without a network. Batsim's processes exchange
    # messages between hosts, and SimGrid aborts if two hosts have no route.
    at = 'coordinates="0 0 0"'
    lines = [
        '<?xml version="1.0"?>',
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">',
        '<platform version="4.1">',
        '<zone id="all" routing="Vivaldi">',
        f'<host id="master_host" {at} speed="1Gf"/>',
    ]
    for group in machine.nodes:
        speed = next((word for word in group.features if _SPEED.fullmatch(word) and not word.isdigit()), "1Gf")
        for name in group.names:
            own = quoteattr(name)[1:-1]
            names = [own] if group.cpus == 1 else [f"{own}-{k}" for k in range(group.cpus)]
            lines += [f'<host id="{each}" {at} speed="{speed}"/>' for each in names]
    return "\n".join([*lines, "</zone>", "</platform>"]) + "\n"
