"""Tests `batchcast sweep` on the command line: tasks are counted, run, resumed and reported, and failures are
listed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.errors import BatchcastError, UsageError
from batchcast.sweep import results
from batchcast.trace import demo_path

STUDY = f"""
replicates = 1
policies = ["easy", "easy-sjbf"]
predictors = ["requested"]
[cost]
seconds = 1800
[[log]]
path = "{demo_path()}"
name = "demo"
first = 300
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    place = tmp_path / "study.toml"
    place.write_text(STUDY)
    return place


def said(*words: object) -> str:
    done = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_dry_run_counts_and_runs_nothing(study: Path, tmp_path: Path) -> None:
    rows = json.loads(said("sweep", study, "--dry-run", "--workers", 2, "--json"))["results"]
    assert [(row["log"], row["tasks"], row["to_do"], row["core_hours"], row["wall_s"]) for row in rows] == [
        ("demo", 4, 4, 2.0, 3600.0),
        ("all", 4, 4, 2.0, 3600.0),
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study.toml"]


def test_run_resume_and_report(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = json.loads(said("sweep", study, "-o", out, "--workers", 1, "--json"))["settings"]
    assert (first["tasks"], first["finished_before"], first["kept"]) == (4, 0, 4)
    study.write_text(STUDY.replace('"easy-sjbf"]', '"easy-sjbf", "fcfs"]'))
    again = json.loads(said("sweep", study, "-o", out, "--workers", 1, "--json"))["settings"]
    assert (again["tasks"], again["finished_before"], again["kept"]) == (6, 4, 2)
    document = json.loads(said("sweep", "report", out, "--against", "easy, requested", "--json"))
    rows = document["results"]
    assert [(row["policy"], row["without"]) for row in document["ablation"]] == [("easy-sjbf", "backfill_order=sjf")]
    assert [row["policy"] for row in rows] == ["easy", "easy-sjbf", "fcfs"]
    assert rows[2]["mean_wait_s"] > rows[0]["mean_wait_s"]
    assert "on the log itself" in said("sweep", "report", out)
    said("sweep", "report", out, "-o", tmp_path / "frontier.svg")
    drawn = ElementTree.parse(tmp_path / "frontier.svg").getroot()
    assert len(drawn.findall("{*}circle")) == 3
    assert "fcfs, users' limits" in "".join(drawn.itertext())
    measured = json.loads(said("sweep", study, "-o", out, "--dry-run", "--json"))
    assert measured["results"][0]["to_do"] == 0
    assert "measured" in measured["settings"]["seconds"]


def test_a_failing_task_ends_with_exit_code_one_and_the_others_are_kept(study: Path, tmp_path: Path) -> None:
    study.write_text(STUDY + '[[period]]\n[[period]]\nname = "never"\nfrom = "2200-01-01"\n')
    done = CliRunner().invoke(cli, ["sweep", str(study), "-o", str(tmp_path / "out"), "--workers", "1"])
    assert isinstance(done.exception, BatchcastError)
    assert "4 tasks failed" in str(done.exception)
    assert "failed: demo, never, easy with requested" in done.stderr
    assert results(tmp_path / "out").height == 4


def test_what_cannot_be_is_refused(study: Path, tmp_path: Path) -> None:
    for words, message in (
        (["--pool", "mars"], "accepted: local, slurm, tcp://"),
        (["--pool", "slurm"], "name the network interface"),
    ):
        with pytest.raises(UsageError, match=message):
            said("sweep", study, "-o", tmp_path / "out", *words)


@pytest.mark.long
def test_ctrl_c_ends_it_and_the_same_command_goes_on(study: Path, tmp_path: Path) -> None:
    study.write_text(STUDY.replace("replicates = 1", "replicates = 200"))
    out, command = tmp_path / "out", [sys.executable, "-m", "batchcast", "sweep", str(study), "--workers", "1", "-o"]
    process = subprocess.Popen([*command, str(out)], stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list(out.glob("results/log=demo/*.parquet")):
        os.sched_yield()
    process.send_signal(signal.SIGINT)
    spoken = process.communicate(timeout=60)[1]
    assert process.returncode == 130, spoken
    assert "nothing was left half written" in spoken
    assert "Traceback" not in spoken
    kept = len(list(out.glob("results/log=demo/*.parquet")))
    assert 0 < kept < 402
    study.write_text(STUDY)
    counts = json.loads(said("sweep", study, "-o", out, "--workers", 1, "--json"))["settings"]
    assert counts["finished_before"] >= 1, "the first tasks of the longer study are those of the shorter one"
