"""A whole log as `forecast` is told it: the features of every submission and look in compiled passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...events.event import END, START, SUBMIT, WITHDRAW
from ...events.record import Columns, requests_of
from ...events.recorded import timeline, told_events
from ...events.state import Cancelled
from ...table import Trace
from ..hazard import features as kernel
from ..hazard.draws import PLANS
from ..hazard.lessons import Lessons, blank_lessons, level_of, with_room
from ..hazard.looks import EVERY, Look, places_to_look_at
from ..hazard.renewal import describe_queue
from ..hazard.run_curve import COUNT
from ..runtime.kernel import Kernel

Class = tuple[int, int, int]


class Log(NamedTuple):
    """A log as the method is told it.

    Features (n, f), classes, events (time, kind, row, wait taught or NaN), and the look after each submission, by its
    row, that one was taken after.
    """

    rows: np.ndarray
    keys: list[Class]
    events: list[tuple[float, int, int, float]]
    looks: Mapping[int, Look]


def seen_in(
    trace: Trace, protocol: str, procs: str, total: float | None, cancelled: Cancelled = "count", seed: int | None = 0
) -> Log:
    """All that is seen of a log; a machine of `total` processors, else the log's. No looks without a seed for them.

    Linear in what waits and runs.
    """
    n = len(trace)
    run_times = Kernel().predict_trace(trace, protocol, procs)
    runs = np.full((n, COUNT), np.nan, np.float32)
    if run_times.levels:
        runs[:] = run_times.quantiles
    requests, codes = requests_of(trace, procs)
    plan = timeline(trace, protocol)
    events = told_events(trace, plan)
    state = Columns(trace.info.max_procs if total is None else total, n)
    state.make_room(n, len(codes["user_id"]) + 1)
    room, lessons = kernel.blank_room(*most_at_once(plan.kind)), blank_lessons()
    rows, taught = np.zeros((n, len(kernel.NAMES)), np.float32), np.full(len(events), np.nan)
    looks: dict[int, Look] = {}
    looked_after = np.flatnonzero(plan.kind == SUBMIT)[EVERY - 1 :: EVERY].tolist()
    first, counts = 0, cancelled == "count"
    for number, last in enumerate((*looked_after, len(events) - 1), 1):
        lessons = with_room(lessons, last + 1 - first)
        kernel.describe_log(state.record, lessons, requests, events, first, last + 1, counts, runs, room, rows, taught)
        if seed is not None and number <= len(looked_after):
            now = float(plan.time[last])
            places = places_to_look_at(now - state.jobs["submit"][state.queued_entries()], EVERY * number, seed)
            looks[int(plan.index[last])] = look_at(state, lessons, places, now, runs, room)
        first = last + 1
    told = zip(plan.time.tolist(), plan.kind.tolist(), plan.index.tolist(), taught.tolist())
    return Log(rows, [class_of(job) for job in requests], list(told), looks)


def look_at(
    state: Columns, lessons: Lessons, places: np.ndarray, now: float, runs: np.ndarray, room: kernel.Room
) -> Look:
    """What the jobs at `places` of the queue see at `now`, the drawn futures simulated once for all who wait."""
    queue = state.queued_entries()
    jobs = state.jobs[queue[places]]
    features = np.zeros((len(places), len(kernel.NAMES)), np.float32)
    if len(places):
        waits = np.zeros((len(PLANS), len(queue)))
        describe_queue(state.record, lessons, now, runs, room, places.astype(np.int64), waits, features)
    return Look(jobs["row"].copy(), np.maximum(now - jobs["submit"], 0.0), features)


def class_of(job: np.void) -> Class:
    """The class of jobs whose recent waits speak for this one: queue, partition, size."""
    return int(job["queue"]), int(job["partition"]), level_of(float(job["procs"]), 31)


def most_at_once(kind: np.ndarray) -> tuple[int, int]:
    """The most jobs that run and the most that are queued at any point of a timeline."""
    queued = np.cumsum(np.where(kind == SUBMIT, 1, np.where((kind == START) | (kind == WITHDRAW), -1, 0)))
    running = np.cumsum(np.where(kind == START, 1, np.where(kind == END, -1, 0)))
    return int(running.max(initial=0)) + 1, int(queued.max(initial=0)) + 1
