"""Tests the four data sets of the kNN-GA paper: selection, jobs, and the errors of two simple predictors (honest
protocol)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli

SETS = {
    "HPC2N04": ("HPC2N-2002-2.2-cln", ["--from", "2004-01-01", "--to", "2005-01-01"], 81934),
    "HPC2N05": ("HPC2N-2002-2.2-cln", ["--from", "2005-01-01"], 55389),
    "SDSC02": ("SDSC-BLUE-2000-4.2-cln", ["--from", "2002-01-01", "--timezone", "+01:00", "--status", "1"], 80756),
    "SDSC04": ("SDSC-DS-2004-2.1-cln", ["--status", "1"], 66744),
}
PRINTED = {
    "HPC2N04": {"last_2": (8733, 0.477), "recent_mean": (7803, 0.491)},
    "HPC2N05": {"last_2": (25972, 0.476), "recent_mean": (21459, 0.469)},
    "SDSC02": {"last_2": (1715, 0.459), "recent_mean": (1482, 0.427)},
    "SDSC04": {"last_2": (3061, 0.461), "recent_mean": (2784, 0.474)},
}


@pytest.mark.shared
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in ("HPC2N04", "SDSC02") else n for n in SETS]
)
def test_the_papers_selection_gives_the_printed_figures(shared: Path, name: str) -> None:
    log, selection, jobs = SETS[name]
    arguments = ["runtime", str(shared / "traces" / f"{log}.swf.gz"), *selection]
    result = CliRunner().invoke(cli, [*arguments, "--predictor", "last_2,recent_mean", "--json"])
    assert result.exit_code == 0, result.output
    rows = {row["predictor"]: row for row in json.loads(result.stdout)["results"]}
    for predictor, (error, underestimates) in PRINTED[name].items():
        assert rows[predictor]["jobs"] == jobs
        assert rows[predictor]["mae_s"] == pytest.approx(error, rel=0.005)
        assert rows[predictor]["underestimate_rate"] == pytest.approx(underestimates, rel=0.005)
