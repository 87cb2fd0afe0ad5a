"""A report's folder is there whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from batchcast.errors import BatchcastError
from batchcast.trace.whole_file import folder


def write(target: Path, *schedules: str) -> None:
    with folder(target) as place:
        (place / "schedules").mkdir()
        for name in schedules:
            (place / "schedules" / name).write_text("x")
        rows = [{"schedule_file": f"schedules/{name}"} for name in schedules]
        (place / "result.json").write_text(json.dumps({"results": rows}))


def interrupted(target: Path, name: str) -> None:
    with folder(target) as place:
        (place / name).write_text("half")
        raise KeyboardInterrupt


def names(target: Path) -> set[str]:
    return {str(p.relative_to(target)) for p in target.rglob("*") if p.is_file()}


def test_an_interruption_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "report", "index.html")
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_keeps_the_earlier_report(tmp_path: Path) -> None:
    write(tmp_path / "report", "easy.csv")
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "report", "result.json")
    assert names(tmp_path / "report") == {"result.json", "schedules/easy.csv"}
    assert json.loads((tmp_path / "report" / "result.json").read_text())


def test_a_new_report_replaces_the_old_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "report", "easy.csv", "fcfs.csv")
    (tmp_path / "report" / "notes.txt").write_text("mine")
    (tmp_path / "report" / "schedules" / "mine.csv").write_text("mine")
    write(tmp_path / "report", "easy.csv")
    assert names(tmp_path / "report") == {"result.json", "schedules/easy.csv", "schedules/mine.csv", "notes.txt"}


def test_an_old_report_cannot_name_files_outside(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "precious.csv").write_text("mine")
    rows = [{"schedule_file": "../precious.csv"}, {"schedule_file": "schedules/../../precious.csv"}]
    (tmp_path / "report" / "result.json").write_text(json.dumps({"results": rows}))
    write(tmp_path / "report", "easy.csv")
    assert (tmp_path / "precious.csv").read_text() == "mine"


def test_a_file_in_the_way_is_told_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("a file")
    with pytest.raises(BatchcastError, match="is a file"), folder(tmp_path / "report"):
        pytest.fail("nothing may be computed")


def test_what_a_killed_report_left_goes_with_the_next_report_into_the_folder(tmp_path: Path) -> None:
    """Only folders of this target, in which nothing has changed for a day: a younger one may be written just now."""
    old, young, other = (
        tmp_path / f".{name}.{16 * digit}.part" for name, digit in (("rep", "0"), ("rep", "1"), ("x", "2"))
    )
    for each in (old, young, other):
        (each / "schedules").mkdir(parents=True)
        (each / "schedules" / "a.csv").write_text("half")
    for each in (old, other):
        for path in (each / "schedules" / "a.csv", each / "schedules", each):
            os.utime(path, (1e9, 1e9))
    (tmp_path / f".rep.{16 * '3'}.part").symlink_to(other)
    with folder(tmp_path / "rep") as part:
        (part / "index.html").write_text("whole")
    assert not old.exists()
    assert (young / "schedules" / "a.csv").exists()
    assert (other / "schedules" / "a.csv").exists()
