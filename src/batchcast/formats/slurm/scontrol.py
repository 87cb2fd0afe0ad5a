# SPDX-License-Identifier: Apache-2.0
"""Read `scontrol show ... -o` and `sacctmgr show ... -P`, and convert them to a `Machine`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...errors import InputError, UsageError
from ...machines.machine import Association, Limits, Machine, NodeGroup, Partition, Qos, Reservation, check_machine
from ...units import parse_duration, parse_memory
from .resources import MOST_NODES, Names, amount, is_away, parse_tres

Rows = Sequence[Mapping[str, str]]
_KEY = re.compile(r"(?:^|(?<=\s))([A-Z][A-Za-z0-9_:/.]*)=")


def parse_config(text: str) -> dict[str, str]:
    """Return the `Name = value` lines of a text by name.

    >>> parse_config("Configuration data as of x\\nMinJobAge               = 300 sec\\n")
    {'MinJobAge': '300 sec'}
    """
    pairs = (line.split("=", 1) for line in text.splitlines() if " = " in line)
    return {name.strip(): value.strip() for name, value in pairs}


def parse_records(text: str, first: str) -> list[dict[str, str]]:
    """Return the records of `scontrol -o` as mappings; the key `first` (JobId, PartitionName) begins each record.

    >>> parse_records("PartitionName=main AllowGroups=ALL MaxTime=7-00:00:00\\n", "PartitionName")
    [{'PartitionName': 'main', 'AllowGroups': 'ALL', 'MaxTime': '7-00:00:00'}]
    """
    # A value ends at the next ` Key=`, so values can contain blanks. A value that contains ` Key=` is misread;
    # therefore job names are read from squeue.
    records = []
    for block in re.split(rf"(?m)^(?={re.escape(first)}=)", text):
        matches = list(_KEY.finditer(block))
        ends = [m.start() for m in matches[1:]] + [len(block)]
        if matches and matches[0][1] == first:
            records.append({m[1]: block[m.end() : end].strip() for m, end in reversed(list(zip(matches, ends)))})
    return [dict(reversed(r.items())) for r in records]


_MODELLED = {
    "SelectType": ("cons_tres", "cons_res"),
    "TopologyPlugin": ("none", "default", "flat"),
    "PreemptType": ("none", "partition_prio", "qos"),
    "PriorityUsageResetPeriod": ("NONE", "none"),
    "PriorityType": ("basic", "multifactor"),
    "SchedulerType": ("backfill", "builtin"),
}
_NOT_MODELLED = (
    "BurstBufferType", "EnforcePartLimits", "FederationParameters", "JobSubmitPlugins", "PriorityFavorSmall",
    "PrioritySiteFactorPlugin", "PriorityWeightAssoc", "RequeueExit", "ResumeProgram",
)  # fmt: skip
_PARAMETERS = (
    "batch_sched_delay", "bf_continue", "bf_interval", "bf_max_job_array_resv", "bf_max_job_part", "bf_max_job_test",
    "bf_max_job_user", "bf_max_time", "bf_min_age_reserve", "bf_min_prio_reserve", "bf_resolution", "bf_window",
    "bf_yield_interval", "bf_yield_sleep", "bf_yield_rpc_cnt", "default_queue_depth", "disable_user_top",
    "enable_user_top", "ignore_constraint_validation", "kill_invalid_depend", "max_array_tasks", "max_depend_depth",
    "no_backup_scheduling", "nohold_on_prolog_fail", "permit_job_expansion", "preempt_reorder_count",
    "preempt_youngest_first", "requeue_delay", "requeue_on_resume_failure", "salloc_wait_nodes", "sbatch_wait_nodes",
    "sched_interval", "sched_min_interval", "step_retry_count", "step_retry_time",
)  # fmt: skip
"""SchedulerParameters that the simulation follows or that affect no start. Others are listed as left out."""
_SELECT = ("CR_ONE_TASK_PER_CORE", "CR_SOCKET", "CR_PACK_NODES", "LL_SHARED_GRES", "OTHER_CONS")
_LIMITS = (
    "GrpTRESMins", "GrpTRESRunMins", "GrpWall", "GrpSubmit", "GrpJobsAccrue", "MaxTRESMins", "MaxTRESMinsPU",
    "MaxTRESMinsPA", "MaxTRESPerNode", "MaxTRESRunMins", "MaxTRESRunMinsPU", "MaxTRESRunMinsPA", "MaxSubmit",
    "MaxSubmitPU", "MaxSubmitPA", "MaxJobsAccruePU", "MaxJobsAccruePA", "MinTRES", "MinPrio", "LimitFactor",
    "UsageFactor", "UsageThres",
)  # fmt: skip
_HARMLESS = {"UsageFactor": "1.000000"}
_UNUSED = ("", "(NULL)", "N/A", "NONE", "UNLIMITED", "0", "NO")
_NONE = ("", "(null)", "N/A", "NONE", "None", "UNLIMITED")


def read_machine(
    node: str, partition: str, config: str = "", reservation: str = "", qos: str = "", assoc: str = ""
) -> Machine:
    """Build the machine that the output of scontrol (times in UTC) and of `sacctmgr -P` describes; `left_out` lists
    settings that the simulation does not follow."""
    settings = {key: value for key, value in parse_config(config).items() if value not in ("(null)", "")}
    settings.update(_parameters(settings.get("SchedulerParameters", "")))
    node_rows, partition_rows = parse_records(node, "NodeName"), parse_records(partition, "PartitionName")
    reservation_rows = parse_records(reservation, "ReservationName")
    nodes = tuple(_node_groups(node_rows))
    if not nodes:
        raise InputError("the text of the nodes has no NodeName=", hint="scontrol show node -o > node.txt")
    everyone, expand = [name for group in nodes for name in group.names], Names()
    partitions = tuple(_partition(row, everyone, settings, expand) for row in partition_rows)
    if not partitions:
        hint = "scontrol show partition -o > partition.txt"
        raise InputError("the text of the partitions has no PartitionName=", hint=hint)
    reservations = [_reservation(row, expand) for row in reservation_rows]
    timeless = [f"reservation {r.name} (no start or no end)" for r in reservations if math.isnan(r.end - r.start)]
    machine = Machine(
        nodes,
        partitions,
        tuple(_qos(row) for row in _named_rows(qos, "qos", "Name")),
        tuple(_association(row) for row in _named_rows(assoc, "assoc", "Account")),
        tuple(r for r in reservations if not math.isnan(r.end - r.start)),
        settings,
        settings.get("ClusterName", ""),
        (*_left_out(settings, node_rows, partition_rows, reservation_rows, table(qos), table(assoc)), *timeless),
        {name: float(count) for name, count in gres(settings.get("Licenses", "")).items()},
    )
    check_machine(machine, "the nodes' text")
    return machine


def _named_rows(text: str, what: str, column: str) -> list[dict[str, str]]:
    """Return rows of `sacctmgr -P show`; InputError if the column of names is missing."""
    rows = table(text)
    if rows and column not in rows[0]:
        raise InputError(f"{what}.txt: no column {column} in {'|'.join(rows[0])[:80]!r}",
                         hint=f"sacctmgr -P show {what} > {what}.txt")  # fmt: skip
    return [row for row in rows if row.get(column)]


def table(text: str) -> list[dict[str, str]]:
    """Return the rows of sacctmgr's `-P` output as mappings, with the titles in the first line as keys.

    >>> table("Name|Priority\\nnormal|10\\n")
    [{'Name': 'normal', 'Priority': '10'}]
    """
    lines = [line.split("|") for line in text.splitlines() if line]
    return [dict(zip(lines[0], line)) for line in lines[1:]] if lines else []


def gres(text: str) -> dict[str, int]:
    """Return the counts in a node's Gres, by name and type.

    >>> gres("gpu:a100:4(S:0-1),lustre:2"), gres("gpu:2"), gres("(null)")
    ({'gpu:a100': 4, 'lustre': 2}, {'gpu': 2}, {})
    """
    counts: dict[str, int] = {}
    if text in _NONE:
        return counts
    for item in re.split(r",(?![^(]*\))", text):
        words = re.sub(r"\(.*\)", "", item).removeprefix("gres/").replace("=", ":").split(":")
        number = words.pop() if re.fullmatch("[0-9]{1,12}", words[-1]) else "1"
        counts[":".join(words)] = counts.get(":".join(words), 0) + int(number)
    return counts


def _node_groups(records: list[dict[str, str]]) -> list[NodeGroup]:
    """Return the nodes; consecutive nodes with equal properties form one group."""
    groups: list[tuple[Any, list[str], list[str]]] = []  # shared properties, all nodes, nodes that are down
    if len(records) > MOST_NODES:
        raise InputError(f"the text of the nodes has more than {MOST_NODES} nodes (accepted: at most {MOST_NODES})")
    for r in records:
        kind: tuple[Any, ...] = (
            _whole_number(r, "CPUEfctv" if r.get("CPUEfctv") else "CPUTot", 1),
            _whole_number(r, "Sockets", 1),
            _whole_number(r, "ThreadsPerCore", 1),
            max(float(_whole_number(r, "RealMemory", math.inf) - _whole_number(r, "MemSpecLimit", 0)), 0.0),
            gres(r.get("Gres", "")),
            tuple(f for f in r.get("AvailableFeatures", "").split(",") if f not in _NONE),
            _whole_number(r, "Weight", 1),
        )
        if not groups or groups[-1][0] != kind:
            groups.append((kind, [], []))
        groups[-1][1].append(r["NodeName"])
        groups[-1][2].extend([r["NodeName"]] if is_away(r.get("State", "")) else [])
    return [replace(NodeGroup(tuple(names), *kind), down=tuple(down)) for kind, names, down in groups]


def _whole_number(r: Mapping[str, str], key: str, otherwise: Any) -> Any:
    """Return a whole number from a record; InputError with the record's name if the value is something else."""
    word = r.get(key, "")
    if word in _NONE:
        return otherwise
    if not re.fullmatch(r"[0-9]{1,12}", word):
        first = next(iter(r))
        raise InputError(f"{first}={r[first]}: {key}={word[:40]} (accepted: a whole number, e.g. {key}=16)")
    return int(word)


def _partition(r: Mapping[str, str], everyone: list[str], settings: Mapping[str, str], expand: Names) -> Partition:
    """Return a partition from its record."""
    expand.count(len(everyone))  # the loop below visits every node for each partition: the limit must cover it
    listed = r.get("Nodes", "")
    named = set(everyone) if listed == "ALL" else set(expand(listed))
    per_cpu, per_node = (amount(r.get(k, "")) for k in ("DefMemPerCPU", "DefMemPerNode"))
    if math.isnan(per_cpu) and math.isnan(per_node):
        per_cpu, per_node = (amount(settings.get(k, "")) for k in ("DefMemPerCPU", "DefMemPerNode"))
    mode = r.get("PreemptMode", "").upper()
    return Partition(
        r["PartitionName"],
        tuple(name for name in everyone if name in named),
        _seconds(r.get("MaxTime", ""), math.inf),
        _seconds(r.get("DefaultTime", ""), math.nan),
        _whole_number(r, "PriorityTier", 1),
        _whole_number(r, "PriorityJobFactor", 1),
        amount(r.get("MaxNodes", ""), math.inf),
        per_cpu,
        per_node,
        r.get("OverSubscribe", "").upper().startswith("EXCLUSIVE"),
        r.get("LLN", "NO").upper() == "YES",
        r.get("Default", "NO").upper() == "YES",
        r.get("State", "UP").upper() in ("UP", "INACTIVE"),
        "" if r.get("QoS", "N/A") in _NONE else r["QoS"],
        mode in ("REQUEUE", "CANCEL"),
        _weights(r.get("TRESBillingWeights", "")),
        "" if mode == settings.get("PreemptMode", "OFF").upper() else mode,
        amount(r.get("GraceTime", ""), 0.0),
    )


def _weights(text: str) -> dict[str, float]:
    """Return TRESBillingWeights by TRES, memory per MiB: `CPU=1.0,Mem=0.25G,GRES/gpu=2.0`."""
    weights = {}
    for item in text.split(",") if text not in _NONE else []:
        name, _, value = item.partition("=")
        unit = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}.get(value[-1:].upper(), 0.0)
        weights[name.lower()] = amount(value.rstrip("kKmMgGtT"), 0.0) / (unit or 1.0)
    return weights


def _qos(r: Mapping[str, str]) -> Qos:
    """Return a QOS from its row."""
    preempts = tuple(name for name in r.get("Preempt", "").split(",") if name)
    mode = r.get("PreemptMode", "").upper()
    return Qos(
        r["Name"], amount(r.get("Priority", ""), 0.0), preempts, _limits(r), "" if mode == "CLUSTER" else mode,
        _seconds(r.get("GraceTime", ""), 0.0), _seconds(r.get("PreemptExemptTime", ""), math.nan),
    )  # fmt: skip


def _limits(r: Mapping[str, str]) -> Limits:
    """Return the limits in the row of a QOS or an association, each of which has some of the columns."""
    return Limits(
        grp_jobs=amount(r.get("GrpJobs", ""), math.inf),
        grp_tres=_tres(r, "GrpTRES"),
        max_jobs=amount(r.get("MaxJobs", ""), math.inf),
        max_jobs_per_user=amount(r.get("MaxJobsPU", ""), math.inf),
        max_jobs_per_account=amount(r.get("MaxJobsPA", ""), math.inf),
        max_tres=_tres(r, "MaxTRES"),
        max_tres_per_user=_tres(r, "MaxTRESPU"),
        max_tres_per_account=_tres(r, "MaxTRESPA"),
        max_wall=_seconds(r.get("MaxWall", ""), math.inf),
    )


def _association(r: Mapping[str, str]) -> Association:
    """Return an association from its row."""
    parent = r.get("ParentName") or r.get("Par Name") or ("" if r["Account"] == "root" or r.get("User") else "root")
    return Association(r["Account"], r.get("User", ""), parent, amount(r.get("Share", "1"), 1.0), _limits(r))


def _reservation(r: Mapping[str, str], expand: Names) -> Reservation:
    """Return a reservation from its record."""
    start, end = (_stamp(r.get(key, "")) for key in ("StartTime", "EndTime"))
    users, accounts, flags = (
        tuple(w for w in r.get(key, "").split(",") if w not in _NONE) for key in ("Users", "Accounts", "Flags")
    )
    return Reservation(r["ReservationName"], expand(r.get("Nodes", "")), start, end, users, accounts, flags)


def _stamp(text: str) -> float:
    """Return a time in epoch seconds; NaN if the text cannot be read."""
    from datetime import UTC

    from ..times import LocalClock, parse_stamps

    epoch, _, bad = parse_stamps([text], LocalClock(UTC))
    return math.nan if bad else float(epoch[0])


def _parameters(text: str) -> dict[str, str]:
    """Return SchedulerParameters by name; a parameter without a value is `yes`."""
    pairs = (item.partition("=") for item in text.split(",") if item)
    return {name.strip(): value if equals else "yes" for name, equals, value in pairs}


def _left_out(
    settings: Mapping[str, str], nodes: Rows, partitions: Rows, reservations: Rows, qos: Rows, assoc: Rows
) -> list[str]:
    """Return the settings that are in use and that the simulation does not follow, by Slurm's names."""
    used = [f"{key}={settings[key]}" for key in _NOT_MODELLED if settings.get(key, "0").upper() not in _UNUSED]
    used += ["nodes that join later (MaxNodeCount)"] if amount(settings.get("MaxNodeCount", "")) > len(nodes) else []
    values = {key: settings.get(key, models[0]).split("/")[-1] for key, models in _MODELLED.items()}
    used += [f"{key}={value}" for key, value in values.items() if value not in _MODELLED[key]]
    flags = set(settings.get("PriorityFlags", "").upper().split(",")) - {"", "FAIR_TREE", "(NULL)"}
    used += [f"PriorityFlags={','.join(sorted(flags))}"] if flags else []
    used += [name for name in _parameters(settings.get("SchedulerParameters", "")) if name not in _PARAMETERS]
    if re.search(r"billing|energy|license", settings.get("PriorityWeightTRES", "").lower()):
        used.append("PriorityWeightTRES of billing, energy or licenses")
    used += [word for word in settings.get("SelectTypeParameters", "").upper().split(",") if word in _SELECT]
    used += _of_partitions(partitions)
    used += ["CPUSpecList"] if any(r.get("CPUSpecList", "") not in _NONE for r in nodes) else []
    used += ["CoreSpecCount"] if any(amount(r.get("CoreSpecCount", ""), 0) for r in nodes) else []
    flags = {f for r in reservations for f in r.get("Flags", "").split(",")}
    used += [f"reservation {flag}" for flag in sorted(flags & {"WEEKDAY", "WEEKEND", "FLEX", "MAGNETIC"})]
    for title, rows in (("qos", qos), ("assoc", assoc)):
        used += [f"{title} {c}" for c in _LIMITS if {row.get(c, "") for row in rows} - {"", _HARMLESS.get(c, "")}]
        used += [f"{title} Flags={row['Flags']}" for row in rows if row.get("Flags")]
    used += _of_preemption(settings, partitions, qos)
    return list(dict.fromkeys(used))


def _of_preemption(settings: Mapping[str, str], partitions: Rows, qos: Rows) -> list[str]:
    """Return preemption settings that are not simulated: modes except REQUEUE and CANCEL, and restrictions."""
    if settings.get("PreemptType", "preempt/none").split("/")[-1] == "none":
        return []
    modes = [settings.get("PreemptMode", "OFF"), *(r.get("PreemptMode", "") for r in (*partitions, *qos))]
    words = {word for mode in modes for word in mode.upper().split(",")} & {"SUSPEND", "GANG", "WITHIN", "PRIORITY"}
    parameters = _parameters(settings.get("PreemptParameters", ""))
    used = [name for name in ("min_exempt_priority", "send_user_signal", "strict_order") if name in parameters]
    return [*(f"PreemptMode={word}" for word in sorted(words)), *used]


def _of_partitions(rows: Rows) -> list[str]:
    """Return settings of partitions that the simulation does not follow."""
    used = []
    for r in rows:
        share = r.get("OverSubscribe", "NO").upper()
        used += [f"OverSubscribe={share}"] if share.startswith(("FORCE", "YES")) else []
        for key, usual in (("MinNodes", ("0", "1")), ("ExclusiveUser", ("NO",)), ("ExclusiveTopo", ("NO",))):
            used += [f"{key}={r[key]}"] if r.get(key, usual[0]) not in (*usual, *_NONE) else []
        for key in ("MaxCPUsPerNode", "MaxCPUsPerSocket", "MaxMemPerNode", "MaxMemPerCPU", "QoS", "MaxNodes"):
            used += [f"partition {key}"] if r.get(key, "") not in _NONE else []
        if {r.get(key, "ALL") for key in ("AllowAccounts", "AllowQos", "AllowGroups")} - {"ALL", *_NONE}:
            used.append("partition AllowAccounts/AllowQos/AllowGroups")
        for key, unused in (("DenyAccounts", ""), ("DenyQos", ""), ("ReqResv", "NO"), ("JobDefaults", "")):
            used += [f"partition {key}"] if r.get(key, unused).upper() not in (unused, "(NULL)", "NONE") else []
        used += ["partition DefMemPerGPU"] if r.get("DefMemPerGPU", "0") not in ("0", *_NONE) else []
    return used


def _tres(r: Mapping[str, str], key: str) -> dict[str, float]:
    """Return the amounts of a TRES limit, memory in MiB."""
    amounts = parse_tres(r.get(key, "")).items()
    return {n: parse_memory(text) / 1024 if n == "mem" else amount(text, math.inf) for n, text in amounts}


def _seconds(text: str, otherwise: float) -> float:
    """Return a time in seconds; `otherwise` if the record has no time."""
    try:
        value = math.nan if text in _NONE else parse_duration(text)
    except UsageError:
        return otherwise
    return otherwise if math.isnan(value) else value
