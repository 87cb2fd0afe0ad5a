"""Tests chains of moves, and `exact`, which uses them, against all chains on random matrices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive import grid as naive

from batchcast.broker.model import Batch, makespan
from batchcast_papers.grid.assignment import (
    BARRIER,
    DEEPEST,
    Assignment,
    Problem,
    Trail,
    best_chain,
    chained,
    loads,
    priced,
    settle,
    tightened,
)
from batchcast_papers.grid.files import draw_times
from batchcast_papers.grid.heuristics.exact import Exact
from batchcast_papers.grid.heuristics.search import Search

KINDS = [f"{kind}_{ranges}" for kind in "csi" for ranges in ("hihi", "hilo", "lohi", "lolo")]
FEW = ("c_hilo", "i_lohi", "s_hihi", "s_lolo")  # four seconds each


@given(st.integers(2, 3), st.integers(2, 5), st.integers(0, 10**6))
def test_the_best_chain_is_the_best_of_all_chains(m, n, seed):
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 30, (n, m)).astype(float)
    price = rng.uniform(0.5, 1.5, m) * 1e-3  # prices so low that no overload during a chain exceeds the barrier
    problem = Problem.of(times, np.zeros(m), price, m)
    standing, trail = Assignment.of(problem, rng.integers(0, m, n)), Trail.of(problem, np.inf)
    first = int(standing.load.argmax())
    cap = float(rng.uniform(0.4, 1.1) * standing.load.max())
    every = list(naive.chains(times, price, standing.where.tolist(), first, cap, BARRIER * cap / n, DEEPEST))
    was = standing.where.copy()
    length, _ = best_chain(problem, standing, trail, first, cap, np.inf)
    assert standing.where.tolist() == was.tolist()
    assert bool(length) == bool(every)
    if every:
        best = min(dear for dear, _ in every)
        was[trail.best_job[:length]] = trail.best_target[:length]
        dear = float((price * (loads(times, problem.free, was) - standing.load)).sum())
        assert dear == pytest.approx(best, abs=1e-12)
        assert any(end == was.tolist() for _, end in every)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_descents_and_kicks_by_chains_never_lose_the_best(kind):
    times = draw_times(np.random.default_rng(5), 256, 16, kind, whole=True)
    bound, price = priced(times, np.zeros(16), 300)
    problem = Problem.of(times, np.zeros(16), price, 4)
    standing = Assignment.of(problem, problem.candidates[:, 0])
    settle(problem, standing)
    trail, before = Trail.of(problem, bound), float(standing.load.max())
    tightened(problem, standing, trail, np.inf, 10**7)
    top = float(loads(times, problem.free, standing.where).max())
    assert top <= before
    best = standing.where.copy()
    rounds = chained(problem, standing, trail, best, 30, 0.0005, bound, 10**7, np.random.default_rng(1))
    after = float(loads(times, problem.free, best).max())
    assert bound <= after <= top
    assert after <= standing.load.max() <= 1.0005 * top * (1 + 1e-9)
    assert rounds == 30 or after <= bound
    on = [sorted(standing.member[r, : standing.job_count[r]].tolist()) for r in range(16)]
    assert on == [np.flatnonzero(standing.where == r).tolist() for r in range(16)]


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=pytest.mark.long if k in FEW else pytest.mark.slow) for k in KINDS]
)
def test_exact_is_never_worse_than_search_and_ends_at_its_box(kind):
    """A work box that counts how often it is read, so that the test sees how little work follows after the box is used
    up."""
    batch = Batch.of_times(draw_times(np.random.default_rng(9), 1024, 32, kind))
    begun = Search(seed=1, kicks=20)
    by_search = makespan(batch, begun.assign(batch))
    exact = Exact(seconds=2, kicks=10**9, search_kicks=20)
    looks = 0

    def left() -> float:
        nonlocal looks
        looks += 1
        return 2.0 if looks <= 40 else 0.0  # the search begins and ends within these limits

    exact.left = left
    plan, bound = exact.solve(batch)
    assert bound <= makespan(batch, plan) <= by_search
    assert looks < 60
    assert sorted(plan.order) == list(range(1024))


@pytest.mark.long
def test_chains_come_nearer_than_search_where_resources_share_few_jobs():
    """Inconsistent times: any two resources share almost no jobs that are cheap on both, so few exchanges exist."""
    batch = Batch.of_times(draw_times(np.random.default_rng(7), 1024, 32, "i_hihi"))
    by_search = makespan(batch, Search(kicks=100).assign(batch))
    exact = Exact(seconds=4, kicks=100, search_kicks=100)
    plan, bound = exact.solve(batch)
    assert makespan(batch, plan) < by_search
    assert makespan(batch, plan) <= 1.01 * bound
