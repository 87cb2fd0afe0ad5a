"""Tests that RLScheduler's published means are repeated to the last digit."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.policy import published_windows as windows

pytestmark = pytest.mark.shared
LOGS = {"SDSC-SP2": "SDSC-SP2-1998-4.2-cln.swf.gz", "HPC2N": "HPC2N-2002-2.2-cln.swf.gz"}


@pytest.mark.parametrize("name", LOGS)
def test_ten_windows_have_the_published_mean_bounded_slowdowns(name: str, shared: Path) -> None:
    trace = windows.read_log(str(shared / "traces" / LOGS[name]))
    jobs, begins = windows.jobs_of(trace), windows.starts(len(trace))
    total = float(trace.info.max_procs or 0)
    for order in windows.ORDERS:
        found = windows.repeat([jobs[b : b + windows.JOBS] for b in begins], total, order)
        means = tuple(round(found[mode]["mean"], 2) for mode in windows.MODES)
        assert means == windows.PUBLISHED[name][order], order
