"""`boosted`: gradient-boosted trees, by LightGBM on a job's feature columns, beside the methods of Wu et al. 2019."""

from __future__ import annotations

from ..ensembles.encoding import VASP_FEATURES, Encut
from ..ensembles.learner import FeatureLearner
from ..ensembles.single import SingleModel


def boosted(
    encut: Encut = "paper",
    features: tuple[str, ...] = VASP_FEATURES,
    also: tuple[str, ...] = (),
    refit_every_jobs: int = 500,
    window: int = 10000,
    min_jobs: int = 50,
    warm_start: bool = False,
    seed: int = 0,
) -> FeatureLearner:
    """Gradient-boosted trees, by LightGBM; not in the paper: the present-day yardstick.

    See `SingleModel` for the model and `FeatureLearner` for what it learns from and when it falls back.

    >>> boosted(window=1000).window
    1000
    """
    names = features + also
    model = SingleModel("boosted", names, encut, seed, warm_start)
    return FeatureLearner(model, names, refit_every_jobs, window, min_jobs)
