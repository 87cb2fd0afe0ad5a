"""Pages that a reader finishes: the answer first, a guide of one task, a short README; and what `make lint` finds."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from tools.prose import ROOT, paragraphs, private, sentences, too_long, words

from batchcast.cli import main

PAGES = sorted((ROOT / "docs").rglob("*.md"))
MOST_WORDS = 900
SHARED = ("--help", "--version")


def shown(page: Path) -> str:
    """The text of a page as the site shows it, with the file that it includes."""
    return re.sub(
        r'^--8<-- "([^":]+)(?::\d+)?"$',
        lambda name: (ROOT / name[1]).read_text(encoding="utf-8"),
        page.read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )


def head(text: str) -> str:
    """The first thing below the title, and nothing where that is a table, a picture or a command."""
    below = re.sub(r"\A(\s*#+ .*\n)+\s*?\n?", "", re.sub(r"\n\s*\n(?=#)", "\n", text))
    first = re.split(r"\n\s*\n", below.lstrip("\n"), maxsplit=1)[0]
    found = list(paragraphs(first))
    return found[0].text if found and found[0].line == 1 else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_a_page_begins_with_its_answer(page: Path) -> None:
    answer = head(shown(page))
    assert 0 < words(answer) <= 35, f"{words(answer)} words before the first empty line: {answer!r}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "guides").glob("*.md")), ids=lambda page: page.stem)
def test_a_guide_is_short(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    count = len(text.split())
    assert count <= MOST_WORDS, f"{count} words: what was measured belongs into docs/evidence"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_only_running_text_is_counted() -> None:
    long = " ".join(["word"] * 36)
    text = f"# {long}\n\n    {long}\n\n| {long} |\n\n```\n{long}\n```\n\n- short\n  one.\n\n{long}.\nShort."
    assert [line for line, _ in too_long(text)] == [14]
    assert [paragraph.text for paragraph in paragraphs("- a\n  b\n- `c d`\n\ne [f g](h)")] == ["a b", "CODE", "e f g"]
    assert sentences("It took 1.5 s. Then `it` ended.") == ["It took 1.5 s.", "Then `it` ended."]


def test_a_word_of_our_own_is_seen_by_its_sense() -> None:
    assert [word for _, word in private("The door is told. Two methods are told apart. What you ask for.")] == [
        "door",
        "told",
    ]


def test_a_page_without_an_answer_is_seen() -> None:
    assert head("# A title\n\n    a command\n\nText.") == ""
    assert head("# A title\n\nThe answer\nin two lines.\n\nMore.") == "The answer in two lines."


def unknown_options(text: str) -> list[str]:
    """Options of `batchcast VERB ...` in a page that the verb does not have by this name today."""
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
