"""Tests foreign Arrow and Parquet: every type is read with its meaning, and a broken file raises only InputError."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import numpy as np
import pytest

from batchcast.errors import InputError
from batchcast.formats.parquet import read as parse_parquet
from batchcast.table import LogInfo, Trace
from batchcast.table.arrow import from_arrow, to_arrow

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        (pa.array([dt.timedelta(seconds=90), None]), [90.0, np.nan]),
        (pa.array([90, None], pa.duration("ms")), [0.09, np.nan]),
        (pa.array([Decimal("1.50"), None]), [1.5, np.nan]),
        (pa.array([dt.time(1, 0), None]), [3600.0, np.nan]),
        (pa.array(["90", ""]), [90.0, np.nan]),
        (pa.array(["90", None]).dictionary_encode(), [90.0, np.nan]),
        (pa.array([90, None], pa.uint8()).dictionary_encode(), [90.0, np.nan]),
        (pa.array([2**60 + 1, None]), [2.0**60, np.nan]),
        (pa.array([2**64 - 1, 0], pa.uint64()), [2.0**64, 0.0]),
        (pa.nulls(2), [np.nan, np.nan]),
        (pa.array([b"7", b""]), [7.0, np.nan]),
        (pa.array(["7", None], pa.large_string()), [7.0, np.nan]),
        (pa.array([True, None]), [1.0, np.nan]),
        (pa.array([-1, 5]), [np.nan, 5.0]),
    ],
)
def test_numbers_come_in_many_types(values, seconds) -> None:
    log = from_arrow(pa.table({"submit_time": [0, 1], "run_time": values}))
    assert np.array_equal(log.run_time, seconds, equal_nan=True)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([dt.date(2020, 1, 1)]),
        pa.array([dt.date(2020, 1, 1)], pa.date64()),
        pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("s")),
        pa.array([dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], pa.timestamp("ns", "Europe/Stockholm")),
        pa.array(["2020-01-01 00:00:00"]),
        pa.array(["2020-01-01T01:00:00+01:00"]),
        pa.array(["1577836800"]),
        pa.array([1577836800]),
    ],
)
def test_instants_come_in_many_types(values) -> None:
    assert from_arrow(pa.table({"submit_time": values})).submit_time.tolist() == [1577836800.0]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            pa.table({"submit_time": ["tomorrow"]}),
            "column submit_time: row 1 is not a number: 'tomorrow' .*2024-01-31T08:00:00",
        ),
        (
            pa.table({"submit_time": [0, 0], "run_time": ["1", "long"]}),
            "column run_time: row 2 is not a number: 'long'",
        ),
        (pa.table([[0], [1]], names=["submit_time", "submit_time"]), "two columns have the same name: 'submit_time'"),
        (pa.table({"run_time": [0]}), "has no column submit_time"),
        (pa.table({"submit_time": [0]}).replace_schema_metadata({"batchcast": "{"}), "metadata .* is damaged"),
        (pa.table({"submit_time": [0]}).replace_schema_metadata({"batchcast": '{"info": {"notes": 7}}'}), "damaged"),
        (7, "is not a readable table"),
    ],
)
def test_a_table_that_is_no_log_is_one_message(table, message) -> None:
    with pytest.raises(InputError, match=message):
        from_arrow(table)


def test_rows_without_a_submit_time_are_counted_and_ids_of_any_kind_kept() -> None:
    log = from_arrow(pa.table({"submit_time": [5.0, None, 0.0], "job_id": pa.array([2**64 - 1, 2, None], pa.uint64())}))
    assert log.job_id.tolist() == ["row3", str(2**64 - 1)]
    assert log.info.dropped == {"no submit_time": 1}


def test_a_category_that_stands_twice_is_one() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None]), pa.array(["b", "a", "b"]))
    log = from_arrow(pa.table({"submit_time": [0, 1, 2, 3], "user_id": column}))
    assert log.nominal("user_id").categories == ("a", "b")
    assert log["user_id"].tolist() == ["b", "a", "b", None]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return a file with a few bytes changed, removed or inserted."""
    text = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text))
        kind = rng.randrange(4)
        if kind < 2:
            text[at] = rng.randrange(256)
        elif kind == 2:
            del text[at : at + rng.randint(1, 40)]
        else:
            text[at:at] = rng.randbytes(rng.randint(1, 9))
    return bytes(text)


def test_damaged_bytes_are_an_input_error_or_a_log(tmp_path) -> None:
    log = Trace.from_arrays(
        {
            "submit_time": np.arange(50.0), "run_time": np.arange(50.0), "user_id": ["ada", None, "bob", "x", "y"] * 10,
            "job_name": ["7", 8] * 25, "vasp": np.arange(50),
        },
        LogInfo(header={"MaxJobs": "50"}, names={"user_id": {3: "ada"}}, notes=("odd",)),
    )  # fmt: skip
    table = to_arrow(log)
    for k, options in enumerate(({}, {"compression": "none"}, {"write_page_checksum": True, "use_dictionary": False})):
        pq.write_table(table, tmp_path / f"{k}.parquet", **options)
    sound = [(tmp_path / f"{k}.parquet").read_bytes() for k in range(3)]
    rng, raised = random.Random(1), 0
    for k in range(600):
        try:
            parse_parquet([damaged(sound[k % 3], rng)], "x.parquet")
        except InputError:
            raised += 1
    assert raised > 300
