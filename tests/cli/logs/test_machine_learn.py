"""Tests `machine learn` and `--machine learned` as a user sees them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from tests.cluster import cluster_path
from tests.forked import batchcast


def test_a_learned_machine_has_its_evidence_and_is_judged_on_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "machine.toml"
    done = batchcast("machine", "learn", str(cluster_path()), "-o", str(file))
    text = file.read_text()
    assert tomllib.loads(text)["name"] == "learned from the log's record"
    assert "# " in text
    assert "of the nodes are available on a usual day" in done.stderr
    assert "machine learned from the log's first part" in " ".join(done.stderr.split())
    assert "of the recorded waiting time" in text
    assert "Waiting time of the test jobs by cause" in done.stderr
    again = batchcast("simulate", str(cluster_path()), "--machine", str(file), "--json")
    assert json.loads(again.stdout)["results"]


def test_simulate_learns_in_one_step_and_scores_what_it_never_saw() -> None:
    done = json.loads(batchcast("simulate", str(cluster_path()), "--machine", "learned", "--json").stdout)
    jobs = done["log"]["jobs"]
    [validity] = [done["log"]["validity"]] if "validity" in done["log"] else [
        row for row in done["results"] if row.get("part") == "validity"
    ]  # fmt: skip
    assert validity["jobs"] <= jobs - int(0.6 * jobs)
    assert any(line.startswith("learned: ") for line in done["warnings"])


def test_the_causes_add_up_to_the_recorded_waiting_time() -> None:
    rows = json.loads(batchcast("machine", "learn", str(cluster_path()), "--json").stdout)["results"]
    shares = {row["kind"]: row["share"] for row in rows if row["part"] == "cause"}
    recorded = sum(share for kind, share in shares.items() if kind not in ("more", "turn", "later"))
    assert recorded == pytest.approx(1.0)
