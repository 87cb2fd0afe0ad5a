"""Tests column maps: accepted keys, error messages, and the log that a mapped file becomes."""

from __future__ import annotations

import gzip
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from tests.unit.formats.test_nrel import as_sacct

from batchcast.errors import BatchcastError, InputError, UsageError
from batchcast.formats.csv.column_map import make_map
from batchcast.formats.csv.foreign import read_mapped_csv
from batchcast.formats.slurm.sacct import read_sacct
from batchcast.trace import read_trace

PLAIN = {
    "columns": {
        "job_id": "id",
        "submit_time": "sub",
        "start_time": "start",
        "end_time": "end",
        "req_time": {"from": "wall", "unit": "minutes"},
        "req_mem_kib": {"from": "mem", "unit": "gib"},
        "req_gpus": {"from": "tres", "unit": "tres"},
        "status": "state",
        "user_id": "who",
    },
    "extra": {"speed": {"from": "ghz", "unit": "number"}, "note": "text"},
    "status": {"OK": "completed", "killed": "cancelled"},
}
HEADER = "id,sub,start,end,wall,mem,tres,state,who,ghz,text,unread"
TABLE = f"""{HEADER}
1,2024-01-01 00:00:00,2024-01-01T00:01:00Z,1704070860,90,2,"cpu=4,gres/gpu=2",OK,ada,2.5,"a, b",x
2,2024-01-01 00:00:10,,2024-01-01 00:00:40,UNLIMITED,0,,killed,,,,x
3,2024-01-01 00:00:20,2024-01-01 00:00:30,,1:00,1,cpu=1,RUNNING,bob,fast,,x
4,yesterday,2024-01-01 00:00:30,,90,1,,OK,bob,1,,x
"""


def read(text: str, plain=PLAIN, **options):
    return read_mapped_csv([text.encode()], make_map(plain, "site.toml"), "x.csv", **options)


def test_units_zones_states_and_extra_columns() -> None:
    trace = read(TABLE)
    assert trace.job_id.tolist() == [1, 2, 3]
    assert trace.submit_time.tolist() == [1704067200.0, 1704067210.0, 1704067220.0]
    assert trace.wait_time.tolist() == [60.0, 30.0, 10.0]  # the second job was withdrawn from the queue
    assert np.array_equal(trace.run_time, [3600.0, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(trace.req_time, [5400.0, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(trace.number("req_mem_kib"), [2 * 1024.0**2, np.nan, 1024.0**2], equal_nan=True)
    assert np.array_equal(trace.number("req_gpus"), [2.0, np.nan, 0.0], equal_nan=True)
    assert trace.nominal("status").decode() == ["completed", "cancelled", "running"]
    assert trace.nominal("note").decode() == ["a, b", None, None]
    assert np.array_equal(trace.number("speed"), [2.5, np.nan, np.nan], equal_nan=True)
    notes = "\n".join(trace.info.notes)
    assert "through the map site" in notes
    assert "wall: not a valid value" in notes
    assert "'1:00'" in notes
    assert "ghz: not a valid value" in notes
    assert "1 columns are not in the map and were not read: unread" in notes
    assert "1 jobs had not finished" in notes
    assert "1 jobs have no time limit" in notes
    (dropped,) = trace.info.dropped
    assert "no submit time (accepted: 2024-01-31T14:00:00" in dropped


def test_times_without_a_zone_are_local_to_the_zone() -> None:
    trace = read(TABLE, zone=ZoneInfo("Europe/Stockholm"))
    assert trace.submit_time[0] == 1704067200.0 - 3600
    assert trace.wait_time[0] == 3660.0  # the start time has its own zone


def test_strict_stops_at_the_first_value_that_cannot_be_read() -> None:
    with pytest.raises(InputError, match=r"x\.csv:\d: .*accepted: "):
        read(TABLE, strict=True)


def test_a_mapped_column_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"x\.csv:1: the map site reads user_id .* 'who' .*\n.*did you mean whom"):
        read(TABLE.replace("who", "whom"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": {"submit": "s"}}, r"not a column of batchcast: 'submit'.*\n.*submit_time"),
        ({"columns": {"run_time": "r"}}, "no submit_time"),
        ({"columns": {"submit_time": "s", "req_time": {"from": "w", "unit": "weeks"}}}, "'weeks' .accepted: seconds"),
        ({"columns": {"submit_time": 3}}, "submit_time cannot be 3"),
        ({"columns": {"submit_time": {"from": "s", "units": "date"}}}, "not a key.*units"),
        ({"columns": {"submit_time": "s"}, "extra": {"user_id": "u"}}, "one of batchcast's own"),
        ({"columns": {"submit_time": "s"}, "delimiter": "::"}, "delimiter cannot be"),
        ({"columns": {"submit_time": "s"}, "procs_total": "many"}, "procs_total cannot be"),
        ({"columns": {"submit_time": "s"}, "colums": {}}, r"not a key: 'colums'.*\n.*columns"),
        ({"columns": {"submit_time": "s"}, "status": {"OK": 1}}, r"\[status\] OK cannot be 1"),
    ],
)
def test_a_map_that_says_nonsense_is_told_what_is_accepted(change, message) -> None:
    with pytest.raises(UsageError, match=f"(?s)site.toml.*{message}"):
        make_map(change, "site.toml")


def test_a_map_that_cannot_be_read_is_one_message(tmp_path: Path) -> None:
    log, bad = tmp_path / "log.csv", tmp_path / "bad.toml"
    log.write_text(TABLE)
    bad.write_text("[columns\n")
    for name, message in (("nowhere", "accepted: graham, nrel"), (str(bad), "not TOML"), ("no.toml", "no such")):
        with pytest.raises(BatchcastError, match=message):
            read_trace(log, map=name)
    with pytest.raises(UsageError, match="map is for CSV"):
        read_trace(log, map="nrel", format="swf")


def test_a_table_nobody_mapped_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    with pytest.raises(InputError, match=r"table\.csv:1: a CSV table .*graham, nrel(?s:.)*map=FILE\.toml"):
        read_trace(path)


def test_a_file_without_a_header_or_in_utf_16_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("1,2024-01-01 00:00:00,3\n")
    with pytest.raises(InputError, match="a CSV table without a header line"):
        read_trace(path)
    path.write_bytes("job_id,submit_time\n1,2\n".encode("utf-16"))
    with pytest.raises(InputError, match=r"UTF-16 text(?s:.)*iconv"):
        read_trace(path)


def test_a_map_says_zone_delimiter_and_machine(tmp_path: Path) -> None:
    path, mapped = tmp_path / "jobs.txt", tmp_path / "ours.toml"
    path.write_text("when;size\n2024-07-01 12:00:00;4\n")
    mapped.write_text(
        'timezone = "Europe/Stockholm"\nprocs_total = 64\n'
        '[columns]\nsubmit_time = "when"\nreq_procs = "size"\n'
    )  # fmt: skip
    trace = read_trace(path, map=str(mapped))
    assert trace.submit_time.tolist() == [1719828000.0]
    assert trace.job_id.tolist() == [1]
    assert (trace.info.timezone, trace.info.timezone_source) == ("Europe/Stockholm", "the map ours")
    assert (trace.info.max_procs, trace.info.max_procs_source) == (64.0, "the map ours")
    assert read_trace(path, map=str(mapped), timezone="UTC").submit_time.tolist() == [1719835200.0]


@pytest.mark.shared
def test_the_nrel_sample_is_what_its_sacct_dump_would_have_been(shared: Path) -> None:
    path = shared / "traces" / "NREL-eagle-sample1000.csv.gz"
    trace, dump = read_trace(path, strict=True), read_sacct([as_sacct(path).encode()])
    assert trace.info.header["map"] == "nrel"
    assert len(trace) == 1000
    assert trace.extra_names == ("submit_line",)
    for name in ("submit_time", "wait_time", "run_time", "req_time", "req_procs", "req_nodes", "req_gpus"):
        assert np.array_equal(trace.number(name), dump.number(name), equal_nan=True), name
    for name in ("user_id", "account", "partition_id", "qos", "job_name", "work_dir", "status"):
        assert trace.nominal(name).decode() == dump.nominal(name).decode(), name


@pytest.mark.shared
def test_the_graham_file_is_picked_by_its_columns_and_read_whole(shared: Path, tmp_path: Path) -> None:
    with gzip.open(shared / "traces" / "DRAC-Graham-2021-submitdays.csv.gz", "rt") as file:
        part = [next(file) for _ in range(501)]
    (tmp_path / "part.csv").write_text("".join(part))
    trace = read_trace(tmp_path / "part.csv", strict=True)
    first = dict(zip(part[0].strip().split(","), part[1].split('"')[0].split(",")))
    row = trace.job_id.tolist().index(int(first["job_unique_id"]))
    assert len(trace) == 500
    assert (trace.run_time[row], trace.wait_time[row], trace.req_time[row]) == (9527.0, 847916.0, 259200.0)
    assert (trace.number("req_gpus")[row], trace.number("req_mem_kib")[row]) == (4.0, 193024 * 1024.0)
    assert any("pending" in note or "waited at noon" in note for note in trace.info.notes)
