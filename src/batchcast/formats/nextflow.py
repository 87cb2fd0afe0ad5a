# SPDX-License-Identifier: Apache-2.0
"""Read Nextflow's trace files (trace.txt, with tabs or commas): the resource requests of tasks, by attempt, and the
used resources."""

from __future__ import annotations

import contextlib
import csv
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from functools import partial
from typing import Any

from ..errors import input_error
from ..table import LogInfo, Trace
from ..units import KIB_OF

NEEDED = ("task_id", "submit")
ONE_OF = ("process", "name")
_LENGTH = re.compile(r"([\d.]+)\s*(ms|s|m|h|d)")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"([\d.]+)\s*([KMGTP]?)i?B?", re.IGNORECASE)
_STATUS = {"COMPLETED": "completed", "FAILED": "failed", "ABORTED": "cancelled"}
_KILLED = {"137", "247", "104", "134", "139", "140", "143"}  # exit codes of tasks that can have run out of memory
_USED_SHARE_IF_KILLED = 0.9  # a killed task that used at least this share of its memory request counts as out of memory


def looks_like(head: bytes) -> bool:
    """Whether the first line of a file has the columns of a Nextflow trace.

    >>> looks_like(b"task_id\\tprocess\\tsubmit\\trealtime\\n"), looks_like(b"job_id,submit\\n")
    (True, False)
    """
    line = head.split(b"\n", 1)[0].decode("utf-8", "replace").strip()
    names = set(re.split(r"[\t,]", line))
    return names >= set(NEEDED) and bool(names & set(ONE_OF))


def read(text: str, source: str, zone: tzinfo, *, strict: bool = False) -> Trace:
    """Read a Nextflow trace file, with each task as a job; times are epoch seconds."""
    # Each task has one node and the user `nextflow`. `process` becomes the job name; `tag` and `attempt` are extra
    # columns that are known at submission. Cached tasks did not run; they are left out and counted.
    #
    # Plain numbers are milliseconds and bytes (`trace.raw = true`); other values have units (`3m 20s`, `1.5 GB`; a unit
    # of memory is 1,024 of the next smaller unit). The run time is `complete` - `start`, else `realtime`. Memory used
    # is `peak_rss`. A failed task counts as out of memory if it was killed (exit code 137 and similar) and used 90 % of
    # its request.
    # str.splitlines() would also split at form feeds and U+2028, which tags may contain.
    first, *lines = (line.removesuffix("\r") for line in text.split("\n"))
    delimiter = "\t" if "\t" in first else ","
    names = [name.strip() for name in _cells(first, delimiter, 0)]
    rows, cached, broken = [], 0, 0
    for number, line in enumerate(lines, 2):
        if not line:
            continue
        try:
            cells = dict(zip(names, _cells(line, delimiter, len(names)), strict=True))
            if cells.get("status") == "CACHED":
                cached += 1
                continue
            rows.append(_task(cells, zone))
        except (ValueError, TypeError, AttributeError) as error:
            if strict:
                forms = "numbers, or numbers with units"
                raise input_error(source, str(error), line=number, accepted=forms) from None
            broken += 1
    if not rows:
        accepted = "Nextflow's trace.txt with task_id, submit, process"
        raise input_error(source, "no task in this file ran", accepted=accepted)
    counts = {"cached task (did not run)": cached, "line that cannot be read": broken}
    dropped = {name: count for name, count in counts.items() if count}
    info = LogInfo(source=source, format="nextflow", dropped=dropped, known_at_submit=("attempt", "tag"))
    rows.sort(key=lambda row: row["submit_time"])
    return Trace.from_arrays({name: [row[name] for row in rows] for name in rows[0]}, info)


def _cells(line: str, delimiter: str, count: int) -> list[str]:
    """Return the cells of one line, with CSV quotes resolved if the line then has the right number of cells.

    Nextflow itself writes tags and scripts without quoting, but a program that rewrites the table may quote cells.
    """
    if delimiter == "," and '"' in line:
        with contextlib.suppress(csv.Error):
            cells = next(csv.reader([line], strict=True))
            if not count or len(cells) == count:
                return cells
    return line.split(delimiter)


def _task(cells: Mapping[str, Any], zone: tzinfo) -> dict[str, Any]:
    """Return the columns of one task; ValueError if a cell cannot be read."""

    def cell(name: str) -> str:
        value = (cells.get(name) or "").strip()
        return "" if value == "-" else value

    def parsed(name: str, parse: Callable[[str], float]) -> float:
        text = cell(name)
        return parse(text) if text else math.nan

    submit, start, complete = (parsed(name, partial(_instant, zone=zone)) for name in ("submit", "start", "complete"))
    if math.isnan(submit):
        raise ValueError("no submit time")
    run = complete - start
    run = run if run >= 0 else parsed("realtime", _seconds)
    asked, used, status = parsed("memory", _kib), parsed("peak_rss", _kib), cell("status")
    out = status == "FAILED" and cell("exit") in _KILLED and used >= _USED_SHARE_IF_KILLED * asked
    procs = float(cell("cpus") or "nan")
    return {
        "job_id": cell("task_id"), "submit_time": submit,
        "wait_time": max(start - submit, 0.0) if start == start else None,
        "run_time": run, "req_procs": procs, "alloc_procs": procs, "req_nodes": 1.0, "alloc_nodes": 1.0,
        "req_time": parsed("time", _seconds), "req_mem_kib": asked, "used_mem_kib": used,
        "status": "out_of_memory" if out else _STATUS.get(status, "failed" if status else None),
        "job_name": cell("process") or cell("name").split(" (")[0], "queue_id": cell("queue") or None,
        "user_id": "nextflow",
        "tag": cell("tag") or None, "attempt": float(cell("attempt") or 1),
    }  # fmt: skip


def _instant(text: str, zone: tzinfo) -> float:
    """Return epoch seconds from milliseconds or an ISO 8601 time."""
    if text.isdecimal():
        return float(text) / 1000
    when = datetime.fromisoformat(text)
    return (when if when.tzinfo else when.replace(tzinfo=zone)).timestamp()


def _seconds(text: str) -> float:
    """Return seconds from milliseconds, or from numbers with units.

    >>> _seconds("14400000"), _seconds("3m 20s"), _seconds("500ms")
    (14400.0, 200.0, 0.5)
    """
    if text.isdecimal():
        return float(text) / 1000
    parts = _LENGTH.findall(text)
    if not parts or _LENGTH.sub("", text).strip():
        raise ValueError(f"not a duration: {text[:40]!r}")
    return math.fsum(float(number) * _SECONDS[unit] for number, unit in parts)


def _kib(text: str) -> float:
    """Return KiB from bytes, or from a number with a unit.

    >>> _kib("2048"), _kib("1.5 GB"), _kib("0")
    (2.0, 1572864.0, nan)
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"not an amount of memory: {text[:40]!r}")
    amount = float(match[1]) * KIB_OF[match[2].upper()]
    return amount if amount > 0 else math.nan
