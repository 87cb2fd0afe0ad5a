"""Tests `batchcast evaluate`: the files that it writes, the text that it prints, and the options that it rejects."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click import unstyle
from click.testing import CliRunner, Result

from batchcast.cli.main import cli
from batchcast.errors import UsageError


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return write_log(tmp_path / "small <i>log.swf", "; MaxProcs: 8")


def write_log(path: Path, *header: str, waits: int = 1) -> Path:
    lines = [*header, "; UnixStartTime: 0"]
    for k in range(120):
        run, procs = (-1 if k == 7 else 10 + 37 * k % 400), 1 + k % 8
        lines.append(f"{k + 1} {k * 60} {waits * (k % 9)} {run} {procs} -1 -1 {procs} 600 -1 1 {k % 3} 1 -1 1 -1 -1 -1")
    path.write_text("\n".join(lines) + "\n")
    return path


def run(log: Path, out: Path, *options: str) -> Result:
    result = CliRunner().invoke(cli, ["evaluate", str(log), "-o", str(out), *options])
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.lightgbm
def test_it_leaves_page_numbers_and_schedules(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    result = run(log, out)
    document = json.loads((out / "result.json").read_text())
    assert document["schema"] == "batchcast/evaluate/1"
    parts = [row["part"] for row in document["results"]]
    first, *parts = parts
    assert first == "first_screen"
    steps = ["step"] * parts.count("step")
    assert parts == ["forecast"] * 4 + ["schedule"] * 15 + steps + ["waste"] * 4 + ["validity", "wait"]
    whole, *users = (row for row in document["results"] if row["part"] == "waste")
    assert sum(row["used_core_h"] for row in users) == pytest.approx(whole["used_core_h"])
    for row in document["results"]:
        if row["part"] == "schedule":
            with (out / row["schedule_file"]).open() as file:
                jobs = list(csv.DictReader(file))
            assert len(jobs) == 119
            waits = [float(job["start_time"]) - float(job["submit_time"]) for job in jobs]
            assert sum(waits) / len(waits) == pytest.approx(row["mean_wait_s"])
    html = (out / "index.html").read_text()
    assert "small &lt;i&gt;log.swf" in html
    assert "Validity." in html
    assert len(result.stdout.splitlines()) <= 24
    assert str(out / "index.html") in result.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report", "small <i>log.swf"]


def test_json_is_the_file(log: Path, tmp_path: Path) -> None:
    result = run(log, tmp_path / "r", "--json", "--policy", "fcfs", "--predictor", "last_2:need=2,round=down")
    document = json.loads(result.stdout)
    assert document == json.loads((tmp_path / "r" / "result.json").read_text())
    rows = [(r["policy"], r["predictor"]) for r in document["results"] if r["part"] == "schedule"]
    assert rows == [("fcfs", "requested"), ("fcfs", "last_2:need=2,round=down"), ("fcfs", "actual")]
    assert document["settings"]["seed"] == 0
    assert "1 job never ran, not scored" in document["warnings"]


def test_without_a_machine_size_it_says_why_nothing_is_simulated(tmp_path: Path) -> None:
    log = write_log(tmp_path / "unsized.swf", waits=600)
    result = run(log, tmp_path / "r")
    html = (tmp_path / "r" / "index.html").read_text()
    details = run(log, tmp_path / "r", "--details")
    for text in (" ".join(details.stdout.split()), html):
        assert "Nothing was simulated" in text
        assert "the machine's size is unknown" in text.replace("&#39;", "'")
    assert not (tmp_path / "r" / "schedules").exists()
    assert "--procs-total" in result.stdout
    sized = run(log, tmp_path / "r", "--procs-total", "16")
    assert "Nothing was simulated" not in sized.stdout
    assert (tmp_path / "r" / "schedules" / "easy.last_2.csv").exists()


def test_a_wrong_policy_is_told_before_any_work(log: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["evaluate", str(log), "-o", str(tmp_path / "r"), "--policy", "best"])
    assert "fcfs, easy, easy-sjbf" in str(result.exception)
    assert not (tmp_path / "r").exists()


def test_details_on_a_terminal_begin_with_the_record_before_anything_is_computed(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ["--color", "always", "evaluate", str(log), "-o", str(tmp_path / "r"), "--policy", "fcfs", "--details"]
    piped = run(log, tmp_path / "piped", "--policy", "fcfs", "--details").stdout
    shown = unstyle(CliRunner().invoke(cli, given).stdout)
    assert shown.startswith("Contents of the log")
    assert not piped.startswith("Contents of the log")
    told = [[line.strip() for line in text.splitlines() if line.strip()][:-1] for text in (shown, piped)]
    assert sorted(told[0]) == sorted(told[1])  # each line appears once; the last line names the folder

    def nothing_more(*args: object, **given: object) -> None:
        raise UsageError("nothing more")

    monkeypatch.setattr("batchcast.evaluation.evaluation.evaluate", nothing_more)
    early = unstyle(CliRunner().invoke(cli, given).stdout)
    assert shown.startswith(early)
    assert all(words in early for words in ("119 jobs", "of their time limit"))
    assert "Contents of the log" not in CliRunner().invoke(cli, given[2:]).stdout


def test_a_log_of_one_job_is_a_report_too(tmp_path: Path) -> None:
    log = tmp_path / "one.swf"
    log.write_text("; MaxProcs: 4\n; UnixStartTime: 0\n1 0 0 5 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n")
    run(log, tmp_path / "r")
    assert (tmp_path / "r" / "index.html").exists()


def test_a_log_in_which_nothing_ran_is_a_report_too(tmp_path: Path) -> None:
    log = tmp_path / "none.swf"
    log.write_text("; MaxProcs: 4\n; UnixStartTime: 0\n1 0 0 -1 1 -1 -1 1 60 -1 5 1 1 -1 1 -1 -1 -1\n")
    run(log, tmp_path / "r")
    assert (tmp_path / "r" / "index.html").exists()
