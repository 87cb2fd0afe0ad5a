"""Runs the command lines of a guide one after the other in a lab; a line that does not work fails the test."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from follow import Follower

ROOT = Path(__file__).parents[3]
GUIDES = ROOT / "docs" / "guides"
PROGRAMS = r"batchcast|BATCHCAST_\w+=|sacctmgr|scontrol|/usr/bin/python3"


def lines_of(guide: str, of: str = PROGRAMS) -> list[str]:
    """Return the command lines of a guide in order: indented lines or lines in a fence of sh, without the output below
    them."""
    found, fence = [], ""
    for line in (GUIDES / guide).read_text(encoding="utf-8").splitlines():
        text = line.strip().removeprefix("$ ")
        if text.startswith("```"):
            fence = "" if fence else text[3:] or "output"
        elif (fence == "sh" or (not fence and line.startswith("    "))) and re.match(rf"({of})", text):
            found.append(text)
    return found


def commands_in(guide: str, heading: str) -> list[str]:
    """Return the `batchcast` commands below a heading of a page, in order."""
    text = (GUIDES / guide).read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"`(batchcast [^`]+)`", text)


def settings_of(guide: str) -> str:
    """Return the lines for batchcast.toml that a guide shows."""
    text = (GUIDES / guide).read_text(encoding="utf-8")
    blocks = re.findall(r"^( *)```toml\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return "".join(line.removeprefix(indent) for indent, block in blocks for line in block.splitlines(keepends=True))


class Shell:
    """A shell on the lab's machine that has the program `batchcast`. `words` replaces names in the guide by the lab's
    names."""

    def __init__(self, follower: Follower, place: Path, words: Mapping[str, str]) -> None:
        self.place, self.words = place, words
        program = place / "bin" / "batchcast"
        program.parent.mkdir(parents=True)
        program.write_text(
            f'#!/bin/sh\nexec {sys.executable} -c "from batchcast.cli.main import entry; entry()" "$@"\n'
        )
        program.chmod(0o755)
        self.env = {**follower.env, "PATH": f"{program.parent}:{follower.env['PATH']}"}
        self.done: list[str] = []

    def here(self, line: str) -> str:
        """Return a line of the guide with the lab's names."""
        for name, here in self.words.items():
            line = line.replace(name, here)
        return line

    def follow(self, lines: Sequence[str]) -> dict[str, str]:
        """Run lines in one shell, whose variables and folder last; return what each printed. Each must succeed."""
        said = self.run("set -e\n" + "\n".join(f"printf '\\n@{k}@\\n'\n{line}" for k, line in enumerate(lines)))
        parts = re.split(r"\n@\d+@\n", said)[1:]
        self.done += lines
        return dict(zip(lines, parts, strict=True))

    def run(self, line: str, codes: Sequence[int] = (0,), seconds: float = 300.0) -> str:
        """Run a line of the guide and return its output; fail if its exit code is not among `codes`."""
        self.done.append(line)
        line = self.here(line)
        done = subprocess.run(
            ["/bin/sh", "-c", line], env=self.env, cwd=self.place, input="y\ny\n", capture_output=True, text=True,
            timeout=seconds, check=False,
        )  # fmt: skip
        assert done.returncode in codes, f"{line}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr
