# SPDX-License-Identifier: Apache-2.0
"""The grid's simulated clock: jobs arrive, mapping events assign the jobs to resources, deadlines pass.

Events of one instant have the same order as in batchcast's other clocks: ends, submissions, then one mapping with its
starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..compiled import allocating
from ..errors import UsageError, check_word
from .model import Batch, Heuristic, Jobs, Model, Resources

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
RUN, STOP = 0, 1  # indices of LATE


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
        check_word("late", self.late, LATE)


def simulate(jobs: Jobs, resources: Resources, times: Model, heuristic: Heuristic, mapping: MappingRule) -> Run:
    """Simulate until each job has an end or a reason for not finishing; assigned + unfinished = submitted.

    A job waits until a mapping event places it. If the heuristic respects deadlines, a job is given up at the first
    mapping event at which no resource could end the job in time after the resource's present work. Jobs with equal
    arrival times are in order of their rows. The cost is the heuristic's work over all mapping events, plus O(waiting
    jobs * m) per event for m resources.
    """
    state = Run(jobs, resources, heuristic, mapping)
    queue = state.usable()
    queue = queue[np.argsort(jobs.arrival[queue], kind="stable")]
    arrival, came = jobs.arrival[queue], 0
    while came < len(queue) or len(state.waiting):
        if came < len(queue):
            state.expect(float(arrival[came]))
        last = int(np.searchsorted(arrival, state.next_at, side="right"))
        state.waiting, came = np.concatenate([state.waiting, queue[came:last]]), last
        state.map(times.rows(state.waiting), came == len(queue))
    return state


class Run:
    """The state of a simulation or of a broker, and at the end its result: the outcome of each job.

    Arrays (n,): `resource` is the index of the job's resource (-1: none); `start` and `finish` are NaN if the job never
    ran; `outcome` indexes `REASONS`: 0 means finished in time, all other codes mean unfinished; `instant` is the time
    at which the outcome of the job was decided. `why` has the detailed reasons of rejected jobs, by the job's row.
    `free` (m,) is the time at which each resource becomes free, at least the time of the last mapping event; `waiting`
    has the rows of the waiting jobs. `next_at` is the time of the next mapping event (infinite: none); `events` counts
    mapping events that had jobs to place.
    """

    def __init__(self, jobs: Jobs, resources: Resources, heuristic: Heuristic, mapping: MappingRule) -> None:
        self.jobs, self.resources, self.heuristic, self.mapping = jobs, resources, heuristic, mapping
        self.start, self.finish, self.instant = np.full((3, len(jobs)), np.nan)
        self.resource, self.outcome = np.full(len(jobs), -1), np.full(len(jobs), ASSIGNED, dtype=np.int8)
        self.why, self.free = jobs.faults(), resources.free.astype(np.float64)
        self.waiting = np.empty(0, dtype=np.int64)
        self.events, self.tick, self.next_at = 0, 0, np.inf

    @property
    def assigned(self) -> int:
        """The number of jobs that finished in time."""
        return int((self.outcome == ASSIGNED).sum())

    @property
    def unfinished(self) -> int:
        """Number of jobs that did not finish in time; `assigned` plus `unfinished` is the number of submitted jobs."""
        return len(self.outcome) - self.assigned

    def usable(self, first: int = 0) -> np.ndarray:
        """Return the rows of valid jobs from row `first` on; invalid jobs are rejected at their arrival."""
        bad = np.array([row for row in self.why if row >= first], dtype=np.int64)
        self.close(bad, REJECTED, self.jobs.arrival[bad])
        return np.setdiff1d(np.arange(first, len(self.jobs)), bad)

    def grow(self, more: Sequence[Jobs]) -> None:
        """Add jobs, and let the valid new jobs wait: a live clock does not know all jobs in advance."""
        old, grown = len(self.jobs), Run(self.jobs.joined(more), self.resources, self.heuristic, self.mapping)
        for name in ("resource", "start", "finish", "instant", "outcome"):
            getattr(grown, name)[:old] = getattr(self, name)
            setattr(self, name, getattr(grown, name))
        self.jobs, self.why = grown.jobs, grown.why
        self.waiting = np.concatenate([self.waiting, self.usable(old)])

    def expect(self, arrival: float) -> None:
        """Schedule the next mapping event for a job that arrives: a multiple of `every`, or the arrival."""
        every = self.mapping.every
        if every is None:
            self.next_at = min(self.next_at, arrival)
        elif self.next_at == np.inf:
            self.tick = max(self.tick + 1, int(np.ceil(arrival / every)))
            self.next_at = max(self.tick * every, arrival)

    def close(self, rows: np.ndarray, outcome: int, instant: float | np.ndarray) -> None:
        """Record that the given jobs never run, with the code of the reason."""
        self.outcome[rows] = outcome
        self.instant[rows] = instant

    def map(self, times: np.ndarray, is_last: bool = False) -> None:
        """Run the next mapping event over the waiting jobs, with their run times (k, m); schedule the event after it.

        If `is_last`, no further job arrives: jobs that stay waiting on an idle grid are left unplaced.
        """
        now = self.next_at
        is_idle = is_last and bool((self.free <= now).all())
        left = self._mapped(self.waiting, times, now)
        if is_idle and len(left) == len(self.waiting):
            self.close(left, LEFT, now)
            left = left[:0]
        self.waiting = left
        if not len(left):
            self.next_at = np.inf
        elif self.mapping.every is not None:
            self.tick += 1
            self.next_at = self.tick * self.mapping.every
        else:
            self.next_at = float(self.free[self.free > now].min(initial=np.inf))
            if is_last:  # all placed jobs took no time
                self.next_at = now if self.next_at == np.inf else self.next_at

    def _mapped(self, rows: np.ndarray, times: np.ndarray, now: float) -> np.ndarray:
        """Map the given jobs; return the rows of the jobs that still wait."""
        self.free = np.maximum(self.free, now)
        until = now + (self.mapping.every or 0.0)
        fits = times.min(axis=1) < np.inf
        if not fits.all():
            self.close(rows[~fits], UNFIT, now)
            rows, times = rows[fits], times[fits]
        if not len(rows):
            return rows
        self.events += 1
        jobs, grid = self.jobs, self.resources
        deadline = jobs.deadline[rows]
        batch = Batch(
            now, times, self.free.copy(), deadline, jobs.arrival[rows], until, grid.speed, grid.bandwidth,
            grid.attributes.get("price"), jobs.cost_weight[rows],
        )  # fmt: skip
        plan = self.heuristic.assign(batch)
        keep = until if self.mapping.remap else np.inf
        done = _commit(
            plan.order, plan.resource, rows, times, self.free, deadline, now, keep, LATE.index(self.mapping.late),
            self.resource, self.start, self.finish, self.outcome, self.instant,
        )  # fmt: skip
        rows, times = rows[~done], times[~done]
        if self.heuristic.deadlines and len(rows):
            due = jobs.deadline[rows]
            late = (self.free + times).min(axis=1) > due
            self.close(rows[late], NO_RESOURCE, now)
            # these jobs are a part of the late jobs, because a job arrives before a resource is free
            self.close(rows[jobs.arrival[rows] + times.min(axis=1) > due], TOO_TIGHT, now)
            rows = rows[~late]
        return rows


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
        if end <= deadline[i] or late == RUN:
            resource[row], start[row], finish[row], free[r] = r, begin, end, end
            instant[row] = end
            if end > deadline[i]:
                outcome[row] = RAN_LATE
        elif late == STOP and begin < deadline[i]:
            resource[row], start[row], finish[row], free[r] = r, begin, deadline[i], deadline[i]
            instant[row], outcome[row] = deadline[i], STOPPED
        else:
            instant[row], outcome[row] = max(begin, now), DROPPED
    return done
