# SPDX-License-Identifier: Apache-2.0
"""The machine as Slurm describes it: node groups, partitions, QOS, associations, reservations. Pure data.

`vary` returns a changed machine, for what-if simulations.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

from ..errors import InputError, UsageError

TURNS = {"DAILY": 86400.0, "WEEKLY": 7 * 86400.0}


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """A group of equal nodes, in the order of Slurm's node table. Memory is in MiB; `gres` has the number of devices
    per node by name and type (`gpu:a100`).

    `down` nodes exist but could not be used when the description was captured.
    """

    names: tuple[str, ...]
    cpus: int
    sockets: int = 1
    threads: int = 1
    memory_mib: float = math.inf
    gres: Mapping[str, int] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    weight: int = 1
    down: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Partition:
    """A Slurm partition: a set of nodes with rules. Times are in seconds, memory in MiB; NaN if not set.

    `billing_weights` are Slurm's TRESBillingWeights by TRES (trackable resource); the weight of memory is per MiB. If
    PreemptType is partition_prio, partitions of a higher tier can preempt the jobs of a partition whose `preempt` is
    true. `preempt_mode` says how these jobs are preempted (empty: the cluster's mode), `grace_time` seconds after a
    notice.
    """

    name: str
    nodes: tuple[str, ...]
    max_time: float = math.inf
    default_time: float = math.nan
    priority_tier: int = 1
    priority_job_factor: int = 1
    max_nodes: float = math.inf
    default_mem_per_cpu: float = math.nan
    default_mem_per_node: float = math.nan
    exclusive: bool = False
    least_loaded: bool = False
    default: bool = False
    up: bool = True
    qos: str = ""
    preempt: bool = False
    billing_weights: Mapping[str, float] = field(default_factory=dict)
    preempt_mode: str = ""
    grace_time: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource and job limits of a QOS or an association. A limit that is not set is infinite; a mapping has no entry
    for it. TRES (trackable resources) are named as in Slurm, such as `gres/gpu`.

    The limits `grp_*` apply to all running jobs together. `max_*_per_user` and `max_*_per_account` of a QOS apply to
    one user or account. `max_jobs` of an association applies to the association's user. `max_wall` is in seconds,
    `max_tres` limits one job.
    """

    grp_jobs: float = math.inf
    grp_tres: Mapping[str, float] = field(default_factory=dict)
    max_jobs: float = math.inf
    max_jobs_per_user: float = math.inf
    max_jobs_per_account: float = math.inf
    max_tres: Mapping[str, float] = field(default_factory=dict)
    max_tres_per_user: Mapping[str, float] = field(default_factory=dict)
    max_tres_per_account: Mapping[str, float] = field(default_factory=dict)
    max_wall: float = math.inf


@dataclass(frozen=True, slots=True)
class Qos:
    """A quality of service: priority, limits, and, if PreemptType is qos, the QOS that it may preempt.

    `preempt_mode` says how jobs of this QOS are preempted (empty: the cluster's mode), `grace_time` seconds after a
    notice. Jobs of this QOS cannot be preempted before they have run for `preempt_exempt_time` seconds (NaN: the
    cluster's time).
    """

    name: str
    priority: float = 0.0
    preempts: tuple[str, ...] = ()
    limits: Limits = Limits()
    preempt_mode: str = ""
    grace_time: float = 0.0
    preempt_exempt_time: float = math.nan


@dataclass(frozen=True, slots=True)
class Association:
    """An account (without a user) or a user in an account, with shares and limits.

    `parent` is the parent account of an account. The parent of a user is the user's account, unless `parent` names
    another account.
    """

    account: str = ""
    user: str = ""
    parent: str = ""
    shares: float = 1.0
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes reserved from `start` to `end` (seconds on the log's clock) for jobs that name the reservation and belong
    to its users or accounts.

    The users of a maintenance reservation do not submit jobs, so its nodes stay free. With the flag DAILY or WEEKLY,
    the reservation repeats every day or week, as long as a repetition begins before `until`. Jobs with a limit of at
    most `max_time` seconds may use the reservation's nodes. `max_time` and `until` do not exist in Slurm; they describe
    sites that run long jobs only at night.
    """

    name: str
    nodes: tuple[str, ...]
    start: float
    end: float
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    max_time: float = 0.0
    until: float = math.inf

    @property
    def every(self) -> float:
        """Seconds after which the reservation repeats; 0 if it does not repeat."""
        return next((seconds for flag, seconds in TURNS.items() if flag in self.flags), 0.0)


@dataclass(frozen=True, slots=True)
class Machine:
    """A whole machine. `settings` have slurm.conf's names and values (`bf_interval`, `PriorityWeightAge`, ...)."""

    nodes: tuple[NodeGroup, ...]
    partitions: tuple[Partition, ...]
    qos: tuple[Qos, ...] = ()
    associations: tuple[Association, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    name: str = ""
    left_out: tuple[str, ...] = ()
    licenses: Mapping[str, float] = field(default_factory=dict)

    def node_names(self) -> tuple[str, ...]:
        """Return the names of all nodes, in the order of the node table."""
        return tuple(name for group in self.nodes for name in group.names)

    @property
    def cpus(self) -> int:
        """Total number of processors of all nodes."""
        return sum(group.cpus * len(group.names) for group in self.nodes)

    def partition(self, name: str) -> Partition | None:
        """Return the partition of this name; an empty name means the default partition."""
        return next((p for p in self.partitions if p.name == name or (not name and p.default)), None)


LEAST = {"cpus": 1, "sockets": 1, "threads": 1, "weight": 0, "memory_mib": 0}
MOST = 1 << 40


def check_machine(machine: Machine, where: str) -> None:
    """Raise InputError if a machine has an impossible number, a node that occurs twice, or a reservation without times.

    >>> check_machine(homogeneous(2, 0), "machine.toml")
    Traceback (most recent call last):
    batchcast.errors.InputError: machine.toml: nodes n1, ...: cpus is 0 (accepted: a number from 1)
    """
    if twice := [name for name, count in Counter(machine.node_names()).items() if count > 1]:
        raise InputError(f"{where}: node {twice[0]} is defined twice (accepted: each name once)")
    for group in machine.nodes:
        if not all(group.names) or not group.names:
            raise InputError(f"{where}: nodes without a name", hint='names = "n[1-4]"')
        shown = group.names[0] + (", ..." if len(group.names) > 1 else "")
        numbers = {name: getattr(group, name) for name in LEAST} | dict(group.gres)
        for name, number in numbers.items():
            least = LEAST.get(name, 0)
            if not (least <= number <= MOST or (name == "memory_mib" and number == math.inf)):
                raise InputError(f"{where}: nodes {shown}: {name} is {number} (accepted: a number from {least})")
    for partition in machine.partitions:
        for name, number in (("tier", partition.priority_tier), ("job factor", partition.priority_job_factor)):
            if not 0 <= number <= MOST:
                raise InputError(f"{where}: partition {partition.name}: {name} is {number} (accepted: from 0)")
    for reservation in machine.reservations:
        if not (math.isfinite(reservation.start) and math.isfinite(reservation.end)):
            raise InputError(f"{where}: reservation {reservation.name}: start and end are not seconds (accepted: 3600)")


def homogeneous(nodes: int, cpus: int, memory_mib: float = math.inf, **settings: str) -> Machine:
    """Return a machine of `nodes` equal nodes in one partition.

    >>> homogeneous(2, 16).cpus
    32
    """
    names = tuple(f"n{k + 1}" for k in range(nodes))
    group = NodeGroup(names, cpus, memory_mib=memory_mib)
    return Machine((group,), (Partition("all", names, default=True),), settings=settings)


POLICIES = {
    "fifo": {"SchedulerType": "sched/builtin", "PriorityType": "priority/basic"},
    "backfill": {"SchedulerType": "sched/backfill", "PriorityType": "priority/basic"},
    "multifactor": {"SchedulerType": "sched/backfill", "PriorityType": "priority/multifactor"},
}
"""Settings of slurm.conf for each value of `policy=`."""
JOB_KEYS = ("limits", "memory", "order", "within", "age")
"""Keys of changes that concern jobs, not the machine."""
SETTINGS_READ = (
    "nodes", "add", "policy", *JOB_KEYS,
    "SchedulerType", "PriorityType", "SelectTypeParameters", "AccountingStorageEnforce",
    "bf_interval", "bf_resolution", "bf_window", "bf_max_job_test", "bf_max_job_user", "bf_max_job_part",
    "bf_max_job_array_resv", "bf_min_age_reserve", "bf_min_prio_reserve", "sched_interval", "batch_sched_delay",
    "default_queue_depth",
    "PriorityDecayHalfLife", "PriorityCalcPeriod", "PriorityMaxAge", "PriorityWeightAge", "PriorityWeightFairShare",
    "PriorityWeightJobSize", "PriorityWeightPartition", "PriorityWeightQOS", "PriorityWeightTRES",
)  # fmt: skip

NUMBERS = ("bf_", "sched_", "batch_", "default_", "PriorityWeight")
"""Prefixes of settings that are numbers, except `PriorityWeightTRES`."""


def parse_changes(text: str) -> dict[str, str]:
    """Parse the KEY=VALUE pairs of one changed machine, separated by commas.

    >>> parse_changes("nodes=+10%,bf_interval=60")
    {'nodes': '+10%', 'bf_interval': '60'}
    """
    pairs = [item.partition("=") for item in text.split(",") if item]
    if not pairs or not all(key and equals for key, equals, _ in pairs):
        raise UsageError(f"not KEY=VALUE: {text!r}", hint="nodes=+10%, policy=fifo, limits=forecast, bf_interval=60")
    changes: dict[str, str] = {}
    for key, _, value in pairs:  # several kinds of nodes can be added at once
        changes[key] = f"{changes[key]};{value}" if key == "add" and key in changes else value
    return changes


def vary(machine: Machine, changes: Mapping[str, str]) -> Machine:
    """Return a machine with the given changes: the keys are `nodes=`, `add=`, `policy=`, or settings of slurm.conf.

    `nodes=+10%` enlarges every node group; `nodes=-3` removes 3 nodes of the largest group.

    `add=8xg1` adds 8 nodes equal to the node g1 to the partitions of g1. `add=8x64cpu+512G+4gpu:h100@gpu` adds 8 nodes
    of a new kind to the partition `gpu`; several kinds are separated by semicolons.

    Keys in `JOB_KEYS` change jobs, not the machine, and are ignored. Every other key is a setting of slurm.conf. Raises
    UsageError for an invalid value, or for a setting that the simulation of Slurm does not use.

    >>> from batchcast.machines.machine import homogeneous
    >>> vary(homogeneous(10, 4), {"nodes": "+20%"}).cpus
    48
    """
    for key, value in changes.items():
        if key == "nodes":
            machine = _resized(machine, value)
        elif key == "add":
            machine = reduce(_added, value.split(";"), machine)
        elif key not in JOB_KEYS:
            machine = replace(machine, settings={**machine.settings, **_settings_of(key, value)})
    return machine


def _settings_of(key: str, value: str) -> Mapping[str, str]:
    """Return the settings of slurm.conf that a change means; UsageError if the change is not accepted."""
    accepted = POLICIES if key == "policy" else SETTINGS_READ
    if (value if key == "policy" else key) not in accepted:
        what = "not a known policy" if key == "policy" else "the model does not use this setting"
        raise UsageError(f"{key}={value}: {what} (accepted: {', '.join(accepted)})")
    is_number = re.fullmatch(r"-?\d+(\.\d+)?", value) is not None
    if key.startswith(NUMBERS) and key != "PriorityWeightTRES" and not is_number:
        raise UsageError(f"{key}={value}: not a number (accepted: {key}=60)")
    return POLICIES[value] if key == "policy" else {key: value}


NEW_KIND = re.compile(r"(\d+)cpu|(\d+(?:\.\d+)?)G|(\d+)(gpu(?::[\w.-]+)?)")
ADD_FORM = "8xNODE for nodes like NODE, or 8x64cpu+512G+4gpu:h100@PARTITION"


def _added(machine: Machine, value: str) -> Machine:
    """Return the machine with new nodes; UsageError if the kind of node or its partition is invalid.

    >>> from batchcast.machines.machine import homogeneous
    >>> more = vary(homogeneous(2, 4), {"add": "3xn1;1x16cpu+64G+2gpu:h100@all"})
    >>> more.cpus, more.nodes[-1].gres, len(more.partitions[0].nodes)
    (36, {'gpu:h100': 2}, 6)
    """
    count, _, kind = value.partition("x")
    if not count.isdigit() or not int(count) or not kind:
        raise UsageError(f"add={value}: not a number of nodes (accepted: {ADD_FORM})")
    names = tuple(f"new{len(machine.nodes)}x{k + 1}" for k in range(int(count)))
    like = next((group for group in machine.nodes if kind in group.names), None)
    if like is not None:
        group = replace(like, names=names, down=())
        wanted = {p.name for p in machine.partitions if kind in p.nodes}
    else:
        kind, _, part = kind.partition("@")
        group, partition = _new_kind(machine, names, kind, value), machine.partition(part)
        if partition is None:
            known = ", ".join(p.name for p in machine.partitions)
            raise UsageError(f"add={value}: no partition {part!r} (accepted: {known})")
        wanted = {partition.name}
    partitions = tuple(replace(p, nodes=(*p.nodes, *names)) if p.name in wanted else p for p in machine.partitions)
    return replace(machine, nodes=(*machine.nodes, group), partitions=partitions)


def _new_kind(machine: Machine, names: tuple[str, ...], kind: str, value: str) -> NodeGroup:
    """Return new nodes, from a description by processors, memory and GPUs."""
    found = [NEW_KIND.fullmatch(piece) for piece in kind.split("+")]
    cpus = sum(int(one[1] or 0) for one in found if one)
    if None in found or not 0 < cpus <= MOST:
        nodes = next(iter(machine.node_names()), "n1")
        raise UsageError(
            f"add={value}: neither a node nor a kind of node (accepted: {ADD_FORM}; a node here is {nodes})"
        )
    memory = sum(float(one[2] or 0) * 1024 for one in found if one)
    gres = {one[4]: int(one[3]) for one in found if one and one[3]}
    return NodeGroup(names, cpus, memory_mib=memory or math.inf, gres=gres)


def _resized(machine: Machine, value: str) -> Machine:
    """Return the machine with more or fewer nodes, for example `+10%` or `-3`; UsageError if no node would be left."""
    if (number := re.fullmatch(r"([+-]\d+(?:\.\d+)?)(%?)", value)) is None:
        raise UsageError(f"nodes={value}: not a change (accepted: +10%, -5%, +4, -4)")
    amount, share = float(number[1]), bool(number[2])
    largest = max(machine.nodes, key=lambda group: len(group.names))
    taken: set[str] = set()
    more: dict[str, tuple[str, ...]] = {}
    groups: list[NodeGroup] = []

    def changed(nodes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(m for n in nodes if n not in taken for m in (n, *more.get(n, ())))

    for k, group in enumerate(machine.nodes):
        change = round(len(group.names) * amount / 100) if share else int(amount) if group is largest else 0
        taken |= set(group.names[change:] if change < 0 else ())
        more[group.names[-1]] = tuple(f"more{k}x{n + 1}" for n in range(change))
        if names := changed(group.names):
            groups.append(replace(group, names=names, down=tuple(n for n in group.down if n in names)))
    if not groups:
        raise UsageError(f"nodes={value}: the machine would have no node")
    partitions = tuple(replace(p, nodes=changed(p.nodes)) for p in machine.partitions)
    if empty := [p.name for p, before in zip(partitions, machine.partitions) if before.nodes and not p.nodes]:
        raise UsageError(f"nodes={value}: partition {empty[0]} would have no node")
    kept = tuple(replace(r, nodes=tuple(n for n in r.nodes if n not in taken)) for r in machine.reservations)
    return replace(machine, nodes=tuple(groups), partitions=partitions, reservations=kept)
