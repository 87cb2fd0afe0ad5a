"""What `forecast` says now of every job that waits, and what each sees of the state at its place in the queue."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...events.state import SystemState
from ..hazard.bins import BINS
from ..hazard.curve import WaitCurve
from ..hazard.draws import PLANS
from ..hazard.features import NAMES
from ..hazard.renewal import describe_queue
from ..hazard.words import reason
from .forecast import Forecast, class_of


class Renewed(NamedTuple):
    """Of every queued job in order of arrival: its `row`, seconds `waited`, chances (n, 33) of the whole wait, and the
    `features` (n, f) that it would have if it were submitted now at its place."""

    row: np.ndarray
    waited: np.ndarray
    chances: np.ndarray
    features: np.ndarray

    def curve(self, place: int) -> WaitCurve:
        """The chances of one of them, given how long it has waited."""
        return WaitCurve(self.chances[place], float(self.waited[place]))

    def words(self, place: int) -> str:
        """Why it waits, as things stand now."""
        return reason(self.features[place])


def renewed(method: Forecast, at: SystemState) -> Renewed:
    """The whole queue forecast anew: the newest model and calibration, asked once for all, given the time waited.

    The model is asked with what each job saw at its submission. What it would see if it were submitted now stands in
    `features`: the futures are drawn and simulated once for all who wait. It is not what the model is asked with, for
    it learned from jobs that had just come, and those that still wait are of another kind (docs/waits.md has the
    measurement). A job that the method did not see coming, or too long ago, is asked with it all the same. Nothing is
    learned. O(queued (queued + running)).

    >>> renewed(Forecast(), SystemState(4.0)).chances.shape
    (0, 33)
    """
    columns = at.columns()
    queue = columns.queued_entries()
    n, jobs = len(queue), columns.jobs[queue]
    method.room_beside(columns)
    features, waits = np.zeros((n, len(NAMES)), np.float32), np.zeros((len(PLANS), n))
    rows, waited = jobs["row"].copy(), np.maximum(at.now - jobs["submit"], 0.0)
    if not n:
        return Renewed(rows, waited, np.zeros((0, BINS)), features)
    describe_queue(columns.record, method.lessons, at.now, method.runs, method.room, waits, features)
    seen = features.copy()
    for place, row in enumerate(rows.tolist()):
        then = method.seen_by(row)
        if then is not None:
            seen[place] = then
    curves = method.curves_of(seen, [class_of(job) for job in jobs])
    return Renewed(rows, waited, np.stack([method.promises.chances(one) for one in curves]), features)
