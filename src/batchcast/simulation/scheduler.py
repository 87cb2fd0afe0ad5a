# SPDX-License-Identifier: Apache-2.0
"""What a user's own scheduler receives: waiting jobs, the machine, and its future free processors.

The module is slow Python by design: it computes plain lists at each call, so that a user can inspect all values. The
clock is in own_clock.py.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ..events.event import Event
from ..job import JobRequest
from ..predict.protocol import Prediction

Where = Mapping[int, int]
"""Processors by node, nodes numbered from 0."""


class Job:
    """A waiting or running job as a scheduler sees it, without run time and end. All attributes are read-only.

    `procs` and `req_time` are the requested processors and time, `planned` is the planned run time in seconds.
    `forecast` is the predictor's full prediction, or None if jobs are planned with time limits. `request` has all other
    columns. A running job also has `start_time`, `planned_end` and, on nodes, `nodes`.
    """

    __slots__ = (
        "forecast", "job_id", "nodes", "planned", "planned_end", "procs", "req_time", "request", "row", "start_time",
        "submit_time",
    )  # fmt: skip

    def __init__(self, row: int, request: JobRequest, planned: float, forecast: Prediction | None = None) -> None:
        self.row, self.request = row, request
        self.job_id, self.submit_time = request.job_id, request.submit_time
        self.procs, self.req_time = int(request.procs), request.req_time
        self.planned, self.forecast = planned, forecast
        self.start_time = self.planned_end = math.nan
        self.nodes: Where = {}

    def __repr__(self) -> str:
        return f"<Job {self.job_id}: {self.procs} processors, planned {self.planned:g} s>"


class Node:
    """A node: its number, its processors, and how many of them are free."""

    __slots__ = ("free", "name", "number", "procs")

    def __init__(self, number: int, procs: int, name: str = "") -> None:
        self.number, self.procs, self.free, self.name = number, procs, procs, name or f"n{number + 1}"

    def __repr__(self) -> str:
        return f"<Node {self.name}: {self.free} of {self.procs} processors free>"


class Profile:
    """Future free processors as steps: `free[k]` processors are free from `times[k]` until `times[k + 1]`; the last
    step has no end.

    >>> profile = Profile(0.0, 4)
    >>> profile.hold(0.0, 10.0, 3); profile.earliest(2, 5.0), profile.earliest(1, 50.0), profile.free_at(12.0)
    (10.0, 0.0, 4)
    """

    def __init__(self, now: float, free: int) -> None:
        self.times, self.free = [now], [free]

    def hold(self, start: float, length: float, procs: int) -> None:
        """Remove `procs` free processors for `length` seconds from `start` (now or later); a negative `procs` adds
        processors."""
        for place in range(self._step(start), self._step(start + length)):
            self.free[place] -= procs

    def _step(self, time: float) -> int:
        place = bisect_left(self.times, time)
        if place == len(self.times) or self.times[place] != time:
            self.times.insert(place, time)
            self.free.insert(place, self.free[place - 1])
        return place

    def free_at(self, time: float) -> int:
        """Return the number of free processors at an instant, now or later."""
        return self.free[bisect_right(self.times, time) - 1]

    def earliest(self, procs: int, length: float) -> float:
        """Return the earliest instant with `procs` processors free for `length` seconds; infinity if there is none."""
        times, free = self.times, self.free
        start, last = times[0], len(times) - 1
        for place in range(len(times)):
            if free[place] < procs:
                start = times[place + 1] if place < last else math.inf
            elif place == last or times[place + 1] >= start + length:
                break
        return start


class Machine:
    """The machine at one instant of the simulated clock, as a scheduler sees it.

    The attributes are `total` and `free` processors; `running` jobs in order of start; `nodes` (empty for a pool of
    processors); `reservations`, start times by the job's row; and `events`, all events since the last call in order,
    except starts; `events` is empty after a requested wake. When a scheduler's `start` yields a job, all attributes are
    updated.
    """

    def __init__(self, total: int, nodes: Sequence[Node] = (), allocator: Allocator | None = None) -> None:
        self.total, self.free, self.now = total, total, 0.0
        self.nodes, self.allocator = tuple(nodes), allocator or FirstFit()
        self.events: tuple[Event, ...] = ()
        self.reservations: dict[int, float] = {}
        self.wakes: list[float] = []
        self._running: dict[int, Job] = {}

    @property
    def running(self) -> list[Job]:
        """Return running jobs in order of start."""
        return list(self._running.values())

    def fits(self, job: Job) -> bool:
        """Return whether the job could start now on the nodes that the allocator chooses."""
        return job.procs <= self.free and (not self.nodes or self.place(job) is not None)

    def place(self, job: Job) -> Where | None:
        """Return the nodes that the allocator would choose for the job now; None if the job does not fit."""
        return self.allocator.place(job, self.nodes)

    def profile(self) -> Profile:
        """Return the future free processors if running jobs end as planned; reservations are ignored.

        O(running log running).
        """
        profile = Profile(self.now, self.free)
        times, free = profile.times, profile.free
        for end, procs in sorted((job.planned_end, job.procs) for job in self._running.values()):
            if end > times[-1]:
                times.append(end)
                free.append(free[-1] + procs)
            else:
                free[-1] += procs
        return profile

    def shadow(self, job: Job) -> tuple[float, int]:
        """Return the earliest start of a job if running jobs end as planned, and the number of processors that are then
        left over.

        These two values are the `shadow_time` and `extra_procs` of EASY. O(running log running).
        """
        profile = self.profile()
        start = profile.earliest(job.procs, 0.0)
        return start, (profile.free_at(start) if start < math.inf else 0) - job.procs

    def reserve(self, job: Job, start: float) -> None:
        """Record a waiting job's start time in `reservations`, and request a call of `start` at that time; no
        processors are reserved."""
        self.reservations[job.row] = start
        self.wake_at(start)

    def release(self, job: Job) -> None:
        """Remove the reservation of a job, if it has one."""
        self.reservations.pop(job.row, None)

    def wake_at(self, time: float) -> None:
        """Request a call of `start` at a future instant, also without an event; a past instant is ignored."""
        if self.now < time < math.inf:
            self.wakes.append(time)

    def take(self, job: Job, where: Where | None) -> None:
        """Record that the job starts now; called by the clock."""
        self.free -= job.procs
        self._running[job.row] = job
        self.reservations.pop(job.row, None)
        job.nodes = dict(where or {})
        for number, procs in job.nodes.items():
            self.nodes[number].free -= procs

    def give_back(self, job: Job) -> None:
        """Record that the job has ended; called by the clock."""
        self.free += job.procs
        del self._running[job.row]
        for number, procs in job.nodes.items():
            self.nodes[number].free += procs


@runtime_checkable
class Scheduler(Protocol):
    """A scheduling policy of your own, for `simulate(log, Mine)` and `--policy MODULE:CLASS`.

    The simulation calls `start` at every instant at which jobs wait and there was an event: a submission, an end, a job
    that exceeded its planned run time, or a requested wake. The simulation calls `start` a second time if jobs with run
    time 0 ended. A job that `start` yields starts at once, so `machine` is up to date when the generator continues. The
    object may store data between calls; every simulation uses a fresh object.

    Notes
    -----
    Optional members: `predictor`, the predictor used for planning (`requested`); `correct`, the rule for an exceeded
    plan (`requested`, `incremental`, `doubling`); `kill`, whether a job is killed at its request (true); `allocator`,
    which chooses nodes.

    Examples
    --------
    >>> class FirstComeFirstServed:
    ...     def start(self, queue, machine, now):
    ...         for job in queue:
    ...             if not machine.fits(job):
    ...                 return
    ...             yield job
    >>> isinstance(FirstComeFirstServed(), Scheduler)
    True
    >>> import batchcast
    >>> log = batchcast.Trace.from_arrays({"submit_time": [0, 0, 1], "run_time": [9, 9, 2], "req_time": [10, 10, 3],
    ...                                    "req_procs": [2, 4, 2]})
    >>> batchcast.simulate(log, FirstComeFirstServed, total=4).start_time.tolist()
    [0.0, 9.0, 18.0]
    """

    def start(self, queue: Sequence[Job], machine: Machine, now: float) -> Iterable[Any] | None:
        """Return the jobs that start now: jobs, or pairs of a job and its processors by node; `queue` is by arrival."""


@runtime_checkable
class Allocator(Protocol):
    """Protocol of an allocator, which chooses the nodes of a job if the scheduler does not name nodes."""

    def place(self, job: Job, nodes: Sequence[Node]) -> Where | None:
        """Return the job's processors by node, or None if the job does not fit now; the method must not change the
        nodes."""


class FirstFit:
    """An allocator that uses nodes in order with all their free processors, or as many nodes as the job requests.

    >>> FirstFit().place(Job(0, JobRequest(0, 1, 0.0, 6.0, 60.0, 0.0), 60.0), [Node(0, 4), Node(1, 4)])
    {0: 4, 1: 2}
    """

    def place(self, job: Job, nodes: Sequence[Node]) -> Where | None:
        """See `Allocator`."""
        return _filled(job, nodes)


class BestFit:
    """An allocator that uses the fullest nodes with room first, so that empty nodes stay empty; otherwise like
    `FirstFit`.

    >>> nodes = [Node(0, 4), Node(1, 4)]
    >>> nodes[1].free = 2
    >>> BestFit().place(Job(0, JobRequest(0, 1, 0.0, 2.0, 60.0, 0.0), 60.0), nodes)
    {1: 2}
    """

    def place(self, job: Job, nodes: Sequence[Node]) -> Where | None:
        """See `Allocator`."""
        alone = sorted((n for n in nodes if n.free >= job.procs), key=lambda n: (n.free, n.number))
        return _filled(job, [*alone, *sorted(nodes, key=lambda n: (n.free, n.number))])


def _filled(job: Job, nodes: Sequence[Node]) -> Where | None:
    """Fill nodes in the given order; if the job requests a number of nodes, fill them evenly."""
    count = job.request.req_nodes
    if 1 <= count <= job.procs:
        each = math.ceil(job.procs / count)
        parts = [each] * (job.procs // each) + ([job.procs % each] if job.procs % each else [])
        chosen = list(dict.fromkeys(n.number for n in nodes if n.free >= each))[: len(parts)]
        return dict(zip(chosen, parts)) if len(chosen) == len(parts) else None
    given: dict[int, int] = {}
    left = job.procs
    for node in nodes:
        if left and node.free and node.number not in given:
            given[node.number] = min(left, node.free)
            left -= given[node.number]
    return None if left else given
