# SPDX-License-Identifier: Apache-2.0
"""What a batch system shows of its jobs at one instant, whichever system it is.

The seam of the live clocks, and declared columns read from printed fields. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, overload

from ..columns import Column
from ..units import parse_duration, parse_memory
from .slurm.resources import parse_tres, tres_gpus

if TYPE_CHECKING:
    import numpy as np

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


class NodeAway(NamedTuple):
    """A node of a partition that is down or drained, and its processors."""

    node: str
    partition: str
    procs: float


class Snapshot(NamedTuple):
    """Everything shown at once: the jobs, when it was asked for, how many pieces could not be read.

    `away`: the nodes that are down or drained, where that was asked.
    """

    asked_at: float
    jobs: tuple[Sighting, ...]
    broken: int = 0
    away: tuple[NodeAway, ...] | None = None


class Site(NamedTuple):
    """What holds for the whole machine: `keeps_s` is how long a finished job stays visible in a snapshot.

    `partitions` by name: default_time_s, max_time_s, procs, node_procs and node_mem_kib (most of one of its nodes);
    `private` when users may not see each other's jobs; `gathers` how accounting measures jobs: plugin, frequency,
    parameters, by name; `clock_ahead_s` how far this machine's clock is surely ahead of the batch system's (below 0:
    behind).
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


def read_fields(
    columns: Iterable[Column],
    record: Mapping[str, str],
    source: Literal["squeue", "sacct", "pbs"],
    own: Mapping[str, Field] | None = None,
) -> dict[str, Field]:
    """Every column by name; `own` holds those already read. Raises UsageError for a form that is none.

    >>> from batchcast.columns import COLUMNS
    >>> read_fields([COLUMNS["req_time"], COLUMNS["account"]], {"TimeLimit": "10:00", "Account": ""}, "squeue")
    {'req_time': 600.0, 'account': None}
    """
    given = own or {}
    return {
        c.name: given[c.name] if c.name in given else _read(c, record.get(getattr(c, source) or "", ""))
        for c in columns
    }


def _read(column: Column, text: str) -> Field:
    if column.kind != "number":
        return text or None
    return _READ.get(column.unit, number)(text)


def number(text: str) -> float:
    """A count, with Slurm's K and M thousands (squeue shortens large ones); NaN when it is none.

    >>> number("16"), number("2K"), number("1-4")
    (16.0, 2000.0, 1.0)
    """
    word = text.strip().partition("-")[0]  # NumNodes of a waiting job may be a range: at least the first
    scale = {"K": 1e3, "M": 1e6}.get(word[-1:].upper(), 1.0)
    digits = word[:-1] if scale != 1 else word
    return float(digits) * scale if digits.replace(".", "", 1).isdigit() and digits.isascii() else math.nan


def _memory(text: str) -> float:
    """Memory as an amount, or as the `mem` of a TRES string."""
    return parse_memory(parse_tres(text).get("mem", "") if "=" in text else text)


def _gpus(text: str) -> float:
    return tres_gpus(text) if "=" in text else number(text)


_READ: dict[str, Callable[[str], float]] = {"s": parse_duration, "KiB": _memory, "GPUs": _gpus}


@overload
def never_ran(start: float, held_nothing: bool) -> bool: ...
@overload
def never_ran(start: np.ndarray, held_nothing: np.ndarray) -> np.ndarray: ...
def never_ran(start: float | np.ndarray, held_nothing: bool | np.ndarray) -> bool | np.ndarray:
    """Whether a job that is over never ran: it has no start, or it is known to have held nothing.

    Slurm gives a job that is cancelled in the queue a start, the instant at which it left.

    Parameters
    ----------
    start : float or array (n,)
        On any clock, seconds; NaN where there is none.
    held_nothing : bool or array (n,)
        The record says so: no node, no processor.

    Returns
    -------
    bool or array (n,)

    Examples
    --------
    >>> never_ran(100.0, True), never_ran(100.0, False), never_ran(float("nan"), False)
    (True, False, True)
    """
    return (start != start) | held_nothing
