"""Tests bounds that a solver proves against all mappings, and that they lie above the relaxation's bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchcast.broker.model import Batch, makespan
from batchcast_papers.grid.assignment import Problem, loads, priced
from batchcast_papers.grid.files import draw_times
from batchcast_papers.grid.heuristics.exact import Exact, below, branch_and_bound, raised
from batchcast_papers.grid.heuristics.search import Search


def tried(times: np.ndarray, free: np.ndarray) -> float:
    """Return the smallest makespan by trying every mapping."""
    n, m = times.shape
    return float(min(loads(times, free, np.array(where)).max() for where in itertools.product(range(m), repeat=n)))


def least_of_three(times: np.ndarray) -> float:
    """Return the smallest makespan on three resources with integer times, by the smallest third load for each pair of
    other loads."""
    size = int(times.min(axis=1).sum()) + 1  # no load needs to exceed the sum of all jobs' smallest times
    third = np.full((size, size), np.inf)
    third[0, 0] = 0.0
    for a, b, c in times.astype(int):
        after = third + c
        after[a:] = np.minimum(after[a:], third[: max(size - a, 0)])
        after[:, b:] = np.minimum(after[:, b:], third[:, : max(size - b, 0)])
        third = after
    loads_one, loads_two = np.indices(third.shape)
    return float(np.maximum(np.maximum(loads_one, loads_two), third).min())


def drawn(n: int, m: int, seed: int) -> tuple[Problem, float]:
    """Return a problem with uneven times and resources that become free at different times, and the relaxation's
    bound."""
    rng = np.random.default_rng(seed)
    times, free = rng.uniform(1, 9, (n, m)) * rng.uniform(1, 30, (n, 1)), rng.uniform(0, 5, m)
    bound, price = priced(times, free, 300)
    return Problem.of(times, free, price, m), bound


@settings(max_examples=30)
@given(st.integers(3, 7), st.integers(2, 3), st.integers(0, 10**6), st.floats(1.0, 1.5))
def test_a_raised_bound_is_no_higher_than_what_trying_everything_finds(n, m, seed, above):
    problem, bound = drawn(n, m, seed)
    best = tried(problem.times, problem.free)
    *_, (proved, met) = raised(problem, bound, best * above, lambda: 60.0)
    assert bound <= proved <= best
    if len(met):
        assert best <= loads(problem.times, problem.free, met).max() <= best * above * (1 + 1e-6)
    else:
        # the last refuted cap; caps grow by up to a seventh per step
        assert proved >= bound + (best - bound) / 1.16 - 0.001 * best


@settings(max_examples=15)
@given(st.integers(8, 30), st.integers(0, 10**6), st.sampled_from([1.0, 1.02, 1.1]))
def test_nothing_that_is_there_is_refuted_among_more_jobs_on_three_resources(n, seed, above):
    rng = np.random.default_rng(seed)
    times = np.ceil(rng.uniform(1, 12, (n, 3)) * rng.uniform(0.2, 1, (n, 1)) * rng.choice([1, 3], (n, 1)))
    best = least_of_three(times)
    bound, price = priced(times, np.zeros(3), 300)
    *_, (proved, met) = raised(Problem.of(times, np.zeros(3), price, 3), bound, best * above, lambda: 60.0)
    assert bound <= proved <= best
    assert len(met) == 0 or best <= loads(times, np.zeros(3), met).max() <= best * above * (1 + 1e-6)


@settings(max_examples=30)
@given(st.integers(3, 6), st.integers(2, 3), st.integers(0, 10**6), st.floats(0.9, 1.2))
def test_what_is_refuted_is_not_there_and_what_is_met_is(n, m, seed, factor):
    problem, _ = drawn(n, m, seed)
    best = tried(problem.times, problem.free)
    refuted, where = below(problem, problem.times, problem.times > 0, best * factor, lambda: 60.0)
    assert refuted == (factor < 1.0 - 1e-6) or abs(factor - 1.0) < 1e-5
    assert len(where) == 0 or loads(problem.times, problem.free, where).max() <= best * factor * (1 + 1e-6)


def test_a_cap_that_a_planted_mapping_meets_is_never_refuted():
    """Each resource's times are scaled so that a mapping with small extra costs fills all resources equally."""
    rng = np.random.default_rng(5)
    times = draw_times(rng, 128, 8, "i_hihi")
    price = priced(times, np.zeros(8), 500)[1]
    dear = price * times
    where, second = dear.argmin(axis=1), np.argsort(dear, axis=1)[:, 1]
    extra = np.take_along_axis(dear, second[:, None], axis=1)[:, 0] - dear.min(axis=1)
    away = np.argsort(extra)[:20:2]
    where[away] = second[away]
    times *= 1e6 / loads(times, np.zeros(8), where)
    bound, price = priced(times, np.zeros(8), 1000)
    *_, (proved, met) = raised(Problem.of(times, np.zeros(8), price, 4), bound, 1.1e6, lambda: 5.0)
    assert bound <= proved <= 1e6
    assert len(met) == 0 or loads(times, np.zeros(8), met).max() < 1.1e6


@pytest.mark.long
def test_where_jobs_differ_much_the_bound_rises_above_the_relaxation():
    """With inconsistent times of a large range the relaxation's bound is loose, and `exact` reports that."""
    batch = Batch.of_times(draw_times(np.random.default_rng(7), 256, 16, "i_hihi"))
    plan, relaxed = Search(kicks=50).solve(batch)
    exact, proved = Exact(seconds=6, kicks=50, search_kicks=50, columns=2).solve(batch)
    assert relaxed * 1.001 < proved <= makespan(batch, exact) <= makespan(batch, plan)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_without_time_nothing_is_refuted_and_nothing_solved(seconds):
    problem, bound = drawn(12, 3, 1)
    assert [proved for proved, _ in raised(problem, bound, 2 * bound, lambda: seconds)] == [bound]
    assert below(problem, problem.times, problem.times > 0, bound / 2, lambda: seconds)[0] is False
    assert branch_and_bound(problem, problem.times > 0, 2 * bound, lambda: seconds)[1] == -np.inf
