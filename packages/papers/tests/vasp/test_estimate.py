"""Tests `batchcast vasp estimate`: from directories to run times, time limits and the most similar past runs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.errors import InputError, NoAnswer
from batchcast.inputs.collect import read_features
from batchcast.table import LogInfo, Trace
from batchcast.trace import write_parquet
from batchcast_papers.vasp.estimate import estimate


def run(*words):
    result = CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def finished(jobs, features, info=None):
    """A history in which the run time follows from the cutoff alone, with a little noise."""
    rng = np.random.default_rng(1)
    cutoffs = rng.choice([300.0, 400.0, 500.0], jobs)
    columns = {"submit_time": 600.0 * np.arange(jobs), "wait_time": np.zeros(jobs), "req_procs": np.full(jobs, 64.0),
               "run_time": (cutoffs - 200.0) * 36.0 * rng.uniform(0.95, 1.05, jobs)}  # fmt: skip
    columns |= {name: [value] * jobs for name, value in features.items()} | {"encut": cutoffs}
    columns |= {"user_id": ["ada"] * jobs, "work_dir": [f"/scratch/run{k}" for k in range(jobs)]}
    return Trace.from_arrays(columns, info or LogInfo(source="jobs.parquet", max_procs=640.0))


@pytest.fixture
def new(working_directory):
    return working_directory("new", INCAR="ENCUT = 500\n")


@pytest.fixture
def history(new):
    return finished(120, read_features(new).values)


def test_one_directory_is_answered_with_a_time_limit_and_the_nearest_runs(history, new, tmp_path):
    write_parquet(history, tmp_path / "jobs.parquet")
    words = ("vasp", "estimate", new, "--history", tmp_path / "jobs.parquet", "--procs", 64, "--predictor", "forest")
    printed = run(*words).stdout
    assert "likely run time 3 h" in printed or "likely run time 2 h 5" in printed
    assert "#SBATCH --time=03:" in printed
    # every finished job is learned, not only the jobs before the last refit
    assert "forest on 120 finished jobs" in printed
    assert "/scratch/run" in printed
    (row,) = json.loads(run(*words, "--json").stdout)["results"]
    assert row["run_s"] == pytest.approx(10_800, rel=0.1)
    assert row["run_s"] <= row["bound_s"] <= row["limit_s"]
    assert row["limit_s"] % 300 == 0
    assert [one["differs"] for one in row["nearest"]] == [{}] * 3


def test_the_nearest_run_of_a_new_cutoff_says_what_differs(history, working_directory):
    (one,) = estimate(history, [working_directory("far", INCAR="ENCUT = 520\n")], procs=32, predictor="recent_mean")
    assert one.is_fallback
    assert one.nearest[0].differs["encut"] == (500.0, 520.0)
    assert one.nearest[0].differs["core_num"] == (64.0, 32.0)


def test_a_damaged_directory_does_not_spoil_the_others(history, new, working_directory, tmp_path):
    write_parquet(history, tmp_path / "jobs.parquet")
    bad = working_directory("bad", POSCAR="salt\n1.0\n4 0 0\n0 4\n")
    words = ("vasp", "estimate", new, bad, tmp_path, "--history", tmp_path / "jobs.parquet", "--procs", 64)
    rows = json.loads(run(*words, "--predictor", "forest", "--json").stdout)["results"]
    assert rows[0]["problem"] == ""
    assert "POSCAR:4" in rows[1]["problem"]
    assert "INCAR: is missing" in rows[2]["problem"]
    assert "POSCAR:4" in run(*words, "--predictor", "forest").stdout.replace("\n", "")
    with pytest.raises(InputError, match=r"POSCAR:4"):
        run("vasp", "estimate", bad, "--history", tmp_path / "jobs.parquet", "--procs", 64)


def test_a_young_history_answers_from_past_jobs_and_says_so(new):
    (one,) = estimate(finished(12, read_features(new).values), [new], procs=64, columns={"user_id": "ada"})
    assert one.is_fallback
    assert "boosted is not trained yet (12 finished jobs with features)" in one.basis


def test_a_history_without_features_says_what_to_run(new):
    plain = Trace.from_arrays({"submit_time": [0.0], "run_time": [9.0]}, LogInfo(source="jobs.csv"))
    with pytest.raises(NoAnswer, match=r"jobs.csv has no features of input files(.|\n)*vasp collect"):
        estimate(plain, [new], procs=8)
    unread = finished(3, read_features(new).values).with_columns({"encut": np.full(3, np.nan)})
    with pytest.raises(NoAnswer, match="none of its 3 jobs has both"):
        estimate(unread, [new], procs=8)


def test_a_private_history_names_no_directory_of_others(new):
    hidden = finished(60, read_features(new).values, LogInfo(private=True))
    (one,) = estimate(hidden, [new], procs=64, predictor="recent_mean")
    assert {run.directory for run in one.nearest} == {None}
