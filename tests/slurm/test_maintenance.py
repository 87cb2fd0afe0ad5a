"""Tests whole-node jobs that wait for the end of a maintenance on a real Slurm: predicted and real start times."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from follow import Follower
from slurm_lab import Lab

pytestmark = [pytest.mark.slurm, pytest.mark.lab, pytest.mark.slow, pytest.mark.usefixtures("fast_lab_here")]
SPEED, MINUTE = 30.0, 60.0


def test_the_jobs_behind_a_maintenance_are_told_of_those_in_front_and_start_by_then() -> None:
    """Regression: for each of seven jobs on four nodes, the end of the maintenance was predicted as the start, but none
    had started an hour and a half later."""
    with Lab(nodes=4, cpus=4, speed=SPEED) as lab:
        follower = Follower(lab, str(lab.root / "store.db"), WAIT="recent_wait:need=1", RUNTIME="recent_mean")
        follower.start()
        lab.wait(follower.has_looked, "a cycle", 400)  # code is compiled once, which takes minutes on a crowded machine
        before = [lab.submit("-N1", "--exclusive", "-t", "30", seconds=15 * MINUTE, name="post") for _ in range(4)]
        lab.wait(lambda: set(before) <= started(lab).keys(), "jobs to learn from", 120)
        lab.wait(lambda: "COMPLETED" in lab.run("sacct", "-naPX", "-o", "State"), "an end in accounting", 120)
        lab.run("scontrol", "create", "reservation", "reservationname=power", "starttime=now", "duration=90",
                "nodes=ALL", "flags=maint,ignore_jobs", "users=root")  # fmt: skip
        jobs = [lab.submit("-N1", "--exclusive", "-t", "30", seconds=15 * MINUTE, name="post") for _ in range(7)]
        lab.wait(lambda: all(answers(follower, jobs)), "an answer to each", 400)
        said = dict(zip(jobs, answers(follower, jobs)))
        likely = [said[job]["likely_start_s"] for job in jobs]
        assert max(likely[:4]) < min(likely[4:]), "three of seven wait for a node"
        lab.wait(lambda: set(jobs) <= started(lab).keys(), "their starts", 400)
        follower.kill(signal.SIGTERM)
        starts = started(lab)
        assert all(starts[job] <= said[job]["by_90_start_s"] + MINUTE for job in jobs), (starts, said)
        assert max(starts[job] for job in jobs[4:]) > min(starts[job] for job in jobs[:4]) + 10 * MINUTE


def answers(follower: Follower, jobs: list[str]) -> list[dict[str, Any]]:
    """Return the answer for each job that has a likely start and waits for the maintenance; empty for other jobs."""
    said = follower.run("start", *jobs, "--json", check=False)
    found = {one["job_id"]: one for one in json.loads(said)["results"]} if said else {}
    told = {job: one for job, one in found.items() if one["likely_start_s"] and one["counts_from"] != "submission"}
    return [told.get(job, {}) for job in jobs]


def started(lab: Lab) -> dict[str, float]:
    """Return the start time, in epoch seconds, of each job that has started."""
    text = lab.run("sacct", "-naPX", "-o", "JobID,Start", env={**lab.env, "SLURM_TIME_FORMAT": "%s"})
    rows = (line.split("|") for line in text.splitlines())
    return {job: float(start) for job, start in rows if start.isdigit()}
