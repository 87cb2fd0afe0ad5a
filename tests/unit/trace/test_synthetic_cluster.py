"""Tests the demo's log of a described machine: equal when generated again from its seed, with waits of Slurm's
loops."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from tests.cluster import cluster_machine, cluster_path, cluster_workload

from batchcast.simulation.on_nodes import simulate_on
from batchcast.trace import read_trace
from batchcast.trace.write import write_csv


def test_the_generator_makes_the_bundled_file_again(tmp_path: Path) -> None:
    write_csv(cluster_workload(), tmp_path / "again.csv")
    assert gzip.decompress(cluster_path().read_bytes()) == (tmp_path / "again.csv").read_bytes()


def test_the_machine_gives_the_recorded_waits_back() -> None:
    log = read_trace(cluster_path(), strict=True)
    schedule = simulate_on(cluster_machine(), log)
    assert np.array_equal(schedule.wait_time, log.wait_time[schedule.rows])
    assert set(log.nominal("status").decode()) == {"completed", "failed", "timeout", "cancelled"}
    assert np.nanmax(log.number("req_gpus")) == 4
