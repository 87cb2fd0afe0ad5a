"""`svr`: support vector regression (SVR) on a job's feature columns, a baseline of Wu et al. 2019."""

from __future__ import annotations

from ..ensembles.encoding import VASP_FEATURES, Encut
from ..ensembles.learner import FeatureLearner
from ..ensembles.single import SingleModel


def svr(
    encut: Encut = "paper",
    features: tuple[str, ...] = VASP_FEATURES,
    also: tuple[str, ...] = (),
    refit_every_jobs: int = 500,
    window: int = 10000,
    min_jobs: int = 50,
    seed: int = 0,
) -> FeatureLearner:
    """Support vector regression (SVR); by scikit-learn.

    See `SingleModel` for the model and `FeatureLearner` for what it learns from and when it falls back.

    >>> svr(window=1000).window
    1000
    """
    names = features + also
    model = SingleModel("svr", names, encut, seed, False)
    return FeatureLearner(model, names, refit_every_jobs, window, min_jobs)
