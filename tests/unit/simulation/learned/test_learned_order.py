"""Tests the learned queue order: the settings of a simulated Slurm are found in its record, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naive.pairs import pairs, standing

from batchcast.machines.machine import Machine, Qos, homogeneous
from batchcast.simulation.learned import order
from batchcast.simulation.learned.caps import Queue
from batchcast.simulation.learned.order import SIZE, USE, find_pairs, learn_order, past_use, siblings, with_order
from batchcast.simulation.on_nodes import simulate_on
from batchcast.table import Trace

NODES, DAYS, USERS = 16, 60, 30
AGE = {"PriorityType": "priority/multifactor", "PriorityMaxAge": "128-00:00:00", "PriorityWeightAge": f"{128 * 86400}"}


def requests(seed: int, jobs: int = 6000) -> Trace:
    """Thirty users, some of whom submit far more, on a machine that is nearly always full."""
    rng = np.random.default_rng(seed)
    user = np.minimum(rng.geometric(0.12, jobs) - 1, USERS - 1)
    limit = rng.choice([3600.0, 7200.0, 14400.0, 28800.0], jobs)
    run, size = np.round(limit * rng.uniform(0.3, 1.0, jobs)), rng.choice([1, 2, 3, 4, 6, 8], jobs)
    span = (run * size).sum() / NODES / 0.97
    return Trace.from_arrays(
        {
            "job_id": range(1, jobs + 1),
            "submit_time": np.sort(np.round(rng.uniform(0.0, span, jobs))),
            "run_time": run,
            "req_procs": size,
            "req_time": limit,
            "user_id": [f"u{k}" for k in user],
            "qos": [("normal", "high")[k] for k in (rng.random(jobs) < 0.2) * 1],
        }
    )


def recorded(log: Trace, **words: str) -> order.Order:
    """Return what is learned about the order of the log after Slurm's loops ran it under these settings."""
    machine = replace(
        homogeneous(NODES, 1, SchedulerType="sched/backfill", **words),
        qos=(Qos("normal"), Qos("high", priority=1)),
        associations=siblings([("", f"u{k}") for k in range(USERS)]),
    )
    schedule = simulate_on(machine, log)
    assert len(schedule.rows) == len(log)
    start = log.submit_time + schedule.wait_time
    queue = Queue(log.submit_time, start, start + log.run_time, log.procs(), log.req_time, float(NODES))
    users, classes = log.nominal("user_id"), log.nominal("qos")
    names = [str(name) for name in classes.categories]
    return learn_order(queue, users.codes.astype(np.int64), classes.codes.astype(np.int64), names)


@pytest.mark.parametrize("seed", range(4))
def test_first_come_first_served_is_found_and_no_weight_is_invented(seed: int) -> None:
    found = recorded(requests(seed))
    assert found.factors == ()
    assert found.pairs > 1000
    assert found.first_come > 0.9


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("word", "factor"),
    [("PriorityWeightJobSize", SIZE), ("PriorityWeightFairShare", USE), ("PriorityWeightQOS", "high")],
)
def test_a_weight_that_was_put_in_is_found_first(seed: int, word: str, factor: str) -> None:
    found = recorded(requests(seed), **AGE, **{word: f"{30 * 86400}"})
    assert [f.name for f in found.factors][:1] == [factor]
    assert found.right > found.first_come + 0.05
    assert found.factors[0].worth >= 86400.0
    assert found.factors[0].pairs > found.factors[0].against


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 40))
def test_pairs_and_past_use_are_those_of_the_slow_twin(seed: int, jobs: int) -> None:
    rng = np.random.default_rng(seed)
    submit = rng.integers(0, 40, jobs) * 300.0
    start = submit + rng.choice([0.0, 600.0, 1800.0, 7200.0], jobs)
    end, size = start + rng.integers(1, 30, jobs) * 600.0, rng.integers(1, 6, jobs) * 1.0
    queue = Queue(submit, start, end, size, rng.choice([600.0, 1200.0, 3600.0, np.nan], jobs), 12.0)
    users = rng.integers(-1, 4, jobs)
    winner, loser = find_pairs(queue, users)
    assert set(zip(winner.tolist(), loser.tolist(), strict=True)) <= pairs(queue, users)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "LOSERS", jobs)
        winner, loser = find_pairs(queue, users)
    assert set(zip(winner.tolist(), loser.tolist(), strict=True)) == pairs(queue, users)
    if len(winner):
        when, one, two = start[winner], users[winner], users[loser]
        ahead = past_use(queue, users, when, one, two, 3600.0)
        twin = [
            standing(queue, users, t, a, 3600.0) - standing(queue, users, t, b, 3600.0)
            for t, a, b in zip(when, one, two)
        ]
        np.testing.assert_allclose(ahead, twin)


def test_what_was_learned_stands_in_the_machine_as_slurms_own_words() -> None:
    factors = (
        order.Factor(SIZE, 86400.0, 9, 1, 12),
        order.Factor(USE, 172800.0, 9, 1, 12),
        order.Factor("x", 3600.0, 9, 1, 12),
    )
    learned = order.Order(factors, 7 * 86400.0, 200, 0.9, 0.5)
    machine: Machine = with_order(homogeneous(2, 4), learned, "queue_id", [("a", "ada"), ("b", "bob")])
    assert machine.settings["PriorityWeightJobSize"] == "86400"
    assert machine.settings["PriorityWeightFairShare"] == "172800"
    assert machine.settings["PriorityDecayHalfLife"] == "7-00:00:00"
    assert {qos.name: qos.priority for qos in machine.qos} == {"learned": 0, "x": 3600.0}
    assert [(a.account, a.user) for a in machine.associations[1:]] == [("a", "ada"), ("b", "bob")]
