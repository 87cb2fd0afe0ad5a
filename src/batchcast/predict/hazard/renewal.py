# SPDX-License-Identifier: Apache-2.0
"""Predicts the remaining wait of waiting jobs from the present state of the cluster, calibrated by time waited."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..protocol import Grounds, Prediction
from .bins import BINS, rest_of
from .calibrated_waits import LEVELS, CalibratedWaits, LevelsBySpan, Pool
from .components import DRAWS, SIMULATIONS, Lag, curves_around, pool_curves
from .features import AT_DRAWS, NAMES, reason
from .model import ENDED, Hazard, Submissions, Waits

EVERY, MOST = 30, 12
"""A snapshot is taken every EVERY submissions, of at most MOST jobs."""
MODELS = 2
"""Number of latest fits whose mean is used, because a single fit depends on the hour of the day of the fit."""
LEAST_VOTES = EVERY // 2
"""Number of submissions that must count as evidence (`model.Bursts`) between two snapshots."""
BORROWED = 30.0
"""The calibrated levels of one range of times waited are averaged with the levels of all times waited. The levels of
all times have this weight; the levels of the range have the number of its known outcomes as weight.
"""
SHARE = 0.5
"""Weight of the model's probabilities; the probabilities that the model corrects have the remaining weight. A half
was better than either alone.
"""
ON_NODES = 1 + len(SIMULATIONS) // 2
"""Number of components that need no features of the queue; the model corrects the mean of these components."""
RENEWAL_COMPONENTS = ("forecast at submission, given the time waited", *SIMULATIONS, "model")
"""Components of the remaining wait; the last is the model; before its first fit the other components are averaged."""
MODEL = len(RENEWAL_COMPONENTS) - 1
RENEWAL_GROUNDS = (Grounds.UNSTATED, *(Grounds.SIMULATION for _ in SIMULATIONS), Grounds.MODEL)
GONE = 1e-6
"""Level at which a renewed prediction of the whole wait equals the time already waited."""


class Snapshot(NamedTuple):
    """A sample of the jobs that wait at one instant: rows, seconds waited (n,), features (n, f), and the log(1 +
    remaining wait) in each simulated future of the node simulation (n, DRAWS), NaN without a node simulation.
    """

    row: np.ndarray
    waited: np.ndarray
    features: np.ndarray
    on_nodes: np.ndarray


def sampled_positions(waited: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Draw the queue positions of at most MOST jobs that have waited 1 s or longer, for the sample taken after
    submission `number`.

    >>> sampled_positions(np.array([50.0, 0.0, 7.0]), 30, 0).tolist()
    [0, 2]
    """
    there = np.flatnonzero(waited >= 1.0)
    if len(there) > MOST:
        random = np.random.default_rng((seed, number))
        there = np.sort(random.choice(there, MOST, replace=False))
    return there


class Renewed(NamedTuple):
    """Renewed predictions of all queued jobs in order of arrival: `row`, seconds `waited`, the distribution `chances`
    (n, 33) of the remaining wait, its `bounds` (n, 7) at LEVELS, the component that made the prediction (`component`,
    (n,)), and the present `features` (n, f).
    """

    row: np.ndarray
    waited: np.ndarray
    chances: np.ndarray
    bounds: np.ndarray
    component: np.ndarray
    features: np.ndarray

    def words(self, position: int) -> str:
        """Explain in words why one job waits at present."""
        return reason(self.features[position])

    def prediction(self, position: int) -> Prediction:
        """Return a prediction of one job's whole wait: the time waited plus the remaining wait."""
        waited = float(self.waited[position])
        rest = np.maximum(np.ceil(self.bounds[position] - 1e-9), 0.0)
        whole = np.maximum(waited + rest, 1.0).tolist()
        component = int(self.component[position])
        words = f"{RENEWAL_COMPONENTS[component] if component >= 0 else 'nothing known'}: {self.words(position)}"
        grounds = RENEWAL_GROUNDS[component] if component >= 0 else Grounds.NO_HISTORY
        levels, quantiles = (GONE, *LEVELS), (max(waited, 1.0), *whole)
        return Prediction(whole[len(LEVELS) // 2], levels, quantiles, words, grounds)


class Expected(NamedTuple):
    """Uncorrected predictions of remaining waits: distributions (n, 33), the component that made each distribution
    (`component`, -1 if none), the distributions `prior_curves` (n, 33) that the model corrected, and the other
    components' distributions (n, components - 1, 33), NaN if missing.
    """

    curves: np.ndarray
    component: np.ndarray
    prior_curves: np.ndarray
    other_curves: np.ndarray


class _Look(NamedTuple):
    """One waiting job of a training sample, whose start is not known yet: its number, the time waited, log(1 +
    remaining wait) from the simulations on processors and on nodes, and the predicted distributions of all components
    except the model.
    """

    number: int
    waited: float
    simulated: float
    on_nodes: float
    other_curves: np.ndarray


class Renewal:
    """Stores recent snapshots (samples of waiting jobs) for training, and calibrates the predictions of the jobs'
    remaining waits.

    >>> nobody = Snapshot(np.zeros(0), np.zeros(0), np.zeros((0, len(NAMES))), np.zeros((0, DRAWS)))
    >>> Renewal(300).expected(nobody, np.zeros((0, 33))).component
    array([], dtype=int64)
    """

    # Samples of waiting jobs are stored for the latest `window` submissions, at most MOST jobs per EVERY submissions.
    #
    # The model of the remaining wait corrects the prediction made at submission, conditioned on the time waited (on a
    # described machine averaged with the node simulation). From snapshots (samples of jobs that wait), the model learns
    # what the present state of the cluster adds to that prediction. On some logs, one model for submissions and
    # snapshots together predicted remaining waits worse than the prediction at submission. The predictions of the last
    # two fitted models are averaged. Before the first fit, the prediction at submission and the simulations are
    # averaged with weights by their CRPS. Predictions are corrected separately by time waited (`LevelsBySpan`),
    # averaged with the levels for all times waited while few outcomes are known. All predictions that snapshots record
    # for one job depend on the same start, so the k-th snapshot since the last known outcome has weight 1 / k.

    def __init__(self, window: int) -> None:
        self.window = window
        self.ring = Submissions(max(window * MOST // EVERY, MOST), len(NAMES) + BINS)
        self.models: tuple[Hazard, ...] = ()
        self.pool = Pool(MODEL)
        self.calibration = LevelsBySpan(BORROWED)
        self.lag, self.lag_on_nodes = Lag(), Lag()
        self.number = 0
        self.looks: dict[int, list[_Look]] = {}

    def expected(self, look: Snapshot, promised: np.ndarray) -> Expected:
        """Predict remaining waits with the model, or, before the model's first fit, with the other components.

        `promised` are the distributions (n, 33) of the whole wait that were predicted at submission, NaN if unknown.
        """
        given = rest_of(promised, look.waited)
        other_curves = np.full((len(given), MODEL, BINS), np.nan)
        other_curves[:, 0] = given
        prior_curves = given
        if not np.isnan(look.on_nodes).all():
            lags = self.lag_on_nodes.of_each(look.on_nodes[:, DRAWS // 2])
            other_curves[:, 1:ON_NODES] = curves_around(look.on_nodes, lags)
            is_unknown = np.isnan(other_curves[:, :ON_NODES, 0]).all(axis=1)
            prior_curves = np.where(is_unknown[:, None], given, self.pool.mean(other_curves))
        curves, component = prior_curves.copy(), np.full(len(given), MODEL)
        asked = ~np.isnan(prior_curves[:, 0]) & bool(self.models)
        if asked.any():
            new = np.mean([model.curves(look.features[asked], prior_curves[asked]) for model in self.models], axis=0)
            curves[asked] = SHARE * new + (1.0 - SHARE) * prior_curves[asked]
        rest = ~asked
        if rest.any():
            features = look.features[rest]
            other_curves[rest, ON_NODES:] = pool_curves(features, self.lag.of_each(features[:, AT_DRAWS]))
            curves[rest], component[rest] = self.pool.mean(other_curves[rest]), self.pool.heaviest(other_curves[rest])
        return Expected(curves, component, prior_curves, other_curves)

    def fitted(self, model: Hazard | None) -> None:
        """Use a newly fitted model from now on; None (too little data) has no effect."""
        if model is not None:
            self.models = (*self.models, model)[-MODELS:]

    def take(self, look: Snapshot, promised: np.ndarray, now: float, born: int) -> np.ndarray:
        """Store a sample of waiting jobs that was taken after submission `born`; return the predicted distributions (n,
        33) of remaining waits.
        """
        said = self.expected(look, promised)
        chances = self.calibration.chances(said.curves, look.waited)
        bounds = CalibratedWaits.bounds(chances)
        for k, row in enumerate(look.row.tolist()):
            waited, on_nodes = float(look.waited[k]), float(look.on_nodes[k, DRAWS // 2])
            one = _Look(self.number, waited, float(look.features[k, AT_DRAWS]), on_nodes, said.other_curves[k])
            self.looks.setdefault(row, []).append(one)
            self.ring.add(self.number, now, np.concatenate([look.features[k], said.prior_curves[k]]), born)
            self.calibration.issue(self.number, row, now, waited, bounds[k])
            self.number += 1
        return chances

    def training_set(self, now: float, half_life: float, latest: int) -> tuple[np.ndarray, Waits, np.ndarray]:
        """Return training data from the samples of waiting jobs taken during the last `window` submissions: features
        (n, f), waits, and the curves to correct.

        Only waiting jobs with a prediction at submission are used.
        """
        both, waits = self.ring.training_set(now, half_life, latest, latest - self.window + 1)
        known = ~np.isnan(both[:, len(NAMES)])
        both = both[known]
        return both[:, : len(NAMES)], Waits(*(of[known] for of in waits)), both[:, len(NAMES) :]

    def resolve(self, row: int, wait: float | None, fate: int) -> None:
        """Record that a job left the queue after `wait` seconds; `fate` is ENDED (it started), LEFT (cancelled) or
        SPOILED (do not learn from it).
        """
        for look in self.looks.pop(row, ()):
            rest = max((wait or 0.0) - look.waited, 0.0)
            self.ring.resolved(look.number, rest, fate)
            if fate != ENDED:
                self.calibration.left(look.number)
                continue
            self.calibration.ended(look.number, rest)
            self.lag.add(look.simulated, rest)
            self.lag_on_nodes.add(look.on_nodes, rest)
            if not np.isnan(look.other_curves[1:, 0]).all():  # with a single component there is nothing to compare
                self.pool.record_outcome(look.other_curves, rest)
