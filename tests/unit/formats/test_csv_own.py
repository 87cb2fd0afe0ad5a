"""Tests that our own CSV is read back as written, for any names and numbers, and that a damaged row loses only
itself."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.trace.test_parquet import same

from batchcast.columns import COLUMNS
from batchcast.errors import InputError
from batchcast.formats.csv.own import read_own_csv
from batchcast.table import LogInfo, Nominal, Trace
from batchcast.trace import read_trace
from batchcast.trace.write import write_csv

TEXT = st.one_of(
    st.text(max_size=5), st.sampled_from(["7", "007", "nan", "inf", "-1", "1e3", " x ", "a,b", 'a"b\n', "\r"])
)
NAME = st.one_of(st.none(), st.integers(-3, 99), TEXT)
NUMBER = st.one_of(st.none(), st.floats(allow_nan=False), st.integers(-5, 10**9))
COLUMN = st.one_of(
    st.sampled_from([name for name, c in COLUMNS.items() if c.kind == "number" and name != "submit_time"]),
    st.sampled_from([name for name, c in COLUMNS.items() if c.kind == "nominal"]),
    st.sampled_from(["speed", "tag:text", "a:b", "Ü"]),
)


@st.composite
def traces(draw) -> Trace:
    rows = draw(st.integers(1, 6))

    def column(values):
        return draw(st.lists(values, min_size=rows, max_size=rows))

    made = {"submit_time": column(st.integers(0, 2**40))}
    if draw(st.booleans()):
        made["job_id"] = np.array(column(st.one_of(TEXT.filter(lambda t: "\0" not in t), st.sampled_from(["12_3"]))))
    for name in draw(st.sets(COLUMN, max_size=6)):
        known = COLUMNS.get(name)
        is_number = draw(st.booleans()) if known is None else known.kind == "number"
        values = column(NUMBER if is_number else NAME)
        made[name] = (
            np.array([np.nan if v is None else v for v in values], float) if is_number else Nominal.encode(values)
        )
    return Trace.from_arrays(made, LogInfo(unix_start=draw(st.sampled_from([0.0, 1e9]))))


@given(traces())
def test_a_trace_comes_back_as_it_was(tmp_path_factory, trace: Trace) -> None:
    path = tmp_path_factory.mktemp("csv") / "jobs.csv"
    write_csv(trace, path)
    back = read_own_csv([path.read_bytes()], strict=True)  # read_trace would also remove absurd values
    start = trace.info.unix_start
    moved = {name: trace.column(name) for name in trace.names}
    moved |= {name: moved[name] + start for name in ("submit_time", "eligible_time") if name in moved}
    assert same(Trace(moved, is_sorted=True), back)
    assert [p.name for p in path.parent.iterdir()] == ["jobs.csv"]


def test_it_is_told_by_its_header_and_other_tools_read_it(tmp_path: Path) -> None:
    trace = Trace.from_arrays({"submit_time": [0.0, 60.0], "user_id": ["ada", None], "run_time": [1.5, None]})
    write_csv(trace, tmp_path / "log")
    assert same(read_trace(tmp_path / "log"), trace)
    with (tmp_path / "log").open() as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {"job_id": "1", "submit_time": "0", "user_id": "ada", "run_time": "1.5"},
        {"job_id": "2", "submit_time": "60", "user_id": "", "run_time": ""},
    ]


def test_broken_rows_are_dropped_and_counted_other_values_unknown(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("job_id,submit_time,run_time\n1,10,5\n2,then,5\n3,20,long\n4,30\n")
    trace = read_trace(path)
    assert trace.job_id.tolist() == [1, 3]
    assert np.array_equal(trace.run_time, [5.0, np.nan], equal_nan=True)
    assert trace.info.dropped == {
        "broken line: no submit_time (accepted: epoch seconds)": 1, "broken line: 2 cells instead of 3": 1
    }  # fmt: skip
    assert any("run_time: not a number, read as unknown" in note for note in trace.info.notes)
    with pytest.raises(InputError, match=r"log\.csv:\d: "):
        read_trace(path, strict=True)


def test_a_file_without_a_job_says_why_and_what_next(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("job_id,submit_time\n1,2024-01-01 00:00:00\n")
    with pytest.raises(InputError, match=r"the file has no job record; 1 lines are broken(?s:.)*map=FILE\.toml"):
        read_trace(path)
    path.write_text("")
    with pytest.raises(InputError, match="is empty"):
        read_trace(path)


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_what_a_table_program_made_of_it_is_read(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "log.csv"
    rows = [["job_id", "submit_time", "run_time", "user_id"], ["1", "10,5", "5", "ada"], ["2", "20", "-1", "bob"]]
    path.write_text("\r\n".join(mark.join(row) for row in rows), encoding="utf-8-sig")
    trace = read_trace(path, strict=True)
    assert trace.submit_time.tolist() == [10.5, 20.0]
    assert np.array_equal(trace.run_time, [5.0, np.nan], equal_nan=True)
    assert trace["user_id"].tolist() == ["ada", "bob"]


def test_negative_lengths_are_unknown_and_a_stray_quote_loses_one_row(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('job_id,submit_time,job_name,run_time\n1,10,"x,5\n2,20,y,-5\n3,30,z",-1\n4,40,w,8\n')
    trace = read_trace(path)
    assert trace.job_id.tolist() == [2, 3, 4]
    assert np.array_equal(trace.run_time, [np.nan, np.nan, 8.0], equal_nan=True)
    assert trace.info.dropped == {"broken line: an opening quote without a closing quote": 1}
    assert any(note.startswith("1 values of run_time: negative") for note in trace.info.notes)
    with pytest.raises(InputError, match=r"log\.csv:2: an opening quote"):
        read_trace(path, strict=True)


def test_a_column_that_stands_twice_under_its_marks_is_said() -> None:
    with pytest.raises(InputError, match=r"occurs twice.*'tag'"):
        read_own_csv([b"job_id,submit_time,tag,tag:text\n1,2,3,4\n"])
