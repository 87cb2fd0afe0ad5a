# SPDX-License-Identifier: Apache-2.0
"""The table of waiting and running jobs that a clock carries: one row a job, in order of submission.

Predictors in Python read the arrays, compiled ones take the record (`records`): nobody keeps the queue a second time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..job import JobRequest, Name
from ..records import array_fields, enlarged, point_to
from ..table import Trace

QUEUED, RUNNING, GONE = 1, 2, 3
SPOILED, PENDING, STARTED, LEFT = -1, 0, 1, 2
NO_LIMIT = 1e12
OUTAGE_S = 86400.0
NAMES = {
    "user_id": "user",
    "group_id": "group",
    "app_id": "app",
    "queue_id": "queue",
    "partition_id": "partition",
    "account": "account",
    "qos": "qos",
}
"""Columns of names and their fields in an entry: codes from 1 on, 0 is unknown."""

JOB = np.dtype(
    [
        ("row", "i8"),
        ("submit", "f8"),
        ("start", "f8"),  # NaN before it
        ("planned_end", "f8"),  # by the clock's own scheduler; NaN on clocks without one
        ("wait", "f8"),  # as delivered when it left the queue; NaN where that taught nothing
        ("procs", "f8"),  # unknown is 0
        ("limit", "f8"),  # unknown and unlimited are NO_LIMIT
        ("nodes", "f8"),  # these three: NaN where unknown
        ("memory_kib", "f8"),
        ("gpus", "f8"),
        ("turn", "i8"),  # rises along the queue and along the running set
        *((field, "i4") for field in NAMES.values()),
        ("status", "i1"),  # QUEUED, RUNNING, GONE
        ("lesson", "i1"),  # its wait taught when it STARTED or LEFT, UNTOLD yet, or SPOILED by an outage or a requeue
    ],
    align=True,
)
USER = np.dtype([("queued", "i8"), ("running", "i8"), ("queued_procs", "f8"), ("running_procs", "f8")])
EVENT = np.dtype([("time", "f8"), ("value", "f8"), ("entry", "i8"), ("rank", "i8")])
"""An event as a kernel takes it: `value` is the wait of a start or withdrawal, or the machine's new size."""

STATE = np.dtype(
    [
        *array_fields("jobs", "queue", "running", "users"),
        ("now", "f8"),
        ("size", "f8"),  # processors of the machine, NaN unknown
        ("entries", "i8"),
        ("turns", "i8"),
        *(("queue_first", "i8"), ("queue_end", "i8")),  # the queue in order of arrival: queue[first:end], entries
        *(("running_first", "i8"), ("running_end", "i8")),  # the running set in order of start
        ("queued_procs", "f8"),
        ("queued_work", "f8"),  # processor-seconds by the limits, where known
        ("queued_submits", "f8"),  # sum of the submit times
        ("running_procs", "f8"),
        ("running_ends", "f8"),  # sum of procs * (start + limit), where the limit is known
        ("outages", "i8"),
        # the event applied last
        ("entry", "i8"),  # of its job, -1 none
        ("was", "i8"),  # that job's status before
        ("taught", "f8"),  # the wait that it taught, NaN none
        *(("before_procs", "f8"), ("before_work", "f8"), ("before_submits", "f8")),  # of the queue
    ]
)


class Columns:
    """The arrays of a state and the record that points to them.

    `jobs` (JOB), `queue` and `running` (entries, between the first and the end that the record says), `users` (USER,
    by code). Memory is about 150 bytes for every job ever submitted.

    >>> Columns(8.0).record["size"].item()
    8.0
    """

    def __init__(self, total: float, capacity: int = 0) -> None:
        self.record = np.zeros(1, STATE)
        self.record["size"], self.record["entry"] = total, -1
        self.record["now"], self.record["taught"] = -math.inf, math.nan
        capacity = max(capacity, 64)
        self.jobs = np.zeros(capacity, JOB)
        self.queue, self.running = np.zeros(capacity + 1, np.int32), np.zeros(capacity + 1, np.int32)
        self.users = np.zeros(64, USER)
        self._point()

    def __getstate__(self) -> tuple[np.ndarray, ...]:
        return self.record, self.jobs, self.queue, self.running, self.users

    def __setstate__(self, state: tuple[np.ndarray, ...]) -> None:
        self.record, self.jobs, self.queue, self.running, self.users = state
        self._point()

    def _point(self) -> None:
        self.taught = self.record["taught"]
        point_to(self.record, jobs=self.jobs, queue=self.queue, running=self.running, users=self.users)

    def make_room(self, entries: int, users: int) -> None:
        """Room for so many jobs and user codes; amortised O(1)."""
        if entries > len(self.jobs):
            size = max(entries, 2 * len(self.jobs))
            self.jobs = enlarged(self.jobs, size)
            self.queue, self.running = enlarged(self.queue, size + 1), enlarged(self.running, size + 1)
            self._point()
        if users > len(self.users):
            self.users = enlarged(self.users, 2 * users)
            self._point()

    def keep(self, entries: np.ndarray) -> None:
        """Forget every job but these entries, ascending: they are 0, 1, ... then. What waits or runs is among them."""
        new = np.full(int(self.record["entries"][0]), -1, np.int32)
        new[entries] = np.arange(len(entries))
        orders = {"queue": new[self.queued_entries()], "running": new[self.running_entries()]}
        self.jobs = enlarged(self.jobs[entries], max(len(entries), 64))
        for name, order in orders.items():
            setattr(self, name, enlarged(order, len(self.jobs) + 1))
            self.record[f"{name}_first"], self.record[f"{name}_end"] = 0, len(order)
        self.record["entries"], self.record["entry"] = len(entries), -1
        self._point()

    def counts(self) -> tuple[int, int]:
        """How many jobs run and how many are queued."""
        state = self.record[0]
        return int(state["running_end"] - state["running_first"]), int(state["queue_end"] - state["queue_first"])

    def queued_entries(self) -> np.ndarray:
        """The queue in order of arrival."""
        return self.queue[int(self.record["queue_first"][0]) : int(self.record["queue_end"][0])]

    def running_entries(self) -> np.ndarray:
        """The running set in order of start."""
        return self.running[int(self.record["running_first"][0]) : int(self.record["running_end"][0])]


Codes = Mapping[str, Mapping[Name, int]]


def requests_of(trace: Trace, procs: str = "req") -> tuple[np.ndarray, Codes]:
    """The requests of a log as entries (JOB, n), nothing of their outcome, and the codes of all names by column."""
    seen = trace.at_submission()
    jobs = np.zeros(len(trace), JOB)
    jobs["row"], jobs["submit"] = np.arange(len(trace)), trace.submit_time
    for field in ("start", "planned_end", "wait"):
        jobs[field] = np.nan
    jobs["procs"], jobs["limit"] = clean_requests(trace.procs(procs), trace.req_time)
    for field, name in (("nodes", "req_nodes"), ("memory_kib", "req_mem_kib"), ("gpus", "req_gpus")):
        jobs[field] = seen.get(name, np.nan)
    codes: dict[str, Mapping[Name, int]] = {}
    for name, field in NAMES.items():
        column = trace.nominal(name)
        jobs[field] = column.codes + 1
        codes[name] = {category: code + 1 for code, category in enumerate(column.categories)}
    return jobs, codes


def entries_of(requests: Sequence[JobRequest]) -> tuple[np.ndarray, Codes]:
    """Requests as entries (JOB, n), in their order, and the codes of all names by column."""
    codes: dict[str, dict[Name, int]] = {name: {None: 0} for name in NAMES}
    jobs = np.zeros(len(requests), JOB)
    for entry, job in enumerate(requests):
        coded = [codes[name].setdefault(getattr(job, name), len(codes[name])) for name in NAMES]
        jobs[entry] = entry_of(job, job.submit_time, coded)
    return jobs, codes


def entry_of(job: JobRequest, time: float, codes: Sequence[int]) -> tuple[float | int, ...]:
    """A job that is submitted at `time` as an entry; `codes` are those of its names."""
    procs, limit = clean_request(job)
    outcome, machine = (math.nan, math.nan, math.nan), (job.req_nodes, job.req_mem_kib, job.req_gpus)
    return (job.row, time, *outcome, procs, limit, *machine, 0, *codes, 0, 0)


def clean_request(job: JobRequest) -> tuple[float, float]:
    """Processors and limit as an entry holds them: unknown processors are 0, an unknown limit NO_LIMIT."""
    procs = job.procs if job.procs == job.procs else 0.0
    return procs, job.req_time if job.req_time < NO_LIMIT else NO_LIMIT


def clean_requests(procs: np.ndarray, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`clean_request` on whole columns."""
    p, q = np.asarray(procs, float), np.asarray(limit, float)
    return np.where(np.isnan(p), 0.0, p), np.where(q < NO_LIMIT, q, NO_LIMIT)
