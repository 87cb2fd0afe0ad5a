"""Tests classes of run time and the error of the best predictions, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from batchcast_papers.measures import best_relative_error, precision_recall

PREDICTED = np.array([10.0, 20.0, 50.0, 70.0, 90.0])
ACTUAL = np.array([15.0, 40.0, 20.0, 10.0, 95.0])


def test_precision_and_recall():
    assert precision_recall(PREDICTED, ACTUAL, 0.0, 30.0) == (1 / 2, 1 / 3)
    assert precision_recall(PREDICTED, ACTUAL, 60.0) == (1 / 2, 1.0)


def test_nothing_predicted_or_nothing_there_is_unknown():
    acc, rec = precision_recall(PREDICTED, ACTUAL, 30.0, 45.0)
    assert math.isnan(acc)
    assert rec == 0.0
    assert math.isnan(precision_recall(PREDICTED, ACTUAL, 200.0)[1])


def test_the_edge_belongs_to_the_range_above():
    assert precision_recall(np.array([60.0]), np.array([60.0]), 60.0, 90.0) == (1.0, 1.0)


def test_the_worst_tenth_is_left_out_by_absolute_error():
    actual = np.full(10, 100.0)
    predicted = actual + np.arange(10.0)
    predicted[9] = 3000.0
    assert best_relative_error(predicted, actual) == pytest.approx(np.mean(np.arange(9.0)) / 100)


def test_only_what_is_predicted_under_an_hour_counts():
    assert best_relative_error(np.array([3599.0, 3600.0]), np.array([3599.0, 1.0])) == 0.0
    assert math.isnan(best_relative_error(np.array([3600.0]), np.array([1.0])))
