# SPDX-License-Identifier: Apache-2.0
"""The request of a job on a machine with nodes, from sbatch's options, a log or a queue. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..job import JobRequest, Name
from .machine import Machine


@dataclass(frozen=True, slots=True, eq=False)
class NodeRequest:
    """One job or array task: request, submission and run time. Times are in seconds on the log's clock, memory is in
    MiB.

    A `limit` of NaN means the partition's default limit. `tasks` = 0 means one task per node. `mem_per_node` = 0 means
    all memory of a node, and NaN means that the job requests no memory per node. `gres` has the number of devices
    requested per node, by name or name:type. A held job cannot start before `release`. At the instant `cancel`, the job
    is removed from the queue, or ended if it runs. `depends` has pairs of a type (afterok, afterany, afternotok) and
    the `key` of another job. A `singleton` waits for earlier jobs of the same user and name. At most `throttle` tasks
    of one `array` run at the same time.
    """

    key: str
    submit: float
    run: float
    limit: float = math.nan
    user: str = ""
    account: str = ""
    partitions: tuple[str, ...] = ()
    qos: str = ""
    name: str = ""
    min_nodes: int = 1
    max_nodes: int = 0
    tasks: int = 0
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    mem_per_node: float = math.nan
    mem_per_cpu: float = math.nan
    gres: Mapping[str, int] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    exclusive: bool = False
    nice: int = 0
    begin: float = -math.inf
    release: float = -math.inf
    cancel: float = math.inf
    array: str = ""
    task: int = -1
    throttle: int = 0
    depends: tuple[tuple[str, str], ...] = ()
    singleton: bool = False
    reservation: str = ""
    fails: bool = False
    licenses: Mapping[str, int] = field(default_factory=dict)

    @property
    def cpus(self) -> int:
        """Requested processors: tasks times processors per task, at least one per node."""
        return max(self.tasks, self.min_nodes * max(self.tasks_per_node, 1)) * self.cpus_per_task


ONLY_PARTITION = "all"
"""The only partition of a machine that was described without partitions, such as a SimGrid platform."""

UNKNOWN, ELSEWHERE = "no run time or size", "a partition that the machine does not have"
TOO_LARGE = "larger than its partition"
REASONS = (UNKNOWN, ELSEWHERE, TOO_LARGE)
"""Why a job cannot be requested on a machine."""


DETAILS = {
    "dependency": "dependencies",
    "array_throttle": "array throttles",
    "exclusive": "whole nodes",
    "constraint": "features",
    "gpu_type": "types of GPU",
    "partition_list": "lists of partitions",
    "reservation": "reservations",
    "licenses": "licenses",
    "nice": "nice",
    "cpus_per_task": "processors a task",
}
"""Columns that complete a request, and their names in messages."""
_CHOICE = re.compile(r"[|*\[\]()!]")


class MachineRequests:
    """Writes jobs' requests on a machine: `request` checks sizes, and `complete` adds features, dependencies and more.

    If the machine has no default partition, its first partition is the default.

    >>> from batchcast.machines.machine import homogeneous
    >>> machine = MachineRequests(homogeneous(2, 16))
    >>> job = JobRequest(0, "a", submit_time=0.0, procs=20.0, req_time=120.0, req_mem_kib=math.nan)
    >>> machine.request("a", job, 60.0).cpus, machine.request("a", job._replace(procs=48.0), 60.0)
    (20, 'larger than its partition')
    >>> columns = {"dependency": "afterok:7", "cpus_per_task": 2.0}
    >>> made = machine.complete(NodeRequest("1", 0.0, 60.0, tasks=4), "8", columns, {"7": ["0"]})
    >>> made.depends, made.tasks, made.cpus_per_task
    ((('afterok', '0'),), 2, 2)
    """

    def __init__(self, machine: Machine) -> None:
        cpus = {name: group.cpus for group in machine.nodes for name in group.names}
        gpus = [sum(n for k, n in group.gres.items() if k.split(":")[0] == "gpu") for group in machine.nodes]
        self.sizes = {p.name: sum(cpus.get(name, 0) for name in p.nodes) for p in machine.partitions}
        self.default = (machine.partition("") or machine.partitions[0]).name
        self.most_gpus, self.most_cpus = max(gpus), max(cpus.values())
        self.partition_qos = {p.name: p.qos for p in machine.partitions if p.qos}
        self.qos = frozenset(q.name for q in machine.qos)
        self.features = frozenset(word for group in machine.nodes for word in group.features)
        self.licenses = frozenset(machine.licenses)
        self.gpus = {k.lower(): k for group in machine.nodes for k in group.gres if k.startswith("gpu:")}

    def request(
        self, key: str, job: JobRequest, run: float, *, exact: bool = True, kib_per_proc: float = math.nan
    ) -> NodeRequest | str:
        """Return the job's request on this machine, or the reason why the job cannot fit the machine.

        The job has tasks of one processor each, on the requested number of nodes, or on any number of nodes if the
        request is unknown.

        The number of nodes is only a minimum if `exact` is false, or if the processors do not fit on that many nodes.
        The number of nodes is raised if the job's GPUs need more nodes. A machine without partitions (`ONLY_PARTITION`)
        accepts jobs of any partition. If the machine does not have the job's QOS, the QOS of the job's queue or
        partition applies. Unknown numbers are NaN; memory is in KiB per processor. The job ends after `run` seconds, or
        at its limit if that is earlier. The job's partition may be a list with commas; an empty partition means the
        default partition.
        """
        procs, nodes, gpus, limit = job.procs, job.req_nodes, job.req_gpus, job.req_time
        if not (run >= 0 and procs >= 1):
            return UNKNOWN
        wanted = _text(job.partition_id) or self.default
        parts = tuple(word for word in wanted.split(",") if word in self.sizes)
        if not parts and tuple(self.sizes) == (ONLY_PARTITION,):
            parts = (ONLY_PARTITION,)
        if not parts:
            return ELSEWHERE
        if procs > max(self.sizes[part] for part in parts):
            return TOO_LARGE
        count = int(nodes) if nodes >= 1 else 0
        least = max(count, 1)
        if not exact or procs > count * self.most_cpus:
            count = 0
        # the job's QOS or queue, if the machine has a QOS of this name; else the partition's QOS, else the job's
        named = (word for word in (_text(job.qos), _text(job.queue_id)) if word in self.qos)
        qos = next(named, None) or self.partition_qos.get(parts[0], "") or _text(job.qos)
        has = gpus > 0 and self.most_gpus > 0
        if has and gpus > least * self.most_gpus:
            least, count = math.ceil(gpus / self.most_gpus), 0
        each = math.ceil(gpus / least) if has else 0
        return NodeRequest(
            key, job.submit_time, min(run, limit) if limit > 0 else run, limit if limit > 0 else math.nan,
            _text(job.user_id), _text(job.account), parts, qos,
            _text(job.job_name), least, count, int(procs),
            mem_per_cpu=kib_per_proc / 1024 if kib_per_proc > 0 else math.nan,
            gres={"gpu": each} if each else {},
        )  # fmt: skip

    def complete(
        self, request: NodeRequest, job_id: int | str, columns: Mapping[str, Any], keys: Mapping[str, Sequence[str]]
    ) -> NodeRequest:
        """Return the request completed by the job's `columns` that `DETAILS` names; `keys` has the keys of all jobs by
        job id.

        Features, licenses and partitions that the machine does not have are ignored, and so are dependencies on unknown
        jobs.
        """
        is_task = "_" in str(job_id)
        if not columns and not is_task:
            return request
        typed, text = self.gpus.get(f"gpu:{_text(columns.get('gpu_type'))}"), _text(columns.get("dependency"))
        depends, singleton = depends_of(text, keys, request.key) if text else ((), False)
        given: dict[str, Any] = {
            "features": features_of(_text(columns.get("constraint")), self.features),
            "gres": {typed: request.gres["gpu"]} if typed and "gpu" in request.gres else {},
            "exclusive": _amount(columns, "exclusive") > 0,
            "nice": int(max(0.0, _amount(columns, "nice"))),
            "licenses": licenses_of(_text(columns.get("licenses")), self.licenses),
            "partitions": tuple(p for p in _text(columns.get("partition_list")).split(",") if p in self.sizes),
            "reservation": _text(columns.get("reservation")),
            "depends": depends,
            "singleton": singleton,
        }
        more = {name: value for name, value in given.items() if value}
        if "exclusive" in more and request.mem_per_cpu == request.mem_per_cpu:  # the request per node stays the same
            more |= {"mem_per_cpu": math.nan, "mem_per_node": request.mem_per_cpu * request.cpus / request.min_nodes}
        if (each := _amount(columns, "cpus_per_task")) > 1 and request.tasks % each == 0:
            more |= {"cpus_per_task": int(each), "tasks": request.tasks // int(each)}
        if is_task and (found := re.fullmatch(r"(\d+)_(\d+)", str(job_id))):
            throttle = int(max(0.0, _amount(columns, "array_throttle")))
            more |= {"array": found[1], "task": int(found[2]), "throttle": throttle}
        return replace(request, **more) if more else request


def _text(name: Name) -> str:
    """Return a name as text; empty if it is unknown."""
    return "" if name is None else str(name)


def _amount(values: Mapping[str, Any], column: str) -> float:
    """Return the number in a column, 0 if it is unknown."""
    return float(values.get(column) or 0.0)


def features_of(text: str, of_machine: frozenset[str]) -> tuple[str, ...]:
    """Return the features that every node of a job must have; a choice (`a|b`) and features that the machine does not
    have are ignored.

    >>> features_of("skylake&ib", {"skylake", "ib"}), features_of("a|b", {"a"}), features_of("", {"a"})
    (('skylake', 'ib'), (), ())
    """
    if not text or _CHOICE.search(text):
        return ()
    return tuple(word for word in re.split("[&,]", text) if word in of_machine)


def licenses_of(text: str, of_machine: frozenset[str]) -> Mapping[str, int]:
    """Return the requested licenses with their numbers: `matlab:2,ansys`.

    >>> licenses_of("matlab:2,other", {"matlab"})
    {'matlab': 2}
    """
    pairs = (re.split("[:=]", item.split("@")[0] if ":" not in item else item) for item in text.split(",") if item)
    return {p[0]: int(p[1]) if len(p) > 1 and p[1].isdigit() else 1 for p in pairs if p[0] in of_machine}


def depends_of(text: str, keys: Mapping[str, Sequence[str]], itself: str) -> tuple[tuple[tuple[str, str], ...], bool]:
    """Return type and key of each dependency on a known job, and whether the job is a singleton.

    Text in parentheses that squeue adds to a job id, as in `7(unfulfilled)`, is ignored.

    >>> depends_of("afterok:7:8_1,singleton", {"7": ["0", "1"], "8_1": ["3"]}, "4")
    ((('afterok', '0'), ('afterok', '1'), ('afterok', '3')), True)
    >>> depends_of("afterany:9_*(unfulfilled)", {"9": ["2", "3"]}, "3")
    ((('afterany', '2'),), False)
    """
    pairs = []
    for item in re.split("[,?]", re.sub(r"\(\w*\)", "", text)):
        kind, *jobs = item.split(":")
        for job in jobs:
            pairs += [(kind, key) for key in keys.get(job.partition("+")[0].removesuffix("_*"), ()) if key != itself]
    return tuple(pairs), "singleton" in text


def keys_by_id(ids: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return lists of keys by job id, from a job id for each key; array tasks are also listed under the array's id.

    >>> keys_by_id({"0": 7, "1": "8_1", "2": "8_2"})
    {'7': ['0'], '8_1': ['1'], '8': ['1', '2'], '8_2': ['2']}
    """
    keys: dict[str, list[str]] = {}
    for key, job in ids.items():
        for name in dict.fromkeys((str(job), str(job).partition("_")[0])):
            keys.setdefault(name, []).append(key)
    return keys
