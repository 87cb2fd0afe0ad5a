# SPDX-License-Identifier: Apache-2.0
"""Computes all features of a submitted job, or of every waiting job at its position in the queue.

One compiled pass over the system state computes the features.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...compiled import by_address, inlined, inner, kernel
from ...compiled.arrays import Record
from ...events.event import END, START, SUBMIT
from ...events.kernel import apply_event, jobs_of, queue_of
from ...events.record import LEFT
from ...schedule.forward import HEAD, JOBS, Forward, next_instant
from ...schedule.state import HEAP
from ..hazard import history_features, queue_features, simulated_waits
from .history_features import (
    KINDS,
    PEAK,
    WaitHistory,
    count_in,
    gpus_busy,
    most_gpus,
    time_passes,
    wait_ended,
    was_started,
    was_submitted,
    write_keys,
)
from .history_features import write_history as past_of
from .queue_features import OWN_JOB, bounded, busy_gpus, write_gpus, write_job
from .queue_features import write_queue as queue_seen
from .queue_features import write_running as running_seen
from .simulated_waits import PLANS, blank_draw, draw_future, join_future, wait_in, write_simulated

NAMES = (
    *queue_features.RUNNING_NAMES,
    *queue_features.QUEUE_NAMES,
    *history_features.HISTORY_NAMES,
    *queue_features.GPU_NAMES,
    *simulated_waits.NAMES,
)
AT_QUEUE = len(queue_features.RUNNING_NAMES)
AT_PAST = AT_QUEUE + len(queue_features.QUEUE_NAMES)
AT_GPUS = AT_PAST + len(history_features.HISTORY_NAMES)
AT_DRAWS = AT_GPUS + len(queue_features.GPU_NAMES)
SUBMISSIONS, WORK, STARTS, ENDS = range(4)
ALL_PLANS = len(PLANS)
TOGETHER = 64
"""Largest number of submissions of one instant that are simulated together."""
MOST_SIMULATED = 5000
"""With more queued and running jobs than this, waits are not simulated, because a draw costs about 2 microseconds a
job.
"""


@by_address
class Room(NamedTuple):
    """Work arrays for computing features: output, class keys, sums over the queue, heaps of end times, simulated waits.

    `waits` has shape (TOGETHER, plans): the simulated waits of one job, or of all jobs submitted at one instant.
    """

    out: np.ndarray
    keys: np.ndarray
    sums: np.ndarray
    heaps: np.ndarray
    waits: np.ndarray
    future: Forward


def blank_room(running: int, queued: int) -> Room:
    """Return work arrays for this many running and queued jobs."""
    sums, heaps = np.zeros((len(queue_features.GROUPS), 6)), np.zeros((2, running + 1), HEAP)
    keys, waits = np.zeros(len(KINDS), np.int64), np.zeros((TOGETHER, ALL_PLANS))
    return Room(np.zeros(len(NAMES)), keys, sums, heaps, waits, blank_draw(running + 1, queued + 1))


@inner
def describe(
    s: Record, m: WaitHistory, job: Record, itself: int, now: float, runs: np.ndarray, run: np.ndarray, room: Room
) -> None:
    """Write the features (NAMES) of `job`, submitted now, to `room.out`; `itself` is its queue entry, or -1."""
    look_around(s, m, job, itself, s.queue_end, now, runs, run, room)
    size = size_for(s, m, job)
    waits = room.waits[0]
    waits[:] = np.nan
    for plan in range(plans_of(s, 0)):
        draw_future(room.future, s, runs, itself, now, plan, size)
        waits[plan] = wait_in(room.future, job, run, itself if itself >= 0 else s.entries, now, plan)
    write_simulated(waits, room.out[AT_DRAWS:])


@inner
def look_around(
    s: Record,
    m: WaitHistory,
    job: Record,
    itself: int,
    until: int,
    now: float,
    runs: np.ndarray,
    run: np.ndarray,
    room: Room,
) -> None:
    """Write all features except simulated waits, for a job that waits behind all jobs at queue positions below
    `until`."""
    out, peak = room.out, m.numbers[PEAK]
    write_keys(job, room.keys)
    write_job(s, job, now, run, peak, out[:OWN_JOB])
    running_seen(s, job, now, runs, peak, room.heaps, out[OWN_JOB:AT_QUEUE])
    queue_seen(s, job, itself, until, now, runs, room.sums, out[AT_QUEUE:AT_PAST])
    past_of(m, job, room.keys, now, s.size if s.size == s.size else peak, out[AT_PAST:AT_GPUS])
    write_gpus(s, job, most_gpus(m, job.gpu_type), out[AT_GPUS:AT_DRAWS])


@inlined
def size_for(s: Record, m: WaitHistory, job: Record) -> float:
    """Return the machine's processors; if unknown, the most that were ever busy, at least the job's processors."""
    size: float = s.size if s.size == s.size else max(m.numbers[PEAK], job.procs)
    return size


@inlined
def plans_of(s: Record, more: int) -> int:
    """Return how many simulations to run for a state with `more` further jobs: all, or 0 if there are too many jobs."""
    present = s.queue_end - s.queue_first + s.running_end - s.running_first + more
    return ALL_PLANS if present <= MOST_SIMULATED else 0


@kernel
def describe_now(
    state: np.ndarray,
    m: WaitHistory,
    jobs: np.ndarray,
    itself: int,
    now: float,
    runs: np.ndarray,
    run: np.ndarray,
    room: Room,
    out: np.ndarray,
) -> None:
    """Apply `describe` to the one job in `jobs`, for a caller that processes events one by one."""
    describe(state[0], m, jobs[0], itself, now, runs, run, room)
    for f in range(len(out)):
        out[f] = room.out[f]


@inner
def happened(s: Record, m: WaitHistory, rank: int, left_teach: bool, keys: np.ndarray) -> None:
    """Learn waits and starts from the event that the state processed last."""
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
        if job.gpus > 0.0:
            gpus_busy(m, 0, busy_gpus(s, 0))
            if job.gpu_type > 0:
                gpus_busy(m, job.gpu_type, busy_gpus(s, job.gpu_type))
    elif rank == END:
        count_in(m, ENDS, 1.0)
    if s.taught == s.taught and (left_teach or job.lesson != LEFT):
        write_keys(job, keys)
        wait_ended(m, keys, s.taught, s.now)


@kernel
def happened_now(state: np.ndarray, m: WaitHistory, rank: int, left_teach: bool, keys: np.ndarray) -> None:
    """Apply `happened`, for a caller that processes events one by one."""
    happened(state[0], m, rank, left_teach, keys)


@inner
def simulate_together(
    s: Record, m: WaitHistory, requests: np.ndarray, events: np.ndarray, first: int, end: int, runs: np.ndarray,
    room: Room,
) -> int:  # fmt: skip
    """Simulate the waits of all submissions at one instant, from event `first` on, into `room.waits`.

    Returns the number of submissions that were simulated, at most TOGETHER. Each draw of run times is simulated once,
    and the submitted jobs join the simulation one after the other, because no other event lies between their
    submissions. The results equal, bit for bit, the results of simulating each submission separately.
    """
    now, count = events[first].time, 1
    size = size_for(s, m, requests[events[first].entry])
    while (
        count < len(room.waits)
        and first + count < end
        and events[first + count].rank == SUBMIT
        and events[first + count].time == now
        and size_for(s, m, requests[events[first + count].entry]) == size
    ):
        count += 1
    room.waits[:count] = np.nan
    for plan in range(plans_of(s, 0)):
        draw_future(room.future, s, runs, -1, now, plan, size)
        for k in range(count):
            if not plans_of(s, k):
                break
            i = events[first + k].entry
            if k > 0:
                before = events[first + k - 1].entry
                join_future(room.future, requests[before], runs[before], before, plan)
            room.waits[k, plan] = wait_in(room.future, requests[i], runs[i], i, now, plan)
    return count


@kernel
def describe_log(
    state: np.ndarray,
    m: WaitHistory,
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
    """Process the events from index `first` to before `end`; write the features of each submitted job, and the wait to
    learn from each event."""
    s = state[0]
    simulated, place = 0, 0
    for e in range(first, end):
        i, now = events[e].entry, events[e].time
        if events[e].rank == SUBMIT:
            if place == simulated:
                simulated, place = simulate_together(s, m, requests, events, e, end, runs, room), 0
            look_around(s, m, requests[i], -1, s.queue_end, now, runs, runs[i], room)
            write_simulated(room.waits[place], room.out[AT_DRAWS:])
            place += 1
            for f in range(len(room.out)):
                out[i, f] = room.out[f]
        apply_event(s, requests, events[e])
        happened(s, m, events[e].rank, left_teach, room.keys)
        taught[e] = s.taught


@kernel
def describe_queue(
    state: np.ndarray,
    m: WaitHistory,
    now: float,
    runs: np.ndarray,
    room: Room,
    places: np.ndarray,
    waits: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the features (NAMES) of the queued jobs at positions `places` to `out`; for each job, the jobs behind it in
    the queue are ignored.

    `out` has shape (places, features). Each draw of run times is simulated once, until all waiting jobs have started.
    `waits` (plans, queued) receives the remaining waits in seconds, NaN for a job that never fits. Costs O(places
    (queued + running)), times the logarithm of a heap's size.
    """
    s = state[0]
    jobs, queue, f = jobs_of(s), queue_of(s), room.future
    n = s.queue_end - s.queue_first
    most = 0.0
    for k in range(n):
        most = max(most, jobs[queue[s.queue_first + k]].procs)
    size = s.size if s.size == s.size else max(m.numbers[PEAK], most)
    waits[:] = np.nan
    for plan in range(plans_of(s, 0)):
        draw_future(f, s, runs, -1, now, plan, size)
        while f.tally[HEAD] < f.tally[JOBS]:
            if not next_instant(f):
                break
        for k in range(n):
            waits[plan, k] = f.start[k] - now if math.isfinite(f.start[k]) else math.nan
    for place in range(len(places)):
        k = places[place]
        i = queue[s.queue_first + k]
        look_around(s, m, jobs[i], i, s.queue_first + k, now, runs, runs[i], room)
        for plan in range(len(waits)):
            room.waits[0, plan] = waits[plan, k]
        write_simulated(room.waits[0], room.out[AT_DRAWS:])
        for column in range(len(room.out)):
            out[place, column] = room.out[column]


_AT = {name: place for place, name in enumerate(NAMES)}
_QUEUED, _BEFORE = _AT["queue: all: jobs"], _AT["queue: no larger nor longer: jobs"]
_FITS, _LACKING, _SHADOW = _AT["fits"], _AT["lacking"], _AT["shadow by forecasts"]
_OWN = _AT["queue: own: jobs"]


def reason(features: np.ndarray) -> str:
    """Explain in one line why a job waits: jobs ahead of it, whether enough processors are free, and from when on.

    >>> reason(np.zeros(len(NAMES)))
    'no job ahead of it; not enough free resources until about 0 min from now'
    """
    queued, before, own = (round(float(np.expm1(features[k]))) for k in (_QUEUED, _BEFORE, _OWN))
    words = "no job ahead of it" if queued == 0 else f"behind {queued} job{'s' if queued != 1 else ''}"
    if queued and before:
        words += f", {before} of them neither larger nor longer"
    if own:
        words += f", {own} of the same user"
    if features[_FITS] > 0:
        ahead = ", unless jobs ahead of it take them" if queued else ""
        return f"{words}; enough resources are free now{ahead}"
    shadow = float(features[_SHADOW])
    if shadow != shadow:
        return f"{words}; it needs more than running jobs will free"
    return f"{words}; not enough free resources until about {rough_span(float(np.expm1(shadow)))} from now"


def rough_span(seconds: float) -> str:
    """Return a rounded duration with its unit, as text.

    >>> rough_span(50.0), rough_span(5000.0), rough_span(200_000.0)
    ('1 min', '1.4 h', '2.3 days')
    """
    if seconds < 3600.0:
        return f"{round(seconds / 60.0)} min"
    return f"{seconds / 3600.0:.1f} h" if seconds < 2 * 86400.0 else f"{seconds / 86400.0:.1f} days"
