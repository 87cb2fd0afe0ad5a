"""`squeue -O` text to sightings of jobs: who waits, who runs, who just left. Pure; fields are asked for by name."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..errors import BatchcastError
from ..units import parse_duration, parse_memory
from .sighting import FINISHED_STATES, OPEN_STATES, Sighting
from .tres import parse_tres, tres_gpus

FIELDS = (
    "JobID", "JobArrayID", "SubmitTime", "StartTime", "EndTime", "EligibleTime", "RestartCnt", "State", "Reason",
    "TimeLimit", "NumCPUs", "NumNodes", "tres-alloc", "UserName", "GroupName", "Account", "Partition", "QOS",
    "PriorityLong", "Dependency", "NodeList", "WorkDir", "Name",
)  # fmt: skip
"""What is asked of squeue(1) -O, Slurm 22.05 and newer; names compare without case."""


WAITING = ("PENDING", "CONFIGURING", "POWER_UP_NODE", "RESV_DEL_HOLD")


def sighting(record: Mapping[str, str]) -> Sighting:
    """One squeue record. Raises BatchcastError for a job without an id or a submit time, and for a form not Slurm's.

    >>> sighting({"JobID": "7", "SubmitTime": "100", "State": "PENDING", "TimeLimit": "10:00"}).req_time
    600.0
    """
    get = {k: ("" if v in ("N/A", "(null)") else v) for k, v in record.items()}.get
    state = get("State", "").split(" ")[0]
    submit = epoch(get("SubmitTime", ""))
    job_id = get("JobArrayID", "") or get("JobID", "")
    if not job_id or math.isnan(submit) or not state:
        raise BatchcastError(f"a job without an id, a submit time or a state: {dict(record)!r}"[:200])
    start, end, nodes = epoch(get("StartTime", "")), epoch(get("EndTime", "")), get("NodeList", "")
    pending = state in WAITING and not nodes
    finished = state in FINISHED_STATES
    never_ran = finished and not nodes
    tres = parse_tres(get("tres-alloc", ""))
    return Sighting(
        job_id=job_id,
        raw_id=get("JobID", "") or job_id,
        submit_time=submit,
        state="PENDING" if pending else state,
        certain=pending or finished or state in OPEN_STATES,
        start_time=math.nan if pending or never_ran else start,
        end_time=end if finished else math.nan,
        never_ran=never_ran,
        expected_start=start if pending else math.nan,
        eligible_time=epoch(get("EligibleTime", "")),
        reason="" if get("Reason", "") == "None" else get("Reason", ""),
        req_time=parse_duration(get("TimeLimit", "")),
        procs=number(get("NumCPUs", "")),
        nodes=number(get("NumNodes", "")),
        req_mem_kib=parse_memory(tres.get("mem", "")),
        req_gpus=tres_gpus(get("tres-alloc", "")),
        user_id=get("UserName") or None,
        group_id=get("GroupName") or None,
        account=get("Account") or None,
        partition_id=first(get("Partition", "")),
        qos=first(get("QOS", "")),
        priority=number(get("PriorityLong", "")),
        dependency=get("Dependency", ""),
        work_dir=get("WorkDir") or None,
        job_name=get("Name") or None,
        req_procs=_asked(tres, get("NumCPUs", ""), pending or never_ran),
    )


def _asked(tres: Mapping[str, str], cpus: str, no_nodes: bool) -> float:
    """Processors asked for: TRES says it while a job has no nodes; afterwards it tells what the job holds."""
    told = number(tres.get("cpu", "")) if no_nodes else math.nan
    return told if told == told else number(cpus)


def first(names: str) -> str | None:
    """The first of several partitions or (since 24.11) QOS a job may use, in the order it was asked for.

    >>> first("main,big"), first("")
    ('main', None)
    """
    return names.split(",")[0] or None


def epoch(text: str) -> float:
    """Seconds since the epoch as SLURM_TIME_FORMAT=%s prints them; NaN for N/A, Unknown, None, 0 and the far future.

    >>> epoch("1795229481"), epoch("Unknown")
    (1795229481.0, nan)
    """
    return float(text) if text.isascii() and text.isdigit() and 0 < int(text) < 2**32 - 2 else math.nan


def number(text: str) -> float:
    """A count, with Slurm's K and M thousands (squeue shortens large ones); NaN when it is none.

    >>> number("16"), number("2K"), number("1-4")
    (16.0, 2000.0, 1.0)
    """
    word = text.strip().partition("-")[0]  # NumNodes of a waiting job may be a range: at least the first
    scale = {"K": 1e3, "M": 1e6}.get(word[-1:].upper(), 1.0)
    digits = word[:-1] if scale != 1 else word
    return float(digits) * scale if digits.replace(".", "", 1).isdigit() and digits.isascii() else math.nan
