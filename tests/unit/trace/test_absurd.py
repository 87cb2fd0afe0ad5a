"""Tests values that no machine can have recorded: they affect no mean or axis, and are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchcast.errors import InputError
from batchcast.trace import read_trace

GOOD = [f"{i} {10 * i} 5 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1" for i in range(1, 21)]


def _log(tmp_path: Path, *odd: str) -> Path:
    path = tmp_path / "log.swf"
    path.write_text("\n".join([*GOOD, *odd]) + "\n")
    return path


def test_a_run_of_a_billion_years_is_unknown_and_said(tmp_path: Path) -> None:
    trace = read_trace(_log(tmp_path, "21 300 5 1e18 4 -1 -1 4 1e300 -1 1 7 2 -1 1 -1 -1 -1"))
    assert len(trace) == 21
    assert trace.run_time[:20].tolist() == [60.0] * 20
    assert str(trace.run_time[20]) == "nan"
    assert str(trace.req_time[20]) == "nan"
    notes = " ".join(trace.info.notes)
    assert "1 values of run_time: more than 100 years" in notes
    assert "job 21: 1e+18" in notes


@pytest.mark.parametrize("submit", ["1e15", "99999999999"])
def test_a_submission_in_another_age_is_left_out_and_counted(tmp_path: Path, submit: str) -> None:
    trace = read_trace(_log(tmp_path, f"21 {submit} 5 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1"))
    assert len(trace) == 20
    assert trace.info.dropped["submitted a century apart from the other jobs"] == 1


def test_strict_stops_at_the_first(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="more than 100 years"):
        read_trace(_log(tmp_path, "21 300 5 1e18 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1"), strict=True)
    with pytest.raises(InputError, match="job 21"):
        read_trace(_log(tmp_path, "21 1e15 5 60 4 -1 -1 4 120 -1 1 7 2 -1 1 -1 -1 -1"), strict=True)
