"""Tests planning on a real Slurm with predictions that are always far too short, under SIGKILLs: no job is ended
early."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Iterable, Iterator

import pytest
from conftest import labs_on
from follow import Follower
from planning_lab import (
    AGENTS,
    CONF,
    MINUTE,
    SPEED,
    Asked,
    accounted,
    agent,
    early,
    empty,
    kill,
    limits_now,
    lowest,
    minutes,
    of_kind,
    saved,
    steps,
    submitted,
    told,
)
from slurm_lab import Lab

pytestmark = [pytest.mark.slurm, pytest.mark.lab]


PATIENCE = 180.0
"""Real seconds to wait for the effect of one or two cycles: on a busy machine a collector starts slowly."""


@pytest.fixture(scope="module", params=["here", pytest.param("newer", marks=pytest.mark.slow)])
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Four nodes and three partitions at sixty times the speed, on each Slurm."""
    for _ in labs_on(request.param, speed=SPEED):
        with Lab(nodes=4, cpus=4, speed=SPEED, conf=CONF) as running:
            yield running


def test_with_agent_and_slurmctld_dead_past_every_planned_end_no_job_is_ended_early(lab: Lab) -> None:
    planner = agent(lab, "dead")
    planner.start()
    (blocker,) = submitted(lab, [Asked(240, 240.0, "main")], "-N4", "--exclusive")
    asked = submitted(lab, [Asked(17 + k, 60.0 if k == 1 else 9.0, "main") for k in range(8)], "-n2")
    lab.wait(
        lambda: all(limits_now(lab)[i] == max(one.limit - 15, 2) for i, one in asked.items()),
        "planned limits",
        PATIENCE,
    )
    planner.kill()
    lab.run("scancel", blocker)
    lab.wait(
        lambda: len(lab.run("squeue", "-h", "-t", "R", "-o", "%i").split()) == len(asked), "started jobs", PATIENCE
    )
    saved(lab, next(iter(asked)))
    kill(lab, "slurmctld")
    last_end = lab.now() + 12.0 * MINUTE  # all jobs have started, and no planned limit is longer than 12 min from now
    lab.wait(lambda: lab.now() > last_end, "every planned end to be over")
    lab.start_slurmctld()
    empty(lab, 300)
    ran = accounted(lab)
    assert early(asked, ran) == []
    assert {ran[i].state for i in asked} == {"COMPLETED", "TIMEOUT"}
    # if accounting has the planned limit of a job, the job's comment in accounting has the user's limit
    words = told(lab)
    assert all(ran[i].limit == one.limit or f"limit=00:{one.limit}:00," in words[i] for i, one in asked.items())


@pytest.fixture(autouse=True)
def emptied(lab: Lab) -> Iterator[None]:
    """Remove all jobs and collectors after each test, also after a failed test."""
    yield
    while AGENTS:
        AGENTS.pop().kill()
    lab.run("scancel", "-u", "daemon", check=False)
    empty(lab, PATIENCE)


def planned_and_running(lab: Lab, planner: Follower, *asked: Asked) -> dict[str, Asked]:
    """Jobs that were planned while they waited and started after the collector died: limits of 40 min are set to 25
    min."""
    planner.start()
    (blocker,) = submitted(lab, [Asked(240, 240.0)], "-N4", "--exclusive")
    jobs = submitted(lab, list(asked), "-n2")
    lab.wait(lambda: all(limits_now(lab)[i] == one.limit - 15 for i, one in jobs.items()), "planned limits", PATIENCE)
    planner.kill()
    lab.run("scancel", blocker)
    lab.wait(lambda: states(lab, jobs) == {"R"}, "started jobs", PATIENCE)
    return jobs


def states(lab: Lab, jobs: Iterable[str]) -> set[str]:
    return set(lab.run("squeue", "-h", "-j", ",".join(jobs), "-o", "%t").split())


@pytest.mark.slow
@pytest.mark.parametrize("how", ["requeue", "preemption"])
def test_a_job_that_waits_again_has_its_own_limit_back_before_it_is_planned_anew(lab: Lab, how: str) -> None:
    planner = agent(lab, how)
    jobs = planned_and_running(lab, planner, Asked(40, 20.0))
    (job,) = jobs
    if how == "requeue":
        lab.run("scontrol", "requeuehold", job)
    else:
        submitted(lab, [Asked(5, 3.0, "urgent")], "-N4", "--exclusive")
    lab.wait(lambda: states(lab, jobs) == {"PD"}, "a job that waits again", PATIENCE)
    assert limits_now(lab)[job] == 25  # Slurm keeps the planned limit of a requeued or preempted job
    planner.start()
    lab.wait(lambda: job in of_kind(planner, "restored"), "its own limit", PATIENCE)
    lab.run("scontrol", "release", job, check=False)
    empty(lab, 300)
    again = [s for s in steps(planner) if s["job_id"] == job and s["what"] == "restoring"]
    assert again[0]["why"] in ("it was requeued", *(["it has started"] if how == "preemption" else []))
    lowest(jobs, [s for s in steps(planner) if s["job_id"] == job])
    planner.kill(signal.SIGTERM)
    ran = accounted(lab)
    assert early(jobs, ran) == []
    assert ran[job].limit == 40


@pytest.mark.slow
def test_a_suspended_job_has_its_own_limit_back_before_it_goes_on(lab: Lab) -> None:
    planner = agent(lab, "suspended")
    jobs = planned_and_running(lab, planner, Asked(40, 32.0))
    (job,) = jobs
    lab.run("scontrol", "suspend", job)
    lab.wait(lambda: states(lab, jobs) == {"S"}, "a suspended job", PATIENCE)
    planner.start()
    lab.wait(lambda: limits_now(lab)[job] == 40, "its own limit", PATIENCE)
    lab.run("scontrol", "resume", job)
    empty(lab, 300)
    planner.kill(signal.SIGTERM)
    ran = accounted(lab)[job]  # `sleep` counts the time while the job was suspended, Slurm does not
    assert (ran.state, ran.limit) == ("COMPLETED", 40)


@pytest.mark.slow
def test_where_overtimelimit_is_lowered_limits_go_back_first_and_it_is_said(lab: Lab) -> None:
    planner = agent(lab, "lowered")
    jobs = planned_and_running(lab, planner, Asked(40, 36.0), Asked(18, 60.0))
    overruns = list(jobs)[1]
    planner.start()
    lab.wait(lambda: all(limits_now(lab)[i] == one.limit for i, one in jobs.items()), "their own limits", PATIENCE)
    (blocker,) = submitted(lab, [Asked(240, 240.0)], "-N4", "--exclusive")
    waiting = submitted(lab, [Asked(40, 3.0), Asked(41, 3.0)], "-n2")
    lab.wait(
        lambda: all(limits_now(lab)[i] == one.limit - 15 for i, one in waiting.items()), "planned limits", PATIENCE
    )
    lab.wait(lambda: elapsed(lab, overruns) > 19, "a job that overruns its own limit", 60)
    lab.run("scontrol", "update", "partitionname=main", "overtimelimit=5")
    try:
        lab.wait(
            lambda: all(limits_now(lab)[i] == one.limit - 5 for i, one in waiting.items()),
            "limits planned anew",
            PATIENCE,
        )
        lab.wait(
            lambda: "OverTimeLimit of partition main was lowered from" in planner.log.read_text(), "an alarm", PATIENCE
        )
        lab.run("scancel", blocker)
        empty(lab, 300)
    finally:
        lab.run("scontrol", "update", "partitionname=main", "overtimelimit=15")
    whys = {s["why"] for s in steps(planner) if s["job_id"] in waiting and s["what"] == "restoring"}
    assert "OverTimeLimit no longer covers the planned limit" in whys
    planner.kill(signal.SIGTERM)
    assert early(jobs | waiting, accounted(lab)) == []


def elapsed(lab: Lab, job: str) -> float:
    """Return the minutes that a job has run."""
    return minutes(lab.run("squeue", "-h", "-j", job, "-o", "%M").strip())


@pytest.mark.slow
def test_a_maintenance_announced_after_jobs_started_and_were_submitted_ends_nothing_early(lab: Lab) -> None:
    planner = agent(lab, "maintenance")
    jobs = planned_and_running(lab, planner, Asked(100, 96.0))
    (job,) = jobs
    planner.start()
    lab.wait(lambda: limits_now(lab)[job] == 100, "its own limit", PATIENCE)
    # the job needs the whole machine, so it waits for the other job's end
    waiting = submitted(lab, [Asked(40, 3.0)], "-n16")
    (later,) = waiting
    lab.wait(lambda: limits_now(lab)[later] == 25, "planned limits", PATIENCE)
    when = ("starttime=now+10minutes", "duration=120", "users=root", "nodes=ALL", "flags=maint,ignore_jobs")
    name = lab.run("scontrol", "create", "reservation", *when).split()[-1]
    lab.wait(lambda: later in of_kind(planner, "restored"), "the limit of a job that might run into it", PATIENCE)
    lab.wait(lambda: "State=ACTIVE" in lab.run("scontrol", "show", "reservation", name), "the maintenance", PATIENCE)
    assert states(lab, jobs) == {"R"}  # the job runs into the maintenance, as it would with its own limit
    lab.wait(lambda: not states(lab, jobs), "the end of the job", PATIENCE)
    with contextlib.suppress(RuntimeError):  # the reservation may have ended already
        lab.run("scontrol", "delete", f"reservation={name}")
    empty(lab, 300)
    planner.kill(signal.SIGTERM)
    assert early(jobs | waiting, accounted(lab)) == []
    whys = {s["why"] for s in steps(planner) if s["job_id"] == later}
    assert "the job's time limit reaches into the next reservation or maintenance" in whys


def test_what_users_and_operators_do_wins_and_off_gives_every_limit_back(lab: Lab) -> None:
    planner = agent(lab, "hands")
    planner.start()
    (blocker,) = submitted(lab, [Asked(240, 240.0, "main")], "-N4", "--exclusive")
    waiting = list(submitted(lab, [Asked(40, 5.0, "main") for _ in range(3)], "-n1"))
    tasks = lab.submit("-t", "40", "-n1", "--array=1-4%2", seconds=5 * MINUTE)
    marked = lab.submit("-t", "40", "-n1", "--signal=B:USR1@60", seconds=5 * MINUTE)
    scripted = lab.run("sbatch", "--parsable", "--uid=daemon", "--gid=daemon", "--chdir=/tmp", "-o", "/dev/null", "-n1",
                       "-t", "40", _script(lab)).strip()  # fmt: skip
    ours = {*waiting, *(f"{tasks}_{k}" for k in range(1, 5))}
    lab.wait(lambda: all(limits_now(lab)[i] == 25 for i in ours), "planned limits", PATIENCE)
    assert limits_now(lab)[marked] == limits_now(lab)[scripted] == 40
    assert lab.run("squeue", "-h", "-j", tasks, "-o", "%i").split() == [f"{tasks}_[1-4%2]"]  # the array is not split
    lab.run("scontrol", "update", f"jobid={waiting[0]}", "timelimit=33", user="daemon")
    doctor = planner.run("doctor", check=False)
    assert f"job {waiting[1]}" in doctor
    assert "OverTimeLimit is 0 s" in doctor
    rows = json.loads(planner.run("plan", "--dry-run", "--json"))["results"]
    assert {r["why"] for r in rows if r["job_id"] == marked} == {"its submit line contains --signal"}
    assert {r["why"] for r in rows if r["job_id"] == scripted} == {"its script contains --signal"}
    when = ("starttime=now+30minutes", "duration=10", "users=root", "nodes=ALL", "flags=ignore_jobs")
    name = lab.run("scontrol", "create", "reservation", *when).split()[-1]
    ours.remove(waiting[0])
    lab.wait(lambda: all(limits_now(lab)[i] == 40 for i in ours), "their own limits before a reservation", PATIENCE)
    lab.run("scontrol", "delete", f"reservation={name}")
    lab.wait(lambda: all(limits_now(lab)[i] == 25 for i in ours), "planned limits again", PATIENCE)
    lab.run("scancel", blocker)
    running = ["squeue", "-h", "-t", "R", "-o", "%i", "-j", tasks]
    lab.wait(lambda: len(lab.run(*running).split()) == 2, "running tasks", PATIENCE)
    lab.wait(lambda: [limits_now(lab)[i] for i in lab.run(*running).split()] == [40, 40], "their own limits", PATIENCE)
    planner.run("plan", "--off")
    now = limits_now(lab)
    assert now.pop(waiting[0], 33) == 33
    assert set(now.values()) == {40}
    assert "no job has a planned limit" in planner.run("plan", "--off", "--json")
    planner.kill(signal.SIGTERM)


@pytest.mark.slow
def test_a_second_collector_with_a_store_of_its_own_leaves_the_jobs_of_the_first_alone_and_says_so(lab: Lab) -> None:
    first, second = agent(lab, "first"), agent(lab, "second")
    first.start()
    (blocker,) = submitted(lab, [Asked(240, 240.0)], "-N4", "--exclusive")
    jobs = submitted(lab, [Asked(40, 5.0), Asked(40, 39.0), Asked(40, 60.0)], "-n1")
    lab.wait(lambda: all(limits_now(lab)[i] == 25 for i in jobs), "planned limits", PATIENCE)
    second.start()
    lab.wait(lambda: "are not planned: planned by another batchcast" in second.tail(), "a word of the second", PATIENCE)
    assert "another batchcast" in second.run("doctor", check=False)
    lab.run("scancel", blocker)
    lab.wait(lambda: all(limits_now(lab)[i] == 40 for i in jobs), "their own limits, of the first", PATIENCE)
    empty(lab, 300)
    assert {s["job_id"] for s in steps(second) if s["what"] == "planned"} & set(jobs) == set()
    assert early(jobs, accounted(lab)) == []


def _script(lab: Lab) -> str:
    path = lab.root / "signal.sh"
    path.write_text("#!/bin/sh\n#SBATCH --signal=B:USR1@60\nsleep 300\n")
    return str(path)
