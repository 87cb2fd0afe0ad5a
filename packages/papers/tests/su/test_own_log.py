"""Tests `reproduce su --log` on the user's own log, with its local time and an extra column such as the mesh size."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.errors import UsageError
from batchcast.table import LogInfo, Trace
from batchcast.trace import write_parquet
from batchcast_papers.su.methods import Su
from batchcast_papers.su.study import local_offset


def own(jobs: int) -> Trace:
    """Jobs of one user and one name whose run time follows from the mesh size alone."""
    mesh = np.random.default_rng(5).choice([1e5, 4e5, 9e5], jobs)
    columns = {
        "submit_time": 7200.0 * np.arange(jobs), "wait_time": np.zeros(jobs), "run_time": mesh / 100,
        "req_procs": np.full(jobs, 16.0), "user_id": ["ada"] * jobs, "job_name": ["wing"] * jobs, "mesh": mesh,
    }  # fmt: skip
    log = Trace.from_arrays(columns, LogInfo(source="own", max_procs=64.0, unix_start=1.7e9 + 3600.0))
    return log.knowing(["mesh"])


def test_the_mesh_tells_the_long_jobs_from_the_short_ones() -> None:
    from batchcast.evaluation.accuracy import score

    log, specs = own(120), ["su:model=linear,also=mesh", "su:model=linear"]
    points = score(log, specs).points
    error = [float(np.nanmean(np.abs(points[spec] - log.run_time)[60:])) for spec in specs]
    assert error[0] < 100 < 1000 < error[1]
    assert Su(also=("mesh",)).uses[-1] == "mesh"


def test_hours_are_local_time() -> None:
    """The log begins an hour after 22:13:20 UTC, and Kolkata is 5.5 h ahead."""
    assert (0.0 + local_offset(own(3), "Asia/Kolkata")) % 86400 == (80000 + 3600 + 19800) % 86400


def test_a_log_of_ones_own_has_its_page_without_the_papers_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCHCAST_SHARED", str(tmp_path / "none"))
    write_parquet(own(30), tmp_path / "own.parquet")
    words = ["reproduce", "su", "--log", str(tmp_path / "own.parquet"), "--timezone", "Europe/Berlin", "--also", "mesh"]
    words += ["--every", "10", "--schedule-first", "0", "-o", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)
    result = json.loads(done.stdout)
    assert {row["log"] for row in result["results"] if row["table"] == "5"} == {"own.parquet"}
    assert "own.parquet" in (tmp_path / "out/index.html").read_text()
    with pytest.raises(UsageError, match="belong to a log of your own"):
        CliRunner().invoke(cli, ["reproduce", "su", "--also", "mesh"], standalone_mode=False, catch_exceptions=False)
