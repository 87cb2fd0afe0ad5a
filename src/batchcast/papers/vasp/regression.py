# SPDX-License-Identifier: Apache-2.0
"""`forest`, `svr`, `bayesian_ridge`, `boosted`: one regression on a job's feature columns, with one of four models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from .learner import EncodedModel, Encut, FeatureMethod, Row
from .regressors import Kind, Regressor, fit_regressor

WARM: tuple[Kind, ...] = ("forest", "boosted")


class SingleModel(EncodedModel):
    """A regressor on one-hot encoded features with log10 run time as target; see `fit_regressor` for its settings."""

    def __init__(self, kind: Kind, features: tuple[str, ...], encut: Encut, seed: int, warm_start: bool) -> None:
        super().__init__(features, encut, seed, warm_start)
        self.kind = kind
        self.name: str = kind
        self.regressor: Regressor | None = None

    def fit(self, rows: list[Row], log_run: np.ndarray) -> None:
        """All rows; warm only while the former encoding covers them."""
        before = self.regressor if self.encode(rows) else None
        self.regressor = fit_regressor(self.kind, self.encoder.one_hot(rows), log_run, self.seed, before)

    def predict_row(self, row: Row) -> float:
        """log10 seconds."""
        assert self.regressor is not None
        return self.regressor.predict_row(self.encoder.one_hot([row])[0])


@dataclass(eq=False, repr=False)
class Regression(FeatureMethod):
    """A regression from feature columns to log10 run time, fitted anew as jobs finish.

    Parameters
    ----------
    kind
        `forest`: random forest regression; `svr`: support vector regression; `bayesian_ridge`: Bayesian ridge
        regression; `boosted`: gradient-boosted trees.
    encut
        What becomes of the plane-wave cutoff: `paper` cubes it, `physics` takes the power 1.5, `plain` leaves it.
    features, also
        Columns known at submission; `also` are added to `features`.
    refit_every_jobs
        Ended jobs between two fits, at least 1; fewer while the model is young.
    window
        The last so many ended jobs teach, at least 1.
    min_jobs
        Ended jobs before the first fit, at least 1.
    warm_start
        Whether a fit goes on from the one before; `forest` and `boosted` can.
    seed
        Of the models that draw.
    train_when_asked
        Whether the model is also trained on all ended jobs when a prediction is asked for.

    Raises
    ------
    ValueError
        For a number below 1, no feature, or a warm start of a model that has none.

    Notes
    -----
    The three first are the baselines RFR, SVR and BRR of Wu et al. 2019 by scikit-learn, the fourth is by LightGBM and
    not in the paper: the present-day yardstick. Settings are the libraries' defaults, see `fit_regressor`.

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

    kind: Kind

    def untaught(self, names: tuple[str, ...]) -> SingleModel:
        """The model of these columns, before its first fit."""
        if self.warm_start and self.kind not in WARM:
            raise ValueError(f"{self.kind} has no warm start (accepted: {', '.join(WARM)})")
        return SingleModel(self.kind, names, self.encut, self.seed, self.warm_start)


def _with(kind: Kind, words: str) -> partial[Regression]:
    maker = partial(Regression, kind)
    maker.__doc__ = f"{words}\n\nSee `Regression` for parameters and sources."
    return maker


forest = _with("forest", "Random forest regression (RFR) on a job's feature columns (scikit-learn).")
svr = _with("svr", "Support vector regression (SVR) on a job's feature columns (scikit-learn).")
bayesian_ridge = _with("bayesian_ridge", "Bayesian ridge regression (BRR) on a job's feature columns (scikit-learn).")
boosted = _with("boosted", "Gradient-boosted trees on a job's feature columns (LightGBM).")
