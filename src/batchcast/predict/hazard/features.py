"""All features of a submission in one compiled pass over the one state, for a whole log or one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compiled import inlined, inner, kernel
from ...compiled.arrays import Record
from ...compiled.by_address import by_address
from ...events.event import END, START, SUBMIT
from ...events.kernel import jobs_of, tell
from ...events.record import LEFT
from ...schedule.forward_state import Forward
from ...schedule.state import HEAP
from . import draws, see_past, see_queue, see_running
from .draws import PLANS, blank_draw, draw_future, see_draws, wait_in
from .lessons import (
    KINDS,
    PEAK,
    Lessons,
    count_in,
    time_passes,
    wait_ended,
    was_started,
    was_submitted,
    write_keys,
)
from .see_past import see_past as past_of
from .see_queue import bounded
from .see_queue import see_queue as queue_seen
from .see_running import OWN_JOB, see_job
from .see_running import see_running as running_seen

NAMES = (*see_running.NAMES, *see_queue.NAMES, *see_past.NAMES, *draws.NAMES)
AT_QUEUE = len(see_running.NAMES)
AT_PAST = AT_QUEUE + len(see_queue.NAMES)
AT_DRAWS = AT_PAST + len(see_past.NAMES)
SUBMISSIONS, WORK, STARTS, ENDS = range(4)
ALL_PLANS = len(PLANS)
MOST_SIMULATED = 5000
"""Above so many queued and running jobs nothing is simulated: a draw costs some 2 microseconds a job."""


@by_address
class Room(NamedTuple):
    """Arrays for a description: itself, keys of classes, sums over the queue, heaps of ends, simulated waits."""

    out: np.ndarray
    keys: np.ndarray
    sums: np.ndarray
    heaps: np.ndarray
    waits: np.ndarray
    future: Forward


def blank_room(running: int, queued: int) -> Room:
    """Room for so many running and queued jobs."""
    sums, heaps = np.zeros((len(see_queue.GROUPS), 6)), np.zeros((2, running + 1), HEAP)
    keys, waits = np.zeros(len(KINDS), np.int64), np.zeros(ALL_PLANS)
    return Room(np.zeros(len(NAMES)), keys, sums, heaps, waits, blank_draw(running + 1, queued + 1))


@inner
def describe(
    s: Record, m: Lessons, job: Record, itself: int, now: float, runs: np.ndarray, run: np.ndarray, room: Room
) -> None:
    """What `job`, submitted now, sees (NAMES), into `room.out`; `itself` is its entry if it is queued, else -1."""
    look_around(s, m, job, itself, s.queue_end, now, runs, run, room)
    peak = m.numbers[PEAK]
    size = s.size if s.size == s.size else max(peak, job.procs)
    room.waits[:] = np.nan
    for plan in range(plans_of(s)):
        draw_future(room.future, s, runs, itself, now, plan, size)
        room.waits[plan] = wait_in(room.future, job, run, itself if itself >= 0 else s.entries, now, plan)
    see_draws(room.waits, room.out[AT_DRAWS:])


@inner
def look_around(
    s: Record,
    m: Lessons,
    job: Record,
    itself: int,
    until: int,
    now: float,
    runs: np.ndarray,
    run: np.ndarray,
    room: Room,
) -> None:
    """All that `describe` writes but the simulated waits, of a job that those before place `until` wait before."""
    out, peak = room.out, m.numbers[PEAK]
    write_keys(job, room.keys)
    see_job(s, job, now, run, peak, out[:OWN_JOB])
    running_seen(s, job, now, runs, peak, room.heaps, out[OWN_JOB:AT_QUEUE])
    queue_seen(s, job, itself, until, now, runs, room.sums, out[AT_QUEUE:AT_PAST])
    past_of(m, job, room.keys, now, s.size if s.size == s.size else peak, out[AT_PAST:AT_DRAWS])


@inlined
def plans_of(s: Record) -> int:
    """How many simulations a state is worth: all, or none of a crowd."""
    present = s.queue_end - s.queue_first + s.running_end - s.running_first
    return ALL_PLANS if present <= MOST_SIMULATED else 0


@kernel
def describe_now(
    state: np.ndarray,
    m: Lessons,
    jobs: np.ndarray,
    itself: int,
    now: float,
    runs: np.ndarray,
    run: np.ndarray,
    room: Room,
    out: np.ndarray,
) -> None:
    """`describe` of the one job in `jobs` for a clock that tells events one by one."""
    describe(state[0], m, jobs[0], itself, now, runs, run, room)
    for f in range(len(out)):
        out[f] = room.out[f]


@inner
def happened(s: Record, m: Lessons, rank: int, left_teach: bool, keys: np.ndarray) -> None:
    """Learn from the event that the state took in last."""
    time_passes(m, s.now, s.running_procs)
    if s.entry < 0:
        return
    job = jobs_of(s)[s.entry]
    if rank == SUBMIT:
        write_keys(job, keys)
        was_submitted(m, keys, s.now)
        count_in(m, SUBMISSIONS, 1.0)
        count_in(m, WORK, job.procs * bounded(job.limit))
    elif rank == START:
        was_started(m, job, s.now)
        count_in(m, STARTS, 1.0)
    elif rank == END:
        count_in(m, ENDS, 1.0)
    if s.taught == s.taught and (left_teach or job.lesson != LEFT):
        write_keys(job, keys)
        wait_ended(m, keys, s.taught, s.now)


@kernel
def happened_now(state: np.ndarray, m: Lessons, rank: int, left_teach: bool, keys: np.ndarray) -> None:
    """`happened` for a clock that tells events one by one."""
    happened(state[0], m, rank, left_teach, keys)


@kernel
def describe_log(
    state: np.ndarray,
    m: Lessons,
    requests: np.ndarray,
    events: np.ndarray,
    first: int,
    end: int,
    left_teach: bool,
    runs: np.ndarray,
    room: Room,
    out: np.ndarray,
    taught: np.ndarray,
) -> None:
    """The events (EVENT) from `first` to before `end`: features into the row of an entry, waits taught by event."""
    s = state[0]
    for e in range(first, end):
        i, now = events[e].entry, events[e].time
        if events[e].rank == SUBMIT:
            describe(s, m, requests[i], -1, now, runs, runs[i], room)
            for f in range(len(room.out)):
                out[i, f] = room.out[f]
        tell(s, requests, events[e])
        happened(s, m, events[e].rank, left_teach, room.keys)
        taught[e] = s.taught
