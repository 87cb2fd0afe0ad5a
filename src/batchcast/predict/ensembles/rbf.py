# SPDX-License-Identifier: Apache-2.0
"""A network of radial basis functions: k-means centres, Gaussian basis, weights by regularised least squares."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FLOORS = (2.0, 1.0, 0.5, 0.0)
RIDGES = (1.0, 0.1, 0.01, 0.001)
FEWEST = 20


@dataclass(frozen=True, slots=True)
class RbfNetwork:
    """f(x) = b + sum_p w_p exp(-||x - mu_p||^2 / (2 delta_p^2)); Wu et al. 2019, eqs. 11-15.

    Departures, since the paper's normal matrix is near-singular where Gaussians overlap: a bias column, a floor under
    each spread, and ridge-regularised least squares in place of the bare pseudo-inverse. Neither is printed, so both
    are found from the rows alone, see `settled`.
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
        """From rows (rows, features) in time order and targets (rows,); m centres, fewer where there are fewer rows.

        The spread of a centre is the root mean square distance of its rows, but at least `floor` times the distance to
        the nearest other centre. `before` starts the clustering from its centres. O(rows m) a round of k-means,
        O(rows m^2) for the weights; twice and 16 times that where `ridge` or `floor` is left to `settled`.
        """
        if ridge is None or floor is None:
            ridge, floor = settled(
                x, y, m, RIDGES if ridge is None else (ridge,), FLOORS if floor is None else (floor,), seed, before
            )
        centres, label = _cluster(x, m, seed, before)
        spreads = _spreads(x, centres, label, floor)
        weights, bias = _weights(basis(x, centres, spreads), y, ridge)
        return cls(centres, spreads, weights, bias)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """f at rows (rows, features) -> (rows,)."""
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
    """The (ridge, floor) whose network from the first three quarters of the rows errs least on the last quarter.

    Rows are in time order, so the choice looks ahead as a forecast does and sees nothing but what teaches. Least mean
    absolute error in log10; ties to the smoother one, which comes first. Fewer than 20 rows: ridge 0.1, floor 1.

    >>> x = np.arange(40.0)[:, None]
    >>> settled(x, np.zeros(40), 4, RIDGES, FLOORS, 0, None)
    (1.0, 2.0)
    """
    if len(x) < FEWEST:
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
    """Root mean square distance of each centre's rows, at least `floor` times that to the nearest centre: (m,)."""
    squares = ((x - centres[label]) ** 2).sum(axis=1)
    counts = np.maximum(np.bincount(label, minlength=len(centres)), 1)
    spreads = np.sqrt(np.bincount(label, squares, minlength=len(centres)) / counts)
    return np.maximum(spreads, np.maximum(floor * _to_nearest(centres), 1e-3))


def _weights(phi: np.ndarray, y: np.ndarray, ridge: float) -> tuple[np.ndarray, float]:
    """Least squares with a ridge on the weights (m,) and none on the bias."""
    middle, level = phi.mean(axis=0), float(y.mean())
    centred = phi - middle
    normal = centred.T @ centred
    normal[np.diag_indices_from(normal)] += ridge
    weights = np.linalg.solve(normal, centred.T @ (y - level))
    return weights, level - float(middle @ weights)


def basis(x: np.ndarray, centres: np.ndarray, spreads: np.ndarray) -> np.ndarray:
    """phi_p(x) for rows (rows, features): (rows, m).

    >>> basis(np.array([[0.0], [1.0]]), np.array([[0.0]]), np.array([1.0])).round(3).tolist()
    [[1.0], [0.607]]
    """
    # sums of squares expanded: no (rows, m, features) array
    squares = (x**2).sum(axis=1)[:, None] - 2.0 * x @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.exp(-np.maximum(squares, 0.0) / (2.0 * spreads**2)))


def _cluster(x: np.ndarray, m: int, seed: int, before: RbfNetwork | None) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.cluster import KMeans

    m = min(m, len(np.unique(x.round(6), axis=0)))
    start = before.centres if before is not None and before.centres.shape == (m, x.shape[1]) else "k-means++"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "fewer distinct rows than clusters": empty ones do no harm here
        clustering = KMeans(m, init=start, n_init=1, random_state=seed).fit(x)
    return clustering.cluster_centers_, clustering.labels_


def _to_nearest(centres: np.ndarray) -> np.ndarray:
    """Distance of each centre to the nearest other one; 1 where it is alone."""
    if len(centres) < 2:
        return np.ones(len(centres))
    squares = ((centres[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    return np.asarray(np.sqrt(squares.min(axis=1)))
