"""`squeue -O` text to sightings of jobs: who waits, who runs, who just left. Pure; fields are asked for by name."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..columns import ASKED, HELD
from ..errors import BatchcastError
from .live_fields import number, read_fields
from .ran import never_ran
from .sighting import FINISHED_STATES, OPEN_STATES, Field, Sighting
from .tres import parse_tres

_LIFE = (
    "JobID", "JobArrayID", "SubmitTime", "StartTime", "EndTime", "EligibleTime", "State", "Reason", "PriorityLong",
    "Dependency", "NodeList", "ReqNodes", "Reservation", "Licenses",
)  # fmt: skip
FIELDS = tuple(dict.fromkeys([*_LIFE, *(c.squeue for c in (*ASKED, *HELD) if c.squeue)]))
"""What is asked of squeue(1) -O, Slurm 22.05 and newer: a job's life, and every declared column."""


WAITING = ("PENDING", "CONFIGURING", "POWER_UP_NODE", "RESV_DEL_HOLD")


def sighting(record: Mapping[str, str]) -> Sighting:
    """One squeue record. Raises BatchcastError for a job without an id or a submit time, and for a form not Slurm's.

    >>> sighting({"JobID": "7", "SubmitTime": "100", "State": "PENDING", "TimeLimit": "10:00"}).asked["req_time"]
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
        never_ran=withdrawn,
        expected_start=start if pending else math.nan,
        eligible_time=epoch(get("EligibleTime", "")),
        reason="" if get("Reason", "") == "None" else get("Reason", ""),
        priority=number(get("PriorityLong", "")),
        dependency=get("Dependency", ""),
        reservation=get("Reservation", ""),
        licenses=get("Licenses", ""),
        nodes_asked=get("ReqNodes", ""),
        asked=read_fields(ASKED, clean, "squeue", _own(clean, pending or withdrawn)),
        held={} if pending or withdrawn else read_fields(HELD, clean, "squeue"),
    )


def _own(record: Mapping[str, str], no_nodes: bool) -> dict[str, Field]:
    """What squeue means in its own way: names of several partitions or QOS, and processors.

    Processors asked for: TRES says it while a job has no nodes; afterwards it tells what the job holds.
    """
    cpus = record.get("NumCPUs", "")
    from_tres = number(parse_tres(record.get("tres-alloc", "")).get("cpu", "")) if no_nodes else math.nan
    return {
        "partition_id": first(record.get("Partition", "")),
        "qos": first(record.get("QOS", "")),
        "req_procs": number(cpus) if math.isnan(from_tres) else from_tres,
    }


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
