"""What a batch system shows of its jobs at one instant, whichever system it is: the seam of the live clocks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

OPEN_STATES = frozenset(
    {"PENDING", "RUNNING", "SUSPENDED", "STOPPED", "CONFIGURING", "POWER_UP_NODE", "SIGNALING", "STAGE_OUT", "RESIZING"}
)
FINISHED_STATES = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
)
"""Every other state (COMPLETING, REQUEUED, SPECIAL_EXIT, and words of versions to come) is on its way from one to
another: Slurm 22.05 shows a requeued job with times of neither run meanwhile, so such a sighting is not believed."""


Field = float | str | None
"""What a column of one job holds: a number (NaN unknown), or a name (None unknown)."""
NOTHING: Mapping[str, Field] = {}
NOT_GATHERED: Mapping[str, str] = {}


class Sighting(NamedTuple):
    """One job as a batch system showed it. Seconds since the epoch, NaN unknown; limits in seconds, infinity unlimited.

    `start_time` is of a job that runs or ran, `expected_start` the system's own forecast of a waiting one. `state` is
    Slurm's long name, `certain` false while the job passes from one state to another. `never_ran`: it left the queue
    without having had a node. Of an array task waiting together with others `raw_id` is the array's. `nodes_asked` is
    a host list of the nodes that the request names. `asked` and `held` are the columns declared in `columns.ASKED` and
    `columns.HELD`, by name; `held` has those of `columns.MEASURED` too where the job is over and they were measured.
    `unmeasured` says why its memory was not, in a word: zero, bad.
    """

    job_id: str
    raw_id: str
    submit_time: float
    state: str
    certain: bool = True
    start_time: float = math.nan
    end_time: float = math.nan
    never_ran: bool = False
    expected_start: float = math.nan
    eligible_time: float = math.nan
    reason: str = ""
    priority: float = math.nan
    dependency: str = ""
    reservation: str = ""
    licenses: str = ""
    nodes_asked: str = ""
    asked: Mapping[str, Field] = NOTHING
    held: Mapping[str, Field] = NOTHING
    unmeasured: str = ""

    @property
    def is_open(self) -> bool:
        """Waiting or running."""
        return self.state in OPEN_STATES


class Snapshot(NamedTuple):
    """Everything shown at once: the jobs, when it was asked for, and how many pieces could not be read."""

    asked_at: float
    jobs: tuple[Sighting, ...]
    broken: int = 0


class Site(NamedTuple):
    """What holds for the whole machine: `keeps_s` is how long a finished job stays visible in a snapshot.

    `partitions` by name: default_time_s, max_time_s, procs, node_mem_kib (its largest node's memory); `private` when
    users may not see each other's jobs; `gathers` how accounting measures jobs: plugin, frequency, parameters, by name;
    `clock_ahead_s` how far this machine's clock is surely ahead of the batch system's (below 0: behind).
    """

    cluster: str
    version: str
    keeps_s: float
    private: bool
    total_procs: float
    accounting: bool
    partitions: Mapping[str, Mapping[str, float]]
    clock_ahead_s: float = 0.0
    gathers: Mapping[str, str] = NOT_GATHERED


def measures_memory(site: Site) -> bool:
    """Whether it is said how much memory jobs used.

    >>> site = Site("c", "24.11", 300.0, False, 8.0, True, {}, gathers={"Type": "jobacct_gather/linux"})
    >>> measures_memory(site), measures_memory(site._replace(gathers={"Type": "jobacct_gather/none"}))
    (True, False)
    """
    return gathers_memory(site.gathers)


def gathers_memory(gathers: Mapping[str, str]) -> bool:
    """The same of how accounting measures: all plugins do but `none`, which is also what (null) means."""
    return gathers.get("Type", "").rpartition("/")[2] not in ("", "none", "(null)")
