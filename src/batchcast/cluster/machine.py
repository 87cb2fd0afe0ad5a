# SPDX-License-Identifier: Apache-2.0
"""The machine as Slurm describes it: node groups, partitions, QOS, associations, reservations. Pure data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

TURNS = {"DAILY": 86400.0, "WEEKLY": 7 * 86400.0}
NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that are alike, in the order of Slurm's node table. Memory in MiB, `gres` by name and type (`gpu:a100`).

    `down` nodes exist and cannot be used when the description was taken.
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
    """A set of nodes with rules. Times in seconds, memory in MiB; NaN where nothing is set.

    `billing_weights` are TRESBillingWeights by TRES, memory per MiB. Where PreemptType is partition_prio, jobs
    of a partition with `preempt` give way to partitions of a higher tier, by `preempt_mode` (the cluster's where it is
    empty) and after `grace_time`.
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
    """Limits of a QOS or an association: infinity (or no entry) where none is set. TRES by name, e.g. `gres/gpu`.

    `grp_` counts everything that runs under it; `max_*_per_user` and `max_*_per_account` of a QOS count one user's or
    one account's; `max_jobs` of an association is the user's own. `max_wall` in seconds, `max_tres` for one job.
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
    """A quality of service: its priority, its limits, and where PreemptType is qos whom it may preempt.

    Its own jobs give way by `preempt_mode` (the cluster's where it is empty), `grace_time` seconds after they were
    told, and never before they have run for `preempt_exempt_time` (NaN: the cluster's).
    """

    name: str
    priority: float = 0
    preempts: tuple[str, ...] = ()
    limits: Limits = Limits()
    preempt_mode: str = ""
    grace_time: float = 0.0
    preempt_exempt_time: float = math.nan


@dataclass(frozen=True, slots=True)
class Association:
    """An account (no user) or a user in an account, with its shares and limits.

    `parent` is the account above an account; above a user it is its account, unless `parent` names another.
    """

    account: str = ""
    user: str = ""
    parent: str = ""
    shares: float = 1
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes kept from `start` to `end` (seconds on the log's clock) for those who name it and are in users or accounts.

    A maintenance reservation has users that submit nothing: it only keeps the nodes free. One with the flag DAILY or
    WEEKLY comes again, as long as it begins before `until`. Jobs of at most `max_time` seconds are let in: neither is a
    word of Slurm's, but what sites do that run long jobs by night alone.
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
        """Seconds after which it comes again; 0 where it does not."""
        return next((seconds for flag, seconds in TURNS.items() if flag in self.flags), 0.0)


@dataclass(frozen=True, slots=True)
class Machine:
    """A whole machine. `settings` are slurm.conf's own words and values (`bf_interval`, `PriorityWeightAge`, ...)."""

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
        """Every node, in the order of the node table."""
        return tuple(name for group in self.nodes for name in group.names)

    @property
    def cpus(self) -> int:
        """Processors of all nodes."""
        return sum(group.cpus * len(group.names) for group in self.nodes)

    def partition(self, name: str) -> Partition | None:
        """The partition of that name; the default one for an empty name."""
        wanted = (p for p in self.partitions if p.name == name or (not name and p.default))
        return next(wanted, None)


def homogeneous(nodes: int, cpus: int, memory_mib: float = math.inf, **settings: str) -> Machine:
    """`nodes` nodes alike in one partition.

    >>> homogeneous(2, 16).cpus
    32
    """
    names = tuple(f"n{k + 1}" for k in range(nodes))
    group = NodeGroup(names, cpus, memory_mib=memory_mib)
    return Machine((group,), (Partition("all", names, default=True),), settings=settings)
