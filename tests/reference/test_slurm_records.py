"""Tests recorded schedules of a real Slurm against the simulated scheduler on the same submissions."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest
from benchmarks.prove import (
    Agreement,
    agreement,
    agreement_of,
    answers,
    decisions,
    recorded,
    replay_record,
    simulated,
)
from benchmarks.slurm_record import Record, open_record
from conftest import SHARED

from batchcast.schedule.slurm.site import make_rules
from batchcast.trace.machine_files import STATE, machine_of, read_texts

FOLDER = SHARED / "reference" / "slurm"
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="no folder shared/reference/slurm beside the project"),
]
RUNS = sorted(p.name for p in FOLDER.glob("*-[12]")) if FOLDER.is_dir() else ["(absent)"]
SETS = sorted({name[:-2] for name in RUNS})
LONG = [name for name in SETS if not name.startswith(("fifo", "short"))]


@cache
def run_of(name: str) -> Record:
    return open_record(FOLDER / name)


def against_both(name: str, k: int) -> list[Agreement]:
    """Compare the simulation of one run of a set with each of its two runs, and return the nearer one."""
    run = run_of(f"{name}-{k}")
    mine = simulated(run, replay_record(run))
    return [agreement(recorded(run_of(f"{name}-{m}")), mine) for m in (1, 2)]


@pytest.mark.parametrize("name", RUNS)
def test_every_submission_of_a_record_is_read(name: str) -> None:
    record = run_of(name)
    assert {(r.key, r.task) for r in record.requests} == set(record.truth)
    assert record.machine.cpus == 14 * 16 + 6 * 16 + 4 * 32
    assert not record.machine.left_out


@pytest.mark.parametrize("name", RUNS)
def test_the_slurm_conf_of_a_record_is_the_machine_that_slurmctld_told(name: str) -> None:
    texts = read_texts(FOLDER / name)
    told = machine_of({key: text for key, text in texts.items() if key != "slurm.conf"}, name)
    written = machine_of({key: text for key, text in texts.items() if key not in STATE}, name)
    assert make_rules(written) == make_rules(told)
    for part in ("name", "nodes", "partitions", "qos", "associations", "reservations", "licenses", "left_out"):
        assert getattr(written, part) == getattr(told, part), part


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("name", [n for n in SETS if n.startswith("fifo")])
def test_first_come_first_served_starts_when_slurm_did(name: str, k: int) -> None:
    assert max(a.within_300s for a in against_both(name, k)) >= 0.97


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("name", [n for n in SETS if n.startswith("short")])
def test_short_sets_start_by_start(name: str, k: int) -> None:
    least = 0.95 if (name, k) == ("short-limits-16", 1) else 0.96  # 0.958: see docs/evidence/machines.md
    assert any(a.within_30s >= 0.60 and a.ks <= 0.09 and a.rank >= least for a in against_both(name, k))


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("name", LONG)
def test_long_sets_in_their_waits(name: str, k: int) -> None:
    found = against_both(name, k)
    assert any(abs(a.wait_ratio - 1) <= 0.12 and a.ks <= 0.09 and a.rank >= 0.94 for a in found)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * n.endswith("-2")) for n in RUNS])
def test_the_next_ten_minutes_from_recorded_states(name: str) -> None:
    found = decisions(run_of(name))
    assert found.right >= 0.85
    assert found.seen >= 0.85
    assert found.close >= 0.50


SHEET = SHARED / "reference" / "usc-81"
WITHOUT = ("40", "60")
"""Runs in which fair-share had no effect: their starts follow age and size alone (docs/evidence/machines.md)."""


@pytest.mark.long
@pytest.mark.skipif(not SHEET.is_dir(), reason="no folder shared/reference/usc-81 beside the project")
def test_an_answer_sheets_starts_say_what_its_description_has_wrong(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "machine").symlink_to(SHEET / "machine")
    shutil.copy(SHEET / "settings.csv", tmp_path)
    for run in (*WITHOUT, "18", "54", "78"):
        (tmp_path / "runs" / f"{run}.psv.xz").symlink_to(SHEET / "runs" / f"{run}.psv.xz")
    found = answers(tmp_path)
    assert dict(found.instead) == {"PriorityMaxAge": "7-00:00:00"}
    assert {one.run for one in found.answers if not one.past_use} == set(WITHOUT)
    agreed = agreement_of(found.answers)
    assert agreed["corrected_off_s"] < 0.4 * agreed["off_s"]
    assert agreed["corrected_level"] == pytest.approx(1, abs=0.05)
    assert agreed["corrected_spearman"] > 0.8 > agreed["spearman"]
