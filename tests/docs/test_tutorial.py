"""The tutorial's commands work, one after the other, in an empty folder."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.forked import batchcast

TUTORIAL = Path(__file__).parent.parent.parent / "docs" / "start" / "tutorial.md"


def commands(text: str) -> list[str]:
    """Indented lines after `$ `, with the lines that follow them up to the next command."""
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith("    $ "):
            found.append(line[6:])
        elif line.startswith("    ") and found:
            found[-1] += "\n" + textwrap.dedent(line[4:]) if not line.startswith("     ") else "\n" + line[4:]
    return found


@pytest.mark.long
def test_every_command_of_the_tutorial_works(tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    told = commands(TUTORIAL.read_text())
    assert len(told) > 8
    for command in told:
        env = {**os.environ, "PATH": path}
        if command.startswith("batchcast "):
            done = batchcast(*shlex.split(command)[1:], cwd=tmp_path, env=env)
        else:
            done = subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        if command.startswith(("batchcast", "python ")) and "convert" not in command and "copy" not in command:
            assert done.stdout.strip(), f"{command}: printed nothing"
    assert (tmp_path / "report" / "index.html").is_file()
