"""Tests that a difference is reported only if its interval over users' weeks excludes zero, and that the fast interval
equals the slow one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive.paired import interval

from batchcast.metrics.bursts import group_mean, top_share, user_weeks, users_better_and_worse
from batchcast.metrics.paired import LEAST_GROUPS, paired_differences


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(LEAST_GROUPS, 40), st.integers(1, 6))
def test_the_fast_interval_is_the_obvious_one(seed: int, groups: int, jobs: int) -> None:
    rng = np.random.default_rng(seed)
    group = np.concatenate([np.arange(groups), rng.integers(0, groups, groups * jobs)])
    values = rng.normal(size=(2, len(group))) * rng.lognormal(size=groups)[group]
    reference = rng.normal(size=len(group))
    fast = paired_differences(values, reference, group, np.random.default_rng(seed), draws=60)
    for one, row in zip(fast, values):
        slow = interval((row - reference).tolist(), group.tolist(), np.random.default_rng(seed), 0.9, 60)
        assert (one.difference, one.low, one.high) == pytest.approx(slow, rel=1e-6, abs=1e-9)


def test_one_burst_is_named_and_makes_no_method_better() -> None:
    rng = np.random.default_rng(0)
    group = np.concatenate([np.arange(400) // 4, np.full(2000, 100)])
    error = rng.normal(0, 100.0, 2400)
    error[400:] -= 5000.0  # 2,000 jobs that one user submits in one week have smaller errors by chance
    one = paired_differences(error[None], np.zeros(2400), group, np.random.default_rng(1))[0]
    assert one.difference < -4000
    assert (one.verdict(), one.is_decided_by_one, one.largest, one.largest_jobs) == ("level", True, 100, 2000)
    assert one.largest_share > 0.9
    assert abs(one.without) < 30


def test_a_difference_that_many_users_share_stands() -> None:
    rng = np.random.default_rng(0)
    group = np.arange(4000) // 10
    error = rng.normal(-20, 100.0, 4000)
    one = paired_differences(error[None], np.zeros(4000), group, np.random.default_rng(1))[0]
    assert one.high < 0
    assert (one.verdict(), one.verdict(lower_is_better=False)) == ("ahead", "behind")
    assert not one.is_decided_by_one
    again = paired_differences(error[None], np.zeros(4000), group, np.random.default_rng(1))[0]
    assert again == one


def test_too_few_groups_give_no_interval_and_say_so() -> None:
    one = paired_differences(np.ones((1, 100)), np.zeros(100), np.arange(100) % 19, np.random.default_rng(0))[0]
    assert one.difference == 1.0
    assert np.isnan([one.low, one.high]).all()
    assert one.why_not.startswith("no interval: the jobs form 19 groups")
    assert one.verdict() == "unknown"


def test_unknown_values_are_left_out_method_by_method() -> None:
    values = np.full((2, 60), 5.0)
    values[0, :30] = np.nan
    reference = np.zeros(60)
    reference[-1] = np.nan
    first, second = paired_differences(values, reference, np.arange(60), np.random.default_rng(0))
    assert (first.jobs, second.jobs) == (29, 59)
    assert (first.low, second.high) == (5.0, 5.0)
    nothing = paired_differences(np.full((1, 3), np.nan), np.zeros(3), np.arange(3), np.random.default_rng(0))[0]
    assert nothing.jobs == 0
    assert nothing.verdict() == "unknown"


def test_a_million_groups_are_dealt_into_cells_with_the_same_width() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(size=(1, 60_000))
    one = paired_differences(values, np.zeros(60_000), np.arange(60_000), np.random.default_rng(0))[0]
    assert one.groups == 60_000
    assert (one.high - one.low) / 2 == pytest.approx(1.645 / np.sqrt(60_000), rel=0.1)


def test_groups_are_a_users_submissions_of_a_week_else_a_class_of_sizes() -> None:
    day = 86400.0
    submit = np.array([5.0, 6.0, 7.0, 8.0, 8 * day, 8 * day])
    assert user_weeks(np.array([1, 1, 0, -1, 1, -1]), submit).tolist() == [2, 2, 1, 0, 4, 3]
    assert user_weeks(np.full(6, -1), submit, np.array([0, 0, 1, -1, 0, 0])).tolist() == [1, 1, 0, 2, 3, 3]
    assert len(user_weeks(np.zeros(0), np.zeros(0))) == 0


def test_figures_that_no_burst_owns() -> None:
    values = np.array([1.0] * 99 + [100.0, np.nan])
    group = np.array([0] * 99 + [1, 2])
    assert group_mean(values, group) == 50.5
    assert top_share(values, group, most=1) == pytest.approx(100 / 199)
    assert users_better_and_worse(np.array([-1.0, 5.0, -1.0]), np.array([0, 1, -1])) == (0.5, 0.5)
