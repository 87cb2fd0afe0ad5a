# SPDX-License-Identifier: Apache-2.0
"""Compiled functions of `ibl`: the attributes of a submission."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compiled import by_address, kernel
from ...events.kernel import free_procs, jobs_of, queue_of, users_of
from ...events.record import NO_LIMIT

NUMBERS = (
    "processors",
    "limit",
    "free processors",
    "queue length",
    "queued processors",
    "queued work",
    "running jobs",
    "remaining work",
    "mean wait so far of the queue",
    "user's queued jobs",
    "user's running jobs",
    "user's last wait",
    "queued processors asked for by smaller or shorter jobs",
    "date",
)
NAMES = ("user", "group", "executable", "queue")
DAY_S = 86400.0


@by_address
class Attributes(NamedTuple):
    """One column per job: numbers (attributes, jobs) float32 on log scales, names (attributes, jobs) int32."""

    numbers: np.ndarray
    names: np.ndarray


def blank_attributes(capacity: int) -> Attributes:
    """Allocate attributes for `capacity` jobs."""
    return Attributes(np.zeros((len(NUMBERS), capacity), np.float32), np.zeros((len(NAMES), capacity), np.int32))


@kernel
def scale(value: float) -> float:
    """Return log2(1 + value) of a value that is not negative."""
    logarithm: float = np.log2(1.0 + max(value, 0.0))
    return logarithm


@kernel
def describe_now(
    state: np.ndarray,
    user: int,
    last_wait: float,
    now: float,
    procs: float,
    limit: float,
    in_queue: bool,
    into: np.ndarray,
    column: int,
) -> None:
    """Write the numeric attributes of a job that is submitted now to a column of `into`.

    `in_queue` is true if the state's queue already contains the job. `user` is the user's code, -1 for a new user.
    """
    s = state[0]
    jobs, queue = jobs_of(s), queue_of(s)
    end = s.queue_end - 1 if in_queue else s.queue_end
    waiting = end - s.queue_first
    queued_procs = s.before_procs if in_queue else s.queued_procs
    queued_work = s.before_work if in_queue else s.queued_work
    submits = s.before_submits if in_queue else s.queued_submits
    ahead = 0.0
    for k in range(s.queue_first, end):
        job = jobs[queue[k]]
        if job.procs < procs or job.limit < limit:
            ahead += job.procs
    free = free_procs(s)
    into[0, column] = scale(procs)
    into[1, column] = scale(limit) if limit < NO_LIMIT else 0.0
    into[2, column] = scale(free) if free == free else 0.0
    into[3, column] = scale(waiting)
    into[4, column] = scale(queued_procs)
    into[5, column] = scale(queued_work)
    into[6, column] = scale(s.running_end - s.running_first)
    into[7, column] = scale(s.running_ends - now * s.running_procs)
    into[8, column] = scale(now - submits / waiting) if waiting > 0 else 0.0
    into[9, column] = scale(users_of(s)[user].queued - in_queue) if user >= 0 else 0.0
    into[10, column] = scale(users_of(s)[user].running) if user >= 0 else 0.0
    into[11, column] = last_wait
    into[12, column] = scale(ahead)
    into[13, column] = now / DAY_S


@kernel
def note(
    state: np.ndarray, jobs: np.ndarray, i: int, last_wait: np.ndarray, in_queue: bool, attributes: Attributes
) -> None:
    """Write the attributes of submission i of `jobs` to column i.

    `in_queue` is true if the state's queue already contains the job, and the submission is the state's last event.
    """
    job = jobs[i]
    names = attributes.names
    names[0, i], names[1, i], names[2, i], names[3, i] = job.user, job.group, job.app, job.queue
    now = job.submit
    describe_now(state, job.user, last_wait[job.user], now, job.procs, job.limit, in_queue, attributes.numbers, i)
