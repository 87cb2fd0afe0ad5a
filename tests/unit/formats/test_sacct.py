"""Tests the sacct reader: forms of values, jobs that never ran, torn lines, clock changes; damage loses no good
record."""

from __future__ import annotations

import math
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.errors import InputError
from batchcast.formats.slurm.sacct import looks_like, read_sacct
from batchcast.table import Trace

JOB = {
    "JobID": "100",
    "JobName": "relax",
    "User": "ada",
    "State": "COMPLETED",
    "Submit": "2024-03-01T10:00:00",
    "Start": "2024-03-01T10:05:00",
    "End": "2024-03-01T11:05:00",
    "ElapsedRaw": "3600",
    "Timelimit": "02:00:00",
    "ReqCPUS": "8",
    "AllocCPUS": "8",
    "ReqMem": "16G",
    "NNodes": "1",
    "ReqTRES": "cpu=8,mem=16G,node=1,gres/gpu=2",
}
COLUMNS = list(JOB)


def dump(*jobs: dict[str, str], columns: list[str] = COLUMNS) -> str:
    return "\n".join("|".join(row) for row in [columns, *([({**JOB, **job})[c] for c in columns] for job in jobs)])


def read(text: str, **options) -> Trace:
    return read_sacct([text.encode()], "jobs.txt", **options)


def number(name: str, **job: str) -> float:
    return float(read(dump(job)).number(name)[0])


def test_a_job_as_slurm_prints_it() -> None:
    trace = read(dump({}))
    values = {
        name: float(trace.number(name)[0]) for name in trace.names if name.endswith(("time", "procs", "kib", "gpus"))
    }
    assert values == {
        "submit_time": 1709287200.0,
        "wait_time": 300.0,
        "run_time": 3600.0,
        "req_time": 7200.0,
        "req_procs": 8.0,
        "alloc_procs": 8.0,
        "req_mem_kib": 16 * 1024**2,
        "req_gpus": 2.0,
    }
    assert trace.nominal("user_id").decode() == ["ada"]
    assert trace.nominal("job_name").decode() == ["relax"]
    assert trace.job_id.tolist() == [100]


@given(st.permutations(COLUMNS))
def test_any_order_of_columns(columns) -> None:
    trace = read(dump({}, {"JobID": "101"}, columns=columns))
    assert trace.run_time.tolist() == [3600.0, 3600.0]
    assert trace.nominal("status").decode() == ["completed"] * 2


@pytest.mark.parametrize(
    ("name", "job", "value"),
    [
        ("req_time", {"Timelimit": "1-00:00:00"}, 86400),
        ("req_time", {"Timelimit": "UNLIMITED"}, math.nan),
        ("req_time", {"Timelimit": "Partition_Limit"}, math.nan),
        ("req_mem_kib", {"ReqMem": "4000Mc"}, 4000 * 1024 * 8),
        ("req_mem_kib", {"ReqMem": "4Gn", "NNodes": "3"}, 12 * 1024**2),
        ("req_gpus", {"ReqTRES": "cpu=8,gres/gpu:a100=4"}, 4),
        ("req_gpus", {"ReqTRES": "cpu=8"}, 0),
        ("submit_time", {"Submit": "1709287200"}, 1709287200),
        ("submit_time", {"Submit": "2024-03-01T11:00:00+01:00"}, 1709287200),
        ("submit_time", {"Submit": "2024-03-01T11:00:00+0100"}, 1709287200),
    ],
)
def test_forms_of_values(name: str, job: dict[str, str], value: float) -> None:
    assert number(name, **job) == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize(
    ("raw", "seconds"), [({"TimelimitRaw": "90"}, 5400.0), ({"TimelimitRaw": "UNLIMITED"}, math.nan)]
)
def test_raw_limits_are_minutes(raw: dict[str, str], seconds: float) -> None:
    columns = [c for c in COLUMNS if c != "Timelimit"] + ["TimelimitRaw"]
    assert read(dump(raw, columns=columns)).req_time.tolist() == pytest.approx([seconds], nan_ok=True)


@pytest.mark.parametrize("missing", [["ElapsedRaw"], ["Start"], ["End"], ["ReqCPUS"]])
def test_a_missing_column_is_made_up_for_by_the_others(missing: list[str]) -> None:
    columns = [c for c in COLUMNS if c not in missing]
    trace = read(dump({}, columns=columns))
    assert (trace.wait_time[0], trace.run_time[0], trace.procs()[0]) == (300.0, 3600.0, 8.0)


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("CANCELLED by 1000", "cancelled"),
        ("TIMEOUT", "timeout"),
        ("OUT_OF_MEMORY", "out_of_memory"),
        ("NODE_FAIL", "node_fail"),
    ],
)
def test_states_are_words(state: str, word: str) -> None:
    assert read(dump({"State": state})).nominal("status").decode() == [word]


@pytest.mark.parametrize(
    "job",
    [
        {"Start": "None", "State": "CANCELLED by 7", "AllocCPUS": "0"},
        {"Start": "Unknown", "State": "CANCELLED", "AllocCPUS": "0"},
        {"Start": "2024-03-01T11:05:00", "State": "CANCELLED by 7", "AllocCPUS": "0"},
    ],
)
def test_a_job_cancelled_in_the_queue_never_ran_and_waited_until_it_left(job: dict[str, str]) -> None:
    trace = read(dump({**job, "ElapsedRaw": "0"}))
    assert math.isnan(trace.run_time[0])
    assert trace.wait_time[0] == 3900.0


def test_a_job_cancelled_right_at_its_start_ran_for_no_time() -> None:
    assert number("run_time", State="CANCELLED by 7", ElapsedRaw="0", End=JOB["Start"]) == 0.0


def test_unfinished_jobs_have_no_run_time_and_are_said() -> None:
    running = {"State": "RUNNING", "End": "Unknown"}
    pending = {"JobID": "101_[3-9%2]", "State": "PENDING", "Start": "Unknown", "End": "Unknown", "ElapsedRaw": "0"}
    trace = read(dump({"JobID": "99"}, running, pending))
    assert [math.isnan(v) for v in trace.run_time] == [False, True, True]
    assert trace.wait_time.tolist()[:2] == [300.0, 300.0]
    assert any("2 jobs had not finished" in note for note in trace.info.notes)


def test_steps_are_ignored_and_counted_arrays_and_het_jobs_kept_in_order() -> None:
    ids = ["100.batch", "100.0", "100", "12_10", "12_9", "12_9.extern", "12+1", "12+0"]
    trace = read(dump(*({"JobID": i} for i in ids)))
    assert trace.job_id.tolist() == ["12+0", "12+1", "12_9", "12_10", "100"]
    assert dict(trace.info.dropped) == {"job step (only jobs count)": 3}


def test_dumps_one_after_the_other_may_differ_in_columns() -> None:
    other = ["Submit", "JobID", "State", "Start", "ElapsedRaw"]
    trace = read(dump({}) + "\n" + dump({"JobID": "101"}, columns=other) + "\n" + dump({"JobID": "102"}))
    assert trace.job_id.tolist() == [100, 101, 102]
    assert trace.run_time.tolist() == [3600.0] * 3


def test_trailing_delimiters_and_carriage_returns() -> None:
    text = "\r\n".join(line + "|" for line in dump({}, {"JobID": "101"}).split("\n"))
    assert read(text).run_time.tolist() == [3600.0] * 2


@pytest.mark.parametrize("name", ["a|b", "|", "a|b|c|d", "two\nlines", "x\n\ny|z", "12|relax|bob", "a|FAILED"])
@pytest.mark.parametrize("at", [0, 1, 6])
def test_a_name_that_tears_its_line_is_put_together(name: str, at: int) -> None:
    columns = [c for c in COLUMNS if c != "JobName"]
    columns.insert(at, "JobName")
    trace = read(dump({"JobID": "99"}, {"JobName": name}, {"JobID": "101"}, columns=columns))
    assert trace.run_time.tolist() == [3600.0] * 3
    if "\n" not in name or at:  # the first line of a name in the first column could belong to any record
        assert trace.nominal("job_name").decode() == ["relax", name, "relax"]
        assert sum("repaired" in note for note in trace.info.notes) == 1


def test_a_line_break_in_the_last_column_belongs_to_the_line_before() -> None:
    columns = [*COLUMNS[2:], "JobID", "JobName"]
    trace = read(dump({"JobName": "two\nlines"}, {"JobID": "101"}, columns=columns))
    assert trace.nominal("job_name").decode() == ["two\nlines", "relax"]


def test_a_cut_line_does_not_swallow_the_next() -> None:
    lines = dump({}, {"JobID": "101"}, {"JobID": "102"}, {"JobID": "103", "JobName": "a\nb"}).split("\n")
    lines[1], lines[3] = lines[1][:40], lines[3][:55]
    trace = read("\n".join(lines))
    assert trace.job_id.tolist() == [101, 103]
    assert sum(trace.info.dropped.values()) == 2
    with pytest.raises(InputError, match=r"jobs\.txt:2: 5 fields instead of 14"):
        read("\n".join(lines), strict=True)


def test_local_times_are_read_in_the_zone_on_both_nights_of_a_clock_change() -> None:
    stockholm = ZoneInfo("Europe/Stockholm")
    spring = {"Submit": "2024-03-31T01:30:00", "Start": "2024-03-31T03:30:00", "End": "2024-03-31T04:30:00"}
    first = {
        "JobID": "101",
        "Submit": "2024-10-27T01:59:00",
        "Start": "2024-10-27T02:30:00",
        "End": "2024-10-27T03:30:00",
    }
    autumn = {**first, "ElapsedRaw": "7200"}
    second = {**first, "JobID": "102", "ElapsedRaw": "3600"}
    late = {
        "JobID": "103",
        "Submit": "2024-10-27T02:40:00",
        "Start": "2024-10-27T02:10:00",
        "End": "2024-10-27T03:10:00",
    }
    trace = read(dump(spring, autumn, second, late), zone=stockholm)
    assert trace.wait_time.tolist() == [3600.0, 31 * 60, 31 * 60 + 3600, 30 * 60]
    assert any("hour that a clock change repeats" in note for note in trace.info.notes)
    skipped = read(dump({"Submit": "2024-03-31T02:30:00"}), zone=stockholm)
    assert any("hour that a clock change skips" in note for note in skipped.info.notes)


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"Submit": "yesterday"}, r"jobs\.txt:2: submit: not a valid time"),
        ({"ReqCPUS": "many"}, r"jobs\.txt:2: reqcpus: .*'many'"),
        ({"Start": "2024-03-01T09:00:00"}, r"jobs\.txt:2: wait .*'-3600 s'"),
    ],
)
def test_what_cannot_be_read_is_counted_and_strict_stops(job: dict[str, str], message: str) -> None:
    trace = read(dump(job, {"JobID": "101"}))
    assert 101 in trace.job_id.tolist()
    assert any("read as unknown" in note for note in trace.info.notes)
    with pytest.raises(InputError, match=message):
        read(dump(job, {"JobID": "101"}), strict=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("100|ada|COMPLETED\n", "no header line.*sacct -P"),
        (dump({"JobID": "1.batch"}), "the file has no job record; 1 job steps were ignored"),
        ("JobID|Submit|State\n", "no job record"),
    ],
)
def test_what_holds_no_job_is_one_message(text: str, message: str) -> None:
    with pytest.raises(InputError, match=f"(?s){message}"):
        read(text)


@given(st.data())
def test_damage_loses_no_good_record(data) -> None:
    """Bytes inside some lines are overwritten: every undamaged line is read, and no exception but InputError is
    raised."""
    lines = dump(*({"JobID": str(100 + k)} for k in range(8))).split("\n")
    hurt = data.draw(st.sets(st.integers(1, 8), min_size=1, max_size=7))
    for k in hurt:
        at = data.draw(st.integers(0, len(lines[k]) - 1))
        lines[k] = (
            lines[k][:at]
            + data.draw(st.text("|\n.:0aJ -", max_size=4))
            + lines[k][at + data.draw(st.integers(0, 30)) :]
        )
    kept = read("\n".join(lines)).job_id.tolist()
    assert {str(i) for i in kept} >= {str(99 + k) for k in range(1, 9) if k not in hurt}


@given(st.binary(max_size=400))
def test_junk_after_the_header_is_never_a_traceback(junk: bytes) -> None:
    trace = read_sacct([dump({}).encode() + b"\n", junk])
    assert "100" in [str(job) for job in trace.job_id.tolist()]


def test_signs_of_sacct() -> None:
    assert looks_like(b"note\nState|Submit|JobIDRaw\n")
    assert not looks_like(b"; MaxProcs: 4\n1 2 3\n")
