"""Tests `batchcast synth`: the requested log in the format of the file's ending, the comparison, and rejected
options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from batchcast.cli.logs.synth import command
from batchcast.errors import UsageError
from batchcast.trace import demo_path, read_trace


def synth(*words: str) -> str:
    return CliRunner().invoke(command, words, catch_exceptions=False, standalone_mode=False).stdout


@pytest.mark.parametrize("ending", [".swf", ".swf.gz", ".parquet", ".csv"])
def test_a_log_is_written_that_says_how_it_was_made(tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"made{ending}"
    synth("-o", str(out), "--jobs", "400", "--procs-total", "48", "--seed", "9", "--longest", "12:00:00")
    if ending == ".csv":
        assert len(out.read_text().splitlines()) == 401
        return
    log = read_trace(out)
    assert len(log) == 400
    assert log.info.max_procs == 48
    assert log.req_time.max() == 43200.0
    if ending == ".swf":
        assert "; Seed: 9" in out.read_text()
        assert "Lublin" in out.read_text()


def test_the_document_echoes_every_setting(tmp_path: Path) -> None:
    out = str(tmp_path / "made.swf")
    doc = json.loads(synth("-o", out, "--jobs", "100", "--json"))
    assert doc["schema"] == "batchcast/synth/1"
    assert doc["settings"]["users"] == 20
    assert doc["settings"]["longest_s"] == 172800.0
    assert doc["results"] == [{"jobs": 100}]


def test_a_log_and_one_like_it_side_by_side() -> None:
    doc = json.loads(synth("--compare", str(demo_path()), "--json"))
    real, made = doc["results"]
    assert real["log"] == made["log"] == str(demo_path())
    assert made["workload"] == "synthetic"
    assert 0 < made["distance_run_time"] < 1
    assert made["load"] == pytest.approx(real["load"], rel=0.01)
    assert real["jobs"] == made["jobs"]
    assert "distance" in synth("--compare", str(demo_path()))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to do"),
        (["-o", "a.xls"], "ending names no format"),
        (["-o", "a.swf", "--compare", "b.swf"], "writes nothing"),
        (["-o", "a.swf", "--load", "0"], "load: not 0"),
        (["-o", "a.swf", "--longest", "long"], "long"),
    ],
)
def test_what_makes_no_sense_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        synth(*words)
