"""Tests the difference of two randomized arms: its value, when it is missing, and how bursts widen its interval."""

from __future__ import annotations

import numpy as np
import pytest

from batchcast.metrics.paired import arm_difference


def test_it_is_the_difference_of_the_means_of_what_is_known() -> None:
    values = np.array([1.0, 3.0, np.nan, 10.0, 20.0])
    drawn = np.array([True, True, True, False, False])
    one = arm_difference(values, drawn, np.arange(5), np.random.default_rng(0))
    assert (one.difference, one.jobs, one.groups) == (-13.0, 4, 4)
    assert np.isnan(one.low)
    assert "20 are needed" in one.why_not


@pytest.mark.parametrize("drawn", [np.ones(30, bool), np.zeros(30, bool)])
def test_one_arm_alone_has_no_difference(drawn: np.ndarray) -> None:
    assert np.isnan(arm_difference(np.ones(30), drawn, np.arange(30), np.random.default_rng(0)).difference)


def test_intervals_hold_the_truth_about_as_often_as_they_say_though_groups_share_their_luck() -> None:
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(200):
        size = rng.integers(1, 12, 40)
        group = np.repeat(np.arange(40), size)
        luck = np.repeat(rng.exponential(100.0, 40), size)
        drawn = rng.uniform(size=len(group)) < 0.3
        values = luck + rng.exponential(20.0, len(group)) - 15.0 * drawn
        one = arm_difference(values, drawn, group, rng, draws=300)
        held += one.low <= -15.0 <= one.high
    assert 0.84 <= held / 200 <= 0.97


def test_a_burst_that_is_all_of_one_arm_is_one_piece_of_evidence() -> None:
    rng = np.random.default_rng(3)
    group = np.concatenate([np.arange(40), np.full(400, 40)])
    drawn = np.concatenate([np.arange(40) % 2 == 0, np.ones(400, bool)])
    values = np.where(group == 40, 90.0, rng.uniform(0, 100, len(group)))
    by_burst = arm_difference(values, drawn, group, np.random.default_rng(0))
    by_job = arm_difference(values, drawn, np.arange(len(group)), np.random.default_rng(0))
    assert by_burst.high - by_burst.low > 1.5 * (by_job.high - by_job.low)
