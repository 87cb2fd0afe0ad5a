"""Tests verbs that read several logs, also in the form of `sacct --json`, and count common jobs once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli

SUBMIT = 1772359200
WORDS = {
    "info": [],
    "convert": ["-o", "out.csv"],
    "runtime": ["--predictor", "requested"],
    "wait": ["--predictor", "recent_wait"],
    "evaluate": ["--predictor", "requested"],
    "report": ["--each"],
}
"""The options that each verb needs in this test."""


def one(k: int) -> dict[str, object]:
    """A job as `sacct --json` prints it with data_parser v0.0.44."""
    submit = SUBMIT + 100 * k
    times = {"submission": submit, "eligible": submit, "start": submit + 10, "end": submit + 70 + k, "elapsed": 60 + k}
    return {
        "job_id": k, "user": "ada", "partition": "main", "account": "phys", "name": "relax", "cluster": "c",
        "state": {"current": ["COMPLETED"], "reason": "None"}, "nodes": "n1", "allocation_nodes": 1, "steps": [],
        "time": {**times, "limit": {"set": True, "infinite": False, "number": 60}},
        "required": {"CPUs": 4}, "tres": {"requested": [{"type": "cpu", "count": 4}],
                                          "allocated": [{"type": "cpu", "count": 4}]},
    }  # fmt: skip


def dump(jobs: range) -> str:
    return json.dumps({"jobs": [one(k) for k in jobs], "meta": {"plugin": {"data_parser": "data_parser/v0.0.44"}}})


@pytest.mark.parametrize("verb", WORDS)
def test_two_dumps_of_json_count_common_jobs_once(verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("january.json").write_text(dump(range(1, 31)))
    Path("february.json").write_text(dump(range(21, 51)))
    done = CliRunner().invoke(cli, [verb, "january.json", "february.json", *WORDS[verb], "--json"])
    assert done.exit_code == 0, done.output
    assert "10 records left out (identical to another record)" in done.output
    document = json.loads(done.stdout)
    if verb == "report":
        assert len(document["results"]) == 50
    elif verb == "convert":
        assert len(Path("out.csv").read_text().splitlines()) == 51
    else:
        assert document["log"]["jobs"] == 50
