"""The interval of a difference: covers as often as it says, and follows blocks, not jobs."""

from __future__ import annotations

import numpy as np

from batchcast.metrics.bootstrap import paired_interval


def test_it_covers_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    block = np.repeat(np.arange(40), 25)
    held = 0
    for _ in range(300):
        difference = 7.0 + np.repeat(rng.normal(0, 3, 40), 25) + rng.normal(0, 5, 1000)
        low, high = paired_interval(difference, block, rng, resamples=400)
        held += low <= 7.0 <= high
    assert 0.88 <= held / 300 <= 0.98


def test_jobs_of_one_block_count_as_one() -> None:
    rng = np.random.default_rng(1)
    values = np.repeat(rng.normal(0, 3, 30), 50)
    by_block = paired_interval(values, np.repeat(np.arange(30), 50), np.random.default_rng(0))
    by_job = paired_interval(values, np.arange(1500), np.random.default_rng(0))
    assert by_block[1] - by_block[0] > 4 * (by_job[1] - by_job[0])


def test_the_same_seed_gives_the_same_interval_and_one_block_none() -> None:
    values, block = np.arange(20.0), np.arange(20) // 4
    one, two = (paired_interval(values, block, np.random.default_rng(3)) for _ in range(2))
    assert one == two
    assert np.isnan(paired_interval(values, np.zeros(20, int), np.random.default_rng(3))).all()
    assert np.isnan(paired_interval(np.zeros(0), np.zeros(0, int), np.random.default_rng(3))).all()
