# SPDX-License-Identifier: Apache-2.0
"""Read `qstat -f` of OpenPBS, PBS Pro and Torque, as text or as JSON (`-F json`), into sightings of jobs.

The code follows OpenPBS's documentation (qstat(1B), pbs_job_attributes(7B)); it was not tested with a PBS server.
Slurm's Torque wrappers print the same format with other meanings. The output of the wrappers is recognized because some
attributes are missing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache

from ...columns import ALLOCATED, REQUESTED
from ...errors import BatchcastError, InputError
from ...units import KIB_OF, parse_duration
from ..chunks import load_json
from ..memory import MOST_KIB
from ..sighting import Field, Sighting, never_ran, read_fields

_STATES = {"Q": "PENDING", "H": "PENDING", "W": "PENDING", "R": "RUNNING", "S": "SUSPENDED", "U": "SUSPENDED"}
"""Jobs in other states change from one state to another (E: exiting, T: being moved)."""
_ENDED = ("F", "X", "C")
_REASONS = {"H": "JobHeldUser", "W": "BeginTime"}
_MEMORY = re.compile(r"(\d+)\s*([kmgtp]?)([bw]?)", re.IGNORECASE)
_SIGNALS = {"271", "265"}
"""256 + SIGTERM and 256 + SIGKILL: the job was deleted, or killed at a limit by a server without a code for that."""
_ENDINGS = {"0": "completed", "": "completed", "-29": "timeout", "-27": "out_of_memory", "-26": "out_of_memory"}
_TORQUE_ENDINGS = {"0": "completed", "": "completed", "-11": "timeout", "-10": "out_of_memory"}
MOST_CACHED = 200_000
"""Number of distinct requests and allocations of which the sizes are cached."""
SKIPPED = ("B", "M")
"""States of records that are not jobs: the parent of an array (its subjobs are listed too), and a moved job."""


def parse_qstat(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return the id and the attributes of every job in the output of qstat, as text or JSON; nested JSON resources
    become flat names such as `Resource_List.x`.

    >>> parse_qstat("Job Id: 7.pbs\\n    Job_Name = a = b\\n    job_state = Q\\n")
    [('7.pbs', {'Job_Name': 'a = b', 'job_state': 'Q'})]
    """
    # In text, a line that begins with a tab continues the value before it. Values are not escaped, so a line break in a
    # user's environment can imitate an attribute. To prevent this imitation, if an attribute occurs several times, its
    # first value is used.
    if text.lstrip().startswith("{"):
        return _parse_json(text)
    jobs: list[tuple[str, dict[str, str]]] = []
    last, margin = "", ""
    for line in text.split("\n"):  # str.splitlines() would also split values at form feeds and U+2028
        if match := re.match(r"Job Id:\s*(\S+)", line):
            jobs.append((match[1], {}))
            last, margin = "", ""
        elif last and margin == " " and line.startswith("\t"):
            jobs[-1][1][last] += line[1:]
        elif jobs and (match := re.match(r"(\s)\s*([A-Za-z_][\w.]*) = (.*)", line)):
            margin = margin or match[1]  # Slurm's wrapper indents attributes with a tab and never wraps values
            last = match[2] if match[2] not in jobs[-1][1] else ""
            jobs[-1][1].setdefault(match[2], match[3])
    return jobs


def _parse_json(text: str) -> list[tuple[str, dict[str, str]]]:
    document = load_json(text, "qstat's output", "a list of jobs", "qstat -f -t -x prints the same as text")
    records = document.get("Jobs", {}) if isinstance(document, Mapping) else None
    if not isinstance(records, Mapping):
        raise InputError("qstat's JSON cannot be read: 'Jobs' is not an object with one entry for each job")
    return [(job_id, _flat(attributes)) for job_id, attributes in records.items()]


def _flat(attributes: object) -> dict[str, str]:
    """Return a job's attributes with the names of the text form; empty if the attributes are not a JSON object."""
    flat: dict[str, str] = {}
    for name, value in attributes.items() if isinstance(attributes, Mapping) else ():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{key}": str(inner) for key, inner in value.items()}
        else:
            flat[name] = str(value)
    return flat


def sighting(job_id: str, a: Mapping[str, str]) -> Sighting | None:
    """Convert the attributes of one job, with times in UTC, to a sighting; None for array parents and moved jobs."""
    # `ctime` is the submit time. A job that has ended ran for `resources_used.walltime` from `stime`. Without `stime`
    # it never ran, and left the queue at `mtime`. Torque names the start `start_time` and the end `comp_time`, and
    # requests processors as `nodes=2:ppn=4`.
    letter = a.get("job_state", "")
    if letter in SKIPPED:
        return None
    # Slurm's qstat prints no server, etime or stime, and qtime besides ctime.
    if not {"server", "etime", "stime", "substate"} & set(a) and {"qtime", "mtime", "ctime"} <= set(a):
        a = _from_wrapper(a, letter)
    submit = utc(a.get("ctime", a.get("qtime", "")))
    if math.isnan(submit) or not letter:
        raise BatchcastError(f"{job_id}: the job has no job_state or no submit time")
    ended = letter in _ENDED
    start = utc(a.get("stime", a.get("start_time", "")))
    used = parse_duration(a.get("resources_used.walltime", ""))
    end = start + used if not math.isnan(start + used) else utc(a.get("comp_time", a.get("mtime", "")))
    withdrawn = ended and never_ran(start, False)
    state = _STATES.get(letter, "COMPLETING")
    if ended:
        status = a.get("Exit_status", a.get("exit_status", ""))
        state = ending(status, withdrawn, "comp_time" in a or status == "-10", False).upper()  # only Torque has -10
    pending = state == "PENDING"
    own, memory = _own(a), size_kib(a.get("resources_used.mem", "")) if ended else math.nan
    procs = {"alloc_procs": own["req_procs"]}
    measured = {"used_mem_kib": memory} if 0 < memory <= MOST_KIB else {}  # the peak memory over all nodes
    return Sighting(
        job_id=plain_id(job_id) or job_id,
        raw_id=job_id,
        submit_time=submit,
        state=state,
        certain=state != "COMPLETING",
        start_time=math.nan if pending or withdrawn else start,
        end_time=end if ended else math.nan,
        expected_start=utc(a.get("estimated.start_time", "")) if pending else math.nan,
        eligible_time=utc(a.get("Execution_Time", a.get("etime", ""))),
        reason=_REASONS.get(letter, "Priority" if pending else ""),
        priority=float(a["Priority"]) if re.fullmatch(r"-?\d+", a.get("Priority", "")) else math.nan,
        dependency=a.get("depend", ""),
        requested=read_fields(REQUESTED, a, "pbs", own),
        allocated={} if pending or withdrawn else read_fields(ALLOCATED, a, "pbs", procs) | measured,
    )


def _own(a: Mapping[str, str]) -> dict[str, Field]:
    """Return the columns whose form differs between PBS and Slurm: owner@host, sizes with units, account or project."""
    procs = requested(*(a.get(f"Resource_List.{name}", "") for name in ("ncpus", "select", "nodes")))[0]
    return {
        "req_procs": number(a.get("Resource_List.nodect", "")) or math.nan if math.isnan(procs) else procs,
        "req_mem_kib": size_kib(a.get("Resource_List.mem", "")),
        "user_id": a.get("Job_Owner", "").partition("@")[0] or None,
        "account": a.get("Account_Name") or a.get("project") or None,
        "exclusive": 1.0 if "excl" in a.get("Resource_List.place", "") else math.nan,
    }


def _from_wrapper(a: Mapping[str, str], letter: str) -> dict[str, str]:
    """Return attributes of Slurm's qstat with PBS's meanings: qtime is submission, mtime start, ctime end."""
    fixed = {k: v for k, v in a.items() if k not in ("ctime", "mtime")} | {"ctime": a["qtime"]}
    if letter == "Q":
        return fixed | ({"estimated.start_time": a["mtime"]} if utc(a["mtime"]) > utc(a["qtime"]) else {})
    if "exec_host" in a:
        fixed["stime"] = a["mtime"]
    return fixed | {"mtime": a["ctime"]}


def utc(text: str) -> float:
    """Parse a time that ctime(3) printed in UTC, or epoch seconds; NaN for other texts.

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


def size_kib(text: str) -> float:
    """Parse a PBS size, a number with b, kb, mb, gb or w (words of eight bytes), to KiB; NaN for other texts."""
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        return math.nan
    return float(match[1]) * KIB_OF[match[2].upper()] * (8 if match[3].lower() == "w" else 1)


@lru_cache(maxsize=MOST_CACHED)
def requested(ncpus: str, select: str, nodes: str) -> tuple[float, float]:
    """Return the processors and GPUs that a job requested, from Resource_List.ncpus, .select and .nodes; NaN means
    unknown.

    >>> requested("", "2:ncpus=4:ngpus=1+ncpus=8", ""), requested("1", "", "2:ppn=8+n7#shared"), requested("6", "", "")
    ((16.0, 2.0), (17.0, 0.0), (6.0, nan))
    """
    # With `select` (PBS Pro), `ncpus` is the total that the server computed. Without `ncpus`, the chunks are added,
    # with one processor for a chunk without a number of processors. With `nodes` (Torque), `ncpus` is often the default
    # 1, so the larger of the two numbers is used.
    total = number(ncpus)
    chunks = [chunk for chunk in (select or nodes).split("+") if chunk]
    if not chunks:
        return (total if total > 0 else math.nan), math.nan
    procs = gpus = 0.0
    for chunk in chunks:
        first, *rest = chunk.partition("#")[0].split(":")
        times = float(first) if re.fullmatch(r"\d{1,9}", first) else 1.0
        amounts = dict(item.partition("=")[::2] for item in (first, *rest))
        each = number(amounts.get("ncpus" if select else "ppn", ""))
        procs += times * (each if each > 0 else 1.0)
        gpu = number(amounts.get("ngpus", amounts.get("gpus", "")))
        gpus += times * (gpu if gpu > 0 else 0.0)
    if total > 0:
        procs = total if select else max(procs, total)
    return (procs if procs > 0 else math.nan), gpus


def ending(status: str, never_ran: bool, is_torque: bool, at_limit: bool) -> str:
    """Return the status word for an Exit_status.

    >>> ending("-29", False, False, False), ending("271", False, True, True), ending("271", False, True, False)
    ('timeout', 'timeout', 'cancelled')
    """
    # Negative codes come from the server and differ between PBS Pro (-29: time limit exceeded) and Torque (-11). 256 +
    # 15 and 256 + 9 mean that the job was killed: by the server if the job ran until its time limit, otherwise because
    # somebody deleted the job.
    if never_ran:
        return "cancelled"
    if status in _SIGNALS:
        return "timeout" if at_limit else "cancelled"
    return (_TORQUE_ENDINGS if is_torque else _ENDINGS).get(status, "failed")


def plain_id(job: str) -> str | None:
    """Return a job id without the server, in the form that batchcast sorts by; None for the parent of an array.

    >>> plain_id("12[3].srv"), plain_id("12-4.srv"), plain_id("12.srv.org"), plain_id("12[].srv"), plain_id("R9.srv")
    ('12_3', '12_4', '12', None, 'R9')
    """
    name = job.partition(".")[0]
    if name.isdecimal():
        return name
    if "[]" in name:
        return None
    match = re.fullmatch(r"(\d+)(?:\[(\d+)\]|-(\d+))", name)
    return f"{match[1]}_{match[2] or match[3]}" if match else name


def number(text: str) -> float:
    """Return a text as a whole number; NaN if the text is not a whole number."""
    return float(text) if text.isdecimal() and len(text) < 13 else math.nan
