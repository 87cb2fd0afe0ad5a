"""Tests Batsim's jobs.csv: its columns, derived values, and how jobs ended."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from batchcast.simulation import Policy, simulate
from batchcast.table import LogInfo, Trace
from batchcast.trace.schedule import write_batsim


def test_a_line_a_job_with_its_processors_and_its_end(tmp_path: Path) -> None:
    trace = Trace.from_arrays(
        {
            "submit_time": [0.0, 0.0, 10.0, 20.0],
            "run_time": [100.0, 50.5, 30.0, 0.0],
            "req_time": [60.0, 200.0, None, 100.0],
            "req_procs": [3, 1, 4, 2],
            "status": ["completed", "failed", "cancelled", None],
        },
        LogInfo(source="/some/where/site.swf.gz", max_procs=4.0),
    )
    schedule = simulate(trace, Policy(), "requested")
    write_batsim(tmp_path / "jobs.csv", schedule, trace)
    with (tmp_path / "jobs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "job_id", "workload_name", "profile", "submission_time", "requested_number_of_resources", "requested_time",
        "success", "final_state", "starting_time", "execution_time", "finish_time", "waiting_time", "turnaround_time",
        "stretch", "allocated_resources", "consumed_energy", "metadata",
    ]  # fmt: skip
    assert [row["final_state"] for row in rows] == [
        "COMPLETED_WALLTIME_REACHED", "COMPLETED_FAILED", "COMPLETED_KILLED", "COMPLETED_SUCCESSFULLY"
    ]  # fmt: skip
    assert [row["success"] for row in rows] == ["0", "0", "0", "1"]
    assert [row["allocated_resources"] for row in rows[:3]] == ["0-2", "3", "0-3"]
    assert [row["requested_time"] for row in rows] == ["60", "200", "-1", "100"]
    assert {row["workload_name"] for row in rows} == {"site"}
    assert rows[0]["profile"] == "delay_60"
    for row in rows:
        start, end, submit = (float(row[key]) for key in ("starting_time", "finish_time", "submission_time"))
        assert float(row["execution_time"]) == end - start
        assert float(row["waiting_time"]) == start - submit
        assert float(row["turnaround_time"]) == end - submit
        assert (row["stretch"] == "") == (end == start)
        if row["stretch"]:
            assert float(row["stretch"]) == (end - submit) / (end - start)
    assert [p.name for p in tmp_path.iterdir()] == ["jobs.csv"]


def test_evalys_figures_of_it_are_ours(tmp_path: Path) -> None:
    """Computes evalys' mean wait and `mean_utilisation` from the columns that evalys reads, and compares them with
    ours.

    On KTH-SP2 and SDSC-SP2, these formulas gave the values of evalys 4.0.7 to the last digit
    (docs/reference/formats.md).
    """
    rng = np.random.default_rng(5)
    trace = Trace.from_arrays(
        {
            "submit_time": np.sort(rng.uniform(0, 5000, 200)).round(2),
            "run_time": rng.exponential(300, 200).round(2),
            "req_time": np.full(200, 4000.0),
            "req_procs": rng.integers(1, 9, 200),
        },
        LogInfo(max_procs=16.0),
    )
    schedule = simulate(trace, Policy(), "actual")
    write_batsim(tmp_path / "jobs.csv", schedule, trace)
    with (tmp_path / "jobs.csv").open() as file:
        rows = list(csv.DictReader(file))
    area, held = 0.0, []
    for row in rows:
        start, end = float(row["starting_time"]), float(row["finish_time"])
        spans = [[int(edge) for edge in span.split("-")] for span in row["allocated_resources"].split()]
        area += sum(span[-1] - span[0] + 1 for span in spans) * (end - start)
        held.append((start, end))
    span = max(end for _, end in held) - min(start for start, _ in held)
    ours = schedule.measures()
    assert ours["utilization"] == pytest.approx(area / span / 16, rel=1e-9)
    assert ours["mean_wait_s"] == pytest.approx(np.mean([float(row["waiting_time"]) for row in rows]), rel=1e-9)
