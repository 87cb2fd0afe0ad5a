"""Tests tables of the study verbs on a terminal: width, omitted columns and how to get them, readable titles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli

MACHINE = """[[nodes]]
names = "n[1-16]"
cpus = 16
[[partition]]
name = "main"
nodes = "n[1-16]"
default = true
"""
VERBS = {
    "runtime": ("--predictor", "requested,actual,recent_mean,last_2:need=2", "--by", "size"),
    "simulate": ("--policy", "easy,easy-sjbf", "--predictor", "requested,actual,last_2"),
    "limits": ("--by", "user"),
    "wait": ("--predictor", "recent_wait,recent_wait:k=9"),
    "whatif": ("--machine", "MACHINE", "--vary", "nodes=+50%"),
}


def log_text() -> str:
    """A log of 1,500 jobs of five users that run from seconds to hours and wait in a queue."""
    lines = ["; MaxProcs: 256", "; UnixStartTime: 0"]
    for k in range(1500):
        run, limit = 60 * (1 + (k * 37 + k // 7) % 240), 3600 * (1 + k % 8)
        wait = (k * 53 % 40) * 300
        size = 1 << (k * 11 % 6)
        lines.append(
            f"{k + 1} {k * 900} {wait} {min(run, limit)} {size} -1 -1 {size} {limit} -1 1 {k % 5} 1 {k % 9} 1 -1 -1 -1"
        )
    return "\n".join(lines) + "\n"


def said(verb: str, tmp_path: Path, *more: str) -> str:
    machine = tmp_path / "machine.toml"
    machine.write_text(MACHINE)
    log = tmp_path / "made.swf"
    log.write_text(log_text())
    words = [str(machine) if word == "MACHINE" else word for word in VERBS[verb]]
    done = CliRunner().invoke(cli, [verb, str(log), *words, *more])
    assert done.exit_code == 0, done.output
    return done.stdout


def tables(text: str) -> list[list[str]]:
    """Return the lines of each table, from the rule below its titles on."""
    lines = [line.rstrip() for line in text.splitlines()]
    rules = [k for k, line in enumerate(lines) if line.strip().startswith("──")]
    return [lines[k + 1 :][: (lines[k + 1 :] + [""]).index("")] for k in rules]


@pytest.mark.parametrize("verb", VERBS)
def test_an_answer_has_a_headline_narrow_tables_and_a_next_step(verb: str, tmp_path: Path) -> None:
    text = said(verb, tmp_path)
    found = tables(text)
    assert found
    for line in (line for table in found for line in table):
        assert len(line) <= 100, line
        assert len(re.split(r"\s{2,}", line.strip())) <= 8, line
    assert "Differences with 90 % intervals" not in text
    first, *_, following, last = text.rstrip().splitlines()
    assert re.search(r"\d", first), "the headline has a figure"
    assert len(first) <= 100
    assert following.startswith("Next: ")
    assert last == "--details for everything else."


@pytest.mark.parametrize("verb", VERBS)
def test_the_rest_is_printed_when_it_is_asked_for(verb: str, tmp_path: Path) -> None:
    short, long = said(verb, tmp_path), said(verb, tmp_path, "--details")
    assert "Differences with 90 % intervals" in long
    assert max(map(len, tables(long)[0])) > max(map(len, tables(short)[0]))
    assert "for everything else" not in long


def test_people_read_limits_and_perfect_knowledge(tmp_path: Path) -> None:
    for verb in ("runtime", "simulate"):
        text = said(verb, tmp_path, "--details")
        assert "users' limits" in text
        assert "perfect knowledge" in text
        assert not re.search(r"\brequested\b|\bactual\b|oracle", text), text


def test_times_are_said_as_people_say_them(tmp_path: Path) -> None:
    for verb in VERBS:
        assert not re.search(r"(?<!\d-\d\d )\b\d\d:\d\d:\d\d", said(verb, tmp_path, "--details")), verb
