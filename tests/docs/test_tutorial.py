"""Tests that commands marked with `$` in the tutorial and guides run in an empty folder and print what the page
shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked import batchcast

DOCS = Path(__file__).parents[2] / "docs"
TUTORIAL = DOCS / "start" / "tutorial.md"
PAGES = [page for page in [TUTORIAL, *sorted((DOCS / "guides").glob("*.md"))] if "    $ " in page.read_text("utf-8")]


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Return each command (indented lines after `$ `) with the output lines that the page shows below it."""
    found: list[tuple[str, list[str]]] = []
    in_output, indent = False, "    "
    for line in text.splitlines():
        start = re.match(r"( {4,})\$ (.*)", line)
        if line.strip().startswith("```"):
            in_output = line.strip() == "```text" and bool(found)
        elif in_output:
            if line.strip() != "...":
                found[-1][1].append(words(line))
        elif start:
            indent = start[1]
            found.append((start[2], []))
        elif line.startswith(indent) and found:
            command, shown = found[-1]
            found[-1] = (command + "\n" + line.removeprefix(indent), shown)
    return found


def words(line: str) -> str:
    """Return the line with single spaces, because the width of a table's columns is not compared."""
    return " ".join(line.split())


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_page_works(page: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command, shown in commands(page.read_text(encoding="utf-8")):
        env = {**os.environ, "PATH": path, "COLUMNS": "120"}
        if command.startswith("batchcast "):
            done = batchcast(*shlex.split(command)[1:], cwd=tmp_path, env=env)
        else:
            done = subprocess.run(command, shell=True, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        printed = [words(line) for line in done.stdout.splitlines()]
        for line in shown:
            assert line in printed, f"{command}: the page shows {line!r}, and the command printed\n{done.stdout}"


def test_the_pages_show_what_their_commands_print() -> None:
    shown = {page.stem: sum(len(lines) for _, lines in commands(page.read_text(encoding="utf-8"))) for page in PAGES}
    assert min(shown.values()) > 0, shown
    assert shown["tutorial"] > 20
