"""Tests the thinned neighbor orders against brute force: for every N and every K up to the largest, the same first
K."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.naive.knn import similarity

from batchcast_papers.online_knn_ga.nearest import neighbour_orders

MOST = 3


@given(st.integers(0, 10**6), st.integers(1, 25), st.integers(1, 6))
def test_no_needed_candidate_is_thinned_away(seed, jobs, queries):
    rng = np.random.default_rng(seed)
    values = rng.choice([0.0, 0.25, 0.5, 1.0, 1.7, math.nan], (jobs, 3))
    codes = rng.integers(0, 2, (jobs, 2)).astype(np.int32)
    asked = rng.choice([0.0, 0.5, 1.0, math.nan], (queries, 3))
    asked_codes = rng.integers(0, 3, (queries, 2)).astype(np.int32)
    done = np.sort(rng.integers(0, jobs + 1, queries))
    orders = neighbour_orders(asked, asked_codes, done, values, codes, (0, 1, 2, 3), MOST)
    unit = [(0.0, 1.0)] * 3
    for template, order in orders.items():
        fields = [field for field in range(2) if (template >> field) & 1]
        for i in range(queries):
            listed = order.entries[order.start[i] : order.start[i + 1]].tolist()
            for n in range(1, jobs + 2):
                newest_first = [p for p in range(done[i] - 1, -1, -1) if p >= done[i] - n]
                same = [p for p in newest_first if all(codes[p, f] == asked_codes[i, f] for f in fields)]
                expected = sorted(same, key=lambda p: similarity(values[p], asked[i], unit))[:MOST]
                assert [p for p in listed if p >= done[i] - n][:MOST] == expected


def test_thinning_does_thin():
    """Without thinning the sweep would visit thousands of entries per job."""
    rng = np.random.default_rng(0)
    values, codes = rng.random((2000, 3)), np.zeros((2000, 1), np.int32)
    orders = neighbour_orders(values[:5], codes[:5], np.full(5, 2000), values, codes, (0,), 50)
    assert len(orders[0].entries) < 5 * 400
