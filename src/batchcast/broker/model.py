# SPDX-License-Identifier: Apache-2.0
"""Jobs, resources and expected times of a grid, one job at a time per resource; and the protocol of heuristics.

The module also draws the jobs of the published experiment, and matrices like the public benchmarks. A heuristic maps a
batch of waiting jobs to a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from ..errors import InputError


@dataclass(frozen=True, slots=True)
class Units:
    """Time units per (MI / speed) and per (MB / bandwidth); the papers do not state the two factors.

    The default factors were fitted to the published experiment by a sweep (docs/papers/grid.md). For platforms with
    speeds in MI/s and MB/s, the two factors are 1 and the time unit is a second.
    """

    compute: float = 0.006
    transfer: float = 0.0006


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of a grid: `speed`, `bandwidth` and `free` (the instant from which a resource is available), each
    (m,), and further attributes.

    The attribute `price` is the cost of a time unit of each resource, 0 for a resource without a price. If no resource
    has a price, the attribute is absent.

    Raises InputError for an empty grid, a duplicate id, or an impossible speed, bandwidth or free time.
    """

    ids: Sequence[str]
    speed: np.ndarray
    bandwidth: np.ndarray
    free: np.ndarray
    attributes: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not len(self.ids):
            raise InputError("the grid has no resource", hint="list at least one with a speed and a bandwidth")
        for k in np.flatnonzero(duplicates(self.ids)).tolist():
            raise InputError(f"resource {self.ids[k]!r} is listed twice", hint="give each resource its own id")
        for name, values in (("speed", self.speed), ("bandwidth", self.bandwidth)):
            for k in np.flatnonzero(~(np.isfinite(values) & (values > 0))).tolist():
                what = f"resource {self.ids[k]!r}: {name} is {values[k]:g} (accepted: a number above 0)"
                raise InputError(what, hint="leave a resource that is down out of the platform")
        for k in np.flatnonzero(~np.isfinite(self.free)).tolist():
            raise InputError(f"resource {self.ids[k]!r}: its free time is not a finite number")

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Jobs:
    """Submitted jobs: instructions (MI), file size (MB), arrival and absolute deadline (infinity: no deadline), arrays
    (n,).

    `demands` maps an attribute's name to the minimum that each job requests (n,); NaN means no request. Invalid jobs
    are not removed: `faults` returns the reason for each invalid job, and the simulation counts these jobs as
    unfinished. `cost_weight` (n,) is the user's weight of cost against time, 0 to 1 (NaN, the default: the heuristic's
    weight).
    """

    ids: Sequence[str]
    ini: np.ndarray
    fsize: np.ndarray
    arrival: np.ndarray
    deadline: np.ndarray
    demands: dict[str, np.ndarray] = field(default_factory=dict)
    cost_weight: np.ndarray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if not len(self.cost_weight):
            object.__setattr__(self, "cost_weight", np.full(len(self), np.nan))

    def __len__(self) -> int:
        return len(self.ids)

    def first(self, count: int | None) -> Jobs:
        """Return the first `count` jobs, or all jobs if `count` is None."""
        demands = {name: values[:count] for name, values in self.demands.items()}
        return Jobs(self.ids[:count], demands=demands, **{name: getattr(self, name)[:count] for name in _OF_JOBS})

    def joined(self, more: Sequence[Jobs]) -> Jobs:
        """Return these jobs and further sets of jobs; a demand that a set of jobs does not have is NaN for the jobs of
        this set."""
        sets = [self, *more]
        columns = {name: np.concatenate([getattr(each, name) for each in sets]) for name in _OF_JOBS}
        demands = {
            name: np.concatenate([each.demands.get(name, np.full(len(each), np.nan)) for each in sets])
            for name in {name for each in sets for name in each.demands}
        }
        return Jobs([job_id for each in sets for job_id in each.ids], demands=demands, **columns)

    def faults(self) -> dict[int, str]:
        """Return the rows of jobs that cannot be scheduled, each with the reason. O(n)."""
        wrong = {
            "instructions not a finite number of at least 0": ~(np.isfinite(self.ini) & (self.ini >= 0)),
            "file size not a finite number of at least 0": ~(np.isfinite(self.fsize) & (self.fsize >= 0)),
            "arrival not a finite number": ~np.isfinite(self.arrival),
            "deadline not a number": np.isnan(self.deadline),
            "cost_weight not between 0 and 1": (self.cost_weight < 0) | (self.cost_weight > 1),
            "id already submitted": duplicates(self.ids),
        }
        # in reverse, so that the first of several reasons for one job remains
        return {row: why for why, mask in reversed(wrong.items()) for row in np.flatnonzero(mask).tolist()}


_OF_JOBS = ("ini", "fsize", "arrival", "deadline", "cost_weight")  # the columns of `Jobs` that are arrays (n,)


@dataclass(frozen=True, slots=True)
class Model:
    """Expected times Ext(i,j) = ini_i / proc_j + fsize_i / bw_j (Hao et al. 2014, equation 1), in the time unit of
    `Units`.

    The expected time is infinite if an attribute of the resource is below the job's demand (equation 9, read as "at
    least").
    """

    jobs: Jobs
    resources: Resources
    units: Units = Units()

    def rows(self, jobs: np.ndarray) -> np.ndarray:
        """Return the expected times (k, m) of the given jobs. O(km).

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


def duplicates(ids: Sequence[str]) -> np.ndarray:
    """Return a mask of the ids that occur in an earlier row.

    >>> duplicates(["a", "b", "a"])
    array([False, False,  True])
    """
    repeated = np.ones(len(ids), dtype=bool)
    repeated[np.unique(np.asarray(ids), return_index=True)[1]] = False
    return repeated


BANDWIDTHS = (1.1, 1.2, 1.3, 1.4, 1.5)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of the published experiment: jobs per time unit, share p of jobs with files, share q of large
    files."""

    rate: float
    data_share: float
    large_share: float


def draw_jobs(
    setting: Setting, rng: np.random.Generator, *, jobs: int = 10_000, resources: int = 50
) -> tuple[Jobs, Resources]:
    """Draw jobs and resources of one run (Hao et al. 2014, section 4.1); every setting uses the same random numbers.

    All quantities are uniform whole numbers: instructions 500..3000 MI, large files 1500..3000 MB, small ones 500..1500
    MB, speed 5..15, deadline 1..5 time units after arrival; bandwidth one of 1.1..1.5 Gb/s. Arrivals are Poisson (the
    paper prints only a rate). With one seed, two settings differ only by the setting: each job has a fixed random
    number, is a data job under every p above this number, and has a large file under every q above it.
    """
    speed = rng.integers(5, 16, resources).astype(np.float64)
    bandwidth = rng.choice(BANDWIDTHS, resources)
    gaps = rng.standard_exponential(jobs)
    ini = rng.integers(500, 3001, jobs).astype(np.float64)
    is_data, is_large = rng.random(jobs), rng.random(jobs)
    small, large = rng.integers(500, 1501, jobs), rng.integers(1500, 3001, jobs)
    allowed = rng.integers(1, 6, jobs)
    fsize = np.where(is_data < setting.data_share, np.where(is_large < setting.large_share, large, small), 0)
    arrival = np.cumsum(gaps) / setting.rate
    names = [f"r{k}" for k in range(resources)]
    jobs_drawn = Jobs([f"j{k}" for k in range(jobs)], ini, fsize.astype(np.float64), arrival, arrival + allowed)
    return jobs_drawn, Resources(names, speed, bandwidth, np.zeros(resources))


class Batch(NamedTuple):
    """What a heuristic receives at a mapping event: the waiting jobs (rows, by arrival) and the resources (columns).

    `times` (n, m) are expected run times, infinite if a resource cannot run the job; `free` (m,) is the time at which
    each resource is next free, at least `now`; `deadline` (n,) is absolute, infinite for no deadline; `arrival` (n,) is
    at most `now`. `until` is the time of the next mapping event (infinite: no further event), so a plan may leave a job
    waiting that could not start before that event. `speed`, `bandwidth` (m,) are NaN if only a matrix of expected times
    is known. `price` (m,) is the cost of a time unit on each resource, None if the resources have no prices;
    `cost_weight` (n,) are the users' weights of cost against time, None if no weight is known.
    """

    now: float
    times: np.ndarray
    free: np.ndarray
    deadline: np.ndarray
    arrival: np.ndarray
    until: float
    speed: np.ndarray
    bandwidth: np.ndarray
    price: np.ndarray | None = None
    cost_weight: np.ndarray | None = None

    @classmethod
    def of_times(
        cls, times: np.ndarray, *, free: np.ndarray | None = None, deadline: np.ndarray | None = None, now: float = 0.0
    ) -> Batch:
        """Build a batch from a matrix of expected times: idle resources and no deadlines unless given.

        >>> Batch.of_times(np.array([[3.0, 5.0]])).free
        array([0., 0.])
        """
        times = np.ascontiguousarray(times, dtype=np.float64)
        n, m = times.shape
        unknown = np.full(m, np.nan)
        free = np.full(m, now) if free is None else np.maximum(np.asarray(free, dtype=np.float64), now)
        due = np.full(n, np.inf) if deadline is None else np.asarray(deadline, dtype=np.float64)
        return cls(now, times, free, due, np.full(n, now), np.inf, unknown, unknown)


class Plan(NamedTuple):
    """A plan: the placed jobs in order (`order`, rows of the batch), and the index of each job's resource (`resource`),
    -1 if the job waits."""

    order: np.ndarray
    resource: np.ndarray


@runtime_checkable
class Heuristic(Protocol):
    """The protocol of a heuristic, which places the jobs of a batch on resources. A heuristic is a pure function: the
    same batch and seed give the same plan.

    `deadlines` is true if the heuristic does not place jobs that cannot end in time. The simulated clock or the broker
    decides what happens to a job that is not placed. A job is placed at most once, and only if its expected run time is
    finite.
    """

    deadlines: bool

    def assign(self, batch: Batch) -> Plan:
        """Return the plan for the waiting jobs."""


def timed(batch: Batch, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Return start and finish times (n,) of a plan's jobs, NaN for waiting jobs; each resource runs its jobs in plan
    order.

    The finish is c(i,j) = Ext(i,j) + avai_j and avai_j <- c(i,j) (Hao et al. 2014, equations 2 and 4). O(n).

    >>> batch = Batch.of_times(np.array([[3.0], [4.0]]))
    >>> timed(batch, Plan(np.array([1, 0]), np.array([0, 0])))
    (array([4., 0.]), array([7., 4.]))
    """
    start, finish = np.full(len(batch.times), np.nan), np.full(len(batch.times), np.nan)
    free = batch.free.tolist()
    for job in plan.order.tolist():
        column = int(plan.resource[job])
        start[job] = free[column]
        free[column] += float(batch.times[job, column])
        finish[job] = free[column]
    return start, finish


def makespan(batch: Batch, plan: Plan) -> float:
    """Return the last finish of a plan, in the unit of the times; NaN if the plan places no job."""
    finish = timed(batch, plan)[1]
    return float(np.nanmax(finish)) if np.isfinite(finish).any() else float("nan")
