"""Tests `batchcast simulate` as a user sees it: the printed text, the written files, and the messages about errors."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from tests.forked import batchcast

from batchcast.trace import demo_path

KEYS = [
    "jobs",
    "kernel_s",
    "mean_wait_s",
    "median_wait_s",
    "p95_wait_s",
    "p99_wait_s",
    "max_wait_s",
    "mean_bounded_slowdown",
    "median_bounded_slowdown",
    "mean_per_processor_bounded_slowdown",
    "utilization",
    "makespan_s",
    "backfilled_share",
    "corrections",
]


@pytest.fixture(scope="module")
def demo() -> Path:
    return Path(str(demo_path()))


def test_json_names_every_measure_and_every_default(demo):
    done = batchcast(
        "simulate",
        demo,
        "--policy",
        "easy:correct=incremental",
        "--predictor",
        "last_2:need=2,round=down,actual",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["schema"] == "batchcast/simulate/1"
    assert [r["predictor"] for r in document["results"]] == ["last_2:need=2,round=down", "actual"]
    for result in document["results"]:
        assert set(KEYS) <= set(result)
        assert result["policy"] == "easy:correct=incremental"
    settings = document["settings"]
    assert (settings["loop"], settings["wide"], settings["kill"], settings["correct"]) == (
        "closed",
        "drop",
        True,
        "incremental",
    )
    assert document["results"][1]["corrections"] == 0


def test_an_order_of_slurms_queue_needs_a_machine(demo):
    done = batchcast("simulate", demo, "--order", "forecast")
    assert done.returncode == 2
    assert "--machine FILE" in done.stderr


def test_evaluate_takes_what_simulate_takes(demo, tmp_path):
    words = [
        "--first",
        300,
        "--policy",
        "easy:head_after=90m",
        "--predictor",
        "last_2",
        "--no-kill",
        "--plan-level",
        "90%",
    ]
    words += ["--json"]
    simulated = json.loads(batchcast("simulate", demo, *words).stdout)
    evaluated = json.loads(batchcast("evaluate", demo, *words, "-o", tmp_path / "r").stdout)
    row = next(r for r in evaluated["results"] if (r["part"], r.get("predictor")) == ("schedule", "last_2"))
    assert row["mean_wait_s"] == simulated["results"][0]["mean_wait_s"]
    assert evaluated["settings"]["kill"] is False
    assert evaluated["settings"]["head_after"] == "01:30:00"


def test_the_schedule_file_holds_every_simulated_job(demo, tmp_path):
    out = tmp_path / "s.csv"
    done = batchcast("simulate", demo, "--policy", "easy-sjbf", "--first", "500", "-o", out, "--json")
    jobs = json.loads(done.stdout)["results"][0]["jobs"]
    with out.open() as lines:
        rows = list(csv.DictReader(lines))
    assert list(rows[0]) == [
        "job_id",
        "submit_time",
        "start_time",
        "end_time",
        "procs",
        "planned_run_time",
        "backfilled",
    ]
    assert len(rows) == jobs
    assert all(float(r["submit_time"]) <= float(r["start_time"]) <= float(r["end_time"]) for r in rows)
    assert list(tmp_path.iterdir()) == [out]


def test_the_table_goes_to_stdout_and_notes_to_stderr(demo):
    done = batchcast("simulate", demo, "--first", "200")
    assert "mean wait" in done.stdout
    assert "note:" not in done.stdout
    assert "not simulated" in done.stderr or done.stderr == ""


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--policy", "easy:backfill=lazy"], 2, "accepted: none, easy"),
        (["--predictor", "last2"], 2, "did you mean last_2"),
        (["--predictor", "last_2:needs=2"], 2, "no parameter 'needs'"),
        (["--wide", "shrink"], 2, "accepted: drop, widen, cut"),
        (["--loop", "half"], 2, "accepted: closed, open"),
        (["--default-request", "soon"], 2, "days-hours"),
        (["--plan-level", "2"], 2, "above 0 and below 1"),
        (["--plan-level", "0"], 2, "above 0 and below 1"),
        (["--policy", "easy:head_after=6 moons"], 2, "1h30m, 2 days"),
        (["--policy", "easy:haste=1"], 2, "no parameter 'haste'"),
        (["--nonsense"], 2, "no option --nonsense"),
    ],
)
def test_a_wrong_word_is_a_usage_error_that_names_the_right_ones(demo, words, code, said):
    done = batchcast("simulate", demo, "--first", "50", *words)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_without_a_machine_size_it_says_how_to_give_one():
    log = "1 0 0 10 4 -1 -1 4 60 -1 1 1 1 -1 -1 -1 -1 -1\n"
    done = batchcast("simulate", "-", text=log)
    assert done.returncode == 1
    assert "--procs-total" in done.stderr
    assert batchcast("simulate", "-", "--procs-total", "peak", text=log).returncode == 0


@pytest.mark.parametrize("words", [["simulate", "--procs-total", "8"], ["runtime", "--predictor", "last_2"]])
def test_a_log_of_jobs_that_never_ran_has_no_answer(words):
    done = batchcast(words[0], "-", *words[1:], text="1 0 -1 -1 4 -1 -1 4 60 -1 5 1 1 -1 -1 -1 -1 -1\n")
    assert done.returncode == 3
    assert "no job to" in done.stderr
    assert done.stdout == ""


def test_a_missing_file_and_an_unknown_verb_are_told_apart(tmp_path):
    absent = batchcast("simulate", tmp_path / "none.swf")
    assert absent.returncode == 1
    assert "none.swf" in absent.stderr
    verb = batchcast("simulte")
    assert verb.returncode == 2
    assert "simulate" in verb.stderr


PARTED = """; MaxProcs: 8
1 0 0 100 4 -1 -1 4 200 -1 1 1 1 -1 1 1 -1 -1
2 5 0 100 4 -1 -1 4 200 -1 1 1 1 -1 1 1 -1 -1
3 1000 0 100 8 -1 -1 8 -1 -1 1 1 1 -1 1 2 -1 -1
4 1001 0 -1 -1 -1 -1 -1 -1 -1 5 1 1 -1 1 3 -1 -1
"""


@pytest.mark.parametrize("verb", ["simulate", "evaluate"])
def test_partitions_apart_say_when_they_are_more_than_the_machine(verb, tmp_path):
    """Partition 2 requests nothing and ran after partition 1 on the same processors; partition 3 ran no job."""
    out = ["-o", tmp_path / "r"] if verb == "evaluate" else []
    done = batchcast(verb, "-", "--partitions", "split", *out, "--json", text=PARTED)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    told = " ".join(document["warnings"])
    assert "the partitions have 16 processors together, the machine 8" in told
    assert "1 job not simulated (in a partition of which no job is known to run)" in told
    assert document["settings"]["partitions"] == "split"


def test_a_scheduler_of_ones_own_is_named_where_a_policy_is(demo, tmp_path):
    (tmp_path / "on_trial.py").write_text(
        "class First:\n"
        "    def __init__(self, most: int = 1000):\n"
        "        self.most = most\n\n"
        "    def start(self, queue, machine, now):\n"
        "        for job in queue[: self.most]:\n"
        "            if not machine.fits(job):\n"
        "                return\n"
        "            yield job\n"
    )
    policies = "fcfs,on_trial:First,on_trial:First:most=1"
    done = batchcast("simulate", demo, "--first", 500, "--policy", policies, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["results"]
    assert [row["policy"] for row in rows] == policies.split(",")
    assert rows[0]["mean_wait_s"] == rows[1]["mean_wait_s"] <= rows[2]["mean_wait_s"]
    wrong = batchcast("simulate", demo, "--policy", "on_trial:Second", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "no policy on_trial:Second" in wrong.stderr
