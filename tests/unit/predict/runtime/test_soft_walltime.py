"""Tests that CESNET's rule, written out over the whole log, equals the method job by job."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchcast import Trace, replay
from batchcast.predict.registry import make

HOUR, DAY = 3600.0, 86400.0


def by_the_rule(log: Trace, row: int) -> float:
    """Return the soft limit of one job by the text of the rule, from the whole log."""
    limit = log.req_time[row] if log.req_time[row] > 0 else DAY
    ends = log.submit_time + log.wait_time + log.run_time
    before = [i for i in np.argsort(ends, kind="stable") if ends[i] <= log.submit_time[row] and i != row]
    own = [i for i in before if log[i].user_id == log[row].user_id][-15:]
    shares = [log.run_time[i] / (log.req_time[i] if log.req_time[i] > 0 else DAY) for i in own]
    if not shares or max(shares) == 0:
        return limit
    soft = limit * min(max(shares), 1.0)
    return min((2 * soft if limit > DAY else soft) + 900.0, limit)


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(0, 9999))
def test_every_answer_is_that_of_the_rule(jobs: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    limits = draw.choice([math.nan, HOUR, 2 * HOUR, DAY, 3 * DAY], jobs)
    runs = np.floor(draw.uniform(1.0, 1.1, jobs) * draw.uniform(0.01, 1.0, jobs) * np.where(limits > 0, limits, DAY))
    log = Trace.from_arrays(
        {
            "submit_time": np.sort(draw.choice(200_000, jobs, replace=False)).astype(float),
            "wait_time": draw.integers(0, 5000, jobs) + draw.uniform(0.01, 0.99, jobs).round(6),
            "run_time": np.maximum(runs, 1.0),
            "req_time": limits,
            "req_procs": np.ones(jobs),
            "user_id": [f"u{one}" for one in draw.integers(0, 3, jobs)],
        }
    )
    points = replay(log, {"it": make("runtime", "soft_walltime")})["it"].points
    assert points == pytest.approx([by_the_rule(log, row) for row in range(jobs)])


def test_a_limit_above_a_day_is_doubled_and_none_is_passed() -> None:
    log = Trace.from_arrays(
        {
            "submit_time": [0.0, 10 * HOUR, 11 * HOUR, 12 * HOUR], "wait_time": [0.0] * 4,
            "run_time": [HOUR, 60.0, 60.0, 60.0], "req_time": [4 * HOUR, 4 * HOUR, 3 * DAY, 20 * 60.0],
            "req_procs": [1.0] * 4, "user_id": ["ada"] * 4,
        }
    )  # fmt: skip
    points = replay(log, {"it": make("runtime", "soft_walltime")})["it"].points
    assert points.tolist() == [4 * HOUR, HOUR + 900, 36 * HOUR + 900, 20 * 60.0]


@pytest.mark.parametrize("wrong", [{"k": 0}, {"margin_s": -1.0}, {"long_factor": 0.5}])
def test_numbers_outside_their_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="at least"):
        make("runtime", "soft_walltime").__class__(**wrong)
