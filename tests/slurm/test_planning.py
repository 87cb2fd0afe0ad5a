"""Planning on a real Slurm, with forecasts that are always far too short, under SIGKILLs: no job is ended early."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from follow import Follower
from slurm_lab import Lab

from batchcast.errors import BatchcastError
from batchcast.store.reader import Reader
from conftest import labs_on

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
SPEED, MINUTE = 60.0, 60.0
OVER = {"main": 15.0, "short": 10.0, "exact": 0.0}
CONF = {
    "OverTimeLimit": "15",
    "PartitionName": "short Nodes=ALL MaxTime=2:00:00 OverTimeLimit=10 State=UP",
    "Partitionname": "exact Nodes=ALL MaxTime=2:00:00 OverTimeLimit=0 State=UP",
}
JOBS, KILLS = 60, 10


class Asked(NamedTuple):
    """A job as its user asked for it: minutes."""

    limit: int
    runs: float
    partition: str


class Ran(NamedTuple):
    """A job as accounting has it: minutes."""

    limit: float
    ran: float
    state: str


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Four nodes, three partitions, at sixty times the speed."""
    for _ in labs_on("here", speed=SPEED):
        with Lab(nodes=4, cpus=4, speed=SPEED, conf=CONF) as running:
            yield running


def agent(lab: Lab, name: str) -> Follower:
    """A collector that plans every partition, as boldly as it may."""
    follower = Follower(
        lab,
        str(lab.root / f"{name}.db"),
        HISTORY_DAYS="0.01",
        RUNTIME="hasty:Hasty",
        WAIT="recent_wait:need=1",
        PLAN="plan",
        PLAN_PARTITIONS="main,short,exact",
        PLAN_CALL_S="3600",
        PLAN_LAG_S="86400",
        TIMEOUT_S="900",
    )
    follower.env["PYTHONPATH"] = str(Path(__file__).parent)
    return follower


def submitted(lab: Lab, asked: list[Asked], *options: str) -> dict[str, Asked]:
    return {
        lab.submit("-t", str(one.limit), "-p", one.partition, *options, seconds=one.runs * MINUTE): one for one in asked
    }


def drawn(rng: np.random.Generator, jobs: int) -> list[Asked]:
    """Padded limits; every tenth job runs longer than it may."""
    found = []
    for k in range(jobs):
        limit = int(rng.integers(17, 24))
        runs = 90.0 if k % 10 == 7 else float(rng.uniform(3.0, 9.0))
        found.append(Asked(limit, runs, str(rng.choice(["main", "main", "short", "exact"]))))
    return found


def accounted(lab: Lab) -> dict[str, Ran]:
    text = lab.run("sacct", "-XnPa", "--starttime=2000-01-01", "--format=JobID,TimelimitRaw,ElapsedRaw,State")
    rows = (line.split("|") for line in text.splitlines())
    return {i: Ran(float(limit), float(ran) / 60, state.split(" ")[0]) for i, limit, ran, state in rows}


def early(asked: dict[str, Asked], ran: dict[str, Ran]) -> list[str]:
    """Jobs that ended neither by themselves nor at or after their user's limit."""
    return [
        f"job {i}: asked {one}, was {ran[i]}"
        for i, one in asked.items()
        if not (ran[i].state == "COMPLETED" and ran[i].ran >= min(one.runs, one.limit) - 0.05)
        and not (ran[i].state == "TIMEOUT" and ran[i].ran >= one.limit)
    ]


def kill(lab: Lab, name: str) -> None:
    pid = int(lab.pid_file(name).read_text())
    os.kill(pid, signal.SIGKILL)
    lab.wait(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text(), "a dead daemon")


def limits_now(lab: Lab) -> dict[str, float]:
    """Minutes, of every job that is not over."""
    rows = (line.split() for line in lab.run("squeue", "-hro", "%i %l", "-t", "PD,R").splitlines())
    return {i: minutes(text) for i, text in rows}


def minutes(text: str) -> float:
    whole = [float(x) for x in text.split(":")]
    return sum(x * 60.0**k for k, x in enumerate(reversed(whole))) / 60


def steps(follower: Follower) -> list[dict[str, object]]:
    with contextlib.suppress(BatchcastError):  # the store is not made yet
        return Reader(follower.store).rows("SELECT * FROM plan_changes ORDER BY id")
    return []


def of_kind(follower: Follower, what: str) -> set[object]:
    return {s["job_id"] for s in steps(follower) if s["what"] == what}


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
    lab.wait(lambda: not lab.run("squeue", "-h", "-t", "PD,R,CG", "-o", "%i").split(), "ended jobs", 240)
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


def lowest(asked: dict[str, Asked], done: list[dict[str, object]]) -> None:
    """No limit was ever asked for below what OverTimeLimit covers, and none where it covers nothing."""
    for step in done:
        one = asked[str(step["job_id"])]
        assert float(str(step["limit_to"])) >= (one.limit - OVER[one.partition]) * MINUTE
        assert one.partition != "exact"


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
    lab.wait(lambda: not lab.run("squeue", "-h", "-t", "PD,R,CG", "-o", "%i").split(), "ended jobs", 120)
    ran = accounted(lab)
    assert early(asked, ran) == []
    assert {ran[i].state for i in asked} == {"COMPLETED", "TIMEOUT"}


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
