"""Tests the accuracy figures against arithmetic done by hand and by loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.metrics.accuracy import SIZE_CLASSES, accuracy, relative_accuracy, size_class
from batchcast.metrics.measure import coverage_by_level
from batchcast.metrics.schedule import ForecastTotals
from batchcast.metrics.wait import score_waits
from batchcast.service.answers.track_record import covered

SECONDS = st.one_of(st.just(float("nan")), st.integers(0, 10**6).map(float))


def test_figures_by_hand() -> None:
    figures = accuracy(np.array([100.0, 50.0, 10.0, 7.0]), np.array([50.0, 100.0, 10.0, np.nan]))
    assert figures["jobs"] == 3
    assert figures["mae_s"] == pytest.approx(100 / 3)
    assert figures["median_ae_s"] == 50
    assert figures["apa"] == pytest.approx((0.5 + 0.5 + 1) / 3)
    assert figures["underestimate_rate"] == pytest.approx(1 / 3)
    assert figures["mean_shortfall_s"] == 50


def test_a_prediction_equal_to_the_run_time_is_no_underestimate() -> None:
    figures = accuracy(np.array([5.0]), np.array([5.0]))
    assert figures["underestimate_rate"] == 0
    assert math.isnan(figures["mean_shortfall_s"])


def test_nothing_to_score_gives_no_number() -> None:
    figures = accuracy(np.array([np.nan]), np.array([3.0]))
    assert figures["jobs"] == 0
    assert all(math.isnan(v) for k, v in figures.items() if k != "jobs")


@given(st.lists(st.tuples(SECONDS, SECONDS), max_size=30))
def test_against_a_loop(pairs: list[tuple[float, float]]) -> None:
    figures = accuracy(np.array([p for p, _ in pairs]), np.array([r for _, r in pairs]))
    kept = [(p, r) for p, r in pairs if p == p and r == r]
    assert figures["jobs"] == len(kept)
    if kept:
        ratios = [1.0 if p == r == 0 else min(p, r) / max(p, r) for p, r in kept]
        assert figures["mae_s"] == pytest.approx(sum(abs(p - r) for p, r in kept) / len(kept))
        assert figures["apa"] == pytest.approx(sum(ratios) / len(kept))
        assert figures["underestimate_rate"] == pytest.approx(sum(p < r for p, r in kept) / len(kept))


def test_zero_over_zero_is_right() -> None:
    assert relative_accuracy(np.zeros(1), np.zeros(1)).tolist() == [1.0]


@pytest.mark.parametrize(
    ("procs", "name"), [(1, "1"), (2, "2-4"), (4, "2-4"), (5, "5-16"), (16, "5-16"), (17, "17-64"), (65, "65+")]
)
def test_size_class_borders(procs: int, name: str) -> None:
    assert SIZE_CLASSES[size_class(np.array([float(procs)]))[0]] == name


def test_unknown_size_has_no_class() -> None:
    assert size_class(np.array([np.nan])).tolist() == [-1]


def test_a_bound_just_below_the_run_time_covers_it_everywhere() -> None:
    """A bound of 3599.999999999998 s comes from a logarithm; the job ran exactly to its limit of one hour."""
    run, bound = np.array([3600.0, 3602.0]), np.array([3599.999999999998, 3599.999999999998])
    assert coverage_by_level(run, (0.9,), bound[:, None]) == {0.9: 0.5}
    totals = ForecastTotals()
    totals.add(bound, run, {0.9: bound})
    assert totals.figures()["coverage_90"] == 0.5
    waits = score_waits(run, run, bound, bound, np.ones(2, bool), bound)
    assert waits["bound_coverage"] == 0.5
    row = {"levels": "[0.9]", "quantiles_s": f"[{bound[0]}]", "point_s": float(bound[0]), "outcome_s": 3600.0}
    row |= {"grounds": "unstated", "basis": ""}
    assert covered(row, (0.9,)) == [True]
    assert covered(row | {"outcome_s": 3602.0}, (0.9,)) == [False]
