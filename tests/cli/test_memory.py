"""Tests memory on the command line: scores of predictions, suggested requests, and one message if a log lacks
memory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.naive.memory import memory_log

from batchcast.cli.main import cli
from batchcast.trace.write import write_csv

MACHINE = """
[[nodes]]
names = "n[1-4]"
cpus = 8
memory_mib = 64000

[[partition]]
name = "all"
nodes = "n[1-4]"
default = true
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "log.csv"
    write_csv(memory_log(900, 5, per_node=True), path)
    return path


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    path = tmp_path / "machine.toml"
    path.write_text(MACHINE)
    return path


def results(*arguments: str) -> dict:
    result = CliRunner().invoke(cli, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_memory_is_forecast_by_the_usual_methods_in_mebibytes(log: Path) -> None:
    document = results("runtime", str(log), "--memory", "--by", "user")
    rows = {row["predictor"]: row for row in document["results"] if "group" not in row}
    assert list(rows) == ["requested", "kernel", "last_2", "recent_mean", "largest_recent"]
    assert document["settings"]["target"] == "memory"
    assert {row["per"] for row in rows.values()} == {"node"}
    assert rows["kernel"]["mae_mib"] < rows["recent_mean"]["mae_mib"] < rows["requested"]["mae_mib"]
    assert 0.8 < rows["kernel"]["coverage_90"] < 1.0
    text = " ".join(CliRunner().invoke(cli, ["runtime", str(log), "--memory"]).stdout.split())
    assert "Predictions of peak memory" in text
    assert "ran out of memory and are not scored" in text


def test_run_times_are_forecast_as_before_where_nothing_is_said(log: Path) -> None:
    rows = results("runtime", str(log), "--predictor", "requested,last_2")["results"]
    assert [row["predictor"] for row in rows] == ["requested", "last_2"]
    assert "mae_s" in rows[0]


def test_requests_are_advised_beside_the_rule_and_the_users_own(log: Path, machine: Path) -> None:
    arguments = ["limits", str(log), "--memory", "--step", "1M", "--floor", "1M", "--machine", str(machine)]
    document = results(*arguments, "--by", "user")
    rows = {row["limits"]: row for row in document["results"] if "group" not in row}
    assert list(rows) == ["advice", "least_waste", "rule_of_thumb", "own"]
    assert document["settings"]["node_mib"] == 64000
    assert rows["advice"]["killed_per_thousand"] < 80
    assert rows["least_waste"]["spent_over_used"] < rows["own"]["spent_over_used"]
    assert rows["least_waste"]["saved_nodes"] > 0
    assert {row["group"] for row in document["results"] if "group" in row} == {f"user{k}" for k in range(6)}
    text = " ".join(CliRunner().invoke(cli, arguments).stdout.split())
    assert "The requests of least waste spend" in text
    assert "GiB-hours less (on average the memory of" in text


def test_advice_is_never_above_the_node(log: Path, machine: Path) -> None:
    machine.write_text(MACHINE.replace("64000", "500"))
    rows = results("limits", str(log), "--memory", "--machine", str(machine), "--by", "user")["results"]
    assert max(row["latest_limit_mib"] for row in rows if row["limits"] != "own") <= 500


def test_without_a_machine_the_node_is_said_to_be_unknown(log: Path) -> None:
    result = CliRunner().invoke(cli, ["limits", str(log), "--memory"])
    assert "--machine FILE converts this to nodes" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["limits", "LOG", "--machine", "x.toml"], "only applies with --memory"),
        (["limits", "LOG", "--memory", "--step", "5:00"], "not a memory size"),
        (["limits", "LOG", "--step", "64G"], "not a time"),
        (["limits", "PLAIN", "--memory"], "has no used memory"),
        (["runtime", "PLAIN", "--memory"], "has no used memory"),
        (["runtime", "COPY", "--memory"], "it is a copy and not a measurement"),
    ],
)
def test_what_cannot_be_answered_is_one_message(log: Path, tmp_path: Path, arguments: list[str], words: str) -> None:
    full = memory_log(60, 1)
    write_csv(full.with_columns({"used_mem_kib": np.full(60, np.nan)}), tmp_path / "plain.csv")
    write_csv(full.with_columns({"used_mem_kib": full.number("req_mem_kib")}), tmp_path / "copy.csv")
    places = {"LOG": str(log), "PLAIN": str(tmp_path / "plain.csv"), "COPY": str(tmp_path / "copy.csv")}
    result = CliRunner().invoke(cli, [places.get(word, word) for word in arguments])
    assert result.exit_code != 0
    assert words in str(result.exception) + result.output


def test_what_if_jobs_were_placed_by_the_memory_advised(log: Path, machine: Path) -> None:
    machine.write_text(
        MACHINE.replace("n[1-4]", "n1").replace("cpus = 8", "cpus = 64")
        + '\n[settings]\nSelectTypeParameters = "CR_Core_Memory"\n'
    )
    arguments = [
        "whatif",
        str(log),
        "--machine",
        str(machine),
        "--vary",
        "memory=forecast",
        "--vary",
        "memory=least_waste",
    ]
    document = results(*arguments)
    rows = {row["policy"]: row for row in document["results"] if row["part"] == "variant"}
    assert list(rows) == ["now", "memory=forecast", "memory=least_waste"]
    assert "out_of_memory" not in rows["now"]
    assert rows["memory=forecast"]["out_of_memory"] <= rows["memory=least_waste"]["out_of_memory"]
    assert rows["memory=forecast"]["mean_wait_s"] < rows["now"]["mean_wait_s"]
    assert any("ran again with their own request" in note for note in document["warnings"])
    wrong = CliRunner().invoke(cli, [*arguments[:4], "--vary", "memory=none"])
    assert "accepted: forecast, forecast:RISK" in str(wrong.exception) + wrong.output


def test_a_synthetic_log_has_memory_where_it_is_asked_for(tmp_path: Path) -> None:
    arguments = ["synth", "--jobs", "300", "--waits", "none", "--seed", "3"]
    for name, more in (("with.csv", ["--memory"]), ("without.csv", [])):
        made = CliRunner().invoke(cli, [*arguments, "-o", str(tmp_path / name), *more])
        assert made.exit_code == 0, made.output
    told = {
        name: next(row for row in results("info", str(tmp_path / name))["results"] if row["part"] == "memory")
        for name in ("with.csv", "without.csv")
    }
    assert (told["with.csv"]["asked"], told["without.csv"]["asked"]) == (300, 0)
    assert told["with.csv"]["per"] == "processor"
    assert told["with.csv"]["out_of_memory"] > 0
    wrong = CliRunner().invoke(cli, ["synth", "--compare", "x.swf", "--memory"])
    assert "--memory does not go with --compare" in str(wrong.exception) + wrong.output
