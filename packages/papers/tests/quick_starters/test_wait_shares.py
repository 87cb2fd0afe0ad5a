"""Tests the shares that papers/quick-starters.md states for the two readings of `pqstar`, on the shared logs."""

import numpy as np
import pytest

from batchcast.evaluation.wait import figures, recorded_wait, run_wait, scored_rows
from batchcast.trace.read import read_trace
from batchcast_papers.quick_starters.study import MEASURED

FILES = {
    "CTC": ("CTC-SP2-1996-3.1-cln.swf.gz", 54.58),
    "HPC2N": ("HPC2N-2002-2.2-cln.swf.gz", 56.85),
    "SDSC-BLUE": ("SDSC-BLUE-2000-4.2-cln.swf.gz", 69.78),
    "SDSC-SP2": ("SDSC-SP2-1998-4.2-cln.swf.gz", 66.25),
}


@pytest.mark.shared
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * n.startswith("SDSC")) for n in FILES])
def test_pqstar_reaches_the_measured_shares(name, shared):
    file, quick = FILES[name]
    trace = read_trace(shared / "traces" / file)
    wait = recorded_wait(trace)
    assert 100 * (wait[~np.isnan(wait)] <= 3600).mean() == pytest.approx(quick, abs=0.1)
    head = trace.take(np.arange(50000))
    rows = scored_rows(head, (10001, 50000))
    for reading, measured in zip(("text", "tables"), MEASURED[name]):
        run = run_wait(head, f"pqstar:reading={reading},fallback=none", rows)
        row = figures(run, head, rows, 3600.0)
        ours = [100 * row[key] for key in ("quick_identified", "misguided_share", "near_share")]
        assert ours == pytest.approx(measured, abs=0.1), reading
