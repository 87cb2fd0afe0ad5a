# SPDX-License-Identifier: Apache-2.0
"""The state of queue and machine that a clock (a source of events) maintains and that all its predictors share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from ..job import JobRequest, Name
from ..records import enlarged
from .event import CAPACITY, PLAN, RANK, Capacity, Change, End, Event, JobEvent, Requeue, Start, Submit, Withdraw
from .record import EVENT, JOB, LEFT, QUEUED, RUNNING, Codes, Columns, blank_codes, clean_request, coded, entry_of

Cancelled = Literal["count", "skip"]
Requests = Callable[[], tuple[np.ndarray, Codes]]
PENDING_ROOM = 4096
NOTHING = np.zeros(0, EVENT)


class Running(NamedTuple):
    """A running job, its start time and its planned end in seconds on the clock (NaN without a scheduler)."""

    job: JobRequest
    start_time: float
    planned_end: float = math.nan


def columns_after(total: float, requests: np.ndarray, codes: Codes, events: np.ndarray) -> Columns:
    """Return the arrays of the state after all `events` (an array of `EVENT`) on a machine of `total` processors."""
    from .kernel import apply_events

    columns = Columns(total, len(requests), len(codes["user_id"]) + 1)
    apply_events(columns.record, requests, events, 0, len(events))
    return columns


class SystemState:
    """What a scheduler knows at time `now`: the running jobs, the queue and the free processors.

    Predictors receive this object itself, not a copy, and must not change it.

    Parameters
    ----------
    total
        Processors of the machine. NaN means unknown.
    jobs
        All requests by row, if the event source (clock) knows the requests in advance. The clock then submits the jobs
        in order of their rows.
    requests
        Function that returns the requests in `jobs` as an array (`record.requests_of`). The function is called when the
        array is first needed.
    story
        Function that returns all events as an array of `EVENT`, if the event source (clock) knows the events in
        advance. The clock then applies exactly the events that `story` returns. The state uses an event only after the
        clock has applied it.

    Attributes
    ----------
    running
        `Running` by row of the job, in order of start.
    queued
        `JobRequest` by row of the job, in order of arrival.
    nodes
        Host list by row of the running job, for jobs whose nodes are known.
    nodes_away
        Names of nodes that are down or drained.
    usage
        Decayed usage of each (account, user) in processor-seconds, for Slurm's fair-share priority. Empty if there are
        no usage data.
    total
        Processors of the machine.
    free
        Processors that are not in use, at least 0. Some real logs run more jobs than their header's machine size
        allows.
    version
        Number of changes of the state so far. Predictors use the number to notice that a cached value is outdated.

    Notes
    -----
    The event source (clock) passes events to `apply`, which only records the event (32 bytes) and takes half a
    microsecond. The arrays of `columns()` are updated when they are read: one compiled call applies all events since
    the last update.

    Examples
    --------
    >>> from batchcast.events.event import Submit, Start
    >>> job = JobRequest(0, 1, 0.0, 4.0, 60.0, float("nan"))
    >>> state = SystemState(total=10.0)
    >>> state.apply(Submit(0.0, job)); state.apply(Start(0.0, job, 0.0)); state.free
    6.0
    """

    usage: Mapping[tuple[str, str], float] = MappingProxyType({})

    def __init__(
        self,
        total: float = math.nan,
        jobs: Sequence[JobRequest] | None = None,
        requests: Requests | None = None,
        story: Callable[[], np.ndarray] | None = None,
    ) -> None:
        self.now = 0.0
        self.version = 0
        self._total = self._initial = total
        self._columns: Columns | None = None
        self._pending: np.ndarray = NOTHING
        self._first = self._count = 0
        self._story = story
        self._events = NOTHING
        self._waits: list[tuple[float, bool]] | None = None
        self._event: Any = None  # the event that was applied last
        self.nodes: dict[int, str] = {}
        self.nodes_away: frozenset[str] = frozenset()
        self._last_entry = -1
        self._log_jobs = jobs
        self._requests = requests
        self._source: np.ndarray = np.zeros(0, JOB)
        self._codes = blank_codes()
        self._jobs: list[JobRequest | None] = []
        self._entry: dict[int, int] = {}
        self.running: Mapping[int, Running] = _Jobs(self, RUNNING)
        self.queued: Mapping[int, JobRequest] = _Jobs(self, QUEUED)

    @property
    def total(self) -> float:
        """Processors of the machine; NaN if unknown."""
        return self._total

    @total.setter
    def total(self, total: float) -> None:
        self._total = total
        self.columns().record["size"] = total

    @property
    def free(self) -> float:
        """Free processors; NaN if the size of the machine is unknown."""
        left = self._total - self.running_procs
        # `not left < 0` is true for NaN, so that an unknown size stays unknown.
        return left if not left < 0 else 0.0

    @property
    def running_procs(self) -> float:
        """Processors of the running jobs; a job with an unknown number counts 0."""
        return float(self.columns().record["running_procs"][0])

    @property
    def queued_procs(self) -> float:
        """Processors requested by the queued jobs; a job with an unknown number counts 0."""
        return float(self.columns().record["queued_procs"][0])

    def columns(self) -> Columns:
        """Return the state as arrays, up to date."""
        if self._columns is None:
            self._columns = self._begin()
        if self._count > self._first:
            self._take_in_pending(self._columns)
        return self._columns

    def entry(self, event: Event) -> int:
        """Return the entry, in the arrays of `columns()`, of the job of the event that was applied last.

        Parameters
        ----------
        event
            An event.

        Returns
        -------
        int
            The entry of the event's job. -1 if the event has no job or is not the last event.
        """
        if isinstance(event, Capacity):
            return -1
        row, last = event.job.row, self._event
        if event is not last and (type(event) is not type(last) or (event.time, row) != (last.time, last.job.row)):
            return -1
        return row if self._log_jobs is not None else self._last_entry

    def taught(self, event: Event, cancelled: Cancelled = "count") -> float | None:
        """Return the wait that predictors can learn from the event that was applied last.

        Parameters
        ----------
        event
            The event.
        cancelled
            `count`: also learn from jobs that left the queue without running. `skip`: ignore them.

        Returns
        -------
        float or None
            The queue wait in seconds. None if there is no wait to learn from.

        Notes
        -----
        Predictors ignore a wait if it is unknown or negative, if the job is larger than the machine, if there was an
        outage during the wait (a day without events although a queued job fitted into the free processors), or if the
        job was requeued.
        """
        if not isinstance(event, (Start, Withdraw)) or (entry := self.entry(event)) < 0:
            return None
        if self._story is not None:
            wait, left = self._lessons()[entry]
        else:
            columns = self.columns()
            wait, left = columns.taught.item(), columns.jobs["lesson"][entry] == LEFT
        return None if wait != wait or (cancelled == "skip" and left) else wait

    def _lessons(self) -> list[tuple[float, bool]]:
        """Returns, for each job, the wait that predictors may learn (NaN: no wait) and whether the job left without
        running.

        The method requires that all events are known in advance (`story`).

        One compiled call computes the waits of all jobs, so that the arrays need no update at every start.
        """
        if self._waits is None:
            self._read()
            columns = columns_after(self._initial, self._source, self._codes, self._events)
            self._waits = list(zip(columns.jobs["wait"].tolist(), (columns.jobs["lesson"] == LEFT).tolist()))
        return self._waits

    def code(self, name: str, value: Name) -> int:
        """Return the code of a name in the arrays of `columns()`.

        Parameters
        ----------
        name
            A column of `record.NAMES`.
        value
            The name.

        Returns
        -------
        int
            0 for an unknown name (None); -1 for a name that has not occurred so far.
        """
        self.columns()
        return self._codes[name].get(value, -1)

    def apply(self, event: Event) -> None:
        """Move the clock to an event's time and apply the event. Only clocks (sources of events) call this method.

        Parameters
        ----------
        event
            The event.
        """
        self.now = event.time
        self.version += 1
        self._event = event
        if isinstance(event, Start):
            if event.nodes is not None:
                self.nodes[event.job.row] = str(event.nodes)
        elif self.nodes and isinstance(event, End | Requeue):
            self.nodes.pop(event.job.row, None)
        if self._story is not None:  # the array of all events contains this event already
            self._count += 1
        elif isinstance(event, Capacity):
            self._note(event.time, event.procs, -1, CAPACITY)
            self._total = event.procs
        else:
            wait = event.wait_time if isinstance(event, (Start, Withdraw)) else 0.0
            self._note(event.time, wait, self._entry_for(event), RANK[type(event)])

    def _entry_for(self, event: JobEvent) -> int:
        """Return the entry of an event's job: the job's row if all requests are known in advance, else a running
        number.
        """
        row = event.job.row
        if self._log_jobs is not None:
            return row
        if isinstance(event, Submit):
            self._last_entry = self._submit(event.time, event.job)
            return self._last_entry
        self._last_entry = entry = self._entry[row]
        if isinstance(event, Change):
            self._change(entry, event.job)
        elif isinstance(event, (End, Withdraw)):
            # The row can be submitted again: the live system may show a job again that was given up as lost.
            del self._entry[row]
            self._jobs[entry] = None
        return entry

    def forget(self) -> None:
        """Drop the data of jobs that have left, so that memory does not grow with the log. Entries are renumbered.

        The method is for event sources that do not know the requests in advance, and for predictors that identify jobs
        by row.
        """
        columns = self.columns()
        present = columns.jobs["status"][: int(columns.record["entries"][0])]
        kept_entries = np.flatnonzero((present == QUEUED) | (present == RUNNING))
        columns.keep(kept_entries)
        self._source = self._source[kept_entries]
        self._jobs = [self._jobs[entry] for entry in kept_entries.tolist()]
        self._entry = {row: entry for entry, row in enumerate(columns.jobs["row"][: len(kept_entries)].tolist())}
        # After the renumbering, the entry of the last event would be the entry of another job.
        self._last_entry, self._event = -1, None

    def plan(self, row: int, planned_end: float) -> None:
        """Set the planned end of a running job.

        Parameters
        ----------
        row
            Row of the job.
        planned_end
            Planned end in seconds on the clock.
        """
        self.version += 1
        self._note(self.now, planned_end, self.entry_of_row(row), PLAN)

    def _note(self, time: float, value: float, entry: int, rank: int) -> None:
        """Record an event in the array of pending events."""
        if self._count == len(self._pending):
            if self._columns is not None and self._count:
                self._take_in_pending(self._columns)
            else:  # no columns exist yet, so the array of pending events must grow
                self._pending = enlarged(self._pending, 2 * self._count + PENDING_ROOM)
        self._pending[self._count] = (time, value, entry, rank)
        self._count += 1

    def _begin(self) -> Columns:
        """Return new columns, with the requests and events that the event source knows in advance."""
        self._read()
        if self._story is not None:
            self._pending = self._events
        return Columns(self._initial, len(self._source))

    def _read(self) -> None:
        """Read the requests and the events (`story`) that the event source knows in advance, at the first call."""
        if self._requests is not None:
            (self._source, self._codes), self._requests = self._requests(), None
        if self._story is not None and not len(self._events):
            self._events = self._story()

    def _take_in_pending(self, columns: Columns) -> None:
        """Apply all recorded but unapplied events to the columns."""
        from .kernel import apply_events

        if self._story is None or not self._first:  # with a `story`, allocate for the whole log
            columns.make_room(len(self._source), len(self._codes["user_id"]) + 1)
        apply_events(columns.record, self._source, self._pending, self._first, self._count)
        # With a `story`, the pending array is the array of all events, so its positions continue.
        if self._story is None:
            self._count = 0
        self._first = self._count

    def _submit(self, time: float, job: JobRequest) -> int:
        """Assign the next entry to a submitted job and return the entry."""
        entry = len(self._jobs)
        self._jobs.append(job)
        self._entry[job.row] = entry
        if entry >= len(self._source):
            self._source = enlarged(self._source, 2 * entry + 64)
        self._source[entry] = entry_of(job, time, coded(job, self._codes))
        return entry

    def _change(self, entry: int, job: JobRequest) -> None:
        """Replace the request of a job."""
        self.columns()  # first apply a pending submission, with the old request
        self._jobs[entry] = job
        self._source[entry]["procs"], self._source[entry]["limit"] = clean_request(job)

    def _job(self, entry: int) -> JobRequest:
        """Return the request of the job with a given entry."""
        job = self._log_jobs[entry] if self._log_jobs is not None else self._jobs[entry]
        assert job is not None
        return job

    def entry_of_row(self, row: int) -> int:
        """Return the entry of a queued or running job.

        Parameters
        ----------
        row
            Row of the job.

        Raises
        ------
        KeyError
            If the job is neither queued nor running.
        """
        return row if self._log_jobs is not None else self._entry[row]

    def __getstate__(self) -> dict[str, object]:
        # Pending events are applied first, so that only the arrays are saved.
        self.columns()
        # The clock's functions cannot be pickled, and a restored state continues with single events.
        left_out = ("running", "queued", "_requests", "_story", "_events", "_waits", "_pending", "_first", "_count")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _requests=None, _story=None, _events=NOTHING, _waits=None)
        self.__dict__.update(_pending=NOTHING, _first=0, _count=0)
        self.running, self.queued = _Jobs(self, RUNNING), _Jobs(self, QUEUED)


class _Jobs(Mapping[int, Any]):
    """The running or the queued jobs by row, read from the columns; a value is a `Running` or a request."""

    def __init__(self, state: SystemState, status: int) -> None:
        self._state, self._status = state, status

    def _entries(self) -> np.ndarray:
        columns = self._state.columns()
        return columns.running_entries() if self._status == RUNNING else columns.queued_entries()

    def __len__(self) -> int:
        return len(self._entries())

    def __iter__(self) -> Iterator[int]:
        entries = self._entries()
        return iter(self._state.columns().jobs["row"][entries].tolist())

    def __getitem__(self, row: int) -> Any:
        columns, entry = self._state.columns(), self._state.entry_of_row(row)
        if not 0 <= entry < columns.record["entries"][0] or columns.jobs["status"][entry] != self._status:
            raise KeyError(row)
        request, job = self._state._job(entry), columns.jobs[entry]
        if self._status == QUEUED:
            return request
        return Running(request, float(job["start"]), float(job["planned_end"]))
