# SPDX-License-Identifier: Apache-2.0
"""Tests that a log and a result behave as Python users expect, and that a misspelled attribute is no column."""

from __future__ import annotations

import math
import pydoc
import subprocess
import sys

import pytest

import batchcast
from batchcast.errors import NoAnswer, UsageError

COLUMNS = {
    "submit_time": [0.0, 5.0, 9.0],
    "run_time": [60.0, 90.0, 5.0],
    "req_procs": [4, 8, 2],
    "wait_time": [0, 5, 1],
    "user_id": ["ada", None, "eve"],
    "req_time": [600, 600, 600],
    "status": ["completed", "failed", "timeout"],
}


@pytest.fixture
def log() -> batchcast.Trace:
    return batchcast.Trace.from_arrays(COLUMNS, procs_total=8)


@pytest.mark.parametrize(
    ("slip", "meant"), [("submit_tme", "submit_time"), ("req_proc", "req_procs"), ("used_mem", "used_mem_kib")]
)
def test_a_misspelt_column_is_refused_with_the_right_name(slip: str, meant: str) -> None:
    with pytest.raises(UsageError, match=f"'{slip}' \\(did you mean {meant}\\?\\)"):
        batchcast.Trace.from_arrays({**{k: v for k, v in COLUMNS.items() if k != meant}, slip: [1, 2, 3]})


def test_a_column_of_ones_own_stays_a_column() -> None:
    log = batchcast.Trace.from_arrays({**COLUMNS, "end_time": [1, 2, 3], "user": [1, 2, 3], "run_time_2": [1, 2, 3]})
    assert set(log.extra_names) == {"end_time", "user", "run_time_2"}


def test_what_was_changed_or_is_missing_is_said_when_a_log_is_printed() -> None:
    printed = str(batchcast.Trace.from_arrays({"run_time": [1.0, -3.0]}))
    assert "no column submit_time: all jobs are submitted at 0 s" in printed
    assert "1 values of run_time: negative, read as unknown" in printed


def test_a_log_without_sizes_is_not_simulated_without_a_word() -> None:
    log = batchcast.Trace.from_arrays({k: v for k, v in COLUMNS.items() if k != "req_procs"}, procs_total=8)
    with pytest.raises(NoAnswer, match=r"no job to simulate: 3 jobs not simulated \(no processors\)"):
        batchcast.simulate(log)
    assert "no processors" in batchcast.evaluate(log, predictor=["requested"]).why_not


def test_a_job_of_a_log_has_every_field_by_name(log: batchcast.Trace) -> None:
    job = log[1]
    assert (job.job_id, job.submit_time, job.run_time, job.req_procs, job.user_id) == (2, 5.0, 90.0, 8.0, None)
    assert (job.start_time, job.status, job.row) == (10.0, "failed", 1)
    assert log[-1].user_id == "eve"
    with pytest.raises(IndexError, match="3 jobs"):
        log[3]
    with pytest.raises(AttributeError, match="a job has no attribute 'walltime'"):
        _ = job.walltime


def test_a_log_can_be_gone_through_job_by_job(log: batchcast.Trace) -> None:
    assert [job.run_time for job in log] == log.run_time.tolist()
    assert list(log) == [log[k] for k in range(len(log))]


def test_every_column_is_an_attribute(log: batchcast.Trace) -> None:
    assert log.req_procs.tolist() == [4, 8, 2]
    assert log.user_id.tolist() == ["ada", None, "eve"]
    assert all(math.isnan(value) for value in log.used_mem_kib.tolist())
    with pytest.raises(AttributeError, match="did you mean"):
        _ = log.req_proc


def test_print_shows_a_bounded_table() -> None:
    long = batchcast.Trace.from_arrays({"submit_time": [float(k) for k in range(500)], "run_time": [60.0] * 500})
    printed = str(long)
    assert "500 jobs" in printed
    assert "1 min" in printed
    assert len(printed.splitlines()) < 25
    found = str(batchcast.evaluate_run_times(batchcast.read_trace(batchcast.demo_path())[:400], "requested,last_2"))
    lines = found.splitlines()
    assert lines[1].split()[:3] == ["predictor", "jobs", "mae_s"]
    assert lines[3].split()[0] == "last_2"
    assert " to " in lines[3], "the difference stands with its interval"
    assert max(map(len, lines)) <= 100


def test_help_and_dir_list_the_public_calls_alone() -> None:
    code = "import batchcast; print(*(name for name in dir(batchcast) if not name.startswith('__')))"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(names) == sorted(batchcast._ADDRESSES)
    text = pydoc.render_doc(batchcast, renderer=pydoc.plaintext)
    assert "\n    read_trace(" in text
    assert "\n    evaluate(" in text
    assert "\n    __getattr__" not in text
