"""Tests that compiled rules equal an examination of every pair, and that the searches keep their guarantees."""

import csv
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive import grid as naive

from batchcast.broker.model import Batch, makespan, timed
from batchcast.errors import UsageError
from batchcast.predict.registry import make
from batchcast_papers.grid.assignment import Assignment, Problem, descend, loads, priced, settle
from batchcast_papers.grid.files import draw_times, read_matrix
from batchcast_papers.grid.heuristics.exact import Exact
from batchcast_papers.grid.heuristics.greedy import Sufferage
from batchcast_papers.grid.heuristics.search import Search


@st.composite
def cases(draw):
    """Integer times, so that equal times compare equal; some pairs do not fit, some deadlines are tight."""
    n, m = draw(st.integers(1, 9)), draw(st.integers(1, 5))
    cell = st.one_of(st.integers(1, 9).map(float), st.just(np.inf))
    times = np.array(draw(st.lists(st.lists(cell, min_size=m, max_size=m), min_size=n, max_size=n)))
    free = np.array(draw(st.lists(st.integers(0, 6), min_size=m, max_size=m)), dtype=float)
    due = st.one_of(st.integers(1, 30).map(float), st.just(np.inf))
    return Batch.of_times(times, free=free, deadline=np.array(draw(st.lists(due, min_size=n, max_size=n))))


def placed(plan):
    return [(i, int(plan.resource[i])) for i in plan.order.tolist()]


def never(batch):
    return np.full(len(batch.times), np.inf)


@given(cases(), st.sampled_from([0.0, 0.2, 0.5, 1.0]))
def test_emin_min_is_its_pseudo_code(batch, urgent):
    twin = naive.pairs(batch.times, batch.free, batch.deadline, "c", urgent * len(batch.free))
    assert placed(make("heuristic", f"emin_min:urgent={urgent}").assign(batch)) == twin


@given(cases(), st.sampled_from([0.0, 0.5]), st.data())
def test_by_preference_weighs_each_pair_as_its_description_says(batch, urgent, data):
    n, m = batch.times.shape
    price = np.array(data.draw(st.lists(st.integers(0, 4), min_size=m, max_size=m)), dtype=float)
    weight = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.25, 1.0, np.nan]), min_size=n, max_size=n)))
    known = np.where(np.isnan(weight), 0.5, weight)
    twin = naive.by_preference(batch.times, batch.free, batch.deadline, price, known, urgent * m, batch.now)
    heuristic = make("heuristic", f"by_preference:urgent={urgent},cost=0.5")
    assert placed(heuristic.assign(batch._replace(price=price, cost_weight=weight))) == twin


@given(cases(), st.sampled_from([0.0, 0.2, 0.5]))
def test_by_preference_is_emin_min_where_cost_has_no_weight_or_nothing_costs(batch, urgent):
    emin_min = placed(make("heuristic", f"emin_min:urgent={urgent}").assign(batch))
    price = np.arange(1.0, len(batch.free) + 1)
    weightless = make("heuristic", f"by_preference:cost=0,urgent={urgent}").assign(batch._replace(price=price))
    assert placed(weightless) == emin_min
    assert placed(make("heuristic", f"by_preference:cost=1,urgent={urgent}").assign(batch)) == emin_min


@given(cases(), st.sampled_from([0.0, 0.2, 0.5]))
def test_ebest_is_its_pseudo_code(batch, urgent):
    batch = batch._replace(deadline=np.minimum(batch.deadline, 40.0))
    twin = naive.pairs(batch.times, batch.free, batch.deadline, "slack", urgent * len(batch.free))
    assert placed(make("heuristic", f"ebest:urgent={urgent}").assign(batch)) == twin


@given(cases())
def test_min_min_is_emin_min_without_deadlines(batch):
    twin = naive.pairs(batch.times, batch.free, never(batch), "c", 0)
    assert placed(make("heuristic", "min_min").assign(batch)) == twin


@given(cases())
def test_max_min_and_sufferage_rescan_what_they_must(batch):
    for name, key in (("max_min", "largest"), ("sufferage", "sufferage")):
        twin = naive.by_key(batch.times, batch.free, never(batch), key, 0)
        assert placed(make("heuristic", name).assign(batch)) == twin


@given(cases(), st.sampled_from([0.0, 0.5]))
def test_esufferage_is_its_pseudo_code(batch, urgent):
    twin = naive.by_key(batch.times, batch.free, batch.deadline, "sufferage", urgent * len(batch.free))
    assert placed(make("heuristic", f"esufferage:urgent={urgent}").assign(batch)) == twin


@given(cases())
def test_the_deadline_search_finishes_no_fewer_jobs_than_emin_min(batch):
    start = make("heuristic", "emin_min:urgent=0").assign(batch)
    found = make("heuristic", "deadline_search").assign(batch)
    assert len(found.order) >= len(start.order)
    assert not (timed(batch, found)[1] > batch.deadline).any()


@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 10**6))
def test_exact_finds_what_trying_everything_finds(n, m, seed):
    times = np.random.default_rng(seed).integers(1, 20, (n, m)).astype(float)
    batch = Batch.of_times(times)
    plan, bound = Exact(seconds=5, kicks=100).solve(batch)
    best = naive.best_makespan(times)
    assert makespan(batch, plan) == pytest.approx(best, rel=2e-5)
    assert bound <= best * (1 + 1e-9)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("ranges", ["braun", "ali"])
@pytest.mark.parametrize(("n", "m"), [(512, 16), (1024, 32), pytest.param(4096, 128, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["c_lolo", "s_lohi", "s_lolo"])
def test_descent_ends_and_the_makespan_never_rises(kind, n, m, ranges, whole):
    times = draw_times(np.random.default_rng(n), n, m, kind, ranges=ranges, whole=whole)
    free = np.zeros(m)
    price = priced(times, free, 300)[1]
    problem = Problem.of(times, free, price, m // 4)
    standing = Assignment.of(problem, problem.candidates[:, 0])
    before, left, calls = loads(times, free, standing.where).max(), 0, 0
    while left == 0:
        _, left = descend(problem, standing, n * m, True)
        now = loads(times, free, standing.where).max()
        assert now <= before
        before, calls = now, calls + 1
        assert calls < 10_000
    assert standing.load.max() == pytest.approx(now, rel=1e-9)
    members = np.concatenate([standing.member[r, : standing.job_count[r]] for r in range(m)])
    assert sorted(members.tolist()) == list(range(n))


@given(st.integers(2, 4), st.integers(4, 14), st.integers(0, 10**6))
def test_after_a_deep_descent_no_exchange_of_two_against_two_helps(m, n, seed):
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 60, (n, m)).astype(float)
    price = priced(times, np.zeros(m), 300)[1]
    problem = Problem.of(times, np.zeros(m), price, m)
    standing = Assignment.of(problem, rng.integers(0, m, n))
    before = standing.load.max()
    top = settle(problem, standing)
    assert top <= before
    assert top == pytest.approx(loads(times, problem.free, standing.where).max())
    if standing.job_count.max() > 8:  # if a resource has more jobs, only the cheapest ones are paired
        return
    full = int(standing.load.argmax())
    for a in range(m):
        for b in range(m):
            if a == b:
                continue
            for left, right, dear in naive.exchanges(times, price, standing.where, a, b):
                both_below = max(left, right) < top - 1e-6
                assert not (both_below and (a == full or dear < -1e-6)), (a, b, left, right, dear)


@pytest.mark.long
def test_search_asks_its_box_inside_the_descent():
    """A work box that is used up at its first check ends every search at once, with a complete plan."""
    times = draw_times(np.random.default_rng(3), 4096, 128, "c_lolo", whole=True)
    search = Search(kicks=10**9)
    looks = iter(range(10**9))
    search.stop = lambda: next(looks) >= 3
    plan, bound = search.solve(Batch.of_times(times))
    assert next(looks) < 20
    assert len(plan.order) == 4096
    assert bound > 0


@pytest.mark.long
@given(st.integers(2, 3), st.integers(2, 6), st.integers(0, 10**6))
def test_a_whole_bound_is_no_higher_than_what_trying_everything_finds(m, n, seed):
    times = np.random.default_rng(seed).integers(1, 12, (n, m)).astype(float)
    best = min(loads(times, np.zeros(m), np.array(where)).max() for where in itertools.product(range(m), repeat=n))
    for method in (Search(kicks=50), Exact(seconds=1, kicks=20)):
        plan, bound = method.solve(Batch.of_times(times))
        assert bound == int(bound)
        assert bound <= best <= makespan(Batch.of_times(times), plan)


def test_search_of_many_jobs_takes_no_start_that_asks_no_clock(monkeypatch):
    """Sufferage examines all pairs of jobs: for 8192 x 64 it alone took three times the default box."""
    monkeypatch.setattr(Sufferage, "assign", lambda self, batch: pytest.fail("a start of quadratic cost"))
    times = draw_times(np.random.default_rng(4), 4096, 8, "i_lolo", whole=True)
    plan, bound = Search(kicks=2).solve(Batch.of_times(times))
    assert bound <= makespan(Batch.of_times(times), plan) <= 1.02 * bound


@pytest.mark.parametrize("kind", ["i_hihi", "s_lohi"])
def test_search_comes_within_two_percent_of_the_bound_on_drawn_matrices(kind):
    """The hardest kinds of matrix at 512 x 16, with a work box instead of the clock's limit."""
    batch = Batch.of_times(draw_times(np.random.default_rng(7), 512, 16, kind))
    plan, bound = Search(kicks=50).solve(batch)
    assert bound <= makespan(batch, plan) <= 1.02 * bound


def test_exact_is_never_worse_than_search_and_gives_up_with_a_reason():
    batch = Batch.of_times(draw_times(np.random.default_rng(2), 60, 6, "i_hihi"))
    plan, bound = Exact(seconds=2, kicks=300).solve(batch)
    assert bound <= makespan(batch, plan) <= makespan(batch, Search(kicks=300).assign(batch))
    with pytest.raises(UsageError, match="60,000 columns"):
        Exact().solve(Batch.of_times(np.ones((10_000, 8))))


def test_search_repeats_with_its_seed_and_its_bound_holds():
    batch = Batch.of_times(np.random.default_rng(5).uniform(1, 100, (60, 5)))
    one, bound = Search(seed=3, kicks=200).solve(batch)
    other = Search(seed=3, kicks=200).solve(batch)[0]
    assert one.resource.tolist() == other.resource.tolist()
    assert bound <= makespan(batch, one) <= makespan(batch, make("heuristic", "min_min").assign(batch))


@pytest.mark.shared
def test_the_twelve_public_matrices_to_the_digit(shared):
    folder = shared / "reference" / "braun"
    with open(folder / "values.tsv") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    assert len(rows) == 12
    for row in rows:
        batch = Batch.of_times(read_matrix(folder / f"{row['instance']}.0.etc.gz"))
        for name in ("mct", "min_min", "sufferage", "sufferage_m99", "max_min", "met", "olb"):
            found = makespan(batch, make("heuristic", name).assign(batch))
            assert round(found, 1) == float(row[name]), (row["instance"], name)


@pytest.mark.long
@pytest.mark.shared
def test_search_within_a_percent_of_the_relaxation(shared):
    folder = shared / "reference" / "braun"
    with open(folder / "values.tsv") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            batch = Batch.of_times(read_matrix(folder / f"{row['instance']}.0.etc.gz"))
            plan, bound = Search().solve(batch)
            lp = float(row["lp_lower_bound"])
            assert makespan(batch, plan) <= 1.01 * lp, row["instance"]
            assert bound == pytest.approx(lp, rel=2e-5), row["instance"]
            assert makespan(batch, plan) >= float(row["best_published"]) * (1 - 2e-3), row["instance"]
