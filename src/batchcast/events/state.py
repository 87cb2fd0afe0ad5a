# SPDX-License-Identifier: Apache-2.0
"""SystemState: the running set, the queue and the free processors, as the clock knows them; one for all predictors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from ..job import JobRequest, Name
from ..records import enlarged
from .event import CAPACITY, PLAN, RANK, Capacity, Change, End, Event, JobEvent, Requeue, Start, Submit, Withdraw
from .record import EVENT, JOB, LEFT, NAMES, QUEUED, RUNNING, Codes, Columns, clean_request, entry_of

Cancelled = Literal["count", "skip"]
Requests = Callable[[], tuple[np.ndarray, Codes]]
PENDING_ROOM = 4096
NOTHING = np.zeros(0, EVENT)


class Running(NamedTuple):
    """A job on the machine: since when, and until when the plan holds it (NaN on clocks without a plan)."""

    job: JobRequest
    start_time: float
    planned_end: float = math.nan


class SystemState:
    """What a scheduler knows at `now`; handed to predictors as it is, read-only by its interface, never copied.

    `running` maps a job's row to `Running` in order of start, `queued` maps it to `JobRequest` in order of arrival,
    `nodes` the row of one that runs to the host list it holds, where that is known; `nodes_away` are down or
    drained now, and `usage` is what each (account, user) counts to have used in processor-seconds, by which fair-share
    ranks them, where somebody told the clock. `columns()` is the same as arrays, for predictors in numpy and for
    compiled ones. `total` is the machine's processors (NaN when unknown); `free` is total minus what runs, never
    below 0, since real logs sometimes run more than their header admits. `version` counts the changes, so that what
    was derived from a state can be told from what is stale.

    A clock owns the state and feeds it with `apply`: O(1), half a microsecond. The columns are brought up to date when
    somebody reads them, all events since the last reading in one compiled call, so a clock whose predictors read
    nothing pays nothing but 32 bytes an event. A clock that knows all requests beforehand (`jobs`, by row, and their
    columns `requests`, made when first read) submits them in order of their rows; one that knows all events too
    (`story`, EVENT) applies them in that order, and the state reads none before it was applied.

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
        self._event: Event | None = None
        self.nodes: dict[int, str] = {}
        self.nodes_away: frozenset[str] = frozenset()
        self._last_entry = -1
        self._known = jobs
        self._requests = requests
        self._source: np.ndarray = np.zeros(0, JOB)
        self._codes: Codes = {name: {} for name in NAMES}
        self._jobs: list[JobRequest | None] = []
        self._entry: dict[int, int] = {}
        self.running: Mapping[int, Running] = _RunningJobs(self)
        self.queued: Mapping[int, JobRequest] = _QueuedJobs(self)

    @property
    def total(self) -> float:
        """The machine's processors; NaN when unknown."""
        return self._total

    @total.setter
    def total(self, total: float) -> None:
        self._total = total
        self.columns().record["size"] = total

    @property
    def free(self) -> float:
        """Free processors; NaN when the machine's size is unknown."""
        left = self._total - self.running_procs
        return left if not left < 0 else 0.0

    @property
    def running_procs(self) -> float:
        """Processors of the running jobs; an unknown number counts nothing."""
        return float(self.columns().record["running_procs"][0])

    @property
    def queued_procs(self) -> float:
        """Processors of the queued jobs; an unknown number counts nothing."""
        return float(self.columns().record["queued_procs"][0])

    def columns(self) -> Columns:
        """The state as arrays, up to date."""
        if self._columns is None:
            self._columns = self._begin()
        if self._count > self._first:
            self._take_in_pending(self._columns)
        return self._columns

    def entry(self, event: Event) -> int:
        """The entry in the columns of the job of the event applied last; -1 for any other event, or none."""
        if isinstance(event, Capacity) or not (event is self._event or self._is_last(event)):
            return -1
        return event.job.row if self._known is not None else self._last_entry

    def _is_last(self, event: Event) -> bool:
        last = self._event
        if isinstance(event, Capacity) or last is None or isinstance(last, Capacity):
            return False
        return type(event) is type(last) and (event.time, event.job.row) == (last.time, last.job.row)

    def taught(self, event: Event, cancelled: Cancelled = "count") -> float | None:
        """The wait in seconds that the event applied last taught; None: none.

        A wait teaches nothing when it is unknown or negative, when the job is larger than the machine, when an outage
        lies in it (a day without any event although a queued job had room), when the job was requeued in it, or, with
        `cancelled="skip"`, when the job left without running.
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
        """What every job's wait teaches once it is over, NaN nothing, and whether it left; for a known story.

        The columns need then not be brought up to date at every start: one compiled call instead of one a job.
        """
        if self._waits is None:
            from .kernel import apply_events

            story, columns = self._read_story(), Columns(self._initial, len(self._source))
            columns.make_room(len(self._source), len(self._codes["user_id"]) + 1)
            apply_events(columns.record, self._source, story, 0, len(story))
            self._waits = list(zip(columns.jobs["wait"].tolist(), (columns.jobs["lesson"] == LEFT).tolist()))
        return self._waits

    def code(self, name: str, value: Name) -> int:
        """The code of a name (`NAMES`) in the columns; 0 unknown, -1 never seen by this clock."""
        self.columns()
        return 0 if value is None else self._codes[name].get(value, -1)

    def apply(self, event: Event) -> None:
        """Move to the event's instant and take it in. For clocks: predictors are handed the state afterwards."""
        self.now = event.time
        self.version += 1
        self._event = event
        if isinstance(event, Start):
            if event.nodes is not None:
                self.nodes[event.job.row] = str(event.nodes)
        elif self.nodes and isinstance(event, End | Requeue):
            self.nodes.pop(event.job.row, None)
        if self._story is not None:  # the event lies there already
            self._count += 1
        elif isinstance(event, Capacity):
            self._note(event.time, event.procs, -1, CAPACITY)
            self._total = event.procs
        else:
            wait = event.wait_time if isinstance(event, (Start, Withdraw)) else 0.0
            self._note(event.time, wait, self._entry_for(event), RANK[type(event)])

    def _entry_for(self, event: JobEvent) -> int:
        """The entry of the event's job: its row where the clock knows all requests, else the one it got as it came."""
        row = event.job.row
        if self._known is not None:
            return row
        if isinstance(event, Submit):
            self._last_entry = self._submit(event.time, event.job)
            return self._last_entry
        self._last_entry = entry = self._entry[row]
        if isinstance(event, Change):
            self._change(entry, event.job)
        elif isinstance(event, (End, Withdraw)):
            del self._entry[row]
            self._jobs[entry] = None
        return entry

    def forget(self) -> None:
        """Drop what is kept of jobs that have left: memory does not grow with the log. Entries are numbered anew.

        For a clock that learns of requests as they come, and predictors that keep jobs by row and never by entry.
        """
        columns = self.columns()
        present = columns.jobs["status"][: int(columns.record["entries"][0])]
        kept = np.flatnonzero((present == QUEUED) | (present == RUNNING))
        columns.keep(kept)
        self._source = self._source[kept]
        self._jobs = [self._jobs[entry] for entry in kept.tolist()]
        self._entry = {row: entry for entry, row in enumerate(columns.jobs["row"][: len(kept)].tolist())}
        self._last_entry, self._event = -1, None

    def plan(self, row: int, planned_end: float) -> None:
        """The clock's scheduler now holds the running job until `planned_end`."""
        self.version += 1
        self._note(self.now, planned_end, row if self._known is not None else self._entry[row], PLAN)

    def _note(self, time: float, value: float, entry: int, rank: int) -> None:
        if self._count == len(self._pending):
            if self._columns is not None and self._count:
                self._take_in_pending(self._columns)
            else:  # nobody has read yet: nothing but room is needed
                self._pending = enlarged(self._pending, 2 * self._count + PENDING_ROOM)
        self._pending[self._count] = (time, value, entry, rank)
        self._count += 1

    def _begin(self) -> Columns:
        """Make the columns: those of all requests that will come, where the clock knows them."""
        if self._story is not None:
            self._pending = self._read_story()
        elif self._requests is not None:
            self._source, self._codes = self._requests()
        return Columns(self._initial, len(self._source))

    def _read_story(self) -> np.ndarray:
        """All events of a known story, read once, and its requests."""
        if self._story is not None and not len(self._events):
            self._events = self._story()
            if self._requests is not None:
                self._source, self._codes = self._requests()
        return self._events

    def _take_in_pending(self, columns: Columns) -> None:
        from .kernel import apply_events

        if self._story is None or not self._first:  # a clock that knows the whole log makes room once
            columns.make_room(len(self._source), len(self._codes["user_id"]) + 1)
        apply_events(columns.record, self._source, self._pending, self._first, self._count)
        if self._story is None:
            self._count = 0
        self._first = self._count

    def _submit(self, time: float, job: JobRequest) -> int:
        """The next entry is this job's."""
        entry = len(self._jobs)
        self._jobs.append(job)
        self._entry[job.row] = entry
        if entry >= len(self._source):
            self._source = enlarged(self._source, 2 * entry + 64)
        self._source[entry] = entry_of(job, time, [self._coded(name, getattr(job, name)) for name in NAMES])
        return entry

    def _change(self, entry: int, job: JobRequest) -> None:
        """The request as it stands now."""
        self.columns()  # takes the submission in as it was
        self._jobs[entry] = job
        self._source[entry]["procs"], self._source[entry]["limit"] = clean_request(job)

    def _coded(self, name: str, value: Name) -> int:
        codes = self._codes[name]
        assert isinstance(codes, dict)
        return 0 if value is None else codes.setdefault(value, len(codes) + 1)

    def _job(self, entry: int) -> JobRequest:
        job = self._known[entry] if self._known is not None else self._jobs[entry]
        assert job is not None
        return job

    def place(self, row: int) -> int:
        """The entry in the columns of a queued or running job, by its row; KeyError where there is none."""
        return row if self._known is not None else self._entry[row]

    def _find(self, row: int, status: int) -> int:
        """The entry of a job of that status; KeyError where there is none."""
        columns = self.columns()
        entry = self.place(row)
        if not 0 <= entry < columns.record["entries"][0] or columns.jobs["status"][entry] != status:
            raise KeyError(row)
        return entry

    def __getstate__(self) -> dict[str, object]:
        self.columns()
        left_out = ("running", "queued", "_requests", "_story", "_events", "_waits", "_pending", "_first", "_count")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _requests=None, _story=None, _events=NOTHING, _waits=None)
        self.__dict__.update(_pending=NOTHING, _first=0, _count=0)
        self.running, self.queued = _RunningJobs(self), _QueuedJobs(self)


class _RunningJobs(Mapping[int, Running]):
    """The running set by row, read from the columns."""

    def __init__(self, state: SystemState) -> None:
        self._state = state

    def __len__(self) -> int:
        return len(self._state.columns().running_entries())

    def __iter__(self) -> Iterator[int]:
        columns = self._state.columns()
        return iter(columns.jobs["row"][columns.running_entries()].tolist())

    def __getitem__(self, row: int) -> Running:
        entry = self._state._find(row, RUNNING)
        job = self._state.columns().jobs[entry]
        return Running(self._state._job(entry), float(job["start"]), float(job["planned_end"]))


class _QueuedJobs(Mapping[int, JobRequest]):
    """The queue by row, read from the columns."""

    def __init__(self, state: SystemState) -> None:
        self._state = state

    def __len__(self) -> int:
        return len(self._state.columns().queued_entries())

    def __iter__(self) -> Iterator[int]:
        columns = self._state.columns()
        return iter(columns.jobs["row"][columns.queued_entries()].tolist())

    def __getitem__(self, row: int) -> JobRequest:
        return self._state._job(self._state._find(row, QUEUED))
