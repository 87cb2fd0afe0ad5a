# SPDX-License-Identifier: Apache-2.0
"""`forest`, `svr`, `bayesian_ridge`, `boosted`: one regression on a job's feature columns, with one of four models."""

from __future__ import annotations

from functools import partial

from ..ensembles.learner import VASP_FEATURES, Encut, FeatureLearner
from ..ensembles.regressors import Kind, SingleModel

WARM: tuple[Kind, ...] = ("forest", "boosted")


def regression(
    model: Kind,
    encut: Encut = "paper",
    features: tuple[str, ...] = VASP_FEATURES,
    also: tuple[str, ...] = (),
    refit_every_jobs: int = 500,
    window: int = 10000,
    min_jobs: int = 50,
    warm_start: bool = False,
    seed: int = 0,
) -> FeatureLearner:
    """A regression from feature columns to log10 run time, fitted anew as jobs finish.

    Parameters
    ----------
    model
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

    Returns
    -------
    FeatureLearner
        The predictor; jobs without readable features are answered by `recent_mean`.

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
    >>> regression("forest", window=1000).model.name
    'forest'
    """
    if warm_start and model not in WARM:
        raise ValueError(f"{model} has no warm start (accepted: {', '.join(WARM)})")
    names = features + also
    single = SingleModel(model, names, encut, seed, warm_start)
    return FeatureLearner(single, names, refit_every_jobs, window, min_jobs)


def _with(model: Kind, words: str) -> partial[FeatureLearner]:
    maker = partial(regression, model)
    maker.__doc__ = f"{words}\n\nSee `regression` for parameters and sources."
    return maker


forest = _with("forest", "Random forest regression (RFR) on a job's feature columns, by scikit-learn.")
svr = _with("svr", "Support vector regression (SVR) on a job's feature columns, by scikit-learn.")
bayesian_ridge = _with("bayesian_ridge", "Bayesian ridge regression (BRR) on a job's feature columns, by scikit-learn.")
boosted = _with("boosted", "Gradient-boosted trees on a job's feature columns, by LightGBM: the present-day yardstick.")
