"""Tests two thousand jobs in a real queue: the cost of one cycle for slurmctld, and that every job has its predictions
after it."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from follow import Follower, cpu_seconds
from slurm_lab import Lab

from batchcast.store.reader import Reader

pytestmark = [pytest.mark.slurm, pytest.mark.lab, pytest.mark.usefixtures("lab_here")]
WAITING = 2000
METHODS = 6  # run time: kernel, last_2, recent_mean and calibrated; wait: forecast and recent_wait


class Cost(NamedTuple):
    """The cost of one cycle of the collector."""

    jobs: int
    forecasts: int
    slurmctld_cpu_s: float
    calls_s: float
    cycle_s: float


def cycle_cost(lab: Lab, waiting: int, alone: int) -> Cost:
    """Run one cycle over a queue of this many jobs, `alone` of them submitted singly and the others as tasks of
    arrays."""
    first_job = lab.submit("-N4", "--exclusive", "-t", "60", seconds=3600)
    lab.wait(lambda: lab.run("squeue", "-h", "-j", first_job, "-o", "%t").strip() == "R", "the machine to be taken")
    for k in range(alone):
        lab.submit("-n1", "-t", str(10 + k % 50), seconds=60, name=f"job{k % 30}")
    for first in range(alone, waiting, 1000):
        lab.submit("-n1", "-t", "10", f"--array=1-{min(1000, waiting - first)}", seconds=60, name="array")
    follower = Follower(lab, str(lab.root / "store.db"), HISTORY_DAYS="0.01")
    # the test does not measure the cost of reading history and of the first cycle
    follower.run("collect", "--once", "--quiet")
    for row in Reader(follower.store).rows("SELECT count(*) AS n FROM jobs WHERE open = 1 AND start_time IS NULL"):
        assert row["n"] == waiting
    spent = forecasts = 0.0

    def cycle_issues_all() -> bool:  # the first cycle soon after the submissions waits for jobs that may still arrive
        nonlocal spent, forecasts
        before = cpu_seconds(lab)
        follower.run("collect", "--once", "--quiet")
        spent = cpu_seconds(lab) - before
        rows = Reader(follower.store).rows("SELECT count(*) AS n FROM forecasts f JOIN jobs j ON j.row = f.row"
                                           " WHERE f.moment = 'submit' AND j.start_time IS NULL")  # fmt: skip
        forecasts = rows[0]["n"]
        return forecasts >= METHODS * waiting

    lab.wait(cycle_issues_all, "a forecast of run time and wait for every job", seconds=120.0)
    memory = Reader(follower.store).memory("lab")
    return Cost(waiting, int(forecasts), spent, memory["health"]["slurmctld"]["seconds"], memory["cycle_s"])


def test_one_cycle_over_two_thousand_jobs_costs_slurmctld_less_than_a_second() -> None:
    with Lab(
        nodes=4, cpus=2, conf={"MaxArraySize": "3000", "SchedulerParameters": "bf_interval=3600,sched_interval=3600"}
    ) as lab:
        cost = cycle_cost(lab, WAITING, alone=20)
    assert cost.forecasts == METHODS * WAITING
    assert cost.slurmctld_cpu_s < 1.0
