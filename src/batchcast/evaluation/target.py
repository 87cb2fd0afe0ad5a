# SPDX-License-Identifier: Apache-2.0
"""The predicted quantity with its unit: run time, or peak memory by the same methods and tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import NoAnswer
from ..predict.peak_memory import MIB, PeakMemory
from ..table import Trace
from ..table.memory import MemoryUse, memory_use


def in_mebibytes(row: Mapping[str, Any], per: str) -> dict[str, Any]:
    """Return a row of `metrics.accuracy` with memory's names: `mae_s` is `mae_mib`, and so on.

    >>> in_mebibytes({"predictor": "kernel", "mae_s": 3.0, "apa": 0.9}, "node")
    {'predictor': 'kernel', 'per': 'node', 'mae_mib': 3.0, 'apa': 0.9}
    """
    first, *rest = ((key.removesuffix("_s") + "_mib" if key.endswith("_s") else key, row[key]) for key in row)
    return dict([first, ("per", per), *rest])


RUN_TIME, MEMORY = "run_time", "memory"
TARGETS = (RUN_TIME, MEMORY)


@dataclass(frozen=True, slots=True)
class Target:
    """The predicted quantity: `view.run_time` is the actual value (n,), `view.req_time` the request.

    Values are seconds, or MiB of memory per `per`; the actual value is NaN for jobs that are not scored. `within` (n,)
    is the value that a bound must reach. `wrap` turns a run-time method into one that receives the log's events and
    learns the target.
    """

    name: str
    view: Trace
    within: np.ndarray
    wrap: Callable[[Any], Any]
    per: str = ""


def run_time_target(trace: Trace) -> Target:
    """Return the run times unchanged; a bound equal to the limit counts as held, because a batch system needs seconds
    to kill a job."""
    within = np.where(trace.req_time > 0, np.minimum(trace.run_time, trace.req_time), trace.run_time)
    return Target(RUN_TIME, trace, within, lambda method: method)


def memory_target(trace: Trace) -> Target:
    """Return peak memory, MiB per node or processor as `table.memory` decides.

    Jobs that ran out of memory teach that they needed more, and are not scored, because the amount is unknown. Raises
    NoAnswer if no job has a measured peak.

    >>> log = Trace.from_arrays({"submit_time": [0, 5], "run_time": [1, 1], "req_procs": [2, 2],
    ...     "used_mem_kib": [4096.0, 2048.0], "status": ["completed", "out_of_memory"]})
    >>> memory_target(log).view.run_time.tolist()
    [2.0, nan]
    """
    use = measured(trace)
    truth = np.where(use.ended | np.isnan(trace.run_time), np.nan, use.used) / MIB
    truth = np.maximum(truth, 1.0)  # NaN remains NaN
    view = trace.with_columns({"run_time": truth, "req_time": use.asked / MIB})
    return Target(MEMORY, view, truth, lambda method: of_memory(method, use), use.per)


def measured(trace: Trace) -> MemoryUse:
    """Return the memory that jobs requested and used; NoAnswer without a measured peak."""
    from ..formats.slurm.sacct_layout import COMMAND

    use = memory_use(trace)
    if use.known:
        return use
    if not use.is_measured:
        why = f"the used memory equals the request in {use.copied:.1%} of the jobs with both: "
        why += "it is a copy and not a measurement"
    elif use.zeros:
        why = f"no job has a measured peak of memory ({use.zeros} have a use of 0)"
    else:
        why = "the log has no used memory"
    raise NoAnswer(why, hint=f"the rows of job steps contain the used memory: {COMMAND}, without -X")


def of_memory(method: Any, use: MemoryUse, most: float = math.inf) -> PeakMemory:
    """Return a run-time method as a predictor of peak memory, which it reads from each job's End."""
    asked, used = use.asked.tolist(), use.used.tolist()
    return PeakMemory(method, lambda job: asked[job.row], lambda end: used[end.job.row], most)


def target_of(trace: Trace, name: str) -> Target:
    """Return the target by its name, one of `TARGETS`."""
    return memory_target(trace) if name == MEMORY else run_time_target(trace)
