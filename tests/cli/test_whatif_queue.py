"""Tests `whatif --reserve` and `--extend`: which jobs an outage delays, on a log and on a live queue, and what a longer
job costs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from batchcast.cli.main import cli
from batchcast.service.collector.cycle import Collector
from batchcast.service.settings import load
from batchcast.store.database import Store

from .test_live import Past, _store

LONG = "700"
MACHINE = """[settings]
SchedulerType = "sched/backfill"
PriorityType = "priority/basic"
[[nodes]]
names = "n[1-{nodes}]"
cpus = 4
[[partition]]
name = "main"
nodes = "n[1-{nodes}]"
default = true
"""


def run(*words: str, code: int = 0, store: str = "") -> Result:
    where = {"BATCHCAST_STORE": store} if store else {}
    done = CliRunner().invoke(cli, ["whatif", *words], env={"BATCHCAST_CONFIG": os.devnull, **where})
    assert getattr(done.exception, "exit_code", done.exit_code) == code, done.output + str(done.exception)
    return done


def results(*words: str, store: str = "") -> list[dict]:
    return json.loads(run(*words, "--json", store=store).stdout)["results"]


@pytest.fixture
def machine(tmp_path: Path) -> str:
    path = tmp_path / "machine.toml"
    path.write_text(MACHINE.format(nodes=1))
    return str(path)


@pytest.fixture
def log(tmp_path: Path) -> str:
    """A job of one hour every six hours for 20 days from 1 January 2026, by 30 users; none on the sixth day."""
    lines = ["job_id,submit_time,wait_time,run_time,req_time,req_procs,user_id"]
    begin = 1767225600
    for k in range(80):
        if k // 4 != 5:
            lines.append(f"{k + 1},{begin + k * 21600},0,3600,3600,4,u{k % 30}")
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_an_outage_on_a_log_delays_the_jobs_it_overlaps_and_the_idle_day_costs_nothing(log: str, machine: str) -> None:
    words = (
        log,
        "--timezone",
        "UTC",
        "--machine",
        machine,
        "--reserve",
        "nodes=ALL,start=2026-01-03T11:30,hours=8,step=24",
    )
    rows = [r for r in results(*words) if r["part"] != "group"]
    asked, best = rows[0], rows[1]
    assert asked["start"] == "2026-01-03 11:30:00"
    # the jobs of 12:00 and 18:00 wait until 19:30 and then run one after the other
    assert (asked["delayed_jobs"], asked["delayed_users"]) == (2, 2)
    assert asked["most_delay_s"] == pytest.approx(7.5 * 3600, abs=120)
    assert asked["delayed_hours"] == pytest.approx(4 * (7.5 + 2.5), abs=0.3)
    assert (best["start"], best["verdict"], best["delayed_hours"]) == ("2026-01-06 11:30:00", "best", 0.0)
    text = run(*words).stdout
    assert "Of that week, 2026-01-06 11:30:00 delays the least work" in " ".join(text.split())


@pytest.mark.parametrize(
    ("reserve", "said"),
    [
        ("nodes=ALL,hours=2", "accepted: nodes=ALL,start=2026-12-01T08:00,hours=10"),
        ("nodes=n9,start=2026-01-03T08:00,hours=2", "no node 'n9' on this machine"),
        ("nodes=ALL,start=2026-01-03T08:00,hours=none", "accepted: hours above 0 and up to 720"),
        ("nodes=ALL,start=2026-01-03T08:00,hours=1,step=0.1", "accepted: 0.5 and more"),
    ],
)
def test_an_outage_that_cannot_be_read_says_what_is_accepted(log: str, machine: str, reserve: str, said: str) -> None:
    assert said in str(run(log, "--machine", machine, "--reserve", reserve, code=2).exception)


def test_an_outage_after_the_log_has_no_answer_instead_of_no_delay(log: str, machine: str) -> None:
    words = (log, "--machine", machine, "--reserve", "nodes=ALL,start=2026-02-03T08:00,hours=10")
    assert "the outage is not within the log" in str(run(*words, code=3).exception)


def test_near_the_end_of_the_log_no_start_is_called_the_best(log: str, machine: str) -> None:
    words = (log, "--timezone", "UTC", "--machine", machine, "--reserve", "nodes=ALL,start=2026-01-19T11:30,hours=8")
    run_of = run(*words)
    assert "No other start was simulated." in " ".join(run_of.stdout.split())
    assert "the log ends within two days after the outage" in run_of.stderr


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The queue of `test_live`, and a job that has run for 45 minutes of its two hours."""
    now, path = time.time(), str(tmp_path_factory.mktemp("queue") / "s.db")
    past = Past(now)
    past.jobs.append((LONG, now - 2800, now - 2700, 9e9, "carol", "long"))
    settings = load({"store": path, "history_days": 0.01, "wait": "recent_wait"}, {})
    collector = Collector(past, Store(path, create=True), settings)
    for ago in (7000, 5000, 3000, 2000, 1000, 40, 10):
        past.time = now - ago
        assert not collector.cycle().problems
    return path


def test_an_outage_of_the_live_machine_holds_waiting_jobs_of_named_users(store: str, machine: str) -> None:
    words = ("--machine", machine, "--reserve", "nodes=ALL,start=now+1hour,hours=10,step=24")
    document = json.loads(run(*words, "--json", store=store).stdout)
    asked = document["results"][0]
    # every limit is two hours, so no waiting job may start before an outage that begins in an hour
    assert asked["held_waiting"] >= 3
    assert asked["mean_delay_s"] > 0
    assert {one["user"] for one in document["settings"]["held"]} >= {"bob"}
    assert any("later submissions are unknown" in note for note in document["warnings"])
    assert not any("show no uncertainty" in note for note in document["warnings"])
    assert "Users whose jobs the requested start delays" in run(*words, store=store).stdout


def test_a_private_site_does_not_tell_who_would_be_held(machine: str, tmp_path: Path) -> None:
    hidden = _store(str(tmp_path / "p.db"), True, time.time())
    from batchcast.service.answers import queue_whatif
    from batchcast.service.answers.disclosure import Viewer
    from batchcast.simulation.outage import Outage

    planned = Outage("ALL", time.time() + 3600, 3600.0)
    with pytest.raises(Exception, match="jobs are private here"):
        queue_whatif.reserve(load({"store": hidden}, {}), planned, Viewer("bob"), time.time())


def test_more_hours_for_a_running_job_delay_those_that_wait_for_its_nodes(
    store: str, machine: str, tmp_path: Path
) -> None:
    (row,) = results("--machine", machine, "--extend", f"job={LONG},hours=4", store=store)
    assert row["later"] == row["waiting"] >= 3, "one node of four processors: everybody waits for this job"
    assert row["mean_delay_s"] == pytest.approx(4 * 3600, rel=0.05)
    wide = tmp_path / "wide.toml"
    wide.write_text(MACHINE.format(nodes=50))
    (row,) = results("--machine", str(wide), "--extend", f"job={LONG},hours=4", store=store)
    assert (row["later"], row["chance_that_none"]) == (0, 1)
    text = run("--machine", str(wide), "--extend", f"job={LONG},hours=4", store=store).stdout
    assert "none of" in text
    assert "bob" not in text
    assert "does not run" in str(run("--machine", machine, "--extend", "job=1,hours=4", store=store, code=3).exception)


def test_an_interval_that_shows_no_uncertainty_says_so(machine: str, tmp_path: Path) -> None:
    """`recent_mean` predicts run times without intervals, so all draws of a queue are equal."""
    now, path = time.time(), str(tmp_path / "s.db")
    settings = load({"store": path, "history_days": 0.01, "wait": "recent_wait", "runtime": "recent_mean"}, {})
    past = Past(now)
    collector = Collector(past, Store(path, create=True), settings)
    for ago in (7000, 5000, 3000, 1000, 40, 10):
        past.time = now - ago
        collector.cycle()
    done = run("--machine", machine, "--reserve", "nodes=ALL,start=now+1hour,hours=10,step=80", store=path)
    assert "without intervals (setting `runtime`)" in done.stderr
    assert " to " not in done.stdout, "no interval from a number to itself"


def test_without_a_log_only_the_queue_can_be_asked(machine: str) -> None:
    assert "LOG" in run("--vary", "nodes=+10%", code=2).output
