"""Tests the papers' measures by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchcast_papers.measures import ranges_matrix, rms_decrease, running_mean

HOUR = 3600.0
VALUES = st.lists(st.floats(0, 1e6), min_size=1, max_size=80)


@given(VALUES, st.integers(2, 20))
def test_every_point_of_a_running_mean_is_exact(values: list[float], points: int) -> None:
    count, mean = running_mean(np.array([float("nan"), *values]), points)
    assert len(count) <= points
    assert count[-1] == len(values)
    for k, m in zip(count, mean):
        assert abs(m - sum(values[:k]) / k) <= 1e-9 * max(values, default=1) + 1e-9


def test_a_running_mean_of_nothing_is_empty() -> None:
    assert len(running_mean(np.array([np.nan]))[0]) == 0


def test_ranges() -> None:
    wait, point = np.array([60.0, 2 * HOUR]), np.array([2 * HOUR, 2 * HOUR + 60])
    assert ranges_matrix(wait, point)[:2, :2].tolist() == [[0, 1], [0, 1]]
    assert rms_decrease(20.0, 100.0) == 0.8
