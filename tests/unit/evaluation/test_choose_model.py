"""Tests the choice of a model: a pool if it comes near the recorded waits, else Slurm's loops if they do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.cluster import cluster_machine, cluster_path

import batchcast
from batchcast import Policy
from batchcast.errors import UsageError
from batchcast.evaluation.validity import Verdict
from batchcast.events.machine_size import machine_of_log
from batchcast.machines.machine import Machine
from batchcast.simulation.models import LEAST_WORK, SLURM
from batchcast.simulation.on_nodes import simulate_on
from batchcast.table import Trace


@pytest.fixture(scope="module")
def cluster() -> Trace:
    return batchcast.read_trace(str(cluster_path())).take(np.arange(1200))


def recorded_by_loops(log: Trace, machine: Machine) -> Trace:
    """Return the log with the waits of Slurm's loops on a machine."""
    schedule = simulate_on(machine, log)
    wait = np.full(len(log), np.nan)
    wait[schedule.rows] = schedule.wait_time
    return log.with_columns({"wait_time": wait})


def test_a_pool_that_matches_the_record_is_taken() -> None:
    log = batchcast.read_trace(batchcast.demo_path()).take(np.arange(1500))
    found = batchcast.evaluate(log, predictor=["last_2"])
    assert found.settings["scheduler"] == "policy"
    assert found.validity is not None
    assert found.validity.verdict is Verdict.CLOSE
    assert found.rejected is None


@pytest.mark.long
def test_loops_are_taken_where_the_pool_does_not_match_and_they_do(cluster: Trace) -> None:
    own = machine_of_log(cluster)
    log = recorded_by_loops(cluster, own)
    sized = log.with_info(replace(log.info, max_procs=640.0, max_procs_source="given"))
    for each, beside in ((log, None), (sized, Verdict.ROUGH)):
        found = batchcast.evaluate(each, predictor=["last_2"])
        assert {row["policy"] for row in found.schedule_rows()} == {SLURM, LEAST_WORK}
        assert found.validity is not None
        assert found.validity.verdict is Verdict.CLOSE
        assert (found.rejected and found.rejected.verdict) == beside, "how near the pool came, where there is one"


def test_neither_is_believed_where_neither_matches(cluster: Trace) -> None:
    log = cluster.with_columns({"wait_time": np.full(len(cluster), 50_000.0)})
    found = batchcast.evaluate(log, predictor=["last_2"])
    findings = found.findings
    assert findings is None or not findings.believed
    assert found.rejected is not None, "the loops were tried as well"


def test_a_given_policy_is_simulated_where_only_slurms_loops_match_the_record(cluster: Trace) -> None:
    log = recorded_by_loops(cluster, machine_of_log(cluster))
    log = log.with_info(replace(log.info, max_procs=640.0, max_procs_source="given"))
    found = batchcast.evaluate(log, predictor=["last_2"], policy="fcfs")
    assert {row["policy"] for row in found.schedule_rows()} == {"fcfs"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"policy": {"mine": Policy(order="ljf")}}, "policy: a machine with nodes cannot run 'ljf-easy'"),
        ({"policy": "slurm,easy"}, "a machine with nodes cannot run 'easy' (accepted: slurm, slurm-least-work)"),
        ({"wide": "cut"}, "wide: a machine with nodes does not use 'cut'"),
        ({"partitions": "split"}, "partitions: a machine with nodes does not use 'split'"),
        ({"scheduler": "policy"}, "scheduler: a machine with nodes does not use 'policy'"),
    ],
)  # fmt: skip
def test_an_argument_that_a_machine_cannot_use_is_refused(cluster: Trace, given: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as refused:
        batchcast.evaluate(cluster, predictor=["last_2"], machine=cluster_machine(), **given)
    assert words in str(refused.value)
    assert "leave" in refused.value.hint


def test_one_order_of_slurm_is_simulated_alone(cluster: Trace) -> None:
    log = cluster.take(np.arange(300))
    found = batchcast.evaluate(log, predictor=["last_2"], machine=cluster_machine(), policy=LEAST_WORK)
    assert {row["policy"] for row in found.schedule_rows()} == {LEAST_WORK}
    assert found.validity is not None


@pytest.mark.long
def test_a_described_machine_has_both_orders(cluster: Trace) -> None:
    found = batchcast.evaluate(cluster, predictor=["last_2"], machine=cluster_machine())
    rows = {(row["policy"], row["predictor"]): row["mean_wait_s"] for row in found.schedule_rows()}
    assert set(rows) == {(policy, spec) for policy in (SLURM, LEAST_WORK) for spec in ("requested", "last_2", "actual")}
    assert rows[LEAST_WORK, "actual"] < rows[SLURM, "actual"], (
        "the least work first by the truth shortens the mean wait"
    )
