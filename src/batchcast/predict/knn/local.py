"""A run time from a neighbourhood: its mean, or a regression over it (least squares, scikit-learn's SVR and forest)."""

from __future__ import annotations

from typing import Any

import numpy as np

LOCAL_MODELS = ("mean", "linear", "svr")
REGRESSIONS = ("linear", "forest", "svr")
TREES = 10


def local_estimate(model: str, table: np.ndarray, run: np.ndarray, query: np.ndarray, seed: int = 0) -> float:
    """The run time a regression over `table` (k, m) and `run` (k,) gives at `query` (m,), seconds.

    Unknown numbers count as -1 (features are normalised to about [0, 1] or standardised). The answer is kept inside the
    neighbours' own range: a fit on a handful of jobs extrapolates to nonsense. One neighbour, or equal run times: that
    run time. `linear` is least squares of smallest norm; `svr` scikit-learn's SVR (Gaussian kernel, its defaults) on
    standardised run times; `forest` a random forest of 10 trees.
    """
    low, high = float(run.min()), float(run.max())
    if low == high:
        return low
    if model == "mean":
        return float(run.mean())
    known, asked = np.nan_to_num(table, nan=-1.0), np.nan_to_num(query, nan=-1.0)
    value = float(fitted(model, known, run, seed)(asked[None, :])[0])
    return min(max(value, low), high)


class Linear:
    """Least squares of smallest norm with an intercept."""

    def __init__(self, table: np.ndarray, run: np.ndarray) -> None:
        self.centre = table.mean(axis=0)
        self.mean = float(run.mean())
        self.weights = np.linalg.lstsq(table - self.centre, run - self.mean, rcond=None)[0]

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.mean + (rows - self.centre) @ self.weights)


class Scaled:
    """A scikit-learn regressor on standardised run times."""

    def __init__(self, model: Any, table: np.ndarray, run: np.ndarray) -> None:
        self.centre, self.spread = float(run.mean()), float(run.std()) or 1.0
        self.model = model.fit(table, (run - self.centre) / self.spread)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self.centre + self.spread * self.model.predict(rows))


def fitted(model: str, table: np.ndarray, run: np.ndarray, seed: int = 0) -> Linear | Scaled:
    """A callable from rows (n, m) to run times (n,), fitted to `table` (k, m) and `run` (k,). Seconds."""
    if model == "linear":
        return Linear(table, run)
    from sklearn import config_context

    with config_context(assume_finite=True, skip_parameter_validation=True):
        if model == "svr":
            from sklearn.svm import SVR

            return Scaled(SVR(), table, run)
        from sklearn.ensemble import RandomForestRegressor

        return Scaled(RandomForestRegressor(TREES, random_state=seed), table, run)
