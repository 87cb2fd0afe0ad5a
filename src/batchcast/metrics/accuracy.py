# SPDX-License-Identifier: Apache-2.0
"""Measures of run-time predictions: errors in seconds, relative accuracy, and precision and recall for a time range.

The functions are pure and take arrays of predicted and actual seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .measure import Measure, mean, measured

SIZE_EDGES = (2.0, 5.0, 17.0, 65.0)
SIZE_CLASSES = ("1", "2-4", "5-16", "17-64", "65+")


def accuracy(predicted: np.ndarray, actual: np.ndarray) -> dict[str, float]:
    """Return the accuracy measures of one run-time predictor from predicted and actual seconds, shape (n,); jobs with a
    NaN are ignored.

    >>> accuracy(np.array([10.0, 30.0]), np.array([20.0, 30.0]))["mean_shortfall_s"]
    10.0
    """
    # `mae_s`, `median_ae_s`, `p95_ae_s`: mean, median and 95th percentile (linear interpolation) of abs(P - R). `apa`:
    # mean of `relative_accuracy`. `underestimate_rate`: fraction of pairs with P < R. `mean_shortfall_s`: mean of R - P
    # over pairs with P < R.
    predicted, actual = np.asarray(predicted, float), np.asarray(actual, float)
    known = ~(np.isnan(predicted) | np.isnan(actual))
    return measured(FORECAST, Errors(predicted[known], actual[known]))


@dataclass(frozen=True)
class Errors:
    """Predicted and actual values of jobs, arrays of shape (n,); input of the prediction measures in `FORECAST`."""

    predicted: np.ndarray
    actual: np.ndarray

    @property
    def jobs(self) -> int:
        """The number of jobs in the sample."""
        return len(self.predicted)

    @cached_property
    def size(self) -> np.ndarray:
        """The absolute error of each job."""
        return np.asarray(np.abs(self.predicted - self.actual))

    @cached_property
    def is_short(self) -> np.ndarray:
        """Whether each prediction was too low; NaN without a prediction."""
        return np.where(np.isnan(self.predicted), np.nan, self.predicted < self.actual)

    @property
    def shortfall(self) -> float:
        """The mean of actual - predicted over the jobs that ran longer than predicted; NaN without such jobs."""
        return mean((self.actual - self.predicted)[self.predicted < self.actual])


def relative_accuracy(predicted: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Compute min(P, R) / max(P, R) for each pair of predicted and actual values.

    The mean of the relative accuracies is a predictor's `apa`. With time limits in place of predictions, the mean is
    the accuracy of the time limits.

    >>> relative_accuracy(np.array([0.0, 5.0, 40.0]), np.array([0.0, 10.0, 10.0])).tolist()
    [1.0, 0.5, 0.25]
    """
    # A pair of zeros gives 1, because the prediction is exact.
    high = np.maximum(predicted, actual)
    return np.asarray(np.divide(np.minimum(predicted, actual), high, out=np.ones(np.shape(high)), where=high != 0))


FORECAST = (
    Measure("mae_s", "seconds", "mean error", lambda e: e.size, True,
            meaning="mean absolute error, |predicted - actual|"),
    Measure("median_ae_s", "seconds", "median error", lambda e: np.median(e.size),
            meaning="half of the predictions have at most this error"),
    Measure("apa", "ratio", "accuracy", lambda e: relative_accuracy(e.predicted, e.actual), True, True,
            meaning="mean of min(predicted, actual) / max(predicted, actual); 1 is perfect"),
    Measure("underestimate_rate", "share", "underestimates", lambda e: e.is_short, True, heading="too low",
            meaning="jobs that ran longer than predicted"),
    Measure("mean_shortfall_s", "seconds", "mean shortfall", lambda e: e.shortfall,
            meaning="by how much these jobs ran longer, on average", table="more"),
    Measure("p95_ae_s", "seconds", "95 % within", lambda e: np.percentile(e.size, 95),
            meaning="95th percentile of the absolute error", table="more"),
)  # fmt: skip
"""The measures of run-time predictions, from `Errors`."""
MAE, APA = FORECAST[0], FORECAST[2]


def size_class(procs: np.ndarray) -> np.ndarray:
    """Return the index into `SIZE_CLASSES` of each processor count, shape (n,); -1 for NaN.

    >>> [SIZE_CLASSES[k] for k in size_class(np.array([1.0, 4.0, 5.0, 64.0, 65.0]))]
    ['1', '2-4', '5-16', '17-64', '65+']
    """
    procs = np.asarray(procs, float)
    return np.where(np.isnan(procs), -1, np.searchsorted(SIZE_EDGES, procs, side="right"))


def size_class_of(procs: float) -> int:
    """Return the index into `SIZE_CLASSES` of one processor count; -1 for NaN.

    >>> size_class_of(1), size_class_of(5), size_class_of(1000), size_class_of(float("nan"))
    (0, 2, 4, -1)
    """
    return -1 if procs != procs else bisect_right(SIZE_EDGES, procs)
