# SPDX-License-Identifier: Apache-2.0
"""The rows that the model is fitted on.

The last submissions with their features and what became of them, and jobs looked at while they wait.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .bins import BINS, rest_of
from .calibrated_waits import ENDED, LEFT, SPOILED, WAITING, CalibratedWaits
from .components import SPREADS, Lag, simulated_curves
from .features import AT_DRAWS, NAMES
from .model import Hazard, Waits


class Submissions:
    """A ring of the last `window` submissions by number: features, submit time, fate, wait. 4 bytes a feature.

    Or of looks at jobs that wait, each `born` after so many submissions; its wait counts from the look.

    >>> ring = Submissions(4, 2)
    >>> ring.add(0, 10.0, np.zeros(2)); ring.resolved(0, 5.0, ENDED)
    >>> ring.lessons(30.0, 100.0, latest=100)[1]
    Waits(waited=array([5.]), ended=array([ True]), weight=array([0.5]))
    """

    def __init__(self, window: int, features: int) -> None:
        self.window, self.count = window, 0
        self.features = np.zeros((min(window, 256), features), np.float32)
        self.number, self.born = np.full((2, len(self.features)), -1, np.int64)
        self.submit, self.waited = np.zeros(len(self.features)), np.zeros(len(self.features))
        self.fate = np.full(len(self.features), SPOILED, np.int8)

    def add(self, number: int, now: float, features: np.ndarray, born: int | None = None) -> None:
        """Submission `number` (they come in order) at `now`."""
        if number >= len(self.features) < self.window:
            self._grow(min(2 * len(self.features), self.window))
        place = number % len(self.features)
        self.features[place], self.submit[place] = features, now
        self.born[place] = number if born is None else born
        self.number[place], self.fate[place], self.waited[place] = number, WAITING, 0.0
        self.count = number + 1

    def resolved(self, number: int, waited: float, fate: int) -> None:
        """It ENDED or LEFT after `waited` seconds, or teaches nothing (SPOILED)."""
        place = number % len(self.features)
        if self.number[place] == number:
            self.fate[place], self.waited[place] = fate, waited

    def of(self, number: int) -> np.ndarray | None:
        """The features of a submission; None where it is not in the window any more."""
        place = number % len(self.features)
        features: np.ndarray = self.features[place]
        return features if self.number[place] == number else None

    def lessons(self, now: float, half_life: float, latest: int, most: float = np.inf) -> tuple[np.ndarray, Waits]:
        """Features (n, f), a copy, of what teaches, in order, and what is known of it at `now`.

        What was born `half_life` before submission `latest` counts half, before the last `most` not at all.
        """
        age = latest - self.born
        places = np.flatnonzero((self.number >= 0) & (self.fate != SPOILED) & (age < most))
        places = places[np.argsort(self.number[places])]
        waiting = self.fate[places] == WAITING
        waited = np.where(waiting, np.maximum(now - self.submit[places], 0.0), self.waited[places])
        return self.features[places], Waits(waited, self.fate[places] == ENDED, 0.5 ** (age[places] / half_life))

    def _grow(self, size: int) -> None:
        for name in ("features", "number", "born", "submit", "waited", "fate"):
            old = getattr(self, name)
            new = np.zeros((size, *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            if name in ("number", "born"):
                new[len(old) :] = -1
            setattr(self, name, new)


__all__ = ["ENDED", "LEFT", "SPOILED", "WAITING", "Submissions"]

EVERY, MOST = 30, 12
"""Looks are taken every so many submissions, of so many jobs at most."""
SHARE = 0.5
"""Of a model's chances in what it says, beside those that it starts from: half of each was better than either."""
RENEWAL_COMPONENTS = (
    "forecast at submission, given the time waited",
    *("simulation" for _ in SPREADS),
    "simulation, as late as it came out",
    "model",
)
"""The ways to forecast what is left, the one to begin with first."""


class Snapshot(NamedTuple):
    """Some of the jobs that wait at one instant: rows, seconds waited (n,), features (n, f)."""

    row: np.ndarray
    waited: np.ndarray
    features: np.ndarray


def sampled_places(waited: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Which places of the queue are looked at after submission `number`: at most MOST of who has waited a second.

    >>> sampled_places(np.array([50.0, 0.0, 7.0]), 30, 0).tolist()
    [0, 2]
    """
    there = np.flatnonzero(waited >= 1.0)
    if len(there) > MOST:
        random = np.random.default_rng((seed, number))
        there = np.sort(random.choice(there, MOST, replace=False))
    return there


class Renewal:
    """The last looks as lessons, the promises made of what was left, and what became of both.

    Parameters
    ----------
    window
        So many submissions back looks are kept: MOST for every EVERY of them.
    Notes
    -----
    The model of what is left starts from what the job was promised at its submission, given the time waited since, and
    learns from looks what the state by now says beyond that. A model of submissions and looks together, that has to
    learn the whole anew, did worse at looks than that promise on some logs (docs/evidence/waits.md).

    >>> Renewal(300).promises.way_of(np.ones((5, BINS)))
    0
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.ring = Submissions(max(window * MOST // EVERY, MOST), len(NAMES) + BINS)
        self.model: Hazard | None = None
        self.promises = CalibratedWaits(RENEWAL_COMPONENTS)
        self.lag = Lag()
        self.number = 0
        self.of: dict[int, list[tuple[int, float, float]]] = {}

    def curves_of(self, look: Snapshot, promised: np.ndarray) -> np.ndarray:
        """The curves (n, ways, 33) of what is left, NaN where a way has none.

        `promised` are the chances (n, 33) of the whole wait that each got at its submission, NaN where that is unknown.
        """
        n = len(look.row)
        if not n:
            return np.zeros((0, len(RENEWAL_COMPONENTS), BINS))
        given, models = rest_of(promised, look.waited), np.full((n, BINS), np.nan)
        known = ~np.isnan(given[:, 0])
        if self.model is not None and known.any():
            new = self.model.curves(look.features[known], given[known])
            models[known] = SHARE * new + (1.0 - SHARE) * given[known]
        simulated = (simulated_curves(look.features, spread) for spread in SPREADS)
        late = [simulated_curves(one[None, :], SPREADS[-1], self.lag.of(float(one[AT_DRAWS]))) for one in look.features]
        return np.stack([given, *simulated, np.concatenate(late), models], axis=1)

    def take(self, look: Snapshot, promised: np.ndarray, now: float, born: int) -> np.ndarray:
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
