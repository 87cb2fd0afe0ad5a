"""Tests values that databases write for unknown: a start of 0, 1970, NO_VAL, uninitialized bits. All of these values
must be read as unknown."""

from __future__ import annotations

import json
import math

import pytest

from batchcast.errors import InputError
from batchcast.formats.csv.column_map import make_map
from batchcast.formats.csv.foreign import read_mapped_csv
from batchcast.formats.slurm.sacct import read_sacct, read_sacct_json
from batchcast.formats.swf import read_swf
from batchcast.table import Trace

SUBMIT, START, END = 1772359200, 1772359800, 1772360400
NO_TIMES = ["0", "", "1970-01-01 00:00:00", "1970-01-01T01:00:00", "1969-12-31T19:00:00", "4294967294", "0.0"]


def csv_of(*rows: tuple[object, ...]) -> Trace:
    columns = {"job_id": "id", "submit_time": "sub", "start_time": "start", "end_time": "end", "status": "state"}
    text = "id,sub,start,end,state\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    return read_mapped_csv([text.encode()], make_map({"columns": columns}, "m.toml"))


def dump_of(*rows: tuple[object, ...], header: str = "JobID|Submit|Start|End|State") -> Trace:
    return read_sacct([(header + "\n" + "".join("|".join(map(str, row)) + "\n" for row in rows)).encode()])


def json_of(*rows: tuple[object, ...]) -> Trace:
    jobs = [
        {"job_id": i, "time": {"submission": sub, "start": int(start), "end": end}, "state": {"current": state}}
        for i, sub, start, end, state in rows
    ]
    return read_sacct_json([json.dumps({"jobs": jobs}).encode()])


def known(values) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values]


@pytest.mark.parametrize("read", [csv_of, dump_of])
@pytest.mark.parametrize("start", NO_TIMES)
def test_a_job_whose_start_is_none_never_ran_and_waited_until_it_left(read, start: str) -> None:
    trace = read((1, SUBMIT, START, END, "COMPLETED"), (2, SUBMIT, start, END, "CANCELLED"))
    assert known(trace.run_time) == [600.0, None]
    assert known(trace.wait_time) == [600.0, 1200.0]
    assert not any("read as unknown" in note for note in trace.info.notes)


def test_a_start_of_0_in_json_is_none() -> None:
    trace = json_of((1, SUBMIT, START, END, "COMPLETED"), (2, SUBMIT, 0, END, "CANCELLED"))
    assert known(trace.run_time) == [600.0, None]
    assert known(trace.wait_time) == [600.0, 1200.0]


def test_a_clock_that_begins_at_0_keeps_its_zeros() -> None:
    trace = csv_of((1, 0, 0, 60, "COMPLETED"), (2, 5, 60, 90, "COMPLETED"))
    assert known(trace.run_time) == [60.0, 30.0]
    assert known(trace.wait_time) == [0.0, 55.0]


@pytest.mark.parametrize("eligible", ["0", "4294967294", "2106-02-07T06:28:14", "1970-01-01T01:00:00"])
def test_a_time_of_eligibility_that_is_none(eligible: str) -> None:
    trace = dump_of((1, SUBMIT, eligible, START, END), header="JobID|Submit|Eligible|Start|End")
    assert "eligible_time" not in trace.names
    assert known(trace.wait_time) == [600.0]


@pytest.mark.parametrize("read", [csv_of, dump_of])
def test_a_start_before_the_submission_gives_neither_wait_nor_run(read) -> None:
    trace = read((1, SUBMIT, SUBMIT - 600, END, "COMPLETED"))
    assert known(trace.run_time) == [None]
    assert known(trace.wait_time) == [None]
    assert any("start before submission" in note for note in trace.info.notes)


def test_the_length_that_slurm_measured_does_not_hang_on_the_start() -> None:
    header = "JobID|Submit|Start|End|ElapsedRaw"
    trace = dump_of((1, SUBMIT, SUBMIT - 600, END, 500), (2, SUBMIT, START, END, -600), header=header)
    assert known(trace.run_time) == [500.0, 600.0]
    assert any("elapsedraw: not a valid value" in note and "'-600'" in note for note in trace.info.notes)


@pytest.mark.parametrize(
    ("row", "asked"),
    [
        (("2147486648Mn", "cpu=8,mem=24000M,node=1", "cpu=8,mem=30G"), 24000 * 1024.0),
        (("2147486648Mc", "cpu=8", "cpu=8,mem=24000M"), 24000 * 1024.0),
        (("2147486648Mn", "", ""), None),
        (("0n", "cpu=8,mem=24000M", ""), 24000 * 1024.0),
        (("?", "cpu=8,mem=24000M", ""), 24000 * 1024.0),
        (("4000Mc", "cpu=8,mem=24000M", ""), 8 * 4000 * 1024.0),
    ],
)
def test_a_request_of_memory_that_no_node_has_gives_way_to_tres(row: tuple[str, str, str], asked: float | None) -> None:
    header = "JobID|Submit|ReqCPUS|NNodes|ReqMem|ReqTRES|AllocTRES"
    trace = dump_of((1, SUBMIT, 8, 1, *row), header=header)
    assert (known(trace.number("req_mem_kib")) if "req_mem_kib" in trace.names else [None]) == [asked]
    assert any("more than a pebibyte" in note for note in trace.info.notes) == row[0].startswith("2147")


def test_a_size_that_a_job_had_before_it_was_resized_has_a_run_time() -> None:
    header = "JobID|Submit|Start|End|State|ReqCPUS"
    resized = (5, SUBMIT, START, START + 3600, "RESIZING", 4)
    last = (5, START + 3600, START + 3600, START + 7200, "COMPLETED", 4)
    trace = dump_of(resized, last, (6, SUBMIT, START, "Unknown", "RESIZING", 4), header=header)
    assert known(trace.run_time) == [3600.0, None, 3600.0]
    assert any(note.startswith("1 jobs had not finished") for note in trace.info.notes)
    assert any(note.startswith("2 records describe an earlier size") for note in trace.info.notes)


@pytest.mark.parametrize("start", ["-1", "-2"])
def test_an_unknown_start_of_a_swf_clock_is_said_and_moves_nothing(start: str) -> None:
    line = b"1 0 5 60 4 -1 -1 4 120 -1 1 7 1 -1 2 -1 -1 -1\n"
    trace = read_swf([f"; UnixStartTime: {start}\n".encode(), line])
    assert trace.info.unix_start == 0.0
    assert any(f"UnixStartTime is {start}" in note for note in trace.info.notes)
    none = read_swf([b"; MaxProcs: 4\n", line])
    assert any("UnixStartTime is missing" in note for note in none.info.notes)


def test_strict_stops_at_a_request_that_no_node_has() -> None:
    text = f"JobID|Submit|ReqMem\n1|{SUBMIT}|2147486648Mn\n"
    with pytest.raises(InputError, match="more than a pebibyte"):
        read_sacct([text.encode()], strict=True)
