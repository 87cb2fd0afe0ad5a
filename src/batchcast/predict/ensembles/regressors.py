"""The four regressors on encoded features: scikit-learn's and LightGBM's, with a quick way for a single row."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from .packed_forest import PackedForest
from .rbf import basis

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
