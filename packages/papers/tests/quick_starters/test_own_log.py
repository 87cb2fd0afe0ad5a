"""Tests `batchcast reproduce pqstar --log FILE` on a short log, without the public logs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.table import Trace
from batchcast.trace import write_parquet


@pytest.mark.long
def test_ones_own_log_needs_no_public_one(tmp_path, monkeypatch):
    monkeypatch.setenv("BATCHCAST_SHARED", str(tmp_path / "nowhere"))
    rng = np.random.default_rng(0)
    count = 400
    columns = {"submit_time": np.cumsum(rng.exponential(600.0, count)), "wait_time": rng.exponential(3000.0, count),
               "run_time": rng.exponential(4000.0, count), "req_procs": 2.0 ** rng.integers(0, 5, count),
               "req_time": np.full(count, 14400.0), "user_id": [f"u{k % 7}" for k in range(count)]}  # fmt: skip
    write_parquet(Trace.from_arrays(columns), tmp_path / "own.parquet")
    result = CliRunner().invoke(
        cli, ["reproduce", "pqstar", "--log", str(tmp_path / "own.parquet"), "--json"], standalone_mode=False
    )
    if result.exception is not None:
        raise result.exception
    document = json.loads(result.stdout)
    assert document["settings"]["logs"] == ["own"]
    rows = [row for row in document["results"] if str(row.get("method", row.get("predictor", ""))).startswith("pqstar")]
    assert rows
    assert "101" in result.stderr  # the first quarter of the log trains, and the rest is predicted
    assert "400" in result.stderr
