# SPDX-License-Identifier: Apache-2.0
"""The grid's simulated clock: jobs arrive, mapping events assign the jobs to resources, deadlines pass.

Events of one instant have the same order as in batchcast's other clocks: ends, submissions, then one mapping with its
starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from ...compiled import allocating
from ...errors import UsageError
from .model import Batch, Heuristic, Jobs, Resources

ASSIGNED, REJECTED, UNFIT, TOO_TIGHT, NO_RESOURCE, RAN_LATE, STOPPED, DROPPED, LEFT = range(9)
REASONS = (
    "finished in time",
    "rejected: unusable",
    "no resource meets the job's demands",
    "deadline too tight even for an idle grid",
    "no remaining resource can end the job in time",
    "ended after its deadline",
    "stopped at its deadline",
    "dropped at its start because it could not end in time",
    "left unplaced by the heuristic",
)
LATE = ("run", "stop", "drop")


class Times(Protocol):
    """A matrix of expected run times from which a caller can read the rows of k jobs, (k, m) for m resources."""

    def rows(self, jobs: np.ndarray) -> np.ndarray:
        """Return the rows of the given jobs."""


@dataclass(frozen=True, slots=True)
class MappingRule:
    """When jobs are mapped to resources, and what happens to late jobs; the papers do not state either.

    `every`: time between mapping events; None maps at each arrival, and while jobs wait also at each end of a job.
    `remap`: jobs that have not started are mapped again at the next mapping event; if false, jobs keep their resource
    and start time. `late`: what happens to a placed job that cannot end by its deadline: it runs to its end (`run`),
    stops at its deadline (`stop`), or does not start (`drop`).
    """

    every: float | None = 0.25
    remap: bool = False
    late: Literal["run", "stop", "drop"] = "run"

    def __post_init__(self) -> None:
        if self.every is not None and not (np.isfinite(self.every) and self.every > 0):
            raise UsageError(f"mapping every {self.every!r} (accepted: a time above 0, or events)")
        if self.late not in LATE:
            raise UsageError(f"late jobs: {self.late!r} (accepted: {', '.join(LATE)})")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of every job, arrays (n,): index of the resource (-1: none), start and finish (NaN: never ran),
    outcome code, instant.

    `outcome` indexes `REASONS`: 0 means finished in time, all other codes mean unfinished. `instant` is the time at
    which the outcome of the job was decided. `why` has the detailed reasons of rejected jobs, by the job's row;
    `events` counts mapping events that had jobs to place.
    """

    arrival: np.ndarray
    deadline: np.ndarray
    resource: np.ndarray
    start: np.ndarray
    finish: np.ndarray
    outcome: np.ndarray
    instant: np.ndarray
    why: dict[int, str]
    events: int

    @property
    def assigned(self) -> int:
        """The number of jobs that finished in time."""
        return int((self.outcome == ASSIGNED).sum())

    @property
    def unfinished(self) -> int:
        """Number of jobs that did not finish in time; `assigned` plus `unfinished` is the number of submitted jobs."""
        return len(self.outcome) - self.assigned


def simulate(jobs: Jobs, resources: Resources, times: Times, heuristic: Heuristic, mapping: MappingRule) -> Outcome:
    """Simulate until each job has an end or a reason for not finishing; assigned + unfinished = submitted.

    A job waits until a mapping event places it. If the heuristic respects deadlines, a job is given up at the first
    mapping event at which no resource could end the job in time after the resource's present work. Jobs with equal
    arrival times are in order of their rows. The cost is the heuristic's work over all mapping events, plus O(waiting
    jobs * m) per event for m resources.
    """
    state = _Run(jobs, resources, mapping)
    queue = state.usable(jobs)
    queue = queue[np.argsort(jobs.arrival[queue], kind="stable")]
    waiting = np.empty(0, dtype=np.int64)
    came, tick, now = 0, 0, -np.inf
    while came < len(queue) or len(waiting):
        following = float(jobs.arrival[queue[came]]) if came < len(queue) else np.inf
        now, tick = _next_event(mapping.every, tick, now, following, state.free, len(waiting) > 0)
        last = came + int(np.searchsorted(jobs.arrival[queue[came:]], now, side="right"))
        waiting, came = np.concatenate([waiting, queue[came:last]]), last
        idle = came == len(queue) and bool((state.free <= now).all())
        left = state.map(waiting, times.rows(waiting), heuristic, resources, now)
        if idle and len(left) == len(waiting):
            state.close(left, LEFT, now)
            break
        waiting = left
    return state.result()


def _next_event(
    every: float | None, tick: int, now: float, following: float, free: np.ndarray, waits: bool
) -> tuple[float, int]:
    """Return the next mapping event: a multiple of `every`, or without `every` the next arrival or job end."""
    if every is not None:
        due = int(np.ceil(following / every)) if following < np.inf else tick + 1
        tick = max(tick + 1, due) if not waits else tick + 1
        return max(tick * every, following if not waits else -np.inf), tick
    if waits:
        following = min(following, float(free[free > now].min(initial=np.inf)))
        if following == np.inf:
            following = now
    return following, tick


class _Run:
    """The state of one simulation: the times at which resources become free, and the outcome of each job so far."""

    def __init__(self, jobs: Jobs, resources: Resources, mapping: MappingRule) -> None:
        n = len(jobs)
        self.mapping = mapping
        self.deadline, self.arrival, self.cost_weight = jobs.deadline, jobs.arrival, jobs.cost_weight
        self.free = resources.free.astype(np.float64)
        self.resource = np.full(n, -1, dtype=np.int64)
        self.start, self.finish, self.instant = (np.full(n, np.nan) for _ in range(3))
        self.outcome = np.full(n, ASSIGNED, dtype=np.int8)
        self.why = jobs.faults()
        self.events = 0

    def usable(self, jobs: Jobs, first: int = 0) -> np.ndarray:
        """Return the rows of valid jobs from row `first` on; invalid jobs are rejected at their arrival."""
        bad = np.array([row for row in self.why if row >= first], dtype=np.int64)
        self.close(bad, REJECTED, jobs.arrival[bad])
        return np.setdiff1d(np.arange(first, len(jobs)), bad)

    def grow(self, jobs: Jobs) -> np.ndarray:
        """Extend the arrays for more jobs, and return the rows of the valid new jobs: a clock may not know all jobs in
        advance."""
        old = len(self.outcome)
        more = _Run(jobs, Resources(["none"], np.ones(1), np.ones(1), np.zeros(1)), self.mapping)
        for name in ("resource", "start", "finish", "instant", "outcome"):
            getattr(more, name)[:old] = getattr(self, name)
            setattr(self, name, getattr(more, name))
        self.deadline, self.arrival, self.cost_weight = jobs.deadline, jobs.arrival, jobs.cost_weight
        self.why = more.why
        return self.usable(jobs, old)

    def close(self, rows: np.ndarray, outcome: int, instant: float | np.ndarray) -> None:
        """Record that the given jobs never run, with the code of the reason."""
        self.outcome[rows] = outcome
        self.instant[rows] = instant

    def map(
        self, rows: np.ndarray, times: np.ndarray, heuristic: Heuristic, resources: Resources, now: float
    ) -> np.ndarray:
        """Run one mapping event; return the rows of the jobs that still wait."""
        self.free = np.maximum(self.free, now)
        until = now + (self.mapping.every or 0.0)
        if not _all_fit(times):
            fits = (times < np.inf).any(axis=1)
            self.close(rows[~fits], UNFIT, now)
            rows, times = rows[fits], times[fits]
        if not len(rows):
            return rows
        self.events += 1
        deadline = self.deadline[rows]
        weight = None if self.cost_weight is None else self.cost_weight[rows]
        batch = Batch(
            now, times, self.free.copy(), deadline, self.arrival[rows], until, resources.speed, resources.bandwidth,
            resources.attributes.get("price"), weight,
        )  # fmt: skip
        plan = heuristic.assign(batch)
        keep = until if self.mapping.remap else np.inf
        done = _commit(
            plan.order, plan.resource, rows, times, self.free, deadline, now, keep, LATE.index(self.mapping.late),
            self.resource, self.start, self.finish, self.outcome, self.instant,
        )  # fmt: skip
        rows, times = rows[~done], times[~done]
        if heuristic.deadlines and len(rows):
            best, alone = _best_ends(times, self.free, self.arrival[rows])
            late = best > self.deadline[rows]
            tight = late & (alone > self.deadline[rows])
            self.close(rows[late & ~tight], NO_RESOURCE, now)
            self.close(rows[tight], TOO_TIGHT, now)
            rows = rows[~late]
        return rows

    def result(self) -> Outcome:
        """Return the outcome of all jobs."""
        return Outcome(
            self.arrival, self.deadline, self.resource, self.start, self.finish, self.outcome, self.instant, self.why,
            self.events,
        )  # fmt: skip


@allocating
def _all_fit(times: np.ndarray) -> bool:
    """Return whether every job has a resource that can run it."""
    for i in range(times.shape[0]):
        r = 0
        while r < times.shape[1] and not times[i, r] < np.inf:
            r += 1
        if r == times.shape[1]:
            return False
    return True


@allocating
def _best_ends(times: np.ndarray, free: np.ndarray, arrival: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each job's earliest end after the jobs that the resources run at present, and its earliest end on an idle
    grid."""
    n, m = times.shape
    best, alone = np.full(n, np.inf), np.full(n, np.inf)
    for i in range(n):
        for r in range(m):
            best[i] = min(best[i], free[r] + times[i, r])
            alone[i] = min(alone[i], arrival[i] + times[i, r])
    return best, alone


@allocating
def _commit(
    order: np.ndarray,
    column: np.ndarray,
    rows: np.ndarray,
    times: np.ndarray,
    free: np.ndarray,
    deadline: np.ndarray,
    now: float,
    keep: float,
    late: int,
    resource: np.ndarray,
    start: np.ndarray,
    finish: np.ndarray,
    outcome: np.ndarray,
    instant: np.ndarray,
) -> np.ndarray:
    """Run a plan's jobs on each resource in the order of the plan; jobs that would start at time `keep` or later stay
    in the queue.

    The resources' free times `free` change in place. Returns a mask (k,) of the jobs whose outcome was decided: run,
    stopped or dropped.
    """
    done = np.zeros(len(rows), dtype=np.bool_)
    blocked = np.zeros(len(free), dtype=np.bool_)
    for k in range(len(order)):
        i = order[k]
        r = column[i]
        if r < 0 or blocked[r]:
            continue
        begin = free[r]
        if begin >= keep and begin > now:
            blocked[r] = True
            continue
        row, end = rows[i], begin + times[i, r]
        done[i] = True
        if end <= deadline[i] or late == 0:
            resource[row], start[row], finish[row], free[r] = r, begin, end, end
            instant[row] = end
            if end > deadline[i]:
                outcome[row] = 5
        elif late == 1 and begin < deadline[i]:
            resource[row], start[row], finish[row], free[r] = r, begin, deadline[i], deadline[i]
            instant[row], outcome[row] = deadline[i], 6
        else:
            instant[row], outcome[row] = max(begin, now), 7
    return done
