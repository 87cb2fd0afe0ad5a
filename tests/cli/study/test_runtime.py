"""Tests `batchcast runtime`: keys, protocols, groups, and the message about jobs that are not scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli

KEYS = {
    *("predictor", "jobs", "mae_s", "median_ae_s", "apa", "underestimate_rate", "mean_shortfall_s", "p95_ae_s"),
    "seconds",
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    lines = ["; MaxProcs: 8", "; UnixStartTime: 0"]
    for k in range(40):
        run = -1 if k == 7 else 10 + k % 5
        lines.append(f"{k + 1} {k * 100} 0 {run} {1 + k % 8} -1 -1 {1 + k % 8} 600 -1 1 {k % 3} 1 -1 {k % 2} -1 -1 -1")
    path = tmp_path / "small.swf"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(*arguments: str) -> dict:
    result = CliRunner().invoke(cli, ["runtime", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_one_flat_row_per_predictor(log: Path) -> None:
    document = run(str(log), "--predictor", "last_2:need=2,round=down,recent_mean")
    assert document["schema"] == "batchcast/runtime/1"
    assert [row["predictor"] for row in document["results"]] == ["last_2:need=2,round=down", "recent_mean"]
    assert set(document["results"][0]) >= KEYS
    assert document["results"][0]["jobs"] == 39
    assert document["settings"]["protocol"] == "honest"
    assert document["settings"]["seed"] == 0


def test_jobs_that_never_ran_are_told(log: Path) -> None:
    document = run(str(log))
    assert document["log"]["never_ran"] == 1
    assert "1 job never ran and is not scored" in document["warnings"]


def test_both_protocols_say_which_is_which(log: Path) -> None:
    rows = run(str(log), "--protocol", "both", "--predictor", "last_2")["results"]
    assert [row["protocol"] for row in rows] == ["honest", "paper"]


@pytest.mark.parametrize(("by", "groups"), [("user", 3), ("queue", 2), ("size", 3), ("month", 1)])
def test_groups_add_up_to_all_jobs(log: Path, by: str, groups: int) -> None:
    rows = run(str(log), "--predictor", "last_2", "--by", by)["results"]
    assert sum(row["jobs"] for row in rows if "group" in row) == rows[0]["jobs"] == 39
    assert len({row["group"] for row in rows if "group" in row}) == groups


def test_a_site_that_is_private_names_no_user(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = {
        row["group"] for row in run(str(log), "--predictor", "last_2", "--by", "user")["results"] if "group" in row
    }
    monkeypatch.setenv("BATCHCAST_PRIVATE", "yes")
    document = run(str(log), "--predictor", "last_2", "--by", "user")
    hidden = {row["group"] for row in document["results"] if "group" in row}
    assert document["settings"]["private"] is True
    assert len(hidden) == len(named)
    assert not hidden & named
    again = run(str(log), "--predictor", "last_2", "--by", "user", "--named")["results"]
    assert {row["group"] for row in again if "group" in row} == named


def test_scoring_a_part_learns_from_everything(log: Path) -> None:
    rows = run(str(log), "--predictor", "last_2", "--score-from", "1970-01-01T01:00")["results"]
    assert rows[0]["jobs"] == 4
    assert rows[0]["mae_s"] < 10  # an untrained predictor would return the limit, which is ten minutes off


def test_the_table_says_protocol_and_selection(log: Path) -> None:
    result = CliRunner().invoke(cli, ["runtime", str(log), "--first", "20", "--protocol", "paper"])
    assert result.exit_code == 0
    assert "paper protocol" in result.stdout
    assert "first 20" in result.stdout
    heads = " ".join(result.stdout.split())
    assert "too 90 %" in heads, "how many predictions were too low, and how often the bound held"
    assert "low bound" in heads


def test_a_wrong_predictor_names_the_right_ones(log: Path) -> None:
    result = CliRunner().invoke(cli, ["runtime", str(log), "--predictor", "last_3"])
    assert result.exit_code != 0
    assert "last_2" in str(result.exception)
