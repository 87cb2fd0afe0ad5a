# SPDX-License-Identifier: Apache-2.0
"""`qstat -f` of OpenPBS and its kin, as text or as JSON (`-F json`), to sightings of jobs. Pure.

Written from OpenPBS's documentation (qstat(1B), pbs_job_attributes(7B)); no PBS server was at hand. The Torque-like
wrappers over Slurm print the same form with other meanings and are recognized by what they lack.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from ...columns import ASKED, HELD
from ...errors import BatchcastError, InputError
from ...units import parse_duration
from ..memory import MOST_KIB
from ..sighting import Field, Sighting, never_ran, read_fields

_STATES = {
    "Q": "PENDING",
    "H": "PENDING",
    "W": "PENDING",
    "R": "RUNNING",
    "S": "SUSPENDED",
    "U": "SUSPENDED",
    "E": "COMPLETING",
    "T": "COMPLETING",
}
_ENDED = ("F", "X", "C")
_REASONS = {"H": "JobHeldUser", "W": "BeginTime"}
_MEMORY = re.compile(r"(\d+)\s*([kmgtp]?)([bw]?)", re.IGNORECASE)
_UNITS = {"": 1 / 1024, "k": 1.0, "m": 1024.0, "g": 1024.0**2, "t": 1024.0**3, "p": 1024.0**4}
SKIPPED = ("B", "M")
"""An array's parent (its subjobs are listed by themselves) and a job moved to another server."""


def parse_qstat(text: str) -> list[tuple[str, dict[str, str]]]:
    """Job id and attributes of every job, whichever form the text has; nested JSON resources become `Resource_List.x`.

    In text, a line that begins with a tab goes on with the value before it. Values are printed raw there, so a line
    break in a user's environment can imitate an attribute or a job: the first value of an attribute holds.
    Raises InputError for broken JSON.

    >>> parse_qstat("Job Id: 7.pbs\\n    Job_Name = a = b\\n    job_state = Q\\n")
    [('7.pbs', {'Job_Name': 'a = b', 'job_state': 'Q'})]
    """
    if text.lstrip().startswith("{"):
        return _parse_json(text)
    jobs: list[tuple[str, dict[str, str]]] = []
    last, margin = "", ""
    for line in text.split("\n"):  # splitlines() would also break a value at a form feed or at U+2028
        if match := re.match(r"Job Id:\s*(\S+)", line):
            jobs.append((match[1], {}))
            last, margin = "", ""
        elif last and margin == " " and line.startswith("\t"):
            jobs[-1][1][last] += line[1:]
        elif jobs and (match := re.match(r"(\s)\s*([A-Za-z_][\w.]*) = (.*)", line)):
            margin = margin or match[1]  # Slurm's wrapper begins attributes with a tab, and breaks no value
            last = match[2] if match[2] not in jobs[-1][1] else ""
            jobs[-1][1].setdefault(match[2], match[3])
    return jobs


def _parse_json(text: str) -> list[tuple[str, dict[str, str]]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"qstat's JSON cannot be read: {error}", hint="qstat -f -t -x prints the same as text"
        ) from None
    records = document.get("Jobs", {}) if isinstance(document, Mapping) else None
    if not isinstance(records, Mapping):
        raise InputError("qstat's JSON cannot be read: 'Jobs' is not an object with one entry for each job")
    return [(job_id, _flat(attributes)) for job_id, attributes in records.items()]


def _flat(attributes: object) -> dict[str, str]:
    """A job's attributes as text form names them; none for what is no JSON object."""
    flat: dict[str, str] = {}
    for name, value in attributes.items() if isinstance(attributes, Mapping) else ():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{key}": str(inner) for key, inner in value.items()}
        else:
            flat[name] = str(value)
    return flat


def sighting(job_id: str, a: Mapping[str, str]) -> Sighting | None:
    """One job; None for an array's parent or a moved job. Times must have been printed in UTC (TZ=UTC for qstat).

    `ctime` is the submission. An ended job ran `resources_used.walltime` from `stime`; one without `stime` never ran
    and left at `mtime`.
    Raises BatchcastError for a job without a state or a queue time.
    """
    letter = a.get("job_state", "")
    if letter in SKIPPED:
        return None
    if _is_wrapper(a):
        a = _from_wrapper(a, letter)
    submit = utc(a.get("ctime", a.get("qtime", "")))
    if math.isnan(submit) or not letter:
        raise BatchcastError(f"{job_id}: no job_state or no submission time")
    ended = letter in _ENDED
    start = utc(a.get("stime", ""))
    used = parse_duration(a.get("resources_used.walltime", ""))
    end = start + used if not math.isnan(start + used) else utc(a.get("mtime", ""))
    withdrawn = ended and never_ran(start, False)
    pending = _STATES.get(letter) == "PENDING"
    own = _own(a)
    return Sighting(
        job_id=short_id(job_id),
        raw_id=job_id,
        submit_time=submit,
        state=ended_state(a.get("Exit_status", ""), withdrawn) if ended else _STATES.get(letter, "COMPLETING"),
        certain=ended or _STATES.get(letter, "COMPLETING") != "COMPLETING",
        start_time=math.nan if pending or withdrawn else start,
        end_time=end if ended else math.nan,
        never_ran=withdrawn,
        expected_start=utc(a.get("estimated.start_time", "")) if pending else math.nan,
        eligible_time=utc(a.get("Execution_Time", a.get("etime", ""))),
        reason=_REASONS.get(
            letter, "Dependency" if "depend" in a and letter == "H" else ("Priority" if pending else "")
        ),
        priority=float(a["Priority"]) if re.fullmatch(r"-?\d+", a.get("Priority", "")) else math.nan,
        dependency=a.get("depend", ""),
        asked=read_fields(ASKED, a, "pbs", own),
        held=_held(a, own, ended) if not (pending or withdrawn) else {},
    )


def _own(a: Mapping[str, str]) -> dict[str, Field]:
    """What PBS means in its own way: the owner at a host, sizes in words, an account or a project."""
    procs = _count(a.get("Resource_List.ncpus", "")) or _count(a.get("Resource_List.nodect", ""))
    return {
        "req_procs": procs or math.nan,
        "req_mem_kib": size_kib(a.get("Resource_List.mem", "")),
        "user_id": a.get("Job_Owner", "").partition("@")[0] or None,
        "account": a.get("Account_Name") or a.get("project") or None,
        "exclusive": 1.0 if "excl" in a.get("Resource_List.place", "") else math.nan,
    }


def _held(a: Mapping[str, str], own: Mapping[str, Field], ended: bool) -> dict[str, Field]:
    """What it holds, and of an ended job the peak of memory that PBS kept: of the whole job, over all its nodes."""
    held = read_fields(HELD, a, "pbs", {"alloc_procs": own["req_procs"]})
    used = size_kib(a.get("resources_used.mem", "")) if ended else math.nan
    return held | ({"used_mem_kib": used} if 0 < used <= MOST_KIB else {})


def _is_wrapper(a: Mapping[str, str]) -> bool:
    """Slurm's qstat: no server, no etime, no stime, and qtime where PBS has ctime."""
    return not {"server", "etime", "stime", "substate"} & set(a) and {"qtime", "mtime", "ctime"} <= set(a)


def _from_wrapper(a: Mapping[str, str], letter: str) -> dict[str, str]:
    """Slurm's qstat in PBS's meanings: qtime is the submission, mtime the start, ctime the end, planned or true."""
    fixed = {k: v for k, v in a.items() if k not in ("ctime", "mtime")} | {"ctime": a["qtime"]}
    if letter == "Q":
        return fixed | ({"estimated.start_time": a["mtime"]} if utc(a["mtime"]) > utc(a["qtime"]) else {})
    if "exec_host" in a:
        fixed["stime"] = a["mtime"]
    return fixed | {"mtime": a["ctime"]}


def utc(text: str) -> float:
    """Epoch seconds of a time as ctime(3) prints it in UTC, or of plain seconds; NaN when it is neither.

    >>> utc("Thu Jan  1 00:01:40 1970"), utc("100"), utc("")
    (100.0, 100.0, nan)
    """
    word = " ".join(text.split())
    if word.isdecimal():
        return float(word)
    try:
        return datetime.strptime(word, "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return math.nan


def ended_state(status: str, withdrawn: bool) -> str:
    """PBS adds 256 to the signal that killed a job; walltime exceeded is -29, memory exceeded -27 (Torque -10)."""
    if withdrawn:
        return "CANCELLED"
    if status in ("0", ""):
        return "COMPLETED"
    if status == "-29":
        return "TIMEOUT"
    if status in ("-27", "-10"):  # OpenPBS's and Torque's words for the memory limit
        return "OUT_OF_MEMORY"
    return "CANCELLED" if status in ("271", "265") else "FAILED"


def short_id(job_id: str) -> str:
    """`12[3].server` as 12_3, `12.server` as 12: ids as the rest of batchcast sorts them."""
    match = re.match(r"(\d+)(?:\[(\d+)\])?", job_id)
    if match is None:
        return job_id
    return match[1] if match[2] is None else f"{match[1]}_{match[2]}"


def _count(text: str) -> float:
    return float(text) if text.isdecimal() else 0.0


def size_kib(text: str) -> float:
    """PBS sizes: a number with b, kb, mb, gb; w is a word of eight bytes."""
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        return math.nan
    return float(match[1]) * _UNITS[match[2].lower()] * (8 if match[3].lower() == "w" else 1)
