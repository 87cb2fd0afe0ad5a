# SPDX-License-Identifier: Apache-2.0
"""`brbf`: predicts run times with one neural network for each frequent kind of job, and a general network on the output
of naive Bayes (Wu et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .learner import KEY, EncodedModel, Encut, FeatureMethod, Row  # noqa: F401 (the registry reads types here)
from .regressors import MixedBayes, RbfNetwork

FIRST = 0.6


class BrbfModel(EncodedModel):
    """One network for every key with many jobs, and a general network that reads a Bayes classifier's probabilities.

    Section 3.2 of Wu et al. 2019: key = (ISPIN, ISYM, LREAL, PREC); a key with more than `key_min` training rows has
    its own network on the continuous features. The general model predicts jobs without a network of their key. The
    general model divides run times into `ranges` classes, trains naive Bayes on the first 60 % of the rows, and trains
    a network from the class probabilities to log10 run time on the last 40 %. The run-time classes have equal numbers
    of rows (the paper says only that they follow the distribution of run times).
    """

    name = "brbf"
    settings: Brbf

    def __init__(self, features: tuple[str, ...], settings: Brbf) -> None:
        super().__init__(features, settings)
        self.key = [features.index(name) for name in KEY if name in features]
        self.networks: dict[Row, RbfNetwork] = {}
        self.bayes: MixedBayes | None = None
        self.general: RbfNetwork | None = None

    def fit(self, rows: list[Row], log_run: np.ndarray) -> None:
        """Fit the networks of frequent keys and the general model, from rows in order of submission."""
        if not self.encode(rows):
            self.networks, self.general = {}, None
        values, codes = self.encoder.scaled(rows), self.encoder.codes(rows)
        of_key: dict[Row, list[int]] = {}
        for k, row in enumerate(rows):
            of_key.setdefault(self._key(row), []).append(k)
        self.networks = {
            key: self._network(values[members], log_run[members], self.networks.get(key))
            for key, members in of_key.items()
            if len(members) > self.settings.key_min and values.shape[1]
        }
        cut, ranges = int(FIRST * len(rows)), self.settings.ranges
        edges = np.unique(np.quantile(log_run[:cut], np.arange(1, ranges) / ranges))
        label = np.unique(np.searchsorted(edges, log_run[:cut], side="right"), return_inverse=True)[1]
        sizes = tuple(len(known) for known in self.encoder.categories.values())
        self.bayes = MixedBayes.fit(codes[:cut], values[:cut], label, sizes)
        inputs = self.bayes.probabilities(codes[cut:], values[cut:])
        self.general = self._network(inputs, log_run[cut:], self.general)

    def predict_row(self, row: Row) -> float:
        """Return the predicted log10 seconds, from the network of the row's key, else from the general network."""
        assert self.bayes is not None
        assert self.general is not None
        values = self.encoder.scaled([row])
        network = self.networks.get(self._key(row))
        if network is not None:
            return float(network.predict(values)[0])
        return float(self.general.predict(self.bayes.probabilities(self.encoder.codes([row]), values))[0])

    def has_network(self, row: Row) -> bool:
        """Return whether the row's key has its own network."""
        return self._key(row) in self.networks

    def _key(self, row: Row) -> Row:
        return tuple(row[k] for k in self.key)

    def _network(self, x: np.ndarray, y: np.ndarray, before: RbfNetwork | None) -> RbfNetwork:
        own = self.settings
        return RbfNetwork.fit(x, y, own.centres, own.ridge, own.floor, own.seed, before)


@dataclass(eq=False, repr=False)
class Brbf(FeatureMethod):
    """Predicts run times from a job's feature columns by BRBF networks (Wu et al. 2019, section 3.2).

    Parameters
    ----------
    key_min
        Number of training rows above which a key has its own network.
    ranges
        Number of run-time classes in the general model.
    centres
        Maximum number of centres of a radial basis network.
    ridge, floor
        Ridge penalty and minimum spread of the networks (see `RbfNetwork`); by default they are chosen from the
        training rows at every fit.
    encut
        Transformation of the plane-wave cutoff ENCUT: `paper` cubes it, `physics` takes the power 1.5, `plain` none.
    features, also
        Columns that are known at submission; columns in `also` are added to `features`.
    refit_every_jobs
        Number of ended jobs between two fits, at least 1; at the beginning, fits follow after fewer jobs.
    window
        Number of last ended jobs on which the model is trained, at least 1. The default window is larger than of the
        paper's training set (80 % of 16,700 jobs), so that frequent keys reach `key_min`.
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
    >>> Brbf(key_min=500).model.name
    'brbf'
    """

    makes = BrbfModel

    key_min: int = 3000
    ranges: int = 56
    centres: int = 56
    ridge: float | None = None
    floor: float | None = None
    window: int = field(default=20000, kw_only=True)
