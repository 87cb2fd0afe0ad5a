"""Tests planning with predictions that are always far too short, under SIGKILLs and on a full disk: no job is ended
early."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from conftest import labs_on
from fire import KINDS, Run, carry_out
from planning_lab import SPEED

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
JOBS, KILLS = 60, 10


@pytest.mark.parametrize(
    "kinds", [KINDS, *(pytest.param((kind,), marks=pytest.mark.slow) for kind in sorted(set(KINDS)))], ids="-".join
)
def test_no_job_is_ended_early_whatever_is_killed(kinds: Sequence[str]) -> None:
    for _ in labs_on("here", speed=SPEED):
        done = carry_out(Run(15, "hasty", JOBS, KILLS, tuple(kinds)))
        print(done)
        assert sum(done["hit"].values()) == KILLS
        assert done["planned"]
        assert done["early"] == done["lost"] == 0, done["details"]
        assert done["least_margin_min"] >= 0  # no limit was below what OverTimeLimit covers
        assert done["unrecorded"] == 0  # the store has every planned limit, also while the disk was full
        assert done["accounting_differs"] == 0  # jobs that started and ended between two looks are not counted


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["time-min", "advise"])
def test_nor_by_another_mode(mode: str) -> None:
    for _ in labs_on("here", speed=SPEED):
        done = carry_out(Run(16, "hasty", JOBS, KILLS, KINDS, mode))
        print(done)
        assert bool(done["planned"]) == (mode == "time-min")
        assert done["early"] == done["lost"] == 0, done["details"]
        assert done["unrecorded"] == done["accounting_differs"] == 0


@pytest.mark.slow
def test_nor_with_the_order_on_and_off_leaves_no_factor() -> None:
    for _ in labs_on("here", speed=SPEED):
        done = carry_out(Run(17, "hasty", JOBS, KILLS, KINDS, "both"))
        print(done)
        assert sum(done["hit"].values()) == KILLS
        assert done["planned"]
        assert done["factors"]
        assert done["early"] == done["lost"] == 0, done["details"]
        assert done["least_margin_min"] >= 0
        assert done["unrecorded"] == done["accounting_differs"] == done["factors_unrecorded"] == 0
        assert done["factors_left"] == 0
