"""Tests when fair share lets a job pass earlier jobs: the predicted times and order, against Slurm's own."""

from __future__ import annotations

import json
import signal

import pytest
from follow import Follower
from slurm_lab import USERS, Lab

from batchcast.store.reader import Reader

pytestmark = [pytest.mark.slurm, pytest.mark.lab, pytest.mark.usefixtures("fast_lab_here")]
SPEED, MINUTE = 60.0, 60.0
CONF = {
    "PriorityType": "priority/multifactor",
    "PriorityWeightFairShare": "10000",
    "PriorityCalcPeriod": "1",
    "AccountingStorageEnforce": "associations",
}
FEW_PERIODS_S = 5 * MINUTE  # five real seconds, because this machine may be busy


def projected(lab: Lab, follower: Follower, job: str, since: float) -> list[float | None]:
    """Return how many jobs are before this job and when it passes them, as the collector predicted after an instant."""
    found: list[list[float | None]] = []

    def there() -> bool:
        known = Reader(follower.store).memory("lab").get("passes") or {"at": 0.0, "jobs": {}}
        found[:] = [known["jobs"][job]] if known["at"] > since and job in known["jobs"] else []
        return bool(found)

    lab.wait(there, "a projection", 60)
    return found[0]


def priorities(lab: Lab) -> dict[str, int]:
    """Return the priority of each waiting job in Slurm."""
    rows = lab.run("squeue", "-h", "-t", "PD", "-o", "%i %Q").splitlines()
    return {job: int(value) for job, value in map(str.split, rows)}


def state(lab: Lab, job: str) -> str:
    return lab.run("squeue", "-h", "-j", job, "-o", "%t").strip()


def test_jobs_start_in_the_order_foretold_and_pass_at_the_time_foretold() -> None:
    heavy, light = USERS
    with Lab(nodes=3, cpus=2, speed=SPEED, conf=CONF) as lab:
        follower = Follower(lab, str(lab.root / "store.db"), HISTORY_DAYS="0.02", HISTORY_EVERY_S="60",
                            WAIT="recent_wait:need=1")  # fmt: skip
        follower.start()
        long = ("-N1", "--exclusive", "-t600")

        def submit(user: str, *more: str) -> str:
            return lab.submit(*long, *more, seconds=600 * MINUTE, user=user)

        try:
            # six processors for 10 minutes: the heavy user's jobs are ahead until they have used as much as the other
            # users
            first = lab.submit("-N3", "--exclusive", "-t30", seconds=10 * MINUTE, user=light)
            blockers = [submit("root", "-A", "chemistry") for _ in range(2)]
            ran, ahead, second = (submit(heavy) for _ in range(3))
            behind = submit(light)
            lab.wait(lambda: not state(lab, first) and state(lab, ran) == "R", "a full machine", 120)
            full = lab.now()

            assert projected(lab, follower, ahead, full)[0] == 0
            before, late = projected(lab, follower, behind, full)
            assert before == 2
            assert late is not None
            lab.run("scancel", blockers[0])
            lab.wait(lambda: state(lab, ahead) == "R", "the start of the job ahead", 30)
            assert state(lab, behind) == "PD"

            passes = projected(lab, follower, behind, lab.now())[1]
            assert passes is not None
            assert lab.now() < passes < late  # two running jobs add to the heavy user's usage
            lab.wait(lambda: priorities(lab)[behind] > priorities(lab)[second], "the other order", 60)
            assert abs(lab.now() - passes) <= FEW_PERIODS_S
            assert projected(lab, follower, behind, lab.now())[0] == 0
            (answer,) = json.loads(follower.run("start", behind, "--json"))["results"]
            assert answer["priority_passes"] == "no waiting job of the partition has a higher priority"
            lab.run("scancel", blockers[1])
            lab.wait(lambda: state(lab, behind) == "R", "the start of the job that passed", 30)
            assert state(lab, second) == "PD"
        finally:
            follower.kill(signal.SIGTERM)
