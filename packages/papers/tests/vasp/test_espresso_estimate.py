"""Tests the estimate for a directory with inputs of Quantum ESPRESSO, from a history of such directories."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tests.unit.inputs.test_espresso import INPUT

from batchcast.cli.main import cli
from batchcast.inputs.collect import collect
from batchcast.table import LogInfo, Trace
from batchcast.trace import write_parquet
from batchcast_papers.vasp.estimate import estimate


def run(*arguments: object) -> Result:
    """Run batchcast, and raise the exception that it raises."""
    return CliRunner().invoke(cli, [str(word) for word in arguments], catch_exceptions=False, standalone_mode=False)


def test_directories_of_a_log_become_a_history_that_estimates_a_new_one(tmp_path: Path) -> None:
    """The run time grows with the cutoff; the new job's directory has a cutoff that occurs in the history."""
    rng, jobs = np.random.default_rng(7), 90
    cutoffs = rng.choice([20, 40, 60], jobs)
    for cutoff in (20, 40, 60):
        (tmp_path / f"run{cutoff}").mkdir()
        (tmp_path / f"run{cutoff}/pw.in").write_text(INPUT.replace("18.0", f"{cutoff}.0"))
    log = Trace.from_arrays(
        {
            "submit_time": 4e9 + 600.0 * np.arange(jobs), "wait_time": np.zeros(jobs), "req_procs": np.full(jobs, 16.0),
            "run_time": 100.0 * cutoffs * rng.uniform(0.95, 1.05, jobs), "user_id": ["ada"] * jobs,
            "work_dir": [str(tmp_path / f"run{cutoff}") for cutoff in cutoffs],
        },
        LogInfo(source="log"),
    )  # fmt: skip
    done = collect(log, "/")
    assert done.jobs == {"read": jobs}
    (one,) = estimate(done.trace, [tmp_path / "run60"], procs=16, predictor="forest")
    assert not one.is_fallback
    assert one.run_s == pytest.approx(6000, rel=0.1)
    write_parquet(done.trace, tmp_path / "jobs.parquet")
    words = ("vasp", "estimate", tmp_path / "run20", "--history", tmp_path / "jobs.parquet", "--procs", 16)
    (row,) = json.loads(run(*words, "--predictor", "forest", "--json").stdout)["results"]
    assert row["run_s"] == pytest.approx(2000, rel=0.1)
    assert row["nearest"][0]["differs"] == {}
