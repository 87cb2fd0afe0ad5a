"""Tests that no terminal encoding makes an answer fail, and that no library warning shows a path of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked import batchcast

NAME = "Zoë…日"


def answer(arguments: list[str], encoding: str) -> subprocess.CompletedProcess[str]:
    return batchcast(*arguments, env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    rows = [f"{k},{k * 10},0,50,60,1,{NAME}" for k in range(1, 4)]
    path.write_text("\n".join(["job_id,submit_time,wait_time,run_time,req_time,req_procs,user_id", *rows]))
    return path


@pytest.mark.parametrize(
    ("encoding", "seen"), [("ascii", "Zo\\xeb...\\u65e5"), ("latin-1", "Zoë...\\u65e5"), ("utf-8", NAME)]
)
def test_tables_are_printed_in_any_encoding(log: Path, encoding: str, seen: str) -> None:
    done = answer(["runtime", str(log), "--by", "user"], encoding)
    assert done.returncode == 0
    assert seen in done.stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_the_same_in_any_encoding(log: Path, encoding: str) -> None:
    done = answer(["runtime", str(log), "--by", "user", "--json"], encoding)
    assert json.loads(done.stdout)["results"][-1]["group"] == NAME


def test_a_log_named_in_no_encoding_is_read(log: Path, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"l\xff.csv")
    odd.write_bytes(log.read_bytes())
    done = answer(["info", str(odd), "--json"], "utf-8")
    assert done.returncode == 0
    assert json.loads(done.stdout)["log"]["jobs"] == 3


@pytest.mark.long
def test_no_library_warning_reaches_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("job_id,submit_time,wait_time,run_time,req_time,req_procs\n1,0,0,0,60,1\n")
    # each verb runs in a new interpreter, because libraries warn when they are imported
    for verb in ("info", "runtime", "wait"):
        done = subprocess.run([sys.executable, "-m", "batchcast", verb, str(path)], capture_output=True)
        assert b"Warning" not in done.stderr
        assert b"site-packages" not in done.stderr
