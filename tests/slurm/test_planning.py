"""Planning on a real Slurm, with forecasts that are always far too short, under SIGKILLs: no job is ended early."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from follow import Follower
from planning_lab import (
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
    steps,
    submitted,
)
from slurm_lab import Lab

from conftest import labs_on

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
JOBS, KILLS = 60, 10


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Four nodes, three partitions, at sixty times the speed."""
    for _ in labs_on("here", speed=SPEED):
        with Lab(nodes=4, cpus=4, speed=SPEED, conf=CONF) as running:
            yield running


def drawn(rng: np.random.Generator, jobs: int) -> list[Asked]:
    """Padded limits; every tenth job runs longer than it may."""
    found = []
    for k in range(jobs):
        limit = int(rng.integers(17, 24))
        runs = 90.0 if k % 10 == 7 else float(rng.uniform(3.0, 9.0))
        found.append(Asked(limit, runs, str(rng.choice(["main", "main", "short", "exact"]))))
    return found


def kill_soon(lab: Lab, planner: Follower, rng: np.random.Generator, *, of_slurmctld: bool) -> None:
    """Kill one of the two a moment after the next step of planning, or after some seconds without any."""
    before, last = len(steps(planner)), time.monotonic() + 8
    lab.wait(lambda: len(steps(planner)) > before or time.monotonic() > last, "a step of planning")
    time.sleep(float(rng.uniform(0.0, 1.5)))
    if of_slurmctld:
        kill(lab, "slurmctld")
        lab.start_slurmctld()
    else:
        planner.kill()
        planner.start()


@pytest.mark.slow  # three minutes
def test_no_job_is_ended_early_though_agent_and_slurmctld_are_killed(lab: Lab) -> None:
    rng = np.random.default_rng(15)
    planner = agent(lab, "kills")
    planner.start()
    (blocker,) = submitted(lab, [Asked(240, 240.0, "main")], "-N4", "--exclusive")
    asked: dict[str, Asked] = {}
    for k in range(KILLS):
        if k in (0, 4):
            for one in drawn(rng, JOBS // 2):
                asked |= submitted(lab, [one], f"-n{rng.integers(2, 5)}")
        if k == 4:
            lab.wait(lambda: len(of_kind(planner, "planned")) > JOBS / 4, "planned limits", 120)
            lab.run("scancel", blocker)
        kill_soon(lab, planner, rng, of_slurmctld=bool(k % 2))
    assert planner.killed == KILLS // 2
    empty(lab, 240)
    planner.kill(signal.SIGTERM)
    ran, done = accounted(lab), steps(planner)
    assert set(ran) >= set(asked)  # none is lost
    assert early(asked, ran) == []
    lowest(asked, done)
    planned, restored = of_kind(planner, "planned"), of_kind(planner, "restored")
    unseen = of_kind(planner, "ended")  # ran while nobody looked
    print(f"{len(planned)} planned, {len(restored)} restored, {len(unseen)} over before the next look", planner.tail())
    assert not [i for i, one in asked.items() if ran[i].limit != one.limit and i not in unseen]
    assert restored


def test_with_agent_and_slurmctld_dead_past_every_planned_end_no_job_is_ended_early(lab: Lab) -> None:
    planner = agent(lab, "dead")
    planner.start()
    (blocker,) = submitted(lab, [Asked(240, 240.0, "main")], "-N4", "--exclusive")
    asked = submitted(lab, [Asked(17 + k, 60.0 if k == 1 else 9.0, "main") for k in range(8)], "-n2")
    lab.wait(lambda: all(limits_now(lab)[i] == max(one.limit - 15, 2) for i, one in asked.items()), "planned limits")
    planner.kill()
    lab.run("scancel", blocker)
    lab.wait(lambda: len(lab.run("squeue", "-h", "-t", "R", "-o", "%i").split()) == len(asked), "started jobs")
    kill(lab, "slurmctld")
    time.sleep(12.0 * MINUTE / SPEED)  # every planned end is over by now
    lab.start_slurmctld()
    empty(lab, 120)
    ran = accounted(lab)
    assert early(asked, ran) == []
    assert {ran[i].state for i in asked} == {"COMPLETED", "TIMEOUT"}


def planned_and_running(lab: Lab, planner: Follower, *asked: Asked) -> dict[str, Asked]:
    """Jobs that were planned while they waited and have started since the collector died: limits of 40 stand at 25."""
    planner.start()
    (blocker,) = submitted(lab, [Asked(240, 240.0)], "-N4", "--exclusive")
    jobs = submitted(lab, list(asked), "-n2")
    lab.wait(lambda: all(limits_now(lab)[i] == one.limit - 15 for i, one in jobs.items()), "planned limits")
    planner.kill()
    lab.run("scancel", blocker)
    lab.wait(lambda: states(lab, jobs) == {"R"}, "started jobs")
    return jobs


def states(lab: Lab, jobs: Iterable[str]) -> set[str]:
    return set(lab.run("squeue", "-h", "-j", ",".join(jobs), "-o", "%t").split())


@pytest.mark.parametrize("how", ["requeue", "preemption"])
def test_a_job_that_waits_again_has_its_own_limit_back_before_it_is_planned_anew(lab: Lab, how: str) -> None:
    planner = agent(lab, how)
    jobs = planned_and_running(lab, planner, Asked(40, 20.0))
    (job,) = jobs
    if how == "requeue":
        lab.run("scontrol", "requeue", job)
    else:
        submitted(lab, [Asked(5, 3.0, "urgent")], "-N4", "--exclusive")
    lab.wait(lambda: states(lab, jobs) == {"PD"}, "a job that waits again")
    assert limits_now(lab)[job] == 25  # Slurm keeps what stood
    planner.start()
    lab.wait(lambda: job in of_kind(planner, "restored"), "its own limit")
    empty(lab, 120)
    again = [s for s in steps(planner) if s["job_id"] == job and s["what"] == "restoring"]
    assert again[0]["why"] == "it was requeued"
    lowest(jobs, [s for s in steps(planner) if s["job_id"] == job])
    planner.kill(signal.SIGTERM)
    ran = accounted(lab)
    assert early(jobs, ran) == []
    assert ran[job].limit == 40


def test_a_suspended_job_has_its_own_limit_back_before_it_goes_on(lab: Lab) -> None:
    planner = agent(lab, "suspended")
    jobs = planned_and_running(lab, planner, Asked(40, 32.0))
    (job,) = jobs
    lab.run("scontrol", "suspend", job)
    lab.wait(lambda: states(lab, jobs) == {"S"}, "a suspended job")
    planner.start()
    lab.wait(lambda: limits_now(lab)[job] == 40, "its own limit")
    lab.run("scontrol", "resume", job)
    empty(lab, 120)
    planner.kill(signal.SIGTERM)
    assert early(jobs, accounted(lab)) == []


def test_where_overtimelimit_is_lowered_limits_go_back_first_and_it_is_said(lab: Lab) -> None:
    planner = agent(lab, "lowered")
    jobs = planned_and_running(lab, planner, Asked(40, 36.0), Asked(18, 60.0))
    overruns = list(jobs)[1]
    planner.start()
    lab.wait(lambda: all(limits_now(lab)[i] == one.limit for i, one in jobs.items()), "their own limits")
    (blocker,) = submitted(lab, [Asked(240, 240.0)], "-N4", "--exclusive")
    waiting = submitted(lab, [Asked(40, 3.0), Asked(41, 3.0)], "-n2")
    lab.wait(lambda: all(limits_now(lab)[i] == one.limit - 15 for i, one in waiting.items()), "planned limits")
    lab.wait(lambda: elapsed(lab, overruns) > 19, "a job that overruns its own limit", 60)
    lab.run("scontrol", "update", "partitionname=main", "overtimelimit=5")
    try:
        lab.wait(lambda: all(limits_now(lab)[i] == one.limit - 5 for i, one in waiting.items()), "limits planned anew")
        lab.wait(lambda: "OverTimeLimit of partition main was lowered from" in planner.log.read_text(), "an alarm")
        lab.run("scancel", blocker)
        empty(lab, 120)
    finally:
        lab.run("scontrol", "update", "partitionname=main", "overtimelimit=15")
    whys = {s["why"] for s in steps(planner) if s["job_id"] in waiting and s["what"] == "restoring"}
    assert "OverTimeLimit no longer covers it" in whys
    planner.kill(signal.SIGTERM)
    assert early(jobs | waiting, accounted(lab)) == []


def elapsed(lab: Lab, job: str) -> float:
    """Minutes that a job has run."""
    return minutes(lab.run("squeue", "-h", "-j", job, "-o", "%M").strip())


def test_a_maintenance_announced_after_a_job_started_ends_nothing_early(lab: Lab) -> None:
    planner = agent(lab, "maintenance")
    jobs = planned_and_running(lab, planner, Asked(40, 30.0))
    (job,) = jobs
    (blocker,) = submitted(lab, [Asked(240, 240.0)], "-N4", "--exclusive")
    waiting = submitted(lab, [Asked(40, 3.0)], "-n2")
    when = ("starttime=now+15minutes", "duration=5", "users=root", "nodes=ALL", "flags=maint,ignore_jobs")
    name = lab.run("scontrol", "create", "reservation", *when).split()[-1]
    planner.start()
    lab.wait(lambda: limits_now(lab)[job] == 40, "its own limit, which passes the maintenance")
    lab.wait(lambda: elapsed(lab, job) > 25, "a job that runs on into the maintenance", 60)
    assert not [s for s in steps(planner) if s["job_id"] in waiting]  # its own limit would pass the maintenance, too
    lab.wait(lambda: states(lab, jobs) != {"R"}, "the end of the job", 60)
    lab.run("scancel", blocker)
    with contextlib.suppress(RuntimeError):  # it may be over
        lab.run("scontrol", "delete", f"reservation={name}")
    empty(lab, 120)
    planner.kill(signal.SIGTERM)
    assert early(jobs | waiting, accounted(lab)) == []


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
    lab.wait(lambda: all(limits_now(lab)[i] == 25 for i in ours), "planned limits")
    assert limits_now(lab)[marked] == limits_now(lab)[scripted] == 40
    assert lab.run("squeue", "-h", "-j", tasks, "-o", "%i").split() == [f"{tasks}_[1-4%2]"]  # not split into tasks
    lab.run("scontrol", "update", f"jobid={waiting[0]}", "timelimit=33", user="daemon")
    doctor = planner.run("doctor", check=False)
    assert f"job {waiting[1]}" in doctor
    assert "OverTimeLimit is 0:00:00" in doctor or "OverTimeLimit is 00:00:00" in doctor
    rows = json.loads(planner.run("plan", "--dry-run", "--json"))["results"]
    assert {r["why"] for r in rows if r["job_id"] == marked} == {"its submit line asks for a --signal"}
    assert {r["why"] for r in rows if r["job_id"] == scripted} == {"its script asks for a --signal"}
    when = ("starttime=now+30minutes", "duration=10", "users=root", "nodes=ALL", "flags=ignore_jobs")
    name = lab.run("scontrol", "create", "reservation", *when).split()[-1]
    ours.remove(waiting[0])
    lab.wait(lambda: all(limits_now(lab)[i] == 40 for i in ours), "their own limits before a reservation")
    lab.run("scontrol", "delete", f"reservation={name}")
    lab.wait(lambda: all(limits_now(lab)[i] == 25 for i in ours), "planned limits again")
    lab.run("scancel", blocker)
    running = ["squeue", "-h", "-t", "R", "-o", "%i", "-j", tasks]
    lab.wait(lambda: len(lab.run(*running).split()) == 2, "running tasks")
    lab.wait(lambda: [limits_now(lab)[i] for i in lab.run(*running).split()] == [40, 40], "their own limits")
    planner.run("plan", "--off")
    now = limits_now(lab)
    assert now.pop(waiting[0], 33) == 33
    assert set(now.values()) == {40}
    assert "no job stands" in planner.run("plan", "--off", "--json")
    planner.kill(signal.SIGTERM)


def _script(lab: Lab) -> str:
    path = lab.root / "signal.sh"
    path.write_text("#!/bin/sh\n#SBATCH --signal=B:USR1@60\nsleep 300\n")
    return str(path)
