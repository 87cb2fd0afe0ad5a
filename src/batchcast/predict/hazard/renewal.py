# SPDX-License-Identifier: Apache-2.0
"""Forecasts the rest of a wait from the state of now, calibrated for each age of the wait."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..protocol import Grounds, Prediction
from .bins import BINS, WaitCurve, rest_of
from .calibrated_waits import ENDED, LEVELS, CalibratedWaits, LevelsBySpan, Pool
from .components import DRAWS, SPREADS, Lag, curves_on_nodes, simulated_curves
from .features import AT_DRAWS, NAMES, reason
from .model import Hazard, Waits
from .training_rows import Submissions

EVERY, MOST = 30, 12
"""Looks are taken every so many submissions, of so many jobs at most."""
MODELS = 2
"""The mean of the last so many fits answers: where a log changes, what one says depends on the hour it was fitted."""
LEAST_VOTES = EVERY // 2
"""So many submissions since the last look must count (`training_rows.Bursts`): behind an array little is new."""
BORROWED = 30.0
"""Levels of an age weigh as the outcomes known there, those of all ages as so many: few outcomes bend no level far."""
SHARE = 0.5
"""Of a model's chances in what it says, beside those that it starts from: half of each was better than either."""
ON_NODES = 1 + len(SPREADS) + 1
"""The first so many components need no figures of the queue; their mean is what the model starts from."""
RENEWAL_COMPONENTS = (
    "forecast at submission, given the time waited",
    *("simulation on the machine's nodes" for _ in SPREADS),
    "simulation on the machine's nodes, as late as it came out",
    *("simulation" for _ in SPREADS),
    "simulation, as late as it came out",
    "model",
)
"""What forecasts what is left: until the last can, a mean of the others."""
MODEL = len(RENEWAL_COMPONENTS) - 1
RENEWAL_GROUNDS = (Grounds.UNSTATED, *(Grounds.SIMULATION for _ in RENEWAL_COMPONENTS[1:-1]), Grounds.MODEL)
GONE = 1e-6
"""The level at which a renewed forecast of the whole wait has what has passed already."""


class Snapshot(NamedTuple):
    """Some of the jobs that wait at one instant: rows, seconds waited (n,), features (n, f), and the log(1 + rest) that
    a machine's nodes say in each future (n, DRAWS), NaN where they say nothing."""

    row: np.ndarray
    waited: np.ndarray
    features: np.ndarray
    on_nodes: np.ndarray


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


class Renewed(NamedTuple):
    """Of every queued job in order of arrival: its `row`, seconds `waited`, chances (n, 33) of what is left, `bounds`
    (n, 7) on it at LEVELS, which of the ways said so (n,), and the `features` (n, f) that it sees now at its place."""

    row: np.ndarray
    waited: np.ndarray
    chances: np.ndarray
    bounds: np.ndarray
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
        rest = np.maximum(np.ceil(self.bounds[place] - 1e-9), 0.0)
        whole = np.maximum(waited + rest, 1.0).tolist()
        way = int(self.way[place])
        words = f"{RENEWAL_COMPONENTS[way] if way >= 0 else 'nothing known'}: {self.words(place)}"
        grounds = RENEWAL_GROUNDS[way] if way >= 0 else Grounds.NO_HISTORY
        levels, quantiles = (GONE, *LEVELS), (max(waited, 1.0), *whole)
        return Prediction(whole[len(LEVELS) // 2], levels, quantiles, words, grounds)


class Expected(NamedTuple):
    """What is left of the waits of those looked at, not yet corrected: curves (n, 33), the way of each (-1: none), what
    the model started from (n, 33), and what the other ways said (n, components - 1, 33), NaN where one did not."""

    curves: np.ndarray
    way: np.ndarray
    known: np.ndarray
    others: np.ndarray


class _Look(NamedTuple):
    """An open look: its number, the time waited by then, the log(1 + rest) simulated and on the nodes, what ways other
    than the model said."""

    number: int
    waited: float
    simulated: float
    on_nodes: float
    others: np.ndarray


class Renewal:
    """The last looks to learn from, the calibration of what they were promised, and what became of both.

    Parameters
    ----------
    window
        So many submissions back looks are kept: MOST for every EVERY of them.

    Notes
    -----
    The model of what is left starts from what the job was promised at its submission, given the time waited since
    (on a described machine pooled with what its nodes say now), and learns from looks what the state by now says
    beyond that. A model of submissions and looks together, that has to learn the whole anew, did worse at looks
    than that promise on some logs (a trial). The last two fits answer together. Before the first that promise and
    the simulations answer, each weighing by its CRPS so far. What is promised is corrected apart for jobs that have
    waited so long (`LevelsBySpan`), as all ages together are where few outcomes of that age are known. All looks at
    one job come out together: the k-th since the last outcome known counts 1 / k.

    >>> nobody = Snapshot(np.zeros(0), np.zeros(0), np.zeros((0, len(NAMES))), np.zeros((0, DRAWS)))
    >>> Renewal(300).expected(nobody, np.zeros((0, 33))).way
    array([], dtype=int64)
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.ring = Submissions(max(window * MOST // EVERY, MOST), len(NAMES) + BINS)
        self.models: tuple[Hazard, ...] = ()
        self.pool = Pool(MODEL)
        self.calibration = LevelsBySpan(BORROWED)
        self.lag, self.lag_on_nodes = Lag(), Lag()
        self.number = 0
        self.of: dict[int, list[_Look]] = {}

    def expected(self, look: Snapshot, promised: np.ndarray) -> Expected:
        """What is left as the model says it, else as the other ways do.

        `promised` are the chances (n, 33) of the whole wait that each got at its submission, NaN where that is unknown.
        """
        given = rest_of(promised, look.waited)
        others = np.full((len(given), MODEL, BINS), np.nan)
        others[:, 0] = given
        for place in np.flatnonzero(~np.isnan(look.on_nodes[:, 0])).tolist():
            nodes = tuple(look.on_nodes[place].tolist())
            others[place, 1:ON_NODES] = curves_on_nodes(nodes, self.lag_on_nodes.of(nodes[DRAWS // 2]))
        known = given
        if not np.isnan(look.on_nodes).all():
            known = np.where(np.isnan(others[:, :ON_NODES, 0]).all(axis=1)[:, None], given, self.pool.mean(others))
        curves, way = known.copy(), np.full(len(given), MODEL)
        asked = ~np.isnan(known[:, 0]) & bool(self.models)
        if asked.any():
            new = np.mean([model.curves(look.features[asked], known[asked]) for model in self.models], axis=0)
            curves[asked] = SHARE * new + (1.0 - SHARE) * known[asked]
        rest = ~asked
        if rest.any():
            features = look.features[rest]
            lags = np.array([self.lag.of(one) for one in features[:, AT_DRAWS].tolist()])[:, None]
            simulated = [simulated_curves(features, spread) for spread in SPREADS]
            late = simulated_curves(features, SPREADS[-1], lags)
            others[rest, ON_NODES:] = np.stack([*simulated, late], axis=1)
            curves[rest], way[rest] = self.pool.mean(others[rest]), self.pool.heaviest(others[rest])
        return Expected(curves, way, known, others)

    def fitted(self, model: Hazard | None) -> None:
        """A model that was fitted anew; None, where too little was known, changes nothing."""
        if model is not None:
            self.models = (*self.models, model)[-MODELS:]

    def take(self, look: Snapshot, promised: np.ndarray, now: float, born: int) -> np.ndarray:
        """Remember a look taken after submission `born`; what it is promised (n, 33)."""
        said = self.expected(look, promised)
        chances = self.calibration.chances(said.curves, look.waited)
        bounds = CalibratedWaits.bounds(chances)
        for k, row in enumerate(look.row.tolist()):
            waited, on_nodes = float(look.waited[k]), float(look.on_nodes[k, DRAWS // 2])
            one = _Look(self.number, waited, float(look.features[k, AT_DRAWS]), on_nodes, said.others[k])
            self.of.setdefault(row, []).append(one)
            self.ring.add(self.number, now, np.concatenate([look.features[k], said.known[k]]), born)
            self.calibration.issue(self.number, row, now, waited, bounds[k])
            self.number += 1
        return chances

    def training_set(self, now: float, half_life: float, latest: int) -> tuple[np.ndarray, Waits, np.ndarray]:
        """What looks of the last `window` submissions teach: features (n, f), rests as known now, promises (n, 33).

        Of those alone that had a promise to start from.
        """
        both, waits = self.ring.training_set(now, half_life, latest, self.window)
        known = ~np.isnan(both[:, len(NAMES)])
        both = both[known]
        return both[:, : len(NAMES)], Waits(*(of[known] for of in waits)), both[:, len(NAMES) :]

    def resolve(self, row: int, wait: float | None, fate: int) -> None:
        """The job is queued no more: it ENDED its wait, or LEFT, after `wait` seconds, or that teaches nothing."""
        for look in self.of.pop(row, ()):
            rest = max((wait or 0.0) - look.waited, 0.0)
            self.ring.resolved(look.number, rest, fate)
            if fate != ENDED:
                self.calibration.left(look.number)
                continue
            self.calibration.ended(look.number, rest)
            self.lag.add(look.simulated, rest)
            self.lag_on_nodes.add(look.on_nodes, rest)
            if not np.isnan(look.others[1:, 0]).all():  # else there is nothing to tell apart
                self.pool.came_out(look.others, rest)
