"""Tests tab completion in a real bash: verbs, methods, policies, their parameters, and file names."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from batchcast.cli.completion import policies
from batchcast.simulation.policies import POLICIES, WORDS

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this machine")


@pytest.fixture(scope="module")
def script() -> str:
    done = subprocess.run([sys.executable, "-m", "batchcast", "completion", "bash"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which `batchcast` runs the code under test."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "batchcast"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m batchcast "$@"\n')
    command.chmod(0o755)
    return f"{tmp_path / 'bin'}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("batchcast simul", ["simulate"]),
        ("batchcast evaluate log.swf --polic", ["--policy"]),
        ("batchcast evaluate log.swf --policy easy-", ["easy-sjbf"]),
        ("batchcast evaluate log.swf --policy fcfs,easy:head", ["head_after="]),
        ("batchcast evaluate log.swf --policy=fcfs,cons", ["fcfs,conservative"]),
        ("batchcast runtime log.swf --predictor recent_m", ["recent_mean"]),
        ("batchcast runtime log.swf --predictor last_2:need=2,ro", ["2,round="]),
        ("batchcast wait log.swf --predictor forecast,sch", ["forecast,scheduler_replay"]),
        ("batchcast info 'my log.swf' --clean refer", ["reference"]),
        ("batchcast grid serve --heuristic by_", ["by_preference"]),
        ("batchcast info log.swf --map nr", ["nrel"]),
        ("batchcast runtime log.swf --by mo", ["month"]),
    ],
)
def test_values_are_offered_as_bash_puts_them_in(typed: str, offered: list[str], script: str, path: str) -> None:
    """Bash replaces the word behind the last `:` or `=`, so each candidate must begin there."""
    asked = f'{script}\ncompopt() {{ :; }}\nCOMP_LINE="{typed}" COMP_POINT={len(typed)}\n'
    asked += "_batchcast_completion batchcast; printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, env={**os.environ, "PATH": path})
    assert done.stdout.splitlines() == offered, done.stderr


@pytest.mark.parametrize(
    ("typed", "whole"),
    [
        ("batchcast info my\\ jo", "my\\ jobs\\ 2024.swf"),
        ("batchcast info 'my jo", "'my jobs 2024.swf'"),
        ("batchcast info 2024-0", "2024-01-01T00\\:00.swf"),
        ("batchcast evaluate my\\ jobs\\ 2024.swf -o fol", "folder/"),
    ],
)
def test_file_names_stay_whole(typed: str, whole: str, script: str, path: str, tmp_path: Path) -> None:
    (tmp_path / "my jobs 2024.swf").touch()
    (tmp_path / "2024-01-01T00:00.swf").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "completion").write_text(script)
    main, side = pty.openpty()
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"], stdin=side, stdout=side, stderr=side, cwd=tmp_path, close_fds=True,
        env={**os.environ, "PATH": path, "PS1": "> ", "TERM": "dumb", "INPUTRC": os.devnull},
    )  # fmt: skip
    os.close(side)
    try:
        os.write(main, b"bind 'set enable-bracketed-paste off'; source completion; echo rea''dy\n")
        _until(main, "ready")
        os.write(main, typed.encode() + b"\t")
        assert whole in _until(main, whole)
    finally:
        shell.kill()
        shell.wait()
        os.close(main)


def _until(terminal: int, expected: str) -> str:
    """Return the terminal's text until the expected words appear or no output has come for a long time."""
    shown = ""
    while expected not in shown and select.select([terminal], [], [], 30)[0]:
        shown += os.read(terminal, 4096).decode()
    return shown


@pytest.mark.parametrize(("typed", "accepted"), [("", POLICIES), ("easy:", [f"easy:{word}=" for word in WORDS])])
def test_every_policy_and_every_word_of_one_is_offered(typed: str, accepted: list[str]) -> None:
    offered = [item.value for item in policies(None, None, typed)]
    assert sorted(offered) == sorted(accepted)
