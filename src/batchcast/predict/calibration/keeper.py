"""The level asked of a method, moved online until the level promised is the level kept."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

ROUNDING = 1e-9  # of a bound that went through a logarithm: values often equal an earlier one to the second
KEEP = 0.99  # what is left of an owner's own shift at each of its outcomes
REMEMBERED = 5000.0  # outcomes that the account looks back on
FREE = 50  # unresolved forecasts of one owner that count as evidence of their own


class _Issued(NamedTuple):
    owner: Hashable
    weight: float
    bounds: np.ndarray  # (levels,)
    certain: float  # a bound from here on cannot fail
    open: np.ndarray  # (levels,) whether nothing was learned from it yet


class Keeper:
    """Adaptive conformal levels with late feedback: one shift for everybody, one for each owner (a user, a class).

    Parameters
    ----------
    levels
        The levels promised, in (0, 1), ascending.
    step, own_step
        How far an outcome moves the level asked, of everybody and of the owner, at level 0.9; at others in proportion
        to min(level, 1 - level). Without an own step no owner is remembered.
    free
        Unresolved forecasts of one owner that count as evidence of their own.

    Notes
    -----
    Gibbs & Candes 2021, eq. 2: asked += step (promised - 1{value <= bound}). Departures. *Late feedback*: a value that
    has passed a bound (`waited`) counts as its miss at once, a bound that still holds counts when the value is known.
    *Bursts*: the k-th unresolved forecast of one owner counts 1 / (1 + k - 50) beyond the fiftieth, decided when it is
    issued, so that no outcome chooses its own weight: thousands of like jobs submitted together are one piece of
    evidence. *Account*: what was promised and not kept over the last thousands of outcomes, each in full and less what
    was kept beyond the promise, is paid back, by at most min(level, 1 - level): after a burst other owners' bounds move
    a little, not by all of it. *Owners*: their own shift decays by 0.99 at each outcome. A bound at `certain` (the
    limit) always holds.
    O(levels) a forecast and outcome, and a heap's logarithm.

    References
    ----------
    I. Gibbs & E. Candes, "Adaptive conformal inference under distribution shift", NeurIPS 2021, arXiv:2106.00170.

    >>> keeper = Keeper((0.9,))
    >>> for row in range(100):
    ...     keeper.issue(row, "ada", np.array([10.0]), certain=100.0)
    ...     keeper.known(row, 20.0)
    >>> bool(keeper.asked("ada")[0] > 0.98)
    True
    """

    def __init__(
        self, levels: Sequence[float], step: float = 0.002, own_step: float = 0.02, free: float = FREE
    ) -> None:
        self.levels = np.array(levels, float)
        scale = 10.0 * np.minimum(self.levels, 1.0 - self.levels)
        self.step, self.own_step, self.free = step * scale, own_step * scale, free
        self.everybody = self.levels.copy()
        self.owed = np.zeros(len(self.levels))
        self.most_paid = np.minimum(self.levels, 1.0 - self.levels)
        self.owners: dict[Hashable, np.ndarray] = {}
        self.unresolved: dict[Hashable, int] = {}
        self.issued: dict[int, _Issued] = {}
        self.deadlines: list[tuple[float, int, int]] = []

    def asked(self, owner: Hashable) -> np.ndarray:
        """The levels (levels,) to ask for now, ascending, in [0, 1]; 1 is the certain bound."""
        own = self.owners.get(owner)
        asked = self.everybody + np.clip(self.step * self.owed, -self.most_paid, self.most_paid)
        if own is not None:
            asked = asked + own
        return np.maximum.accumulate(np.clip(asked, 0.0, 1.0))

    def issue(self, row: int, owner: Hashable, bounds: np.ndarray, certain: float) -> None:
        """Remember what was promised for `row`; the same row again replaces it."""
        self.forget(row)
        before = self.unresolved.get(owner, 0)
        self.unresolved[owner] = before + 1
        weight = 1.0 / (1.0 + max(before - self.free, 0))
        self.issued[row] = _Issued(owner, weight, bounds, certain, np.ones(len(bounds), bool))

    def begin(self, row: int, now: float) -> None:
        """The value of `row` grows with the clock from `now` on: its bounds are due one after the other."""
        promised = self.issued.get(row)
        if promised is not None:
            for k, bound in enumerate(promised.bounds.tolist()):
                if bound < promised.certain * (1.0 - ROUNDING):
                    heapq.heappush(self.deadlines, (now + bound + 1e-6, row, k))

    def waited(self, now: float) -> None:
        """Every bound that was due before `now` and whose value is not known yet has failed."""
        while self.deadlines and self.deadlines[0][0] < now:
            _, row, k = heapq.heappop(self.deadlines)
            promised = self.issued.get(row)
            if promised is not None and promised.open[k]:
                missed = np.zeros(len(self.levels), bool)
                missed[k] = True
                self._learn(promised, missed, np.zeros(len(self.levels)))

    def known(self, row: int, value: float) -> None:
        """The value of `row`: what was still open is kept or missed."""
        promised = self.issued.get(row)
        if promised is not None:
            within = value <= promised.bounds * (1.0 + ROUNDING)
            kept = within | (promised.bounds >= promised.certain * (1.0 - ROUNDING))
            self._learn(promised, promised.open.copy(), kept)
            self.forget(row)

    def forget(self, row: int) -> None:
        """Nothing will become known of `row`."""
        promised = self.issued.pop(row, None)
        if promised is not None:
            left = self.unresolved[promised.owner] - 1
            if left:
                self.unresolved[promised.owner] = left
            else:
                del self.unresolved[promised.owner]

    def _learn(self, promised: _Issued, which: np.ndarray, kept: np.ndarray) -> None:
        owed = np.where(which, self.levels - kept, 0.0)
        self.owed = np.where(which, 1.0 - 1.0 / REMEMBERED, 1.0) * self.owed + owed
        wrong = owed * promised.weight
        self.everybody = np.clip(self.everybody + self.step * wrong, 0.0, 1.0)
        if self.own_step.any():
            own = self.owners.get(promised.owner, 0.0)
            self.owners[promised.owner] = np.where(which, KEEP, 1.0) * own + self.own_step * wrong
        promised.open[which] = False


def bounds_at(
    asked: np.ndarray, levels: Sequence[float], quantiles: Sequence[float], certain: float, least: float = 1.0
) -> np.ndarray:
    """Bounds at any levels from a few quantiles: linear in log seconds, with `least` at 0 and `certain` at 1.

    >>> bounds_at(np.array([0.5, 0.95, 1.0]), (0.5, 0.9), (10.0, 100.0), 10_000.0).round().tolist()
    [10.0, 1000.0, 10000.0]
    """
    most = max(certain, least, *quantiles)
    curve = np.log((least, *np.maximum(quantiles, least), most))
    return np.asarray(np.minimum(np.exp(np.interp(asked, (0.0, *levels, 1.0), curve)), most))
