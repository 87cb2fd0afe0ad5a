"""A fit that was begun: of what was known at one instant, worked out by whom and when it suits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np

from .model import Hazard, Waits, fit


class Taught(NamedTuple):
    """What a model is fitted on: features (n, f), what was known of the waits, forecasts (n, 33) to start from."""

    features: np.ndarray
    waits: Waits
    known: np.ndarray | None = None


Models = tuple[Hazard | None, ...]


class Fitting:
    """The models of lessons as they were when it was begun; the same whoever works them out, and when.

    Parameters
    ----------
    taught
        The lessons of each model, copies.
    seed
        Of the fits.

    >>> blank = Taught(np.zeros((1, 2), np.float32), Waits(np.zeros(1), np.zeros(1, bool), np.ones(1)))
    >>> Fitting((blank, blank), seed=0).result()
    (None, None)
    """

    def __init__(self, taught: tuple[Taught, ...], seed: int) -> None:
        self._given: tuple[tuple[Taught, ...], int] | None = (taught, seed)
        self._models: Models = ()
        self._future: Future[Models] | None = None

    @property
    def is_at_work(self) -> bool:
        """Whether somebody is at work on it now."""
        return self._future is not None and not self._future.done()

    def begin(self, run: Callable[[Callable[[], Models]], Future[Models]]) -> None:
        """Have it worked out beside: `run` takes the work and answers with its future, as an executor's `submit`.

        The future may hold None, where what a fit needs is not there: there are no models then.
        """
        if self._future is None and self._given is not None:
            self._future = run(self._work)

    def result(self) -> Models:
        """The models, waited for or worked out now; None for one of which too little is known."""
        if self._given is not None:
            none = tuple(None for _ in self._given[0])
            self._models = (self._work() if self._future is None else self._future.result()) or none
            self._given = None
        return self._models

    def _work(self) -> Models:
        assert self._given is not None
        taught, seed = self._given
        return tuple(fit(one.features, one.waits, seed, one.known) for one in taught)

    def __getstate__(self) -> tuple[tuple[tuple[Taught, ...], int] | None, Models]:
        if self._future is not None and self._future.done():
            self.result()
        return self._given, self._models

    def __setstate__(self, state: tuple[tuple[tuple[Taught, ...], int] | None, Models]) -> None:
        self._given, self._models = state
        self._future = None
