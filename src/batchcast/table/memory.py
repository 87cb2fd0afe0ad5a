# SPDX-License-Identifier: Apache-2.0
"""Memory asked and used, made comparable: per node where a log knows nodes, else per processor. Pure.

A log's memory columns are of the whole job or, in SWF, of one processor (`LogInfo.memory_per`). Here they become one
unit, and here is decided whether `used_mem_kib` is a measurement at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..columns import COPIED, FEWEST, OUT_OF_MEMORY, SAME, is_copied
from .trace import Trace

MOSTLY = 0.9


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What jobs asked and used, KiB per `per` (`node`, `processor` or `job`), each (n,), NaN unknown.

    `used` is all NaN where the log's column is a copy of the request (`copied`: the share of jobs in which they are
    equal, NaN where fewer than 20 know both). `ended` (n,) marks jobs that ran out of memory: they needed more than
    `asked`, and `used` says no more than what they held. `zeros` counts jobs whose use is 0: nobody measured them.
    """

    per: str
    asked: np.ndarray
    used: np.ndarray
    ended: np.ndarray
    copied: float
    zeros: int

    @property
    def is_measured(self) -> bool:
        """Whether `used` is a measurement, as far as the log itself can tell."""
        return not self.copied >= COPIED

    @property
    def known(self) -> int:
        """How many jobs have a peak that was measured and not cut off."""
        return int((~np.isnan(self.used) & ~self.ended).sum())


def memory_use(trace: Trace) -> MemoryUse:
    """Memory asked and used in one unit: per node where nine in ten jobs that know an amount know their nodes, else
    per processor by the same rule, else of the whole job.

    What was asked is divided by the nodes (processors) asked for, what was used by those held, each by the other where
    the log has only that. A column of use that equals the request in nine of ten jobs (HPC2N) is no measurement. O(n).

    >>> log = Trace.from_arrays({"submit_time": [0, 1], "req_nodes": [2, 1], "req_mem_kib": [4096.0, 1024.0],
    ...     "used_mem_kib": [1000.0, 0.0], "status": ["completed", "completed"]})
    >>> use = memory_use(log)
    >>> use.per, use.asked.tolist(), use.used.tolist(), use.zeros
    ('node', [2048.0, 1024.0], [500.0, nan], 1)
    """
    per = _unit(trace)
    asked, used = _shared(trace, "req_mem_kib", per, "req"), _shared(trace, "used_mem_kib", per, "alloc")
    zeros = int((used == 0).sum())
    asked, used = np.where(asked > 0, asked, np.nan), np.where(used > 0, used, np.nan)
    both = ~np.isnan(asked) & ~np.isnan(used)
    same = np.isclose(asked[both], used[both], rtol=SAME, atol=0.0)
    copied = float(same.mean()) if len(same) >= FEWEST else float("nan")
    if is_copied(same.sum(), len(same)):
        used = np.full(len(trace), np.nan)
    status = trace.nominal("status")
    ended = np.array([*(word == OUT_OF_MEMORY for word in status.categories), False], bool)[status.codes]
    return MemoryUse(per, asked, used, ended, copied, zeros)


def share_of(trace: Trace, name: str) -> np.ndarray:
    """A memory column per node, per processor or of the job as `memory_use` would have it, KiB (n,)."""
    return _shared(trace, name, _unit(trace), "req" if name == "req_mem_kib" else "alloc")


def per_processor(trace: Trace, name: str) -> np.ndarray:
    """A memory column as SWF has it, KiB (n,): per processor; NaN where a job's processors are unknown."""
    return _shared(trace, name, "processor", "req" if name == "req_mem_kib" else "alloc")


def units_of(trace: Trace, per: str, rule: str = "req") -> np.ndarray:
    """How many nodes or processors a job asked for (`req`) or held (`alloc`), the other where unknown; 1 for `job`."""
    if per == "job":
        return np.ones(len(trace))
    if per == "processor":
        return trace.procs(rule)
    first, second = ("req_nodes", "alloc_nodes") if rule == "req" else ("alloc_nodes", "req_nodes")
    nodes, others = trace.number(first), trace.number(second)
    return np.where(nodes > 0, nodes, np.where(others > 0, others, np.nan))


def _unit(trace: Trace) -> str:
    amounts = ~np.isnan(trace.number("req_mem_kib")) | ~np.isnan(trace.number("used_mem_kib"))
    if not amounts.any():
        return "job"
    for per in ("node", "processor"):
        if np.mean(~np.isnan(units_of(trace, per))[amounts]) >= MOSTLY:
            return per
    return trace.info.memory_per


def _shared(trace: Trace, name: str, per: str, rule: str) -> np.ndarray:
    values = trace.number(name)
    if per == trace.info.memory_per:
        return values
    with np.errstate(over="ignore"):  # beyond all numbers is beyond a pebibyte
        whole = values * trace.procs(rule) if trace.info.memory_per == "processor" else values
        return np.asarray(whole / units_of(trace, per, rule))
