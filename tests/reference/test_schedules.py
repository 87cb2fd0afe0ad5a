"""Tests published schedules start by start, under the publishers' order of events."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from conftest import SHARED

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


PRINTED = {
    "SDSC-SP2-1998-4.2-cln": (128, (56784.93, 1552128, 68440542), (None, None, None)),
    "CTC-SP2-1996-3.1-cln": (512, (188.05, 6183, 29306751), (None, None, 29306682)),
    "HPC2N-2002-2.2-cln": (240, (286.98, 16189, 109256855), (277.06, 15843, 109256855)),
}
"""The HPCOpt leaderboard (July 2026): processors; p95 slowdown, mean wait and makespan of first come first served in
its own engine, and in Batsim 5.0, which ends jobs at their limits, for the same log. On SDSC-SP2 and CTC, Batsim's
first two figures differ from ours by at most 0.2 %; HPC2N has one job less there.
"""


@pytest.mark.parametrize("log", PRINTED)
def test_first_come_first_served_is_what_hpcopt_and_batsim_print(log: str, shared: Path) -> None:
    total, theirs, batsim = PRINTED[log]
    trace = read_trace(shared / "traces" / f"{log}.swf.gz")
    trace = trace.take(~np.isnan(trace.run_time))
    for policy, printed in (("fcfs:kill=no", theirs), ("fcfs", batsim)):
        made = simulate(trace, policy, "requested", total=total)
        slowdown = np.percentile((made.wait_time + made.run_time) / np.maximum(made.run_time, 60.0), 95)
        ours = (slowdown, made.wait_time.mean(), made.end_time.max() - made.submit_time.min())
        for value, said, apart in zip(ours, printed, (0.015, 0.5, 0.0)):
            assert said is None or abs(value - said) <= apart
