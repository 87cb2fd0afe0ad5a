"""Tests that a log written as Parquet is read back unchanged, and that foreign or broken files give a clear message."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.errors import InputError
from batchcast.table import LogInfo, Nominal, Trace
from batchcast.trace import read_parquet, read_trace, write_parquet

NAMES = st.one_of(st.none(), st.integers(0, 9), st.text(max_size=4))
NUMBERS = st.one_of(st.none(), st.floats(-1e12, 1e12))


def same(one: Trace, other: Trace) -> bool:
    if one.names != other.names or len(one) != len(other):
        return False
    for name in one.names:
        a, b = one.column(name), other.column(name)
        if isinstance(a, Nominal) != isinstance(b, Nominal):
            return False
        if isinstance(a, Nominal) and isinstance(b, Nominal):
            if a.decode() != b.decode():
                return False
        elif not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            return False
    return True


@given(st.lists(st.tuples(st.floats(0, 1e9), NUMBERS, NAMES, NAMES), max_size=20), st.booleans())
def test_a_trace_comes_back_as_it_was(tmp_path_factory, rows, has_text_ids):
    submit, run, user, extra = (list(c) for c in zip(*rows)) if rows else ([], [], [], [])
    columns = {"submit_time": submit, "run_time": run, "user_id": user, "prec": Nominal.encode(extra)}
    if has_text_ids:
        columns["job_id"] = [f"{k}_1" for k in range(len(rows))]
    info = LogInfo(source="a.swf", header={"MaxJobs": "7"}, names={"user_id": {3: "ada"}}, dropped={"rule": 2},
                   notes=("odd",), unix_start=12.5)  # fmt: skip
    trace = Trace.from_arrays(columns, info)
    path = tmp_path_factory.mktemp("parquet") / "jobs.parquet"
    write_parquet(trace, path)
    back = read_parquet(path)
    assert same(trace, back)
    assert (back.info.header, back.info.names, back.info.dropped, back.info.notes, back.info.unix_start) == (
        info.header, info.names, info.dropped, trace.info.notes, 12.5)  # fmt: skip
    assert np.isnan(back.info.max_procs)
    assert [p.name for p in path.parent.iterdir()] == ["jobs.parquet"]


def test_read_trace_tells_parquet_by_content(tmp_path):
    write_parquet(Trace.from_arrays({"submit_time": [0.0], "encut": [400.0]}), tmp_path / "log")
    trace = read_trace(tmp_path / "log")
    assert trace.info.format == "parquet"
    assert len(trace.info.sha256) == 64
    assert next(iter(trace.requests())).extra == {"encut": 400.0}


def test_a_foreign_file_is_read_by_our_names(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    import datetime as dt

    when = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    table = pa.table({"submit_time": [when], "user_id": [7], "name": ["x"], "ok": [True], "nested": [[1, 2]]})
    pq.write_table(table, tmp_path / "f.parquet")
    trace = read_parquet(tmp_path / "f.parquet")
    assert trace.submit_time.tolist() == [when.timestamp()]
    assert trace.nominal("user_id").decode() == [7]
    assert trace.nominal("name").decode() == ["x"]
    assert trace.number("ok").tolist() == [1.0]
    assert trace.info.dropped == {"column of a nested type": 1}


def test_no_parquet_file_is_said(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(InputError, match=r"x\.parquet: is not a readable Parquet file"):
        read_trace(path)
    with pytest.raises(InputError, match=r"y\.parquet: cannot be read"):
        read_parquet(tmp_path / "y.parquet")
