# SPDX-License-Identifier: Apache-2.0
"""Tests limits suggested from runs that were partly cut off at their limit, so that their true run time is unknown."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive.waste import limit_kept

from batchcast.predict.recommend import recommend_limit

RUNS = st.lists(st.tuples(st.integers(1, 60).map(float), st.integers(1, 60).map(float)), min_size=1, max_size=80)
"""The true run time of each job, and its limit."""


@given(RUNS, st.sampled_from([0.01, 0.05, 0.1, 0.25, 0.5]))
def test_a_limit_is_that_of_counting(jobs: list[tuple[float, float]], risk: float) -> None:
    runs, cut = [min(job) for job in jobs], [need > limit for need, limit in jobs]
    advice = recommend_limit(runs, cut, risk, floor=0.0, step=0.0)
    naive = limit_kept(runs, cut, risk)
    assert advice.reached == (naive is not None)
    if naive is not None:
        assert advice.limit_s == advice.quantile_s == naive


@given(RUNS, st.sampled_from([0.05, 0.1, 0.25]))
def test_what_is_promised_holds_of_the_jobs_themselves(jobs: list[tuple[float, float]], risk: float) -> None:
    """Whatever the true run times of the cut jobs, the promised share would have ended in time."""
    runs, cut = [min(job) for job in jobs], [need > limit for need, limit in jobs]
    advice = recommend_limit(runs, cut, risk, floor=0.0, step=0.0)
    if advice.reached:
        assert sum(need <= advice.limit_s for need, _ in jobs) >= math.floor((1 - risk) * len(jobs))


@pytest.mark.parametrize(
    ("ended", "cut", "reached"),
    [(95, 23, False), (112, 6, False), (114, 4, True), (5, 0, False), (18, 0, False), (19, 0, True), (37, 1, False)],
)
def test_five_percent_take_nineteen_jobs_and_few_cuts(ended: int, cut: int, reached: bool) -> None:
    """The first case is a real user's: limits of up to 3 h, and 23 of 118 jobs cut off at 2 h."""
    runs = [9000.0] * ended + [7200.0] * cut
    assert recommend_limit(runs, [False] * ended + [True] * cut, 0.05).reached is reached
