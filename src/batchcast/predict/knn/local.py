"""Estimates from a neighbourhood other than its mean: linear or support-vector regression (scikit-learn)."""

from __future__ import annotations

import numpy as np

LOCAL_MODELS = ("mean", "linear", "svr")


def local_estimate(model: str, table: np.ndarray, run: np.ndarray, query: np.ndarray) -> float:
    """The run time a regression over `table` (k, m) and `run` (k,) gives at `query` (m,), seconds.

    Unknown numbers count as -1 (all are normalised to about [0, 1]). The answer is kept inside the neighbours' own
    range: a fit on a handful of jobs extrapolates to nonsense. One neighbour, or equal run times: that run time.
    `linear` is least squares of smallest norm; `svr` a Gaussian-kernel SVR on standardised run times.
    """
    low, high = float(run.min()), float(run.max())
    if low == high:
        return low
    known, asked = np.nan_to_num(table, nan=-1.0), np.nan_to_num(query, nan=-1.0)
    if model == "linear":
        matrix = np.column_stack([np.ones(len(known)), known])
        weights = np.linalg.lstsq(matrix, run, rcond=None)[0]
        value = float(weights[0] + asked @ weights[1:])
    else:
        from sklearn.svm import SVR

        centre, spread = float(run.mean()), float(run.std())
        value = centre + spread * float(SVR().fit(known, (run - centre) / spread).predict(asked[None, :])[0])
    return min(max(value, low), high)
