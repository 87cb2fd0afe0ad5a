"""May the simulated gains be trusted: recorded against simulated waits, and what the model does not cover."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..simulate import Schedule
from ..table import Trace

FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class Validity:
    """Recorded and simulated waits of the same jobs (seconds), under EASY planned with the users' requests.

    `jobs` is how many jobs have both; `uncovered` counts jobs by what the model leaves out (of `all_jobs` scored ones;
    `uncovered_jobs` have at least one). `ratio` is recorded / simulated mean wait (1 when both are below a second, NaN
    when no job has a recorded wait).
    """

    jobs: int
    recorded_mean_wait_s: float
    simulated_mean_wait_s: float
    recorded_median_wait_s: float
    simulated_median_wait_s: float
    uncovered: Mapping[str, int]
    uncovered_jobs: int
    all_jobs: int

    @property
    def ratio(self) -> float:
        """recorded / simulated mean wait."""
        recorded, simulated = self.recorded_mean_wait_s, self.simulated_mean_wait_s
        if recorded < 1 and simulated < 1:
            return 1.0
        return recorded / simulated if simulated else float("inf")

    @property
    def trusted(self) -> bool:
        """Whether the mean waits are within a factor of two of each other, either way."""
        return 1 / FACTOR <= self.ratio <= FACTOR

    def row(self) -> dict[str, Any]:
        """One flat object for JSON."""
        return {
            "policy": "easy",
            "predictor": "requested",
            "part": "validity",
            "jobs": self.jobs,
            "recorded_mean_wait_s": self.recorded_mean_wait_s,
            "simulated_mean_wait_s": self.simulated_mean_wait_s,
            "recorded_median_wait_s": self.recorded_median_wait_s,
            "simulated_median_wait_s": self.simulated_median_wait_s,
            "recorded_over_simulated": self.ratio,
            "uncovered_share": self.uncovered_jobs / self.all_jobs if self.all_jobs else float("nan"),
            "trusted": self.trusted,
        }


def validity(trace: Trace, schedule: Schedule, mask: np.ndarray | None = None) -> Validity:
    """Compare a schedule (EASY, requests, default event order) with what the log recorded, on scored jobs."""
    inside = np.ones(len(trace), bool) if mask is None else np.asarray(mask, bool)
    recorded = trace.wait_time[schedule.rows]
    both = inside[schedule.rows] & (recorded >= 0)
    recorded, simulated = recorded[both], schedule.wait_time[both]
    gaps = not_covered(trace)
    none = np.zeros(len(trace), bool)
    return Validity(
        jobs=int(both.sum()),
        recorded_mean_wait_s=_mean(recorded),
        simulated_mean_wait_s=_mean(simulated),
        recorded_median_wait_s=_median(recorded),
        simulated_median_wait_s=_median(simulated),
        uncovered={name: int((gap & inside).sum()) for name, gap in gaps.items()},
        uncovered_jobs=int((np.logical_or.reduce([none, *gaps.values()]) & inside).sum()),
        all_jobs=int(inside.sum()),
    )


def not_covered(trace: Trace) -> dict[str, np.ndarray]:
    """Which jobs need what the model does not have, as masks (n,) by reason; a single pool of processors is all it has.

    memory: the job asked for an amount of memory. GPUs: it asked for at least one. partitions: the log names several,
    and the job was not in the one with most jobs (jobs of an unknown partition are not counted).

    >>> log = Trace.from_arrays({"submit_time": [0, 1], "req_mem_kib": [5.0, None], "partition_id": [1, 2]})
    >>> {name: int(mask.sum()) for name, mask in not_covered(log).items()}
    {'memory': 1, 'GPUs': 0, 'partitions': 1}
    """
    codes = trace.nominal("partition_id").codes
    sizes = np.bincount(codes[codes >= 0], minlength=1)
    return {
        "memory": trace.number("req_mem_kib") > 0,
        "GPUs": trace.number("req_gpus") > 0,
        "partitions": (codes >= 0) & (codes != sizes.argmax()),
    }


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if len(values) else float("nan")
