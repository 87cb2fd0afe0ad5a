# SPDX-License-Identifier: Apache-2.0
"""Computes all features of a submitted job, or of every waiting job at its position in the queue.

One compiled pass over the system state computes the features. Some features come from simulations of the schedule
with run times drawn from their predicted distributions.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from ...compiled import by_address, inlined, inner, kernel
from ...compiled.arrays import Record
from ...events.event import END, START, SUBMIT
from ...events.kernel import apply_event, jobs_of, queue_of, running_of
from ...events.record import LEFT
from ...schedule import forward
from ...schedule.forward import EASY, GREEDY, Forward
from ...schedule.state import HEAP
from . import history_features as past
from . import queue_features as present
from .history_features import PEAK, WaitHistory, write_keys
from .queue_features import bounded, scale

EASY_DRAWS, GREEDY_DRAWS = 12, 4
BY_LIMITS, BY_MEDIANS = -1, -2
PLANS = (
    *((EASY, draw) for draw in range(EASY_DRAWS)),
    *((GREEDY, draw) for draw in range(GREEDY_DRAWS)),
    (EASY, BY_LIMITS),
    (EASY, BY_MEDIANS),
)
"""The simulations of one queue state: a policy, and a run time for each job (a draw, the time limit or the median)."""
_PLANS = np.array(PLANS)
LARGEST = 5e8
SIMULATED_NAMES = (
    *("simulated mean", "simulated least", "simulated 25 %", "simulated 50 %", "simulated 75 %", "simulated most"),
    *("simulated within 1 min", "simulated within 1 h", "simulated within 4 h"),
    *("greedy mean", "greedy least", "greedy within 1 h", "planned by limits", "planned by forecasts"),
)


@inlined
def uniform(entry: int, draw: int, draws: int) -> float:
    """Return the quantile, in (0, 1), at which a job's run time is drawn. The quantiles of one job are stratified over
    the simulations."""
    mixed = np.uint64(entry + 1) * np.uint64(11400714819323198485)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(13787848793156543929)
    mixed ^= mixed >> np.uint64(32)
    stride = (1, 5, 7, 11)[np.int64(mixed >> np.uint64(10)) & 3]
    stratum = (np.int64(mixed & np.uint64(1023)) + stride * draw) % draws
    inside = np.float64(mixed >> np.uint64(12)) / 4503599627370496.0
    return min(max((stratum + inside) / draws, 1e-6), 1.0 - 1e-6)


@inlined
def run_of(row: np.ndarray, limit: float, elapsed: float, entry: int, plan: int) -> float:
    """Return a job's remaining run time, in seconds, in the simulation `plan` (an index of PLANS)."""
    draw = _PLANS[plan, 1]
    if draw == BY_LIMITS:
        return max(bounded(limit) - elapsed, 1.0)
    draws = GREEDY_DRAWS if _PLANS[plan, 0] == GREEDY else EASY_DRAWS
    share = 0.5 if draw == BY_MEDIANS else uniform(entry, draw, draws)
    return present.left_at(row, limit, elapsed, share)


@inlined
def whole_procs(procs: float) -> int:
    """Return a number of processors as an integer, at least 1."""
    return math.ceil(min(max(procs, 1.0), LARGEST))


@inner
def draw_future(f: Forward, s: Record, runs: np.ndarray, itself: int, now: float, plan: int, size: float) -> None:
    """Set up simulation `plan` (an index of PLANS) of the state at `now` without the job `itself` (-1: with all
    jobs)."""
    jobs, queue, running = jobs_of(s), queue_of(s), running_of(s)
    busy, n = 0, 0
    for k in range(s.running_first, s.running_end):
        i = running[k]
        job = jobs[i]
        left = run_of(runs[i], job.limit, max(now - job.start, 0.0), i, plan)
        f.running_end[n], f.running_procs[n] = now + left, whole_procs(job.procs)
        busy += f.running_procs[n]
        n += 1
    f.tally[forward.RUNNING] = n
    most = max(np.int64(min(size, LARGEST)) if size == size else 1, busy, 1)
    n = 0
    for k in range(s.queue_first, s.queue_end):
        i = queue[k]
        if i == itself:
            continue
        job = jobs[i]
        f.procs[n], f.planned[n] = whole_procs(job.procs), run_of(runs[i], job.limit, 0.0, i, plan)
        f.start[n] = np.inf if f.procs[n] <= most else -np.inf
        f.order[n] = n
        n += 1
    f.tally[forward.JOBS], f.tally[forward.SIZE] = n, most
    f.tally[forward.POLICY], f.tally[forward.OPENINGS] = _PLANS[plan, 0], 0
    forward.begin(f, now)


@inner
def wait_in(f: Forward, job: Record, run: np.ndarray, entry: int, now: float, plan: int) -> float:
    """Return the simulated wait of a job that joins the end of the queue; NaN if the job never fits the machine."""
    opening = forward.first_opening(f, whole_procs(job.procs), run_of(run, job.limit, 0.0, entry, plan))
    return f.openings[opening].time - now if opening >= 0 else math.nan


@inner
def join_future(f: Forward, job: Record, run: np.ndarray, entry: int, plan: int) -> None:
    """Add a job to the end of a simulation's queue, so that the next submitted job queues behind it."""
    forward.join_queue(f, whole_procs(job.procs), run_of(run, job.limit, 0.0, entry, plan))


@inner
def write_simulated(waits: np.ndarray, out: np.ndarray) -> None:
    """Write the features of the simulated waits (plans,) to `out`."""
    out[:] = math.nan
    if waits[0] != waits[0]:
        return
    easy, greedy = waits[:EASY_DRAWS], waits[EASY_DRAWS : EASY_DRAWS + GREEDY_DRAWS]
    ordered(easy)
    ordered(greedy)
    out[0], out[9] = mean_of(easy), mean_of(greedy)
    out[1], out[2], out[3] = scale(easy[0]), scale(easy[3]), 0.5 * (scale(easy[5]) + scale(easy[6]))
    out[4], out[5] = scale(easy[8]), scale(easy[11])
    for k in range(3):
        out[6 + k] = within(easy, (60.0, 3600.0, 14400.0)[k])
    out[10], out[11] = scale(greedy[0]), within(greedy, 3600.0)
    for k in range(2):
        out[12 + k] = scale(waits[EASY_DRAWS + GREEDY_DRAWS + k])


@inlined
def ordered(values: np.ndarray) -> None:
    """Sort a few values in ascending order by insertion."""
    for a in range(1, len(values)):
        value, b = values[a], a - 1
        while b >= 0 and values[b] > value:
            values[b + 1] = values[b]
            b -= 1
        values[b + 1] = value


@inlined
def mean_of(waits: np.ndarray) -> float:
    """Return the mean of log(1 + wait) over simulated waits."""
    total = 0.0
    for k in range(len(waits)):
        total += scale(waits[k])
    return total / len(waits)


@inlined
def within(waits: np.ndarray, span: float) -> float:
    """Return the share of simulated waits that are at most a time span."""
    total = 0.0
    for k in range(len(waits)):
        total += 1.0 if waits[k] <= span else 0.0
    return total / len(waits)


_PARTS = (present.RUNNING_NAMES, present.QUEUE_NAMES, past.HISTORY_NAMES, present.GPU_NAMES, SIMULATED_NAMES)
NAMES = tuple(name for part in _PARTS for name in part)
AT_QUEUE, AT_PAST, AT_GPUS, AT_DRAWS = accumulate(map(len, _PARTS[:-1]))
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
    sums, heaps = np.zeros((len(present.GROUPS), 6)), np.zeros((2, running + 1), HEAP)
    keys, waits = np.zeros(len(past.KINDS), np.int64), np.zeros((TOGETHER, ALL_PLANS))
    return Room(np.zeros(len(NAMES)), keys, sums, heaps, waits, forward.blank_forward(1, running + 1, queued + 1, EASY))


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
    present.write_job(s, job, now, run, peak, out[: present.OWN_JOB])
    present.write_running(s, job, now, runs, peak, room.heaps, out[present.OWN_JOB : AT_QUEUE])
    present.write_queue(s, job, itself, until, now, runs, room.sums, out[AT_QUEUE:AT_PAST])
    past.write_history(m, job, room.keys, now, s.size if s.size == s.size else peak, out[AT_PAST:AT_GPUS])
    present.write_gpus(s, job, past.most_gpus(m, job.gpu_type), out[AT_GPUS:AT_DRAWS])


@inlined
def size_for(s: Record, m: WaitHistory, job: Record) -> float:
    """Return the machine's processors; if unknown, the most that were ever busy, at least the job's processors."""
    size: float = s.size if s.size == s.size else max(m.numbers[PEAK], job.procs)
    return size


@inlined
def plans_of(s: Record, more: int) -> int:
    """Return how many simulations to run for a state with `more` further jobs: all, or 0 if there are too many jobs."""
    jobs = s.queue_end - s.queue_first + s.running_end - s.running_first + more
    return ALL_PLANS if jobs <= MOST_SIMULATED else 0


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
    """Write the features (NAMES) of the job `jobs[0]`, submitted now, to `out`; `itself` is its queue entry, or -1."""
    s, job = state[0], jobs[0]
    look_around(s, m, job, itself, s.queue_end, now, runs, run, room)
    size = size_for(s, m, job)
    waits = room.waits[0]
    waits[:] = np.nan
    for plan in range(plans_of(s, 0)):
        draw_future(room.future, s, runs, itself, now, plan, size)
        waits[plan] = wait_in(room.future, job, run, itself if itself >= 0 else s.entries, now, plan)
    write_simulated(waits, room.out[AT_DRAWS:])
    for f in range(len(out)):
        out[f] = room.out[f]


@inner
def happened(s: Record, m: WaitHistory, rank: int, left_teach: bool, keys: np.ndarray) -> None:
    """Learn waits and starts from the event that the state processed last."""
    past.time_passes(m, s.now, s.running_procs)
    if s.entry < 0:
        return
    job = jobs_of(s)[s.entry]
    if rank == SUBMIT:
        write_keys(job, keys)
        past.was_submitted(m, keys, s.now)
        past.count_in(m, SUBMISSIONS, 1.0)
        past.count_in(m, WORK, job.procs * bounded(job.limit))
    elif rank == START:
        past.was_started(m, job, s.now)
        past.count_in(m, STARTS, 1.0)
        if job.gpus > 0.0:
            past.gpus_busy(m, 0, present.busy_gpus(s, 0))
            if job.gpu_type > 0:
                past.gpus_busy(m, job.gpu_type, present.busy_gpus(s, job.gpu_type))
    elif rank == END:
        past.count_in(m, ENDS, 1.0)
    if s.taught == s.taught and (left_teach or job.lesson != LEFT):
        write_keys(job, keys)
        past.wait_ended(m, keys, s.taught, s.now)


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
    positions: np.ndarray,
    waits: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the features (NAMES) of the queued jobs at positions `positions` to `out`; for each job, the jobs behind it
    in the queue are ignored.

    `out` has shape (positions, features). Each draw of run times is simulated once, until all waiting jobs have
    started. `waits` (plans, queued) receives the remaining waits in seconds, NaN for a job that never fits. Costs
    O(positions (queued + running)), times the logarithm of a heap's size.
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
        while f.tally[forward.HEAD] < f.tally[forward.JOBS] and forward.next_instant(f):
            pass
        for k in range(n):
            waits[plan, k] = f.start[k] - now if math.isfinite(f.start[k]) else math.nan
    for place in range(len(positions)):
        k = positions[place]
        i = queue[s.queue_first + k]
        look_around(s, m, jobs[i], i, s.queue_first + k, now, runs, runs[i], room)
        for plan in range(len(waits)):
            room.waits[0, plan] = waits[plan, k]
        write_simulated(room.waits[0], room.out[AT_DRAWS:])
        for column in range(len(room.out)):
            out[place, column] = room.out[column]


_INDEX = {name: place for place, name in enumerate(NAMES)}
_QUEUED, _BEFORE = _INDEX["queue: all: jobs"], _INDEX["queue: no larger nor longer: jobs"]
_FITS, _SHADOW, _OWN = _INDEX["fits"], _INDEX["shadow by forecasts"], _INDEX["queue: own: jobs"]


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
