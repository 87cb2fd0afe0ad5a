"""The last submissions with their features and what became of them: what the model is fitted on."""

from __future__ import annotations

import numpy as np

from .fitting import Fitting
from .model import Waits
from .promises import ENDED, LEFT, SPOILED, WAITING


class Submissions:
    """A ring of the last `window` submissions by number: features, submit time, fate, wait. 4 bytes a feature.

    >>> ring = Submissions(4, 2)
    >>> ring.add(0, 10.0, np.zeros(2)); ring.resolved(0, 5.0, ENDED)
    >>> ring.known(now=30.0)[1].waited.tolist()
    [5.0]
    """

    def __init__(self, window: int, features: int) -> None:
        self.window, self.count = window, 0
        self.features = np.zeros((min(window, 256), features), np.float32)
        self.number = np.full(len(self.features), -1, np.int64)
        self.submit, self.waited = np.zeros(len(self.features)), np.zeros(len(self.features))
        self.fate = np.full(len(self.features), SPOILED, np.int8)

    def add(self, number: int, now: float, features: np.ndarray) -> None:
        """Submission `number` (they come in order) at `now`."""
        if number >= len(self.features) < self.window:
            self._grow(min(2 * len(self.features), self.window))
        place = number % len(self.features)
        self.features[place], self.submit[place] = features, now
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

    def known(self, now: float) -> tuple[np.ndarray, Waits, np.ndarray]:
        """Places of the rows that teach, in order of submission, what is known of them at `now`, and their age."""
        places = np.flatnonzero((self.number >= 0) & (self.fate != SPOILED))
        places = places[np.argsort(self.number[places])]
        waiting = self.fate[places] == WAITING
        waited = np.where(waiting, np.maximum(now - self.submit[places], 0.0), self.waited[places])
        age = self.count - 1 - self.number[places]
        return places, Waits(waited, self.fate[places] == ENDED, np.ones(len(places))), age

    def fitting(self, now: float, half_life: float, seed: int) -> Fitting:
        """A fit of what is known now; a submission `half_life` ago counts half."""
        places, waits, age = self.known(now)
        return Fitting(self.features[places], waits._replace(weight=0.5 ** (age / half_life)), seed)

    def _grow(self, size: int) -> None:
        for name in ("features", "number", "submit", "waited", "fate"):
            old = getattr(self, name)
            new = np.zeros((size, *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            if name == "number":
                new[len(old) :] = -1
            setattr(self, name, new)


__all__ = ["ENDED", "LEFT", "SPOILED", "WAITING", "Submissions"]
