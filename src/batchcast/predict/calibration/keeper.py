# SPDX-License-Identifier: Apache-2.0
"""Online calibration of prediction bounds, one event at a time or over a whole log in one compiled pass.

Each outcome changes the level that is requested from a predictor, so that the predictor's bounds reach the promised
coverage. A second function maps predicted probabilities to the frequencies observed in recent outcomes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from ...compiled import by_address, inner, kernel
from ...events.event import END, START, SUBMIT, WITHDRAW
from ...schedule.state import pop, push

GRID = np.linspace(0.0, 1.0, 201)
IDENTITY = 100.0
"""Number of outcomes of a perfectly calibrated predictor that are added as a prior."""


def transform_curve(values: np.ndarray, ended: np.ndarray) -> np.ndarray:
    """Estimate the distribution (201,), at the levels GRID, of predicted probabilities at the outcomes, by
    Kaplan-Meier.

    >>> transform_curve(np.full(200, 0.5), np.ones(200, bool))[[99, 100]].round(3).tolist()
    [0.165, 0.833]
    """
    # `values` is the predicted distribution function at the outcome if `ended`, else at the time that has passed so
    # far: an outcome that is not known yet is censored.
    #
    # Kaplan & Meier 1958; at equal values, outcomes come before censored values. Without outcomes, the result is the
    # identity (no correction). Beyond the last outcome the estimated distribution is a straight line that reaches 1 at
    # 1. O(n log n).
    n = len(values)
    if n == 0:
        return GRID.copy()
    order = np.lexsort((~ended, values))
    sorted_values, known = values[order], ended[order]
    at_risk = np.arange(n, 0, -1)
    stays = np.cumprod(np.where(known, 1.0 - 1.0 / at_risk, 1.0))
    at = np.searchsorted(sorted_values, GRID, side="right")
    beyond = np.where(at > 0, stays[np.maximum(at - 1, 0)], 1.0)
    last = sorted_values[known][-1] if known.any() else 0.0
    if beyond[-1] > 0.0 and last < 1.0:  # beyond the last outcome, the predictor's own curve, scaled to reach 1 at 1
        rest = np.clip((GRID - last) / (1.0 - last), 0.0, 1.0)
        beyond = np.where(last < GRID, beyond[-1] * (1.0 - rest), beyond)
    beyond[-1] = 0.0
    outcomes = float(known.sum())
    return np.asarray((outcomes * (1.0 - beyond) + IDENTITY * GRID) / (outcomes + IDENTITY))


def kept_chances(curve: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """Map predicted probabilities to the frequencies observed recently; any shape, in [0, 1].

    >>> kept_chances(GRID, np.array([0.25]))
    array([0.25])
    """
    return np.asarray(np.interp(chances, GRID, curve))


ROUNDING = 1e-9  # tolerance for bounds computed through logarithms: run times often equal earlier ones to the second
DECAY = 0.99  # an owner's own shift is multiplied by this at each of its outcomes
REMEMBERED = 5000.0  # time constant, in outcomes, of the sum of missed coverage (*Account* below)
FREE = 50  # default of `free` below
GOLDEN = 0.6180339887498949


class _Bounds(NamedTuple):
    """Bounds of a prediction whose outcome is unknown. The bounds change the requested levels (`teaches`), the sum of
    missed coverage (`promised`) or both."""

    seconds: np.ndarray  # (levels,)
    open: np.ndarray  # (levels,) whether the outcome is still unknown at this level
    teaches: bool
    promised: bool


class _Issued(NamedTuple):
    """A prediction whose outcome is unknown, with its bounds and its weight as evidence."""

    owner: Hashable
    number: int  # running number among the owner's predictions
    weight: float
    certain: float  # a bound at or above this value cannot fail
    bounds: tuple[_Bounds, ...]


class Open:
    """Counts of the predictions made for one owner (a user or a class of jobs).

    `unresolved` counts the predictions that have no known outcome yet. `issued` counts the predictions since the owner
    last had no unresolved prediction, and `last_resolved` is the position, among the issued predictions, of the latest
    prediction whose outcome is known.
    """

    __slots__ = ("issued", "last_resolved", "unresolved")

    def __init__(self) -> None:
        self.issued = self.last_resolved = self.unresolved = 0

    def blind(self) -> int:
        """Return how many predictions are unresolved and were made after the latest resolved prediction."""
        return min(self.unresolved, self.issued - self.last_resolved)


class OnlineCalibration:
    """Adaptive conformal levels with delayed feedback, shifted for all owners together and per owner (a user or class).

    >>> keeper = OnlineCalibration((0.9,))
    >>> for row in range(100):
    ...     keeper.issue(row, "ada", np.array([10.0]), certain=100.0)
    ...     keeper.resolve(row, 20.0)
    >>> bool(keeper.requested_levels("ada")[0] > 0.98)
    True
    """

    # `step` and `own_step`: how far one outcome moves the shared shift and the owner's shift at level 0.9; at other
    # levels, the step is proportional to min(level, 1 - level). `free`: number of predictions of one owner, since the
    # owner's latest known outcome, that count as independent evidence. `memory`: number of outcomes after which the
    # effect of an outcome on the shared shift has decayed to a third; infinite: no decay.
    #
    # The level requested from the predictor follows Gibbs & Candes 2021, eq. 2: requested += step (promised - 1{value
    # <= bound}). We depart from the paper as follows.
    #
    # *Delayed feedback*: a bound counts as missed as soon as a job's run time or wait so far exceeds the bound
    # (`waited`). Bounds that have not been missed yet count as met or missed when the outcome is known.
    #
    # *Bursts*: a user may submit thousands of similar jobs before the first job ends. A burst of similar jobs is one
    # piece of evidence, not thousands. So the k-th prediction after the latest known outcome has weight 1 / (1 + k -
    # 50) for k > 50. The weight is fixed when the prediction is issued, so that no outcome affects its own weight.
    #
    # *Randomized bounds* (`drawn`): the jobs of a burst also meet or miss their bounds together, so no single level
    # gives the promised coverage. Predictions late in a burst therefore use at random either level 1 (the bound that
    # always holds) or level 0 (the smallest bound). The share of randomized predictions rises from 0 at the fiftieth
    # prediction of a burst to 1 at the hundredth. The probability of level 1 is the promised level plus the repayment
    # of missed coverage (see *Account*). The shift learns only from bounds that are not randomized.
    #
    # *Account*: a sum, called the account, adds up the difference between promised and reached coverage over the last
    # thousands of outcomes. Later levels are shifted to repay the difference, by at most min(level, 1 - level). Because
    # of the account, a burst of misses shifts the bounds of other owners only a little. Shift and account are the
    # proportional and the integral part of a controller (Angelopoulos, Candes & Tibshirani 2023). With a finite
    # `memory`, the shift follows recent evidence, only the account controls the coverage over all jobs, and the account
    # may move a level anywhere in [0, 1].
    #
    # *Owners*: an owner's shift decays by 0.99 at each outcome. A bound at or above `certain` (the time limit) counts
    # as met.
    #
    # Each prediction and each outcome costs O(levels), plus O(log n) for a heap of n deadlines.
    #
    # I. Gibbs & E. Candes, "Adaptive conformal inference under distribution shift", NeurIPS 2021, arXiv:2106.00170.
    # A. Angelopoulos, E. Candes & R. Tibshirani, "Conformal PID control for time series prediction", NeurIPS 2023,
    # arXiv:2307.16895.

    def __init__(
        self,
        levels: Sequence[float],
        step: float = 0.002,
        own_step: float = 0.01,
        free: float = FREE,
        memory: float = math.inf,
    ) -> None:
        self.levels = np.array(levels, float)
        scale = 10.0 * np.minimum(self.levels, 1.0 - self.levels)
        self.step, self.own_step, self.free = step * scale, own_step * scale, free
        self.fades, self.repaid = 1.0 / memory, np.ones(len(self.levels))
        self.has_owners = bool(self.own_step.any())
        self.everybody = self.levels.copy()
        self.owed = np.zeros(len(self.levels))
        self.most_paid = np.minimum(self.levels, 1.0 - self.levels)
        whole = memory < math.inf
        self.paid_between = (-self.levels, 1.0 - self.levels) if whole else (-self.most_paid, self.most_paid)
        self.owners: dict[Hashable, np.ndarray] = {}
        self.open: dict[Hashable, Open] = {}
        self.issued: dict[int, _Issued] = {}
        self.deadlines: list[tuple[float, int, int, int]] = []

    def requested_levels(self, owner: Hashable) -> np.ndarray:
        """Return the levels (levels,) to request from the predictor now, ascending, in [0, 1]; 1 is the certain
        bound.
        """
        own = self.owners.get(owner)
        requested = self.everybody + self._paid()
        if own is not None:
            requested = requested + own
        return np.asarray(np.maximum.accumulate(np.minimum(np.maximum(requested, 0.0), 1.0)))

    def drawn(self, owner: Hashable) -> np.ndarray | None:
        """Return the randomized levels (levels,), 0 or 1, of an owner's next prediction; None if it is not randomized.

        The random number is the fractional part of the golden ratio times the number of predictions in the burst. The
        number does not change until the next prediction is issued; the numbers are spread evenly over a burst.

        >>> keeper, lots = OnlineCalibration((0.9,)), []
        >>> for row in range(300):
        ...     lots.append(keeper.drawn("ada"))
        ...     keeper.issue(row, "ada", np.array([10.0]), certain=100.0)
        >>> lots[50] is None, float(np.mean(lots[100:]).round(2))
        (True, 0.9)
        """
        open_ = self.open.get(owner)
        if open_ is None:
            return None
        share = min((self.blind(owner) - self.free) / self.free, 1.0)
        lot = (0.5 + open_.issued * GOLDEN) % 1.0
        if not lot < share:
            return None
        return np.asarray(np.where(lot < share * np.clip(self.levels + self._paid(), 0.0, 1.0), 1.0, 0.0))

    def blind(self, owner: Hashable) -> int:
        """Return how many of an owner's predictions are unresolved and were made after the latest resolved
        prediction.
        """
        open_ = self.open.get(owner)
        return 0 if open_ is None else open_.blind()

    def issue(
        self,
        row: int,
        owner: Hashable,
        bounds: np.ndarray,
        certain: float,
        drawn: np.ndarray | None = None,
        weight: float | None = None,
    ) -> None:
        """Record the bounds predicted for job `row`, and randomized bounds `drawn` if any; this replaces an earlier
        record of the job.

        `weight` is the prediction's weight as evidence; by default it follows from the number of predictions in the
        burst.
        """
        self.forget(row)
        if weight is None:
            weight = 1.0 / (1.0 + max(self.blind(owner) - self.free, 0))
        open_ = self.open.setdefault(owner, Open())
        open_.unresolved += 1
        open_.issued += 1
        both = [_Bounds(bounds, np.ones(len(bounds), bool), True, drawn is None)]
        if drawn is not None:
            both.append(_Bounds(drawn, np.ones(len(drawn), bool), False, True))
        self.issued[row] = _Issued(owner, open_.issued, weight, certain, tuple(both))

    def begin(self, row: int, now: float) -> None:
        """Record that job `row` started at `now`: a bound of b seconds is missed if the job still runs at `now` + b."""
        issued = self.issued.get(row)
        if issued is not None:
            for which, bounds in enumerate(issued.bounds):
                certain = issued.certain * (1.0 - ROUNDING)
                for k, bound in enumerate(bounds.seconds.tolist()):
                    if bound < certain:
                        heapq.heappush(self.deadlines, (now + bound + 1e-6, row, which, k))

    def waited(self, now: float) -> None:
        """Count every bound whose time passed before `now` as missed if the job's value is not known yet."""
        while self.deadlines and self.deadlines[0][0] < now:
            _, row, which, k = heapq.heappop(self.deadlines)
            issued = self.issued.get(row)
            if issued is not None and which < len(issued.bounds) and issued.bounds[which].open[k]:
                self._missed(issued, issued.bounds[which], k)

    def resolve(self, row: int, value: float) -> None:
        """Count each bound of job `row` that has not been missed yet as met or missed by the known value."""
        issued = self.issued.get(row)
        if issued is not None:
            for bounds in issued.bounds:
                within = value <= bounds.seconds * (1.0 + ROUNDING)
                kept = within | (bounds.seconds >= issued.certain * (1.0 - ROUNDING))
                self._learn(issued, bounds, bounds.open.copy(), kept)
            open_ = self.open[issued.owner]
            open_.last_resolved = max(open_.last_resolved, issued.number)
            self.forget(row)

    def forget(self, row: int) -> None:
        """Drop job `row`, because its value will never be known."""
        issued = self.issued.pop(row, None)
        if issued is not None:
            open_ = self.open[issued.owner]
            open_.unresolved -= 1
            if not open_.unresolved:
                del self.open[issued.owner]

    def _paid(self) -> np.ndarray:
        low, high = self.paid_between
        return np.asarray(np.minimum(np.maximum(self.repaid * self.step * self.owed, low), high))

    def _missed(self, issued: _Issued, bounds: _Bounds, k: int) -> None:
        """Learn that one bound was missed (`_learn`)."""
        owed = self.levels[k]
        bounds.open[k] = False
        if bounds.promised:
            self.owed[k] = (1.0 - 1.0 / REMEMBERED) * self.owed[k] + owed
        if bounds.teaches:
            back = self.fades * (self.everybody[k] - self.levels[k])
            self.everybody[k] = min(self.everybody[k] + (self.step[k] * owed - back) * issued.weight, 1.0)
            if self.has_owners:
                own = self.owners.get(issued.owner)
                if own is None:
                    own = self.owners[issued.owner] = np.zeros(len(self.levels))
                own[k] = DECAY * own[k] + self.own_step[k] * owed * issued.weight

    def _learn(self, issued: _Issued, bounds: _Bounds, which: np.ndarray, kept: np.ndarray) -> None:
        owed = np.where(which, self.levels - kept, 0.0)
        bounds.open[which] = False
        if bounds.promised:
            self.owed = np.where(which, 1.0 - 1.0 / REMEMBERED, 1.0) * self.owed + owed
        if not bounds.teaches:
            return
        wrong = owed * issued.weight
        back = np.where(which, self.fades * issued.weight * (self.everybody - self.levels), 0.0)
        self.everybody = np.minimum(np.maximum(self.everybody + self.step * wrong - back, 0.0), 1.0)
        if self.has_owners:
            own = self.owners.get(issued.owner, 0.0)
            self.owners[issued.owner] = np.where(which, DECAY, 1.0) * own + self.own_step * wrong


def bounds_at(
    requested: np.ndarray, levels: Sequence[float], quantiles: Sequence[float], certain: float, least: float = 1.0
) -> np.ndarray:
    """Interpolate bounds at any levels from a few quantiles: linear in log seconds, `least` at 0 and `certain` at 1.

    >>> bounds_at(np.array([0.5, 0.95, 1.0]), (0.5, 0.9), (10.0, 100.0), 10_000.0).round().tolist()
    [10.0, 1000.0, 10000.0]
    """
    most = max(certain, least, *quantiles)
    curve = np.log((least, *np.maximum(quantiles, least), most))
    read = np.interp(requested, (0.0, *levels, 1.0), curve).tolist()
    return np.array([min(math.exp(high), most) for high in read])  # bit for bit equal to the compiled pass


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
    last_resolved: np.ndarray
    promise: np.ndarray
    number: np.ndarray
    weight: np.ndarray
    open: np.ndarray
    due: np.ndarray
    free: float


def bounds_over_log(
    keeper: OnlineCalibration,
    events: tuple[np.ndarray, np.ndarray, np.ndarray],
    *,
    owner: np.ndarray,
    longest: np.ndarray,
    certain: np.ndarray,
    run: np.ndarray,
    predicted: tuple[tuple[float, ...], np.ndarray],
    lots: bool,
    tick: Callable[[int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Run an `OnlineCalibration` over a whole log; return the bounds (n, levels) without and with randomization."""
    # `events`: times, kinds (SUBMIT, START, END, WITHDRAW) and jobs in chronological order. `longest` and `certain`:
    # the bound at level 1, and the bound that cannot fail (infinite if there is none), in seconds, shape (n,).
    # `predicted`: levels (k,), ascending, and quantiles in seconds (n, k), NaN for jobs without a prediction. `lots`:
    # whether bounds are randomized in a burst of similar jobs.
    #
    # `tests/unit/predict/calibration` checks that every computed number equals the result of `OnlineCalibration`. Each
    # event costs O(levels), plus O(log n) for a heap of n deadlines.
    n, count, owners = len(owner), len(keeper.levels), int(owner.max(initial=0)) + 1
    levels, quantiles = predicted if predicted[0] else ((0.5,), np.full((n, 1), np.nan))
    most = np.maximum(longest, np.max(quantiles, axis=1, initial=1.0))
    log = _Log(
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
        steady=np.empty((n, count)),
        drawn=np.empty((n, count)),
        lots=lots,
    )
    levels_of = (keeper.levels, keeper.step, keeper.own_step, keeper.most_paid, keeper.levels.copy(), np.zeros(count))
    owners_of, jobs_of = np.zeros((3, owners), np.int64), np.zeros((2, n), np.int64)
    due, weight, still_open = np.zeros(1, np.int64), np.zeros(n), np.zeros((n, 2), np.int64)
    state = _Keeper._make(
        (*levels_of, np.zeros((owners, count)), *owners_of, *jobs_of, weight, still_open, due, float(keeper.free))
    )
    heap, submitted = np.empty(0, DUE), np.cumsum(log.kind == SUBMIT)
    for begin in range(0, len(log.time), CHUNK):
        end, held = min(begin + CHUNK, len(log.time)), int(state.due[0])
        room = np.empty(held + 2 * count * (end - begin), DUE)
        room[:held] = heap[:held]
        heap = room
        take_in(log, state, heap, begin, end)
        if tick is not None:
            tick(int(submitted[end - 1]))
    return log.steady, log.drawn


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
    blind = min(keeper.unresolved[owner], keeper.issued[owner] - keeper.last_resolved[owner])
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
    """Interpolate a job's bound at any level, as `bounds_at` does."""
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
        keeper.last_resolved[owner] = max(keeper.last_resolved[owner], keeper.number[job])
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
            keeper.issued[owner] = keeper.last_resolved[owner] = 0
