"""Tests the choice of a model: a pool if it comes near the recorded waits, else Slurm's loops if they do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.cluster import cluster_machine, cluster_path

import batchcast
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
    found = batchcast.evaluate(log, predictor=["last_2"], policy=["easy"])
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
    found = batchcast.evaluate(log, predictor=["last_2"], policy=["easy"])
    findings = found.findings
    assert findings is None or not findings.believed
    assert found.rejected is not None, "the loops were tried as well"


@pytest.mark.long
def test_a_described_machine_has_both_orders(cluster: Trace) -> None:
    found = batchcast.evaluate(cluster, predictor=["last_2"], machine=cluster_machine())
    rows = {(row["policy"], row["predictor"]): row["mean_wait_s"] for row in found.schedule_rows()}
    assert set(rows) == {(policy, spec) for policy in (SLURM, LEAST_WORK) for spec in ("requested", "last_2", "actual")}
    assert rows[LEAST_WORK, "actual"] < rows[SLURM, "actual"], (
        "the least work first by the truth shortens the mean wait"
    )
