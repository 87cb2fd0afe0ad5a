"""Tests the page of `batchcast compare` in a real Chromium, with curves that switch to their differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.trace import demo_path

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two reports of one log and the page that compares them."""
    place = tmp_path_factory.mktemp("compared")
    log = str(demo_path())
    for name, loop in (("a", "closed"), ("b", "open")):
        options = ["--predictor", "last_2", "--policy", "easy", "--loop", loop]
        done = CliRunner().invoke(cli, ["evaluate", log, "-o", str(place / name), *options])
        assert done.exit_code == 0, done.output
    page = place / "changes.html"
    done = CliRunner().invoke(cli, ["compare", str(place / "a"), str(place / "b"), "-o", str(page)])
    assert done.exit_code == 0, done.output
    return place


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_what_changed_is_drawn_without_complaint(tab: Any, pages: Path, width: int, dark: bool) -> None:
    visit = tab.open(pages / "changes.html", width=width, dark=dark)
    assert visit.complaints == visit.outside == tab.violations() == []
    assert tab.inked() == tab.run("document.querySelectorAll('.plot[role=img]').length") == 3
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert "Not like for like" in tab.run("document.querySelector('.cards').innerText")


def test_a_list_switches_between_curves_and_their_differences(tab: Any, pages: Path) -> None:
    tab.open(pages / "a" / "index.html", width=1280)
    state = """(async () => {
        const figure = [...document.querySelectorAll('figure')].find(f => f.innerText.startsWith('Waits under EASY'));
        const list = figure.querySelector('select'), chart = () => figure.querySelector('.plot').chart, seen = {};
        for (const option of [...list.options]) {
            list.value = option.value; list.dispatchEvent(new Event('change', {bubbles: true})); await window.drawn;
            seen[option.value] = [chart().shown.map(t => t.name), chart().plot.scales.y.min,
                figure.querySelector('.title.y').textContent];
        }
        return seen; })()"""
    seen = tab.run(state)
    names, low, title = seen["the curves"]
    assert names == ["users' limits", "last_2", "perfect knowledge"]
    assert low == 0
    assert title == "share of jobs"
    names, low, title = seen["minus users' limits"]
    assert names == ["last_2", "perfect knowledge"]
    assert low < 0
    assert title == "share of jobs, minus users' limits"
