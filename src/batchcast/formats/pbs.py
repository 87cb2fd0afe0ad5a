"""Accounting logs of PBS Pro, OpenPBS and Torque: one line a record, `date;type;job;key=value ...`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import BatchcastError, input_error
from ..table import LogInfo, Trace
from ..units import parse_duration
from .problems import Problems
from .qstat import ended_state, short_id, size_kib

_RECORD = re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;([A-Za-z]);([^;]*);(.*)", re.DOTALL)
_PAIR = re.compile(r'([A-Za-z_][\w.]*)=("[^"]*"|\S*)')
_NAMES = {
    "user_id": "user", "group_id": "group", "account": "account", "queue_id": "queue", "job_name": "jobname",
}  # fmt: skip


def looks_like_pbs(sample: str) -> bool:
    """Whether one of the first lines is an accounting record.

    >>> looks_like_pbs("04/01/2024 00:00:01;E;7.srv;user=ada ctime=1"), looks_like_pbs("1 0 5")
    (True, False)
    """
    return any(_RECORD.match(line) for line in sample.split("\n")[:200])


def read_pbs(blocks: Iterable[bytes], source: str = "(memory)", *, strict: bool = False) -> Trace:
    """The trace of an accounting log: its E records (a job ended); its clock is epoch seconds.

    Written from the manuals (PBS Professional Administrator's Guide, "Accounting Log Format"; Torque, "Accounting
    records"); no server was at hand. Submission is ctime, else qtime; run time is resources_used.walltime, else end -
    start; processors are Resource_List.ncpus, else those of select or of Torque's nodes=N:ppn=P; memory is that of
    the whole job. Records of other types (queued, started, requeued, deleted, ...) are counted, not read: a job that
    was run again has its last run. A record without a submission is dropped and counted. O(bytes).

    >>> line = "04/01/2024 00:00:01;E;7[2].srv;user=ada ctime=10 start=15 end=25 Resource_List.select=2:ncpus=4"
    >>> trace = read_pbs([line.encode()])
    >>> trace.job_id.tolist(), trace.wait_time.tolist(), trace.run_time.tolist(), trace.procs().tolist()
    (['7_2'], [5.0], [10.0], [8.0])
    """
    problems = Problems(source, strict)
    rows: list[dict[str, Any]] = []
    others: dict[str, int] = {}
    text = b"".join(blocks).decode("utf-8", "replace")
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if not line.strip():
            continue
        match = _RECORD.fullmatch(line)
        if match is None:
            problems.drop(number, "not an accounting record", line)
        elif match[1] != "E":
            others[match[1]] = others.get(match[1], 0) + 1
        else:
            pairs = {key: value.strip('"') for key, value in _PAIR.findall(match[3])}
            if (row := _row(match[2], pairs, number, problems)) is not None:
                rows.append(row)
    if not rows:
        raise input_error(source, "no E record (a job that ended) in it" + problems.because(), hint="a later day's log")
    ids = [row["job_id"] for row in rows]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["job_id"] = [int(i) for i in ids] if all(i.isdigit() and len(i) < 19 for i in ids) else ids
    dropped = problems.counts() | {f"PBS {kind} record (only E counts)": n for kind, n in sorted(others.items())}
    return Trace.from_arrays(
        columns, LogInfo(source=source, format="pbs", dropped=dropped, notes=tuple(problems.notes()))
    )


def _row(job: str, a: Mapping[str, str], line: int, problems: Problems) -> dict[str, Any] | None:
    """One job by column name; None (and counted) without an id or a submission."""

    def stamp(key: str) -> float:
        return float(a[key]) if re.fullmatch(r"[0-9]{1,12}", a.get(key, "")) and int(a[key]) else math.nan

    def length(key: str) -> float:
        try:
            seconds = float(a[key]) if re.fullmatch(r"[0-9]{1,12}", a.get(key, "")) else parse_duration(a.get(key, ""))
        except BatchcastError:
            problems.unknown(line, f"{key} that are no time", a[key])
            return math.nan
        return seconds if math.isfinite(seconds) else math.nan

    submit = stamp("ctime")
    submit = stamp("qtime") if math.isnan(submit) else submit
    if math.isnan(submit) or not job:
        problems.drop(line, "no job id or no ctime and qtime", job)
        return None
    start, end, used = stamp("start"), stamp("end"), length("resources_used.walltime")
    run = end - start if math.isnan(used) else used
    wait = (end if math.isnan(start) else start) - submit
    for name, value in (("run time (end before start)", run), ("wait (start before submission)", wait)):
        if value < 0:
            problems.unknown(line, name, value)
    procs, nodes = _size(a)
    return {
        "job_id": short_id(job),
        "submit_time": submit,
        "eligible_time": stamp("etime"),
        "wait_time": wait if wait >= 0 else math.nan,
        "run_time": run if run >= 0 and not math.isnan(start) else math.nan,
        "req_procs": procs,
        "req_nodes": nodes,
        "req_time": length("Resource_List.walltime"),
        "req_mem_kib": size_kib(a.get("Resource_List.mem", "")) or math.nan,
        "status": ended_state(a.get("Exit_status", ""), math.isnan(start)).lower(),
        **{name: a.get(key) or None for name, key in _NAMES.items()},
    }


def _size(a: Mapping[str, str]) -> tuple[float, float]:
    """Processors and nodes: as totals, else summed over the chunks of select or nodes."""
    procs, nodes = _count(a, "Resource_List.ncpus"), _count(a, "Resource_List.nodect")
    chunks = [c for c in re.split(r"\+", a.get("Resource_List.select") or a.get("Resource_List.nodes", "")) if c]
    if math.isnan(procs) and chunks:
        procs = 0.0
        for chunk in chunks:
            first = chunk.partition(":")[0]
            each = re.search(r"\b(?:ncpus|ppn)=(\d{1,9})", chunk)
            times = float(first) if re.fullmatch(r"\d{1,9}", first) else 1.0
            procs += times * (float(each[1]) if each else 1.0)
    return (procs if procs > 0 else math.nan), nodes


def _count(a: Mapping[str, str], key: str) -> float:
    text = a.get(key, "")
    return float(text) if re.fullmatch(r"[0-9]{1,9}", text) and int(text) else math.nan
