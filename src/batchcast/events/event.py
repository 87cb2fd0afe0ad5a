# SPDX-License-Identifier: Apache-2.0
"""What can happen to jobs and to the machine, and the one order in which it is delivered.

At one instant: overdue jobs, ends of jobs started earlier, withdrawals, requeues, changes and capacity, submits, then
one scheduling pass and its starts; an end (or withdrawal) caused by a start (or submit) of the same instant opens a
further round, until nothing changes. Within one kind and instant: log order. (DESIGN, Events.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..job import JobRequest, Name

OVERDUE, END, WITHDRAW, REQUEUE, CHANGE, CAPACITY, SUBMIT, START = range(8)  # ranks within one instant and round
PLAN = 8  # the clock's scheduler holds a job until an instant: noted among the events, none of the log's


class Overdue(NamedTuple):
    """Simulated clock only: a running job outlived its plan; its true end is strictly later. `elapsed` in seconds."""

    time: float
    job: JobRequest
    elapsed: float


class End(NamedTuple):
    """A job left the machine after `run_time` seconds; `status` is how (None: unknown).

    `peak_mem_kib` is the most memory that one of its nodes held, NaN where nobody measured it or it is not known yet.
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
    """A running job went back to the queue and will start again from scratch."""

    time: float
    job: JobRequest


class Change(NamedTuple):
    """A job's limit, hold or priority changed; `job` is the request as it stands now, `changed` the new values."""

    time: float
    job: JobRequest
    changed: Mapping[str, Any]


class Capacity(NamedTuple):
    """The machine now has `procs` processors (nodes drained, returned, added)."""

    time: float
    procs: float


class Submit(NamedTuple):
    """A job entered the queue."""

    time: float
    job: JobRequest


class Start(NamedTuple):
    """A queued job began to run, `wait_time` seconds after its submission, on `nodes` (a host list, None unknown)."""

    time: float
    job: JobRequest
    wait_time: float
    nodes: Name = None


JobEvent = Overdue | End | Withdraw | Requeue | Change | Submit | Start
Event = JobEvent | Capacity


RANK: Mapping[type, int] = {
    **{Overdue: OVERDUE, End: END, Withdraw: WITHDRAW, Requeue: REQUEUE},
    **{Change: CHANGE, Capacity: CAPACITY, Submit: SUBMIT, Start: START},
}


def event_key(time: float, round_: int, rank: int, index: int) -> tuple[float, int, int, int]:
    """The sort key of every clock: instant, round within it, rank of the kind, log order."""
    return (time, round_, rank, index)
