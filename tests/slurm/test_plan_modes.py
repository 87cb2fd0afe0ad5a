"""Tests the other modes of planning on a real Slurm: by --time-min, and by comments alone."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator

import pytest
from conftest import labs_on
from follow import Follower
from slurm_lab import Lab
from test_planning import CONF, MINUTE, accounted, agent

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
SPEED = 30.0
FIELDS = {"TimeLimit", "TimeMin", "Comment", "AdminComment", "JobState"}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Four nodes at thirty times the speed, with an operator and an administrator among the users."""
    for _ in labs_on("here", speed=SPEED):
        with Lab(nodes=4, cpus=4, speed=SPEED, conf=CONF) as running:
            for name, level in (("sys", "operator"), ("mail", "administrator")):
                running.run("sacctmgr", "-iQ", "add", "user", name, "account=physics", f"adminlevel={level}")
            yield running


def shown(lab: Lab, job_id: str) -> dict[str, str]:
    text = lab.run("scontrol", "--oneliner", "show", "job", job_id)
    words = re.split(r" (?=[A-Z][A-Za-z/:]*=)", text)
    return {k: v.strip() for k, _, v in (word.partition("=") for word in words) if k in FIELDS}


@contextlib.contextmanager
def planner(lab: Lab, name: str, mode: str) -> Iterator[Follower]:
    """A collector that plans in this mode, alone; all its traces are removed afterwards."""
    follower = agent(lab, name)
    follower.env["BATCHCAST_PLAN"] = mode
    follower.start()
    try:
        yield follower
    finally:
        follower.kill(signal.SIGTERM)
        lab.run("scancel", "--user=daemon")


def off(lab: Lab, follower: Follower) -> None:
    """Switch planning off, and retry: on a fast clock a busy store may stay locked longer than the time-out."""
    lab.wait(lambda: follower.run("plan", "--off") is not None, "planning off", 120)


def submitted(lab: Lab, *options: str, limit: int = 40, seconds: float = 30 * MINUTE) -> str:
    return lab.submit("-t", str(limit), *options, seconds=seconds)


@pytest.mark.slow
def test_by_time_min_slurm_starts_a_job_earlier_and_it_has_its_own_limit_back(lab: Lab) -> None:
    with planner(lab, "time-min", "time-min") as follower:
        blocker = submitted(lab, "-N4", "--exclusive", "-p", "exact", limit=100, seconds=600 * MINUTE)
        first = submitted(lab, "-N3", "--exclusive", "-p", "exact", limit=38, seconds=36 * MINUTE)
        head = submitted(lab, "-N4", "--exclusive", "-p", "exact", limit=60, seconds=3 * MINUTE)
        # 25 min fit beside `first`, 40 min do not
        fits = submitted(lab, "-N1", "--exclusive", "--comment=own words", seconds=32 * MINUTE)
        lab.wait(lambda: shown(lab, fits)["TimeMin"] == "00:25:00", "a --time-min", 120)
        assert shown(lab, fits)["TimeLimit"] == "00:40:00"
        assert shown(lab, fits)["AdminComment"] == "batchcast:limit=00:40:00,time-min=00:25:00;"
        assert {shown(lab, job)["TimeMin"] for job in (first, head)} == {"N/A"}  # no OverTimeLimit in `exact`
        lab.run("scancel", blocker)
        lab.wait(lambda: shown(lab, fits)["JobState"] == "RUNNING", "a job started by backfill")
        assert shown(lab, head)["JobState"] == "PENDING"
        lab.wait(lambda: shown(lab, fits)["TimeLimit"] == "00:40:00", "its own limit")
        lab.wait(lambda: accounted(lab)[fits].state == "COMPLETED", "its end", 120)
        assert (accounted(lab)[fits].limit, accounted(lab)[fits].ran >= 31.9) == (40, True)
        lab.wait(lambda: shown(lab, fits)["AdminComment"] == "", "no token")
        steps = follower.run("plan", "--audit", "--json")
        assert '"restored"' in steps
        off(lab, follower)


@pytest.mark.slow
def test_a_requeued_job_loses_our_time_min_before_it_is_planned_anew(lab: Lab) -> None:
    with planner(lab, "requeue", "time-min") as follower:
        blocker = submitted(lab, "-N4", "--exclusive", "-p", "exact", limit=100, seconds=600 * MINUTE)
        job = submitted(lab, "-N4", "--exclusive", limit=60, seconds=600 * MINUTE)
        lab.wait(lambda: shown(lab, job)["TimeMin"] == "00:45:00", "a --time-min", 120)
        lab.run("scancel", blocker)
        lab.wait(lambda: shown(lab, job)["JobState"] == "RUNNING", "a running job")
        lab.run("scontrol", "requeuehold", job)
        lab.wait(lambda: "it was requeued" in follower.run("plan", "--audit", "--json"), "what follows a requeue", 120)
        off(lab, follower)
        assert (shown(lab, job)["TimeMin"], shown(lab, job)["TimeLimit"]) == ("N/A", "01:00:00")


@pytest.mark.slow
def test_who_changes_the_limit_of_a_job_with_our_time_min_has_that_taken_away(lab: Lab) -> None:
    with planner(lab, "theirs", "time-min") as follower:
        submitted(lab, "-N4", "--exclusive", limit=240, seconds=240 * MINUTE)
        job = submitted(lab, "-n1")
        lab.wait(lambda: shown(lab, job)["TimeMin"] == "00:25:00", "a --time-min", 120)
        lab.run("scontrol", "update", f"jobid={job}", "timelimit=90", user="daemon")
        lab.wait(lambda: shown(lab, job)["TimeMin"] == "N/A", "no --time-min")
        assert shown(lab, job)["TimeLimit"] == "01:30:00"
        lab.wait(lambda: shown(lab, job)["AdminComment"] == "", "no token")
        off(lab, follower)
        assert shown(lab, job)["TimeLimit"] == "01:30:00"


@pytest.mark.slow
def test_advice_is_a_comment_and_nothing_else(lab: Lab) -> None:
    with planner(lab, "advise", "advise") as follower:
        done = submitted(lab, "-n1", seconds=MINUTE)  # a job that has started, because its wait is known then
        lab.wait(lambda: shown(lab, done)["JobState"] == "COMPLETED", "a finished job")
        submitted(lab, "-N4", "--exclusive", limit=240, seconds=240 * MINUTE)
        job = submitted(lab, "-n1", "--comment=own words", seconds=MINUTE)
        lab.run("scontrol", "update", f"jobid={job}", "admincomment=the site's words")
        told = re.compile(r"the site's words batchcast:start=[\dT:-]+(,by=[\dT:-]+)?;")
        lab.wait(lambda: told.fullmatch(shown(lab, job)["AdminComment"]), "advice", 120)
        assert (shown(lab, job)["Comment"], shown(lab, job)["TimeLimit"]) == ("own words", "00:40:00")
        with pytest.raises(RuntimeError, match="denied"):
            lab.run("scontrol", "update", f"jobid={job}", "admincomment=x", user="sys")
        lab.run("scontrol", "update", f"jobid={job}", "comment=own words batchcast:x;", user="sys")  # an operator may
        assert shown(lab, job)["Comment"] == "own words batchcast:x;"
        off(lab, follower)
        assert shown(lab, job)["AdminComment"] == "the site's words"
