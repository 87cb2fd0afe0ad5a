# SPDX-License-Identifier: Apache-2.0
"""Runs `OnlineCalibration` over a whole log in one compiled pass, with exactly the same levels and bounds."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...compiled import by_address, inner, kernel
from ...events.event import END, START, SUBMIT, WITHDRAW
from ...schedule.state import pop, push
from .keeper import DECAY, GOLDEN, REMEMBERED, ROUNDING, OnlineCalibration

DUE = np.dtype([("key", np.float64), ("tie", np.int64), ("item", np.int64)])
CHUNK = 10_000  # events between two progress reports
NOTHING, STEADY, DRAWN = 0, 1, 2  # a job has no bounds, bounds, or also randomized bounds


@by_address
class _Log(NamedTuple):
    """Inputs by event and by job, and output arrays for the bounds (n, levels)."""

    time: np.ndarray
    kind: np.ndarray
    job: np.ndarray
    owner: np.ndarray
    longest: np.ndarray
    certain: np.ndarray
    run: np.ndarray
    curve: np.ndarray
    most: np.ndarray
    knots: np.ndarray
    steady: np.ndarray
    drawn: np.ndarray
    lots: bool


@by_address
class _Keeper(NamedTuple):
    """State of an `OnlineCalibration`: arrays indexed by level, owner and job, and the number of deadlines."""

    levels: np.ndarray
    step: np.ndarray
    own_step: np.ndarray
    most_paid: np.ndarray
    everybody: np.ndarray
    owed: np.ndarray
    own: np.ndarray
    unresolved: np.ndarray
    issued: np.ndarray
    known: np.ndarray
    promise: np.ndarray
    number: np.ndarray
    weight: np.ndarray
    open: np.ndarray
    due: np.ndarray
    free: float


class LogOfCalibration:
    """Runs an `OnlineCalibration` over a whole log: `advance` processes events; `steady` and `drawn` contain the bounds
    without and with randomization.

    Parameters
    ----------
    keeper
        A new `OnlineCalibration`, whose levels, steps and `free` are used.
    events
        Times, kinds (SUBMIT, START, END, WITHDRAW) and jobs of the events in chronological order, each of shape
        (events,).
    owner
        Number of each job's owner (n,), from 0.
    longest, certain
        The bound at level 1, and the bound that cannot fail (infinite if there is none), in seconds, shape (n,).
    run
        The true run time in seconds, shape (n,).
    said
        The predictor's levels (k,), ascending, and quantiles in seconds (n, k), NaN for jobs without a prediction.
    lots
        Whether bounds are randomized in a burst of similar jobs.

    Notes
    -----
    `tests/unit/predict/calibration` checks that every computed number equals the result of `OnlineCalibration`. Each
    event costs O(levels), plus O(log n) for a heap of n deadlines.
    """

    def __init__(
        self,
        keeper: OnlineCalibration,
        events: tuple[np.ndarray, np.ndarray, np.ndarray],
        *,
        owner: np.ndarray,
        longest: np.ndarray,
        certain: np.ndarray,
        run: np.ndarray,
        said: tuple[tuple[float, ...], np.ndarray],
        lots: bool,
    ) -> None:
        n, count, owners = len(owner), len(keeper.levels), int(owner.max(initial=0)) + 1
        levels, quantiles = said if said[0] else ((0.5,), np.full((n, 1), np.nan))
        self.steady, self.drawn = np.empty((n, count)), np.empty((n, count))
        most = np.maximum(longest, np.max(quantiles, axis=1, initial=1.0))
        self.log = _Log(
            time=np.asarray(events[0], float),
            kind=np.asarray(events[1], np.int64),
            job=np.asarray(events[2], np.int64),
            owner=np.asarray(owner, np.int64),
            longest=np.asarray(longest, float),
            certain=np.asarray(certain, float),
            run=np.asarray(run, float),
            curve=np.log(np.column_stack([np.ones(n), np.maximum(quantiles, 1.0), most])),
            most=most,
            knots=np.array((0.0, *levels, 1.0)),
            steady=self.steady,
            drawn=self.drawn,
            lots=lots,
        )
        self.keeper = _Keeper(
            levels=keeper.levels,
            step=keeper.step,
            own_step=keeper.own_step,
            most_paid=keeper.most_paid,
            everybody=keeper.everybody.copy(),
            owed=keeper.owed.copy(),
            own=np.zeros((owners, count)),
            unresolved=np.zeros(owners, np.int64),
            issued=np.zeros(owners, np.int64),
            known=np.zeros(owners, np.int64),
            promise=np.zeros(n, np.int64),
            number=np.zeros(n, np.int64),
            weight=np.zeros(n),
            open=np.zeros((n, 2), np.int64),
            due=np.zeros(1, np.int64),
            free=float(keeper.free),
        )
        self.heap = np.empty(0, DUE)
        self.done = 0

    def advance(self) -> int:
        """Process the next events; return how many events are left."""
        end = min(self.done + CHUNK, len(self.log.time))
        held = int(self.keeper.due[0])
        room = np.empty(held + 2 * len(self.keeper.levels) * (end - self.done), DUE)
        room[:held] = self.heap[:held]
        self.heap = room
        take_in(self.log, self.keeper, self.heap, self.done, end)
        self.done = end
        return len(self.log.time) - end


@kernel
def take_in(log: _Log, keeper: _Keeper, heap: np.ndarray, begin: int, end: int) -> None:
    """Process events `begin` to `end`: compute bounds at submissions, set deadlines at starts, score bounds at ends."""
    for event in range(begin, end):
        now, kind, job = log.time[event], log.kind[event], log.job[event]
        if kind == SUBMIT:
            promise(log, keeper, job)
        waited(log, keeper, heap, now)
        if kind == START:
            become_due(log, keeper, heap, job, now)
        elif kind == END:
            become_known(log, keeper, job)
        elif kind == WITHDRAW:
            forget(log, keeper, job)


@inner
def promise(log: _Log, keeper: _Keeper, job: int) -> None:
    """Compute a submitted job's bounds at the current levels; in a burst, also its randomized bounds."""
    count, owner = len(keeper.levels), log.owner[job]
    blind = min(keeper.unresolved[owner], keeper.issued[owner] - keeper.known[owner])
    keeper.promise[job] = STEADY
    if np.isnan(log.curve[job, 1]):
        for k in range(count):
            log.steady[job, k] = log.drawn[job, k] = log.longest[job]
    else:
        highest = 0.0
        for k in range(count):
            level = keeper.everybody[k] + paid(keeper, k) + keeper.own[owner, k]
            highest = max(highest, min(max(level, 0.0), 1.0))
            log.steady[job, k] = log.drawn[job, k] = bound_at(log, job, highest)
        share = min((blind - keeper.free) / keeper.free, 1.0)
        lot = (0.5 + keeper.issued[owner] * GOLDEN) % 1.0
        if log.lots and keeper.unresolved[owner] > 0 and lot < share:
            keeper.promise[job] = DRAWN
            for k in range(count):
                won = lot < share * min(max(keeper.levels[k] + paid(keeper, k), 0.0), 1.0)
                log.drawn[job, k] = bound_at(log, job, 1.0 if won else 0.0)
    keeper.weight[job] = 1.0 / (1.0 + max(blind - keeper.free, 0.0))
    keeper.unresolved[owner] += 1
    keeper.issued[owner] += 1
    keeper.number[job] = keeper.issued[owner]
    keeper.open[job, 0] = keeper.open[job, 1] = (1 << count) - 1


@inner
def paid(keeper: _Keeper, k: int) -> float:
    """Return how much the account shifts a level to repay missed coverage."""
    most = keeper.most_paid[k]
    back: float = min(max(keeper.step[k] * keeper.owed[k], -most), most)
    return back


@inner
def bound_at(log: _Log, job: int, level: float) -> float:
    """Interpolate a job's bound at any level, as `keeper.bounds_at` does."""
    knots, last, j = log.knots, len(log.knots) - 1, 0
    while j < last and knots[j + 1] <= level:
        j += 1
    high = log.curve[job, j]
    if j < last and knots[j] != level:
        high = (log.curve[job, j + 1] - high) / (knots[j + 1] - knots[j]) * (level - knots[j]) + high
    bound: float = min(math.exp(high), log.most[job])
    return bound


@inner
def become_due(log: _Log, keeper: _Keeper, heap: np.ndarray, job: int, now: float) -> None:
    """Add a deadline for each bound of a started job: the time after which the bound is missed."""
    count, certain = len(keeper.levels), log.certain[job] * (1.0 - ROUNDING)
    for which in range(keeper.promise[job]):
        for k in range(count):
            bound = log.steady[job, k] if which == 0 else log.drawn[job, k]
            if bound < certain:
                tie = (job * 2 + which) * count + k
                keeper.due[0] = push(heap, keeper.due[0], now + bound + 1e-6, tie, 0)


@inner
def waited(log: _Log, keeper: _Keeper, heap: np.ndarray, now: float) -> None:
    """Count each bound as missed whose deadline has passed before the job's end was seen."""
    count = len(keeper.levels)
    while keeper.due[0] > 0 and heap[0].key < now:
        tie = heap[0].tie
        keeper.due[0] = pop(heap, keeper.due[0])
        k, which, job = tie % count, tie // count % 2, tie // count // 2
        if which < keeper.promise[job] and keeper.open[job, which] >> k & 1:
            keeper.open[job, which] ^= 1 << k
            learn(log, keeper, job, which, k, keeper.levels[k])


@inner
def become_known(log: _Log, keeper: _Keeper, job: int) -> None:
    """Count the bounds of an ended job that have not been missed yet as met or missed."""
    count, owner, run = len(keeper.levels), log.owner[job], log.run[job]
    certain = log.certain[job] * (1.0 - ROUNDING)
    for which in range(keeper.promise[job]):
        for k in range(count):
            bound = log.steady[job, k] if which == 0 else log.drawn[job, k]
            if keeper.open[job, which] >> k & 1:
                kept = run <= bound * (1.0 + ROUNDING) or bound >= certain
                learn(log, keeper, job, which, k, keeper.levels[k] - (1.0 if kept else 0.0))
    if keeper.promise[job] != NOTHING:
        keeper.known[owner] = max(keeper.known[owner], keeper.number[job])
        forget(log, keeper, job)


@inner
def learn(log: _Log, keeper: _Keeper, job: int, which: int, k: int, owed: float) -> None:
    """Learn whether one bound was met: returned bounds change the account, unrandomized bounds change the levels."""
    promised = keeper.promise[job] - 1
    if which == promised:
        keeper.owed[k] = (1.0 - 1.0 / REMEMBERED) * keeper.owed[k] + owed
    if which == 0:
        owner, wrong = log.owner[job], owed * keeper.weight[job]
        keeper.everybody[k] = min(max(keeper.everybody[k] + keeper.step[k] * wrong, 0.0), 1.0)
        keeper.own[owner, k] = DECAY * keeper.own[owner, k] + keeper.own_step[k] * wrong


@inner
def forget(log: _Log, keeper: _Keeper, job: int) -> None:
    """Remove a job from its owner's unresolved jobs; if no unresolved job is left, the owner's burst ends."""
    if keeper.promise[job] != NOTHING:
        owner = log.owner[job]
        keeper.promise[job] = NOTHING
        keeper.unresolved[owner] -= 1
        if keeper.unresolved[owner] == 0:
            keeper.issued[owner] = keeper.known[owner] = 0
