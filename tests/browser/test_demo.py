"""The demo's report, as `batchcast demo` leaves it, in a real Chromium."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "report"
    result = CliRunner().invoke(cli, ["demo", "-o", str(out)])
    assert result.exit_code == 0, result.output
    return out / "index.html"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_report_is_drawn_without_complaint(tab: Any, report: Path, width: int, dark: bool) -> None:
    visit = tab.open(report, width=width, dark=dark)
    assert visit.complaints == []
    assert visit.outside == []
    plots = tab.run("document.querySelectorAll('.plot[role=img]').length")
    drawn = "[...document.querySelectorAll('.js-plotly-plot')].filter(p => p.querySelector('.trace path')).length"
    assert tab.run(drawn) == plots >= 9
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("[...document.querySelectorAll('.plot')].every(p => p.getAttribute('aria-label'))")


def test_the_opening_is_what_one_sees_first(tab: Any, report: Path) -> None:
    tab.open(report, width=1280)
    first = tab.run("document.querySelector('section').innerText")
    assert "In short" in first
    assert "Validity." in first
    assert "synthetic" in first
