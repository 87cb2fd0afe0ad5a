"""Tests that the docs name options of commands that exist today, and that their tables are complete."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from batchcast.cli import main

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
SHARED = ("--help", "--version")


def unknown_options(text: str) -> list[str]:
    """Return the options of `batchcast VERB ...` on a page that the verb does not have today."""
    found = []
    for match in re.finditer(r"batchcast ((?:[a-z-]+ ?)+)([^`\n|#]*)", text):
        verb, context = main.cli, click.Context(main.cli, info_name="batchcast")
        names = set(SHARED)
        for word in match[1].split():
            inner = verb.get_command(context, word) if isinstance(verb, click.Group) else None
            if inner is None:
                break
            verb, context = inner, click.Context(inner, parent=context, info_name=word)
        if verb is main.cli:
            continue
        inside = (
            [verb.get_command(context, name) for name in verb.list_commands(context)]
            if isinstance(verb, click.Group)
            else []
        )
        for each in [verb, *inside]:
            names |= {name for option in each.get_params(context) for name in [*option.opts, *option.secondary_opts]}
        found += [word for word in re.findall(r"(?<!\S)\[?(--[a-z][a-z-]*)", match[2]) if word not in names]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_a_page_names_options_as_they_are_called_today(page: Path) -> None:
    assert not unknown_options(page.read_text(encoding="utf-8"))


def test_an_older_name_is_seen() -> None:
    page = "`batchcast compare a b [--page c.html]`, `batchcast sweep s.toml --on slurm`, `batchcast info LOG --json`"
    assert unknown_options(page) == ["--page", "--on"]


def cut_tables(text: str) -> list[str]:
    """Return table rows that an empty line separates from their table, so that a browser shows them as plain text."""
    lines = re.sub(r"```.*?```", "", text, flags=re.DOTALL).split("\n")
    starts = [n for n, line in enumerate(lines) if re.fullmatch(r"\s*\|[-:| ]+\|", line)]
    whole: set[int] = set()
    for start in starts:
        end = start
        while end < len(lines) and lines[end].lstrip().startswith("|"):
            end += 1
        whole.update(range(start - 1, end))
    return [line for n, line in enumerate(lines) if line.lstrip().startswith("|") and n not in whole]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_no_empty_line_cuts_a_table(page: Path) -> None:
    assert not cut_tables(page.read_text(encoding="utf-8"))


def test_a_cut_table_is_seen() -> None:
    assert cut_tables("| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n\ntext") == ["| 3 | 4 |"]
    assert cut_tables("| a |\n|---|\n\n| 1 |\n") == ["| 1 |"]
