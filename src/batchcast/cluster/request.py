"""What a job asks of a machine with nodes, as sbatch's options say it. Pure data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

NEVER = math.inf


@dataclass(frozen=True, slots=True, eq=False)
class NodeRequest:
    """One job or array task: what it asks, when, and how long it runs. Seconds on the log's clock, memory in MiB.

    `limit` NaN is the partition's default; `tasks` 0 is one a node. `mem_per_node` 0 is all of a node's memory, NaN is
    not asked; `gres` is per node by name or name:type. A held job waits until `release`; `cancel` takes it from the
    queue or ends it. `depends` names other jobs by `key` (afterok, afterany, afternotok); `singleton` waits for
    earlier jobs of the same user and name. Tasks with one `array` share `throttle`, how many may run at once.
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
    cancel: float = NEVER
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
        """Processors asked for: tasks times processors a task, at least one a node."""
        per_node = self.min_nodes * max(self.tasks_per_node, 1)
        return max(self.tasks, per_node) * self.cpus_per_task
