"""Tests the processors of a schedule: as many as the job requested, and no two jobs share one at one time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.errors import InputError
from batchcast.simulation import Policy, simulate
from batchcast.simulation.schedule import assign_processors
from batchcast.testing import small_log


def numbers(held) -> set[int]:
    return {k for low, high in held for k in range(low, high + 1)}


def check(start, end, procs, total, held) -> None:
    """Check by brute force over all pairs that overlap."""
    sets = [numbers(each) for each in held]
    assert [len(each) for each in sets] == list(procs)
    assert all(0 <= k < total for each in sets for k in each)
    for each in held:
        assert all(high + 1 < low for (_, high), (low, _) in pairwise(each))
    for a in range(len(start)):
        for b in range(a):
            if max(start[a], start[b]) < min(end[a], end[b]):
                assert not sets[a] & sets[b]


@given(st.integers(0, 400), st.sampled_from(["easy", "conservative", "none"]))
def test_no_two_jobs_share_a_processor_at_one_time(seed: int, backfill: str) -> None:
    schedule = simulate(small_log(60, seed), Policy(backfill=backfill), total=24)
    arrays = schedule.start_time, schedule.end_time, schedule.procs
    held = assign_processors(*arrays, schedule.total)
    check(*arrays, schedule.total, held)
    assert held == assign_processors(*arrays, schedule.total)


def test_the_lowest_free_numbers_and_jobs_of_no_length() -> None:
    start, end = np.array([0.0, 0.0, 3.0, 3.0, 5.0]), np.array([3.0, 9.0, 3.0, 8.0, 6.0])
    held = assign_processors(start, end, np.array([2, 1, 3, 2, 1]), 4)
    assert held == [[(0, 1)], [(2, 2)], [(0, 1), (3, 3)], [(0, 1)], [(3, 3)]]


def test_more_processors_than_there_are_is_an_error() -> None:
    with pytest.raises(InputError, match="more processors at once"):
        assign_processors(np.zeros(2), np.ones(2), np.array([2, 2]), 3)
