"""What was promised of waits, kept online with late feedback: one record a submission, a few ways to answer.

Each *way* (the model, the simulation, recent waits) gives a curve of chances over the bins. The way whose forecasts
have been best so far, by the CRPS of log(1 + wait), answers, after two corrections: the transform of its recent
forecasts (calibration/transform.py), then one adaptive level a promised bound (calibration/keeper.py).
"""

from __future__ import annotations

import math

import numpy as np

from ..calibration.keeper import Keeper
from ..calibration.transform import GRID, kept_chances, transform_curve
from .bins import BINS, ENDS_S, bin_of, quantiles, reached

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
RECENT = 2000
EVERY = 25
STEPS = (0.005, 0.005, 0.002, 0.002, 0.002, 0.005, 0.005)
"""How far one outcome moves each level: the outer ones, which intervals rest on, faster."""
MEMORY = 500.0
"""Over how many outcomes a way's score is averaged; one is chosen over another after `LEAST`."""
LEAST = 20
WAITING, ENDED, LEFT, SPOILED = range(4)
_WIDTHS = np.diff(np.log1p(np.append(ENDS_S, 4.0 * ENDS_S[-1])), prepend=0.0)
_LEVELS = np.array(LEVELS)
NOTHING_KNOWN = np.linspace(0.2, 1.0, BINS)
_ENDS = np.concatenate([[0.0], _LEVELS, [1.0]])


def jitter(number: int) -> float:
    """Where within its second a wait lies, in [0, 1): waits are whole seconds; by submission, spread evenly."""
    return (0.5 + number * 0.6180339887498949) % 1.0


def crps(curve: np.ndarray, wait: float) -> float:
    """The CRPS of log(1 + wait) of a curve (33,): squared distance to the step at the wait, bin by bin.

    >>> crps(np.ones(33), 0.0)
    0.0
    """
    at = int(bin_of(np.array([wait]))[0])
    low = np.concatenate([[0.0], curve[:-1]])
    middle = 0.5 * (low + curve)
    below, above = middle[:at], 1.0 - middle[at + 1 :]
    score = float((below * below * _WIDTHS[:at]).sum() + (above * above * _WIDTHS[at + 1 :]).sum())
    if at == 0:
        return score
    share = (math.log1p(wait) - math.log1p(ENDS_S[at - 1])) / _WIDTHS[at]
    share = min(max(share, 0.0), 1.0)
    return score + float(_WIDTHS[at] * (share * middle[at] ** 2 + (1.0 - share) * (1.0 - middle[at]) ** 2))


class Promises:
    """The record of recent submissions, by number: each way's curve, submit time, what became of it.

    Parameters
    ----------
    ways
        Names of the ways to answer, the one to begin with first.

    >>> promises = Promises(("simulation",))
    >>> curve = np.linspace(0.1, 1.0, 33)[None, :]
    >>> promises.issue(0, 0.0, curve, promises.chances(curve)); promises.ended(0, 30.0)
    >>> promises.best()
    0
    """

    def __init__(self, ways: tuple[str, ...]) -> None:
        self.ways = ways
        self.curves = np.ones((RECENT, len(ways), BINS))
        self.number = np.full(RECENT, -1, np.int64)
        self.submit = np.zeros(RECENT)
        self.waited = np.zeros(RECENT)
        self.fate = np.full(RECENT, SPOILED, np.int8)
        self.count = 0
        self.keeper = Keeper(LEVELS, 0.005, 0.0, math.inf)
        self.keeper.step = np.array(STEPS)
        self.score = np.zeros(len(ways))
        self.outcomes = np.zeros(len(ways))
        self.transforms: list[np.ndarray] = []

    def best(self) -> int:
        """The way with the least mean CRPS among those with enough outcomes; the first one before that."""
        enough = self.outcomes >= LEAST
        if not enough.any():
            return 0
        return int(np.argmin(np.where(enough, self.score / np.maximum(self.outcomes, 1e-9), np.inf)))

    def way_of(self, curves: np.ndarray) -> int:
        """Which way answers with these curves (ways, 33): the best one, else the first that has one; -1 none."""
        best = self.best()
        known = ~np.isnan(curves[:, 0])
        return best if known[best] else int(np.argmax(known)) if known.any() else -1

    def chances(self, curves: np.ndarray) -> np.ndarray:
        """The curve (33,) of one job's `curves` (ways, 33) as it is promised now: both corrections."""
        way = self.way_of(curves)
        raw = curves[way] if way >= 0 else NOTHING_KNOWN
        levels = self.keeper.asked(None)
        asked = np.concatenate([[0.0], np.clip(levels, 1e-4, 1.0 - 1e-4), [1.0]])
        asked = np.maximum.accumulate(asked + 1e-9 * np.arange(len(asked)))
        return np.asarray(np.interp(kept_chances(self._transform(way), raw), asked / asked[-1], _ENDS))

    @staticmethod
    def bounds(chances: np.ndarray) -> np.ndarray:
        """Waits (7,) at LEVELS by promised chances (33,); what is below 0 s lies within the wait of 0 s."""
        return np.asarray(quantiles(chances[None, :], _LEVELS[None, :])[0])

    def issue(self, number: int, now: float, curves: np.ndarray, chances: np.ndarray) -> None:
        """Submission `number` got these curves (ways, 33), NaN for a way that had none, and was promised `chances`."""
        place = number % RECENT
        self.curves[place], self.submit[place], self.waited[place] = curves, now, 0.0
        self.fate[place], self.number[place] = WAITING, number
        self.keeper.issue(number, None, self.bounds(chances), math.inf)
        self.keeper.begin(number, now + 1.0)
        self.count += 1
        if self.count % EVERY == 0:
            self._renew(now)

    def passes(self, now: float) -> None:
        """Bounds that were due before `now` have failed."""
        self.keeper.waited(now)

    def ended(self, number: int, wait: float) -> None:
        """The job of submission `number` started after `wait` seconds."""
        self.keeper.known(number, wait - jitter(number))
        place = self._place(number)
        if place < 0:
            return
        self.fate[place], self.waited[place] = ENDED, wait
        for way, curve in enumerate(self.curves[place]):
            if curve[0] == curve[0]:
                self.score[way] = (1.0 - 1.0 / MEMORY) * self.score[way] + crps(curve, wait)
                self.outcomes[way] = (1.0 - 1.0 / MEMORY) * self.outcomes[way] + 1.0

    def left(self, number: int, wait: float, spoiled: bool) -> None:
        """It left the queue, or its wait teaches nothing: what it waited is known, and no more."""
        self.keeper.forget(number)
        place = self._place(number)
        if place >= 0:
            self.fate[place], self.waited[place] = SPOILED if spoiled else LEFT, wait

    def _place(self, number: int) -> int:
        return number % RECENT if self.number[number % RECENT] == number else -1

    def _transform(self, way: int) -> np.ndarray:
        return self.transforms[way] if 0 <= way < len(self.transforms) else GRID

    def _renew(self, now: float) -> None:
        """The transform of each way's recent forecasts, by what is known now."""
        numbers = np.arange(RECENT)
        known = self.fate == ENDED
        self.waited[self.fate == WAITING] = np.maximum(now - self.submit[self.fate == WAITING], 0.0)
        self.transforms = []
        for way in range(len(self.ways)):
            rows = numbers[(self.fate != SPOILED) & ~np.isnan(self.curves[:, way, 0])]
            curves, waited, ended = self.curves[rows, way], self.waited[rows], known[rows]
            high = reached(curves, waited)
            low = np.where(ended, reached(curves, waited - 1.0), high)
            spread = (0.5 + self.number[rows] * 0.6180339887498949) % 1.0
            self.transforms.append(transform_curve(low + (1.0 - spread) * (high - low), ended))
