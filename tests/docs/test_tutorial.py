"""The tutorial's commands work, one after the other, in an empty folder, and print the lines that the page shows."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked import batchcast

TUTORIAL = Path(__file__).parent.parent.parent / "docs" / "start" / "tutorial.md"


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Each command (indented lines after `$ `) with the lines of output that the page shows below it."""
    found: list[tuple[str, list[str]]] = []
    in_output = False
    for line in text.splitlines():
        if line.startswith("```"):
            in_output = line == "```text"
        elif in_output:
            if line != "...":
                found[-1][1].append(words(line))
        elif line.startswith("    $ "):
            found.append((line[6:], []))
        elif line.startswith("    ") and found:
            command, shown = found[-1]
            found[-1] = (command + "\n" + line[4:], shown)
    return found


def words(line: str) -> str:
    """The line with single spaces: the width of a table's columns is not compared."""
    return " ".join(line.split())


@pytest.mark.long
def test_every_command_of_the_tutorial_works(tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    told = commands(TUTORIAL.read_text())
    assert len(told) > 8
    assert sum(len(shown) for _, shown in told) > 20
    for command, shown in told:
        env = {**os.environ, "PATH": path, "COLUMNS": "120"}
        if command.startswith("batchcast "):
            done = batchcast(*shlex.split(command)[1:], cwd=tmp_path, env=env)
        else:
            done = subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        if command.startswith(("batchcast", "python ")) and "convert" not in command and "copy" not in command:
            assert done.stdout.strip(), f"{command}: printed nothing"
        printed = [words(line) for line in done.stdout.splitlines()]
        for line in shown:
            assert line in printed, f"{command}: the page shows {line!r}, and the command printed\n{done.stdout}"
    assert (tmp_path / "report" / "index.html").is_file()
