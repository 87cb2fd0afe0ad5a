# SPDX-License-Identifier: Apache-2.0
"""`forest`, `svr`, `bayesian_ridge` and `boosted`: predict run times by a regression on a job's feature columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from .learner import EncodedModel, Encut, FeatureMethod, Row  # noqa: F401 (the registry reads types here)
from .regressors import Kind, Regressor, fit_regressor

WARM: tuple[Kind, ...] = ("forest", "boosted")


class SingleModel(EncodedModel):
    """A regressor on one-hot encoded features with log10 run time as target; `fit_regressor` has the settings."""

    settings: Regression

    def __init__(self, features: tuple[str, ...], settings: Regression) -> None:
        super().__init__(features, settings)
        self.name: str = settings.kind
        if settings.warm_start and settings.kind not in WARM:
            raise ValueError(f"{self.name} has no warm start (accepted: {', '.join(WARM)})")
        self.regressor: Regressor | None = None

    def fit(self, rows: list[Row], log_run: np.ndarray) -> None:
        """Fit to all rows; continue the last fit (warm start) only if the last encoder covers the rows."""
        before = self.regressor if self.encode(rows) else None
        own = self.settings
        self.regressor = fit_regressor(own.kind, self.encoder.one_hot(rows), log_run, own.seed, before)

    def predict_row(self, row: Row) -> float:
        """Return log10 seconds."""
        assert self.regressor is not None
        return self.regressor.predict_row(self.encoder.one_hot([row])[0])


@dataclass(eq=False, repr=False)
class Regression(FeatureMethod):
    """Predicts run times by a regression of log10 run time on feature columns, which is refitted as jobs finish.

    Parameters
    ----------
    kind
        `forest`: random forest regression; `svr`: support vector regression; `bayesian_ridge`: Bayesian ridge
        regression; `boosted`: gradient-boosted trees.
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
        Whether a fit continues from the last fit; only `forest` and `boosted` can continue.
    seed
        Random seed of the models.
    train_when_asked
        Whether the model is also trained on all ended jobs before each prediction.

    Raises
    ------
    ValueError
        If a parameter is below 1, if there is no feature, or for a warm start of a model that cannot continue.

    Notes
    -----
    The kinds `forest`, `svr` and `bayesian_ridge` are the baselines RFR, SVR and BRR of Wu et al. 2019, computed by
    scikit-learn. The kind `boosted` is LightGBM, a modern baseline that is not in the paper. The settings of the models
    are the libraries' defaults, with one exception in `fit_regressor`.

    References
    ----------
    Wu, Shen, Zhang, Liao, Wang, Li, Runtime prediction of jobs for backfilling optimization, 2019.
    Breiman, Random forests, 2001, doi:10.1023/A:1010933404324.
    Smola, Schölkopf, A tutorial on support vector regression, 2004, doi:10.1023/B:STCO.0000035301.49549.88.
    MacKay, Bayesian interpolation, 1992, doi:10.1162/neco.1992.4.3.415.
    Friedman, Greedy function approximation: a gradient boosting machine, 2001, doi:10.1214/aos/1013203451.

    Examples
    --------
    >>> Regression("forest", window=1000).model.name
    'forest'
    """

    makes = SingleModel

    kind: Kind


def _with(kind: Kind, words: str) -> partial[Regression]:
    maker = partial(Regression, kind)
    maker.__doc__ = f"{words}\n\nSee `Regression` for parameters and sources."
    return maker


forest = _with("forest", "Random forest regression (RFR) on a job's feature columns (scikit-learn).")
svr = _with("svr", "Support vector regression (SVR) on a job's feature columns (scikit-learn).")
bayesian_ridge = _with("bayesian_ridge", "Bayesian ridge regression (BRR) on a job's feature columns (scikit-learn).")
boosted = _with("boosted", "Gradient-boosted trees on a job's feature columns (LightGBM).")
