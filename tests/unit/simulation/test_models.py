"""Tests that a pool and a machine with nodes have the same interface and give the results of their own functions."""

from __future__ import annotations

import numpy as np
import pytest

from batchcast import Policy, Scheduler
from batchcast.errors import UsageError
from batchcast.events.machine_size import machine_of_log, partition_sizes
from batchcast.machines.machine import homogeneous
from batchcast.simulation import RunSetup, Schedule, simulate, simulate_split
from batchcast.simulation.models import LEAST_WORK, SLURM, Model, Nodes, Pool
from batchcast.simulation.on_nodes import Ordering, QueuePlan, simulate_on
from batchcast.table import Trace


@pytest.fixture(scope="module")
def log() -> Trace:
    rng = np.random.default_rng(4)
    run = rng.integers(60, 4000, 80).astype(float)
    columns = {"submit_time": np.sort(rng.integers(0, 20_000, 80)).astype(float), "wait_time": np.zeros(80),
               "run_time": run, "req_time": run * 2, "req_procs": rng.integers(1, 9, 80).astype(float),
               "user_id": rng.integers(0, 3, 80), "partition_id": rng.integers(0, 2, 80)}  # fmt: skip
    return Trace.from_arrays(columns)


@pytest.mark.parametrize("planner", ["requested", "last_2", lambda log: lambda job: 900.0])
def test_models_run_a_log_as_their_own_functions_do(log: Trace, planner: object) -> None:
    machine = homogeneous(4, 4, 4000.0)
    pairs = [
        (Pool(RunSetup(total=12)), "easy", simulate(log, "easy", planner, total=12)),
        (Pool(split=True), "easy", simulate_split(log, partition_sizes(log, "req"), "easy", planner)),
        (Nodes(machine), None, simulate_on(machine, log, planner)),
        (Nodes(), None, simulate_on(machine_of_log(log, "req"), log, planner)),
    ]
    models: list[tuple[Model, str | None, Schedule]] = list(pairs)
    for model, policy, expected in models:
        assert model.run(log, policy, planner).start_time.tolist() == expected.start_time.tolist()


def test_least_work_first_starts_short_jobs_earlier_on_nodes(log: Trace) -> None:
    nodes = Nodes(homogeneous(1, 8, 4000.0))
    usual, short_first = (nodes.run(log, policy, "requested") for policy in (None, LEAST_WORK))
    assert short_first.wait_time.mean() < usual.wait_time.mean()


def test_planned_by_predictions_slurm_does_what_plan_sets(log: Trace) -> None:
    """An evaluation's rows are schedules that `batchcast plan` can make: upper quantiles as limits or as the order."""
    machine = homogeneous(2, 8, 4000.0)
    limits = simulate_on(machine, log, queue=QueuePlan(lengths="kernel"))
    order = simulate_on(machine, log, queue=QueuePlan(order=Ordering("forecast", "kernel")))
    for policy, expected in ((SLURM, limits), (LEAST_WORK, order)):
        assert Nodes(machine).run(log, policy, "kernel").start_time.tolist() == expected.start_time.tolist()
    assert order.start_time.tolist() != limits.start_time.tolist()


def test_changed_settings_change_the_machine(log: Trace) -> None:
    assert Nodes(homogeneous(2, 8, 4000.0), changes={"nodes": "+100%"}).run(log, None, "requested").total == 32


@pytest.mark.parametrize("policy", ["no such policy", "easy", Policy(order="ljf"), Scheduler])
def test_a_policy_of_a_pool_is_refused_on_nodes(log: Trace, policy: object) -> None:
    with pytest.raises(UsageError, match=r"cannot run .*\(accepted: slurm, slurm-least-work\)"):
        Nodes(homogeneous(2, 8, 4000.0)).run(log, policy, "requested")
