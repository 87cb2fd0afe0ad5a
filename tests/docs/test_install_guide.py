"""Tests that all guides enable the systemd units with the commands that `batchcast install` prints."""

from __future__ import annotations

import re
from pathlib import Path

from batchcast.cli.site.setup import commands_after_install

DOCS = Path(__file__).parents[2] / "docs"


def test_the_guide_shows_the_lines_that_install_prints() -> None:
    guide = [line.strip() for line in (DOCS / "guides" / "install.md").read_text(encoding="utf-8").splitlines()]
    for line in commands_after_install(Path("units")):
        assert line in guide


def test_every_page_enables_the_same_units() -> None:
    (printed,) = re.findall(r"systemctl enable --now (.*)", "\n".join(commands_after_install(Path("units"))))
    shown = {
        path.name: line
        for path in [*DOCS.glob("guides/*.md"), *DOCS.glob("start/*.md")]
        for line in re.findall(r"systemctl enable --now (batchcast-collect[^`\n]*)", path.read_text(encoding="utf-8"))
    }
    assert len(shown) >= 2
    assert set(shown.values()) == {printed}, shown
