"""Tests that evaluating each kind of job once gives exactly the result of evaluating every job."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchcast_papers.online_knn_ga.methods import Groups, grouped_estimates, weighted_nearest
from batchcast_papers.online_knn_ga.nearest import mean_and_std, mean_of_last


@given(
    seed=st.integers(0, 10**6), jobs=st.integers(0, 40), asked=st.integers(1, 12), template=st.integers(0, 3),
    n=st.integers(1, 45), k=st.integers(1, 9), parted=st.booleans(), weightless=st.booleans(),
)  # fmt: skip
def test_groups_answer_as_single_jobs_do(seed, jobs, asked, template, n, k, parted, weightless):
    rng = np.random.default_rng(seed)
    codes, query_codes = (rng.integers(0, 3, (size, 2)).astype(np.int32) for size in (jobs, asked))
    values, queries = (rng.choice([1.0, 2.0, 5.0, np.nan], (size, 3)) for size in (jobs, asked))
    run = rng.integers(1, 50, jobs).astype(float)
    total = np.cumsum(run)
    done, fallback = rng.integers(0, jobs + 1, asked), rng.uniform(1, 9, asked)
    null, span = np.array([2, -2], dtype=np.int32), np.array([4.0, 0.0, 4.0])
    weights = np.zeros(5) if weightless else rng.choice([0.0, 0.25, 0.5, 1.0], 5)
    parted_at = 2.0 if parted else np.nan
    groups = Groups.of(
        {"codes": codes, "values": values}, {"codes": query_codes, "values": queries}, null, span, parted_at
    )
    fast = grouped_estimates(groups, run, total, done, fallback, weights, template, n, k)
    for i, d in enumerate(done.tolist()):
        near = weighted_nearest(
            codes[:d], values[:d], query_codes[i], queries[i], null, span, weights, template, n, k, parted_at
        )
        if len(near):
            slow = mean_and_std(run, near)
        else:
            slow = (mean_of_last(total, d, n), 0.0) if d else (fallback[i], np.nan)
        np.testing.assert_array_equal((fast[0][i], fast[1][i]), slow)
