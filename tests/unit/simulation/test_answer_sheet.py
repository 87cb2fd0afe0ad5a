"""Tests an answer sheet: effects put into simulated runs are found from the starts, and none if there are none."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from benchmarks.prove import agreement_of, answers, main

from batchcast.errors import InputError
from batchcast.machines.machine import vary
from batchcast.simulation.on_nodes import simulate_on
from batchcast.trace.machine_files import open_machine
from batchcast.trace.read import read_trace

USERS = 6
NODE = "NodeName=n{} CPUTot=8 RealMemory=8000 Sockets=1 ThreadsPerCore=1 State=IDLE Weight=1 Gres=(null)\n"
DUMPS = {
    "node.txt": "".join(NODE.format(k) for k in range(4)),
    "partition.txt": "PartitionName=all Nodes=n[0-3] Default=YES MaxTime=UNLIMITED DefaultTime=01:00:00 State=UP\n",
    "config.txt": "SchedulerType = sched/backfill\nPriorityType = priority/multifactor\n"
    "PriorityMaxAge = 00:30:00\nPriorityDecayHalfLife = 04:00:00\n",
    "assoc.txt": "Cluster|Account|User|Share\nc|root||1\n"
    + "".join(f"c|a{k}||100\nc|a{k}|u{k}|1\n" for k in range(USERS)),
}
SETTINGS = ["1000,1000,10", "1000,300,1000", "3000,1000,1000", "1000,2000,100"]
HEADER = "User|JobID|Submit|Start|End|TimelimitRaw|ElapsedRaw|ReqCPUS|ReqNodes|Account|Partition|QOS"
NO_USE = {"PriorityWeightFairShare": "0"}
Log = list[tuple[int, int, int, int, int]]


def made_jobs() -> Log:
    """User, submission (s), run time (s), limit (min), processors; most jobs of the first two users arrive in
    bursts."""
    rng = np.random.default_rng(3)
    jobs = []
    for _ in range(260):
        user = int(rng.choice(USERS, p=[0.35, 0.25, 0.1, 0.1, 0.1, 0.1]))
        at = int(rng.integers(0, 30) * 2400) if user < 2 else int(rng.integers(0, 72_000))
        run = int(rng.integers(600, 9000))
        jobs.append((user, at, run, int(run / 60 * rng.uniform(1.1, 3)) + 1, int(rng.integers(1, 9))))
    return sorted(jobs, key=lambda job: job[1])


def written(path: Path, jobs: Log, starts: np.ndarray) -> None:
    rows, epoch = [HEADER], datetime(2025, 1, 1)
    for k, ((user, at, run, limit, procs), start) in enumerate(zip(jobs, starts.tolist(), strict=True)):
        when = "|".join((epoch + timedelta(seconds=s)).isoformat() for s in (at, int(start), int(start) + run))
        rows.append(f"u{user}|{k + 1}|{when}|{limit}|{run}|{procs}|1|a{user}|all|normal")
    path.write_text("\n".join(rows) + "\n")


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    (tmp_path / "machine").mkdir()
    (tmp_path / "runs").mkdir()
    for name, text in DUMPS.items():
        (tmp_path / "machine" / name).write_text(text)
    rows = [f"{k},{weights},1440" for k, weights in enumerate(SETTINGS)]
    (tmp_path / "settings.csv").write_text("\n".join(["sim_id,fairshare,age,jobsize,bfwindow", *rows]) + "\n")
    return tmp_path


def record(sheet: Path, truth: Mapping[int, Mapping[str, str]]) -> None:
    """Write a run of the simulated Slurm for each setting of priority weights, with the true settings in `truth`."""
    jobs, machine = made_jobs(), open_machine(sheet / "machine")
    for k, weights in enumerate(SETTINGS):
        path = sheet / "runs" / f"{k}.psv"
        written(path, jobs, np.array([job[1] for job in jobs]))
        names = ("PriorityWeightFairShare", "PriorityWeightAge", "PriorityWeightJobSize")
        changes = dict(zip(names, weights.split(","), strict=True))
        log = read_trace(path)
        schedule = simulate_on(vary(machine, {**changes, **truth.get(k, {})}), log)
        assert schedule.wait_time.mean() > 3600
        written(path, jobs, schedule.start_time - log.submit_time[0] + jobs[0][1])


def test_what_a_description_tells_rightly_is_left_as_it_is(sheet: Path) -> None:
    record(sheet, {})
    found = answers(sheet)
    assert not found.instead
    assert all(one.past_use and one.corrected_s == one.simulated_s for one in found.answers)
    assert agreement_of(found.answers)["spearman"] == 1


def test_a_default_and_runs_without_past_use_are_found_from_their_starts(sheet: Path) -> None:
    age = {"PriorityMaxAge": "7-00:00:00"}
    record(sheet, {0: age, 1: {**age, **NO_USE}, 2: age, 3: {**age, **NO_USE}})
    found = answers(sheet)
    assert dict(found.instead) == age
    assert [one.past_use for one in found.answers] == [True, False, True, False]
    agreement = agreement_of(found.answers)
    assert agreement["corrected_off_s"] < 60 < agreement["off_s"]
    assert agreement["without_past_use"] == 2
    assert agreement["corrected_spearman"] == 1


def test_weights_of_no_past_use_have_none_to_lose(sheet: Path) -> None:
    text = (sheet / "settings.csv").read_text().replace("1000,1000,10,", "0,1000,10,")
    (sheet / "settings.csv").write_text(text)
    record(sheet, {0: NO_USE})
    assert all(one.past_use for one in answers(sheet).answers)


def test_the_answers_stand_beside_the_recorded_ones(sheet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(sheet, {})
    main([str(sheet)])
    told = capsys.readouterr().out
    assert "4 runs of 4 settings" in told
    assert "speak against none of it" in told


@pytest.mark.parametrize(
    ("settings", "says"), [("a,b\n1,2\n", "no column sim_id"), ("sim_id,age\n7,1\n", "none of the 1 runs")]
)
def test_a_sheet_that_cannot_be_read_says_what_is_missing(sheet: Path, settings: str, says: str) -> None:
    (sheet / "settings.csv").write_text(settings)
    with pytest.raises(InputError, match=says):
        answers(sheet)
