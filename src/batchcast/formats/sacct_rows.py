"""Marked `sacct` records to sightings of jobs that ended: what closes a gap and what history is made of. Pure.

`formats.sacct` reads whole dumps into columns; this reads the same fields row by row, with the mark that makes any job
name harmless, and expands the one record sacct keeps for array tasks that were withdrawn together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..columns import ASKED, HELD
from ..errors import BatchcastError
from ..units import parse_duration
from .live_fields import number, read_fields
from .memory import STEP_FIELDS, Peak, of_whole_job, outgrew, peak, requested
from .ran import never_ran
from .sighting import Field, Sighting
from .squeue import epoch, first

_LIFE = (
    "JobID", "JobIDRaw", "Submit", "Eligible", "Start", "End", "State", "Priority", "AllocNodes", "AdminComment",
)  # fmt: skip
FIELDS = tuple(dict.fromkeys([*_LIFE, *(c.sacct for c in (*ASKED, *HELD) if c.sacct)]))
"""What is asked of sacct(1), Slurm 22.05 and newer: a job's life, and every declared column."""
FIELDS_WITH_STEPS = tuple(dict.fromkeys([*FIELDS, *STEP_FIELDS, "AllocTRES"]))
"""The same where the rows of steps are asked for too: they alone say how much memory was used."""

_TASKS = re.compile(r"(\d+)_\[([\d,\-:]+)(?:%\d+)?\]")
_USER_LIMIT = re.compile(r"(?:^|;)user_tl=(\d+)")


def with_steps(records: Iterable[Mapping[str, str]]) -> Iterator[tuple[Mapping[str, str], list[Mapping[str, str]]]]:
    """Each job's record with those of its steps (12.batch, 12.0), which follow it: so runs of one id stay apart.

    >>> rows = [{"JobID": "7"}, {"JobID": "7.batch"}, {"JobID": "7"}, {"JobID": "8_1"}, {"JobID": "8_1.0"}]
    >>> [(job["JobID"], len(steps)) for job, steps in with_steps(rows)]
    [('7', 1), ('7', 0), ('8_1', 1)]
    """
    job: Mapping[str, str] | None = None
    steps: list[Mapping[str, str]] = []
    for record in records:
        if "." in record["JobID"]:
            steps.append(record)
            continue
        if job is not None:
            yield job, steps
        job, steps = record, []
    if job is not None:
        yield job, steps


def ended(record: Mapping[str, str], steps: Sequence[Mapping[str, str]] = ()) -> Iterator[Sighting]:
    """The jobs a record says have ended: none of a job still open, several of array tasks withdrawn together.

    The limit is the user's own where a submit plug-in noted it (`user_tl=MINUTES` in AdminComment), else the last one
    sacct knows. Memory used is read from the job's `steps`. Raises BatchcastError for a record without an id or a
    submit time.
    """
    end, submit = epoch(record["End"]), epoch(record["Submit"])
    if not record["JobID"] or math.isnan(submit):
        raise BatchcastError(f"a job without an id or a submit time: {dict(record)!r}"[:200])
    state = record["State"].split(" ")[0]
    if math.isnan(end) or state in ("PENDING", "RUNNING", "SUSPENDED"):
        return
    start = epoch(record["Start"])
    withdrawn = never_ran(start, number(record["AllocNodes"]) == 0)
    asked = read_fields(ASKED, record, "sacct", _own(record))
    held = {} if withdrawn else read_fields(HELD, record, "sacct")
    used = peak(steps)
    if used.node_kib == used.node_kib and not withdrawn:
        held["used_mem_kib"] = of_whole_job(used.node_kib, number(record["AllocNodes"]))
    state = "OUT_OF_MEMORY" if state == "FAILED" and any(map(outgrew, steps)) else state
    for job_id in _task_ids(record["JobID"]):
        yield Sighting(
            job_id=job_id,
            raw_id=record["JobIDRaw"],
            submit_time=submit,
            state=state,
            start_time=math.nan if withdrawn else start,
            end_time=end,
            never_ran=withdrawn,
            eligible_time=epoch(record["Eligible"]),
            priority=number(record["Priority"]),
            asked=asked,
            held=held,
            unmeasured=_unmeasured(used, len(steps)),
        )


def _unmeasured(used: Peak, steps: int) -> str:
    """Why nobody knows how much a job with steps used: `zero`, no sample was taken; `bad`, no amount; else empty."""
    if used.node_kib == used.node_kib or not steps:
        return ""
    return "bad" if used.bad else "zero"


def _own(record: Mapping[str, str]) -> dict[str, Field]:
    """What sacct means in its own way: minutes for limits, memory per node or processor, the first of several names."""
    noted = _USER_LIMIT.search(record["AdminComment"])
    nodes, procs = number(record["ReqNodes"]), number(record["ReqCPUS"])
    return {
        "req_time": parse_duration(noted[1] if noted else record["TimelimitRaw"]),
        "req_mem_kib": requested(record["ReqMem"], nodes=nodes, procs=procs, tres=record.get("ReqTRES", "")),
        "partition_id": first(record["Partition"]),
        "qos": first(record["QOS"]),
    }


def _task_ids(job_id: str) -> Iterator[str]:
    """`4_[1-3,9]` as 4_1, 4_2, 4_3, 4_9; any other id as it is."""
    match = _TASKS.fullmatch(job_id)
    if match is None:
        yield job_id
        return
    for piece in match[2].split(","):
        span, _, step = piece.partition(":")
        first, _, last = span.partition("-")
        for task in range(int(first), int(last or first) + 1, int(step or 1)):
            yield f"{match[1]}_{task}"
