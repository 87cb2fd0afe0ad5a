# SPDX-License-Identifier: Apache-2.0
"""Online calibration, one event at a time.

Each outcome moves the level at which a method is asked for its quantile, and levels are mapped by how recent forecasts
came out.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

GRID = np.linspace(0.0, 1.0, 201)
IDENTITY = 100.0
"""How many outcomes of a perfect forecaster are mixed in."""


def transform_curve(values: np.ndarray, ended: np.ndarray) -> np.ndarray:
    """The distribution (201,) over GRID of the transforms of forecasts, by Kaplan-Meier; nothing known: the identity.

    Parameters
    ----------
    values
        The forecast chance (n,) of what happened: of the outcome where `ended`, else of what has passed so far, in
        [0, 1].
    ended
        Whether the outcome is known (n,), bool; else it is beyond.

    Notes
    -----
    Kaplan & Meier 1958; at equal values outcomes come before the censored. What no outcome reaches follows the
    identity, scaled. O(n log n).

    >>> transform_curve(np.full(200, 0.5), np.ones(200, bool))[[99, 100]].round(3).tolist()
    [0.165, 0.833]
    """
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
    if beyond[-1] > 0.0 and last < 1.0:  # the rest lies beyond the last outcome, spread as the forecaster spreads it
        rest = np.clip((GRID - last) / (1.0 - last), 0.0, 1.0)
        beyond = np.where(last < GRID, beyond[-1] * (1.0 - rest), beyond)
    beyond[-1] = 0.0
    outcomes = float(known.sum())
    return np.asarray((outcomes * (1.0 - beyond) + IDENTITY * GRID) / (outcomes + IDENTITY))


def kept_chances(curve: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """What forecast chances have meant of late: any shape, in [0, 1].

    >>> kept_chances(GRID, np.array([0.25]))
    array([0.25])
    """
    return np.asarray(np.interp(chances, GRID, curve))


ROUNDING = 1e-9  # of a bound that went through a logarithm: values often equal an earlier one to the second
DECAY = 0.99  # what is left of an owner's own shift at each of its outcomes
REMEMBERED = 5000.0  # outcomes that the account looks back on
FREE = 50  # forecasts of one owner since its latest known one that count as evidence of their own
GOLDEN = 0.6180339887498949


class _Bounds(NamedTuple):
    """Bounds that hold or fail: those that teach levels, those that were promised, or both at once."""

    seconds: np.ndarray  # (levels,)
    open: np.ndarray  # (levels,) whether nothing is known of it yet
    teaches: bool
    promised: bool


class _Issued(NamedTuple):
    owner: Hashable
    number: int  # of the owner's
    weight: float
    certain: float  # a bound from here on cannot fail
    bounds: tuple[_Bounds, ...]


class _Open:
    """Of an owner with unresolved forecasts: how many, how many since there were none, the latest of those known."""

    __slots__ = ("issued", "known", "unresolved")

    def __init__(self) -> None:
        self.issued = self.known = self.unresolved = 0


class OnlineCalibration:
    """Adaptive conformal levels with late feedback: one shift for everybody, one for each owner (a user, a class).

    Parameters
    ----------
    levels
        The levels promised, in (0, 1), ascending.
    step, own_step
        How far an outcome moves the level asked, of everybody and of the owner, at level 0.9; at others in proportion
        to min(level, 1 - level). Without an own step no owner is remembered.
    free
        Forecasts of one owner, made since the latest one whose value is known, that count as evidence of their own.
    memory
        Outcomes, each by what it counts as evidence, after which a third is left of what one moved the shift of
        everybody; infinite: all of it for good.

    Notes
    -----
    Gibbs & Candes 2021, eq. 2: asked += step (promised - 1{value <= bound}). Departures. *Late feedback*: a value that
    has passed a bound (`waited`) counts as its miss at once, a bound that still holds counts when the value is known.
    *Bursts*: what an owner is told blindly, k forecasts after the latest one whose value is known, counts 1 / (1 + k -
    50) beyond the fiftieth, decided when it is issued, so that no outcome chooses its own weight: thousands of like
    jobs submitted together are one piece of evidence. *Lots* (`drawn`): they also hold or fail together, so that no
    single level keeps a share of them. Beyond the fiftieth such forecast a rising share, all from the hundredth on, is
    asked at level 1 (the certain bound) or 0 (one that says nothing), by lot, in the proportion whose mean is the level
    promised and paid back. Levels learn from the bounds without lots. *Account*: what was promised and not kept over
    the last thousands of outcomes, each in full and less what was kept beyond the promise, is paid back, by at most
    min(level, 1 - level): after a burst other owners' bounds move a little, not by all of it. Shift and account are the
    proportional and the integral part of a controller (Angelopoulos, Candes & Tibshirani 2023). With a `memory` the
    shift follows what evidence says of late, and the account alone keeps the share over all jobs: it may then bring a
    level anywhere in [0, 1]. *Owners*: their own shift
    decays by 0.99 at each outcome. A bound at `certain` (the limit) always holds.
    O(levels) a forecast and outcome, and a heap's logarithm.

    References
    ----------
    I. Gibbs & E. Candes, "Adaptive conformal inference under distribution shift", NeurIPS 2021, arXiv:2106.00170.
    A. Angelopoulos, E. Candes & R. Tibshirani, "Conformal PID control for time series prediction", NeurIPS 2023,
    arXiv:2307.16895.

    >>> keeper = OnlineCalibration((0.9,))
    >>> for row in range(100):
    ...     keeper.issue(row, "ada", np.array([10.0]), certain=100.0)
    ...     keeper.known(row, 20.0)
    >>> bool(keeper.asked("ada")[0] > 0.98)
    True
    """

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
        self.open: dict[Hashable, _Open] = {}
        self.issued: dict[int, _Issued] = {}
        self.deadlines: list[tuple[float, int, int, int]] = []

    def asked(self, owner: Hashable) -> np.ndarray:
        """The levels (levels,) to ask for now, ascending, in [0, 1]; 1 is the certain bound."""
        own = self.owners.get(owner)
        asked = self.everybody + self._paid()
        if own is not None:
            asked = asked + own
        return np.asarray(np.maximum.accumulate(np.minimum(np.maximum(asked, 0.0), 1.0)))

    def drawn(self, owner: Hashable) -> np.ndarray | None:
        """The levels (levels,), 0 or 1, that an owner told blindly draws next; None where no lot falls on it.

        The lot is the fraction of the golden ratio times the number of the owner's forecasts since none was unresolved:
        the same until the next is issued, and spread evenly over a burst.

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
        """How many unresolved forecasts an owner has that are later than the latest one whose value is known."""
        open_ = self.open.get(owner)
        return 0 if open_ is None else min(open_.unresolved, open_.issued - open_.known)

    def issue(
        self,
        row: int,
        owner: Hashable,
        bounds: np.ndarray,
        certain: float,
        drawn: np.ndarray | None = None,
        weight: float | None = None,
    ) -> None:
        """Remember what was promised for `row`, `drawn` where a lot fell on it; the same row again replaces it.

        `weight` is what it counts as evidence in place of the part of its burst.
        """
        self.forget(row)
        if weight is None:
            weight = 1.0 / (1.0 + max(self.blind(owner) - self.free, 0))
        open_ = self.open.setdefault(owner, _Open())
        open_.unresolved += 1
        open_.issued += 1
        both = [_Bounds(bounds, np.ones(len(bounds), bool), True, drawn is None)]
        if drawn is not None:
            both.append(_Bounds(drawn, np.ones(len(drawn), bool), False, True))
        self.issued[row] = _Issued(owner, open_.issued, weight, certain, tuple(both))

    def begin(self, row: int, now: float) -> None:
        """The value of `row` grows with the clock from `now` on: its bounds are due one after the other."""
        issued = self.issued.get(row)
        if issued is not None:
            for which, bounds in enumerate(issued.bounds):
                certain = issued.certain * (1.0 - ROUNDING)
                for k, bound in enumerate(bounds.seconds.tolist()):
                    if bound < certain:
                        heapq.heappush(self.deadlines, (now + bound + 1e-6, row, which, k))

    def waited(self, now: float) -> None:
        """Every bound that was due before `now` and whose value is not known yet has failed."""
        while self.deadlines and self.deadlines[0][0] < now:
            _, row, which, k = heapq.heappop(self.deadlines)
            issued = self.issued.get(row)
            if issued is not None and which < len(issued.bounds) and issued.bounds[which].open[k]:
                self._missed(issued, issued.bounds[which], k)

    def known(self, row: int, value: float) -> None:
        """The value of `row`: what was still open is kept or missed."""
        issued = self.issued.get(row)
        if issued is not None:
            for bounds in issued.bounds:
                within = value <= bounds.seconds * (1.0 + ROUNDING)
                kept = within | (bounds.seconds >= issued.certain * (1.0 - ROUNDING))
                self._learn(issued, bounds, bounds.open.copy(), kept)
            open_ = self.open[issued.owner]
            open_.known = max(open_.known, issued.number)
            self.forget(row)

    def forget(self, row: int) -> None:
        """Nothing will become known of `row`."""
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
        """`_learn` of one level's miss."""
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
    asked: np.ndarray, levels: Sequence[float], quantiles: Sequence[float], certain: float, least: float = 1.0
) -> np.ndarray:
    """Bounds at any levels from a few quantiles: linear in log seconds, with `least` at 0 and `certain` at 1.

    >>> bounds_at(np.array([0.5, 0.95, 1.0]), (0.5, 0.9), (10.0, 100.0), 10_000.0).round().tolist()
    [10.0, 1000.0, 10000.0]
    """
    most = max(certain, least, *quantiles)
    curve = np.log((least, *np.maximum(quantiles, least), most))
    read = np.interp(asked, (0.0, *levels, 1.0), curve).tolist()
    return np.array([min(math.exp(high), most) for high in read])  # as the compiled pass, to the last bit
