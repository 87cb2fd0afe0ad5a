# SPDX-License-Identifier: Apache-2.0
"""The arrays of the system state: one row per job in order of submission, and the queue and the running jobs as lists
of indices.

Predictors in Python read the arrays, and compiled predictors receive the record (`records`), so there is only one copy
of the queue. In this module, the *entry* of a job is its index in these arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..job import BEYOND, JobRequest, Name
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
    "gpu_type": "gpu_type",
}
"""Nominal columns and their fields in `JOB`. The fields contain codes from 1 on; the code 0 means unknown."""

JOB = np.dtype(
    [
        ("row", "i8"),
        ("submit", "f8"),
        ("start", "f8"),  # NaN before the start
        ("planned_end", "f8"),  # set by the clock's scheduler; NaN on clocks without a scheduler
        ("wait", "f8"),  # the wait when the job left the queue; NaN if predictors must not learn it
        ("procs", "f8"),  # 0 if unknown
        ("limit", "f8"),  # NO_LIMIT if unknown or unlimited
        ("nodes", "f8"),  # requested nodes, memory and GPUs: NaN if unknown
        ("memory_kib", "f8"),
        ("gpus", "f8"),
        ("turn", "i8"),  # sequence number: increases along the queue and along the running jobs
        *((field, "i4") for field in NAMES.values()),
        ("status", "i1"),  # QUEUED, RUNNING, GONE
        ("lesson", "i1"),  # PENDING; STARTED or LEFT after its wait; SPOILED (do not learn) by an outage or a requeue
    ],
    align=True,
)
USER = np.dtype([("queued", "i8"), ("running", "i8"), ("queued_procs", "f8"), ("running_procs", "f8")])
EVENT = np.dtype([("time", "f8"), ("value", "f8"), ("entry", "i8"), ("rank", "i8")])
"""An event for a kernel. `value` is the wait of a start or withdrawal, or the machine's new size."""

STATE = np.dtype(
    [
        *array_fields("jobs", "queue", "running", "users"),
        ("now", "f8"),
        ("size", "f8"),  # processors of the machine; NaN if unknown
        ("entries", "i8"),
        ("turns", "i8"),
        *(("queue_first", "i8"), ("queue_end", "i8")),  # the queue in order of arrival: queue[first:end], entries
        *(("running_first", "i8"), ("running_end", "i8")),  # the running jobs, likewise, in order of start
        ("queued_procs", "f8"),
        ("queued_work", "f8"),  # requested processor-seconds of jobs with a known limit
        ("queued_submits", "f8"),  # sum of the submit times
        ("running_procs", "f8"),
        ("running_ends", "f8"),  # sum of procs * (start + limit) over jobs with a known limit
        ("outages", "i8"),
        # About the event that was applied last:
        ("entry", "i8"),  # entry of the event's job; -1 if the event has no job
        ("was", "i8"),  # status of that job before the event
        ("taught", "f8"),  # wait that predictors learn from the event; NaN if there is none
        *(("before_procs", "f8"), ("before_work", "f8"), ("before_submits", "f8")),  # queue sums before the event
    ]
)


class Columns:
    """The arrays of a state, and the record that points to them.

    Memory is about 150 bytes for every job ever submitted.

    >>> Columns(8.0).record["size"].item()
    8.0
    """

    def __init__(self, total: float, entries: int = 0, users: int = 0) -> None:
        self.record = np.zeros(1, STATE)
        self.record["size"], self.record["entry"] = total, -1
        self.record["now"], self.record["taught"] = -math.inf, math.nan
        # `record` holds the state, and the addresses and ranges in use of the other arrays, so that a kernel gets one
        # argument. The queue and the running jobs are arrays of entries into `jobs`.
        self.jobs, self.users = np.zeros(max(entries, 64), JOB), np.zeros(max(users, 64), USER)
        self.queue, self.running = np.zeros((2, len(self.jobs) + 1), np.int32)
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
        """Allocate memory for at least `entries` jobs and `users` user codes. Amortised O(1)."""
        if entries > len(self.jobs):
            size = max(entries, 2 * len(self.jobs))
            self.jobs = enlarged(self.jobs, size)
            self.queue, self.running = enlarged(self.queue, size + 1), enlarged(self.running, size + 1)
            self._point()
        if users > len(self.users):
            self.users = enlarged(self.users, 2 * users)
            self._point()

    def keep(self, entries: np.ndarray) -> None:
        """Drop all jobs except the given entries (ascending, with all queued and running jobs), and renumber these
        entries from 0.
        """
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
        """Return the number of running jobs and the number of queued jobs."""
        return len(self.running_entries()), len(self.queued_entries())

    def queued_entries(self) -> np.ndarray:
        """Return the entries of the queued jobs, in order of arrival."""
        return self.queue[int(self.record["queue_first"][0]) : int(self.record["queue_end"][0])]

    def running_entries(self) -> np.ndarray:
        """Return the entries of the running jobs, in order of start."""
        return self.running[int(self.record["running_first"][0]) : int(self.record["running_end"][0])]


Codes = dict[str, dict[Name, int]]


def requests_of(trace: Trace, procs: str = "req") -> tuple[np.ndarray, Codes]:
    """Return the requests of a log as an array of `JOB`, shape (n,), without any outcome, and the codes of the names by
    column.
    """
    seen = trace.at_submission()
    jobs = np.zeros(len(trace), JOB)
    jobs["row"], jobs["submit"] = np.arange(len(trace)), trace.submit_time
    for field in ("start", "planned_end", "wait"):
        jobs[field] = np.nan
    size, limit = np.asarray(trace.procs(procs), float), np.asarray(trace.req_time, float)
    jobs["procs"], jobs["limit"] = np.where(np.isnan(size), 0.0, size), np.where(limit < NO_LIMIT, limit, NO_LIMIT)
    for field, name in (("nodes", "req_nodes"), ("memory_kib", "req_mem_kib"), ("gpus", "req_gpus")):
        jobs[field] = seen.get(name, np.nan)
    codes = blank_codes()
    for name, field in NAMES.items():
        column = trace.nominal(name)
        jobs[field] = column.codes + 1
        codes[name] |= {category: code + 1 for code, category in enumerate(column.categories)}
    return jobs, codes


def entries_of(requests: Sequence[JobRequest]) -> tuple[np.ndarray, Codes]:
    """Return job requests as an array of `JOB`, shape (n,), in the given order, and the codes of the names by
    column.
    """
    jobs, codes = np.zeros(len(requests), JOB), blank_codes()
    for entry, job in enumerate(requests):
        jobs[entry] = entry_of(job, job.submit_time, coded(job, codes))
    return jobs, codes


def blank_codes() -> Codes:
    """Return codes by column in which only the unknown name (None) has a code, 0."""
    return {name: {None: 0} for name in NAMES}


def coded(job: JobRequest, codes: Codes) -> list[int]:
    """Return the codes of a request's names, in the order of `NAMES`; a new name gets the next code."""
    return [codes[name].setdefault(name_in(job, name), len(codes[name])) for name in NAMES]


def name_in(job: JobRequest, name: str) -> Name:
    """Return a request's value of a column of `NAMES`: an attribute, or a value in `extra`."""
    value: Name = job.extra.get(name) if name in BEYOND else getattr(job, name)
    return value


def entry_of(job: JobRequest, time: float, codes: Sequence[int]) -> tuple[float | int, ...]:
    """Return one request as a row of `JOB`; `codes` has the codes of the job's names in the order of `NAMES`."""
    procs, limit = clean_request(job)
    outcome, machine = (math.nan, math.nan, math.nan), (job.req_nodes, job.req_mem_kib, job.req_gpus)
    return (job.row, time, *outcome, procs, limit, *machine, 0, *codes, 0, 0)


def clean_request(job: JobRequest) -> tuple[float, float]:
    """Return the processors and the time limit of a request as `JOB` stores them.

    Unknown processors become 0, and an unknown limit becomes `NO_LIMIT`.
    """
    procs = job.procs if job.procs == job.procs else 0.0
    return procs, job.req_time if job.req_time < NO_LIMIT else NO_LIMIT
