"""Slurm's reasons for a pending job, in plain language. Pure."""

from __future__ import annotations

WORDS: dict[str, str] = {
    "Resources": "next in line; waiting until enough of the machine is free",
    "Priority": "jobs with higher priority are ahead in the queue",
    "Dependency": "waiting for another job it depends on",
    "DependencyNeverSatisfied": "the job it depends on ended the wrong way: it will never start; cancel it",
    "BeginTime": "asked not to begin before a given time",
    "JobHeldUser": "held by its owner (scontrol release frees it)",
    "JobHeldAdmin": "held by an administrator; ask them",
    "JobArrayTaskLimit": "its array runs at most so many tasks at once (the % in --array)",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition takes no jobs at present",
    "PartitionNodeLimit": "asks for more nodes than the partition gives a job: it will never start as it is",
    "PartitionTimeLimit": "asks for more time than the partition allows: it will never start as it is",
    "PartitionConfig": "cannot run in this partition as it is configured",
    "ReqNodeNotAvail": "nodes it needs are not available (reserved, drained or down)",
    "Reservation": "waiting for its reservation to begin",
    "ReservationDeleted": "its reservation is gone",
    "Licenses": "waiting for a licence",
    "NodeDown": "a node it needs is down",
    "BadConstraints": "no node fulfils its constraints: it will never start as it is",
    "Cleaning": "being requeued: still cleaning up its last run",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "JobLaunchFailure": "could not be launched; an administrator may have to look",
    "BurstBufferResources": "waiting for burst buffer space",
    "BurstBufferStageIn": "its data is being staged in",
    "Prolog": "a prolog is still running",
    "SchedDefer": "the scheduler was asked to defer it",
    "WaitingForScheduling": "not looked at by the scheduler yet",
}
NEVER = frozenset(
    {
        "DependencyNeverSatisfied",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "BadConstraints",
        "InvalidAccount",
        "InvalidQOS",
    }
)
HELD = frozenset({"JobHeldUser", "JobHeldAdmin"})
NOT_ELIGIBLE = HELD | {"Dependency", "BeginTime", "JobArrayTaskLimit"}
"""Not waiting for the machine: a forecast counts from the moment this is over."""

_LIMIT_OF = {"Assoc": "the account or association", "QOS": "the QOS", "Job": "one job"}
_LIMIT_ON = {
    "Cpu": "processors",
    "Node": "nodes",
    "Mem": "memory",
    "GRES": "GPUs and other resources",
    "Jobs": "running jobs",
    "Job": "running jobs",
    "Wall": "time",
    "Billing": "billing",
    "Submit": "submitted jobs",
    "BB": "burst buffer",
}


def plain_reason(reason: str) -> str:
    """A reason in words; one this table does not know as Slurm gives it.

    >>> plain_reason("Priority"), plain_reason("QOSMaxCpuPerUserLimit")
    ('jobs with higher priority are ahead in the queue', 'a limit of the QOS on processors per user is reached')
    """
    name = reason.strip("()").split(",")[0].split(":")[0].strip()
    if name in ("", "None"):
        return "not looked at by the scheduler yet"
    if name in WORDS:
        return WORDS[name]
    whose = next((words for key, words in _LIMIT_OF.items() if name.startswith(key)), "")
    if whose and ("Limit" in name or "Grp" in name or "Max" in name):
        on = next((words for key, words in _LIMIT_ON.items() if key in name.removeprefix("Job")), "resources")
        per = next((f" per {word.lower()}" for word in ("User", "Account", "Job", "Node") if f"Per{word}" in name), "")
        return f"a limit of {whose} on {on}{per} is reached"
    return f"{name} (Slurm's word)"
