"""Tests the measures of waits against values computed by hand."""

from statistics import NormalDist

import numpy as np
import pytest

from batchcast.metrics.wait import crps, error_by_range, good, rounded, score_waits

HOUR = 3600.0


def test_a_hand_worked_score():
    wait = np.array([0.0, 1800.0, 2 * HOUR, 5 * HOUR, np.nan])
    point = np.array([10.0, 900.0, HOUR, 5 * HOUR, 1.0])
    marked = np.array([True, False, True, False, True])
    score = score_waits(wait, np.full(5, 100.0), point, np.full(5, HOUR), marked, point)
    assert score["jobs"] == 4
    assert (score["quick_share"], score["quick_identified"], score["quick_bounded"]) == (0.5, 0.5, 1.0)
    assert (score["misguided_share"], score["misguided_under_4h"]) == (0.25, 1.0)
    assert score["bound_coverage"] == 0.5
    assert score["mean_abs_error_s"] == pytest.approx((10 + 900 + 3600) / 4)
    assert score["normalised_rms"] == pytest.approx(np.sqrt((100 + 0.25 + 0.25) / 4))
    assert (score["within_x2"], score["within_x3"]) == (0.75, 0.75)


def test_rounding_goes_up_to_the_interval_of_the_range():
    waits = np.array([37 * 60.0, HOUR, 2.2 * HOUR, 5.1 * HOUR, 7 * HOUR, 13 * HOUR, 25 * HOUR, 49 * HOUR])
    assert (rounded(waits) / HOUR).tolist() == [0.75, 1.0, 2.5, 6.0, 9.0, 18.0, 36.0, 72.0]


def test_good_by_range_or_by_share_of_the_response():
    wait, run = np.array([60.0, 2 * HOUR, 2 * HOUR]), np.array([0.0, 0.0, 100 * HOUR])
    assert good(np.array([3000.0, 4 * HOUR, 4 * HOUR]), wait, run).tolist() == [True, False, True]


def test_ranges():
    wait, point = np.array([60.0, 2 * HOUR]), np.array([2 * HOUR, 2 * HOUR + 60])
    assert error_by_range(wait, point)[:2] == [2 * HOUR - 60, 60.0]


def normal_crps(actual: np.ndarray) -> np.ndarray:
    """Return the CRPS of a standard normal distribution (Gneiting & Raftery 2007, eq. 5)."""
    normal = NormalDist()
    return np.array([z * (2 * normal.cdf(z) - 1) + 2 * normal.pdf(z) - 1 / np.sqrt(np.pi) for z in actual.tolist()])


@pytest.mark.parametrize(("levels", "tolerance"), [
    (tuple(np.arange(1, 1000) / 1000), 0.002),
    ((0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95), 0.05),  # the levels of `forecast`, unevenly spaced
])  # fmt: skip
def test_the_crps_of_quantiles_is_the_crps_of_their_distribution(levels: tuple[float, ...], tolerance: float) -> None:
    actual = np.linspace(-3, 3, 61)
    quantiles = np.tile([NormalDist().inv_cdf(level) for level in levels], (len(actual), 1))
    np.testing.assert_allclose(crps(actual, levels, quantiles), normal_crps(actual), atol=tolerance)
    # an exponential distribution: y + 2 exp(-y) - 3 / 2
    actual = np.linspace(0, 3, 31)
    quantiles = np.tile([-np.log1p(-level) for level in levels], (len(actual), 1))
    np.testing.assert_allclose(
        crps(actual, levels, quantiles), actual + 2 * np.exp(-actual) - 1.5, atol=1.5 * tolerance
    )


def test_the_crps_of_one_point_is_its_absolute_error() -> None:
    np.testing.assert_allclose(crps(np.array([3.0, -1.0]), (0.5,), np.array([[1.0], [1.0]])), [2.0, 2.0])
