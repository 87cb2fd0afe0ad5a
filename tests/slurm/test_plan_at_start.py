"""Tests that slurmctld's prolog restores the own limit of a job that starts with a planned limit, without the
collector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import labs_on
from planning_lab import SPEED, Asked, accounted, agent, empty, lab_with_script, limits_now, of_kind, submitted
from slurm_lab import Lab

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
PATIENCE = 180.0


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    for _ in labs_on("here", speed=SPEED):
        with lab_with_script(tmp_path) as running:
            yield running


def test_jobs_start_with_their_users_limits_though_nobody_looks(lab: Lab, tmp_path: Path) -> None:
    planner = agent(lab, "start", PLAN_LIST=str(tmp_path / "planned"))
    planner.start()
    try:
        (blocker,) = submitted(lab, [Asked(240, 240.0)], "-N4", "--exclusive")
        asked = submitted(lab, [Asked(30 + k, 2.0) for k in range(4)], "-n2")
        array = lab.submit("-t", "50", "-a", "1-3", "-n2", seconds=120.0)
        want = {i: one.limit for i, one in asked.items()} | {f"{array}_{k}": 50 for k in (1, 2, 3)}
        lab.wait(lambda: {i: limits_now(lab)[i] + 15 for i in want} == want, "planned limits", PATIENCE)
        planner.kill()
        lowered = next(iter(asked))
        lab.run("scontrol", "update", f"jobid={lowered}", "timelimit=12")
        want[lowered] = 12
        lab.run("scancel", blocker)
        empty(lab, PATIENCE)
        ran = accounted(lab)
        assert {i: ran[i].limit for i in want} == want  # a user's later change stays
        planner.start()
        lab.wait(lambda: of_kind(planner, "ended") >= set(want) - {lowered}, "a look at what is over", PATIENCE)
        assert not of_kind(planner, "foreign") & (set(want) - {lowered})
    finally:
        planner.kill()
