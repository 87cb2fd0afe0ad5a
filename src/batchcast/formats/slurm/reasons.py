# SPDX-License-Identifier: Apache-2.0
"""Explain Slurm's reasons for pending jobs in plain language."""

from __future__ import annotations

from collections.abc import Set
from enum import StrEnum
from functools import lru_cache

from .resources import expand, fold

WORDS: dict[str, str] = {
    "Resources": "next in the queue; waiting until enough resources are free",
    "Priority": "jobs with higher priority are ahead in the queue",
    "Dependency": "waiting for another job that it depends on",
    "DependencyNeverSatisfied": "a job that it depends on failed, so it will never start; cancel it",
    "BeginTime": "requested not to start before a given time",
    "JobHeldUser": "held by its owner (scontrol release frees it)",
    "JobHeldAdmin": "held by an administrator; ask them",
    "JobArrayTaskLimit": "its array already runs as many tasks as --array allows (the number after %)",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition does not start jobs at present",
    "PartitionNodeLimit": "requests more nodes than the partition allows: it will never start unchanged",
    "PartitionTimeLimit": "requests more time than the partition allows: it will never start unchanged",
    "PartitionConfig": "cannot run in this partition as it is configured",
    "ReqNodeNotAvail": "nodes it needs are not available (reserved, drained or down)",
    "Nodes required for job are DOWN": "its nodes are down, drained, or kept for a partition with a higher priority",
    "Reservation": "waiting for its reservation to begin",
    "ReservationDeleted": "its reservation was deleted",
    "Licenses": "waiting for a licence",
    "NodeDown": "a node it needs is down",
    "BadConstraints": "no node satisfies its constraints: it will never start unchanged",
    "Cleaning": "requeued: Slurm is still cleaning up after its last run",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "JobLaunchFailure": "could not be launched; ask an administrator",
    "BurstBufferResources": "waiting for burst buffer space",
    "BurstBufferStageIn": "its data is being staged in",
    "Prolog": "a prolog is still running",
    "SchedDefer": "the scheduler is configured to defer it",
    "WaitingForScheduling": "the scheduler has not considered it yet",
    "DeadLine": "it cannot end before its deadline: it will never start unchanged",
    **dict.fromkeys(
        ("launch failed requeued held", "job requeued in held state", "user env retrieval failed requeued held",
         "JobHoldMaxRequeue"), "held by Slurm when it was requeued (scontrol release frees it)",
    ),
    **dict.fromkeys(
        ("QOSMinCpuNotSatisfied", "QOSMinGRES", "QOSMinMemory", "QOSMinNode"),
        "requests less than its QOS accepts: it will never start unchanged",
    ),
}  # fmt: skip


class Rule(StrEnum):
    """The kind of event that ends a Slurm reason for waiting. A predicted wait counts from the event that ends the
    reason for waiting."""

    MACHINE = "machine"
    """The queue: the wait that was predicted at submission applies."""
    NEVER = "never"
    """No event: the job cannot start unless somebody changes it."""
    ADMIN = "administrator"
    """An action of an administrator, at an unknown time."""
    ELIGIBLE = "eligible"
    """An action of the job's owner, a begin time or the end of another job: the predicted wait begins then."""
    RESERVATION = "reservation"
    """The beginning of the job's reservation, or the end of a reservation that blocks the job's nodes."""
    LIMIT = "limit"
    """The end of other jobs that count against the same limit as the job."""


_REASONS = {
    Rule.NEVER: "DependencyNeverSatisfied PartitionNodeLimit PartitionTimeLimit BadConstraints InvalidAccount "
    "InvalidQOS PartitionConfig DeadLine",
    Rule.ADMIN: "JobHeldAdmin NodeDown PartitionDown PartitionInactive JobLaunchFailure FrontEndDown "
    "ReservationDeleted AccountNotAllowed QOSNotAllowed SystemFailure",
    Rule.ELIGIBLE: "JobHeldUser Dependency BeginTime",
    Rule.RESERVATION: "Reservation Reserved_for_maintenance",
    Rule.LIMIT: "JobArrayTaskLimit Licenses",
}
_RULES = {name: kind for kind, names in _REASONS.items() for name in names.split()}


@lru_cache(1024)  # many waiting jobs have the same reason
def rule(reason: str) -> Rule:
    """Return the rule that says what ends a reason for waiting, as Slurm 22.05 to 24.11 prints it; an unknown reason
    counts as waiting in the queue.

    >>> rule("ReqNodeNotAvail, UnavailableNodes:n2").value, rule("QOSMaxJobsPerUserLimit").value, rule("Priority").value
    ('administrator', 'limit', 'machine')
    """
    name = reason_name(reason)
    if name == "ReqNodeNotAvail":
        return Rule.ADMIN if _unavailable(reason) else Rule.RESERVATION
    if name in _RULES:
        return _RULES[name]
    if "PerJob" in name or "NotSatisfied" in name or name.startswith("QOSMin"):
        return Rule.NEVER
    if name.endswith((" held", " held state")) or name == "JobHoldMaxRequeue":
        return Rule.ELIGIBLE
    if "Minutes" in name and "RunMinutes" not in name:
        return Rule.ADMIN
    return Rule.LIMIT if limit_of(name) else Rule.MACHINE


@lru_cache(1024)  # many waiting jobs have the same reason
def reason_name(reason: str) -> str:
    """Return the name of a Slurm reason, without the details that Slurm appends.

    >>> reason_name("(ReqNodeNotAvail, UnavailableNodes:n2)"), reason_name("None")
    ('ReqNodeNotAvail', '')
    """
    name = reason.strip("()").split(",")[0].split(":")[0].strip()
    return "" if name == "None" else name


def _unavailable(reason: str) -> str:
    """Return the down or drained nodes that ReqNodeNotAvail names, as a host list."""
    return reason.partition("UnavailableNodes:")[2].strip(" )")


def naming_down(reason: str, nodes_asked: str, down: Set[str]) -> str:
    """Add the requested nodes that are drained or down to a reason, in the form of Slurm 22.05.

    Slurm 24.11 only says that the nodes may be reserved, even if they are down.

    >>> naming_down("ReqNodeNotAvail, May be reserved for other job", "n[1-2]", {"n2", "n3"})
    'ReqNodeNotAvail, UnavailableNodes:n2'
    >>> naming_down("ReqNodeNotAvail, May be reserved for other job", "n1", {"n2"})
    'ReqNodeNotAvail, May be reserved for other job'
    """
    may_be_down = reason_name(reason) == "ReqNodeNotAvail" and "May be reserved" in reason
    away = [node for node in expand(nodes_asked) if node in down] if may_be_down else []
    return f"ReqNodeNotAvail, UnavailableNodes:{fold(away)}" if away else reason


def no_longer(reason: str, down: Set[str] | None, tasks_run: bool) -> bool:
    """Whether a Slurm reason for waiting is outdated. Slurm keeps a reason until the scheduler considers the job again,
    perhaps hours later. A reason is outdated if all nodes that it names are up, or if it is the array's task limit and
    no task runs.

    >>> no_longer("ReqNodeNotAvail, UnavailableNodes:n[2-3]", {"n3"}, False), no_longer("Priority", set(), False)
    (False, False)
    >>> no_longer("ReqNodeNotAvail, UnavailableNodes:n2", {"n3"}, False), no_longer("JobArrayTaskLimit", set(), False)
    (True, True)
    """
    named = expand(_unavailable(reason))
    back = named and down is not None and down.isdisjoint(named)
    return bool(back) or (reason_name(reason) == "JobArrayTaskLimit" and not tasks_run)


def about_nodes(reason: str) -> bool:
    """Whether the meaning of a Slurm reason for waiting depends on which nodes are down."""
    return reason_name(reason) in ("ReqNodeNotAvail", "Nodes required for job are DOWN")


def limit_of(name: str) -> str:
    """Return whose limit a reason names: `user`, `account` or `qos`; empty if the reason does not name a limit.

    >>> limit_of("QOSMaxJobsPerUserLimit"), limit_of("AssocGrpCpuLimit"), limit_of("QOSGrpNodeLimit")
    ('user', 'account', 'qos')
    """
    if not name.startswith(("Assoc", "QOS", "Max")) or not ("Limit" in name or "Grp" in name or "Max" in name):
        return ""
    if "Grp" in name:
        return "account" if name.startswith("Assoc") else "qos"
    return "account" if "PerAccount" in name or "PerAcct" in name else "user"


A_LIMIT = "a limit of %(whose)s on %(what)s%(per)s is reached"
NODES_DOWN = "nodes that it needs are drained or down: %(nodes)s"
_LIMIT_OF = {"Assoc": "the account or association", "QOS": "the QOS", "Job": "one job"}
_LIMIT_ON = {
    "Cpu": "processors", "Node": "nodes", "Mem": "memory", "GRES": "GPUs and other resources", "Jobs": "running jobs",
    "Job": "running jobs", "Wall": "time", "Billing": "billing", "Submit": "submitted jobs", "BB": "burst buffer",
}  # fmt: skip
_PER = ("User", "Account", "Job", "Node")
PARTS = (*_LIMIT_OF.values(), *_LIMIT_ON.values(), "resources", *(f" per {word.lower()}" for word in _PER))
"""The parts of a sentence about a limit, for the catalogue of translations."""


def reason_parts(reason: str) -> tuple[str, dict[str, str]] | None:
    """Return the sentence that explains a reason and the values to fill in; None if the sentence needs no values.

    >>> reason_parts("QOSMaxCpuPerUserLimit")[1]
    {'whose': 'the QOS', 'what': 'processors', 'per': ' per user'}
    """
    name = reason_name(reason)
    if name == "ReqNodeNotAvail" and rule(reason) is Rule.ADMIN:
        return NODES_DOWN, {"nodes": _unavailable(reason)}
    whose = next((words for key, words in _LIMIT_OF.items() if name.startswith(key)), "")
    if name in WORDS or not whose or not ("Limit" in name or "Grp" in name or "Max" in name):
        return None
    what = next((words for key, words in _LIMIT_ON.items() if key in name.removeprefix("Job")), "resources")
    per = next((f" per {one.lower()}" for one in _PER if f"Per{one}" in name), "")
    return A_LIMIT, {"whose": whose, "what": what, "per": per}


def plain_reason(reason: str) -> str:
    """Explain a reason in words; a reason that this module does not know is returned with its Slurm name.

    >>> plain_reason("Priority"), plain_reason("QOSMaxCpuPerUserLimit")
    ('jobs with higher priority are ahead in the queue', 'a limit of the QOS on processors per user is reached')
    """
    name = reason_name(reason)
    if not name:
        return "the scheduler has not considered it yet"
    if parts := reason_parts(reason):
        return parts[0] % parts[1]
    return WORDS.get(name, f"{name} (Slurm's word)")
