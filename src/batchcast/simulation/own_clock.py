# SPDX-License-Identifier: Apache-2.0
"""The simulated clock for a user's own scheduler in Python; processes one instant after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from heapq import heappop, heappush
from inspect import isroutine, signature
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..errors import BatchcastError, UsageError, check_takes, check_word, raised_outside, standing_at
from ..events.driver import Driver
from ..events.event import End, Event, Overdue, Start, Submit
from ..job import JobRequest, Name
from ..predict.registry import construct, name_of
from ..schedule.orders import CORRECTIONS, correct_plan
from .clock import planned_run_time, possible, system_state
from .policy import ARGUMENTS, Policy
from .scheduler import Job, Machine, Node, Where


@dataclass(frozen=True, slots=True)
class OwnPolicy:
    """A user's own scheduler in place of a `Policy`: the factory of the scheduler, and its settings."""

    scheduler: Any
    name: str
    predictor: Any = "requested"
    correct: str = "requested"
    kill: bool = True

    @classmethod
    def of(cls, scheduler: Any, name: str = "") -> OwnPolicy:
        """Wrap a scheduler's class, object or factory; UsageError if it has no method `start`."""
        name = name or name_of(scheduler)
        if isinstance(scheduler, type) and issubclass(scheduler, Policy):
            raise UsageError(f"policy: {name} is a Policy, settings of a compiled scheduler (accepted: a plain class"
                             f" with {FORM}, or a Policy with its words, as Policy(order='sjf'))")  # fmt: skip
        if isroutine(scheduler) and (parameters := tuple(signature(scheduler).parameters)):
            if len(parameters) == len(ARGUMENTS):
                raise UsageError(f"policy: {name} takes five numbers, as an order of the queue does",
                                 hint=f"policy=batchcast.Policy(order={name})")  # fmt: skip
            scheduler = SimpleNamespace(start=scheduler) if len(parameters) == 3 else scheduler
        makes = callable(scheduler) and not isinstance(scheduler, type) and not hasattr(scheduler, "start")
        shown = construct(scheduler) if makes else scheduler
        if not callable(getattr(shown, "start", None)):
            raise UsageError(f"policy: {name} has no start (accepted: a name, a Policy, or a class with {FORM})")
        if not isinstance(shown, type):
            check_takes(shown, name, FORM)
        correct = getattr(shown, "correct", "requested")
        check_word("correct", correct, CORRECTIONS)
        predictor, kill = getattr(shown, "predictor", "requested"), bool(getattr(shown, "kill", True))
        return cls(scheduler, name, predictor, correct, kill)

    def make(self) -> Any:
        """Return a fresh scheduler, so that each simulation begins with the scheduler's initial state."""
        if isinstance(self.scheduler, type) or not hasattr(self.scheduler, "start"):
            return construct(self.scheduler)
        return deepcopy(self.scheduler)


FORM = "start(queue, machine, now)"
MORE = "batchcast.testing.check_policy lists every other fault"


@dataclass
class OwnRun:
    """The state of one simulation: the job records of the compiled kernel, into which starts and first planned run
    times are written, and the state that the scheduler sees.

    `ends` and `plans` are heaps of (instant, job); after a correction, the entry with the old planned end stays in the
    heap.
    """

    policy: OwnPolicy
    requests: Sequence[JobRequest]
    statuses: Sequence[Name]
    jobs: np.ndarray
    machine: Machine
    predictor: Any = None
    plan_level: float | None = None

    def __post_init__(self) -> None:
        self.start, self.corrections = self.jobs["start"], 0
        self.run: list[float] = self.jobs["run"].tolist()
        self.first: list[float] = self.jobs["first"].tolist()
        self.where: list[Where] = [{}] * len(self.jobs)
        self.queue: dict[int, Job] = {}
        self.ends: list[tuple[float, int]] = []
        self.plans: list[tuple[float, int]] = []
        self.wakes: list[float] = []
        self.steps: dict[int, int] = {}
        self.events: list[Event] = []
        self.scheduler: Any = self.policy.make()
        check_takes(self.scheduler, self.policy.name, FORM)
        allocator = getattr(self.scheduler, "allocator", None)
        if allocator is not None:
            allocator = construct(allocator) if isinstance(allocator, type) else allocator
            name = getattr(allocator, "__name__", type(allocator).__name__)
            who = f"{self.policy.name}: the allocator {name}"
            if not callable(getattr(allocator, "place", None)):
                raise UsageError(f"{who} has no method place (accepted: an object with place(job, nodes), or a class)")
            check_takes(allocator, who, "place(job, nodes)")
            self.machine.allocator = allocator
        self.visible_state = system_state(self.machine.total, self.requests)
        self.driver = Driver({"": self.predictor}, self.visible_state)

    def go(self, tick: Callable[[int], None] | None = None) -> None:
        """Process all instants; at each instant it processes exceeded plans, then ends, then submissions, and then
        calls the scheduler."""
        submit = [request.submit_time for request in self.requests]
        arrived, count = 0, len(submit)
        while True:
            while self.plans and not self._is_plan(self.plans[0]):
                heappop(self.plans)
            heads = [submit[arrived]] if arrived < count else []
            heads += [heap[0][0] for heap in (self.ends, self.plans) if heap] + self.wakes[:1]
            if not heads:
                break
            now = self.machine.now = self.visible_state.now = min(heads)
            while self.wakes and self.wakes[0] <= now:
                heappop(self.wakes)
            self._correct(now)
            self._finish(now)
            while arrived < count and submit[arrived] == now:
                self._submit(arrived, now)
                arrived += 1
                if tick is not None and arrived % 1000 == 0:
                    tick(arrived)
            while True:
                self._ask(now)
                if not (self.ends and self.ends[0][0] <= now):
                    break
                self._finish(now)
        if self.queue:
            left, job = len(self.queue), next(iter(self.queue.values()))
            raise BatchcastError(
                f"{self.policy.name}: {left:,} jobs never start, the first is {job.job_id} ({job.procs} processors of"
                f" {self.machine.total}), and there is no further event (accepted: a policy that starts every job)",
                hint="machine.wake_at(time) requests a later call; batchcast.testing.check_policy finds other errors",
            )
        self.jobs["first"] = self.first

    def _is_plan(self, plan: tuple[float, int]) -> bool:
        job = self.machine._running.get(plan[1])
        return job is not None and job.planned_end == plan[0] and self._end(plan[1]) > plan[0]

    def _end(self, row: int) -> float:
        return float(self.start[row]) + self.run[row]

    def _tell(self, event: Event, planned_end: float | None = None) -> Any:
        """Pass an event to the predictor, and the event of a job that is not started here to the scheduler; return the
        prediction for a submitted job."""
        if not isinstance(event, Start):
            self.events.append(event)
        return self.driver.tell(event, planned_end=planned_end).get("") if self.predictor is not None else None

    def _correct(self, now: float) -> None:
        """Give jobs that exceed their plan a new planned run time: the predictor's revision, or the policy's rule."""
        while self.plans and self.plans[0][0] <= now:
            plan = heappop(self.plans)
            if not self._is_plan(plan):
                continue
            row = plan[1]
            job = self.machine._running[row]
            elapsed, step = now - job.start_time, self.steps.get(row, 0)
            self.steps[row], self.corrections = step + 1, self.corrections + 1
            rule = CORRECTIONS[self.policy.correct]
            job.planned = float(correct_plan(rule, elapsed, self.first[row], job.req_time, step))
            self._tell(Overdue(now, self.requests[row], elapsed), job.start_time + job.planned)
            if hasattr(self.predictor, "revise"):
                revised = self.predictor.revise(self.requests[row], elapsed, self.visible_state)
                if revised is not None:
                    job.planned = max(min(possible(float(revised), job.job_id), job.req_time), elapsed + 1.0)
                self.visible_state.plan(row, job.start_time + job.planned)
            self._plan(job)

    def _plan(self, job: Job) -> None:
        job.planned_end = job.start_time + job.planned
        heappush(self.plans, (job.planned_end, job.row))

    def _finish(self, now: float) -> None:
        while self.ends and self.ends[0][0] <= now:
            row = heappop(self.ends)[1]
            self.machine.give_back(self.machine._running[row])
            request = self.requests[row]
            wait = float(self.start[row]) - request.submit_time
            self._tell(End(now, request, self.run[row], wait, self.statuses[row]))

    def _submit(self, row: int, now: float) -> None:
        request = self.requests[row]
        forecast = self._tell(Submit(now, request))
        if self.predictor is not None:
            seconds = possible(planned_run_time(forecast, self.plan_level), request.job_id)
            self.first[row] = max(min(seconds, request.req_time), 1.0)
        self.queue[row] = Job(row, request, self.first[row], forecast)

    def _ask(self, now: float) -> None:
        """Call the scheduler once; the jobs that it yields start at once."""
        machine, waiting = self.machine, list(self.queue.values())
        if not waiting:  # the events stay for the next call, because a scheduler with state must see each of them
            return
        machine.events, self.events = tuple(self.events), []
        started = []
        try:
            for choice in self._choices(self.scheduler.start(waiting, machine, now), now):
                started.append(self._begin(*choice, now))
        except Exception as error:
            raise raised_outside(error, f"{self.policy.name}, at {now:g} s,", MORE) from error
        first = next(iter(self.queue), math.inf)
        for row in started:
            self.jobs["backfilled"][row] = row > first
        for time in machine.wakes:
            heappush(self.wakes, time)
        machine.wakes.clear()

    def _choices(self, chosen: Any, now: float) -> Iterable[tuple[Any, Any]]:
        if chosen is None:
            return
        if not isinstance(chosen, Iterable):
            one = " alone: yield it, or return a list," if isinstance(chosen, Job) else ""
            forms = "jobs, or pairs of a job and its processors by node"
            raise self._wrong(now, f"start answered {chosen!r}{one}", forms)
        for choice in chosen:
            yield choice if isinstance(choice, tuple) and len(choice) == 2 else (choice, None)

    def _begin(self, job: Any, where: Any, now: float) -> int:
        machine = self.machine
        if not isinstance(job, Job):
            raise self._wrong(now, f"it started {job!r}", "jobs of the queue")
        if self.queue.get(job.row) is not job:
            what = f"the policy started job {job.job_id}, which does not wait"
            raise self._wrong(now, what, "waiting jobs, each at most once")
        if job.procs > machine.free:
            what = f"the policy started job {job.job_id} on {job.procs} processors where {machine.free} are free"
            raise self._wrong(now, what, "jobs for which machine.fits(job)")
        if machine.nodes:
            by = self.scheduler.start if where is not None else machine.allocator.place
            where = machine.place(job) if where is None else where
            self._check_nodes(job, where, now, by)
        elif where is not None:
            raise self._wrong(now, f"the policy named nodes for job {job.job_id}", "jobs alone: this machine is a pool")
        del self.queue[job.row]
        job.start_time = self.start[job.row] = now
        machine.take(job, where)
        self.where[job.row] = job.nodes
        heappush(self.ends, (self._end(job.row), job.row))
        self._plan(job)
        self._tell(Start(now, self.requests[job.row], now - job.submit_time), job.planned_end)
        return job.row

    def _check_nodes(self, job: Job, where: Any, now: float, by: Any) -> None:
        nodes = self.machine.nodes
        if where is None:
            raise self._wrong(now, f"job {job.job_id} fits no nodes", "jobs for which machine.fits(job)")
        whole = isinstance(where, Mapping) and all(isinstance(procs, int | np.integer) for procs in where.values())
        if not whole or sum(where.values()) != job.procs:
            forms = f"{job.procs} whole processors by the numbers of their nodes, as {{0: {job.procs}}}"
            raise self._wrong(now, f"the policy put job {job.job_id} on {where!r}", forms, by)
        for number, procs in where.items():
            if not (number in range(len(nodes)) and 0 < procs <= nodes[number].free):
                free = f"{nodes[number].free} are free" if number in range(len(nodes)) else "there is no such node"
                what = f"the policy put job {job.job_id} on {procs} processors of node {number!r}, where {free}"
                raise self._wrong(now, what, f"free processors of nodes 0 to {len(nodes) - 1}", by)

    def _wrong(self, now: float, what: str, forms: str, by: Any = None) -> BatchcastError:
        """Return the error for an invalid result of scheduler or allocator, with source line and accepted forms."""
        by = by or self.scheduler.start
        own = getattr(by, "__self__", self.scheduler)
        allocator = f": the allocator {type(own).__name__}" if own is self.machine.allocator else ""
        who = f"{self.policy.name}{allocator}{standing_at(by)}"
        return BatchcastError(f"{who}, at {now:g} s: {what} (accepted: {forms})", hint=MORE)


def nodes_of(nodes: Any) -> list[Node]:
    """Create nodes from processor counts, or from a described machine (`machines.machine.Machine`).

    >>> nodes_of([4, 4])
    [<Node n1: 4 of 4 processors free>, <Node n2: 4 of 4 processors free>]
    """
    groups = getattr(nodes, "nodes", None)
    if groups is not None:
        named = [(name, group.cpus) for group in groups for name in group.names if name not in group.down]
        return [Node(number, procs, name) for number, (name, procs) in enumerate(named)]
    try:
        sizes = [int(procs) for procs in nodes]
    except (TypeError, ValueError):
        sizes = []
    if not sizes or min(sizes) < 1:
        raise UsageError(f"nodes: {nodes!r} (accepted: the processors of each node, as [16, 16], or a Machine)")
    return [Node(number, procs) for number, procs in enumerate(sizes)]
