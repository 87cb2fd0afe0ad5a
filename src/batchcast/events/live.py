# SPDX-License-Identifier: Apache-2.0
"""The live clock: delivers the events of a batch system in the recorded clock's order, up to a safe instant.

A snapshot shows the state at an instant; jobs carry the instants of their own submission, start and end. An event is
not delivered when it is first seen: every step delivers all events up to an instant before which nothing more can
happen, sorted as the recorded clock sorts them. So a predictor is asked with the state of the job's submission, at
most one step late, and receives the stream that a replay of the exported log would give it. The forecasts are the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from heapq import heappop, heappush
from typing import Any, NamedTuple

from ..job import JobRequest, Name
from .driver import Driver
from .event import RANK, End, Event, Start, Submit, Withdraw, event_key
from .state import SystemState

TOLD_SUBMIT, DELIVERED_START, DELIVERED_GONE = 1, 2, 4
BITS: Mapping[type, int] = {Submit: TOLD_SUBMIT, Start: DELIVERED_START, End: DELIVERED_GONE, Withdraw: DELIVERED_GONE}

Key = tuple[float, int, int, int]


class LiveJob(NamedTuple):
    """A job as far as it is known: start and end are NaN while unknown.

    `told` are the bits of its events that were delivered, `heard` those of them that a restored clock has in its state
    already. `peak_mem_kib` is as in `End`, `nodes` as in `Start`.
    """

    request: JobRequest
    start_time: float = math.nan
    end_time: float = math.nan
    status: Name = None
    told: int = 0
    heard: int = 0
    peak_mem_kib: float = math.nan
    nodes: Name = None


def live_events(jobs: Iterable[LiveJob], until: float, only: int | None = None) -> list[Event]:
    """The events of `jobs` at or before `until` that were not delivered yet, in the order of `events.event`.

    `only` is for a restart: the events that *were* delivered and are not in the restored state (`heard`). A job that
    ends at its start, or leaves at its submission, does so in a further round of that instant, as on the recorded
    clock. O(n log n).
    """
    events = [placed for job in jobs for placed in _placed(job, until, only)]
    events.sort(key=lambda item: item[:2])
    return [event for _, _, event in events]


def live_stream(jobs: Iterable[LiveJob], until: float, only: int | None = None) -> Iterator[Event]:
    """The same events in the same order, of jobs that come in the order of their submission, delivered while they come.

    Nothing of a job happens before it is submitted, so what is earlier than the next job's submission can be delivered.
    In memory are the jobs that were waiting or running together, however long the history. O(n log k) for k of these.
    """
    pending: list[tuple[Key, tuple[float, ...], int, Event]] = []
    count = 0
    for job in jobs:
        while pending and pending[0][0][0] < job.request.submit_time:
            yield heappop(pending)[-1]
        for key, place, event in _placed(job, until, only):
            count += 1  # keys and places are never equal for one kind of event; events are not compared
            heappush(pending, (key, place, count, event))
    while pending:
        yield heappop(pending)[-1]


def _placed(job: LiveJob, until: float, only: int | None) -> Iterator[tuple[Key, tuple[float, ...], Event]]:
    """A job's wanted events with what they are sorted by."""
    place = log_place(job.request)
    if (
        job.told & (DELIVERED_START | DELIVERED_GONE) == DELIVERED_GONE
    ):  # delivered as withdrawn, whatever became known later
        job = job._replace(start_time=math.nan)
    for round_, event in _history(job):
        bit = BITS[type(event)]
        wanted = job.told & bit & ~job.heard if only is not None else not job.told & bit
        if wanted and event.time <= until:
            yield event_key(event.time, round_, RANK[type(event)], 0), place, event


def log_place(request: JobRequest) -> tuple[float, ...]:
    """Log order of one job: submit time, then job id (12_3, 12+1 as numbers), then row; as `table.log_order`."""
    if isinstance(request.job_id, int):
        return (request.submit_time, float(request.job_id), -1.0, request.row)
    match = re.match(r"(\d+)(?:\D+(\d+))?", request.job_id)
    if match is None:
        return (request.submit_time, math.inf, -1.0, request.row)
    return (request.submit_time, float(match[1]), float(match[2]) if match[2] else -1.0, request.row)


def _history(job: LiveJob) -> Iterable[tuple[int, Event]]:
    """A job's events as far as they are known, each with its round within its instant."""
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
    """Drives predictors with live events exactly as `recorded.replay` does with a log's.

    >>> from batchcast.predict.runtime.requested import Requested
    >>> clock = LiveClock({"requested": Requested()}, total=8.0)
    >>> job = JobRequest(0, "7", 100.0, 4.0, 60.0, math.nan)
    >>> clock.tell(Submit(100.0, job))["requested"].point, clock.state.queued_procs
    (60.0, 4.0)
    """

    beside: Callable[[Callable[[], Any]], Future[Any]] | None = None
    """Where a predictor's `fitting` is worked out, so that nobody waits for it: an executor's `submit`, or none."""

    def __init__(self, predictors: Mapping[str, Any], total: float = math.nan) -> None:
        super().__init__(predictors, SystemState(total))

    def before_asking(self) -> None:
        """Begin each due model fit in the background executor `beside`, if there is one."""
        for cadence in self.cadences.values() if self.beside is not None else ():
            if (fitting := getattr(cadence.predictor, "fitting", None)) is not None:
                fitting.begin(self.beside)

    def again(self, job: JobRequest) -> dict[str, Any]:
        """The predictors' answers for a job like this one that would be submitted now; nothing is learned.

        >>> from batchcast.predict.runtime.requested import Requested
        >>> clock = LiveClock({"requested": Requested()}, total=8.0)
        >>> clock.again(JobRequest(0, "7", 100.0, 4.0, 60.0, math.nan))["requested"].point, clock.state.queued_procs
        (60.0, 0.0)
        """
        job = job._replace(submit_time=max(self.state.now, job.submit_time))
        return {name: p.predict(job, self.state) for name, p in self.predictors.items()}

    def only(self, names: Iterable[str]) -> None:
        """Drive these predictors alone from now on, as they are: no more models are fitted."""
        self.predictors = {name: self.predictors[name] for name in names}
        self.cadences = {}
