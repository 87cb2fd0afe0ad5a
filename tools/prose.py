"""Sentences that are too long, and words that only this project uses, in the docs: `python -m tools.prose`.

It prints them and fails where there are more than `MOST_LONG` and `MOST_WORDS`. These two counts may only fall: whoever
mends a sentence lowers them. `--list` prints every line in any case.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
MADE = ("commands.md", "methods.md", "python.md", "sources.md", "changes.md")
"""Pages under docs that a program writes, or that show a file of which this is no page."""
LONGEST = 35
MOST_LONG, MOST_WORDS = 0, 0
PRIVATE = re.compile(
    r"\b(asks?|asked|asking|believ\w+|doors?|lanes?|kept|hidden|told|looks?|ways?|promis\w+|lessons?)\b", re.IGNORECASE
)
ALLOWED = re.compile(
    r"""can\ i\ believe\ it|(two|five|other|these|both|either|same|this)\ ways?|(on|in|by)\ the\ way|way\ (in|out|round)
    |(told|tell|tells)\ apart|hidden\ by\ type|(ask|asks|asked|asking)\ (for|about|of)|you\ ask|users?\ ask(s|ed)?
    |who\ asks|looks?\ (at|for|up|like)|(is|are|was|were|be|been)\ kept""",
    re.IGNORECASE | re.VERBOSE,
)
"""What these words mean to everybody: a user asks for a limit, a file is kept, two methods are told apart."""
BREAK = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*`\[]*[A-Z`0-9])")
BULLET = re.compile(r"^\s*([-*]|\d+\.)\s+")


class Paragraph(NamedTuple):
    """Running text of a page, in one line without marks, and the line on which it begins."""

    line: int
    text: str


def pages(root: Path = ROOT) -> list[Path]:
    """Every page that people write: those under docs, and README, CONTRIBUTING and ARCHITECTURE."""
    written = [page for page in (root / "docs").rglob("*.md") if page.name not in MADE]
    shown = {f"docs/{name}.md" for name in ("architecture", "contributing")}
    pages = [page for page in written if str(page.relative_to(root)) not in shown]
    return sorted(pages) + [root / f"{name}.md" for name in ("README", "CONTRIBUTING", "ARCHITECTURE")]


def paragraphs(text: str) -> Iterator[Paragraph]:
    """Paragraphs and items of lists, in order: no headings, tables, pictures, code or commands."""
    begun, held, fenced = 0, list[str](), False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        code = fence or fenced or (not held and line.startswith("    "))
        prose = not code and line.strip() and not re.match(r"#|\s*\||[!<]|--8<--", line)
        if held and not (prose and not BULLET.match(line)):
            yield Paragraph(begun, plain(" ".join(held)))
            held = []
        if prose:
            begun = begun if held else number
            held.append(line)


def plain(text: str) -> str:
    """Text without marks: a link is its words, code is one word."""
    text = re.sub(r"`[^`]*`", "CODE", BULLET.sub("", text))
    return re.sub(r"\s+", " ", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)).replace("**", "").strip()


def words(sentence: str) -> int:
    """How many words it has; figures count as words, signs do not."""
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph."""
    return [part for part in BREAK.split(text) if part.strip()]


def too_long(text: str) -> Iterator[tuple[int, str]]:
    """Line of the paragraph, and the sentence, for every sentence of more than `LONGEST` words."""
    for paragraph in paragraphs(text):
        for sentence in sentences(paragraph.text):
            if words(sentence) > LONGEST:
                yield paragraph.line, sentence


def private(text: str) -> Iterator[tuple[int, str]]:
    """Line of the paragraph, and the word, for every word of the old private language."""
    for paragraph in paragraphs(text):
        for found in PRIVATE.findall(ALLOWED.sub(" ", paragraph.text)):
            yield paragraph.line, found.lower()


def main(arguments: list[str]) -> int:
    """Print what is found, and 1 where it is more than it was."""
    long, private_words = list[str](), list[str]()
    for page in pages():
        name, text = page.relative_to(ROOT), page.read_text(encoding="utf-8")
        long += [f"{name}:{line}: {words(said)} words: {said[:70]}..." for line, said in too_long(text)]
        private_words += [f"{name}:{line}: {word!r} is a word of our own" for line, word in private(text)]
    failed = False
    for found, most, what in (
        (long, MOST_LONG, f"sentences of more than {LONGEST} words"),
        (private_words, MOST_WORDS, "words of our own"),
    ):
        if len(found) > most or "--list" in arguments:
            print("\n".join(found))
        if len(found) > most:
            print(f"{len(found)} {what}, {most} at most: shorten those that are new (tools/prose.py)")
            failed = True
        elif len(found) < most:
            print(f"{len(found)} {what}: {most} can be lowered to that in tools/prose.py")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
