"""Tests the planner against a scripted slurmctld and a real store: what is recorded first, and what is always
restored."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from tests.scripted_slurm import START, Job, Site

from batchcast.planning.decide import PLANNED_BY_ANOTHER
from batchcast.planning.record import State
from batchcast.predict.protocol import Grounds, Prediction
from batchcast.service.planning import agent
from batchcast.service.planning.terms import TOO_SHORT
from batchcast.store import clock_jobs, planned
from batchcast.store.database import Connection


def test_a_job_is_planned_and_has_its_limit_back_as_soon_as_it_runs(tmp_path: Path) -> None:
    site = Site(
        tmp_path,
        Job("1"),
        Job("2"),
        Job("3", line="sbatch --signal=9@60 x"),
        Job("4", script="#!/bin/sh\n#SBATCH --sig 9\n"),
    )
    assert site.cycle() == (2, 0, 2)
    assert [job.limit for job in site.slurm.jobs.values()] == [60, 60, 120, 120]
    assert site.slurm.commands == ["jobid=1,2 timelimit=60"]
    site.slurm.jobs["1"].state = "RUNNING"
    assert site.cycle() == (0, 1, 1)
    assert site.slurm.jobs["1"].limit == 120
    assert (site.state("1"), site.state("2")) == (State.RESTORED, State.PLANNED)
    assert site.cycle() == (0, 0, 1)


@pytest.fixture(autouse=True)
def _an_ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "own_name", lambda: "batchcast")


def test_by_time_min_slurm_lowers_the_limit_and_the_job_has_its_own_back(tmp_path: Path) -> None:
    site = Site(tmp_path, Job("1"), Job("2"), Job("3", time_min=30), plan="time-min")
    assert site.cycle() == (2, 0, 2)
    assert [(job.limit, job.time_min) for job in site.slurm.jobs.values()] == [(120, 60), (120, 60), (120, 30)]
    one, two = site.slurm.jobs["1"], site.slurm.jobs["2"]
    one.state, one.limit = "RUNNING", 75  # Slurm's backfill loop lowers the limit
    two.state = "RUNNING"  # Slurm's main loop does not lower the limit
    assert site.cycle() == (0, 1, 0)
    assert (one.limit, two.limit, site.state("2")) == (120, 120, State.RESTORED)
    one.limit = 90  # its user
    site.cycle()
    assert one.limit == 90


def test_who_raises_a_limit_above_our_time_min_has_it_taken_away(tmp_path: Path) -> None:
    site = Site(tmp_path, Job("1"), plan="time-min")
    site.cycle()
    site.slurm.jobs["1"].limit = 600
    site.cycle()
    assert (site.slurm.jobs["1"].limit, site.slurm.jobs["1"].time_min) == (600, 0)
    assert site.state("1") is State.FOREIGN
    assert site.cycle() == (0, 0, 0)


def test_an_administrator_writes_a_token_beside_what_others_wrote_and_takes_it_away(tmp_path: Path) -> None:
    site = Site(tmp_path, Job("1", admin_comment="nights only"), Job("2"))
    site.slurm.level = "Administrator"
    assert site.cycle() == (2, 0, 2)
    token = "batchcast:limit=02:00:00,planned=01:00:00;"
    assert [job.admin_comment for job in site.slurm.jobs.values()] == [f"nights only {token}", token]
    site.slurm.jobs["1"].state = "RUNNING"
    site.slurm.jobs["2"].limit = 90  # somebody else's now
    site.cycle()
    assert [job.admin_comment for job in site.slurm.jobs.values()] == ["nights only", ""]
    assert len(site.slurm.commands) == 4  # one update per job, and one for the job without an entry


def test_a_comment_that_is_refused_costs_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "own_name", lambda: "root")  # but slurmctld gives this user fewer rights
    site = Site(tmp_path, Job("1"))
    assert site.cycle() == (1, 0, 1)
    assert site.slurm.jobs["1"].limit == 60


@pytest.mark.parametrize(("level", "name"), [("Operator", "comment"), ("Administrator", "admin_comment")])
def test_advice_changes_nothing_but_a_comment_and_takes_it_away(tmp_path: Path, level: str, name: str) -> None:
    site = Site(tmp_path, Job("1", **dict[str, Any]({name: "mine"})), Job("2"), plan="advise", wait="recent_wait")
    site.slurm.level = level
    site.waits(7200.0)
    assert site.cycle() == (0, 0, 0)
    told = [getattr(job, name) for job in site.slurm.jobs.values()]
    assert all(re.fullmatch(r"(mine )?batchcast:start=\S+,by=\S+;", text) for text in told), told
    assert told[0].startswith("mine ")
    assert all((job.limit, job.time_min) == (120, 0) for job in site.slurm.jobs.values())
    assert all("timelimit" not in command for command in site.slurm.commands)
    before = len(site.slurm.commands)
    site.cycle()
    assert len(site.slurm.commands) == before  # the comment is unchanged, so there is no call
    site.slurm.jobs["1"].state = "RUNNING"
    site.cycle()
    assert getattr(site.slurm.jobs["1"], name) == "mine"
    with site.store.begin() as connection:
        clock_jobs.write_meta(connection, "c", **{planned.SWITCH: {"by": "root", "at": 1.0}})
    site.cycle()
    assert getattr(site.slurm.jobs["2"], name) == ""
    before = len(site.slurm.commands)
    assert site.cycle() == (0, 0, 0)
    assert len(site.slurm.commands) == before


def test_what_is_about_to_be_done_is_in_the_store_before_it_is_done(tmp_path: Path) -> None:
    site = Site(tmp_path, Job("1"))
    seen: list[State] = []
    site.slurm.before_update = lambda: seen.append(site.state("1"))
    site.cycle()
    site.slurm.jobs["1"].state = "RUNNING"
    site.cycle()
    assert seen == [State.INTENDED, State.RESTORING]


@pytest.mark.parametrize("arrives", [False, True])
def test_killed_while_scontrol_was_under_way_it_goes_on_from_what_it_sees(tmp_path: Path, arrives: bool) -> None:
    site = Site(tmp_path, Job("1"))

    def dies() -> None:
        site.slurm.jobs["1"].limit = 60 if arrives else 120
        raise KeyboardInterrupt

    site.slurm.before_update = dies
    with pytest.raises(KeyboardInterrupt):
        site.cycle()
    assert site.state("1") is State.INTENDED
    site.slurm.before_update = lambda: None
    site.restarted()
    site.slurm.jobs["1"].state = "RUNNING"
    site.cycle()
    assert site.slurm.jobs["1"].limit == 120
    site.slurm.jobs["1"].limit = 60  # the killed agent's update arrives late
    if not arrives:
        assert site.cycle() == (0, 1, 0)
        assert site.slurm.jobs["1"].limit == 120


def test_where_the_store_cannot_be_written_nothing_is_planned_and_everything_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, Job("1"), Job("2"), Job("3"))
    site.slurm.jobs["2"].state = "CONFIGURING_NOT"
    site.cycle()
    assert [job.limit for job in site.slurm.jobs.values()] == [60, 120, 60]
    write = planned.write

    def full(connection: Connection, _: str, changes: Sequence[object]) -> None:
        if changes:
            raise OperationalError("INSERT", {}, sqlite3.OperationalError("database or disk is full"))

    monkeypatch.setattr(planned, "write", full)
    site.slurm.jobs["1"].state, site.slurm.jobs["2"].state = "RUNNING", "PENDING"
    done = site.planner.cycle("c")
    assert any("is full" in problem for problem in done.problems)
    assert [job.limit for job in site.slurm.jobs.values()] == [120, 120, 60]
    site.cycle()  # job 3 still waits: the store could not record the next change
    assert [job.limit for job in site.slurm.jobs.values()] == [120, 120, 120]
    monkeypatch.setattr(planned, "write", write)
    site.cycle()
    # the changed limits come from batchcast's own earlier update, not from another program
    assert (site.state("1"), site.state("3")) == (State.RESTORED, State.RESTORED)
    later = [site.cycle() for _ in range(6)]
    assert (later[0], later[-1]) == ((0, 0, 0), (0, 0, 2))


def test_a_store_that_cannot_even_be_read_holds_no_limit_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, Job("1"))
    site.cycle()

    def away(*_: object) -> None:
        raise OperationalError("SELECT", {}, sqlite3.OperationalError("disk I/O error"))

    for name in ("entries", "write", "run_outcomes", "closed"):
        monkeypatch.setattr(planned, name, away)
    site.cycle()
    assert site.slurm.jobs["1"].limit == 120


def test_a_limit_that_was_not_taken_is_not_believed_and_not_tried_again_at_once(tmp_path: Path) -> None:
    site = Site(tmp_path, Job("1"))
    site.slurm.refuses = True
    done = site.planner.cycle("c")
    assert done.counts == (0, 0, 0)
    assert any("permission denied" in problem for problem in done.problems)
    site.cycle()
    assert len(site.slurm.commands) == 1


def test_switched_off_it_gives_everything_back_and_asks_nothing_more(tmp_path: Path) -> None:
    site = Site(tmp_path, Job("1"), Job("2"))
    site.cycle()
    with site.store.begin() as connection:
        clock_jobs.write_meta(connection, "c", **{planned.SWITCH: {"by": "root", "at": 1.0}})
    assert site.cycle() == (0, 2, 0)
    assert {job.limit for job in site.slurm.jobs.values()} == {120}
    assert site.cycle() == (0, 0, 0)


def test_a_change_in_between_two_looks_is_seen_and_left(tmp_path: Path) -> None:
    site = Site(tmp_path, Job("1"))
    site.cycle()
    site.slurm.jobs["1"].limit = 90
    site.cycle()
    site.slurm.jobs["1"].state = "RUNNING"
    site.cycle()
    assert site.slurm.jobs["1"].limit == 90
    assert site.state("1") is State.FOREIGN


@pytest.mark.parametrize(
    ("enforce", "reservation", "planned_jobs"),
    [
        ("none", "", 1),
        ("associations,limits", "", 0),  # the scripted Slurm has a QOS that limits minutes
        ("associations,limits,qos,safe", "", 0),
        ("none", f"ReservationName=r StartTime={START + 7000:.0f} EndTime={START + 9000:.0f} Flags=MAINT\n", 0),
        ("none", f"ReservationName=r StartTime={START + 9000:.0f} EndTime={START + 9900:.0f} Flags=MAINT\n", 1),
    ],
)
def test_the_site_may_forbid_it(tmp_path: Path, enforce: str, reservation: str, planned_jobs: int) -> None:
    site = Site(tmp_path, Job("1"))
    site.slurm.enforce, site.slurm.reservation = enforce, reservation
    assert site.cycle()[0] == planned_jobs


def test_a_reservation_in_the_way_sends_the_limit_back(tmp_path: Path) -> None:
    site = Site(tmp_path, Job("1"))
    site.cycle()
    site.slurm.reservation = f"ReservationName=r StartTime={START + 7000:.0f} EndTime={START + 9000:.0f} Flags=\n"
    assert site.cycle() == (0, 1, 0)


def test_a_late_look_stops_planning_for_an_hour(tmp_path: Path) -> None:
    site = Site(tmp_path, Job("1"))
    assert site.cycle() == (1, 0, 1)
    site.slurm.time += 3600.0
    assert site.cycle() == (0, 1, 0)
    assert site.cycle() == (0, 0, 0)


def test_a_dry_run_changes_and_writes_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path, Job("1"), Job("2", line=""))
    rows = {job.job_id: (limit, why) for job, _, limit, why in site.planner.preview("c")}
    assert rows["1"] == (3600.0, "prediction, raised until OverTimeLimit covers the user's limit")
    assert rows["2"][0] != rows["2"][0]
    assert site.slurm.commands == []
    with site.store.begin() as connection:
        assert planned.entries(connection, "c") == {}


def test_one_cycle_plans_with_a_bounded_number_of_updates_and_gives_all_back_at_once(tmp_path: Path) -> None:
    site = Site(tmp_path, *(Job(str(k), limit=200 + k // 2) for k in range(60)))
    while site.planner.submissions.by_raw_id.keys() != site.slurm.jobs.keys():
        site.cycle()
    site.slurm.reservation = f"ReservationName=r StartTime={site.slurm.time + 3000:.0f} Flags=\n"
    assert site.cycle()[1:] == (60, 0)
    site.slurm.reservation = ""
    site.slurm.commands.clear()
    assert site.cycle() == (40, 0, 40)  # twenty updates of two jobs each
    assert len(site.slurm.commands) == 20
    assert site.cycle() == (20, 0, 60)


@pytest.mark.parametrize("level", ["Administrator", "Operator"])
def test_a_second_collector_with_a_store_of_its_own_plans_no_job_of_the_first_and_says_so(
    tmp_path: Path, level: str
) -> None:
    site, second = (Site(tmp_path / name, Job("1"), Job("2", line="sbatch job.sh")) for name in ("a", "b"))
    second.slurm = site.slurm
    second.restarted()
    site.slurm.level = level
    assert site.cycle() == (2, 0, 2)
    before = len(site.slurm.commands)
    done = second.planner.cycle("c")
    assert done.counts == (0, 0, 0)  # otherwise OverTimeLimit would allow an hour less than the first planned limit
    assert len(site.slurm.commands) == before
    assert [job.limit for job in site.slurm.jobs.values()] == [60, 60]
    whys = {why for *_, why in second.planner.preview("c")}
    if level == "Administrator":  # the tokens of the first batchcast are seen, and stay
        assert any(
            "2 jobs, for example 1, are not planned: planned by another batchcast" in said for said in done.problems
        )
        assert second.planner.cycle("c").problems == []  # said once
        assert all(job.admin_comment.startswith("batchcast:limit=") for job in site.slurm.jobs.values())
        assert whys == {PLANNED_BY_ANOTHER}
    else:  # a limit below the submission's shows it; job 2 had no --time, and its partition's default is two hours
        assert {why.partition(" below ")[2] for why in whys} == {
            "the limit at submission",
            "its partition's default",
        }
    site.slurm.jobs["1"].state = "RUNNING"
    assert site.cycle()[1] == 1
    assert site.slurm.jobs["1"].limit == 120


@pytest.mark.parametrize(("soon", "shortest", "planned_jobs"), [(29.0, 30.0, 0), (30.0, 30.0, 1), (1.0, 0.0, 1)])
def test_a_job_that_would_be_over_before_a_look_is_left_alone(
    tmp_path: Path, soon: float, shortest: float, planned_jobs: int
) -> None:
    said = Prediction(900.0, (0.5, 0.9), (soon, 1800.0), "like jobs", Grounds.CLASS)
    site = Site(tmp_path, Job("1"), said=said, plan_shortest_s=shortest)
    assert site.cycle()[0] == planned_jobs
    assert {why for *_, why in site.planner.preview("c")} & {TOO_SHORT} == (set() if planned_jobs else {TOO_SHORT})


def test_a_cycle_reads_the_store_once_and_writes_before_and_after_its_calls(tmp_path: Path) -> None:
    site = Site(tmp_path, Job("1"), Job("2"))
    steps: list[str] = []
    begin = site.store.begin

    @contextmanager
    def counted() -> Iterator[Connection]:
        steps.append("store")
        with begin() as connection:
            yield connection

    site.store.begin = counted
    site.slurm.before_update = lambda: steps.append("call")
    assert site.cycle() == (2, 0, 2)
    assert [step for step, before in zip(steps, ["", *steps]) if step != before] == ["store", "call", "store"]
    assert steps.count("store") == 3, "one read, one write before the calls, one after them"
    steps.clear()
    site.cycle()
    assert steps == ["store"], "a cycle that changes nothing only reads"
