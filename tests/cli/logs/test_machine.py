"""Tests `batchcast machine` and `whatif` as an operator uses them: dumps are captured, shown, simulated and varied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.forked import batchcast

NODES = """NodeName=n1 CPUTot=4 RealMemory=8000 Sockets=1 ThreadsPerCore=1 State=IDLE Weight=1 Gres=(null)
NodeName=n2 CPUTot=4 RealMemory=8000 Sockets=1 ThreadsPerCore=1 State=IDLE Weight=1 Gres=(null)
"""
PARTITION = (
    "PartitionName=all Nodes=n[1-2] Default=YES MaxTime=1-00:00:00 DefaultTime=01:00:00 State=UP"
    " TRESBillingWeights=CPU=1.0,Mem=0.5G\n"
)
CONFIG = (
    "SchedulerType = sched/backfill\nLicenses = matlab:3\nPreemptType = preempt/qos\n"
    "PreemptMode = GANG,SUSPEND\nSelectType = select/cons_tres\n"
)
QOS = (
    "Name|Priority|GrpTRES|MaxTRESPU|MaxWall|GrpTRESMins|Preempt\nnormal|0|cpu=8||1-00:00:00|cpu=100|low\nlow|0|||||\n"
)
LOG = "\n".join(
    f"{k + 1} {60 * k} 0 {300 + 60 * (k % 5)} {1 + k % 4} -1 -1 {1 + k % 4} 900 -1 1 {1 + k % 3} 1 1 1 -1 -1 -1"
    for k in range(80)
)


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    folder = tmp_path / "dumps"
    folder.mkdir()
    for name, text in (("node", NODES), ("partition", PARTITION), ("config", CONFIG), ("qos", QOS)):
        (folder / f"{name}.txt").write_text(text)
    return folder


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf"
    path.write_text(f"; MaxProcs: 8\n; UnixStartTime: 0\n{LOG}\n")
    return path


def test_capture_writes_what_show_reads(dumps: Path, tmp_path: Path) -> None:
    out = tmp_path / "machine.toml"
    done = batchcast("machine", "capture", dumps, "-o", out)
    assert done.returncode == 0, done.stderr
    assert "2 nodes, 1 partitions" in done.stderr
    shown = batchcast("machine", "show", out)
    assert "2 nodes, 8 processors" in shown.stdout
    assert "matlab: 3" in shown.stdout


def test_what_the_model_leaves_out_is_named(dumps: Path) -> None:
    left = batchcast("machine", "show", dumps).stdout.split("not modelled: ")[1]
    assert {"PreemptMode=SUSPEND", "PreemptMode=GANG", "qos GrpTRESMins"} <= set(left.strip().split(", "))
    assert "Licenses" not in left
    assert "PreemptType" not in left
    assert "TRESBillingWeights" not in left


def test_a_folder_without_nodes_says_which_command_gives_them(tmp_path: Path) -> None:
    done = batchcast("machine", "capture", tmp_path)
    assert done.returncode != 0
    assert "scontrol show node -o > node.txt" in done.stderr


def test_without_slurm_a_capture_says_what_else_it_reads(tmp_path: Path) -> None:
    done = batchcast("machine", "capture", env={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert done.returncode == 4
    assert "machine capture DUMPS" in done.stderr


def test_info_counts_what_the_machine_can_run(dumps: Path, log: Path) -> None:
    log.write_text(log.read_text() + "\n81 4800 0 300 64 -1 -1 64 900 -1 1 1 1 1 1 -1 -1 -1\n")
    done = batchcast("info", log, "--machine", dumps, "--json")
    assert done.returncode == 0, done.stderr
    rows = {r["what"]: r["jobs"] for r in json.loads(done.stdout)["results"] if r["part"] == "machine"}
    assert rows == {"it can run": 80, "larger than its partition": 1}


def test_a_simulation_on_the_machine_is_judged_as_such(dumps: Path, log: Path) -> None:
    done = batchcast("simulate", log, "--machine", dumps, "--details")
    assert done.returncode == 0, done.stderr
    assert "EASY" not in done.stdout
    assert "Slurm's main and backfill loops" in " ".join(done.stdout.split())


def test_what_if_shows_the_present_first_and_who_gains(dumps: Path, log: Path) -> None:
    done = batchcast("whatif", log, "--machine", dumps, "--vary", "nodes=+100%", "--vary", "policy=fifo", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    waits = {r["policy"]: r["mean_wait_s"] for r in rows if r["part"] == "variant"}
    assert list(waits) == ["now", "nodes=+100%", "policy=fifo"]
    assert waits["nodes=+100%"] < waits["now"] <= waits["policy=fifo"]
    assert {r["variant"] for r in rows if r["part"] == "group"} == {"nodes=+100%", "policy=fifo"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("nodes=many", "+10%"),
        ("policy=easy", "fifo, backfill, multifactor"),
        ("bf_intervall=3", "bf_interval"),
        ("bf_min_prio_reserve=much", "not a number"),
        ("limits=none", "forecast"),
        ("nodes", "KEY=VALUE"),
    ],
)
def test_a_change_that_cannot_be_read_teaches(dumps: Path, log: Path, change: str, said: str) -> None:
    done = batchcast("whatif", log, "--machine", dumps, "--vary", change)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_evaluation_on_the_machine_is_slurms_and_judged_as_such(dumps: Path, log: Path, tmp_path: Path) -> None:
    where = tmp_path / "report"
    done = batchcast("evaluate", log, "--machine", dumps, "--predictor", "last_2", "-o", where, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    rows = [r for r in result["results"] if r["part"] == "schedule"]
    assert {(r["policy"], r["predictor"]) for r in rows} == {
        (policy, name) for policy in ("slurm", "slurm-least-work") for name in ("requested", "last_2", "actual")
    }
    judged = next(r for r in result["results"] if r["part"] == "validity")
    assert (judged["policy"], judged["judged_procs"]) == ("slurm", 8.0)
    assert result["settings"]["scheduler"] == "slurm"
    page = (where / "index.html").read_text()
    assert "main and backfill loops on the described machine" in page
    assert "EASY" not in page


def test_slurm_without_a_machine_takes_the_logs_own_peak(log: Path) -> None:
    done = batchcast("simulate", log, "--scheduler", "slurm", "--details")
    assert done.returncode == 0, done.stderr
    assert "its size is the header's, else the most processors in use at once" in " ".join(done.stdout.split())


@pytest.mark.parametrize("verb", ["evaluate", "simulate"])
def test_options_of_a_pool_of_processors_are_refused_on_nodes(dumps: Path, log: Path, verb: str) -> None:
    done = batchcast(verb, log, "--machine", dumps, "--policy", "easy")
    assert done.returncode != 0
    assert "--policy only applies to a pool of processors" in done.stderr
    assert "Traceback" not in done.stderr


def test_waits_are_foretold_by_slurms_loops_on_the_machine(dumps: Path, log: Path) -> None:
    asked = ("wait", log, "--predictor", "scheduler_replay", "--machine", dumps)
    done = batchcast(*asked, "--new", "procs=4,request=10m", "--json")
    assert done.returncode == 0, done.stderr
    assert "Slurm's loops on 8 processors" in json.loads(done.stdout)["results"][0]["basis"]
    refused = batchcast("wait", log, "--predictor", "recent_wait", "--machine", dumps)
    assert refused.returncode != 0
    assert "scheduler_replay" in refused.stderr


def test_json_dumps_are_captured_as_the_texts_are(tmp_path: Path) -> None:
    real = Path(__file__).parents[2] / "unit" / "formats" / "slurm-24.11"
    folder = tmp_path / "json"
    folder.mkdir()
    for path in real.glob("*.json"):
        (folder / path.name).write_text(path.read_text())
    done = batchcast("machine", "capture", folder)
    assert done.returncode == 0, done.stderr
    assert "4 nodes" not in done.stdout
    assert 'names = "n[1-2]"' in done.stdout
    assert "not in --json" in done.stderr


def test_whatif_orders_the_queue(dumps: Path, log: Path) -> None:
    variants = ("--vary", "order=none,limits", "--vary", "order=limit,within=account,age=2:00:00")
    done = batchcast("whatif", log, "--machine", dumps, *variants, "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["policy"]: row for row in json.loads(done.stdout)["results"] if row["part"] == "variant"}
    assert list(rows) == ["now", "order=none", "order=limits", "order=limit,within=account,age=2:00:00"]
    assert rows["now"]["mean_wait_s"] == rows["order=none"]["mean_wait_s"]


@pytest.mark.parametrize("change", ["order=shortest", "order=limit,within=site", "within=account"])
def test_whatif_says_which_orders_there_are(dumps: Path, log: Path, change: str) -> None:
    done = batchcast("whatif", log, "--machine", dumps, "--vary", change)
    assert done.returncode == 2
    assert "accepted" in done.stderr or "go with order=" in done.stderr
