"""Tests writing SWF: the file is read back, text becomes numbers, and no reader sees a partial file."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.columns import COLUMNS, SWF_FIELDS
from batchcast.formats.swf import read_swf, write_chunks
from batchcast.table import LogInfo, Trace
from batchcast.trace import read_trace, write_trace

number = st.one_of(st.none(), st.integers(0, 10**9), st.floats(0, 1e9, allow_nan=False))
name = st.one_of(st.none(), st.integers(0, 50))
status = st.sampled_from([None, "completed", "failed", "cancelled", "partial", "swf_9"])
VALUES = {n: number if c.kind == "number" else name for n, c in COLUMNS.items() if c.swf} | {
    "status": status,
    "submit_time": st.integers(0, 10**6),
    "job_id": st.integers(1, 99),
}


@given(st.lists(st.fixed_dictionaries({n: VALUES[n] for n in SWF_FIELDS}), min_size=1, max_size=8))
def test_a_log_survives_being_written_and_read(jobs) -> None:
    info = LogInfo(unix_start=1000.0, timezone="US/Pacific", max_procs=64.0, memory_per="processor")
    trace = Trace.from_arrays({n: [job[n] for job in jobs] for n in SWF_FIELDS}, info)
    again = read_swf(["".join(write_chunks(trace)).encode()])
    assert again.job_id.tolist() == trace.job_id.tolist()
    for n in SWF_FIELDS[1:]:
        if COLUMNS[n].kind == "nominal":
            assert again.nominal(n).decode() == trace.nominal(n).decode()
        else:
            assert np.array_equal(again.number(n), trace.number(n), equal_nan=True)
    assert (again.info.unix_start, again.info.timezone, again.info.max_procs) == (1000.0, "US/Pacific", 64.0)
    assert again.info.notes == () or all("repeat the job number" in note for note in again.info.notes)


def test_text_becomes_numbers_and_queues_are_named() -> None:
    trace = Trace.from_arrays(
        {
            "job_id": ["7_1", "7_2"],
            "submit_time": [1.7e9, 1.7e9 + 5],
            "queue_id": ["long", "short"],
            "user_id": ["bob", "ada"],
            "status": ["out_of_memory", "completed"],
        }
    )
    again = read_swf(["".join(write_chunks(trace)).encode()])
    assert again.job_id.tolist() == [1, 2]
    assert (again.info.unix_start, again.submit_time.tolist()) == (1.7e9, [0.0, 5.0])
    assert again.info.names["queue_id"] == {1: "long", 2: "short"}
    assert again.nominal("user_id").decode() == [2, 1]
    assert again.nominal("status").decode() == ["failed", "completed"]


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_packed_by_the_name_and_whole_or_not_there(tmp_path: Path, ending: str) -> None:
    trace = Trace.from_arrays({"submit_time": [0.0], "run_time": [math.pi]}, LogInfo(unix_start=5.0))
    path = tmp_path / f"log.swf{ending}"
    write_trace(trace, path)
    assert read_trace(path).run_time.tolist() == [math.pi]
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    first = path.read_bytes()
    write_trace(trace, path)
    assert path.read_bytes() == first


@pytest.mark.shared
def test_a_real_log_survives(shared: Path) -> None:
    trace = read_trace(shared / "traces" / "SDSC-DS-2004-2.1-cln.swf.gz")
    again = read_swf(["".join(write_chunks(trace)).encode()], strict=True)
    assert again.names == trace.names
    for n in again.names[1:]:
        if COLUMNS[n].kind == "nominal":
            assert np.array_equal(again.nominal(n).codes, trace.nominal(n).codes)
        else:
            assert np.array_equal(again.number(n), trace.number(n), equal_nan=True)
