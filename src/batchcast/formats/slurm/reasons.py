# SPDX-License-Identifier: Apache-2.0
"""Slurm's reasons for a pending job, in plain language. Pure."""

from __future__ import annotations

from collections.abc import Set
from enum import StrEnum

from .resources import expand, fold

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
    "Nodes required for job are DOWN": "its nodes are down, drained, or kept for a partition with a higher priority",
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
        "PartitionConfig",
    }
)
HELD = frozenset({"JobHeldUser"})
_ADMIN = frozenset(
    {
        "JobHeldAdmin", "NodeDown", "PartitionDown", "PartitionInactive", "JobLaunchFailure", "FrontEndDown",
        "ReservationDeleted", "AccountNotAllowed", "QOSNotAllowed", "SystemFailure",
    }
)  # fmt: skip


class Rule(StrEnum):
    """What ends a reason, and so how long a job with it still waits."""

    MACHINE = "machine"
    """The queue: the forecast issued at submission."""
    NEVER = "never"
    """Nothing: it cannot start as it is."""
    ADMIN = "administrator"
    """An administrator: nobody can say when."""
    ELIGIBLE = "eligible"
    """Its owner, a time, another job: the forecast counts from then."""
    RESERVATION = "reservation"
    """The beginning of its reservation, or the end of one that keeps its nodes."""
    LIMIT = "limit"
    """The end of jobs that hold what a limit gives: the limit's own queue."""


def rule(reason: str) -> Rule:
    """The rule of one of Slurm's reasons, 22.05 to 24.11; an unknown word is the queue's.

    >>> rule("ReqNodeNotAvail, UnavailableNodes:n2").value, rule("QOSMaxJobsPerUserLimit").value, rule("Priority").value
    ('administrator', 'limit', 'machine')
    """
    name = word(reason)
    if name == "ReqNodeNotAvail":
        return Rule.ADMIN if _unavailable(reason) else Rule.RESERVATION
    if name in NEVER or "PerJob" in name:
        return Rule.NEVER
    if name in _ADMIN or ("Minutes" in name and "RunMinutes" not in name):
        return Rule.ADMIN
    if name in HELD | {"Dependency", "BeginTime"}:
        return Rule.ELIGIBLE
    if name in ("Reservation", "Reserved_for_maintenance"):
        return Rule.RESERVATION
    if name in ("JobArrayTaskLimit", "Licenses") or limit_of(name):
        return Rule.LIMIT
    return Rule.MACHINE


def word(reason: str) -> str:
    """The name of a reason, without what Slurm adds to it.

    >>> word("(ReqNodeNotAvail, UnavailableNodes:n2)"), word("None")
    ('ReqNodeNotAvail', '')
    """
    name = reason.strip("()").split(",")[0].split(":")[0].strip()
    return "" if name == "None" else name


def _unavailable(reason: str) -> str:
    """The nodes that are down or drained, as ReqNodeNotAvail names them."""
    return reason.partition("UnavailableNodes:")[2].strip(" )")


def naming_down(reason: str, nodes_asked: str, down: Set[str]) -> str:
    """The reason with the nodes that the job asked for by name and that are drained or down, as 22.05 prints it.

    24.11 says of these too that they may be reserved, whatever is reserved.

    >>> naming_down("ReqNodeNotAvail, May be reserved for other job", "n[1-2]", {"n2", "n3"})
    'ReqNodeNotAvail, UnavailableNodes:n2'
    >>> naming_down("ReqNodeNotAvail, May be reserved for other job", "n1", {"n2"})
    'ReqNodeNotAvail, May be reserved for other job'
    """
    away = [node for node in expand(nodes_asked) if node in down] if may_be_down(reason) else []
    return f"ReqNodeNotAvail, UnavailableNodes:{fold(away)}" if away else reason


def no_longer(reason: str, down: Set[str] | None, tasks_run: bool) -> bool:
    """Whether a reason does not hold any more: the scheduler leaves it until it looks at the job again, hours later.

    The nodes that it names are back (`down` are those that are not; None: unknown), or no task of the array runs whose
    limit it says is reached.

    >>> no_longer("ReqNodeNotAvail, UnavailableNodes:n[2-3]", {"n3"}, False), no_longer("Priority", set(), False)
    (False, False)
    >>> no_longer("ReqNodeNotAvail, UnavailableNodes:n2", {"n3"}, False), no_longer("JobArrayTaskLimit", set(), False)
    (True, True)
    """
    named = expand(_unavailable(reason))
    back = named and down is not None and down.isdisjoint(named)
    return bool(back) or (word(reason) == "JobArrayTaskLimit" and not tasks_run)


def about_nodes(reason: str) -> bool:
    """Whether which nodes are down decides what a reason means."""
    return word(reason) in ("ReqNodeNotAvail", "Nodes required for job are DOWN")


def may_be_down(reason: str) -> bool:
    """Whether a reason leaves open if nodes are reserved or down."""
    return word(reason) == "ReqNodeNotAvail" and "May be reserved" in reason


def limit_of(name: str) -> str:
    """Whose limit a reason names: `user`, `account`, `qos`, empty for none.

    >>> limit_of("QOSMaxJobsPerUserLimit"), limit_of("AssocGrpCpuLimit"), limit_of("QOSGrpNodeLimit")
    ('user', 'account', 'qos')
    """
    if not name.startswith(("Assoc", "QOS", "Max")) or not ("Limit" in name or "Grp" in name or "Max" in name):
        return ""
    if "Grp" in name:
        return "account" if name.startswith("Assoc") else "qos"
    return "account" if "PerAccount" in name or "PerAcct" in name else "user"


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
    name = word(reason)
    if not name:
        return "not looked at by the scheduler yet"
    if name == "ReqNodeNotAvail" and rule(reason) is Rule.ADMIN:
        return f"nodes it needs are drained or down: {_unavailable(reason)}"
    if name in WORDS:
        return WORDS[name]
    whose = next((words for key, words in _LIMIT_OF.items() if name.startswith(key)), "")
    if whose and ("Limit" in name or "Grp" in name or "Max" in name):
        on = next((words for key, words in _LIMIT_ON.items() if key in name.removeprefix("Job")), "resources")
        per = next((f" per {word.lower()}" for word in ("User", "Account", "Job", "Node") if f"Per{word}" in name), "")
        return f"a limit of {whose} on {on}{per} is reached"
    return f"{name} (Slurm's word)"
