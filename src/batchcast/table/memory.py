# SPDX-License-Identifier: Apache-2.0
"""Requested and used memory in one unit: per node if the log has node counts, else per processor.

The memory columns of a log are amounts per job or, in SWF, per processor (`LogInfo.memory_per`). This module converts
requested and used memory to one unit, and detects logs whose `used_mem_kib` is only a copy of the request.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..columns import COPIED, FEWEST, OUT_OF_MEMORY, SAME, is_copied
from .trace import Trace

MOSTLY = 0.9
"""Share of the jobs with a known amount that must have a node (or processor) count for that unit to be used."""


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Requested and used memory of jobs, in KiB per `per`."""

    per: str  # The unit of comparison: `node`, `processor` or `job`
    # Requested and used memory in KiB, shape (n,). NaN means unknown. `used_kib` is all NaN if the log's column is a
    # copy of the request.
    requested_kib: np.ndarray
    used_kib: np.ndarray
    # Whether each job ran out of memory, shape (n,). A job that ran out of memory needed more than `requested_kib`, and
    # its `used_kib` is a lower bound.
    ended: np.ndarray
    # Share of jobs whose used memory equals the request. NaN if request and use are both known for fewer than 20 jobs.
    copied: float
    zeros: int  # Number of jobs with a recorded use of 0, which means that the use was not measured

    @property
    def is_measured(self) -> bool:
        """Whether `used_kib` is a measurement and not a copy of the request."""
        return not self.copied >= COPIED

    @property
    def measured_jobs(self) -> int:
        """Number of jobs with a measured peak that was not cut off by the memory limit."""
        return int((~np.isnan(self.used_kib) & ~self.ended).sum())


def memory_use(trace: Trace) -> MemoryUse:
    """Convert requested and used memory to one unit.

    >>> log = Trace.from_arrays({"submit_time": [0, 1], "req_nodes": [2, 1], "req_mem_kib": [4096.0, 1024.0],
    ...     "used_mem_kib": [1000.0, 0.0], "status": ["completed", "completed"]})
    >>> use = memory_use(log)
    >>> use.per, use.requested_kib.tolist(), use.used_kib.tolist(), use.zeros
    ('node', [2048.0, 1024.0], [500.0, nan], 1)
    """
    # The unit is the node if at least 90 % of the jobs with a known amount have a node count, else the processor if at
    # least 90 % have a processor count, else the log's own unit. Requested memory is divided by the requested nodes
    # (processors), and used memory by the allocated nodes (processors). If the requested or the allocated count is
    # unknown, the other count is used for both. If used memory equals the request in 90 % of the jobs, as in the log
    # HPC2N, it is treated as unknown. O(n).
    per = _unit(trace)
    asked, used = share_of(trace, "req_mem_kib", per), share_of(trace, "used_mem_kib", per)
    zeros = int((used == 0).sum())
    asked, used = np.where(asked > 0, asked, np.nan), np.where(used > 0, used, np.nan)
    both = ~np.isnan(asked) & ~np.isnan(used)
    same = np.isclose(asked[both], used[both], rtol=SAME, atol=0.0)
    copied = float(same.mean()) if len(same) >= FEWEST else float("nan")
    if is_copied(same.sum(), len(same)):
        used = np.full(len(trace), np.nan)
    ended = trace.nominal("status").is_any([OUT_OF_MEMORY])
    return MemoryUse(per, asked, used, ended, copied, zeros)


def share_of(trace: Trace, name: str, per: str = "") -> np.ndarray:
    """Return a memory column in KiB per node, processor or job (`per`; default: the unit of `memory_use`), NaN if the
    number of nodes or processors is unknown."""
    per = per or _unit(trace)
    rule = "req" if name == "req_mem_kib" else "alloc"
    values = trace.number(name)
    if per == trace.info.memory_per:
        return values
    with np.errstate(over="ignore"):  # an overflow to infinity exceeds any plausible amount and needs no warning
        whole = values * trace.procs(rule) if trace.info.memory_per == "processor" else values
        return np.asarray(whole / units_of(trace, per, rule))


def units_of(trace: Trace, per: str, rule: str = "req") -> np.ndarray:
    """Return each job's nodes or processors by the rule `req` or `alloc`, NaN for unknown; 1 for `job`."""
    if per == "job":
        return np.ones(len(trace))
    return trace.procs(rule) if per == "processor" else trace.count("nodes", rule)


def _unit(trace: Trace) -> str:
    """Return the unit in which the memory of a log's jobs is compared."""
    amounts = ~np.isnan(trace.number("req_mem_kib")) | ~np.isnan(trace.number("used_mem_kib"))
    if not amounts.any():
        return "job"
    for per in ("node", "processor"):
        if np.mean(~np.isnan(units_of(trace, per))[amounts]) >= MOSTLY:
            return per
    return trace.info.memory_per
