# SPDX-License-Identifier: Apache-2.0
"""What planning must know of a job before it touches the job's limit: squeue, accounting and scripts as text. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...errors import BatchcastError, UsageError
from ...units import parse_duration
from ..sighting import FINISHED_STATES
from .sbatch import parse_script
from .squeue import epoch

FIELDS = (
    "JobID", "JobArrayID", "SubmitTime", "StartTime", "State", "Reason", "TimeLimit", "Partition", "QOS", "UserName",
    "Account", "Comment", "BatchFlag", "MinTime", "Deadline", "HetJobID", "Reservation", "Dependency",
    "SiblingsActive", "admin_comment",
)  # fmt: skip
"""What is asked of squeue(1) -O, Slurm 22.05 and newer."""
NOTHING = ("", "N/A", "NA", "(null)", "0:00", "None")
BEGUN = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "CONFIGURING", "POWER_UP_NODE", "SIGNALING", "RESIZING"})
WAITING = frozenset({"PENDING"})


class Plannable(NamedTuple):
    """One job, or one task of an array, as squeue showed it. Seconds since the epoch; limits in seconds, inf without.

    `raw_id` is the array's while a task waits together with others. Neither begun nor waiting nor finished is a job
    that passes from one state to another. `time_min` is the --time-min, 0 without one. `special` names what makes it a
    job that is never planned, in words.
    """

    job_id: str
    raw_id: str
    submit_time: float
    begun: bool
    waits: bool
    limit: float
    partitions: tuple[str, ...] = ()
    qos: str = ""
    user: str = ""
    account: str = ""
    comment: str = ""
    reason: str = ""
    special: str = ""
    finished: bool = False
    time_min: float = 0.0
    admin_comment: str = ""

    @property
    def base(self) -> str:
        """The id without a task's number: what sbatch printed."""
        return self.job_id.partition("_")[0]


def plannable(record: Mapping[str, str]) -> Plannable:
    """One squeue record. Raises BatchcastError for a job without id, submit time, state or readable limit.

    >>> job = plannable({"JobID": "7", "SubmitTime": "100", "State": "PENDING", "TimeLimit": "10:00", "BatchFlag": "1"})
    >>> job.limit, job.waits, job.special
    (600.0, True, '')
    """
    get = record.get
    job_id, state = get("JobArrayID", "") or get("JobID", ""), get("State", "").split(" ")[0]
    submit, limit = epoch(get("SubmitTime", "")), parse_duration(get("TimeLimit", ""))
    if not job_id or not state or math.isnan(submit) or math.isnan(limit):
        raise BatchcastError(f"a job without an id, a submit time, a state or a limit: {dict(record)!r}"[:200])
    return Plannable(
        job_id=job_id,
        raw_id=get("JobID", "") or job_id,
        submit_time=submit,
        begun=state in BEGUN,
        waits=state in WAITING,
        limit=limit,
        partitions=tuple(filter(None, get("Partition", "").split(","))),
        qos=get("QOS", ""),
        user=get("UserName", ""),
        account=get("Account", ""),
        comment=_text(get("Comment", "")),
        reason=get("Reason", ""),
        special=_special(record),
        finished=state in FINISHED_STATES,
        time_min=_time_min(get("MinTime", "")),
        admin_comment=_text(get("admin_comment", "")),
    )


def _text(shown: str) -> str:
    return "" if shown in NOTHING else shown


def _time_min(shown: str) -> float:
    """Slurm shows a job without one as 0; what cannot be read is somebody's, and no time of ours."""
    span = 0.0 if shown in NOTHING else parse_duration(shown)
    return math.inf if math.isnan(span) else span


_SPECIAL = {
    "Deadline": "it has a --deadline",
    "HetJobID": "it is part of a heterogeneous job",
    "SiblingsActive": "it is a federated job",
    "Reservation": "it runs in a reservation",
    "Dependency": "it waits for another job",
}


def _special(record: Mapping[str, str]) -> str:
    if record.get("BatchFlag") != "1":
        return "it is interactive (no batch script)"
    return next((words for name, words in _SPECIAL.items() if record.get(name, "") not in NOTHING), "")


def over_time(partitions: Iterable[Mapping[str, str]], config: Mapping[str, str]) -> dict[str, float]:
    """OverTimeLimit of each partition in seconds: its own, else the cluster's; 0 where nothing is said.

    >>> over_time([{"PartitionName": "a", "OverTimeLimit": "NONE"}, {"PartitionName": "b", "OverTimeLimit": "5"}],
    ...           {"OverTimeLimit": "60 min"})
    {'a': 3600.0, 'b': 300.0}
    """
    whole = _minutes(config.get("OverTimeLimit", ""))
    return {
        p["PartitionName"]: whole if p.get("OverTimeLimit", "NONE") == "NONE" else _minutes(p["OverTimeLimit"])
        for p in partitions
    }


def default_times(partitions: Iterable[Mapping[str, str]]) -> dict[str, float]:
    """The limit (s) of a job that names none, by partition: DefaultTime, else MaxTime.

    >>> default_times([{"PartitionName": "a", "DefaultTime": "NONE", "MaxTime": "1:00:00"}])
    {'a': 3600.0}
    """
    return {
        p["PartitionName"]: parse_duration(
            p.get("MaxTime", "") if p.get("DefaultTime", "NONE") == "NONE" else p["DefaultTime"]
        )
        for p in partitions
    }


def _minutes(text: str) -> float:
    word = text.split(" ")[0]
    return math.inf if word == "UNLIMITED" else float(word) * 60.0 if word.isascii() and word.isdigit() else 0.0


_PERIODS = {"HOURLY": 3600.0, "DAILY": 86400.0, "WEEKDAY": 86400.0, "WEEKEND": 86400.0, "WEEKLY": 7 * 86400.0}


def next_outage(reservations: Iterable[Mapping[str, str]], now: float) -> float:
    """When the next reservation of any nodes begins (epoch, s); infinity where none is known, `now` where in doubt.

    One that repeats begins again a period after it began.

    >>> next_outage([{"StartTime": "100", "Flags": "DAILY"}], 200.0), next_outage([], 0.0)
    (86500.0, inf)
    """
    first = math.inf
    for one in reservations:
        start, flags = epoch(one.get("StartTime", "")), one.get("Flags", "").split(",")
        if math.isnan(start):
            return now
        period = min((_PERIODS[flag] for flag in flags if flag in _PERIODS), default=math.inf)
        while start <= now and period < math.inf:
            start += period
        if start > now:
            first = min(first, start)
    return first


_SIGNAL = re.compile(r"--si(g|gn|gna|gnal)?(?![a-z])")
_DIRECTIVE = re.compile(r"^\s*#\s*SBATCH\b")


class Submitted(NamedTuple):
    """Why a submission does not rule out a --signal, empty where it does; the --time it names (s; NaN: none)."""

    signal: str
    limit: float = math.nan


def submitted(submit_line: str, script: str) -> Submitted:
    """What planning asks of a submission. A --time of the line comes before one of the script, as sbatch has it.

    >>> submitted("sbatch -t 10 job.sh", "#!/bin/sh\\n#SBATCH -t 20\\n"), submitted("sbatch job.sh", "#!/bin/sh\\n")
    (Submitted(signal='', limit=600.0), Submitted(signal='', limit=nan))
    """
    named = (parse_script(text).get("time", "") for text in (f"#SBATCH {submit_line}", script))
    try:
        limit = parse_duration(next(filter(None, named), ""))
    except UsageError:
        limit = math.nan
    return Submitted(asks_for_signal(submit_line, script), limit)


def asks_for_signal(submit_line: str, script: str) -> str:
    """Why a job's submission does not rule out a signal before its end; empty where it does.

    A limit that is shorter for a while would send such a signal early. sbatch takes any unambiguous beginning of
    --signal; in doubt there is one. What SBATCH_SIGNAL in the submitter's environment asks for is seen nowhere.

    >>> asks_for_signal("sbatch -t 10 job.sh", "#!/bin/sh\\n#SBATCH --sig=USR1\\n")
    'its script asks for a --signal'
    >>> asks_for_signal("sbatch -t 10 job.sh", "#!/bin/sh\\necho --signal\\n"), asks_for_signal("", "#!/bin/sh")
    ('', 'its submit line is not known')
    """
    words = submit_line.split()
    if not any(word.rpartition("/")[2] == "sbatch" for word in words[:4]):
        return "its submit line is not known"
    if _SIGNAL.search(submit_line):
        return "its submit line asks for a --signal"
    if not script.startswith("#!"):
        return "its script is not known"
    directives = (line for line in script.splitlines() if _DIRECTIVE.match(line))
    return "its script asks for a --signal" if any(_SIGNAL.search(line) for line in directives) else ""


def why_not(asked: Submitted, job: Plannable, defaults: Mapping[str, float]) -> str:
    """Why a submission rules out planning its job, which stands at a limit that is taken for its user's; else empty.

    A limit below the one that was asked for was lowered by somebody. Were that another program that plans, planning
    from there on would go below what OverTimeLimit covers. Where no --time was named the `defaults` by partition count:
    what a site's job_submit.lua or SBATCH_TIMELIMIT made of it is seen nowhere.

    >>> job = Plannable("7", "7", 0.0, begun=False, waits=True, limit=3600.0, partitions=("main",))
    >>> why_not(Submitted("", 3600.0), job, {}), why_not(Submitted("", 3570.0), job, {})
    ('', '')
    >>> why_not(Submitted("", 7200.0), job, {})
    'its limit is below what it was submitted with'
    >>> why_not(Submitted(""), job, {"main": 7200.0})
    "it named no --time, and its limit is below its partition's default"
    """
    if asked.signal:
        return asked.signal
    if not math.isnan(asked.limit):
        return "its limit is below what it was submitted with" if job.limit < asked.limit else ""
    default = min((defaults.get(name, 0.0) for name in job.partitions), default=0.0)
    return "it named no --time, and its limit is below its partition's default" if job.limit < default else ""
