"""Tests that a reproduction that was run before reads its stored results and prints the same."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli


@pytest.mark.long
def test_a_second_run_computes_nothing_and_prints_the_same(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATCHCAST_SHARED", str(shared))
    words = [
        "reproduce",
        "su",
        "--data-set",
        "NREL",
        "--first",
        "80",
        "--every",
        "40",
        "-o",
        str(tmp_path / "su"),
        "--json",
    ]
    once, again = (CliRunner().invoke(cli, words) for _ in range(2))
    assert (once.exit_code, again.exit_code) == (0, 0), once.output
    assert "2 parts computed, 0 found" in once.stderr
    assert "0 parts computed, 2 found" in again.stderr
    first, second = json.loads(once.stdout), json.loads(again.stdout)
    assert first["results"] == second["results"]
    assert {row["table"] for row in second["results"]} >= {"5", "class"}
