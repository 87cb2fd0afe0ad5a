"""Tests `batchcast limits`: suggested limits that respect their risk, compared with the usual rule and the users'
limits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.evaluation.differences import Comparison, ResultRow
from batchcast.evaluation.limits import advice_words, find_limits, limit_rows
from batchcast.metrics.paired import Difference
from batchcast.table import Trace


@pytest.fixture
def log(tmp_path: Path) -> Path:
    lines = ["; MaxProcs: 8", "; UnixStartTime: 0"]
    for k in range(400):
        run = 600 + 60 * (k * 7 % 10)
        lines.append(f"{k + 1} {k * 3000} 0 {run} 4 -1 -1 4 36000 -1 1 {k % 3} 1 {k % 2} {k % 2} -1 -1 -1")
    path = tmp_path / "small.swf"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_steady_users_are_told_to_ask_for_far_less(log: Path) -> None:
    result = CliRunner().invoke(cli, ["limits", str(log), "--json", "--by", "user"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    whole = {row["limits"]: row for row in document["results"] if "group" not in row}
    assert document["schema"] == "batchcast/limits/1"
    assert document["settings"]["risk"] == 0.05
    assert whole["own"]["killed_per_thousand"] == 0
    assert whole["advice"]["over_request_core_h"] < 0.2 * whole["own"]["over_request_core_h"]
    assert whole["advice"]["killed_per_thousand"] < 80
    assert {row["group"] for row in document["results"] if "group" in row} == {"0", "1", "2"}


def test_what_is_saved_and_killed_stands_with_its_interval_against_the_users_own_and_the_usual_rule(log: Path) -> None:
    lines = log.read_text().splitlines()
    for k, line in enumerate(lines[2:], 2):
        words = line.split()
        lines[k] = " ".join([words[0], str(10 * int(words[1])), *words[2:]])  # the log spans ten times as many weeks
    log.write_text("\n".join(lines) + "\n")
    arguments = ["limits", str(log)]
    document = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)
    rows = {row["limits"]: row for row in document["results"]}
    advice, own = rows["advice"], rows["own"]
    for metric in ("mean_unused_core_h", "killed_beyond_own_per_thousand"):
        assert advice["differences"][metric]["value"] == pytest.approx(advice[metric] - own[metric])
    assert advice["differences"]["mean_unused_core_h"]["groups"] >= 20
    assert advice["differences"]["mean_unused_core_h"]["high"] < 0
    assert advice["differences"]["mean_unused_core_h"]["verdict"] == "ahead"
    saved = advice["mean_unused_core_h"] - rows["rule_of_thumb"]["mean_unused_core_h"]
    assert advice["rule_differences"]["mean_unused_core_h"]["value"] == pytest.approx(saved)
    short = CliRunner().invoke(cli, arguments).stdout
    assert f"{advice['differences']['mean_unused_core_h']['value']:.1f} (" in short, "beside the figures themselves"
    assert "Differences with 90 % intervals" not in short
    text = " ".join(CliRunner().invoke(cli, [*arguments, "--details"]).stdout.split())
    assert "against users' limits" in text
    assert "Advice against 1.25 x longest of 10: unused core-hours a job" in text


def test_what_a_log_cannot_tell_from_nothing_is_not_called_saved() -> None:
    rows = limit_rows(find_limits(few_groups()))
    assert {row["limits"]: row for row in rows}["advice"]["differences"]["mean_unused_core_h"].verdict == "unknown"
    assert "a difference that may be chance on this log" in advice_words(rows, 0.05)


@pytest.mark.parametrize(("ended_early", "verdict", "is_recommended"),
                         [(45.0, "behind", True), (55.0, "behind", False), (45.0, "level", False)])  # fmt: skip
def test_the_plain_rule_is_recommended_where_it_wastes_less_at_the_promised_risk(
    ended_early: float, verdict: str, is_recommended: bool
) -> None:
    """A log like LPC: the usual rule ends 45 of 1,000 jobs early, within the allowed 50, and leaves a third as many
    core-hours unused."""
    rows = [
        {"limits": rule, "killed_beyond_own_per_thousand": early, "over_request_core_h": unused}
        for rule, early, unused in (("advice", 17.6, 1_141_185.0), ("rule_of_thumb", ended_early, 349_771.0),
                                    ("own", 0.0, 4_914_766.0))
    ]  # fmt: skip
    beside = {"mean_unused_core_h": Difference(4.0, verdict=verdict)}
    compared = Comparison(5.0, 0.9, 0.0, 1.0, rule_differences=beside)
    rows = [ResultRow({**row, "mean_unused_core_h": row["over_request_core_h"] / 2e5}, compared) for row in rows]
    said = advice_words(rows, 0.05)
    assert ("Recommended on this log: the plain rule" in said) is is_recommended
    assert ("791,414 core-hours less unused than the advice" in said) is is_recommended


def test_the_risk_column_counts_only_what_a_rule_adds_to_the_users_own_limits(tmp_path: Path) -> None:
    """Every second job is ended by its user's own limit, which is no risk of the suggested limit."""
    path = tmp_path / "cut.swf"
    jobs = (f"{k} {k * 9000} 0 {600 + 3000 * (k % 2)} 1 -1 -1 1 3600 -1 1 1 1 -1 -1 -1 -1 -1" for k in range(1, 400))
    path.write_text("; MaxProcs: 8\n" + "\n".join(jobs) + "\n")
    result = CliRunner().invoke(cli, ["limits", str(path)])
    assert result.exit_code == 0, result.output
    own = next(line for line in result.stdout.splitlines() if line.strip().startswith("users' limits"))
    assert own.split()[3] == "0.00"  # with the jobs that were ended by their own limits, the figure would be 501


def few_groups() -> Trace:
    """A log of 400 jobs of one user in less than 20 weeks."""
    return Trace.from_arrays(
        {
            "submit_time": np.arange(400) * 3000.0,
            "wait_time": np.zeros(400),
            "run_time": np.full(400, 600.0),
            "req_time": np.full(400, 36_000.0),
            "req_procs": np.ones(400),
            "user_id": ["ada"] * 400,
        }
    )


@pytest.mark.long
def test_the_sentence_says_what_is_saved(log: Path) -> None:
    result = CliRunner().invoke(cli, ["limits", str(log), "--risk", "10%", "--step", "1:00"])
    assert result.exit_code == 0, result.output
    assert "core-hours less than the users' limits" in result.stdout
    assert "users' limits" in result.stdout


def test_a_job_cut_by_its_own_limit_is_no_proof_against_a_longer_one() -> None:
    trace = Trace.from_arrays(
        {
            "submit_time": [0.0, 10_000.0, 20_000.0],
            "wait_time": [0.0] * 3,
            "run_time": [3600.0, 100.0, 600.0],
            "req_time": [3600.0, 36_000.0, 600.0],
            "req_procs": [1, 1, 1],
            "user_id": ["ada"] * 3,
        }
    )
    rows = {row["limits"]: row for row in limit_rows(find_limits(trace))}
    assert rows["own"]["killed_per_thousand"] == pytest.approx(2000 / 3)
    assert rows["own"]["killed_beyond_own_per_thousand"] == 0
    assert rows["rule_of_thumb"]["undecided_per_thousand"] == pytest.approx(1000 / 3)


def test_a_log_without_limits_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "none.swf"
    path.write_text("; MaxProcs: 8\n1 0 0 10 1 -1 -1 1 -1 -1 1 1 1 -1 -1 -1 -1 -1\n")
    result = CliRunner().invoke(cli, ["limits", str(path)], standalone_mode=False)
    assert "had a limit" in str(result.exception)
