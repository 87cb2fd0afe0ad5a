"""The other modes of planning on a real Slurm: by --time-min, and by advice in comments alone."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest
from follow import Follower
from slurm_lab import Lab
from test_planning import CONF, MINUTE, SPEED, accounted, agent, limits_now

from conftest import labs_on

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
FIELDS = {"TimeLimit", "TimeMin", "Comment", "AdminComment", "JobState"}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Four nodes at sixty times the speed, with an operator and an administrator among the users."""
    for _ in labs_on("here", speed=SPEED):
        with Lab(nodes=4, cpus=4, speed=SPEED, conf=CONF) as running:
            for name, level in (("sys", "operator"), ("mail", "administrator")):
                running.run("sacctmgr", "-iQ", "add", "user", name, "account=physics", f"adminlevel={level}")
            yield running


def shown(lab: Lab, job_id: str) -> dict[str, str]:
    text = lab.run("scontrol", "--oneliner", "show", "job", job_id)
    words = re.split(r" (?=[A-Z][A-Za-z/:]*=)", text)
    return {k: v.strip() for k, _, v in (word.partition("=") for word in words) if k in FIELDS}


def planner(lab: Lab, name: str, mode: str) -> Follower:
    follower = agent(lab, name)
    follower.env["BATCHCAST_PLAN"] = mode
    return follower


def submitted(lab: Lab, *options: str, limit: int = 40, seconds: float = 30 * MINUTE) -> str:
    return lab.submit("-t", str(limit), *options, seconds=seconds)


def test_by_time_min_slurm_starts_a_job_earlier_and_it_has_its_own_limit_back(lab: Lab) -> None:
    follower = planner(lab, "time-min", "time-min")
    follower.start()
    first = submitted(lab, "-N3", "--exclusive", limit=120, seconds=36 * MINUTE)
    lab.wait(lambda: shown(lab, first)["JobState"] == "RUNNING", "a running job")
    lab.run("scontrol", "update", f"jobid={first}", "timelimit=38")
    head = submitted(lab, "-N4", "--exclusive", limit=60, seconds=3 * MINUTE)
    fits = submitted(lab, "-N1", "--exclusive", "--comment=own words", seconds=32 * MINUTE)  # 40 > 38, 25 fits
    lab.wait(lambda: shown(lab, fits)["TimeMin"] == "00:25:00", "a --time-min")
    assert shown(lab, fits)["TimeLimit"] == "00:40:00"
    assert shown(lab, fits)["AdminComment"] == "batchcast:limit=00:40:00,time-min=00:25:00;"
    lab.wait(lambda: shown(lab, fits)["JobState"] == "RUNNING", "a job started by backfill")
    assert shown(lab, head)["JobState"] == "PENDING"
    lab.wait(lambda: shown(lab, fits)["TimeLimit"] == "00:40:00", "its own limit")
    lab.run("scontrol", "requeue", fits)
    lab.wait(lambda: "requeued" in str(follower.run("plan", "--audit", "--json")), "what follows a requeue", 90)
    lab.run("scancel", first, head, fits)
    job = submitted(lab, "-N1", "--exclusive", seconds=32 * MINUTE)
    assert shown(lab, job)["TimeMin"] in ("N/A", "00:25:00")
    lab.wait(lambda: accounted(lab).get(job) is not None and accounted(lab)[job].state == "COMPLETED", "its end", 120)
    assert (accounted(lab)[job].limit, accounted(lab)[job].ran >= 31.9) == (40, True)
    follower.run("plan", "--off")
    assert set(limits_now(lab).values()) <= {40.0}
    follower.kill(signal.SIGTERM)


def test_who_changes_the_limit_of_a_job_with_our_time_min_has_that_taken_away(lab: Lab) -> None:
    follower = planner(lab, "theirs", "time-min")
    follower.start()
    blocker = submitted(lab, "-N4", "--exclusive", limit=240, seconds=240 * MINUTE)
    job = submitted(lab, "-n1")
    lab.wait(lambda: shown(lab, job)["TimeMin"] == "00:25:00", "a --time-min")
    lab.run("scontrol", "update", f"jobid={job}", "timelimit=90", user="daemon")
    lab.wait(lambda: shown(lab, job)["TimeMin"] == "N/A", "no --time-min")
    assert shown(lab, job)["TimeLimit"] == "01:30:00"
    lab.wait(lambda: shown(lab, job)["AdminComment"] == "", "no token")
    follower.run("plan", "--off")
    follower.kill(signal.SIGTERM)
    lab.run("scancel", blocker, job)


def test_advice_is_a_comment_and_nothing_else(lab: Lab) -> None:
    done = submitted(lab, "-n1", seconds=MINUTE)  # one that has started: waits are known then
    lab.wait(lambda: shown(lab, done)["JobState"] == "COMPLETED", "a finished job")
    follower = planner(lab, "advise", "advise")
    follower.start()
    blocker = submitted(lab, "-N4", "--exclusive", limit=240, seconds=240 * MINUTE)
    job = submitted(lab, "-n1", "--comment=own words", seconds=MINUTE)
    lab.run("scontrol", "update", f"jobid={job}", "admincomment=the site's words")
    told = re.compile(r"the site's words batchcast:start=[\dT:-]+(,by=[\dT:-]+)?;")
    lab.wait(lambda: told.fullmatch(shown(lab, job)["AdminComment"]), "advice", 120)
    assert (shown(lab, job)["Comment"], shown(lab, job)["TimeLimit"]) == ("own words", "00:40:00")
    with pytest.raises(RuntimeError, match="denied"):
        lab.run("scontrol", "update", f"jobid={job}", "admincomment=x", user="sys")
    lab.run("scontrol", "update", f"jobid={job}", "comment=own words batchcast:x;", user="sys")  # an operator may
    follower.run("plan", "--off")
    assert shown(lab, job)["AdminComment"] == "the site's words"
    follower.kill(signal.SIGTERM)
    lab.run("scancel", blocker, job)
