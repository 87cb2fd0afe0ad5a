"""A fit that was begun: of what was known at one instant, worked out by whom and when it suits."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

import numpy as np

from .model import Hazard, Waits, fit


class Fitting:
    """The model of submissions as they were known when it was begun; the same whoever works it out, and when.

    Parameters
    ----------
    features
        Of the submissions (n, f), a copy.
    waits
        What was known of them.
    seed
        Of the fit.

    >>> blank = Fitting(np.zeros((1, 2), np.float32), Waits(np.zeros(1), np.zeros(1, bool), np.ones(1)), seed=0)
    >>> blank.result() is None
    True
    """

    def __init__(self, features: np.ndarray, waits: Waits, seed: int) -> None:
        self._given: tuple[np.ndarray, Waits, int] | None = (features, waits, seed)
        self._model: Hazard | None = None
        self._future: Future[Hazard | None] | None = None

    @property
    def is_at_work(self) -> bool:
        """Whether somebody is at work on it now."""
        return self._future is not None and not self._future.done()

    def begin(self, run: Callable[[Callable[[], Hazard | None]], Future[Hazard | None]]) -> None:
        """Have it worked out beside: `run` takes the work and answers with its future, as an executor's `submit`."""
        if self._future is None and self._given is not None:
            self._future = run(self._work)

    def result(self) -> Hazard | None:
        """The model, waited for or worked out now; None where too little is known for one."""
        if self._given is not None:
            self._model, self._given = self._work() if self._future is None else self._future.result(), None
        return self._model

    def _work(self) -> Hazard | None:
        assert self._given is not None
        return fit(*self._given)

    def __getstate__(self) -> tuple[tuple[np.ndarray, Waits, int] | None, Hazard | None]:
        if self._future is not None and self._future.done():
            self.result()
        return self._given, self._model

    def __setstate__(self, state: tuple[tuple[np.ndarray, Waits, int] | None, Hazard | None]) -> None:
        self._given, self._model = state
        self._future = None
