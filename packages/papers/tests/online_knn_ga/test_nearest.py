"""Tests regressions over two to four neighbors against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from batchcast_papers.online_knn_ga.nearest import Linear


def exact_of_two(table: np.ndarray, run: np.ndarray, query: np.ndarray) -> float:
    """Return the smallest-norm least squares solution through two points, along their difference, in rational
    numbers."""
    a, b, q = ([Fraction(v) for v in row] for row in (*table.tolist(), query.tolist()))
    low, high = (Fraction(v) for v in run.tolist())
    way = [y - x for x, y in zip(a, b)]
    along = sum(w * (v - x) for w, v, x in zip(way, q, a)) / sum(w * w for w in way)
    return float(low + (high - low) * along)


@pytest.mark.parametrize("seed", range(60))
def test_two_neighbours_span_one_direction(seed: int) -> None:
    """Centering leaves a rounding error beside that direction, which must not count as a second direction."""
    rng = np.random.default_rng(seed)
    hours = 2 * np.pi * rng.random(3)
    features = np.column_stack([rng.standard_normal((3, 2)) * 1e-2, np.sin(hours), np.cos(hours)])
    table, query, run = features[:2], features[2], np.array([474.0, 94.0])
    assert Linear(table, run)(query[None, :])[0] == pytest.approx(exact_of_two(table, run, query), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("count", [3, 4])
def test_few_neighbours_of_a_line_give_that_line(count: int) -> None:
    """The points lie on one line through the features, so the exact solution is that line."""
    rng = np.random.default_rng(count)
    for _ in range(40):
        start, way = rng.random(6), rng.random(6)
        steps = rng.random(count)
        table, run = start + steps[:, None] * way, 100.0 + 1000.0 * steps
        aside = rng.random(6)
        aside -= way * (aside @ way) / (way @ way)
        query = start + 0.5 * way + aside
        assert Linear(table, run)(query[None, :])[0] == pytest.approx(600.0, rel=1e-6)
