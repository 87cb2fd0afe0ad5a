"""Tests the inferred peak against counting processors second by second."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from batchcast.events.machine_size import peak_procs
from batchcast.table import Trace

JOBS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5), st.integers(0, 9), st.integers(1, 8)), max_size=12)


@given(JOBS)
def test_peak_is_the_highest_second(jobs) -> None:
    columns = dict(zip(("submit_time", "wait_time", "run_time", "alloc_procs"), zip(*jobs))) if jobs else {}
    trace = Trace.from_arrays({k: list(map(float, v)) for k, v in columns.items()} or {"submit_time": []})
    seconds = [sum(p for s, w, r, p in jobs if s + w <= t < s + w + r) for t in range(40)]
    peak = peak_procs(trace)
    assert (0 if math.isnan(peak) else peak) == max(seconds)
