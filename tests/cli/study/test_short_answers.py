"""Tests that the answers of the verbs about logs fit a terminal of 24 lines of 100 characters."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cluster import cluster_path

import batchcast
from batchcast.cli import output
from batchcast.cli.main import cli

LOG = str(batchcast.demo_path())
MACHINE = str(cluster_path().with_name("cluster.toml"))
LINES, CHARACTERS = 24, 100


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["evaluate", LOG, "--first", "600"], marks=pytest.mark.long),  # compiles most kernels
        ["wait", LOG, "--first", "600", "--predictor", "recent_wait,recent_wait:k=9"],
        ["runtime", LOG, "--first", "600"],
        ["simulate", LOG, "--first", "600", "--policy", "easy,easy-sjbf"],
        ["whatif", str(cluster_path()), "--first", "600", "--machine", MACHINE, "--vary", "nodes=+10%"],
        ["limits", LOG, "--first", "600"],
        pytest.param(["demo"], marks=pytest.mark.long),
    ],
    ids=lambda words: words[0],
)
def test_the_answer_fits_a_terminal(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "IN_A_PIPE", CHARACTERS)  # lines as wide as a terminal's
    monkeypatch.chdir(tmp_path)  # `evaluate` and `demo` write a report
    run = CliRunner().invoke(cli, words)
    assert run.exit_code == 0, run.output
    lines = run.stdout.rstrip("\n").split("\n")
    assert len(lines) <= LINES, run.stdout
    assert any(line.startswith("Next: ") for line in lines), "one next step"
    assert any("--details" in line for line in lines[-2:]), "how to see everything else"
    assert max(map(len, lines)) <= CHARACTERS, run.stdout
