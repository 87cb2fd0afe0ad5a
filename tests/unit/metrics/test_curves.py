"""Tests that a page's short curves are exact at their points, and short."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchcast.metrics.curves import busy_share, cdf

VALUES = st.lists(st.floats(0, 1e6), min_size=1, max_size=80)


@given(VALUES, st.integers(3, 20))
def test_every_point_of_a_cdf_is_exact(values: list[float], points: int) -> None:
    x, share = cdf(np.array(values), points)
    assert len(x) <= points
    assert x[-1] == max(values)
    assert share[-1] == 1
    for at, part in zip(x, share):
        assert abs(part - sum(v <= at for v in values) / len(values)) < 1e-12


def test_curves_of_nothing_are_empty() -> None:
    assert len(cdf(np.array([np.nan]))[0]) == 0


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(1, 5)), max_size=12))
def test_busy_share_against_seconds_counted_one_by_one(jobs: list[tuple[int, int, int]]) -> None:
    edges = np.array([0, 7, 20, 70])
    start = np.array([s for s, _, _ in jobs], float)
    end = start + np.array([r for _, r, _ in jobs], float)
    procs = np.array([p for _, _, p in jobs], float)
    per_second = [sum(p for s, r, p in jobs if s <= t < s + r) for t in range(70)]
    expected = [sum(per_second[a:b]) / ((b - a) * 10) for a, b in itertools.pairwise(edges)]
    assert np.allclose(busy_share(start, end, procs, edges.astype(float), 10.0), expected)
