"""Jobs, resources and expected times of a grid: space-shared resources, one job at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import InputError


@dataclass(frozen=True, slots=True)
class Units:
    """Time units per (MI / speed) and per (MB / bandwidth): what the papers leave unprinted, made explicit.

    The defaults are the set the sweep chose for the published experiment (docs/grid.md); for platforms in MI/s and
    MB/s both are 1 and the time unit is a second.
    """

    compute: float = 0.006
    transfer: float = 0.0006


@dataclass(frozen=True, slots=True)
class Resources:
    """The grid: `speed` and `bandwidth` (m,), `free` (m,) the instant from which each is there, named attributes (m,).

    Raises InputError for an empty grid, a duplicate id, or a speed, bandwidth or free time no job could be timed with.
    """

    ids: Sequence[str]
    speed: np.ndarray
    bandwidth: np.ndarray
    free: np.ndarray
    attributes: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.ids):
            raise InputError("the grid has no resource", hint="list at least one with a speed and a bandwidth")
        repeated = duplicates(self.ids)
        if len(repeated):
            raise InputError(
                f"resource {self.ids[repeated[0]]!r} is listed twice", hint="give each resource its own id"
            )
        for name, values in (("speed", self.speed), ("bandwidth", self.bandwidth)):
            wrong = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
            if len(wrong):
                raise InputError(
                    f"resource {self.ids[wrong[0]]!r}: {name} is {values[wrong[0]]:g} (accepted: a number above 0)",
                    hint="leave a resource that is down out of the platform",
                )
        wrong = np.flatnonzero(~np.isfinite(self.free))
        if len(wrong):
            raise InputError(f"resource {self.ids[wrong[0]]!r}: its free time is not a finite number")

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Jobs:
    """What was submitted: instructions (MI), file size (MB), arrival and absolute deadline (inf: none), all (n,).

    `demands` (n,) are the least attributes a resource must reach, by name; NaN or absent asks for nothing. Jobs are
    kept as given, good or bad: `faults` says which cannot be used, and the clock counts those as unfinished.
    """

    ids: Sequence[str]
    ini: np.ndarray
    fsize: np.ndarray
    arrival: np.ndarray
    deadline: np.ndarray
    demands: dict[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def first(self, count: int | None) -> Jobs:
        """The first `count` jobs as given, all when None."""
        keep = slice(count)
        demands = {name: values[keep] for name, values in self.demands.items()}
        return Jobs(self.ids[keep], self.ini[keep], self.fsize[keep], self.arrival[keep], self.deadline[keep], demands)

    def faults(self) -> dict[int, str]:
        """Rows that cannot be scheduled at all, each with its reason. O(n)."""
        reasons: dict[int, str] = {}
        for name, values, least in (
            ("instructions", self.ini, 0),
            ("file size", self.fsize, 0),
            ("arrival", self.arrival, -np.inf),
        ):
            for row in np.flatnonzero(~(np.isfinite(values) & (values >= least))).tolist():
                reasons.setdefault(
                    row, f"{name} not a finite number of at least 0" if least == 0 else f"{name} not a finite number"
                )
        for row in np.flatnonzero(np.isnan(self.deadline)).tolist():
            reasons.setdefault(row, "deadline not a number")
        for row in duplicates(self.ids).tolist():
            reasons.setdefault(row, "id already submitted")
        return reasons


@dataclass(frozen=True, slots=True)
class Model:
    """Expected times Ext(i,j) = ini_i / proc_j + fsize_i / bw_j (Hao et al. 2014, equation 1), in the units' time.

    Infinite where an attribute of the resource does not reach the job's demand (equation 9, read as "at least").
    """

    jobs: Jobs
    resources: Resources
    units: Units = Units()

    def rows(self, jobs: np.ndarray) -> np.ndarray:
        """Expected times (k, m) of the given jobs. O(km).

        >>> one, many = np.ones(1), np.array([5.0, 10.0])
        >>> jobs = Jobs(["a"], 1000 * one, 0 * one, 0 * one, 9 * one)
        >>> Model(jobs, Resources(["r", "s"], many, one.repeat(2), 0 * many), Units(0.01, 0.0)).rows(np.array([0]))
        array([[2., 1.]])
        """
        compute = self.units.compute / self.resources.speed
        times = np.multiply.outer(self.jobs.ini[jobs], compute)
        times += np.multiply.outer(self.jobs.fsize[jobs], self.units.transfer / self.resources.bandwidth)
        for name, demand in self.jobs.demands.items():
            has = self.resources.attributes.get(name, np.zeros(len(self.resources)))
            times[np.greater.outer(np.nan_to_num(demand[jobs], nan=-np.inf), has)] = np.inf
        return np.asarray(times)


@dataclass(frozen=True, slots=True)
class Matrix:
    """Expected times as given, one row a job, one column a resource; the same face as `Model`."""

    times: np.ndarray

    def rows(self, jobs: np.ndarray) -> np.ndarray:
        """The rows of the given jobs."""
        return np.asarray(self.times[jobs])


def duplicates(ids: Sequence[str]) -> np.ndarray:
    """Rows whose id an earlier row already has, ascending.

    >>> duplicates(["a", "b", "a"])
    array([2])
    """
    names = np.asarray(ids)
    _, first = np.unique(names, return_index=True)
    return np.setdiff1d(np.arange(len(names)), first)
