"""Tests that a report's folder is written completely or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
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


KILLED = """
import os, signal, sys
from pathlib import Path
from batchcast.trace.whole_file import folder, whole_file
with folder(sys.argv[1]) as place, whole_file(sys.argv[1] + ".csv") as file:
    (place / "index.html").write_text("half")
    file.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_goes_when_the_next_writes_there(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "rep")], check=False)
    assert len(list(tmp_path.glob(".rep*.part"))) == 2, "a folder and a file"
    write(tmp_path / "rep", "easy.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["rep"]


def test_what_another_machine_may_be_writing_stays_for_a_day(tmp_path: Path) -> None:
    old, young, linked = (tmp_path / f".{name}.0123abcd-7-{16 * '0'}.part" for name in ("rep", "x", "y"))
    for each in (old, young):
        (each / "schedules").mkdir(parents=True)
        (each / "schedules" / "a.csv").write_text("half")
    for path in (old / "schedules" / "a.csv", old / "schedules", old):
        os.utime(path, (1e9, 1e9))
    linked.symlink_to(tmp_path / "elsewhere")
    write(tmp_path / "rep", "easy.csv")
    assert not old.exists()
    assert linked.is_symlink()
    assert (young / "schedules" / "a.csv").exists()


def test_two_reports_at_once_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second writer finishes while the first moves its files: it waits, and then all files are the second
    writer's."""
    target = tmp_path / "rep"
    write(target, "easy.csv")
    moves, replace = [], Path.replace

    def report(text: str) -> None:
        with folder(target) as place:
            for name in ("a.html", "b.html", "c.html"):
                (place / name).write_text(text)

    def slow(self: Path, other: Path) -> Path:
        moves.append(self)
        if len(moves) == 2:
            second.start()
            other_waits.wait()
        return replace(self, other)

    other_waits, lock = threading.Event(), fcntl.flock

    def locked(number: int, how: int) -> None:
        if threading.current_thread() is second:
            with pytest.raises(BlockingIOError):
                lock(number, how | fcntl.LOCK_NB)
            other_waits.set()
        lock(number, how)

    second = threading.Thread(target=report, args=("second",))
    monkeypatch.setattr(Path, "replace", slow)
    monkeypatch.setattr(fcntl, "flock", locked)
    report("first")
    second.join()
    assert [(target / f"{name}.html").read_text() for name in "abc"] == ["second"] * 3


def test_two_first_reports_at_once_are_no_error(tmp_path: Path) -> None:
    with folder(tmp_path / "rep") as one, folder(tmp_path / "rep") as other:
        for place, text in ((one, "first"), (other, "second")):
            (place / "index.html").write_text(text)
    assert (tmp_path / "rep" / "index.html").read_text() == "first", "which ended last"
