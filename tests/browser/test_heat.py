"""Tests heat maps and the table of unused core-hours by group in a real Chromium, on the demo's report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("heat") / "report"
    result = CliRunner().invoke(cli, ["demo", "-o", str(out)])
    assert result.exit_code == 0, result.output
    return out / "index.html"


HEATS = "[...document.querySelectorAll('.plot')].filter(p => p.chart.shown[0].type === 'heat')"
READ = f"""(() => {HEATS}.map(place => {{
  const {{trace, places}} = place.chart.hits[0], over = place.chart.plot.over, edge = over.getBoundingClientRect();
  const k = Math.floor(places.length / 2), [x, y, wide, high] = places[k];
  const [left, top] = [edge.left + x + wide / 2, edge.top + y + high / 2];
  over.dispatchEvent(new PointerEvent('pointermove', {{pointerType: 'mouse', clientX: left, clientY: top}}));
  const said = over.querySelector('.tip').innerText.trim();
  over.dispatchEvent(new PointerEvent('pointerleave', {{pointerType: 'mouse'}}));
  const titles = [...place.querySelectorAll('.title')].map(one => one.textContent);
  return [said, `${{titles[0]}} ${{trace.y[k]}}, ${{titles[1]}} ${{trace.x[k]}}: ${{trace.customdata[k]}}`];
}}))()"""
COLOURS = f"""(() => {HEATS}.map(place => {{
  const {{ctx}} = place.chart.plot, {{trace, places}} = place.chart.hits[0], unit = uPlot.pxRatio;
  return places.map(([x, y], k) => {{
    const [r, g, b] = ctx.getImageData((x + 4) * unit, (y + 4) * unit, 1, 1).data;
    const seen = '#' + [r, g, b].map(v => v.toString(16).padStart(2, '0')).join('');
    return [seen, place.chart.theme.colours[trace.shade[k]]];
  }}).filter(([seen, wanted]) => seen !== wanted).length;
}}))()"""


TAP = f"""(() => {{ const {{hits: [{{places}}], plot}} = {HEATS}[0].chart, [x, y, wide, high] = places[0];
  plot.over.scrollIntoView({{behavior: 'instant', block: 'center'}});
  const edge = plot.over.getBoundingClientRect();
  return {{x: edge.left + x + wide / 2, y: edge.top + y + high / 2}}; }})()"""


def test_a_tap_reads_a_cell_and_two_complain_of_nothing(tab: Any, report: Path) -> None:
    visit = tab.open(report, width=390)
    tab.call("Emulation.setTouchEmulationEnabled", enabled=True)
    at = tab.run(TAP)
    for _ in range(2):
        tab.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[at])
        tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        told = tab.run(f"{HEATS}[0].querySelector('.tip:not([hidden])').innerText")
        assert told.endswith(tab.run(f"{HEATS}[0].chart.hits[0].trace.customdata[0]"))
    assert visit.complaints == []


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)])
def test_each_cell_is_drawn_in_its_shade_and_reads_its_value(tab: Any, report: Path, width: int, dark: bool) -> None:
    tab.open(report, width=width, dark=dark)
    assert tab.run(COLOURS) == [0, 0, 0, 0]
    read = tab.run(READ)
    assert len(read) == 4
    for said, expected in read:
        assert said == expected


def test_the_legend_has_numbers_and_the_table_every_value(tab: Any, report: Path) -> None:
    tab.open(report, width=390)
    found = tab.run(f"""{HEATS}.map(place => {{
        const figure = place.closest('figure'), details = figure.querySelector('details.more');
        details.open = true;
        const text = details.innerText.replaceAll('\\u00a0', ' ');
        const missing = place.chart.hits[0].trace.customdata.filter(words => !text.includes(words));
        return [figure.querySelector('.legend').innerText, missing.length]; }})""")
    assert all(any(sign.isdigit() for sign in legend) for legend, _ in found)
    assert [missing for _, missing in found] == [0, 0, 0, 0]
    assert tab.run("document.documentElement.scrollWidth") <= 390
    assert tab.violations() == []


def test_the_bars_show_the_grouping_that_is_picked_and_its_table_can_be_sorted(tab: Any, report: Path) -> None:
    tab.open(report, width=1280)
    tab.run("window.list = [...document.querySelectorAll('.pick select')].find(s => s.options[0].text === 'by user')")
    pick = """(async () => { list.value = 'by queue'; list.dispatchEvent(new Event('change', {bubbles: true}));
        await window.drawn;
        return list.closest('figure').querySelector('.plot').chart.shown.map(t => t.meta.variant); })()"""
    assert set(tab.run(pick)) == {"by queue"}
    sort = """(() => { const table = list.closest('section').querySelector('table');
        const head = [...table.tHead.rows[0].cells].find(c => c.innerText.startsWith('jobs'));
        head.querySelector('button').click();
        return [...table.tBodies[0].rows].map(r => +r.cells[head.cellIndex].dataset.value); })()"""
    jobs = tab.run(sort)
    assert jobs == sorted(jobs, reverse=True)
    assert len(jobs) == 11


def test_a_heat_map_leaves_with_its_forecast(tab: Any, report: Path) -> None:
    tab.open(report, width=1280)
    drawn = f"{HEATS}.filter(p => !p.closest('figure').hidden && p.chart.layout.scale === 'diverging').length"
    assert tab.run(drawn) == 1
    name = tab.run(f"{HEATS}.find(p => p.chart.layout.scale === 'diverging').chart.shown[0].meta.predictor")
    tab.run(f"""(async () => {{ document.querySelector('.choices input[data-predictor="{name}"]').click();
        await window.drawn; }})()""")
    assert tab.run(drawn) == 0
