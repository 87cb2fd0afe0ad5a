"""Tests joining a job log with its directories: missing, changed or unreadable directories are counted, and all valid
ones are read."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest

from batchcast.errors import NoAnswer
from batchcast.inputs import collect as module
from batchcast.inputs.collect import collect, locate
from batchcast.table import LogInfo, Trace
from batchcast.trace import read_parquet, write_parquet

START = 1_600_000_000.0


def log(*work_dirs):
    n = len(work_dirs)
    columns = {"submit_time": np.arange(n) * 100.0, "wait_time": np.zeros(n), "run_time": np.full(n, 50.0),
               "job_id": np.arange(1, n + 1), "req_procs": np.full(n, 8.0), "work_dir": list(work_dirs)}  # fmt: skip
    return Trace.from_arrays(columns, LogInfo(unix_start=START))


@pytest.fixture
def tree(tmp_path, working_directory):
    """Three directories written before the log began: a and b are complete, c has a broken INCAR."""
    for name, encut in (("ada/a", 300), ("ada/b", 500), ("bob/c", "much")):
        here = working_directory(name, INCAR=f"ENCUT = {encut}\n")
        for file in here.iterdir():
            os.utime(file, (START - 1000, START - 1000))
    return tmp_path


def test_features_reach_the_jobs_and_nothing_else_is_kept(tree):
    done = collect(log("/ada/a", "/ada/b", "/ada/a", "/gone", "/bob/c", "/bob", None), tree)
    jobs = list(done.trace.requests())
    assert [job.extra["encut"] for job in jobs[:3]] == [300.0, 500.0, 300.0]
    assert jobs[0].extra["prec"] == "normal"
    assert [job.extra["input_files"] for job in jobs] == [
        "read", "read", "read", "vanished", "unreadable", "no inputs", "no directory"]  # fmt: skip
    assert np.isnan(jobs[3].extra["encut"])
    assert jobs[3].extra["prec"] is None
    assert done.jobs == {"read": 3, "vanished": 1, "no inputs": 1, "unreadable": 1, "no directory": 1}
    assert done.directories == {"read": 2, "vanished": 1, "no inputs": 1, "unreadable": 1}
    assert done.problems == [f"{tree}/bob/c/INCAR:1: ENCUT cannot be read: 'much' (accepted: a number such as 400, "
                             "1E-5 or 1.D-5)"]  # fmt: skip


@pytest.mark.parametrize("name", ["INCAR", "KPOINTS", "POTCAR"])
def test_what_another_user_put_in_the_place_of_a_file_is_not_waited_for(tree, name):
    """The directory contains a pipe without a writer and an endless device, because its owner controls its content."""
    for kind in ("pipe", "device"):
        place = tree / "ada/a" / name
        place.unlink(missing_ok=True)
        os.mkfifo(place) if kind == "pipe" else place.symlink_to("/dev/zero")
        done = collect(log("/ada/a", "/bob/b"), root=tree)
        assert [kind in problem for problem in done.problems] == [True]


def test_each_directory_is_visited_once(tree, monkeypatch):
    visits = []
    real = module.visit
    monkeypatch.setattr(module, "visit", lambda *given: visits.append(given[0]) or real(*given))
    collect(log("/ada/a", "/ada/b", "/ada/a", "/ada/a"), tree)
    assert visits == ["/ada/a", "/ada/b"]


def test_inputs_written_after_submission_are_left_out(tree):
    os.utime(tree / "ada/a/INCAR", (START + 150, START + 150))
    trace = log("/ada/a", "/ada/b", "/ada/a")  # submitted at 0, 100 and 200 s
    done = collect(trace, tree)
    assert done.trace.nominal("input_files").decode() == ["changed", "read", "read"]
    kept = collect(trace, tree, changed="keep")
    assert kept.jobs == {"read": 3}
    assert kept.notes == ["1 jobs keep features of inputs written after their submission"]


def test_a_copy_of_a_tree_says_nothing_by_its_times(tree):
    for file in [*(tree / "ada/a").iterdir(), *(tree / "ada/b").iterdir()]:
        os.utime(file, (START + 1e6, START + 1e6))
    trace = log("/ada/a", "/ada/b")
    done = collect(trace, tree)
    assert done.jobs == {"read": 2}
    assert "copy that lost its file times" in done.notes[0]
    assert collect(trace, tree, changed="drop").jobs == {"changed": 2}


def test_an_earlier_collect_keeps_what_has_gone_since(tree):
    trace = log("/ada/a", "/ada/b")
    first = collect(trace, tree)
    write_parquet(first.trace, tree / "jobs.parquet")
    shutil.rmtree(tree / "ada/a")
    again = collect(log("/ada/a", "/ada/b", "/ada/a"), tree, previous=read_parquet(tree / "jobs.parquet"))
    assert again.trace.nominal("input_files").decode() == ["read", "read", "vanished"]
    assert again.trace.number("encut")[:2].tolist() == [300.0, 500.0]
    assert again.notes == ["1 jobs keep the features of an earlier collect"]


def test_a_run_cut_short_goes_on(tree, monkeypatch):
    journal = tree / "journal"
    trace = log("/ada/a", "/ada/b", "/bob/c")
    real, calls = module.visit, []

    def visit(*given):
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(given[0])
        return real(*given)

    monkeypatch.setattr(module, "visit", visit)
    with pytest.raises(KeyboardInterrupt):
        collect(trace, tree, journal=journal)
    journal.write_text(journal.read_text() + '["/bob/c", "re')  # and a power failure cut the last line
    monkeypatch.setattr(module, "visit", lambda *given: calls.append(given[0]) or real(*given))
    done = collect(trace, tree, journal=journal)
    assert calls == ["/ada/a", "/ada/b", "/bob/c"]
    assert done.trace.nominal("input_files").decode() == ["read", "read", "unreadable"]
    assert collect(trace, tree / "elsewhere", journal=journal).jobs == {"vanished": 3}
    assert json.loads(journal.read_text().splitlines()[0]) == [f"{tree}/elsewhere", "", ""]


def test_a_log_without_directories_is_refused_with_the_way_out(tree):
    with pytest.raises(NoAnswer, match=r"no job names its working directory(.|\n)*WorkDir"):
        collect(Trace.from_arrays({"submit_time": [0.0]}), tree)


@pytest.mark.parametrize(
    ("work_dir", "strip", "expected"),
    [
        ("/scratch/a", "", "/mnt/scratch/a"),
        ("/scratch/a", "/scratch", "/mnt/a"),
        ("/mnt/a/", "", "/mnt/a"),
        ("relative/a", "", "/mnt/relative/a"),
        ("/../etc", "", None),
        ("../../etc", "", None),
        ("/scratch/../../etc", "/scratch", None),
    ],
)
def test_no_name_leads_out_of_the_root(work_dir, strip, expected):
    assert locate(work_dir, "/mnt", strip) == expected
