# SPDX-License-Identifier: Apache-2.0
"""The live clock: delivers the events of a live batch system in the same order as a replay of a log.

A snapshot of the batch system lists jobs with the times of their submission, start and end. The live clock does not
deliver an event as soon as a snapshot shows the event. Instead, each step delivers all events up to a time before which
no more events can appear, in the same order as a replay of a log. Therefore a prediction uses the system state at the
job's submission, and is made at most one step late. Predictors receive the same events as in a replay of the exported
log, and therefore make the same predictions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from heapq import heappop, heappush
from typing import Any, NamedTuple

from ..job import DELIVERED_GONE, DELIVERED_START, TOLD_SUBMIT, JobRequest, Name
from .driver import Driver
from .event import RANK, End, Event, Start, Submit, Withdraw
from .state import SystemState

BITS: Mapping[type, int] = {Submit: TOLD_SUBMIT, Start: DELIVERED_START, End: DELIVERED_GONE, Withdraw: DELIVERED_GONE}

Key = tuple[float, int, int]  # time, round within the instant, rank of the kind of event


class LiveJob(NamedTuple):
    """What is known so far about a job of a live batch system."""

    request: JobRequest  # The request of the job: all data that was known at submission
    start_time: float = math.nan  # Start and end time in epoch seconds; NaN as long as the job has not started or ended
    end_time: float = math.nan
    status: Name = None  # Final status of the job, as a word of `columns.py`. None means unknown.
    told: int = 0  # Bits (see `BITS`) of the events that were delivered to predictors
    heard: int = 0  # Bits of the delivered events that the saved state of a restarted service already contains
    peak_mem_kib: float = math.nan  # Peak memory and nodes, as in the events `End` and `Start`
    nodes: Name = None


def live_events(jobs: Iterable[LiveJob], until: float, only: int | None = None) -> list[Event]:
    """Return the events up to `until` (epoch seconds) that were not delivered yet, in the order of `events.event`; with
    `only`, the delivered events that a restored state lacks.
    """
    # If a job ends at the instant of its start, or leaves at the instant of its submission, the end is in a further
    # round of that instant, as in a replay. O(n log n).
    events = [placed for job in jobs for placed in _placed(job, until, only)]
    events.sort(key=lambda item: item[:2])
    return [event for _, _, event in events]


def live_stream(jobs: Iterable[LiveJob], until: float, only: int | None = None) -> Iterator[Event]:
    """Yield the events of `live_events` one by one, while jobs arrive in order of submission."""
    # A job has no events before its submission, so all events before the next job's submission can be delivered. Only
    # the events of jobs that wait or run at the same time are in memory. Costs O(n log k), if at most k jobs wait or
    # run at the same time.
    pending: list[tuple[Key, tuple[float, ...], int, Event]] = []
    count = 0
    for job in jobs:
        while pending and pending[0][0][0] < job.request.submit_time:
            yield heappop(pending)[-1]
        for key, place, event in _placed(job, until, only):
            count += 1  # a unique number, so that heapq does not compare two events
            heappush(pending, (key, place, count, event))
    while pending:
        yield heappop(pending)[-1]


def _placed(job: LiveJob, until: float, only: int | None) -> Iterator[tuple[Key, tuple[float, ...], Event]]:
    """Yield the events of a job that must be delivered now, each with its sort key and the job's sort key in log
    order.
    """
    place = log_place(job.request)
    if job.told & (DELIVERED_START | DELIVERED_GONE) == DELIVERED_GONE:
        # The job's withdrawal has already been delivered. A start time that became known later must not change
        # delivered events.
        job = job._replace(start_time=math.nan)
    for round_, event in _history(job):
        bit = BITS[type(event)]
        wanted = job.told & bit & ~job.heard if only is not None else not job.told & bit
        if wanted and event.time <= until:
            yield (event.time, round_, RANK[type(event)]), place, event


def log_place(request: JobRequest) -> tuple[float, ...]:
    """Return the sort key of a job in log order, as `table.log_order`: submit time, then the two numbers of the job id
    (12_3, 12+1), then row.
    """
    if isinstance(request.job_id, int):
        return (request.submit_time, float(request.job_id), -1.0, request.row)
    match = re.match(r"(\d+)(?:\D+(\d+))?", request.job_id)
    first, second = match.groups(-1) if match else (math.inf, -1)
    return (request.submit_time, float(first), float(second), request.row)


def _history(job: LiveJob) -> Iterable[tuple[int, Event]]:
    """Yield the known events of a job, each with the number of its round among the events of the same instant."""
    request, submit = job.request, job.request.submit_time
    yield 0, Submit(submit, request)
    if not math.isnan(job.start_time):
        start = max(job.start_time, submit)
        yield 0, Start(start, request, start - submit, job.nodes)
        if not math.isnan(job.end_time):
            run = max(job.end_time - start, 0.0)
            yield int(run == 0), End(start + run, request, run, start - submit, job.status, job.peak_mem_kib)
    elif not math.isnan(job.end_time):
        left = max(job.end_time, submit)
        yield int(left == submit), Withdraw(left, request, left - submit)


class LiveClock(Driver):
    """Passes live events to predictors, as `recorded.replay` passes the events of a log.

    >>> from batchcast.predict.runtime.baselines import Requested
    >>> clock = LiveClock({"requested": Requested()}, total=8.0)
    >>> job = JobRequest(0, "7", 100.0, 4.0, 60.0, math.nan)
    >>> clock.tell(Submit(100.0, job))["requested"].point, clock.state.queued_procs
    (60.0, 4.0)
    """

    fit_in_background: Callable[[Callable[[], Any]], Future[Any]] | None = None
    """The `submit` method of an executor that fits models in the background. If None, a model is fitted when it is
    needed.
    """

    def __init__(self, predictors: Mapping[Any, Any], total: float = math.nan) -> None:
        super().__init__(predictors, SystemState(total))

    def before_asking(self) -> None:
        """Begin each due model fit in the background executor `fit_in_background`, if there is one."""
        for cadence in self.cadences.values() if self.fit_in_background is not None else ():
            if (fitting := getattr(cadence.predictor, "fitting", None)) is not None:
                fitting.begin(self.fit_in_background)

    def again(self, job: JobRequest) -> dict[Any, Any]:
        """Predict a job as if it were submitted now. The predictors do not learn from this prediction. A submit time
        before the last delivered event is replaced by the time of this event.

        >>> from batchcast.predict.runtime.baselines import Requested
        >>> clock = LiveClock({"requested": Requested()}, total=8.0)
        >>> clock.again(JobRequest(0, "7", 100.0, 4.0, 60.0, math.nan))["requested"].point, clock.state.queued_procs
        (60.0, 0.0)
        """
        job = job._replace(submit_time=max(self.state.now, job.submit_time))
        return {name: p.predict(job, self.state) for name, p in self.predictors.items()}

    def only(self, names: Iterable[Any]) -> None:
        """Drop all predictors except `names`, and stop fitting models."""
        self.predictors = {name: self.predictors[name] for name in names}
        self.cadences = {}
