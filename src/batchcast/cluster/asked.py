"""What a log or a queue knows of a job, as a request to a machine with nodes; the rest is assumed. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from .machine import Machine
from .request import NodeRequest

UNKNOWN, ELSEWHERE, TOO_LARGE = (
    "no run time or size",
    "a partition that the machine does not have",
    "larger than its partition",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What requests to a machine are checked against: processors by partition, the default one, if it has GPUs.

    >>> from .machine import homogeneous
    >>> asked = Asked.of(homogeneous(2, 16))
    >>> asked.request("a", 0.0, 60.0, 120.0, procs=48.0)
    'larger than its partition'
    >>> asked.request("a", 0.0, 60.0, 120.0, procs=20.0).cpus
    20
    """

    sizes: Mapping[str, int]
    default: str
    has_gpus: bool

    @classmethod
    def of(cls, machine: Machine) -> Asked:
        """Of a machine; its first partition stands for a default one."""
        cpus = {name: group.cpus for group in machine.nodes for name in group.names}
        sizes = {p.name: sum(cpus.get(name, 0) for name in p.nodes) for p in machine.partitions}
        default = machine.partition("") or machine.partitions[0]
        return cls(sizes, default.name, any(k.split(":")[0] == "gpu" for group in machine.nodes for k in group.gres))

    def request(
        self,
        key: str,
        submit: float,
        run: float,
        limit: float,
        *,
        procs: float,
        nodes: float = math.nan,
        kib_per_proc: float = math.nan,
        gpus: float = math.nan,
        user: str = "",
        account: str = "",
        partition: str = "",
        qos: str = "",
        name: str = "",
    ) -> NodeRequest | str:
        """The request, or why there is none: `procs` tasks of one processor on `nodes` nodes, or on any where unknown.

        Numbers are NaN where unknown; memory is shared evenly; a job ends at its limit at the latest. `partition` may
        be a list with commas; none is the default one.
        """
        if not (run >= 0 and procs >= 1):
            return UNKNOWN
        parts = tuple(word for word in (partition or self.default).split(",") if word in self.sizes)
        if not parts:
            return ELSEWHERE
        if procs > max(self.sizes[part] for part in parts):
            return TOO_LARGE
        count = int(nodes) if nodes >= 1 else 0
        wanted = math.ceil(gpus / max(count, 1)) if gpus > 0 and self.has_gpus else 0
        return NodeRequest(
            key, submit, min(run, limit) if limit > 0 else run, limit if limit > 0 else math.nan, user, account, parts,
            qos, name, max(count, 1), count, int(procs),
            mem_per_cpu=kib_per_proc / 1024 if kib_per_proc > 0 else math.nan,
            gres={"gpu": wanted} if wanted else {},
        )  # fmt: skip
