"""Tests the accuracy figures against arithmetic done by hand and by loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.metrics.accuracy import SIZE_CLASSES, accuracy, relative_accuracy, size_class

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
