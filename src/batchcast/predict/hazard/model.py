# SPDX-License-Identifier: Apache-2.0
"""The boosted classifier of the hazard: the probability that a waiting job starts in the bin that it has reached.

This module also fits the model, and stores its training data: submissions, or snapshots of waiting jobs, with their
outcomes. A fit receives a copy of the data known at one instant, so the fit can be computed later.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from ...records import enlarged
from .bins import BINS, bin_of, passed

TREES, LEAVES, LEAST_ROWS, RATE = 150, 16, 200, 0.08
REST_TREES, REST_RATE = 60, 0.03
"""Settings of a model that corrects an existing prediction."""
CERTAIN = 0.002, 0.995
"""Bounds on the hazards of the prediction that a model corrects; trees could not change hazards closer to 0 or 1."""
FEATURE_SHARE, ROW_SHARE = 0.5, 0.6
PASSED_SHARE = 0.5
"""Share of the entirely passed bins that are sampled for training. Sampled bins have the weight 1 / share, so the
expected loss is unchanged.
"""
BLOCK = 512
WAITING, ENDED, LEFT, SPOILED = range(4)
"""What became of a submission (`fate`): SPOILED means that its wait must not be learned."""


class Waits(NamedTuple):
    """Outcomes of submissions: seconds `waited`, whether the wait has `ended`, and the training `weight`."""

    waited: np.ndarray
    ended: np.ndarray
    weight: np.ndarray


class Trees:
    """LightGBM's trees, which are pickled as text and parsed at the first prediction, so that loading does not import
    LightGBM.
    """

    def __init__(self, booster: Any) -> None:
        self._booster: Any = booster
        self._text = ""

    def predict(self, rows: np.ndarray) -> np.ndarray:
        """Return LightGBM's raw score (n,) of feature rows (n, f)."""
        if self._booster is None:
            import lightgbm

            self._booster = lightgbm.Booster(model_str=self._text)
        return np.asarray(self._booster.predict(rows, raw_score=True, num_threads=1))

    def __getstate__(self) -> str:
        return self._text or self._booster.model_to_string(num_iteration=-1)

    def __setstate__(self, text: str) -> None:
        self._text, self._booster = text, None


class Hazard(NamedTuple):
    """A fitted model: the trees, and the log odds (33,) of each bin's base rate, to which the trees add their scores.

    The log odds are NaN if the trees correct a prediction that the caller passes with each row.
    """

    trees: Trees
    start: np.ndarray

    def curves(self, features: np.ndarray, prior_curves: np.ndarray | None = None) -> np.ndarray:
        """Return the probabilities (n, 33) of a wait up to the end of each bin; the last is 1. Costs O(33 trees) per
        row.

        `prior_curves` are the predicted distributions (n, 33) that the model corrects, if it was fitted to correct a
        prediction.
        """
        out = np.ones((len(features), BINS))
        for low in range(0, len(features), BLOCK):
            part = features[low : low + BLOCK]
            rows = np.empty((len(part), BINS - 1, part.shape[1] + 1), part.dtype)
            rows[:, :, :-1], rows[:, :, -1] = part[:, None, :], np.arange(BINS - 1)
            raw = self.trees.predict(rows.reshape(-1, rows.shape[2])).reshape(len(part), BINS - 1)
            start = self.start[None, :] if prior_curves is None else log_odds(prior_curves[low : low + BLOCK])
            stays = 1.0 / (1.0 + np.exp(raw + start[:, : BINS - 1]))
            out[low : low + BLOCK, : BINS - 1] = 1.0 - np.cumprod(stays, axis=1)
        return out


def log_odds(curves: np.ndarray) -> np.ndarray:
    """Return the log odds (n, 33) that a job which has reached a bin starts in it, from wait distributions (n, 33),
    with probabilities limited to the range CERTAIN.

    >>> log_odds(np.linspace(1 / 33, 1.0, 33)[None, :])[0, [0, 16, 31]].round(2).tolist()
    [-3.47, -2.77, 0.0]
    """
    before = np.column_stack([np.zeros(len(curves)), curves[:, :-1]])
    chance = np.clip((curves - before) / np.maximum(1.0 - before, 1e-9), *CERTAIN)
    return np.asarray(np.log(chance / (1.0 - chance)))


def fit(features: np.ndarray, waits: Waits, seed: int = 0, prior_curves: np.ndarray | None = None) -> Hazard | None:
    """Fit the model to features (n, f); None if the outcomes of fewer than two bins are known.

    Each job gives a training row for every bin that it entered, with outcome 0 for bins that it passed entirely, 1 for
    the bin in which it started. A job that still waits has rows only for the bins that it has passed, so censoring is
    exact. LightGBM fits the trees in one thread. The trees correct the predictions `prior_curves` (n, 33), which are
    LightGBM's initial score; without `prior_curves`, the trees correct the base rates of the bins.
    """
    entered = np.where(waits.ended, bin_of(waits.waited) + 1, passed(waits.waited))
    entered = np.minimum(entered, BINS - 1)
    job = np.repeat(np.arange(len(entered)), entered)
    bins = np.arange(len(job)) - np.repeat(np.cumsum(entered) - entered, entered)
    happened = waits.ended & (bin_of(waits.waited) < BINS - 1)
    starts = happened[job] & (bins == entered[job] - 1)
    weight = waits.weight[job] / np.where(starts, 1.0, PASSED_SHARE)
    kept = starts | (np.random.default_rng(seed).random(len(job)) < PASSED_SHARE)
    job, bins, starts, weight = (of[kept] for of in (job, bins, starts, weight))
    if not starts.any() or starts.all():
        return None
    import lightgbm

    if prior_curves is None:
        rate = (np.bincount(bins, weight * starts, BINS) + 0.5) / (np.bincount(bins, weight, BINS) + 1.0)
        base = np.log(rate / (1.0 - rate))
        first = base[bins]
    else:
        base = np.full(BINS, np.nan)
        first = log_odds(prior_curves)[job, bins]
    rows = np.column_stack([features[job], bins.astype(np.float32)])
    data = lightgbm.Dataset(rows, starts.astype(float), weight=weight, init_score=first, free_raw_data=True)
    trees, speed = (TREES, RATE) if prior_curves is None else (REST_TREES, REST_RATE)
    settings = {
        **{"objective": "binary", "num_leaves": LEAVES, "learning_rate": speed, "verbosity": -1},
        **{"min_data_in_leaf": min(LEAST_ROWS, max(len(rows) // 50, 5)), "num_threads": 1, "seed": seed},
        **{"feature_fraction": FEATURE_SHARE, "bagging_fraction": ROW_SHARE, "bagging_freq": 1},
        **{"deterministic": True, "force_row_wise": True, "max_bin": 127},
    }
    return Hazard(Trees(lightgbm.train(settings, data, num_boost_round=trees)), base)


class Taught(NamedTuple):
    """Training data of a model: features (n, f), outcomes, and predictions (n, 33) that the model corrects, if any."""

    features: np.ndarray
    waits: Waits
    prior_curves: np.ndarray | None = None


Models = tuple[Hazard | None, ...]


class Fitting:
    """A fit of the models to the data known when it was created; the result does not depend on when or where it runs.

    >>> blank = Taught(np.zeros((1, 2), np.float32), Waits(np.zeros(1), np.zeros(1, bool), np.ones(1)))
    >>> Fitting((blank, blank), seed=0).result()
    (None, None)
    """

    def __init__(self, taught: tuple[Taught, ...], seed: int) -> None:
        self._training_data: tuple[tuple[Taught, ...], int] | None = (taught, seed)
        self._models: Models = ()
        self._future: Future[Models] | None = None

    @property
    def is_at_work(self) -> bool:
        """Return whether the fit is running now."""
        return self._future is not None and not self._future.done()

    def begin(self, run: Callable[[Callable[[], Models]], Future[Models]]) -> None:
        """Start the fit in the background: `run` takes a function and returns the future of its result, like an
        executor's `submit`.

        The future's result may be None if a package that the fit needs is missing; there are no models in this case.
        """
        if self._future is None and self._training_data is not None:
            self._future = run(self._work)

    def result(self) -> Models:
        """Return the models, after waiting for the fit or running it now; None for a model with too little data."""
        if self._training_data is not None:
            none = tuple(None for _ in self._training_data[0])
            self._models = (self._work() if self._future is None else self._future.result()) or none
            self._training_data = None
        return self._models

    def _work(self) -> Models:
        assert self._training_data is not None
        taught, seed = self._training_data
        return tuple(fit(one.features, one.waits, seed, one.prior_curves) for one in taught)

    def __getstate__(self) -> tuple[tuple[tuple[Taught, ...], int] | None, Models]:
        if self._future is not None and self._future.done():
            self.result()
        return self._training_data, self._models

    def __setstate__(self, state: tuple[tuple[tuple[Taught, ...], int] | None, Models]) -> None:
        self._training_data, self._models = state
        self._future = None


class Submissions:
    """A ring of the last `window` submissions: features of type `kind`, submit time, outcome (`fate`) and wait.

    The ring also stores snapshots (samples of waiting jobs). For snapshots, `born` is the last submission before the
    snapshot, and waits are measured from the snapshot.

    >>> ring = Submissions(4, 2)
    >>> ring.add(0, 10.0, np.zeros(2)); _ = ring.resolved(0, 5.0, ENDED)
    >>> ring.training_set(30.0, 100.0, latest=100)[1]
    Waits(waited=array([5.]), ended=array([ True]), weight=array([0.5]))
    """

    def __init__(self, window: int, features: int, kind: type = np.float32) -> None:
        self.window = window
        self.features: np.ndarray = np.zeros((min(window, 256), features), kind)
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

    def resolved(self, number: int, waited: float, fate: int) -> np.ndarray | None:
        """Record that a job started (`fate` ENDED) or was cancelled (LEFT) after `waited` seconds, or that its wait
        must not be learned (SPOILED). Return the job's features; None if the ring does not have the job.
        """
        place = number % len(self.features)
        if self.number[place] != number:
            return None
        self.fate[place], self.waited[place] = fate, waited
        return np.asarray(self.features[place])

    def outcomes(self, now: float, oldest: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices in the ring of the submissions that may be learned from, in order of submission, and how
        long each has waited until `now`. Submissions and snapshots before number `oldest` are left out.
        """
        places = np.flatnonzero((self.number >= 0) & (self.fate != SPOILED) & (self.born >= oldest))
        places = places[np.argsort(self.number[places])]
        so_far = np.maximum(now - self.submit[places], 0.0)
        return places, np.where(self.fate[places] == WAITING, so_far, self.waited[places])

    def training_set(self, now: float, half_life: float, latest: int, oldest: int = 0) -> tuple[np.ndarray, Waits]:
        """Return a copy of the training features (n, f) in order of submission, and the outcomes known at `now`.

        A submission that is `half_life` submissions older than submission `latest` has half its weight; submissions
        and snapshots before number `oldest` are left out.
        """
        places, waited = self.outcomes(now, oldest)
        weight = 0.5 ** ((latest - self.born[places]) / half_life)
        return self.features[places], Waits(waited, self.fate[places] == ENDED, weight)

    def _grow(self, size: int) -> None:
        before = len(self.number)
        for name in ("features", "number", "born", "submit", "waited", "fate"):
            setattr(self, name, enlarged(getattr(self, name), size))
        self.number[before:], self.born[before:] = -1, -1
