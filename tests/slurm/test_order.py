"""Tests the queue order on a real Slurm: factors by prediction, arrays as a whole, others' factors unchanged, none left
after --off."""

from __future__ import annotations

import contextlib
import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import labs_on
from follow import Follower
from planning_lab import AGENTS, CONF, MINUTE, SPEED, agent, factors, kill, limits_now, saved
from slurm_lab import Lab

from batchcast.slurm.client import SNAPSHOT

pytestmark = [pytest.mark.slurm, pytest.mark.lab]
PATIENCE = 180.0


@pytest.fixture(scope="module", params=["here", pytest.param("newer", marks=pytest.mark.slow)])
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Four nodes whose priorities have no weights, at sixty times the speed, on this Slurm and on the newer one."""
    for _ in labs_on(request.param, speed=SPEED):
        with Lab(nodes=4, cpus=4, speed=SPEED, conf={**CONF, "PriorityType": "priority/multifactor"}) as running:
            yield running


@contextlib.contextmanager
def ordering(lab: Lab, name: str, **settings: str) -> Iterator[Follower]:
    follower = agent(lab, name, **{"PLAN": "order", "RUNTIME": "requested", "PLAN_ORDER_BY": "limits", **settings})
    follower.start()
    try:
        yield follower
    finally:
        follower.kill(signal.SIGTERM)
        lab.run("scancel", "--user=daemon")
        AGENTS.clear()


def test_the_order_is_set_survives_and_goes_back(lab: Lab) -> None:
    lab.submit("-t", "600", "-N4", "--exclusive", seconds=600 * MINUTE)
    long, short = lab.submit("-t", "100", seconds=MINUTE), lab.submit("-t", "10", seconds=MINUTE)
    array = lab.submit("-t", "30", "--array=1-3", seconds=MINUTE)
    theirs = lab.submit("-t", "5", seconds=MINUTE)
    lab.run("scontrol", "update", f"jobid={theirs}", "SiteFactor=7")
    with ordering(lab, "order") as follower:
        mine = {long, short, array}
        lab.wait(lambda: mine <= factors(lab).keys(), "factors by forecast", PATIENCE)
        now = factors(lab)
        assert now[short] > now[array] > now[long] > 0
        assert now[theirs] == 7
        assert len(lab.run("squeue", "-h", "-t", "PD", "-o", "%i").split()) == 4  # the array is still one record
        saved(lab, long)
        kill(lab, "slurmctld")
        lab.start_slurmctld()
        lab.wait(lambda: factors(lab) == now, "the same factors from a new slurmctld", PATIENCE)
        lab.run("scontrol", "hold", long)
        lab.wait(lambda: follower.run("plan", "--off") is not None, "planning off", 120)
        lab.run("scontrol", "release", long)
        lab.wait(lambda: factors(lab) == {theirs: 7}, "no factor but the operator's", PATIENCE)
        audit = follower.run("plan", "--audit")
        assert "SiteFactor 0 ->" in audit
        assert "read back" in audit
        follower.run("plan", "--on")
        lab.wait(lambda: mine <= factors(lab).keys(), "factors again", PATIENCE)
        follower.kill(signal.SIGKILL)
        assert mine <= factors(lab).keys()  # after a kill of batchcast, Slurm keeps the last factors
        follower.run("plan", "--off")
        assert factors(lab) == {theirs: 7}


def cycles(record: Path) -> list[Counter[str]]:
    """Return each complete cycle's commands and how often it ran them, without options that name jobs and times."""
    found: list[Counter[str]] = []
    for line in record.read_text().splitlines():
        words = json.loads(line)["command"]
        if tuple(words) == SNAPSHOT:
            found.append(Counter())
        if found:
            found[-1][" ".join(words[:3])] += 1
    return found[1:-1]


def test_after_off_a_cycle_runs_the_commands_of_a_cycle_before_planning(lab: Lab, tmp_path: Path) -> None:
    """Regression: after `plan --off` 12 to 19 calls a cycle remained for hours, instead of the 5.8 before planning."""
    lab.submit("-t", "600", "-N4", "--exclusive", seconds=600 * MINUTE)
    mine = {lab.submit("-t", str(limit), seconds=MINUTE) for limit in (100, 90)}
    usual = []
    settings = {"PLAN": "off", "RUNTIME": "hasty:Hasty", "HISTORY_EVERY_S": "86400"}
    with ordering(lab, "calls", **settings) as follower:
        for phase in ("before", "during", "after"):
            follower.kill(signal.SIGTERM)
            follower.env["BATCHCAST_PLAN"] = "both" if phase == "during" else "off"
            record = tmp_path / phase
            if phase == "after":
                lab.wait(lambda: follower.run("plan", "--off") is not None, "planning off", 120)
            follower.start("--record", str(record))
            if phase == "during":
                lab.wait(lambda: mine <= factors(lab).keys(), "factors", PATIENCE)
                lab.wait(lambda: any(limits_now(lab)[job] < 90 for job in mine), "a planned limit", PATIENCE)
            lab.wait(lambda r=record: r.exists() and len(cycles(r)) >= 12, "twelve cycles", PATIENCE)
            usual.append(cycles(record)[6:])
    before, during, after = (Counter(frozenset(one.items()) for one in some).most_common(1)[0][0] for some in usual)
    assert after == before
    assert sum(n for _, n in during) > sum(n for _, n in before)
    assert not any("update" in command for one in usual[2] for command in one)
    assert factors(lab) == {}


def test_a_site_without_multifactor_is_told_so(lab: Lab) -> None:
    conf = lab.slurm_conf.read_text()
    lab.slurm_conf.write_text(conf.replace("priority/multifactor", "priority/basic"))
    kill(lab, "slurmctld")
    lab.start_slurmctld()
    try:
        lab.submit("-t", "600", "-N4", "--exclusive", seconds=600 * MINUTE)
        lab.submit("-t", "100", seconds=MINUTE)
        with ordering(lab, "basic") as follower:
            lab.wait(lambda: "needs priority/multifactor" in follower.tail(), "the reason", PATIENCE)
            assert "SiteFactor" not in follower.run("plan", "--audit")
    finally:
        lab.slurm_conf.write_text(conf)
