# SPDX-License-Identifier: Apache-2.0
"""The four regressors on encoded features, scikit-learn's and LightGBM's.

With a quick way for a single row; and one on its own as a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from .encoding import Encoder, Encut, Row
from .rbf import basis


@dataclass(frozen=True, slots=True)
class PackedForest:
    """All trees' nodes end to end; a leaf is its own child, so that every walk may take the deepest tree's steps.

    scikit-learn's `predict` spends milliseconds a call on checks and threads, and asking tree by tree one more; this
    walk takes about 0.1 ms for 100 trees.
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    children: np.ndarray
    value: np.ndarray
    depth: int

    @classmethod
    def of(cls, forest: Any) -> PackedForest:
        """From a RandomForestRegressor or RandomForestClassifier. O(nodes)."""
        trees = [estimator.tree_ for estimator in forest.estimators_]
        sizes = [tree.node_count for tree in trees]
        roots = np.cumsum([0, *sizes[:-1]])
        own = np.arange(sum(sizes))
        shift = np.repeat(roots, sizes)
        left = np.concatenate([tree.children_left for tree in trees])
        right = np.concatenate([tree.children_right for tree in trees])
        is_leaf = left < 0
        children = np.stack([np.where(is_leaf, own, right + shift), np.where(is_leaf, own, left + shift)])
        return cls(
            roots,
            np.where(is_leaf, 0, np.concatenate([tree.feature for tree in trees])),
            np.concatenate([tree.threshold for tree in trees]),
            children,
            np.concatenate([tree.value[:, 0, :] for tree in trees]),
            max(tree.max_depth for tree in trees),
        )

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The mean of the trees' leaves for one row (features,): (1,) of a regressor, (classes,) of a classifier."""
        row = x.astype(np.float32)  # scikit-learn compares in float32 too
        node = self.roots
        for _ in range(self.depth):
            goes_left = row[self.feature[node]] <= self.threshold[node]
            node = self.children[goes_left.view(np.int8), node]
        return np.asarray(self.value[node].mean(axis=0))


Kind = Literal["forest", "svr", "bayesian_ridge", "boosted"]
TREES = 100
BOOSTS = 200


class Regressor(NamedTuple):
    """A fitted model and the function that asks it about one row, (features,) float64 -> log10 seconds."""

    kind: Kind
    model: Any
    packed: PackedForest | None = None

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Many rows at once, (rows,)."""
        return np.asarray(self.model.predict(x), dtype=float)

    def predict_row(self, x: np.ndarray) -> float:
        """One row, without the per-call checks of a batch; the same number."""
        if self.packed is not None:
            return float(self.packed.predict(x)[0])
        if self.kind == "svr":
            support = self.model.support_vectors_
            spread = np.full(len(support), np.sqrt(0.5 / self.model.gamma))
            return float(basis(x[None, :], support, spread)[0] @ self.model.dual_coef_[0] + self.model.intercept_[0])
        if self.kind == "bayesian_ridge":
            return float(x @ self.model.coef_ + self.model.intercept_)
        return float(self.model.predict(x.reshape(1, -1), num_threads=1)[0])


def fit_regressor(kind: Kind, x: np.ndarray, y: np.ndarray, seed: int, before: Regressor | None = None) -> Regressor:
    """A regressor on rows (rows, features) with log10 run times (rows,); `before` of the same encoding warms it up.

    Warm start: a forest keeps the younger half of its trees and grows the other half on the rows at hand; boosting
    goes on from its former trees, half as many new ones, and starts over once it would hold more than twice the usual
    number. The others have no such state. Settings are the libraries' defaults, but for the support vector machine's
    tube: its default of 0.1 would be a quarter of every run time on a log10 scale, 0.01 is 2 %.
    """
    if kind == "forest":
        forest = _forest(x, y, seed, before)
        return Regressor(kind, forest, PackedForest.of(forest))
    if kind == "svr":
        from sklearn.svm import SVR

        # gamma as its "scale", but spelt out: the quick way for one row needs the number
        gamma = 1.0 / (x.shape[1] * x.var()) if x.var() > 0 else 1.0
        return Regressor(kind, SVR(C=1.0, gamma=gamma, epsilon=0.01).fit(x, y))
    if kind == "bayesian_ridge":
        from sklearn.linear_model import BayesianRidge

        return Regressor(kind, BayesianRidge().fit(x, y))
    return Regressor(kind, _boosted(x, y, seed, before))


def _forest(x: np.ndarray, y: np.ndarray, seed: int, before: Regressor | None) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    if before is None:
        return RandomForestRegressor(n_estimators=TREES, random_state=seed, n_jobs=1).fit(x, y)
    old = before.model.estimators_
    forest = RandomForestRegressor(n_estimators=TREES // 2, random_state=seed + len(y), n_jobs=1).fit(x, y)
    forest.estimators_ = [*old[TREES // 2 :], *forest.estimators_]
    forest.n_estimators = TREES
    return forest


def _boosted(x: np.ndarray, y: np.ndarray, seed: int, before: Regressor | None) -> Any:
    import lightgbm

    settings = {"objective": "l2", "seed": seed, "num_threads": 1, "verbosity": -1, "deterministic": True}
    data = lightgbm.Dataset(x, y, params={"verbosity": -1})
    if before is None or before.model.num_trees() > 2 * BOOSTS:
        return lightgbm.train(settings, data, num_boost_round=BOOSTS)
    return lightgbm.train(settings, data, num_boost_round=BOOSTS // 2, init_model=before.model)


class SingleModel:
    """A regressor on one-hot encoded features with log10 run time as target; see `regressors` for settings."""

    def __init__(self, kind: Kind, features: tuple[str, ...], encut: Encut, seed: int, warm_start: bool) -> None:
        self.name: str = kind
        self.kind: Kind = kind
        self.features = features
        self.encut: Encut = encut
        self.seed = seed
        self.warm_start = warm_start
        self.encoder: Encoder | None = None
        self.regressor: Regressor | None = None

    def fit(self, rows: list[Row], log_run: np.ndarray) -> None:
        """All rows; warm only while the former encoding covers them."""
        goes_on = self.warm_start and self.encoder is not None and self.encoder.covers(rows)
        if not goes_on:
            self.encoder = Encoder.fit(self.features, rows, self.encut)
        assert self.encoder is not None
        before = self.regressor if goes_on else None
        self.regressor = fit_regressor(self.kind, self.encoder.one_hot(rows), log_run, self.seed, before)

    def predict_row(self, row: Row) -> float:
        """log10 seconds."""
        assert self.encoder is not None
        assert self.regressor is not None
        return self.regressor.predict_row(self.encoder.one_hot([row])[0])
