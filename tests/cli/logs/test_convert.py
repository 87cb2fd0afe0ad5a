"""Tests `batchcast convert`: batchcast reads each written file again, and a wrong ending or path gives one error
message."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from batchcast.cli.logs.convert import command
from batchcast.errors import InputError, UsageError
from batchcast.trace import demo_path, read_trace, write_parquet


def convert(*words: str) -> None:
    CliRunner().invoke(command, [words[0], "-o", *words[1:]], catch_exceptions=False, standalone_mode=False)


@pytest.mark.parametrize("ending", [".swf", ".swf.gz", ".parquet"])
def test_the_jobs_come_back(tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"out{ending}"
    convert(str(demo_path()), str(out), "--first", "300")
    demo, again = read_trace(demo_path()), read_trace(out)
    assert len(again) == 300
    for name in ("submit_time", "wait_time", "run_time", "req_time"):
        assert np.array_equal(again.number(name), demo.number(name)[:300], equal_nan=True)


def test_two_logs_are_written_as_one_and_common_jobs_once(tmp_path: Path) -> None:
    early, late, both = (tmp_path / name for name in ("early.parquet", "late.parquet", "both.parquet"))
    whole = read_trace(demo_path())
    write_parquet(whole[:300], early)
    write_parquet(whole[200:500], late)
    done = CliRunner().invoke(command, [str(late), str(early), "-o", str(both)], catch_exceptions=False)
    assert "100 records left out (identical to another record)" in done.stderr
    assert read_trace(both).job_id.tolist() == whole[:500].job_id.tolist()
    folder = tmp_path / "months"
    convert(str(early), f"{folder}/", str(late))
    assert read_trace(folder).job_id.tolist() == whole[:500].job_id.tolist()


def test_csv_has_names_epoch_seconds_and_empty_unknowns(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    convert(str(demo_path()), str(out))
    demo = read_trace(demo_path())
    rows = list(csv.DictReader(out.open()))
    assert [float(r["submit_time"]) for r in rows] == (demo.submit_time + demo.info.unix_start).tolist()
    assert sum(r["run_time"] == "" for r in rows) == int(np.isnan(demo.run_time).sum())


def test_a_wrong_ending_or_place_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ending"):
        convert(str(demo_path()), "out.xls")
    with pytest.raises(InputError, match="cannot be written"):
        convert(str(demo_path()), str(tmp_path / "absent" / "out.csv"))


def test_a_log_is_never_written_over_itself(tmp_path: Path) -> None:
    log = tmp_path / "own.swf.gz"
    log.write_bytes(Path(demo_path()).read_bytes())
    before = log.read_bytes()
    with pytest.raises(UsageError, match="is the log itself"):
        convert(str(log), str(log), "--first", "10")
    assert log.read_bytes() == before
