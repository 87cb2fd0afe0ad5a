"""Tests cases that once misled a collector, on a real Slurm: jobs hidden for a while, its own clock ahead, limits
changed later."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import labs_on
from follow import BATCHCAST, Follower, stored
from slurm_lab import Lab

from batchcast.store.reader import Reader

pytestmark = [pytest.mark.slurm, pytest.mark.lab]


@pytest.fixture(scope="module", params=["here", pytest.param("newer", marks=pytest.mark.slow)])
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """One lab in real time for all tests of this file."""
    for _ in labs_on(request.param, speed=1.0):
        with Lab(nodes=2, cpus=2) as running:
            yield running


@pytest.fixture
def follower(lab: Lab, tmp_path: Path) -> Follower:
    """A collector with a store of its own."""
    return Follower(lab, str(tmp_path / "store.db"), HISTORY_DAYS="0.02", PATIENCE_S="1", SETTLE_S="0")


def the(store: str, job_id: str) -> list[dict[str, Any]]:
    """Return every run of a job, in order."""
    return [row for row in stored(store) if row["job_id"] == job_id]


def over(follower: Follower, job_id: str) -> bool:
    """Run one more cycle, and return whether the job has ended in the store."""
    follower.run("collect", "--once", "--quiet")
    return not the(follower.store, job_id)[0]["open"]


def running(lab: Lab, job_id: str) -> bool:
    return lab.run("squeue", "-h", "-j", job_id, "-o", "%T").strip() == "RUNNING"


@pytest.mark.slow
def test_a_running_job_that_was_given_up_for_lost_and_is_seen_again_is_open_again(lab: Lab) -> None:
    """Jobs that a collector is not permitted to see count as lost; when it may see the jobs again, they count as
    running."""
    place = lab.root / "of-nobody"
    place.mkdir()
    place.chmod(0o777)
    blind = Follower(lab, str(place / "store.db"), HISTORY_DAYS="0.02", PATIENCE_S="1", SETTLE_S="0", INTERVAL_S="2")
    job = lab.submit("-n1", "-t5", seconds=600)
    lab.wait(lambda: running(lab, job), "a running job")
    look(lab, blind, place)
    assert [row["open"] for row in the(blind.store, job)] == [1]
    hide_jobs(lab, "jobs")
    lab.wait(lambda: look(lab, blind, place) or the(blind.store, job)[0]["status"] == "lost", "a lost job")
    hide_jobs(lab, "none")
    look(lab, blind, place)
    (again,) = the(blind.store, job)
    assert (again["open"], again["status"], again["end_time"], again["state"]) == (1, None, None, "running")
    lab.run("scancel", job)
    lab.wait(lambda: look(lab, blind, place) or not the(blind.store, job)[0]["open"], "its end")
    (over,) = the(blind.store, job)
    assert over["status"] == "cancelled"


def hide_jobs(lab: Lab, word: str) -> None:
    """Set `PrivateData=WORD`, and wait until slurmctld uses it."""
    lab.conf["PrivateData"] = word
    lab._write_configuration()
    lab.run("scontrol", "reconfigure")
    lab.wait(lambda: word in privacy(lab), f"PrivateData = {word}")


def privacy(lab: Lab) -> str:
    lines = lab.run("scontrol", "show", "config").splitlines()
    return next(line for line in lines if line.startswith("PrivateData"))


def look(lab: Lab, follower: Follower, place: Path) -> None:
    """Run one cycle of a collector as user `nobody`, whom accounting does not know."""
    user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *lab.place.rights]
    env = {**follower.env, "HOME": str(place)}
    words = [*user, *BATCHCAST, "collect", "--once", "--quiet"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120, check=False, cwd="/")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("ahead", ["+1d", pytest.param("+10m", marks=pytest.mark.slow)])
def test_a_clock_that_was_ahead_for_one_reading_leaves_nothing_ahead(lab: Lab, follower: Follower, ahead: str) -> None:
    """One cycle ends although the collector's clock is ahead; the next cycle reads the jobs that end afterwards."""
    early = lab.submit("-n1", "-t5", seconds=600)
    lab.wait(lambda: running(lab, early), "a running job")
    words = ["faketime", "-m", "-f", ahead, *BATCHCAST, "collect", "--once"]
    done = subprocess.run(words, env=follower.env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert [row["open"] for row in the(follower.store, early)] == [1]
    lab.run("scancel", early)
    lab.wait(lambda: over(follower, early), "its end")
    memory = Reader(follower.store).memory("lab")
    assert memory["history_until"] <= lab.now() + 1
    assert memory["told_until"] <= lab.now()
    assert memory["late"] == 0


def test_a_requeued_run_asks_for_what_was_asked_for_though_an_administrator_raised_it(
    lab: Lab, follower: Follower
) -> None:
    job = lab.submit("-n1", "-t", "20", seconds=600)
    lab.wait(lambda: running(lab, job), "a running job")
    follower.run("collect", "--once")
    lab.run("scontrol", "update", f"jobid={job}", "timelimit=35")
    lab.run("scontrol", "requeue", job)
    lab.wait(lambda: follower.run("collect", "--once", "--quiet") == "" and len(the(follower.store, job)) == 2,
             "a second run")  # fmt: skip
    first, second = the(follower.store, job)
    assert (first["req_time"], second["req_time"]) == (1200.0, 1200.0)
    assert second["limit_now"] == 2100.0
    lab.run("scancel", job)


def test_a_suspended_job_is_not_said_to_have_run(lab: Lab, follower: Follower) -> None:
    job = lab.submit("-n1", "-t", "20", seconds=600)
    lab.wait(lambda: running(lab, job), "a running job")
    lab.run("scontrol", "suspend", job)
    follower.run("collect", "--once")
    env = {**follower.env, "BATCHCAST_CONFIG": os.devnull}
    done = subprocess.run([*BATCHCAST, "start", job], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert "is suspended now" in done.stderr
    assert "has run for" not in done.stderr
    lab.run("scancel", job)
