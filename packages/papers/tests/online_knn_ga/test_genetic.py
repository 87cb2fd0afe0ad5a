"""Tests the genetic search against enumeration on problems where all settings can be tried."""

from itertools import product

import numpy as np
import pytest

from batchcast_papers.online_knn_ga.genetic import Gene, minimise


@pytest.mark.parametrize("seed", range(5))
def test_finds_the_enumerated_optimum_of_a_small_uneven_case(seed):
    genes = (Gene("bit"), Gene("bit"), Gene("bit"), Gene("int", 0, 15), Gene("int", 1, 6))
    table = np.random.default_rng(seed).random((2, 2, 2, 16, 7))

    def fitness(genome):
        a, b, c, n, k = genome.astype(int)
        return 0.05 * table[a, b, c, n, k] + 0.05 * abs(n - 9) + 0.1 * (a + b + c)

    best = min(fitness(np.array(genome, float)) for genome in product((0, 1), (0, 1), (0, 1), range(16), range(1, 7)))
    found = minimise(genes, fitness, np.random.default_rng(seed), population=50, generations=100)
    assert found.fitness == pytest.approx(best)
    assert fitness(found.best) == found.fitness


def test_keeps_to_ranges_never_forgets_the_best_and_counts_its_work():
    genes = (Gene("real", -1.0, 2.0), Gene("int", 3, 7), Gene("bit"))
    seen = []

    def fitness(genome):
        seen.append(genome.copy())
        return float(abs(genome[0] - 0.3) + genome[1] + genome[2])

    found = minimise(genes, fitness, np.random.default_rng(0), population=10, generations=20)
    tried = np.array(seen)
    assert tried[:, 0].min() >= -1
    assert tried[:, 0].max() <= 2
    assert set(tried[:, 1]) <= {3, 4, 5, 6, 7}
    assert set(tried[:, 2]) == {0, 1}
    assert found.evaluations == len(seen) <= 200
    assert found.fitness == min(fitness(g) for g in tried)


def test_a_warm_start_is_not_lost():
    genes = tuple(Gene("bit") for _ in range(12))
    start = np.ones((1, 12))
    found = minimise(
        genes, lambda g: float(12 - g.sum()), np.random.default_rng(0), population=6, generations=1, start=start
    )
    assert found.fitness == 0
