"""Schedules published by others, start by start, under their order of events."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import SHARED

from batchcast.simulation import Policy, simulate
from batchcast.trace import read_trace
from batchcast.trace.clean import clean

pytestmark = pytest.mark.shared
FOLDER = SHARED / "reference" / "schedules"
FILES = sorted(p.name for p in FOLDER.glob("*.*.gz")) if FOLDER.is_dir() else ["(absent)"]
LOGS = {"KTH-SP2": "KTH-SP2-1996-2.1-cln", "SDSC-SP2": "SDSC-SP2-1998-4.2-cln"}


def policy_and_planner(name: str) -> tuple[Policy, str]:
    _, policy, estimate, *rest = name.split(".")
    planner = "last_2:need=2,round=down" if estimate == "last_2" else estimate
    correct = "incremental" if "incremental" in rest else "requested"
    backfill_order = "sjf" if policy.endswith("sjbf") else "fcfs"
    backfill = "conservative" if policy == "conservative" else "easy"
    return Policy(backfill=backfill, backfill_order=backfill_order, correct=correct, event_order="pyss"), planner


@pytest.mark.parametrize("name", FILES)
def test_no_start_differs(name: str, shared: Path) -> None:
    policy, planner = policy_and_planner(name)
    if name.endswith(".swf.gz"):
        trace = read_trace(FOLDER / name)
        schedule = simulate(trace, policy, planner)
        published = (trace.submit_time + trace.wait_time)[schedule.rows]
    else:
        log, _, kept = name.split(".")[0].partition("-SP2-")
        log = log.removesuffix("-SP2") + "-SP2"
        trace = clean(read_trace(shared / "traces" / f"{LOGS[log]}.swf.gz"), ["reference"])
        if kept:  # -20k: the first records
            trace = trace.take(np.arange(1000 * int(kept.removesuffix("k"))))
        schedule = simulate(trace, policy, planner, procs="alloc")
        with gzip.open(FOLDER / name, "rt") as lines:
            rows = np.loadtxt(lines, delimiter=",", skiprows=1)
        published = rows[np.lexsort((rows[:, 0], rows[:, 1])), 2]
    assert len(schedule) == len(published) == len(trace)
    assert np.count_nonzero(schedule.start_time != published) == 0


@pytest.mark.parametrize("name", [n for n in FILES if "last_2" in n])
def test_first_predictions_and_corrections_are_theirs_too(name: str, shared: Path) -> None:
    """Field 18 is the first prediction, field 17 the number of corrections minus one (-1: none)."""
    policy, planner = policy_and_planner(name)
    trace = read_trace(FOLDER / name)
    schedule = simulate(trace, policy, planner)
    assert np.array_equal(schedule.planned_run_time, trace.number("think_time"))
    theirs = np.nan_to_num(trace.number("prev_job_id"), nan=-1.0) + 1
    assert schedule.corrections == int(theirs.sum())
