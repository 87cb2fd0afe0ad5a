"""Tests limits that are restored as jobs start: the list that the planner writes, and the script that reads it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.scripted_slurm import Job, Site

from batchcast.cli.site.setup import START, unit_files
from batchcast.planning.record import State
from batchcast.service.planning.checkup import ground_findings
from batchcast.service.settings import load

SCONTROL = """#!/bin/sh
echo "$*" >>{folder}/called
[ "$1" = --oneliner ] && echo "JobId=$4 RunTime=INVALID TimeLimit={shown} TimeMin=N/A"
exit {code}
"""


def listed(tmp_path: Path, *jobs: Job) -> tuple[Site, Path]:
    place = tmp_path / "planned"
    return Site(tmp_path, *jobs, plan_list=str(place)), place


def test_a_job_is_listed_before_its_limit_is_changed_and_no_longer_than_it_may_stand(tmp_path: Path) -> None:
    site, place = listed(tmp_path, Job("1"), Job("2", limit=1500))
    seen: list[str] = []
    site.slurm.before_update = lambda: seen.append(place.read_text())
    site.cycle()
    assert set(seen) == {"1 01:00:00 120\n2 1-00:00:00 1500\n"}
    assert place.stat().st_mode & 0o777 == 0o644
    site.slurm.jobs["1"].state = "RUNNING"
    site.cycle()
    assert place.read_text() == "2 1-00:00:00 1500\n"
    site.planner.settings = site.settings = site.settings.replaced(plan="off")
    site.cycle()
    assert place.read_text() == ""


def test_what_the_script_gave_back_is_nobody_elses_change(tmp_path: Path) -> None:
    site, _ = listed(tmp_path, Job("1"), Job("2"))
    site.cycle()
    for job, limit in zip(site.slurm.jobs.values(), (120, 90)):
        job.state, job.limit = "RUNNING", limit
    site.cycle()
    assert (site.state("1"), site.state("2")) == (State.RESTORED, State.FOREIGN)
    assert [job.limit for job in site.slurm.jobs.values()] == [120, 90]


def test_a_list_that_cannot_be_written_is_said_and_planning_goes_on(tmp_path: Path) -> None:
    site = Site(tmp_path, Job("1"), plan_list=str(tmp_path / "nowhere" / "planned"))
    site.slurm.time += 120.0
    done = site.planner.cycle("c")
    assert done.counts == (1, 0, 1)
    assert any("nowhere/planned: No such file" in problem for problem in done.problems)


@pytest.mark.parametrize(
    ("environment", "shown", "code", "updates"),
    [
        ({"SLURM_JOB_ID": "8"}, "01:15:00", 0, ["update jobid=8 timelimit=120"]),
        ({"SLURM_JOB_ID": "11", "SLURM_ARRAY_JOB_ID": "9", "SLURM_ARRAY_TASK_ID": "2"}, "00:45:00", 0,
         ["update jobid=9_2 timelimit=60"]),
        ({"SLURM_JOB_ID": "8"}, "01:16:00", 0, []),  # somebody changed the limit meanwhile
        ({"SLURM_JOB_ID": "9"}, "01:15:00", 0, []),  # not planned
        ({"SLURM_JOB_ID": "10"}, "01:15:00", 0, []),  # not a number
        ({"SLURM_JOB_ID": "8"}, "01:15:00", 1, ["update jobid=8 timelimit=120"] * 10),  # slurmctld rejects the update
        ({}, "01:15:00", 0, []),
    ],
)  # fmt: skip
def test_the_script_gives_back_what_is_still_planned_and_never_fails(
    tmp_path: Path, environment: dict[str, str], shown: str, code: int, updates: list[str]
) -> None:
    place, clients = tmp_path / "planned", tmp_path / "bin"
    clients.mkdir()
    place.write_text("8 01:15:00 120\n9_2 00:45:00 60\n10 01:15:00 $(id)\n")
    (clients / "scontrol").write_text(SCONTROL.format(folder=tmp_path, shown=shown, code=code))
    (clients / "sleep").write_text("#!/bin/sh\n")
    for program in clients.iterdir():
        program.chmod(0o755)
    script = tmp_path / START
    script.write_text(unit_files("b", is_open=True, is_remote=False, clients=str(clients), plan_list=str(place))[START])
    done = subprocess.run(["sh", str(script)], env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    called = (tmp_path / "called").read_text().splitlines() if (tmp_path / "called").exists() else []
    assert [line for line in called if line.startswith("update")] == updates


def test_without_a_list_the_script_does_nothing(tmp_path: Path) -> None:
    text = unit_files("b", is_open=True, is_remote=False, plan_list=str(tmp_path / "none"))[START]
    (tmp_path / START).write_text(text)
    done = subprocess.run(["sh", str(tmp_path / START)], env={"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "8"})
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("prolog", "there", "state"), [("", True, "warning"), ("x", False, "warning"), ("x", True, "ok")]
)
def test_doctor_says_whether_it_is_in_force(tmp_path: Path, prolog: str, there: bool, state: str) -> None:
    site, place = listed(tmp_path, Job("1"))
    site.slurm.prolog = prolog
    if there:
        place.touch()
    scheduler = type("Scheduler", (), {"transport": site.slurm, "now": site.slurm.now, "admin_level": lambda *_: "x"})()
    rows = {row["check"]: row["state"] for row in ground_findings(scheduler, site.settings)}
    assert rows["given back at the start"] == state
    off = load({"plan": "plan", "plan_partitions": "main"}, {})
    assert "given back at the start" not in {row["check"] for row in ground_findings(scheduler, off)}
