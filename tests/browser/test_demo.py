"""Tests the report that `batchcast demo` writes, in a real Chromium."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli

pytestmark = [pytest.mark.browser, pytest.mark.long]


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
    assert tab.inked() == plots >= 9
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("[...document.querySelectorAll('.plot')].every(p => p.getAttribute('aria-label'))")


def test_the_whole_page_is_light(report: Path) -> None:
    assert report.stat().st_size < 800_000


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_axe_finds_nothing(tab: Any, report: Path, width: int, dark: bool) -> None:
    tab.open(report, width=width, dark=dark)
    assert tab.violations() == []


def test_the_opening_is_what_one_sees_first(tab: Any, report: Path) -> None:
    tab.open(report, width=1280)
    first = tab.run("document.querySelector('section').innerText")
    assert "In short" in first
    assert "would shorten the mean wait by" in first
    assert "Wait prediction coverage" in first
    assert "Next:" in first
    assert "synthetic" in first
    assert "synthetic" in tab.run("document.querySelector('h1').innerText")


def test_it_is_read_to_its_end(tab: Any, report: Path) -> None:
    tab.open(report, width=1280, height=800, unfold=False)
    assert tab.run("document.documentElement.scrollHeight") <= 8000
    drawn = "[...document.querySelectorAll('figure')].filter(f => !f.closest('details:not([open])'))"
    assert 3 <= tab.run(f"{drawn}.length") <= 14
    next_step = "document.querySelector('section .next').getBoundingClientRect().bottom"
    assert tab.run(next_step) <= 800, "headline, bars, tiles and next step are the first screen"
    assert tab.run("[...document.querySelectorAll('h2')].map(h => h.innerText)")[:2] == [
        "In short", "How much sooner would jobs start?",
    ]  # fmt: skip
    columns = tab.run("[...document.querySelectorAll('section > .scroll > table')].map(t => t.rows[0].cells.length)")
    assert max(columns) <= 8


def test_on_a_phone_no_label_of_the_bars_is_cut(tab: Any, report: Path) -> None:
    tab.open(report, width=390, height=800, unfold=False)
    cut = "[...document.querySelectorAll('.bars .label, .bars .text')].filter(e => e.scrollWidth > e.clientWidth + 1"
    assert tab.run(f"{cut} || e.getBoundingClientRect().right > 390).length") == 0
    assert tab.run("document.querySelectorAll('.bars li').length") >= 3


SEEN = """(() => ({
  rows: [...document.querySelectorAll('tr[data-policy]:not([hidden])')]
      .map(r => r.dataset.policy + ' ' + r.dataset.predictor),
  figures: [...document.querySelectorAll('figure:not([hidden]) h3')].map(h => h.textContent),
  names: [...new Set([...document.querySelectorAll('figure:not([hidden]) .plot')].flatMap(
      p => p.chart.shown.map(t => t.meta.predictor || '')))],
}))()"""
UNTICK = """(async () => {
  document.querySelector('.choices input[data-KIND="NAME"]').click();
  await window.drawn; })()"""


def test_an_unticked_forecast_and_policy_leave_the_page(tab: Any, report: Path) -> None:
    tab.open(report, width=1280)
    before = tab.run(SEEN)
    tab.run(UNTICK.replace("KIND", "predictor").replace("NAME", "kernel"))
    tab.run(UNTICK.replace("KIND", "policy").replace("NAME", "easy"))
    after = tab.run(SEEN)
    assert set(before["names"]) - set(after["names"]) == {"kernel"}
    kept = [row for row in before["rows"] if not row.startswith("easy ") and not row.endswith(" kernel")]
    assert after["rows"] == kept != before["rows"]
    assert set(before["figures"]) - set(after["figures"]) == {
        "Change in median wait with kernel under shortest first",
        "Waits under EASY", "Queue under EASY", "Utilization under EASY",
    }  # fmt: skip
    assert "(2 of 8 hidden)" in tab.run("document.querySelector('.choices').textContent")
    tab.run(UNTICK.replace("KIND", "policy").replace("NAME", "easy"))
    tab.run(UNTICK.replace("KIND", "predictor").replace("NAME", "kernel"))
    assert tab.run(SEEN) == before


def test_a_table_is_sorted_by_the_column_that_is_pressed(tab: Any, report: Path) -> None:
    tab.open(report, width=1280)
    press = """(() => {
        const table = [...document.querySelectorAll('table')].find(t => t.rows[0].innerText.includes('mean error'));
        const head = [...table.tHead.rows[0].cells].find(c => c.innerText === 'mean error');
        head.querySelector('button').click();
        const values = [...table.tBodies[0].rows].map(r => +r.cells[head.cellIndex].dataset.value);
        return [head.getAttribute('aria-sort'), values]; })()"""
    down, up = tab.run(press), tab.run(press)
    assert down == ["descending", sorted(down[1], reverse=True)]
    assert up == ["ascending", sorted(down[1])]
    assert len(set(up[1])) > 2


def test_on_paper_it_is_a_few_pages(tab: Any, report: Path) -> None:
    tab.open(report, width=1280)
    written = base64.b64decode(tab.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", written)) <= 8


def test_the_gantt_shows_the_schedule_that_is_picked(tab: Any, report: Path) -> None:
    tab.open(report, width=390)
    figure = "[...document.querySelectorAll('figure')].find(f => f.innerText.startsWith('A Gantt excerpt'))"
    bars = f"{figure}.querySelector('.plot').chart.hits.reduce((sum, hit) => sum + hit.places.length, 0)"
    assert 0 < tab.run(bars) <= 1000
    pick = """(async () => { const list = FIGURE.querySelector('.pick select'); list.selectedIndex = 1;
        list.dispatchEvent(new Event('change', {bubbles: true})); await window.drawn;
        return list.closest('figure').querySelector('.plot').chart.shown.map(t => t.meta.variant); })()"""
    assert set(tab.run(pick.replace("FIGURE", figure))) == {"EASY planned with kernel"}
    assert tab.run("document.documentElement.scrollWidth") <= 390
