# SPDX-License-Identifier: Apache-2.0
"""Read `sacct --json` and `squeue --json`, and convert them to the columns that `sacct -P` prints.

Slurm 21.08 to 25.11 print this JSON (data_parser v0.0.37 to v0.0.44). squeue shows no steps. The start that it shows
for a waiting job is Slurm's forecast and is ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from ...columns import COLUMNS, Column
from ...errors import input_error
from ...units import format_duration
from ..chunks import json_errors, load_json
from .resources import parse_tres
from .scontrol_json import as_list, number, tres, value_at

COMMAND = "sacct -a --json -S 2026-01-01 > jobs.json"
# NO_VAL and INFINITE of 32, 64 and 16 bits, in the plain numbers of v0.0.37
_UNSET = {"4294967294", "18446744073709551614", "65534"}
_INFINITE = {"4294967295", "18446744073709551615", "65535"}
_PER_CPU = 1 << 63
"""A bit of required.memory (up to v0.0.38), which means that the amount is per processor."""
DECLARED = {column.sacct: column for column in COLUMNS.values() if column.sacct and column.json}
"""The columns that have a place in the JSON, by the name of their field in sacct."""
NAMES = (
    "JobID", "JobIDRaw", "UID", "GID", *DECLARED, "State", "Start", "End", "TimelimitRaw", "AllocCPUS", "AllocNodes",
    "ReqMem", "ReqTRES", "AllocTRES", "SubmitLine", "TotalCPU", "NTasks", "TRESUsageInMax", "TRESUsageInTot",
)  # fmt: skip
Record = dict[str, str]


class _Document(msgspec.Struct):
    """The parts of a JSON document that batchcast reads; jobs are decoded one by one to save memory."""

    jobs: list[msgspec.Raw]
    errors: list[Any] = []


def job_columns(text: bytes, source: str = "(memory)") -> tuple[dict[str, list[str]], list[str]]:
    """Return the jobs and their steps as columns with sacct's names, and the errors that Slurm itself reported in the
    JSON documents.

    >>> columns, _ = job_columns(b'{"jobs": [{"job_id": 7, "time": {"submission": 60, "limit": {"set": true,'
    ...                          b' "infinite": false, "number": 90}}, "state": {"current": ["FAILED"]}}]}')
    >>> columns["JobID"], columns["Submit"], columns["TimelimitRaw"], columns["State"]
    (['7'], ['60'], ['90'], ['FAILED'])
    """
    columns: dict[str, list[str]] = {name: [] for name in NAMES}
    notes = []
    for jobs, errors in _documents(text, source):
        for job in jobs:
            for record in _records(job):
                for name, texts in columns.items():
                    texts.append(record.get(name, ""))
        reported = [str(value_at(error, "description") or value_at(error, "error") or error) for error in errors]
        notes += [f"Slurm printed an error with these jobs: {words[:120]}" for words in reported]
    return columns, notes


def _documents(text: bytes, source: str) -> Iterator[tuple[Iterable[Any], list[Any]]]:
    """Yield the jobs and the errors of each JSON document of a file, which may have several in a row."""
    try:
        document = msgspec.json.decode(text, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # several documents, or content that only the slower json module accepts (NaN, invalid UTF-8)
    else:
        decoded = (bytes(raw).decode("utf-8", "replace") for raw in document.jobs)
        yield (load_json(job, source, "a list of jobs", COMMAND) for job in decoded), document.errors
        return
    rest, decoder = text.decode("utf-8", "replace"), json.JSONDecoder()
    place = len(rest) - len(rest.lstrip())
    while place < len(rest):
        with json_errors(source, "a list of jobs", COMMAND):
            plain, place = decoder.raw_decode(rest, place)
        jobs = plain.get("jobs") if isinstance(plain, dict) else None
        if not isinstance(jobs, list):
            raise input_error(source, "the JSON has no list of jobs", accepted=COMMAND, hint=COMMAND)
        yield jobs, plain.get("errors") or []
        place += len(rest) - place - len(rest[place:].lstrip())


def _records(job: Any) -> list[Record]:
    """Return a job's record and the records of its steps; an unreadable job gives a record that the reader drops."""
    if not isinstance(job, Mapping):
        return [{}]
    try:
        if "submit_time" in job:
            return [_of_squeue(job)]
        record = _of_sacct(job)
        return [record, *(_step(step, record) for step in job.get("steps") or ())]
    except (TypeError, KeyError, ValueError, AttributeError):
        return [{"JobID": _plain(job.get("job_id"))}]


def _of_sacct(job: Mapping[str, Any]) -> Record:
    """Return the record of a job that sacct printed."""
    requested, allocated = tres(value_at(job, "tres/requested")), tres(value_at(job, "tres/allocated"))
    array, task, tasks = (value_at(job, f"array/{key}") for key in ("job_id", "task_id", "task"))
    return {
        **_common(job),
        "JobID": _job_id(job, array, task, tasks, "het/"),
        "State": _state(value_at(job, "state/current"), job.get("kill_request_user")),
        "Start": _plain(value_at(job, "time/start")),
        "End": _plain(value_at(job, "time/end")),
        "TimelimitRaw": _minutes(value_at(job, "time/limit")),
        "AllocCPUS": parse_tres(allocated).get("cpu", ""),
        "AllocNodes": _plain(job.get("allocation_nodes")),
        "ReqMem": _memory(value_at(job, "required/memory_per_node"), value_at(job, "required/memory_per_cpu"),
                          value_at(job, "required/memory"), requested),
        "ReqTRES": requested,
        "AllocTRES": allocated,
        "TotalCPU": _cpu(*(value_at(each, "time/total") for each in (job, *(job.get("steps") or ())))),
    }  # fmt: skip


def _of_squeue(job: Mapping[str, Any]) -> Record:
    """Return the record of a job that squeue printed."""
    state = _state(job.get("job_state"), None)
    waits = state in ("PENDING", "")
    holds = not waits and bool(_name(job.get("nodes")))
    requested, allocated = _name(job.get("tres_req_str")), _name(job.get("tres_alloc_str"))
    start, end = _plain(job.get("start_time")), _plain(job.get("end_time"))
    is_over = not waits and state not in ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING")
    array = job.get("array_task_string") or None
    return {
        **_common(job),
        "JobID": _job_id(job, job.get("array_job_id"), job.get("array_task_id"), array, "het_"),
        "UID": _plain(job.get("user_id")),
        "GID": _plain(job.get("group_id")),
        "State": state,
        "Start": "" if waits else start,
        "End": end if is_over else "",
        "TimelimitRaw": _minutes(job.get("time_limit")),
        "AllocCPUS": _plain(job.get("cpus")) if holds else "",
        "AllocNodes": _plain(job.get("node_count")) if holds else "",
        "ReqMem": _memory(job.get("memory_per_node"), job.get("memory_per_cpu"), None, requested),
        "ReqTRES": requested,
        "AllocTRES": allocated if holds else "",
    }


def _common(job: Mapping[str, Any]) -> Record:
    """Return the fields that have the same names in the output of sacct and squeue."""
    return {
        "JobIDRaw": _plain(job.get("job_id")),
        "SubmitLine": _name(job.get("submit_line")),
        **{field: _declared(job, column) for field, column in DECLARED.items()},
    }


def _declared(job: Mapping[str, Any], column: Column) -> str:
    """Return the value of a declared column as text; empty if no place in the JSON has a value."""
    spell = _plain if column.kind == "number" else _name
    return next(filter(None, (spell(value_at(job, place)) for place in column.json)), "")


def _step(step: Mapping[str, Any], job: Record) -> Record:
    """Return the record of a step, with the job's submit time, which steps do not have."""
    usage = {name: tres(value_at(step, f"tres/requested/{name}")).replace("M", "") for name in ("max", "total")}
    name = value_at(step, "step/id")
    inner = value_at(name, "step_id") if isinstance(name, Mapping) else name
    own = str(inner if inner is not None else value_at(step, "step/name") or "0")
    return {
        "JobID": f"{job['JobID']}.{own.rpartition('.')[2]}",
        "JobIDRaw": f"{job['JobIDRaw']}.{own.rpartition('.')[2]}",
        "Cluster": job["Cluster"],
        "JobName": _name(value_at(step, "step/name")),
        "State": _state(step.get("state"), step.get("kill_request_user")),
        "Submit": job["Submit"],
        "Start": _plain(value_at(step, "time/start")),
        "End": _plain(value_at(step, "time/end")),
        "ElapsedRaw": _plain(value_at(step, "time/elapsed")),
        "AllocNodes": _plain(value_at(step, "nodes/count")),
        "NTasks": _plain(value_at(step, "tasks/count")),
        "AllocTRES": tres(value_at(step, "tres/allocated")),
        "TotalCPU": _cpu(value_at(step, "time/total")),
        "TRESUsageInMax": usage["max"],
        "TRESUsageInTot": usage["total"],
    }


def _job_id(job: Mapping[str, Any], array: Any, task: Any, tasks: Any, het: str) -> str:
    """Return the job id in sacct's notation: `12_3`, `12_[4-9]`, `12+1`, `12`."""
    number_, leader, one = _plain(job.get("job_id")), _plain(array), _plain(task)
    component, offset = _plain(value_at(job, f"{het}job_id")), _plain(value_at(job, f"{het}job_offset"))
    if leader not in ("", "0") and one:
        return f"{leader}_{one}"
    if leader not in ("", "0") and isinstance(tasks, str) and tasks:
        return f"{leader}_[{tasks}]"
    return f"{component}+{offset or 0}" if component not in ("", "0") else number_


def _plain(value: Any) -> str:
    """Return a number as text; empty if the number is not set."""
    text = number(value)
    return "" if text in _UNSET else text


def _minutes(value: Any) -> str:
    """Return a time limit in minutes, UNLIMITED, or an empty text."""
    if isinstance(value, Mapping) and value.get("infinite"):
        return "UNLIMITED"
    text = _plain(value)
    return "UNLIMITED" if text in _INFINITE else text


def _memory(per_node: Any, per_cpu: Any, both: Any, requested: str) -> str:
    """Return the memory request as in ReqMem: for the whole job if the TRES have it, else per node or processor."""
    if whole := next((pair for pair in requested.split(",") if pair.startswith("mem=")), ""):
        return whole.removeprefix("mem=")
    node, cpu, mixed = _plain(per_node), _plain(per_cpu), _plain(both)
    if mixed.isdecimal() and len(mixed) < 21:
        cpu, node = (str(int(mixed) - _PER_CPU), "") if int(mixed) >= _PER_CPU else ("", mixed)
    return f"{cpu}Mc" if cpu not in ("", "0") else f"{node}Mn" if node not in ("", "0") else ""


def _state(words: Any, killer: Any) -> str:
    """Return the state in sacct's notation: the first word, and for CANCELLED also the user who cancelled the job."""
    word = (as_list(words) or [""])[0].upper()
    if word != "CANCELLED":
        return word
    by = str(killer or "")
    return "CANCELLED by 0" if by in ("root", "0") else f"CANCELLED by {by}" if by else word


def _cpu(value: Any, *of_steps: Any) -> str:
    """Return CPU time in Slurm's notation; the sum of the steps if the job has none, as in Slurm 22.05."""
    own, *steps = (
        (int(number(value_at(each, "seconds")) or 0), int(number(value_at(each, "microseconds")) or 0))
        for each in (value, *of_steps)
    )
    seconds, more = own if any(own) else (sum(each for each, _ in steps), sum(each for _, each in steps))
    seconds, more = seconds + more // 1_000_000, more % 1_000_000
    return f"{format_duration(float(seconds))}.{more // 1000:03d}" if value or steps else ""


def _name(value: Any) -> str:
    """Return a name, or a list as names with commas; empty for null and for the 0 of some versions."""
    return ",".join(as_list(value)) if isinstance(value, str | list) else ""
