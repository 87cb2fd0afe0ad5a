"""Tests that `kernel` plans in compiled code as in Python, job by job."""

from dataclasses import replace

import numpy as np
import pytest

from batchcast.predict.runtime.kernel import Kernel
from batchcast.simulation import Policy, kernel_clock, simulate
from batchcast.simulation.policies import policy_of
from batchcast.testing.logs import small_log

POLICIES = (
    Policy(),
    Policy(backfill_order="sjf"),
    Policy(backfill="conservative"),
    Policy(backfill_order="sjf", event_order="pyss"),
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name + policy.event_order)
def test_both_clocks_give_one_schedule(policy, seed):
    log = small_log(250, seed)
    compiled = simulate(log, policy, "kernel", total=40)
    python = simulate(log, policy, "kernel", total=40, native=False)
    np.testing.assert_array_equal(compiled.start_time, python.start_time)
    assert compiled.corrections == python.corrections
    assert compiled.corrections > 0


@pytest.mark.parametrize("predictor", ["kernel", "kernel:point=median", "kernel:point=geometric"])
@pytest.mark.parametrize(
    "words",
    [
        "first_after=0",
        "first_after=10m",
        "due_after=10m,refresh=yes",
        "due_after=10m,due_ends=planned",
        "first_after=0,risk_budget=0.3",
    ],
)
def test_the_policy_forecast_is_the_same_on_both_clocks(words, predictor):
    log, policy = small_log(250, 3), policy_of(f"forecast:{words}")
    compiled = simulate(log, policy, predictor, total=20)
    python = simulate(log, policy, predictor, total=20, native=False)
    np.testing.assert_array_equal(compiled.start_time, python.start_time)


def test_more_waiting_jobs_than_places_for_them(monkeypatch):
    log = small_log(250)
    roomy = simulate(log, Policy(), "kernel", total=16)
    monkeypatch.setattr(kernel_clock, "SLOTS", 4)
    np.testing.assert_array_equal(simulate(log, Policy(), "kernel", total=16).start_time, roomy.start_time)


def test_a_predictor_that_has_learned_already_goes_on_from_there():
    log = small_log(200)
    taught = Kernel()
    first = simulate(log, Policy(), taught, total=40, native=False)
    again = simulate(log, Policy(), taught, total=40)
    assert (first.start_time != again.start_time).any()


@pytest.mark.parametrize("predictor", ["kernel", "calibrated", "last_2"])
def test_a_budget_of_risk_is_spent_on_forecasts_of_the_recorded_log_too(predictor):
    log, policy = small_log(400, 3), policy_of("forecast:first_after=0")
    starts = [
        simulate(log, replace(policy, risk_budget=budget), predictor, total=20, loop="open").start_time
        for budget in (0.0, 1.0)
    ]
    assert (starts[0] != starts[1]).any() == (predictor != "last_2")  # `last_2` has no quantiles
