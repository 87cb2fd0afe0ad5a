"""Tests sacct's columns as a table program writes them (quoted CSV, Parquet), and Slurm texts that are no log."""

from __future__ import annotations

import csv
import datetime as dt
import io
from pathlib import Path
from typing import Any

import pytest

from batchcast.errors import InputError
from batchcast.formats.slurm.sacct import read_sacct
from batchcast.table import Trace
from batchcast.trace import read_trace

JOB = {
    "JobID": "1", "User": "ada", "State": "COMPLETED", "Submit": "2026-03-01T10:00:00", "Start": "2026-03-01T10:10:00",
    "End": "2026-03-01T10:20:00", "Elapsed": "00:10:00", "Timelimit": "01:00:00", "ReqCPUS": "4",
    "ReqTRES": "billing=4,cpu=4,mem=8G,node=1,gres/gpu=2", "JobName": "j",
}  # fmt: skip
NAMES = ["b,1", 'say "hi"', '"q"', "a;b\tc", "two\nlines", "two\nlines, and, commas", "", "é"]


def table(*jobs: dict[str, str], **form: Any) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(JOB), lineterminator="\n", **form)
    writer.writeheader()
    writer.writerows({**JOB, **job} for job in jobs)
    return text.getvalue()


def read(text: str, **options: bool) -> Trace:
    return read_sacct([text.encode()], "jobs.csv", **options)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_csv_of_sacct_columns_is_read_as_any_writer_quotes_it(delimiter: str, quoting: int) -> None:
    jobs = [{"JobID": str(k + 1), "JobName": name} for k, name in enumerate(NAMES)]
    trace = read(table(*jobs, delimiter=delimiter, quoting=quoting))
    assert trace.job_id.tolist() == list(range(1, len(NAMES) + 1))
    assert trace.nominal("job_name").decode() == [name or None for name in NAMES]
    assert trace.number("req_gpus").tolist() == [2.0] * len(NAMES)
    assert trace.number("req_mem_kib").tolist() == [8 * 1024.0**2] * len(NAMES)
    assert trace.info.dropped == {}
    assert not any("torn" in note and "line 2:" in note for note in trace.info.notes)


def test_a_pipe_delimited_table_with_a_quoted_header_is_csv_too() -> None:
    trace = read(table({"JobName": "a|b"}, delimiter="|", quoting=csv.QUOTE_ALL))
    assert trace.nominal("job_name").decode() == ["a|b"]


def test_sacct_itself_quotes_nothing() -> None:
    lines = ["|".join(JOB), "|".join({**JOB, "JobName": '"q"'}.values()), ""]
    assert read("\n".join(lines)).nominal("job_name").decode() == ['"q"']


def test_an_opened_quote_costs_one_line() -> None:
    lines = table({}, {"JobID": "2"}, {"JobID": "3"}).split("\n")
    lines[2] = lines[2].replace('"billing', '"bil"ling', 1)[:-1] + '"open'
    trace = read("\n".join(lines))
    assert trace.job_id.tolist() == [1, 3]
    assert trace.info.dropped == {"broken line: quotes that do not match": 1}
    with pytest.raises(InputError, match=r"jobs\.csv:3: quotes that do not match"):
        read("\n".join(lines), strict=True)


def test_a_number_stands_for_a_user_without_a_name(tmp_path: Path) -> None:
    lines = ["JobID|User|UID|Group|GID|Submit|ElapsedRaw", "1||1005||7|60|5", "2|ada|1006|phys|8|60|5", ""]
    trace = read("\n".join(lines))
    assert trace.nominal("user_id").decode() == ["1005", "ada"]
    assert trace.nominal("group_id").decode() == ["7", "phys"]


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("1|u1|main|COMPLETED|2026-03-01T10:00:00|2026-03-01T10:10:00|00:10:00|4|j\n", "without its header", "-n"),
        ("12_3,u1,CANCELLED by 7,2026-03-01T10:00:00,Unknown\n", "sacct dump without its header", "leave out -n"),
        (
            "JobId=7 UserId=ada(1001) GroupId=ada(1001) Name=relax JobState=COMPLETED Partition=main TimeLimit=60 "
            "StartTime=2026-03-01T10:10:00 EndTime=2026-03-01T10:20:00 NodeList=n1 Tres=cpu=4,mem=8G\n",
            "jobcomp/filetxt",
            "sacct -a -P",
        ),
        ("JobId=7 JobName=relax\n   UserId=ada(1001) GroupId=ada(1001)\n", "scontrol show job", "sacct -a -P"),
    ],
)
def test_texts_of_slurm_that_are_no_log_are_named(tmp_path: Path, text: str, what: str, hint: str) -> None:
    path = tmp_path / "jobs.txt"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert what in caught.value.message
    assert hint in caught.value.hint
    assert "--map" not in str(caught.value)


def test_parquet_with_the_columns_of_sacct(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    at = dt.datetime(2026, 3, 1, 10, 0)
    minutes = [dt.timedelta(minutes=m) for m in (0, 10, 20)]
    columns = {
        "JobID": ["7", "7.batch", "8_[1-2]"],
        "User": ["ada", None, "bob"],
        "State": ["COMPLETED", "COMPLETED", "CANCELLED by 7"],
        "Submit": [at, at, at],
        "Start": [at + minutes[1], at + minutes[1], None],
        "End": [at + minutes[2]] * 3,
        "ElapsedRaw": pa.array([600, 600, 0], pa.int32()),
        "Elapsed": [minutes[1], minutes[1], minutes[0]],
        "TimelimitRaw": pa.array([60.0, None, 90.0], pa.float64()),
        "ReqCPUS": pa.array([4, 4, 2], pa.int64()),
        "MaxRSS": [None, "1G", None],
        "JobName": pa.array(["a|b", "batch", None]).dictionary_encode(),
    }
    pq.write_table(pa.table(columns), tmp_path / "jobs.parquet")
    trace = read_trace(tmp_path / "jobs.parquet", timezone="Europe/Stockholm")
    assert trace.job_id.tolist() == ["7", "8_[1-2]"]
    assert trace.run_time.tolist()[0] == 600.0
    assert trace.req_time.tolist() == [3600.0, 5400.0]
    assert trace.submit_time.tolist() == [dt.datetime(2026, 3, 1, 9, 0, tzinfo=dt.UTC).timestamp()] * 2
    assert trace.wait_time.tolist() == [600.0, 1200.0]
    assert trace.nominal("job_name").decode() == ["a|b", None]
    assert trace.number("used_mem_kib").tolist()[0] == 1024.0**2
    assert (trace.info.format, dict(trace.info.dropped)) == ("sacct", {"job step (only jobs count)": 1})
