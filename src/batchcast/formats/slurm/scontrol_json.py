# SPDX-License-Identifier: Apache-2.0
"""Convert `scontrol show ... --json` and `sacctmgr show ... --json` to the text that `-o` and `-P` print.

Slurm 23.02 and later print one object for each node, partition, reservation, QOS and association (data_parser v0.0.39
to v0.0.42). Each object becomes the record that the same command prints without `--json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ...errors import InputError
from ...units import shortest
from ..chunks import load_json


def value_at(item: Any, path: str) -> Any:
    """Return the value at a path of keys; None if a key is missing.

    >>> value_at({"time": {"limit": 60}}, "time/limit"), value_at({"time": None}, "time/limit")
    (60, None)
    """
    for key in path.split("/"):
        item = item.get(key) if isinstance(item, Mapping) else None
    return item


def number(value: Any) -> str:
    """Return a number as text, also from the form with `set` and `infinite`; empty if it is not set or infinite.

    >>> number(60), number({"set": True, "infinite": False, "number": 60}), number({"set": False, "number": 0})
    ('60', '60', '')
    """
    if isinstance(value, Mapping):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    if value is None or isinstance(value, bool | Mapping | list):
        return ""
    return shortest(value)


def tres(items: Any) -> str:
    """Return a list of TRES as `cpu=4,mem=2048M,gres/gpu=1`. Memory in TRES is in MiB.

    >>> tres([{"type": "mem", "name": "", "count": 2048}, {"type": "gres", "name": "gpu:a100", "count": 2}])
    'mem=2048M,gres/gpu:a100=2'
    """
    return ",".join(
        f"{t['type']}{'/' + t['name'] if t.get('name') else ''}={t['count']}{'M' if t['type'] == 'mem' else ''}"
        for t in items or ()
    )


def as_list(value: Any) -> list[str]:
    """Return words as a list, from a JSON list, a single word or null.

    >>> as_list("RUNNING"), as_list(["RUNNING", "COMPLETING"]), as_list(None)
    (['RUNNING'], ['RUNNING', 'COMPLETING'], [])
    """
    return [value] if isinstance(value, str) else [str(word) for word in value or ()]


NODE = {
    "CPUTot": ("cpus", "1"), "Sockets": ("sockets", "1"), "ThreadsPerCore": ("threads", "1"), "Weight": ("weight", "1"),
    "RealMemory": ("real_memory", "(null)"), "MemSpecLimit": ("specialized_memory", "0"),
    "CoreSpecCount": ("specialized_cores", "0"), "Gres": ("gres", "(null)"),
}  # fmt: skip
"""For each of scontrol's keys, its place in the JSON, and the text if the JSON has no value."""
PARTITION = {
    "Nodes": ("nodes/configured", ""), "PriorityTier": ("priority/tier", "1"), "GraceTime": ("grace_time", "0"),
    "PriorityJobFactor": ("priority/job_factor", "1"), "MinNodes": ("minimums/nodes", "0"),
    "MaxNodes": ("maximums/nodes", "UNLIMITED"), "MaxCPUsPerNode": ("maximums/cpus_per_node", "UNLIMITED"),
    "QoS": ("qos/assigned", "N/A"), "AllowAccounts": ("accounts/allowed", "ALL"), "AllowQos": ("qos/allowed", "ALL"),
    "AllowGroups": ("groups/allowed", "ALL"), "TRESBillingWeights": ("tres/billing_weights", "(null)"),
}  # fmt: skip
RESERVATION = {key: (place, "(null)") for key, place in
               (("Nodes", "node_list"), ("Users", "users"), ("Accounts", "accounts"))}  # fmt: skip
JOB, PER = "limits/max/tres/per/job", "limits/max/tres/per"
QOS_LIMITS = {
    "GrpJobs": "limits/max/active_jobs/count", "GrpSubmit": "limits/max/jobs/count",
    "GrpJobsAccrue": "limits/max/active_jobs/accruing",
    "MaxJobsPU": "limits/max/jobs/active_jobs/per/user", "MaxJobsPA": "limits/max/jobs/active_jobs/per/account",
    "MaxSubmitPU": "limits/max/jobs/per/user", "MaxSubmitPA": "limits/max/jobs/per/account",
    "UsageThres": "usage_threshold",
    "LimitFactor": "limits/factor", "MinPrio": "limits/min/priority_threshold",
}  # fmt: skip
QOS_TRES = {
    "GrpTRES": "limits/max/tres/total", "GrpTRESMins": "limits/max/tres/minutes/per/qos",
    "GrpTRESRunMins": "limits/max/tres/minutes/total", "MaxTRES": JOB, "MaxTRESPerNode": f"{PER}/node",
    "MaxTRESMins": "limits/max/tres/minutes/per/job", "MaxTRESPU": f"{PER}/user", "MaxTRESPA": f"{PER}/account",
    "MaxTRESRunMinsPA": "limits/max/tres/minutes/per/account", "MaxTRESRunMinsPU": "limits/max/tres/minutes/per/user",
    "MinTRES": "limits/min/tres/per/job",
}  # fmt: skip
ASSOC_LIMITS = {
    "GrpJobs": "max/jobs/per/count", "GrpSubmit": "max/jobs/per/submitted", "GrpJobsAccrue": "max/jobs/per/accruing",
    "MaxJobs": "max/jobs/active", "MaxSubmit": "max/jobs/total", "MaxJobsAccrue": "max/jobs/accruing",
    "MinPrio": "min/priority_threshold",
}  # fmt: skip
ASSOC_TRES = {
    "GrpTRES": "max/tres/total", "GrpTRESMins": "max/tres/group/minutes", "GrpTRESRunMins": "max/tres/group/active",
    "MaxTRES": "max/tres/per/job", "MaxTRESPerNode": "max/tres/per/node", "MaxTRESMins": "max/tres/minutes/per/job",
}  # fmt: skip


def as_text(name: str, text: str, where: str = "") -> str:
    """Return the text that the same command prints without `--json`.

    >>> text = as_text("node", '{"nodes": [{"name": "n1", "cpus": 4, "state": ["IDLE", "DRAIN"]}]}')
    >>> text.split()[0], "CPUTot=4" in text
    ('NodeName=n1', True)
    """
    # Text that is not JSON is returned unchanged, because `scontrol show config --json` of Slurm 24.11 prints plain
    # lines.
    if not text.lstrip().startswith("{"):
        return text
    where, hint = where or name, f"scontrol show {name} --json"
    document = load_json(text, where, "the output of a command of Slurm", hint)
    key, record = RECORDS[name]
    items = document.get(key)
    if not isinstance(items, list):
        raise InputError(f"{where}: the JSON has no list {key!r}", hint=hint)
    rows = [_record(record, item, f"{where}: {key}[{k}]") for k, item in enumerate(items)]
    if name in ("qos", "assoc"):
        titles = list(rows[0]) if rows else []
        return "".join("|".join(line) + "\n" for line in [titles, *(list(row.values()) for row in rows)])
    return "".join(" ".join(f"{key}={value}" for key, value in row.items()) + "\n" for row in rows)


def _record(record: Any, item: Any, where: str) -> dict[str, str]:
    """Return one record as texts; InputError names the record if the record does not have Slurm's form."""
    try:
        row = {key: str(value) for key, value in record(item).items()}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, OSError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else "a value does not have Slurm's format"
        raise InputError(f"{where}: cannot be read: {why}", hint="run the command again and copy its output") from None
    return {key: " ".join(value.split()) for key, value in row.items()}


def _filled(item: Mapping[str, Any], places: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return numbers and texts of a record at the given places, with a text for missing values."""
    return {key: number(value_at(item, place)) or missing for key, (place, missing) in places.items()}


def _node(n: Mapping[str, Any]) -> dict[str, str]:
    """Return a node's record."""
    return {
        "NodeName": n["name"],
        "CPUEfctv": number(n.get("effective_cpus") or n.get("cpus")) or "1",
        **_filled(n, NODE),
        "AvailableFeatures": _words(n.get("features")) or "(null)",
        "State": "+".join((*as_list(n.get("state")), *as_list(n.get("state_flags")))),  # separate until v0.0.38
    }


def _partition(p: Mapping[str, Any]) -> dict[str, str]:
    """Return a partition's record."""
    flags = as_list(value_at(p, "maximums/oversubscribe/flags"))
    shared = value_at(p, "maximums/oversubscribe/jobs")
    jobs = 1 if shared is None else int(shared)
    share = "EXCLUSIVE" if jobs == 0 else f"FORCE:{jobs}" if "force" in flags else f"YES:{jobs}" if jobs > 1 else "NO"
    state = " ".join(as_list(value_at(p, "partition/state")))
    memory = {
        name: number(value_at(p, f"{group}/partition_memory_per_{unit}"))
        for name, group, unit in (
            ("DefMemPerCPU", "defaults", "cpu"), ("DefMemPerNode", "defaults", "node"),
            ("MaxMemPerCPU", "maximums", "cpu"), ("MaxMemPerNode", "maximums", "node"),
        )
    }  # fmt: skip
    return {
        "PartitionName": p["name"],
        "MaxTime": _span(value_at(p, "maximums/time")) or "UNLIMITED",
        "DefaultTime": _span(value_at(p, "defaults/time")) or "NONE",
        **_filled(p, PARTITION),
        **{name: value if value not in ("", "0") else "UNLIMITED" for name, value in memory.items()},
        "OverSubscribe": share,
        "State": state.upper() or "UP",
    }


def _reservation(r: Mapping[str, Any]) -> dict[str, str]:
    """Return a reservation's record."""
    return {
        "ReservationName": r["name"],
        "StartTime": _instant(r.get("start_time")),
        "EndTime": _instant(r.get("end_time")),
        "Flags": _words(r.get("flags")),
        **_filled(r, RESERVATION),
    }


def _qos(q: Mapping[str, Any]) -> dict[str, str]:
    """Return a row for a QOS."""
    return {
        "Name": q["name"],
        "Priority": number(q.get("priority")),
        "Preempt": _words(value_at(q, "preempt/list")),
        "Flags": _words(["DenyOnLimit" if flag == "DENY_LIMIT" else flag for flag in as_list(q.get("flags"))]),
        "UsageFactor": f"{float(number(q.get('usage_factor')) or 1):.6f}",
        "GraceTime": _clock(value_at(q, "limits/grace_time")),
        "PreemptMode": _words(value_at(q, "preempt/mode")).replace("DISABLED", ""),
        "PreemptExemptTime": _clock(value_at(q, "preempt/exempt_time")),
        **{title: number(value_at(q, path)) for title, path in QOS_LIMITS.items()},
        **{title: tres(value_at(q, path)) for title, path in QOS_TRES.items()},
        "MaxWall": _span(value_at(q, "limits/max/wall_clock/per/job")),
        "GrpWall": _span(value_at(q, "limits/max/wall_clock/per/qos")),
    }


def _assoc(a: Mapping[str, Any]) -> dict[str, str]:
    """Return a row for an association."""
    return {
        "Account": a["account"],
        "User": a.get("user") or "",
        "ParentName": a.get("parent_account") or "",
        "Share": str(a.get("shares_raw", 1)),
        **{title: number(value_at(a, path)) for title, path in ASSOC_LIMITS.items()},
        **{title: tres(value_at(a, path)) for title, path in ASSOC_TRES.items()},
        "MaxWall": _span(value_at(a, "max/jobs/per/wall_clock")),
        "GrpWall": _span(value_at(a, "max/per/account/wall_clock")),
    }


UNTOLD = "Default, LLN, PreemptMode of partitions (not in --json)"
"""Properties of a partition that the JSON lacks and that `scontrol show partition -o` prints."""
RECORDS: Mapping[str, tuple[str, Any]] = {
    "node": ("nodes", _node),
    "partition": ("partitions", _partition),
    "reservation": ("reservations", _reservation),
    "qos": ("qos", _qos),
    "assoc": ("associations", _assoc),
}


def _span(minutes: Any) -> str:
    """Return minutes in Slurm's form HH:MM:SS."""
    text = number(minutes)
    return f"{int(float(text)) // 60:02d}:{int(float(text)) % 60:02d}:00" if text else ""


def _clock(seconds: Any) -> str:
    """Return seconds in Slurm's form HH:MM:SS; empty for 0 and for no value."""
    text = number(seconds)
    whole = int(float(text)) if text else 0
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}" if whole else ""


def _instant(value: Any) -> str:
    """Return a time in ISO 8601, in UTC."""
    text = number(value)
    return datetime.fromtimestamp(float(text), UTC).strftime("%Y-%m-%dT%H:%M:%S") if text else ""


def _words(value: Any) -> str:
    return ",".join(as_list(value))
