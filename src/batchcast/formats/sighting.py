# SPDX-License-Identifier: Apache-2.0
"""The jobs that a batch system shows at one instant, in the same form for every batch system.

The code that follows a live batch system uses these types. The module also reads the columns declared in `columns` from
printed fields.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from ..columns import Column
from ..units import parse_duration, parse_memory
from .slurm.resources import gpu_type, parse_tres, tres_gpus

OPEN_STATES = frozenset(
    {"PENDING", "RUNNING", "SUSPENDED", "STOPPED", "CONFIGURING", "POWER_UP_NODE", "SIGNALING", "STAGE_OUT", "RESIZING"}
)
FINISHED_STATES = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
)
"""All other states (COMPLETING, REQUEUED, SPECIAL_EXIT, and states of future versions) are transitions. During a
transition, Slurm 22.05 shows a requeued job with times that belong to neither run, so the times are not used."""


Field = float | str | None
"""The value of one column of a job: a number (NaN means unknown) or a name (None means unknown)."""
NOTHING: Mapping[str, Any] = {}


class Sighting(NamedTuple):
    """One job as a batch system showed it. Times are epoch seconds; NaN means unknown."""

    # Ids of the job: in batchcast's form, and as the batch system prints the id. For an array task that still waits
    # together with others, `raw_id` is the id of the array.
    job_id: str
    raw_id: str
    submit_time: float  # Times of the job. Only jobs that run or ran have a start time.
    state: str  # Slurm's long name of the job's state
    certain: bool = True  # False while the job changes from one state to another
    start_time: float = math.nan
    end_time: float = math.nan
    expected_start: float = math.nan  # The batch system's own forecast of the start of a waiting job
    eligible_time: float = math.nan
    reason: str = ""  # These texts are as the batch system prints them
    priority: float = math.nan
    dependency: str = ""
    reservation: str = ""
    licenses: str = ""
    nodes_asked: str = ""  # Host list of the nodes that the request names
    # Values of requested resources (`columns.REQUESTED`) and of allocated resources (`columns.ALLOCATED`), by column
    # name. For a job that has ended, `allocated` also has the columns of `columns.MEASURED` if they were measured.
    # Limits are in seconds, infinity means unlimited.
    requested: Mapping[str, Field] = NOTHING
    allocated: Mapping[str, Field] = NOTHING
    # The reason why the used memory is unknown: `zero` (no sample was taken), `bad` (not a plausible amount), or empty.
    unmeasured: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the job waits or runs."""
        return self.state in OPEN_STATES


class NodeAway(NamedTuple):
    """A node of a partition that is down or drained, and its processors."""

    node: str
    partition: str
    procs: float


class Snapshot(NamedTuple):
    """All jobs that a batch system showed at once."""

    asked_at: float  # Time of the query, in epoch seconds
    jobs: tuple[Sighting, ...]  # The jobs
    broken: int = 0  # Number of records that could not be read
    away: tuple[NodeAway, ...] | None = None  # The nodes that are down or drained; None if the nodes were not queried


class Site(NamedTuple):
    """Properties of the whole machine."""

    cluster: str  # Name of the cluster and version of the batch system
    version: str
    keeps_s: float  # How long a finished job stays visible in the output of the batch system, in seconds
    private: bool  # Whether users cannot see each other's jobs
    total_procs: float  # Processors of the machine
    accounting: bool  # Whether the batch system has accounting records
    # For each partition: default_time_s, max_time_s, procs, node_procs and node_mem_kib (of its largest node).
    partitions: Mapping[str, Mapping[str, float]]
    # Lower bound of how far this machine's clock is ahead of the batch system's clock, in seconds; negative if this
    # machine's clock is behind.
    clock_ahead_s: float = 0.0
    gathers: Mapping[str, str] = NOTHING  # How accounting measures jobs: plugin, frequency and parameters, by name


def gathers_memory(gathers: Mapping[str, str]) -> bool:
    """Whether accounting settings (`Site.gathers`) measure the memory of jobs. All plugins measure memory except
    `none`, which Slurm also prints as (null).

    >>> gathers_memory({"Type": "jobacct_gather/linux"}), gathers_memory({"Type": "jobacct_gather/none"})
    (True, False)
    """
    return gathers.get("Type", "").rpartition("/")[2] not in ("", "none", "(null)")


def read_fields(
    columns: Iterable[Column],
    record: Mapping[str, str],
    source: Literal["squeue", "sacct", "pbs"],
    own: Mapping[str, Field] | None = None,
) -> dict[str, Field]:
    """Return the value of each of `columns`, by name, from the fields of one job that the program `source` printed;
    values in `own` take precedence.

    >>> from batchcast.columns import COLUMNS
    >>> read_fields([COLUMNS["req_time"], COLUMNS["account"]], {"TimeLimit": "10:00", "Account": ""}, "squeue")
    {'req_time': 600.0, 'account': None}
    """
    values = own or {}
    return {
        c.name: values[c.name] if c.name in values else _read(c, record.get(getattr(c, source) or "", ""))
        for c in columns
    }


def _read(column: Column, text: str) -> Field:
    """Return the value of one column, parsed from the printed field."""
    if column.kind != "number":
        return (gpu_type(text) if column.name == "gpu_type" else text) or None
    return _READ.get(column.unit, number)(text)


def number(text: str) -> float:
    """Parse a count; NaN for other texts. The command squeue shortens large counts with K (thousands) and M (millions);
    of a range, the first number counts.

    >>> number("16"), number("2K"), number("1-4")
    (16.0, 2000.0, 1.0)
    """
    word = text.strip().partition("-")[0]  # NumNodes of a waiting job can be a range, whose first number is the minimum
    scale = {"K": 1e3, "M": 1e6}.get(word[-1:].upper(), 1.0)
    digits = word[:-1] if scale != 1 else word
    return float(digits) * scale if digits.replace(".", "", 1).isdigit() and digits.isascii() else math.nan


def _memory(text: str) -> float:
    return parse_memory(parse_tres(text).get("mem", "") if "=" in text else text)


def _gpus(text: str) -> float:
    return tres_gpus(text) if "=" in text else number(text)


_READ: dict[str, Callable[[str], float]] = {"s": parse_duration, "KiB": _memory, "GPUs": _gpus}


def never_ran(start: Any, held_nothing: Any) -> Any:
    """Whether a job that has left the system never ran: the job has no start, or is known to have had no resources.

    Slurm records a start for a job that is cancelled in the queue: the time at which the job left the queue.

    >>> never_ran(100.0, True), never_ran(100.0, False), never_ran(float("nan"), False)
    (True, False, True)
    """
    return (start != start) | held_nothing
