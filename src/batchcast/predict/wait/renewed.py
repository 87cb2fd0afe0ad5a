"""What `forecast` says now of every job that waits, from what each sees of the state at its place in the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...events.state import SystemState
from ..hazard.curve import WaitCurve
from ..hazard.looks import WAYS
from ..hazard.promises import LEVELS, Promises
from ..hazard.words import reason
from ..protocol import Grounds, Prediction

if TYPE_CHECKING:
    from .forecast import Forecast

GROUNDS = (Grounds.UNSTATED, *(Grounds.SIMULATION for _ in WAYS[1:-1]), Grounds.MODEL)
GONE = 1e-6
"""The level at which a renewed forecast of the whole wait has what has passed already."""


class Renewed(NamedTuple):
    """Of every queued job in order of arrival: its `row`, seconds `waited`, chances (n, 33) of what is left, which of
    the ways said so (n,), and the `features` (n, f) that it sees now at its place."""

    row: np.ndarray
    waited: np.ndarray
    chances: np.ndarray
    way: np.ndarray
    features: np.ndarray

    def curve(self, place: int) -> WaitCurve:
        """The chances of what is left of one job's wait."""
        return WaitCurve(self.chances[place])

    def words(self, place: int) -> str:
        """Why it waits, as things stand now."""
        return reason(self.features[place])

    def prediction(self, place: int) -> Prediction:
        """The whole wait of one job, as a predictor answers: what it has waited and what is left."""
        waited = float(self.waited[place])
        rest = np.maximum(np.ceil(Promises.bounds(self.chances[place]) - 1e-9), 0.0)
        whole = np.maximum(waited + rest, 1.0).tolist()
        way = int(self.way[place])
        words = f"{WAYS[way] if way >= 0 else 'nothing known'}: {self.words(place)}"
        grounds = GROUNDS[way] if way >= 0 else Grounds.NO_HISTORY
        levels, quantiles = (GONE, *LEVELS), (max(waited, 1.0), *whole)
        return Prediction(whole[len(LEVELS) // 2], levels, quantiles, words, grounds)


def renewed(method: Forecast, at: SystemState) -> Renewed:
    """The whole queue forecast anew from the present state, asked once for all.

    The futures are drawn and simulated once for all who wait; the model of what is left of a wait (hazard.training_rows)
    starts from what each was promised at its submission, given the time waited, and is asked with what each sees now.
    Of this, of that promise alone and of the simulations the way answers that has had the least CRPS of
    log(1 + rest of the wait) at looks so far, corrected by what became of earlier looks. Nothing is learned.
    O(queued (queued + running)).

    >>> from batchcast.predict.wait.forecast import Forecast
    >>> renewed(Forecast(), SystemState(4.0)).chances.shape
    (0, 33)
    """
    look = method.look(at)
    promises = method.looks.promises
    curves = method.looks.curves_of(look, method.promised(look.row))
    chances = [promises.chances(one) for one in curves]
    ways = np.array([promises.way_of(one) for one in curves], int)
    return Renewed(look.row, look.waited, np.stack(chances) if chances else curves[:, 0], ways, look.features)
