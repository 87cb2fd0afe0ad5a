"""A log's jobs placed on a machine by the memory that is advised at their submission."""

from __future__ import annotations

import math

import numpy as np

from ..cluster.machine import Machine
from ..simulation.memory_plan import MemoryPlan, plan_of
from ..table import Trace
from ..table.memory import units_of
from .memory_limits import find_memory_limits

STEP = 64.0  # MiB


def placed_by(trace: Trace, machine: Machine, rule: str, risk: float, procs: str = "req") -> MemoryPlan:
    """The memory each job is placed by: `advice` at the risk, or `least_waste`, never above the largest node.

    NoAnswer where the log has no measured peak. Costs what `find_memory_limits` costs.
    """
    most = max((group.memory_mib for group in machine.nodes), default=math.inf)
    found = find_memory_limits(trace, risk=risk, floor=STEP, step=STEP, most=most, procs=procs)
    use = found.use
    peak = np.where(np.isnan(use.used), np.nan, found.peak)
    sizes = trace.procs(procs)
    share = units_of(trace, use.per, "req") / np.where(sizes > 0, sizes, np.nan)
    return plan_of(found.limits[rule], peak, use.asked / 1024.0, use.ended, share)


def memory_note(name: str, plan: MemoryPlan, rows: np.ndarray) -> str:
    """What placing by advice did to the jobs that were simulated, in a sentence."""
    unmeasured = plan.unmeasured(rows)
    jobs = len(rows) - unmeasured
    return (
        f"{name}: {jobs:,} jobs placed by the memory advised, {plan.out_of_memory(rows):,} ran out of it and were run"
        " again with their own request (else twice as much): their wait is that of the second attempt;"
        f" {unmeasured:,} of which no peak is known placed as they asked"
    )
