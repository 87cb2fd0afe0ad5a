"""Tests each recommendation of a report on a real Slurm: its exact settings, and what they change there."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from conftest import labs_on
from planning_lab import AGENTS, CONF, MINUTE, SPEED, agent, factors, limits_now
from slurm_lab import Lab

from batchcast.evaluation.evaluation import POLICIES, PREDICTORS
from batchcast.evaluation.findings import recommended_settings, settings_toml
from batchcast.service.settings import load
from batchcast.simulation.models import LEAST_WORK, SLURM, YARDSTICK

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
PATIENCE = 240.0
ROWS = list(product((SLURM, LEAST_WORK, *POLICIES), (YARDSTICK, *PREDICTORS)))
RECOMMENDED = [(*row, found) for row in ROWS if (found := recommended_settings(*row))]


@pytest.fixture(scope="module", params=["here", pytest.param("newer", marks=pytest.mark.slow)])
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Four busy nodes at sixty times the speed. The `quick` jobs of user daemon ran 2 min, the `slow` jobs of user
    games 40 min."""
    for _ in labs_on(request.param, speed=SPEED):
        with Lab(nodes=4, cpus=4, speed=SPEED, conf={**CONF, "PriorityType": "priority/multifactor"}) as running:
            for _ in range(4):
                running.submit("-t", "100", seconds=2 * MINUTE, name="quick")
                running.submit("-t", "60", seconds=40 * MINUTE, name="slow", user="games")
            running.wait(lambda lab=running: not limits_now(lab), "jobs that have ended", PATIENCE)
            running.submit("-t", "600", "-N4", "--exclusive", seconds=600 * MINUTE, user="games")
            yield running


def test_every_row_of_a_slurm_that_needs_no_foresight_has_settings() -> None:
    named = {row[:2] for row in RECOMMENDED}
    assert named == {(LEAST_WORK, name) for name in (YARDSTICK, *PREDICTORS)} | {(SLURM, "kernel")}


@pytest.mark.parametrize(("policy", "predictor", "settings"), RECOMMENDED)
def test_a_recommendation_does_on_a_slurm_what_it_says(
    lab: Lab, tmp_path: Path, policy: str, predictor: str, settings: dict[str, str | float]
) -> None:
    """Two jobs wait, and the quick one has the longer limit, so limits and predictions order them differently."""
    config = tmp_path / "batchcast.toml"
    config.write_text(f"{settings_toml(settings)}\n")
    follower = agent(lab, f"{policy}-{predictor}", HISTORY_DAYS="1")
    for name in settings:  # so that only the report's settings apply
        follower.env.pop(f"BATCHCAST_{name.upper()}", None)
    if "runtime" not in settings:
        follower.env["BATCHCAST_RUNTIME"] = load({}, {})["runtime"]
    follower.env["BATCHCAST_CONFIG"] = str(config)
    quick = lab.submit("-t", "100", seconds=2 * MINUTE, name="quick")
    slow = lab.submit("-t", "60", seconds=40 * MINUTE, name="slow", user="games")
    follower.start()
    try:
        if policy == LEAST_WORK:
            lab.wait(lambda: {quick, slow} <= factors(lab).keys(), "both in the order", PATIENCE)
            now = factors(lab)
            assert (now[quick] > now[slow]) == (predictor != YARDSTICK), follower.tail()
            assert limits_now(lab)[quick] == 100
        else:
            lab.wait(lambda: limits_now(lab)[quick] < 100, "a planned limit", PATIENCE)
            assert limits_now(lab)[quick] == 85  # the invariant: no limit below the job's own limit minus OverTimeLimit
            assert not factors(lab)
        follower.run("plan", "--off")
        assert not factors(lab)
        assert (limits_now(lab)[quick], limits_now(lab)[slow]) == (100, 60)
    finally:
        follower.kill(signal.SIGTERM)
        lab.run("scancel", quick, slow)
        AGENTS.clear()
