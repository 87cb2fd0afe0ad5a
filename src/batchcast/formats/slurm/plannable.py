# SPDX-License-Identifier: Apache-2.0
"""Read what planning must know about a job before it changes the job's time limit: squeue, accounting and job
scripts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...errors import BatchcastError, UsageError
from ...units import parse_duration
from ..sighting import FINISHED_STATES
from .sbatch import parse_script, parse_submit_line
from .squeue import epoch

FIELDS = (
    "JobID", "JobArrayID", "SubmitTime", "StartTime", "State", "Reason", "TimeLimit", "Partition", "QOS", "UserName",
    "Account", "Comment", "BatchFlag", "MinTime", "Deadline", "HetJobID", "Reservation", "Dependency",
    "SiblingsActive", "admin_comment",
)  # fmt: skip
"""Fields for `squeue -O` (Slurm 22.05 and newer)."""
NOTHING = ("", "N/A", "NA", "(null)", "0:00", "None")
STARTED_STATES = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "CONFIGURING", "POWER_UP_NODE", "SIGNALING", "RESIZING"})


class Plannable(NamedTuple):
    """One job, or one task of an array, as squeue showed it."""

    # Ids of the job: in batchcast's form, and as squeue prints the id. For an array task that still waits together with
    # others, `raw_id` is the id of the array.
    job_id: str
    raw_id: str
    submit_time: float  # Epoch seconds
    # Whether the job has started, waits, or has finished. All three phases are False while the job changes from one
    # state to another.
    has_started: bool
    waits: bool
    limit: float  # Time limit in seconds; infinity if the job has no limit
    partitions: tuple[str, ...] = ()  # As squeue prints them
    qos: str = ""
    user: str = ""
    account: str = ""
    comment: str = ""
    reason: str = ""
    # The reason why batchcast never changes the limit of this kind of job; empty if batchcast can plan the job.
    special: str = ""
    finished: bool = False
    time_min: float = 0.0  # The job's --time-min in seconds; 0 if the job has none
    admin_comment: str = ""

    @property
    def base(self) -> str:
        """The job id without a task number, as sbatch printed it."""
        return self.job_id.partition("_")[0]


def plannable(record: Mapping[str, str]) -> Plannable:
    """Convert one record of squeue's output; BatchcastError if the job has no id, submit time, state or readable time
    limit.

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
        has_started=state in STARTED_STATES,
        waits=state == "PENDING",
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
    """Return a printed text, or an empty text if the text means an unknown value."""
    return "" if shown in NOTHING else shown


def _time_min(shown: str) -> float:
    """Return the --time-min in seconds, 0 if the job has none; infinity if the option cannot be read, so that
    batchcast does not plan the job."""
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
    """Return the reason why batchcast never plans this kind of job; empty if batchcast can plan the job."""
    if record.get("BatchFlag") != "1":
        return "it is interactive (no batch script)"
    return next((words for name, words in _SPECIAL.items() if record.get(name, "") not in NOTHING), "")


def over_time(partitions: Iterable[Mapping[str, str]], config: Mapping[str, str]) -> dict[str, float]:
    """Return the OverTimeLimit of each partition in seconds: the partition's setting, else the cluster's setting, else
    0.

    >>> over_time([{"PartitionName": "a", "OverTimeLimit": "NONE"}, {"PartitionName": "b", "OverTimeLimit": "5"}],
    ...           {"OverTimeLimit": "60 min"})
    {'a': 3600.0, 'b': 300.0}
    """
    whole = _minutes(config.get("OverTimeLimit", ""))
    limits = {p["PartitionName"]: p.get("OverTimeLimit", "NONE") for p in partitions}
    return {name: whole if limit == "NONE" else _minutes(limit) for name, limit in limits.items()}


def default_times(partitions: Iterable[Mapping[str, str]]) -> dict[str, float]:
    """Return the time limit of a job that requests none, in seconds, by partition: DefaultTime, else MaxTime.

    >>> default_times([{"PartitionName": "a", "DefaultTime": "NONE", "MaxTime": "1:00:00"}])
    {'a': 3600.0}
    """
    times = ((p["PartitionName"], p.get("DefaultTime", "NONE"), p.get("MaxTime", "")) for p in partitions)
    return {name: parse_duration(most if usual == "NONE" else usual) for name, usual, most in times}


def _minutes(text: str) -> float:
    """Return minutes as seconds; infinity for UNLIMITED, 0 for other texts."""
    word = text.split(" ")[0]
    return math.inf if word == "UNLIMITED" else float(word) * 60.0 if word.isascii() and word.isdigit() else 0.0


_PERIODS = {"HOURLY": 3600.0, "DAILY": 86400.0, "WEEKDAY": 86400.0, "WEEKEND": 86400.0, "WEEKLY": 7 * 86400.0}


def next_outage(reservations: Iterable[Mapping[str, str]], now: float) -> float:
    """Return when the next reservation begins, in epoch seconds: infinity if there is none, `now` if a reservation has
    no readable start.

    >>> next_outage([{"StartTime": "100", "Flags": "DAILY"}], 200.0), next_outage([], 0.0)
    (86500.0, inf)
    """
    # A repeating reservation (flags DAILY, WEEKLY, ...) begins again one period after its start.
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
    """What planning needs to know about a job's submission."""

    # The reason why the submission may request a --signal before the job's end; empty if it certainly does not.
    signal: str
    limit: float = math.nan  # The requested --time in seconds; NaN if the submission has no --time


def submitted(submit_line: str, script: str) -> Submitted:
    """Return what planning needs to know from the submit line, as accounting recorded it, and the script of a job.

    >>> submitted("sbatch -t 10 job.sh", "#!/bin/sh\\n#SBATCH -t 20\\n"), submitted("sbatch job.sh", "#!/bin/sh\\n")
    (Submitted(signal='', limit=600.0), Submitted(signal='', limit=nan))
    """
    # A --time in the submit line overrides a --time in the script, as in sbatch.
    named = (one.options.get("time", "") for one in (parse_submit_line(submit_line), parse_script(script)))
    try:
        limit = parse_duration(next(filter(None, named), ""))
    except UsageError:
        limit = math.nan
    return Submitted(asks_for_signal(submit_line, script), limit)


def asks_for_signal(submit_line: str, script: str) -> str:
    """Return the reason why a submission may request a signal before the job's end; empty if it certainly does not.

    A temporarily shorter time limit would send such a signal too early, so batchcast does not plan these jobs.

    >>> asks_for_signal("sbatch -t 10 job.sh", "#!/bin/sh\\n#SBATCH --sig=USR1\\n")
    'its script contains --signal'
    >>> asks_for_signal("sbatch -t 10 job.sh", "#!/bin/sh\\necho --signal\\n"), asks_for_signal("", "#!/bin/sh")
    ('', 'its submit line is not known')
    """
    # sbatch accepts any unambiguous prefix of --signal. An unknown submit line or script counts as a possible request
    # for a signal. The variable SBATCH_SIGNAL in the submitter's environment cannot be detected.
    words = submit_line.split()
    if not any(word.rpartition("/")[2] == "sbatch" for word in words[:4]):
        return "its submit line is not known"
    if _SIGNAL.search(submit_line):
        return "its submit line contains --signal"
    if not script.startswith("#!"):
        return "its script is not known"
    has_signal = any(_DIRECTIVE.match(line) and _SIGNAL.search(line) for line in script.splitlines())
    return "its script contains --signal" if has_signal else ""


def why_not(submission: Submitted, job: Plannable, defaults: Mapping[str, float]) -> str:
    """Return the reason why a job must not be planned, given its submission; empty if the job can be planned.

    >>> job = Plannable("7", "7", 0.0, has_started=False, waits=True, limit=3600.0, partitions=("main",))
    >>> why_not(Submitted("", 3600.0), job, {}), why_not(Submitted("", 3570.0), job, {})
    ('', '')
    >>> why_not(Submitted("", 7200.0), job, {})
    'its time limit is below the limit at submission'
    >>> why_not(Submitted(""), job, {"main": 7200.0})
    "it was submitted without --time, and its time limit is below its partition's default"
    """
    # If the current limit is below the requested limit, somebody has lowered it. If another planning program lowered
    # the limit, planning from the lowered limit could go below the run time that OverTimeLimit covers. Without a
    # requested --time, the partition's default time limit counts as requested; changes by a site's job_submit.lua or by
    # SBATCH_TIMELIMIT cannot be detected.
    if submission.signal:
        return submission.signal
    if not math.isnan(submission.limit):
        return "its time limit is below the limit at submission" if job.limit < submission.limit else ""
    default = min((defaults.get(name, 0.0) for name in job.partitions), default=0.0)
    too_low = "it was submitted without --time, and its time limit is below its partition's default"
    return too_low if job.limit < default else ""
