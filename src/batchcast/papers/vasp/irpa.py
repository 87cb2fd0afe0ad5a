# SPDX-License-Identifier: Apache-2.0
"""`irpa`: predicts the weighted mean of a random forest, a support vector machine and a Bayesian ridge regression (Wu
et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from .learner import EncodedModel, Encut, FeatureMethod, Row  # noqa: F401 (the registry reads types here)
from .regressors import Kind, MixedBayes, PackedForest, Regressor, fit_regressor

SUB_MODELS: tuple[Kind, ...] = ("forest", "svr", "bayesian_ridge")
FIRST = 0.6


class IrpaModel(EncodedModel):
    """IRPA's two layers: sub-models trained on the first 60 % of the rows, and a classifier of the best sub-model,
    trained on the other 40 %.

    Section 3.1 of Wu et al. 2019: each row of the last 40 % gives [pv1, pv2, pv3, label], where label is the sub-model
    whose prediction is nearest to the run time. For a new job, the classifier converts the three predictions to weights
    pb, and the prediction is PV = sum_i pb_i pv_i (eq. 5). `mean` is the scale (log10 or seconds) on which predictions
    are compared and averaged. `upper` is the kind of classifier: Gaussian naive Bayes, or a random forest as in the
    conference version. `sub_models` chooses whether sub-models stay as trained on the first 60 % (`first`, as in the
    paper) or are trained again on all rows after the classifier (`all`).
    """

    name = "irpa"
    settings: Irpa

    def __init__(self, features: tuple[str, ...], settings: Irpa) -> None:
        super().__init__(features, settings)
        self.below: list[Regressor] = []
        self.upper: MixedBayes | PackedForest | None = None
        self.classes = np.zeros(0, dtype=int)

    def fit(self, rows: list[Row], log_run: np.ndarray) -> None:
        """Fit the sub-models and the classifier, from rows in order of submission."""
        before = {r.kind: r for r in self.below} if self.encode(rows) else {}
        x, seed = self.encoder.one_hot(rows), self.settings.seed
        cut = int(FIRST * len(rows))
        self.below = [fit_regressor(k, x[:cut], log_run[:cut], seed, before.get(k)) for k in SUB_MODELS]
        values = np.column_stack([r.predict(x[cut:]) for r in self.below])
        truth = log_run[cut:, None]
        error = np.abs(values - truth) if self.settings.mean == "log10" else np.abs(10**values - 10**truth)
        self._fit_upper(values, error.argmin(axis=1))
        if self.settings.sub_models == "all":
            self.below = [fit_regressor(k, x, log_run, seed, before.get(k)) for k in SUB_MODELS]

    def predict_row(self, row: Row) -> float:
        """Return log10 of the predicted run time PV in seconds."""
        x = self.encoder.one_hot([row])[0]
        values = np.array([r.predict_row(x) for r in self.below])
        weights = self._weights(values)
        return float(weights @ values if self.settings.mean == "log10" else np.log10(weights @ 10**values))

    def _fit_upper(self, values: np.ndarray, label: np.ndarray) -> None:
        self.classes, codes = np.unique(label, return_inverse=True)
        if self.settings.upper == "bayes":
            # with less smoothing, weights become 0 or 1 by chance if sub-models give constant predictions on the later
            # rows
            self.upper = MixedBayes.fit(np.zeros((len(label), 0), dtype=int), values, codes, (), smoothing=1e-6)
        else:
            from sklearn.ensemble import RandomForestClassifier

            forest = RandomForestClassifier(
                n_estimators=100, min_samples_leaf=5, random_state=self.settings.seed, n_jobs=1
            )
            self.upper = PackedForest.of(forest.fit(values, codes))

    def _weights(self, values: np.ndarray) -> np.ndarray:
        """Return the weight pb of each sub-model, with sum 1; the weight is 0 if the sub-model's prediction was never
        the nearest."""
        weights = np.zeros(len(SUB_MODELS))
        if isinstance(self.upper, MixedBayes):
            weights[self.classes] = self.upper.probabilities(np.zeros((1, 0), dtype=int), values[None, :])[0]
        elif self.upper is not None:
            weights[self.classes] = self.upper.predict(values)
        return weights


@dataclass(eq=False, repr=False)
class Irpa(FeatureMethod):
    """Predicts run times from a job's feature columns by IRPA (Wu et al. 2019, section 3.1).

    Parameters
    ----------
    upper
        The classifier that gives the weights: `bayes`, or `forest` as in the conference version.
    mean
        Scale on which the predictions of sub-models are compared and averaged: `log10` or `seconds`.
    sub_models
        `first`: the sub-models stay as trained on the first 60 % of the rows, as in the paper; `all`: they are trained
        again on all rows.
    encut
        Transformation of the plane-wave cutoff ENCUT: `paper` cubes it, `physics` takes the power 1.5, `plain` none.
    features, also
        Columns that are known at submission; columns in `also` are added to `features`.
    refit_every_jobs
        Number of ended jobs between two fits, at least 1; at the beginning, fits follow after fewer jobs.
    window
        Number of last ended jobs on which the model is trained, at least 1.
    min_jobs
        Number of ended jobs before the first fit, at least 1.
    warm_start
        Whether a fit continues from the last fit.
    seed
        Random seed of the models.
    train_when_asked
        Whether the model is also trained on all ended jobs before each prediction.

    Raises
    ------
    ValueError
        If a parameter is below 1, or there is no feature.

    References
    ----------
    Wu, Shen, Zhang, Liao, Wang, Li, Runtime prediction of jobs for backfilling optimization, 2019.

    Examples
    --------
    >>> Irpa(upper="forest").uses[:3]
    ('procs', 'kpoints', 'volume')
    """

    makes = IrpaModel

    upper: Literal["bayes", "forest"] = "bayes"
    mean: Literal["log10", "seconds"] = "log10"
    sub_models: Literal["first", "all"] = "first"
