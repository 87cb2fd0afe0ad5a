"""Tests what `batchcast runtime` says of the papers' methods: who answered instead, and how often they were trained."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.study.test_runtime import log, run

from batchcast.cli.main import cli

__all__ = ["log"]


def test_a_method_answered_by_another_says_so_with_the_share(log: Path) -> None:
    done = CliRunner().invoke(cli, ["runtime", str(log), "--predictor", "recent_mean,boosted", "--json"])
    rows = {row["predictor"]: row for row in json.loads(done.stdout)["results"]}
    assert (rows["boosted"]["answered_by"], rows["boosted"]["answered_by_share"]) == ("recent_mean", 1.0)
    assert rows["boosted"]["mae_s"] == rows["recent_mean"]["mae_s"]
    assert "answered_by" not in rows["recent_mean"]
    table = CliRunner().invoke(cli, ["runtime", str(log), "--predictor", "boosted"]).output
    assert "boosted: 100 % answered by recent_mean" in " ".join(table.split())


@pytest.mark.long
def test_a_method_that_never_trained_says_so(log: Path) -> None:
    document = run(str(log), "--predictor", "knn_ga,minh_wolters,knn_ga:generations=0,last_2")
    assert [row.get("trains_from_jobs") for row in document["results"]] == [200, 200, None, None]
    shown = CliRunner().invoke(cli, ["runtime", str(log), "--predictor", "knn_ga,last_2"]).output
    assert "knn_ga: never trained, because its first search needs 200 submissions" in " ".join(shown.split())
    trained = run(str(log), "--predictor", "knn_ga:h=10,t1=10,t2=10,population=3,generations=2")
    assert "trains_from_jobs" not in trained["results"][0]
    assert trained["results"][0]["trainings"] >= 1


@pytest.mark.parametrize("name", ["JobName", "Application"])
def test_one_of_two_names_is_enough(tmp_path: Path, name: str) -> None:
    """Checks that `su` and `trip` use the application if a job has no name, and the name if it has no application."""
    column, account = {"JobName": ("job_name", "account"), "Application": ("app_id", "group_id")}[name]
    lines = [f"job_id,submit_time,run_time,wait_time,req_procs,req_time,user_id,{account},{column}"]
    lines += [f"{k + 1},{100 * k},{10 + k % 5},0,1,600,u{k % 3},g,a{k % 2}" for k in range(40)]
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(lines) + "\n")
    document = run(str(path), "--predictor", "su,trip,calibrated:of=trip")
    assert [row.get("lacking") for row in document["results"]] == [None, None, None]
    bare = tmp_path / "bare.csv"
    bare.write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    assert run(str(bare), "--predictor", "su")["results"][0]["lacking"] == "job_name app_id"
