"""Looks at jobs that wait: what each sees by then, and what is left of its wait. They teach, and are promised, too.

A look is what a question about a waiting job is answered from: its features as they are now, with the time it has
waited as one of them, and as what is to be forecast the rest of its wait. Every 30 submissions at most 12 of those that
wait are looked at, drawn at random: enough for the model to learn from, and few enough to cost a fraction of what the
submissions do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .bins import BINS, rest_of
from .features import AT_DRAWS, NAMES
from .model import Hazard, Waits
from .promises import Promises
from .submissions import ENDED, SPOILED, Submissions
from .ways import SPREADS, Lag, simulated_curves

EVERY, MOST = 30, 12
"""Looks are taken every so many submissions, of so many jobs at most."""
SHARE = 0.5
"""Of a model's chances in what it says, beside those that it starts from: half of each was better than either."""
WAYS = (
    "forecast at submission, given the time waited",
    *("simulation" for _ in SPREADS),
    "simulation, as late as it came out",
    "model",
)
"""The ways to forecast what is left, the one to begin with first."""


class Look(NamedTuple):
    """Some of the jobs that wait at one instant: rows, seconds waited (n,), features (n, f)."""

    row: np.ndarray
    waited: np.ndarray
    features: np.ndarray


def places_to_look_at(waited: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Which places of the queue are looked at after submission `number`: at most MOST of who has waited a second.

    >>> places_to_look_at(np.array([50.0, 0.0, 7.0]), 30, 0).tolist()
    [0, 2]
    """
    there = np.flatnonzero(waited >= 1.0)
    if len(there) > MOST:
        random = np.random.default_rng((seed, number))
        there = np.sort(random.choice(there, MOST, replace=False))
    return there


class Looks:
    """The last looks as lessons, the promises made of what was left, and what became of both.

    Parameters
    ----------
    window
        So many submissions back looks are kept: MOST for every EVERY of them.
    Notes
    -----
    The model of what is left starts from what the job was promised at its submission, given the time waited since, and
    learns from looks what the state by now says beyond that. A model of submissions and looks together, that has to
    learn the whole anew, did worse at looks than that promise on some logs (docs/waits.md).

    >>> Looks(300).promises.way_of(np.ones((5, BINS)))
    0
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.ring = Submissions(max(window * MOST // EVERY, MOST), len(NAMES) + BINS)
        self.model: Hazard | None = None
        self.promises = Promises(WAYS)
        self.lag = Lag()
        self.number = 0
        self.of: dict[int, list[tuple[int, float, float]]] = {}

    def curves_of(self, look: Look, promised: np.ndarray) -> np.ndarray:
        """The curves (n, ways, 33) of what is left, NaN where a way has none.

        `promised` are the chances (n, 33) of the whole wait that each got at its submission, NaN where that is unknown.
        """
        n = len(look.row)
        if not n:
            return np.zeros((0, len(WAYS), BINS))
        given, models = rest_of(promised, look.waited), np.full((n, BINS), np.nan)
        known = ~np.isnan(given[:, 0])
        if self.model is not None and known.any():
            new = self.model.curves(look.features[known], given[known])
            models[known] = SHARE * new + (1.0 - SHARE) * given[known]
        simulated = (simulated_curves(look.features, spread) for spread in SPREADS)
        late = [simulated_curves(one[None, :], SPREADS[-1], self.lag.of(float(one[AT_DRAWS]))) for one in look.features]
        return np.stack([given, *simulated, np.concatenate(late), models], axis=1)

    def take(self, look: Look, promised: np.ndarray, now: float, born: int) -> np.ndarray:
        """Remember a look taken after submission `born`; what it is promised (n, 33)."""
        curves = self.curves_of(look, promised)
        chances = np.stack([self.promises.chances(one) for one in curves]) if len(curves) else curves[:, 0]
        for k, row in enumerate(look.row.tolist()):
            simulated = float(look.features[k, AT_DRAWS])
            self.of.setdefault(row, []).append((self.number, float(look.waited[k]), simulated))
            self.ring.add(self.number, now, np.concatenate([look.features[k], curves[k, 0]]), born)
            self.promises.issue(self.number, now, curves[k], chances[k])
            self.number += 1
        return chances

    def lessons(self, now: float, half_life: float, latest: int) -> tuple[np.ndarray, Waits, np.ndarray]:
        """What looks of the last `window` submissions teach: features (n, f), rests as known now, promises (n, 33).

        Of those alone that had a promise to start from.
        """
        both, waits = self.ring.lessons(now, half_life, latest, self.window)
        known = ~np.isnan(both[:, len(NAMES)])
        both = both[known]
        return both[:, : len(NAMES)], Waits(*(of[known] for of in waits)), both[:, len(NAMES) :]

    def resolve(self, row: int, wait: float | None, fate: int) -> None:
        """The job is queued no more: it ENDED its wait, or LEFT, after `wait` seconds, or that teaches nothing."""
        for number, waited, simulated in self.of.pop(row, ()):
            rest = max((wait or 0.0) - waited, 0.0)
            self.ring.resolved(number, rest, fate)
            if fate == ENDED:
                self.promises.ended(number, rest)
                self.lag.add(simulated, rest)
            else:
                self.promises.left(number, rest, fate == SPOILED)
