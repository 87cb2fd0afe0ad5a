"""Tests `batchcast compare`: whether two reports are comparable, what changed, and the message for a file that is no
report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from batchcast.cli.main import cli
from batchcast.errors import BatchcastError
from batchcast.trace.schedule import read_schedule


def write_log(path: Path, jobs: int = 400, stretch: int = 3600) -> Path:
    rng = np.random.default_rng(2)
    lines = ["; MaxProcs: 8", "; UnixStartTime: 0"]
    for k in range(jobs):
        run = int(rng.integers(60, 9000))
        lines.append(f"{k + 1} {k * stretch} 0 {run} 4 -1 -1 {1 + k % 8} 9000 -1 1 {k % 12} 1 -1 1 -1 -1 -1")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Report folders: `a`, `b` (the predictor learned from the recorded ends) and `other` (another log)."""
    place = tmp_path_factory.mktemp("reports")
    log, other = write_log(place / "log.swf"), write_log(place / "other.swf", 380)
    for name, path, *options in (
        ("a", log),
        ("b", log, "--loop", "open"),
        ("again", log),
        ("half", log, "--score-from", "1970-01-08"),
        ("other", other),
    ):
        done = CliRunner().invoke(
            cli, ["evaluate", str(path), "-o", str(place / name), "--predictor", "last_2", "--policy", "easy", *options]
        )
        assert done.exit_code == 0, done.output
    return place


def compare(reports: Path, *given: str) -> Result:
    return CliRunner().invoke(cli, ["compare", *(str(reports / g) if (reports / g).exists() else g for g in given)])


def rows(reports: Path, *given: str) -> dict[str, list[dict[str, object]]]:
    document = json.loads(compare(reports, *given, "--json").stdout)
    assert document["schema"] == "batchcast/compare/1"
    assert document["settings"]["seed"] == 0
    parts: dict[str, list[dict[str, object]]] = {}
    for row in document["results"]:
        parts.setdefault(row["part"], []).append(row)
    return {**parts, "warnings": document["warnings"]}


def test_a_report_compared_with_its_like_differs_in_nothing(reports: Path) -> None:
    result = compare(reports, "a", "again/result.json")
    assert result.exit_code == 0, result.output
    assert "The same log, settings and results." in result.stdout
    assert "seed 0" in result.stdout
    assert not rows(reports, "a", "again")["warnings"]


def test_changes_are_b_minus_a_with_an_interval_around_them(reports: Path) -> None:
    found = rows(reports, "a", "b")
    assert [row["setting"] for row in found["setting"]] == ["loop"]
    row = next(r for r in found["schedule"] if r["predictor"] == "last_2")
    mean = {}
    for side in "ab":
        s = read_schedule(reports / side / "schedules" / "easy.last_2.csv")
        mean[side] = (s["start_time"] - s["submit_time"]).mean()
    change = row["differences"]["mean_wait_s"]
    assert change["value"] == pytest.approx(mean["b"] - mean["a"])
    assert change["low"] <= change["value"] <= change["high"]
    assert row["blocks"].startswith("36 groups of one user's submissions of one week")
    assert change["verdict"] in ("ahead", "level", "behind")
    assert any("loop" in text for text in found["warnings"])


@pytest.mark.long
def test_the_changes_of_forecasts_have_intervals_too(reports: Path, tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.swf", jobs=2000, stretch=500)
    for name, protocol in (("honest", "honest"), ("paper", "paper")):
        options = ["--predictor", "last_2", "--policy", "easy", "--protocol", protocol, "--loop", "open"]
        done = CliRunner().invoke(cli, ["evaluate", str(log), "-o", str(tmp_path / name), *options])
        assert done.exit_code == 0, done.output
    found = json.loads(compare(tmp_path, "honest", "paper", "--json").stdout)["results"]
    row = next(r for r in found if r["part"] == "forecast" and r["predictor"] == "last_2")
    for metric in ("mae_s", "apa", "underestimate_rate"):
        change = row["differences"][metric]
        assert change["value"] != 0
        assert change["low"] < change["value"] < change["high"]
    same = next(r for r in found if r["part"] == "forecast" and r["predictor"] == "requested")
    assert same["differences"]["mae_s"]["low"] == same["differences"]["mae_s"]["high"] == 0
    (tmp_path / "paper" / "forecasts.csv").unlink()
    assert "No interval: a report has no forecasts.csv." in compare(tmp_path, "honest", "paper").stdout
    told = " ".join(compare(reports, "a", "half").stdout.split())
    assert "No interval: other jobs were scored." in told


def test_other_logs_and_selections_are_not_like_for_like(reports: Path) -> None:
    told = " ".join(compare(reports, "a", "other").stdout.split())
    assert "Not like for like: the logs differ" in told
    assert "No interval: the schedules contain different jobs." in told
    told = " ".join(compare(reports, "a", "half").stdout.split())
    assert "score_from differ" in told
    assert "No interval: the figures cover only a part of the jobs" in told


def test_without_schedules_the_interval_is_not_available(reports: Path, tmp_path: Path) -> None:
    alone = tmp_path / "result.json"
    alone.write_text((reports / "a" / "result.json").read_text())
    assert "No interval: a schedule's file is missing." in compare(reports, "a", str(alone)).stdout


def test_what_only_one_has_is_said(reports: Path, tmp_path: Path) -> None:
    document = json.loads((reports / "a" / "result.json").read_text())
    document["results"] = [row for row in document["results"] if row.get("predictor") != "last_2"]
    (tmp_path / "result.json").write_text(json.dumps(document))
    found = rows(reports, "a", str(tmp_path))
    assert found["warnings"] == ["only A has forecast last_2", "only A has schedule easy last_2"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "does not exist"),
        ("folder", "without result.json"),
        ("{", "the JSON ends too early"),
        ("[1]", "was not written by batchcast"),
        ('{"schema": "batchcast/runtime/1"}', "the output of `batchcast runtime`"),
        ('{"schema": "batchcast/evaluate/9"}', "another version"),
        ('{"schema": "batchcast/evaluate/1", "results": []}', "has no log, settings or results"),
    ],
)
def test_what_is_no_report_is_told(reports: Path, tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "it"
    if text == "folder":
        path.mkdir()
    elif text is not None:
        path.write_text(text)
    result = compare(reports, "a", str(path))
    assert isinstance(result.exception, BatchcastError)
    assert words in str(result.exception)
    assert "evaluate" in str(result.exception)


def test_a_broken_schedule_is_named(reports: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("job,wait\n1,2\n")
    with pytest.raises(BatchcastError, match="is not a schedule"):
        read_schedule(path)
    whole = (reports / "a" / "schedules" / "easy.last_2.csv").read_text()
    path.write_text(whole + "7,x,1,2,3,4,0\n")
    with pytest.raises(BatchcastError, match=r"s\.csv"):
        read_schedule(path)


def test_the_page_says_the_verdict_first_and_draws_what_changed(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.swf", jobs=600, stretch=1800)
    for name, loop in (("a", "closed"), ("b", "open")):
        options = ["--predictor", "last_2", "--policy", "easy", "--loop", loop]
        done = CliRunner().invoke(cli, ["evaluate", str(log), "-o", str(tmp_path / name), *options])
        assert done.exit_code == 0, done.output
    page = tmp_path / "changes.html"
    result = compare(tmp_path, "a", "b", "-o", str(page))
    assert result.exit_code == 0, result.output
    text = page.read_text()
    short, *parts = text.split("<h2>")[1:]
    assert "Not like for like" in short
    assert "the loop differs: closed against open" in short
    assert "Settings that differ" in short
    assert [part.partition("<")[0] for part in parts] == ["Predictions", "Simulated schedules", "Provenance"]
    row = next(r for r in rows(tmp_path, "a", "b")["schedule"] if r["predictor"] == "last_2")
    assert row["differences"]["mean_wait_s"]
    assert "Differences in mean wait" in parts[1]
    assert "Waits, B minus A" in parts[1]
    assert "EASY with last_2" in parts[1]
    assert "EASY with requested" not in parts[1].partition("<figure>")[2]  # the prediction is the same in both reports
    assert "B minus A" not in parts[0]  # no prediction changed
    assert "none changed in mean error" in short


def test_a_page_of_the_same_draws_nothing(reports: Path, tmp_path: Path) -> None:
    assert compare(reports, "a", "again", "-o", str(tmp_path / "same.html")).exit_code == 0
    text = (tmp_path / "same.html").read_text()
    assert "The same log, settings and results." in text
    assert "<figure>" not in text


def test_beside_the_first_measure_stand_changes_alone_unless_all_columns_are_asked_for(reports: Path) -> None:
    """Checks the width in a pipe: the schedules' table once had 211 characters a line, half of them repeated from the
    reports."""
    short, whole = compare(reports, "a", "b"), compare(reports, "a", "b", "--details")
    widest = [max(map(len, done.stdout.split("Simulated schedules")[1].splitlines())) for done in (short, whole)]
    assert widest[0] < 170 < widest[1]
    assert "--details for everything else." in short.stdout
    assert "utilization A" in whole.stdout
    assert "utilization A" not in short.stdout
    assert "more:" not in whole.stdout
