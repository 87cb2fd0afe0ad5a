# SPDX-License-Identifier: Apache-2.0
"""Models on encoded features: regressions of scikit-learn and LightGBM, a radial basis network, and naive Bayes.

Each model has a fast method for predicting a single row. The network has k-means centres, a Gaussian basis and weights
by regularised least squares; the naive Bayes accepts discrete and continuous features together.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

FLOORS = (2.0, 1.0, 0.5, 0.0)
RIDGES = (1.0, 0.1, 0.01, 0.001)
FEWEST = 20


@dataclass(frozen=True, slots=True)
class RbfNetwork:
    """A radial basis network f(x) = b + sum_p w_p exp(-||x - mu_p||^2 / (2 delta_p^2)); Wu et al. 2019, eqs. 11-15.

    Departures from the paper: a bias b, a minimum for each spread, and least squares with a ridge instead of the
    pseudo-inverse, because the paper's normal matrix is nearly singular if Gaussians overlap. By default, the ridge and
    the minimum spread are chosen from the training rows (see `settled`).
    """

    centres: np.ndarray
    spreads: np.ndarray
    weights: np.ndarray
    bias: float

    @classmethod
    def fit(
        cls,
        x: np.ndarray,
        y: np.ndarray,
        m: int = 56,
        ridge: float | None = None,
        floor: float | None = None,
        seed: int = 0,
        before: RbfNetwork | None = None,
    ) -> RbfNetwork:
        """Fit to rows (rows, features) in time order and targets (rows,); m centres, or fewer with fewer rows.

        The spread of a centre is the root mean square distance of its rows, but at least `floor` times the distance to
        the nearest other centre. `before` gives the initial centres of the clustering. A round of k-means takes O(rows
        m) time, the weights O(rows m^2); these costs are 2 and 16 times as high if `settled` chooses `ridge` or
        `floor`.
        """
        ridges, floors = RIDGES if ridge is None else (ridge,), FLOORS if floor is None else (floor,)
        ridge, floor = settled(x, y, m, ridges, floors, seed, before)
        centres, label = _cluster(x, m, seed, before)
        spreads = _spreads(x, centres, label, floor)
        weights, bias = _weights(basis(x, centres, spreads), y, ridge)
        return cls(centres, spreads, weights, bias)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the network's values (rows,) at rows of features (rows, features)."""
        return np.asarray(basis(x, self.centres, self.spreads) @ self.weights + self.bias)


def settled(
    x: np.ndarray,
    y: np.ndarray,
    m: int,
    ridges: Sequence[float],
    floors: Sequence[float],
    seed: int,
    before: RbfNetwork | None,
) -> tuple[float, float]:
    """Return the (ridge, floor) with the least error on the last quarter of the rows, after a fit to the other rows.

    Rows are in time order, so the choice predicts later training rows from earlier training rows. The error is the mean
    absolute error in log10; ties go to the smoother network, which is the network that is tried first. If there are
    fewer than 20 rows, the result is ridge 0.1 and floor 1. A single given ridge or floor is always returned.

    >>> x = np.arange(40.0)[:, None]
    >>> settled(x, np.zeros(40), 4, RIDGES, FLOORS, 0, None)
    (1.0, 2.0)
    """
    if len(x) < FEWEST or len(ridges) == len(floors) == 1:
        return 0.1 if len(ridges) > 1 else ridges[0], 1.0 if len(floors) > 1 else floors[0]
    cut = len(x) - len(x) // 4
    centres, label = _cluster(x[:cut], m, seed, before)
    best, chosen = np.inf, (ridges[0], floors[0])
    for floor in floors:
        spreads = _spreads(x[:cut], centres, label, floor)
        taught, asked = basis(x[:cut], centres, spreads), basis(x[cut:], centres, spreads)
        for ridge in ridges:
            weights, bias = _weights(taught, y[:cut], ridge)
            error = float(np.abs(asked @ weights + bias - y[cut:]).mean())
            if error < best:
                best, chosen = error, (ridge, floor)
    return chosen


def _spreads(x: np.ndarray, centres: np.ndarray, label: np.ndarray, floor: float) -> np.ndarray:
    """Return each centre's spread: the root mean square distance of its rows, but at least `floor` times the distance
    to the nearest other centre (1 if there is none)."""
    squares = ((x - centres[label]) ** 2).sum(axis=1)
    counts = np.maximum(np.bincount(label, minlength=len(centres)), 1)
    spreads = np.sqrt(np.bincount(label, squares, minlength=len(centres)) / counts)
    apart = ((centres[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    to_nearest = np.sqrt(apart.min(axis=1)) if len(centres) > 1 else np.ones(1)
    return np.maximum(spreads, np.maximum(floor * to_nearest, 1e-3))


def _weights(phi: np.ndarray, y: np.ndarray, ridge: float) -> tuple[np.ndarray, float]:
    """Return least-squares weights (m,) with a ridge penalty, and the bias, which has no penalty."""
    middle, level = phi.mean(axis=0), float(y.mean())
    centred = phi - middle
    normal = centred.T @ centred
    normal[np.diag_indices_from(normal)] += ridge
    weights = np.linalg.solve(normal, centred.T @ (y - level))
    return weights, level - float(middle @ weights)


def basis(x: np.ndarray, centres: np.ndarray, spreads: np.ndarray) -> np.ndarray:
    """Return the Gaussian basis functions phi_p(x) of rows (rows, features): (rows, m).

    >>> basis(np.array([[0.0], [1.0]]), np.array([[0.0]]), np.array([1.0])).round(3).tolist()
    [[1.0], [0.607]]
    """
    # the squared differences are expanded to avoid an array (rows, m, features)
    squares = (x**2).sum(axis=1)[:, None] - 2.0 * x @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.exp(-np.maximum(squares, 0.0) / (2.0 * spreads**2)))


def _cluster(x: np.ndarray, m: int, seed: int, before: RbfNetwork | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the centres of at most m clusters of the rows, and the cluster of each row."""
    from sklearn.cluster import KMeans

    m = min(m, len(np.unique(x.round(6), axis=0)))
    start = before.centres if before is not None and before.centres.shape == (m, x.shape[1]) else "k-means++"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "fewer distinct rows than clusters": empty clusters are harmless here
        clustering = KMeans(m, init=start, n_init=1, random_state=seed).fit(x)
    return clustering.cluster_centers_, clustering.labels_


@dataclass(frozen=True, slots=True)
class MixedBayes:
    """Naive Bayes P(class | codes, values) with Laplace-smoothed frequencies and Gaussians; Wu et al. 2019, eqs. 6-9.

    scikit-learn's CategoricalNB and GaussianNB fit the model. This class evaluates the model in one vectorised step,
    because scikit-learn's evaluation needs a Python loop over classes for each job.
    """

    log_prior: np.ndarray
    log_frequency: tuple[np.ndarray, ...]
    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def fit(
        cls, codes: np.ndarray, values: np.ndarray, label: np.ndarray, sizes: tuple[int, ...], smoothing: float = 1e-3
    ) -> MixedBayes:
        """Fit to codes (rows, discrete), values (rows, continuous) in [0, 1], labels (rows,) in 0..classes-1.

        `sizes` are the numbers of categories; a category that did not occur in training has the code after the last and
        the frequency that Laplace smoothing gives to a count of 0. `smoothing` times the largest variance is added to
        every variance.
        """
        from sklearn.naive_bayes import CategoricalNB, GaussianNB

        classes, counts = np.unique(label, return_counts=True)
        frequency: tuple[np.ndarray, ...] = ()
        if codes.shape[1]:
            table = CategoricalNB(alpha=1.0, min_categories=[size + 1 for size in sizes]).fit(codes, label)
            frequency = tuple(table.feature_log_prob_)
        mean, variance = np.zeros((len(classes), 0)), np.ones((len(classes), 0))
        if values.shape[1]:
            bells = GaussianNB(var_smoothing=smoothing).fit(values, label)
            # the minimum of the variances matters if all features are constant, so that every variance is 0
            mean, variance = bells.theta_, np.maximum(bells.var_, 1e-9)
        return cls(np.log(counts / counts.sum()), frequency, mean, variance)

    def predict(self, row: np.ndarray) -> np.ndarray:
        """Return P(class | row), (classes,), for one row of continuous features, by a model without discrete ones."""
        return np.asarray(self.probabilities(np.zeros((1, 0), dtype=int), row[None, :])[0])

    def probabilities(self, codes: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return P(class | row), (rows, classes), with rows that sum to 1."""
        joint = np.repeat(self.log_prior[None, :], len(values), axis=0)
        for column, table in enumerate(self.log_frequency):
            joint += table[:, codes[:, column]].T
        if self.mean.shape[1]:
            away = (values[:, None, :] - self.mean[None]) ** 2 / self.variance[None]
            joint -= 0.5 * (away.sum(axis=2) + np.log(2.0 * np.pi * self.variance).sum(axis=1)[None, :])
        joint -= joint.max(axis=1, keepdims=True)
        odds = np.exp(joint)
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class PackedForest:
    """The nodes of all trees of a forest in one array; a leaf is its own child, so all trees take the same steps.

    scikit-learn's `predict` spends milliseconds per call on checks and threads, and about one more millisecond on
    calling each tree; this class predicts a row in about 0.1 ms for 100 trees.
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    children: np.ndarray
    value: np.ndarray
    depth: int

    @classmethod
    def of(cls, forest: Any) -> PackedForest:
        """Convert a RandomForestRegressor or RandomForestClassifier. O(nodes)."""
        trees = [estimator.tree_ for estimator in forest.estimators_]
        sizes = [tree.node_count for tree in trees]
        roots = np.cumsum([0, *sizes[:-1]])
        own = np.arange(sum(sizes))
        shift = np.repeat(roots, sizes)
        left = np.concatenate([tree.children_left for tree in trees])
        right = np.concatenate([tree.children_right for tree in trees])
        is_leaf = left < 0
        children = np.stack([np.where(is_leaf, own, right + shift), np.where(is_leaf, own, left + shift)])
        feature = np.where(is_leaf, 0, np.concatenate([tree.feature for tree in trees]))
        threshold = np.concatenate([tree.threshold for tree in trees])
        value = np.concatenate([tree.value[:, 0, :] for tree in trees])
        return cls(roots, feature, threshold, children, value, max(tree.max_depth for tree in trees))

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Return the mean of the trees for one row (features,): (1,) for a regressor, (classes,) for a classifier."""
        row = x.astype(np.float32)  # scikit-learn also compares features and thresholds in float32
        node = self.roots
        for _ in range(self.depth):
            goes_left = row[self.feature[node]] <= self.threshold[node]
            node = self.children[goes_left.view(np.int8), node]
        return np.asarray(self.value[node].mean(axis=0))


Kind = Literal["forest", "svr", "bayesian_ridge", "boosted"]
TREES = 100
BOOSTS = 200


class Regressor(NamedTuple):
    """A fitted regression that predicts log10 seconds from rows of features."""

    kind: Kind
    model: Any
    packed: PackedForest | None = None

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Predict many rows at once; the result is (rows,)."""
        return np.asarray(self.model.predict(x), dtype=float)

    def predict_row(self, x: np.ndarray) -> float:
        """Predict one row with the same result as `predict`, but without scikit-learn's checks in each call."""
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
    """Fit a regressor to rows (rows, features) with log10 run times (rows,); `before` is a fitted regressor for a warm
    start.

    The regressor `before` must have been fitted with the same encoding. With a warm start, a forest keeps the younger
    half of its trees and grows the other half on the present rows. Boosting continues with half the usual number of new
    trees, and starts again if the model has more than twice the usual number. Other models ignore the warm start.
    Settings are the libraries' defaults, except for the support vector machine's epsilon: on a log10 scale, the default
    of 0.1 is a quarter of the run time, while the value in use, 0.01, is 2 %.
    """
    if kind == "forest":
        from sklearn.ensemble import RandomForestRegressor

        trees, own_seed = (TREES, seed) if before is None else (TREES // 2, seed + len(y))
        forest = RandomForestRegressor(n_estimators=trees, random_state=own_seed, n_jobs=1).fit(x, y)
        if before is not None:
            forest.estimators_ = [*before.model.estimators_[TREES // 2 :], *forest.estimators_]
            forest.n_estimators = TREES
        return Regressor(kind, forest, PackedForest.of(forest))
    if kind == "svr":
        from sklearn.svm import SVR

        # gamma is scikit-learn's setting "scale", computed in this function because the fast method for one row needs
        # the number
        gamma = 1.0 / (x.shape[1] * x.var()) if x.var() > 0 else 1.0
        return Regressor(kind, SVR(C=1.0, gamma=gamma, epsilon=0.01).fit(x, y))
    if kind == "bayesian_ridge":
        from sklearn.linear_model import BayesianRidge

        return Regressor(kind, BayesianRidge().fit(x, y))
    import lightgbm

    settings = {"objective": "l2", "seed": seed, "num_threads": 1, "verbosity": -1, "deterministic": True}
    data = lightgbm.Dataset(x, y, params={"verbosity": -1})
    init = None if before is None or before.model.num_trees() > 2 * BOOSTS else before.model
    rounds = BOOSTS if init is None else BOOSTS // 2
    return Regressor(kind, lightgbm.train(settings, data, num_boost_round=rounds, init_model=init))
