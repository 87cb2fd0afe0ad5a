# SPDX-License-Identifier: Apache-2.0
"""Stores the training data of the hazard model: submissions, or snapshots of waiting jobs, with their outcomes.

Also decides which predictions of a burst count as evidence (`Bursts`), because similar jobs have similar outcomes.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from .calibrated_waits import EACH, ENDED, LEFT, SPOILED, WAITING
from .model import Waits


class _Sender:
    """Counts of one sender's predictions.

    `open` counts the predictions that have no known outcome yet. `issued` counts the predictions since the sender last
    had no open prediction, and `known` is the position, among the issued predictions, of the latest prediction with a
    known outcome.
    """

    __slots__ = ("issued", "known", "open")

    def __init__(self) -> None:
        self.open = self.issued = self.known = 0


class Bursts:
    """Decides which submissions of a burst of similar jobs count as evidence.

    Parameters
    ----------
    each
        Number of predictions that count as evidence each time the length of the burst doubles.

    Notes
    -----
    A prediction is *blind* if it was made after the sender's latest prediction with a known outcome. The first `2 each`
    blind predictions all count, then every second prediction, from the `4 each`-th prediction on every fourth, and so
    on. Of an array of 1,000 jobs, 131 count. The jobs that count are spread over the whole array, so they also show how
    long the last tasks of the array wait. Whether a prediction counts is decided when the prediction is made, so that
    no outcome affects its own weight. Each call costs O(1); memory grows with the number of predictions without a known
    outcome.

    >>> bursts = Bursts()
    >>> sum(bursts.counts(job, "ada") for job in range(1000))
    131
    >>> bursts.resolved(999, known=True)
    >>> bursts.counts(1000, "ada")
    True
    >>> bursts.is_deep("ada"), bursts.is_deep("bo")
    (False, False)
    """

    def __init__(self, each: int = EACH) -> None:
        self.each = each
        self.senders: dict[Hashable, _Sender] = {}
        self.of: dict[int, tuple[Hashable, int]] = {}

    def is_deep(self, sender: Hashable) -> bool:
        """Return whether the sender is so late in a burst that only some of its predictions count."""
        mine = self.senders.get(sender)
        return mine is not None and min(mine.open, mine.issued - mine.known) >= 2 * self.each

    def counts(self, row: int, sender: Hashable) -> bool:
        """Record a prediction for job `row`, and return whether the prediction counts as evidence."""
        mine = self.senders.get(sender)
        if mine is None:
            mine = self.senders[sender] = _Sender()
        mine.open += 1
        mine.issued += 1
        self.of[row] = sender, mine.issued
        blind = min(mine.open, mine.issued - mine.known)
        return mine.issued % (1 << (blind // (2 * self.each)).bit_length()) == 0

    def resolved(self, row: int, known: bool) -> None:
        """Record that a job no longer waits; `known` says whether its wait can be learned."""
        if row not in self.of:
            return
        sender, number = self.of.pop(row)
        mine = self.senders[sender]
        mine.open -= 1
        if known:
            mine.known = max(mine.known, number)
        if not mine.open:
            del self.senders[sender]


class Submissions:
    """A ring of the last `window` submissions: features (4 bytes each), submit time, outcome (`fate`) and wait.

    The ring also stores snapshots (samples of waiting jobs). For snapshots, `born` is the last submission before the
    snapshot, and waits are measured from the snapshot.

    >>> ring = Submissions(4, 2)
    >>> ring.add(0, 10.0, np.zeros(2)); ring.resolved(0, 5.0, ENDED)
    >>> ring.training_set(30.0, 100.0, latest=100)[1]
    Waits(waited=array([5.]), ended=array([ True]), weight=array([0.5]))
    """

    def __init__(self, window: int, features: int) -> None:
        self.window, self.count = window, 0
        self.features = np.zeros((min(window, 256), features), np.float32)
        self.number, self.born = np.full((2, len(self.features)), -1, np.int64)
        self.submit, self.waited = np.zeros(len(self.features)), np.zeros(len(self.features))
        self.fate = np.full(len(self.features), SPOILED, np.int8)

    def add(self, number: int, now: float, features: np.ndarray, born: int | None = None) -> None:
        """Add submission `number` (in ascending order) at `now`."""
        if number >= len(self.features) < self.window:
            self._grow(min(2 * len(self.features), self.window))
        place = number % len(self.features)
        self.features[place], self.submit[place] = features, now
        self.born[place] = number if born is None else born
        self.number[place], self.fate[place], self.waited[place] = number, WAITING, 0.0
        self.count = number + 1

    def resolved(self, number: int, waited: float, fate: int) -> None:
        """Record that a job started (`fate` ENDED) or was cancelled (LEFT) after `waited` seconds, or that its wait
        must not be learned (SPOILED).
        """
        place = number % len(self.features)
        if self.number[place] == number:
            self.fate[place], self.waited[place] = fate, waited

    def of(self, number: int) -> np.ndarray | None:
        """Return the features of a submission; None if the submission has left the window."""
        place = number % len(self.features)
        features: np.ndarray = self.features[place]
        return features if self.number[place] == number else None

    def training_set(self, now: float, half_life: float, latest: int, most: float = np.inf) -> tuple[np.ndarray, Waits]:
        """Return a copy of the training features (n, f) in order of submission, and the outcomes known at `now`.

        A submission that is `half_life` submissions older than submission `latest` has half its weight; submissions
        that are more than `most` older are left out.
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


__all__ = ["EACH", "ENDED", "LEFT", "SPOILED", "WAITING", "Submissions"]
