# SPDX-License-Identifier: Apache-2.0
"""Naive Bayes over discrete and continuous features at once: scikit-learn's two, multiplied."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class MixedBayes:
    """P(class | codes, values) with Laplace-smoothed frequencies and Gaussians; Wu et al. 2019, eqs. 6-9.

    Fitted by scikit-learn's CategoricalNB and GaussianNB; asked here in one vectorised step, since theirs takes a
    Python loop over classes for every job.
    """

    log_prior: np.ndarray
    log_frequency: tuple[np.ndarray, ...]
    mean: np.ndarray
    variance: np.ndarray

    @classmethod
    def fit(
        cls, codes: np.ndarray, values: np.ndarray, label: np.ndarray, sizes: tuple[int, ...], smoothing: float = 1e-3
    ) -> MixedBayes:
        """From codes (rows, discrete), values (rows, continuous) in [0, 1], labels (rows,) in 0..classes-1.

        `sizes` are the numbers of categories; a category never seen has the code after the last and the frequency
        that Laplace gives to a count of 0. `smoothing` times the largest variance is added to every variance.
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
            # all features constant: no variance to take a share of, and nothing to learn from them either
            mean, variance = bells.theta_, np.maximum(bells.var_, 1e-9)
        return cls(np.log(counts / counts.sum()), frequency, mean, variance)

    def probabilities(self, codes: np.ndarray, values: np.ndarray) -> np.ndarray:
        """P(class | row), (rows, classes), rows adding up to 1."""
        joint = np.repeat(self.log_prior[None, :], len(values), axis=0)
        for column, table in enumerate(self.log_frequency):
            joint += table[:, codes[:, column]].T
        if self.mean.shape[1]:
            away = (values[:, None, :] - self.mean[None]) ** 2 / self.variance[None]
            joint -= 0.5 * (away.sum(axis=2) + np.log(2.0 * np.pi * self.variance).sum(axis=1)[None, :])
        joint -= joint.max(axis=1, keepdims=True)
        odds = np.exp(joint)
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))
