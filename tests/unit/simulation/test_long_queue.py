"""Tests that a long queue is searched by an index: the same starts for any order, at a cost that does not grow with the
queue."""

from __future__ import annotations

import numpy as np
import pytest

from batchcast.schedule.advance import advance
from batchcast.schedule.state import GIVEN, make_jobs, make_state
from batchcast.simulation import Policy

NEVER = 1 << 60
POLICIES = (
    Policy(),
    Policy(backfill_order="sjf"),
    Policy(backfill_order="sjf:ageing=0.01"),
    Policy(backfill_order="ljf", running_ends="requested"),
    Policy("sjf"),
    Policy("saf", backfill_order="f1"),
    Policy("wfp", backfill_order="f3"),
    Policy("f2", backfill_order="wfp"),
    Policy("ljf", backfill="none"),
    Policy(head_after=600.0, backfill_order="sjf"),
    Policy("sjf", backfill_order="sjf", running_ends="requested", first_after=600.0),
    Policy(event_order="pyss", backfill_order="sjf"),
    Policy(backfill_order="tests.naive.orders:unordered"),
)


def overload(rng: np.random.Generator, count: int, widths: int, rate: float = 2.0) -> np.ndarray:
    procs = np.minimum(1 + np.floor(rng.exponential(12.0, count)), 64).astype(int)
    if widths == 2:
        procs = 2 ** rng.integers(0, 6, count)
    length = np.ceil(rng.lognormal(5.0, 1.5, count)) * (rng.random(count) > 0.05)
    submit = np.floor(np.cumsum(rng.exponential((procs * length).mean() / 64 / rate, count)))
    submit[count // 2 :] += rng.choice([0.0, 400_000.0])  # the queue empties now and then
    request = np.maximum(length, 1.0) * rng.choice([1.0, 2.0, 7.0], count)
    return make_jobs(submit, procs, length, request, np.maximum(np.round(request / 60) * 60, 1.0))


def starts(jobs: np.ndarray, policy: Policy, long_queue: int) -> tuple[np.ndarray, int]:
    jobs = jobs.copy()
    state = make_state(jobs, 64, planner=GIVEN, long_queue=long_queue, **policy.rules())
    advance(state)
    return np.stack([jobs["start"], jobs["backfilled"]]), int(state.record["looked_at"][0])


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("widths", [2, 1])
def test_an_indexed_queue_starts_the_same_jobs_at_the_same_time(policy: Policy, widths: int) -> None:
    for seed in range(3):
        jobs = overload(np.random.default_rng(seed), 1500, widths)
        plain, _ = starts(jobs, policy, NEVER)
        for long_queue in (0, 40, 300):
            indexed, _ = starts(jobs, policy, long_queue)
            assert np.array_equal(plain, indexed)


@pytest.mark.parametrize("policy", [*POLICIES[:3], *POLICIES[4:6]], ids=lambda policy: policy.name)
def test_what_a_pass_looks_at_does_not_grow_with_the_queue(policy: Policy) -> None:
    looked_at = []
    for count in (5_000, 50_000):
        jobs = overload(np.random.default_rng(1), count, 2)
        looked_at.append(starts(jobs, policy, 1024)[1] / count)
    assert looked_at[1] < 3 * looked_at[0]
