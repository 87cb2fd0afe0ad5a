"""Tests that the program prints the symptoms listed on the pages of troubleshooting and logs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "start" / "troubleshooting.md", ROOT / "docs" / "guides" / "logs.md"]
SYMPTOM = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
VARIABLE = re.compile(r"\.\.\.|: |\d[\d.%]*|\bmain\b|\bbatchcast\b(?! collect)")
STATE = re.compile(r"^(?:failed|warning) ")


def source_words() -> str:
    """All Python source as one line, with adjacent string literals joined."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))
    return re.sub(r'["\']\s*\n\s*f?["\']', "", text)


def fixed_words(symptom: str) -> list[str]:
    """Return the parts of a symptom without numbers, names and omissions, if they are long enough to be distinctive."""
    parts = [part.strip() for part in VARIABLE.split(STATE.sub("", symptom))]
    return [part for part in parts if len(part) >= 8]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_symptom_is_printed_by_the_program(page: Path) -> None:
    source = source_words()
    symptoms = SYMPTOM.findall(page.read_text(encoding="utf-8"))
    assert len(symptoms) >= 4
    assert not [one for one in symptoms if not any(part in source for part in fixed_words(one))]


def test_an_older_message_is_seen() -> None:
    assert fixed_words("failed store's disk: ... the collector cannot write")[-1] == "the collector cannot write"
    assert "the collector will never write" not in source_words()
