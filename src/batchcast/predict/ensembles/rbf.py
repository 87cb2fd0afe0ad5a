"""A network of radial basis functions: k-means centres, Gaussian basis, weights by regularised least squares."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class RbfNetwork:
    """f(x) = b + sum_p w_p exp(-||x - mu_p||^2 / (2 delta_p^2)); Wu et al. 2019, eqs. 11-15.

    Departures, since the paper's normal matrix is near-singular where Gaussians overlap: a bias column, a floor under
    each spread, and ridge-regularised least squares in place of the bare pseudo-inverse.
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
        ridge: float = 0.1,
        seed: int = 0,
        before: RbfNetwork | None = None,
    ) -> RbfNetwork:
        """From rows (rows, features) and targets (rows,); m centres, fewer where there are fewer distinct rows.

        The spread of a centre is the root mean square distance of its rows, but at least the distance to the nearest
        other centre, so that neighbours overlap. `before` starts the clustering from its centres. O(rows m) a
        round of k-means, O(rows m^2) for the weights.
        """
        centres, label = _cluster(x, m, seed, before)
        squares = ((x - centres[label]) ** 2).sum(axis=1)
        counts = np.maximum(np.bincount(label, minlength=len(centres)), 1)
        spreads = np.sqrt(np.bincount(label, squares, minlength=len(centres)) / counts)
        spreads = np.maximum(spreads, np.maximum(_to_nearest(centres), 1e-3))
        phi = basis(x, centres, spreads)
        middle, level = phi.mean(axis=0), float(y.mean())
        centred = phi - middle
        normal = centred.T @ centred
        normal[np.diag_indices_from(normal)] += ridge
        weights = np.linalg.solve(normal, centred.T @ (y - level))
        return cls(centres, spreads, weights, level - float(middle @ weights))

    def predict(self, x: np.ndarray) -> np.ndarray:
        """f at rows (rows, features) -> (rows,)."""
        return basis(x, self.centres, self.spreads) @ self.weights + self.bias


def basis(x: np.ndarray, centres: np.ndarray, spreads: np.ndarray) -> np.ndarray:
    """phi_p(x) for rows (rows, features): (rows, m).

    >>> basis(np.array([[0.0], [1.0]]), np.array([[0.0]]), np.array([1.0])).round(3).tolist()
    [[1.0], [0.607]]
    """
    # sums of squares expanded: no (rows, m, features) array
    squares = (x**2).sum(axis=1)[:, None] - 2.0 * x @ centres.T + (centres**2).sum(axis=1)
    return np.exp(-np.maximum(squares, 0.0) / (2.0 * spreads**2))


def _cluster(x: np.ndarray, m: int, seed: int, before: RbfNetwork | None) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.cluster import KMeans

    m = min(m, len(np.unique(x.round(6), axis=0)))
    start = before.centres if before is not None and before.centres.shape == (m, x.shape[1]) else "k-means++"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "fewer distinct rows than clusters": empty ones do no harm here
        found = KMeans(m, init=start, n_init=1, random_state=seed).fit(x)
    return found.cluster_centers_, found.labels_


def _to_nearest(centres: np.ndarray) -> np.ndarray:
    """Distance of each centre to the nearest other one; 1 where it is alone."""
    if len(centres) < 2:
        return np.ones(len(centres))
    squares = ((centres[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    return np.sqrt(squares.min(axis=1))
