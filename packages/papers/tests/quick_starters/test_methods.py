"""Tests the methods that the paper compares with against slow reference versions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive import waits as naive

from batchcast.events.event import Start, Submit
from batchcast.events.recorded import replay
from batchcast.events.state import SystemState
from batchcast.job import JobRequest
from batchcast.table import LogInfo, Trace
from batchcast_papers.quick_starters import ibl_kernel
from batchcast_papers.quick_starters.bounds import (
    Group,
    Learned,
    LogUniform,
    Qbets,
    binomial_rank,
    cluster_shapes,
    shortest_history,
)
from batchcast_papers.quick_starters.ibl import Ibl

NAN = float("nan")


def tell(method, waits, procs=1.0, start_row=0, total=64.0):
    """Return jobs that were submitted at 0 and started after these waits."""
    state = SystemState(total)
    for row in range(start_row, start_row + len(waits)):
        job = JobRequest(row, row, 0.0, procs, 600.0, NAN)
        state.apply(Submit(0.0, job))
        method.observe(Submit(0.0, job), state)
    for row, wait in sorted(enumerate(waits, start_row), key=lambda pair: pair[1]):
        job = JobRequest(row, row, 0.0, procs, 600.0, NAN)
        state.apply(Start(wait, job, wait))
        method.observe(Start(wait, job, wait), state)
    return state


@given(st.integers(1, 130), st.sampled_from([0.5, 0.75, 0.9, 0.95]), st.sampled_from([0.5, 0.8, 0.95]))
def test_binomial_bound(n, q, c):
    assert binomial_rank(n, q, c) == naive.binomial_rank(n, q, c)


@pytest.mark.parametrize("n", [500, 20_000])
def test_the_rank_of_a_long_history(n):
    from scipy.stats import binom

    for q, c in ((0.95, 0.95), (0.5, 0.8), (0.99, 0.9)):
        k = binomial_rank(n, q, c)
        assert binom.cdf(k - 2, n, q) < c <= binom.cdf(k - 1, n, q)


def test_the_shortest_history_that_supports_a_bound():
    for q, c in ((0.95, 0.95), (0.5, 0.95), (0.9, 0.8)):
        n = shortest_history(q, c)
        assert binomial_rank(n, q, c) <= n < binomial_rank(n - 1, q, c) + 1
        assert binomial_rank(n - 1, q, c) == n


def test_a_run_of_misses_cuts_the_history():
    method, group = Qbets(), Group()
    rng = np.random.default_rng(0)
    for wait in rng.permutation(300):
        method._learn(group, Learned(0, float(wait)), issued=1e9)
    for wait in (5000.0, 5100.0, 4900.0):
        method._learn(group, Learned(0, wait), issued=290.0)
    assert len(group.recent) == method.need == 59
    assert group.ordered == sorted(it.wait for it in group.recent)


def test_a_new_clustering_brings_no_history_back():
    """Jobs that a change point removed stay removed when the clusters are filled again."""
    method = Qbets()
    waits = [*np.random.default_rng(0).permutation(300).tolist(), 5000.0, 5100.0, 4900.0]
    for count, wait in enumerate(waits):
        number = method._shape(JobRequest(count, count, 0.0, 2.0 ** (count % 7), 60.0, float("nan")))
        it = Learned(number, float(wait))
        method.recent_coordinates.append(method.coordinates_of[number])
        method.learned.append(it)
        method._learn(method.groups[0], it, issued=1e9 if wait < 300 else 290.0)
    method.refit(6000.0)
    assert len(method.groups) > 1
    assert sum(len(group.recent) for group in method.groups) == 59


def test_qbets_bounds_most_waits_of_a_steady_queue():
    rng = np.random.default_rng(1)
    waits = np.round(rng.lognormal(5, 1, 3000))
    log = Trace.from_arrays(
        {"submit_time": np.arange(3000) * 1e4, "wait_time": waits, "run_time": [1.0] * 3000,
         "req_procs": [1.0] * 3000, "req_time": [60.0] * 3000}
    )  # fmt: skip
    told = replay(log, {"it": Qbets()}, total=64.0)["it"]
    held = (waits[500:] <= told.quantiles[500:, 0]).mean()
    assert 0.94 < held < 0.995


def test_shapes_apart_become_clusters():
    rng = np.random.default_rng(2)
    small, big = rng.normal((0, 5), 0.3, (200, 2)), rng.normal((6, 15), 0.3, (200, 2))
    assert len(cluster_shapes(np.concatenate([small, big]), 2)) == 2
    assert len(cluster_shapes(np.ones((50, 2)), 5)) == 1


def test_log_uniform_counts_the_stuck_as_longer():
    method = LogUniform()
    state = tell(method, [float(w) for w in range(1, 200)])
    asked = JobRequest(999, 999, 200.0, 1.0, 600.0, NAN)
    before = method.predict(asked, state).quantiles[0]
    for row in range(300, 350):
        stuck = JobRequest(row, row, 199.0, 1.0, 600.0, NAN)
        state.apply(Submit(199.0, stuck))
        method.observe(Submit(199.0, stuck), state)
    state.now = 5000.0
    assert method.predict(asked, state).quantiles[0] > before


def test_log_uniform_fits_a_log_uniform_queue():
    rng = np.random.default_rng(3)
    method = LogUniform(keep=5000)
    state = tell(method, np.exp(rng.uniform(0, np.log(1e4), 3000)).tolist())
    told = method.predict(JobRequest(9999, 1, 0.0, 1.0, 600.0, NAN), state)
    assert told.point == pytest.approx(100, rel=0.15)
    assert told.quantiles[0] == pytest.approx(1e4**0.95, rel=0.2)


@given(
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=1, max_size=30),
    st.integers(0, 29),
    st.integers(1, 12),
)
def test_nearest_as_by_sorting_everything(apart, newest, k):
    n = len(apart)
    newest %= n
    ring = ibl_kernel.blank_instances(n)
    ring.size_and_next[:] = n, (newest + 1) % n
    near, room = np.zeros(64, np.int64), np.zeros(64, np.float32)
    count = ibl_kernel.nearest(ring, np.array(apart, np.float32), k, near, room)
    order = [(newest - step) % n for step in range(n)]
    assert near[:count].tolist() == naive.nearest(apart, order, k)


def test_ibl_answers_with_the_wait_of_the_same_kind_of_job():
    method = Ibl(search=False, k=1)
    state = tell(method, [10.0] * 5, procs=1.0)
    tell(method, [5000.0] * 5, procs=32.0, start_row=10)
    state.now = 6000.0
    assert method.predict(JobRequest(50, 50, 6000.0, 32.0, 600.0, NAN), state).point == 5000.0


def test_ibl_skips_the_same_waits_as_the_count_for_people():
    from batchcast.evaluation.wait import irregular_waits, outage_waits

    log = Trace.from_arrays(
        {
            "submit_time": [0.0, 10.0, 20.0, 300000.0, 300001.0],
            "wait_time": [0.0, 299990.0, np.nan, -5.0, 3.0],
            "run_time": [5.0, 5.0, 5.0, 5.0, 5.0],
            "req_procs": [1.0, 1.0, 1.0, 1.0, 99.0],
            "req_time": [60.0] * 5,
        },
        LogInfo(max_procs=64.0),
    )
    spoiled, outages = outage_waits(log)
    assert (spoiled.tolist(), outages) == ([False, True, False, False, False], 1)
    assert list(irregular_waits(log).values()) == [1, 1, 1, 1]
    method = Ibl(search=False)
    replay(log, {"ibl": method}, total=64.0)
    assert method.learned == [0]
    assert method.wait[0] == 0.0
