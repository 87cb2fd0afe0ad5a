# SPDX-License-Identifier: Apache-2.0
"""Convert the output of `squeue -O` and of sacct, in which a mark ends every field, to sightings of jobs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...columns import ALLOCATED, REQUESTED
from ...errors import BatchcastError, InputError
from ...units import parse_duration
from ..memory import STEP_FIELDS, outgrew, peak, requested
from ..sighting import FINISHED_STATES, OPEN_STATES, Field, Sighting, never_ran, number, read_fields
from .resources import parse_tres
from .sbatch import command_digest

Record = dict[str, str]


def parse_marked(text: str, mark: str, fields: Sequence[str], *, header: bool = False) -> tuple[list[Record], int]:
    """Split an output in which every field ends with a mark into records; return also the number of pieces of a
    truncated last record.

    >>> parse_marked("1@x|y\\nz@\\n2@@\\n", "@", ("JobID", "Name"))
    ([{'JobID': '1', 'Name': 'x|y\\nz'}, {'JobID': '2', 'Name': ''}], 0)
    """
    # The caller draws a random mark for every call, so values can contain newlines, delimiters and quotes.
    pieces = text.split(mark)
    tail = pieces.pop()
    width = len(fields)
    whole = len(pieces) // width
    records = []
    for k in range(whole):
        values = pieces[k * width : (k + 1) * width]
        # A job id has no line breaks. Text before the job id is a warning of the command, or the newline that ended the
        # previous record.
        values[0] = values[0].rpartition("\n")[2]
        records.append(dict(zip(fields, (v.strip(" ") for v in values))))
    broken = len(pieces) - whole * width + (1 if tail.strip() else 0)
    if broken and not records:
        hint = "batchcast doctor shows the version of the client and its answer"
        raise InputError(f"the scheduler's answer does not have the requested form: {text[:80]!r}", hint=hint)
    return records[1:] if header else records, broken


_LIFE = (
    "JobID", "JobArrayID", "SubmitTime", "StartTime", "EndTime", "EligibleTime", "State", "Reason", "PriorityLong",
    "Dependency", "NodeList", "ReqNodes", "Reservation", "Licenses",
)  # fmt: skip
FIELDS = tuple(dict.fromkeys([*_LIFE, *(c.squeue for c in (*REQUESTED, *ALLOCATED) if c.squeue)]))
"""Fields for `squeue -O` (Slurm 22.05 and newer): times and state of a job, and every declared column."""


WAITING = ("PENDING", "CONFIGURING", "POWER_UP_NODE", "RESV_DEL_HOLD")


def sighting(record: Mapping[str, str]) -> Sighting:
    """Convert one record of squeue's output.

    >>> sighting({"JobID": "7", "SubmitTime": "100", "State": "PENDING", "TimeLimit": "10:00"}).requested["req_time"]
    600.0
    """
    clean = {k: ("" if v in ("N/A", "(null)") else v) for k, v in record.items()}
    get = clean.get
    state = get("State", "").split(" ")[0]
    submit = epoch(get("SubmitTime", ""))
    job_id = get("JobArrayID", "") or get("JobID", "")
    if not job_id or math.isnan(submit) or not state:
        raise BatchcastError(f"a job without an id, a submit time or a state: {dict(record)!r}"[:200])
    start, end, nodes = epoch(get("StartTime", "")), epoch(get("EndTime", "")), get("NodeList", "")
    pending = state in WAITING and not nodes
    finished = state in FINISHED_STATES
    withdrawn = finished and never_ran(start, not nodes)
    return Sighting(
        job_id=job_id,
        raw_id=get("JobID", "") or job_id,
        submit_time=submit,
        state="PENDING" if pending else state,
        certain=pending or finished or state in OPEN_STATES,
        start_time=math.nan if pending or withdrawn else start,
        end_time=end if finished else math.nan,
        expected_start=start if pending else math.nan,
        eligible_time=epoch(get("EligibleTime", "")),
        reason="" if get("Reason", "") == "None" else get("Reason", ""),
        priority=number(get("PriorityLong", "")),
        dependency=get("Dependency", ""),
        reservation=get("Reservation", ""),
        licenses=get("Licenses", ""),
        nodes_asked=get("ReqNodes", ""),
        requested=read_fields(REQUESTED, clean, "squeue", _own(clean, pending or withdrawn)),
        allocated={} if pending or withdrawn else read_fields(ALLOCATED, clean, "squeue"),
    )


def _own(record: Mapping[str, str], no_nodes: bool) -> dict[str, Field]:
    """Return the columns that need special parsing of squeue's output: several partitions or QOS, commands, whole
    nodes, and processors.

    Before a job has nodes, tres-alloc has the requested processors; later it has the allocated processors.
    """
    cpus, parts = record.get("NumCPUs", ""), record.get("Partition", "")
    from_tres = number(parse_tres(record.get("tres-alloc", "")).get("cpu", "")) if no_nodes else math.nan
    return {
        "partition_id": first(parts),
        "partition_list": parts if "," in parts else None,
        "app_id": command_digest(record.get("Command", "")),
        "exclusive": 1.0 if record.get("OverSubscribe") == "NO" else math.nan,
        "qos": first(record.get("QOS", "")),
        "req_procs": number(cpus) if math.isnan(from_tres) else from_tres,
    }


def first(names: str) -> str | None:
    """Return the first of several partitions or (since 24.11) QOS that a job can use; None if there is none.

    >>> first("main,big"), first("")
    ('main', None)
    """
    return names.split(",")[0] or None


def epoch(text: str) -> float:
    """Return epoch seconds as SLURM_TIME_FORMAT=%s prints them; NaN for N/A, Unknown, None, 0 and NO_VAL.

    >>> epoch("1795229481"), epoch("Unknown")
    (1795229481.0, nan)
    """
    return float(text) if text.isascii() and text.isdigit() and 0 < float(text) < 2**32 - 2 else math.nan


_ACCOUNTED_LIFE = (
    "JobID", "JobIDRaw", "Submit", "Eligible", "Start", "End", "State", "Priority", "AllocNodes", "AdminComment",
)  # fmt: skip
_ACCOUNTED = (c.sacct for c in (*REQUESTED, *ALLOCATED) if c.sacct and c.sacct != "SubmitLine")
SACCT_FIELDS = tuple(dict.fromkeys([*_ACCOUNTED_LIFE, *_ACCOUNTED]))
"""Fields for sacct (Slurm 22.05 and newer): times and state of a job, and every declared column that sacct has."""
FIELDS_WITH_STEPS = tuple(dict.fromkeys([*SACCT_FIELDS, *STEP_FIELDS, "AllocTRES"]))
"""Fields for sacct with steps. Only the rows of steps have the memory that was used."""

_TASKS = re.compile(r"(\d+)_\[([\d,\-:]+)(?:%\d+)?\]")
_USER_LIMIT = re.compile(r"(?:^|;)user_tl=(\d+)")


def with_steps(records: Iterable[Mapping[str, str]]) -> list[tuple[Mapping[str, str], list[Mapping[str, str]]]]:
    """Return each job's record with the records of its steps (12.batch, 12.0), which follow it. If a job id has several
    runs, each run is listed separately.

    >>> rows = [{"JobID": "7"}, {"JobID": "7.batch"}, {"JobID": "7"}, {"JobID": "8_1"}, {"JobID": "8_1.0"}]
    >>> [(job["JobID"], len(steps)) for job, steps in with_steps(rows)]
    [('7', 1), ('7', 0), ('8_1', 1)]
    """
    jobs: list[tuple[Mapping[str, str], list[Mapping[str, str]]]] = []
    for record in records:
        if "." not in record["JobID"]:
            jobs.append((record, []))
        elif jobs:
            jobs[-1][1].append(record)
    return jobs


def ended(record: Mapping[str, str], steps: Sequence[Mapping[str, str]] = ()) -> Iterator[Sighting]:
    """Yield the jobs that ended according to one sacct record: none for a job that has not ended, several for array
    tasks that were withdrawn together."""
    # The time limit is the limit that the user requested, if a submit plug-in recorded it (`user_tl=MINUTES` in
    # AdminComment), else the last limit in sacct.
    end, submit = epoch(record["End"]), epoch(record["Submit"])
    if not record["JobID"] or math.isnan(submit):
        raise BatchcastError(f"a job without an id or a submit time: {dict(record)!r}"[:200])
    state = record["State"].split(" ")[0]
    if math.isnan(end) or state in ("PENDING", "RUNNING", "SUSPENDED"):
        return
    start = epoch(record["Start"])
    nodes = number(record["AllocNodes"])
    withdrawn = never_ran(start, nodes == 0)
    asked = read_fields(REQUESTED, record, "sacct", _own_of_sacct(record))
    held = {} if withdrawn else read_fields(ALLOCATED, record, "sacct")
    memory_peak = peak(steps)
    is_measured = not math.isnan(memory_peak.node_kib)
    if is_measured and not withdrawn:
        held["used_mem_kib"] = memory_peak.node_kib * (nodes if nodes > 0 else 1.0)
    state = "OUT_OF_MEMORY" if state == "FAILED" and any(map(outgrew, steps)) else state
    for job_id in _task_ids(record["JobID"]):
        yield Sighting(
            job_id=job_id,
            raw_id=record["JobIDRaw"],
            submit_time=submit,
            state=state,
            start_time=math.nan if withdrawn else start,
            end_time=end,
            eligible_time=epoch(record["Eligible"]),
            priority=number(record["Priority"]),
            requested=asked,
            allocated=held,
            unmeasured="" if is_measured or not steps else "bad" if memory_peak.bad else "zero",
        )


def _own_of_sacct(record: Mapping[str, str]) -> dict[str, Field]:
    """Return the columns that need special parsing of sacct's output: limits in minutes, memory per node or processor,
    lists of several names."""
    noted = _USER_LIMIT.search(record["AdminComment"])
    nodes, procs = number(record["ReqNodes"]), number(record["ReqCPUS"])
    return {
        "req_time": parse_duration(noted[1] if noted else record["TimelimitRaw"]),
        "req_mem_kib": requested(record["ReqMem"], nodes=nodes, procs=procs, tres=record.get("ReqTRES", "")),
        "partition_id": first(record["Partition"]),
        "qos": first(record["QOS"]),
    }


def _task_ids(job_id: str) -> Iterator[str]:
    """Yield the ids of array tasks: `4_[1-3,9]` gives 4_1, 4_2, 4_3, 4_9; other ids are yielded unchanged."""
    match = _TASKS.fullmatch(job_id)
    if match is None:
        yield job_id
        return
    for piece in match[2].split(","):
        span, _, step = piece.partition(":")
        first, _, last = span.partition("-")
        for task in range(int(first), int(last or first) + 1, int(step or 1)):
            yield f"{match[1]}_{task}"
