"""`machine learn`, `--machine learned` and `machine prove` on an answer sheet, as a user sees them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from tests.forked import batchcast

from batchcast.trace.demo import cluster_path

DUMPS = {
    "node.txt": "NodeName=n1 CPUTot=8 RealMemory=8000 Sockets=1 ThreadsPerCore=1 State=IDLE Weight=1 Gres=(null)\n",
    "partition.txt": "PartitionName=all Nodes=n1 Default=YES MaxTime=1-00:00:00 DefaultTime=01:00:00 State=UP\n",
    "config.txt": "SchedulerType = sched/backfill\nPriorityType = priority/multifactor\n",
}
SETTINGS = "sim_id,fairshare,age,jobsize,bfwindow\n0,0,100,0,1440\n1,0,200,0,1440\n9,0,1,0,1\n"
HEADER = "User|JobID|Submit|Start|End|TimelimitRaw|ElapsedRaw|ReqCPUS|ReqNodes|Account|Partition|QOS\n"


def test_a_learned_machine_has_its_evidence_and_is_judged_on_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "machine.toml"
    done = batchcast("machine", "learn", str(cluster_path()), "-o", str(file))
    text = file.read_text()
    assert tomllib.loads(text)["name"] == "learned from the log's record"
    assert "# " in text
    assert "of the nodes are there on a usual day" in done.stderr
    assert "machine learned from the log's first part" in " ".join(done.stderr.split())
    assert "of their recorded waiting time" in text
    assert "Waiting time of the judged jobs by cause" in done.stderr
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


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    """Two settings of the age's weight, one run each, with the waits that any order gives."""
    for name, text in DUMPS.items():
        (tmp_path / "machine").mkdir(exist_ok=True)
        (tmp_path / "machine" / name).write_text(text)
    (tmp_path / "runs").mkdir()
    (tmp_path / "settings.csv").write_text(SETTINGS)
    for run in (0, 1):
        times = [
            (f"2025-01-01T0{k}:00:00", f"2025-01-01T0{k}:00:{10 + run}", f"2025-01-01T0{k}:30:00") for k in range(8)
        ]
        jobs = [f"u{k % 3}|{k + 1}|{'|'.join(when)}|60|1800|2|1|a|all|normal\n" for k, when in enumerate(times)]
        (tmp_path / "runs" / f"{run}.psv").write_text(HEADER + "".join(jobs))
    return tmp_path


def test_prove_sets_answers_beside_recorded_ones(sheet: Path) -> None:
    told = batchcast("machine", "prove", str(sheet)).stdout
    assert "2 runs of 2 settings" in told
    assert "From age 100 to 200: +1 s as recorded" in told
    assert "From fairshare" not in told  # it has one value
    assert "Farthest off as described: fairshare 0, age 200, jobsize 0: 11 s as recorded" in told
    rows = json.loads(batchcast("machine", "prove", str(sheet), "--json").stdout)["results"]
    runs = [row for row in rows if row["part"] == "run"]
    assert [row["run"] for row in runs] == ["0", "1"]
    assert [row["recorded_s"] for row in runs] == [10.0, 11.0]
    [agreement] = [row for row in rows if row["part"] == "agreement"]
    assert agreement["settings"] == 2


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda sheet: (sheet / "settings.csv").write_text("a,b\n1,2\n"), "no column sim_id"),
        (lambda sheet: (sheet / "settings.csv").write_text("sim_id,age\n7,1\n"), "none of the 1 runs"),
        (lambda sheet: (sheet / "machine" / "node.txt").unlink(), "machine"),
    ],
)
def test_a_sheet_that_cannot_be_read_gets_one_sentence(sheet: Path, spoil, says: str) -> None:
    spoil(sheet)
    done = batchcast("machine", "prove", str(sheet))
    assert done.returncode != 0
    assert says in done.stderr
    assert "Traceback" not in done.stderr
