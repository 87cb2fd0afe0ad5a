# SPDX-License-Identifier: Apache-2.0
"""The types of events, and the order of events at one instant.

The order at one instant is: overdue jobs, ends of jobs started earlier, withdrawals, requeues, changes and capacity,
submissions, then one scheduling pass and the job starts that it decides. If a job ends at the instant of its start, or
is withdrawn at the instant of its submission, a further round of events follows at that instant. Events of one kind in
one round are in log order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..job import JobRequest, Name

OVERDUE, END, WITHDRAW, REQUEUE, CHANGE, CAPACITY, SUBMIT, START = range(8)  # ranks within one instant and round
PLAN = 8  # internal: sets the planned end of a running job; not in logs, and not passed to predictors


class Overdue(NamedTuple):
    """A running job is still running at its planned end. Only simulations generate this event.

    `elapsed` is the time since the job's start, in seconds. The job's actual end is strictly later than its planned
    end.
    """

    time: float
    job: JobRequest
    elapsed: float


class End(NamedTuple):
    """A running job ended after `run_time` seconds.

    Attributes
    ----------
    time
        End time, in seconds on the clock.
    job
        The job.
    run_time, wait_time
        Run time and queue wait, in seconds.
    status
        Final status of the job, as a word of `columns.py`. None means unknown.
    peak_mem_kib
        Peak memory use of the busiest node, in KiB. NaN if the peak was not measured or is not known yet.
    """

    time: float
    job: JobRequest
    run_time: float
    wait_time: float
    status: Name = None
    peak_mem_kib: float = math.nan


class Withdraw(NamedTuple):
    """A job left the queue without running, `wait_time` seconds after its submission."""

    time: float
    job: JobRequest
    wait_time: float


class Requeue(NamedTuple):
    """A running job went back to the queue and will start again from the beginning."""

    time: float
    job: JobRequest


class Change(NamedTuple):
    """A job's time limit, hold or priority changed.

    `job` is the request after the change, and `changed` contains the changed fields with their new values.
    """

    time: float
    job: JobRequest
    changed: Mapping[str, Any]


class Capacity(NamedTuple):
    """The machine now has `procs` processors, because nodes were drained, returned or added."""

    time: float
    procs: float


class Submit(NamedTuple):
    """A job entered the queue."""

    time: float
    job: JobRequest


class Start(NamedTuple):
    """A queued job started.

    `wait_time` is in seconds since the submission. `nodes` is the host list of the allocated nodes, or None if unknown.
    """

    time: float
    job: JobRequest
    wait_time: float
    nodes: Name = None


JobEvent = Overdue | End | Withdraw | Requeue | Change | Submit | Start
Event = JobEvent | Capacity


RANKED = (Overdue, End, Withdraw, Requeue, Change, Capacity, Submit, Start)
RANK: Mapping[type, int] = {kind: rank for rank, kind in enumerate(RANKED)}
