"""Tests exchange with a notebook: arrays, data frames, dates, Arrow; bad values are named."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest

import batchcast
from batchcast.errors import UsageError
from batchcast.table import Trace

LOG = {
    "submit_time": [0.0, 60.0, 120.0],
    "wait_time": [0.0, 5.0, None],
    "run_time": [60.0, 90.0, 30.0],
    "user_id": ["ada", None, "bob"],
    "tag": ["<b>", "x", "y"],
}


def test_columns_by_name_and_rows_by_mask() -> None:
    log = Trace.from_arrays(LOG)
    assert log["run_time"].tolist() == [60.0, 90.0, 30.0]
    assert log["user_id"].tolist() == ["ada", None, "bob"]
    assert log["end_time"][:2].tolist() == [60.0, 155.0]
    assert np.isnan(log["req_time"]).all()
    assert log["account"].tolist() == [None] * 3
    assert log[log["run_time"] > 40].job_id.tolist() == [1, 2]
    assert log[1:].job_id.tolist() == [2, 3]
    assert log.filter(user_id=["ada", "bob"], run_time=lambda run: run < 50).job_id.tolist() == [3]
    assert log.filter(job_id=2).job_id.tolist() == [2]
    with pytest.raises(UsageError, match=r"no column 'runtime' \(accepted: .*run_time"):
        log["runtime"]


def test_a_data_frame_goes_in_and_comes_out() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "submit_time": pandas.to_datetime(["2024-01-01 00:01", "2024-01-01 00:00", None]).tz_localize(
                "Europe/Stockholm"
            ),
            "run_time": pandas.to_timedelta([60, 90, None], unit="s"),
            "req_procs": pandas.array([4, None, 2], dtype="Int64"),
            "user_id": pandas.Categorical(["ada", None, "bob"]),
            "job_name": pandas.array(["x", None, "z"], dtype="string"),
        }
    )
    log = Trace.from_arrays(frame)
    midnight = dt.datetime(2023, 12, 31, 23, tzinfo=dt.UTC).timestamp()
    assert log.submit_time.tolist() == [midnight, midnight + 60]
    assert log.info.dropped == {"no submit_time": 1}
    assert log.run_time.tolist() == [90.0, 60.0]
    assert np.array_equal(log.procs(), [np.nan, 4.0], equal_nan=True)
    assert log["user_id"].tolist() == [None, "ada"]
    assert log["job_name"].tolist() == [None, "x"]
    back = log.to_pandas()
    assert back["run_time"].tolist() == [90.0, 60.0]
    assert str(back["user_id"].dtype) == "category"
    assert back.attrs["info"] is log.info
    again = Trace.from_arrays(back)
    assert again["user_id"].tolist() == [None, "ada"]


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        (np.array(["1970-01-01T00:01", "NaT"], "datetime64[s]"), [60.0, np.nan]),
        ([dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), dt.date(1970, 1, 2)], [0.0, 86400.0]),
        ([Decimal("1.5"), "7"], [1.5, 7.0]),
        (["1970-01-01 00:01", "1970-01-01T02:00:00+02:00"], [60.0, 0.0]),
        ([0, 2**60], [0.0, 2.0**60]),
    ],
)
def test_dates_and_exact_numbers_are_seconds(values, seconds) -> None:
    log = Trace.from_arrays({"submit_time": [0, 0], "eligible_time": values, "job_id": [1, 2]})
    assert np.array_equal(log["eligible_time"], seconds, equal_nan=True)


def test_dates_go_onto_the_clock_of_the_log() -> None:
    info = batchcast.Trace.from_arrays({"submit_time": [0]}).info
    moved = Trace.from_arrays(
        {"submit_time": np.array(["1970-01-01T00:01"], "datetime64[s]")}, type(info)(unix_start=50.0)
    )
    assert moved.submit_time.tolist() == [10.0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"submit_time": [0], "run_time": ["soon"]}, "run_time: row 1 is not a number: 'soon'"),
        ({"submit_time": ["1970-01-01", "soon"]}, "submit_time: row 2 .*'soon' .*texts such as"),
        ({"submit_time": [0, 1], "run_time": [1]}, "columns differ in length: .*submit_time 2, run_time 1"),
        ({"submit_time": 7}, "submit_time: 7 .*one value for each job"),
        ({"submit_time": [[0, 1]]}, "submit_time: an array of 2 dimensions"),
        ([1, 2], "columns: a list"),
    ],
)
def test_what_cannot_be_a_log_names_column_row_and_value(columns, message) -> None:
    with pytest.raises(UsageError, match=message):
        Trace.from_arrays(columns)


def test_bytes_are_names() -> None:
    log = Trace.from_arrays(
        {"submit_time": [0, 1], "user_id": np.array([b"ada", b"b\xf6b"]), "job_id": [b"7_1", b"8"], "tag": [b"x", None]}
    )
    assert log["user_id"].tolist() == ["ada", "b\\xf6b"]
    assert log["tag"].tolist() == ["x", None]
    assert log.job_id.tolist() == ["7_1", "8"]


def test_job_ids_of_any_kind_keep_apart() -> None:
    assert Trace.from_arrays({"submit_time": [0, 1], "job_id": [7.0, 8.0]}).job_id.tolist() == [7, 8]
    assert Trace.from_arrays({"submit_time": [0, 1], "job_id": [1.2, 1.7]}).job_id.tolist() == ["1.2", "1.7"]
    assert Trace.from_arrays({"submit_time": [0, 1], "job_id": [None, "7_1"]}).job_id.tolist() == ["row1", "7_1"]
    assert Trace.from_arrays({"submit_time": [0, 1], "job_id": [2**70, 1]}).job_id.tolist() == [str(2**70), "1"]


def test_minus_one_is_unknown_and_no_crash() -> None:
    log = Trace.from_arrays(
        {"submit_time": [0.0, 5.0, 9.0], "wait_time": [0, 0, 0], "run_time": [-1, 60, -7], "req_time": [60, np.inf, 60]}
    )
    assert np.array_equal(log.run_time, [np.nan, 60.0, np.nan], equal_nan=True)
    assert log.info.notes == (
        "1 values of run_time: negative, read as unknown (first: -7)",
        "1 values of req_time: infinite, read as unknown (first: inf)",
    )
    assert np.isfinite(batchcast.replay(log, ["requested"])["requested"].points[1])


def test_other_libraries_read_a_trace_by_arrow_and_notebooks_by_html() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    log = Trace.from_arrays(LOG)
    assert pyarrow.table(log)["user_id"].to_pylist() == ["ada", None, "bob"]
    again = batchcast.from_arrow(log)  # accepts any object with the Arrow interface
    assert again["tag"].tolist() == ["<b>", "x", "y"]
    html = log._repr_html_()
    assert "3 jobs" in html
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


def test_a_misspelt_column_is_no_column_of_unknown_values() -> None:
    log = Trace.from_arrays({"submit_time": [0.0], "run_time": [9.0]})
    for asked in (log.number, log.nominal):
        with pytest.raises(UsageError) as refused:
            asked("runtime")
        assert "no column 'runtime'" in str(refused.value)
        assert refused.value.hint == "did you mean run_time?"
    assert np.isnan(log.number("req_time")).all()  # a column that batchcast knows and this log lacks
