"""All features of a submission in one compiled pass over the one state, for a whole log or one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compiled import kernel
from ...compiled.arrays import Record
from ...events.event import END, START, SUBMIT
from ...events.kernel import jobs_of, tell
from ...events.record import LEFT
from ...schedule.forward_kernel import Forward
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

class Room(NamedTuple):
    """Arrays that a description needs while it is made: keys, sums over the queue, heaps of ends, simulated waits."""

    keys: np.ndarray
    sums: np.ndarray
    heaps: np.ndarray
    waits: np.ndarray
    future: Forward

def blank_room(running: int, queued: int) -> Room:
    """Room for so many running and queued jobs."""
    sums, heaps = np.zeros((len(see_queue.GROUPS), 6)), np.zeros((2, running + 1), HEAP)
    return Room(np.zeros(len(KINDS), np.int64), sums, heaps, np.zeros(ALL_PLANS), blank_draw(running + 1, queued + 1))

@kernel
def describe(

    s: Record,
    m: Lessons,
    job: Record,
    itself: int,
    now: float,
    runs: np.ndarray,
    run: np.ndarray,
    room: Room,
    out: np.ndarray,
) -> None:
    """Write what `job`, submitted now, sees into `out` (NAMES but the draws); `itself` is its entry if it is queued."""
    write_keys(job, room.keys)
    peak = m.numbers[PEAK]
    see_job(s, job, now, run, peak, out[:OWN_JOB])
    running_seen(s, job, now, runs, peak, room.heaps, out[OWN_JOB:AT_QUEUE])
    queue_seen(s, job, itself, now, runs, room.sums, out[AT_QUEUE:AT_PAST])
    past_of(m, job, room.keys, now, s.size if s.size == s.size else peak, out[AT_PAST:AT_DRAWS])

@kernel
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
def simulate(s: Record, job: Record, itself: int, now: float, runs: np.ndarray, run: np.ndarray, room: Room, peak: float) -> None:
    """The waits of a job that comes last, by every simulation (PLANS), into `room.waits`."""
    size = s.size if s.size == s.size else max(peak, job.procs)
    entry = itself if itself >= 0 else s.entries
    for plan in range(ALL_PLANS):
        draw_future(room.future, s, runs, itself, now, plan, size)
        room.waits[plan] = wait_in(room.future, job, run, entry, now, plan)

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
) -> None:
    """The events (EVENT) from `first` to before `end`; each submission's features into the row of its entry."""
    s = state[0]
    for e in range(first, end):
        i, now = events[e].entry, events[e].time
        if events[e].rank == SUBMIT:
            job, into = requests[i], out[i]
            describe(s, m, job, -1, now, runs, runs[i], room, into)
            simulate(s, job, -1, now, runs, runs[i], room, m.numbers[PEAK])
            see_draws(room.waits, into[AT_DRAWS:])
        tell(s, requests, events[e])
        happened(s, m, events[e].rank, left_teach, room.keys)
