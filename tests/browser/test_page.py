"""Pages in a real Chromium: nothing complains, nothing leaves the machine, everything is drawn, at any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batchcast.report import Callout, Section, Table, TableColumn, figures, page

pytestmark = pytest.mark.browser
NASTY = "<b>bob</b></script><script>console.error('ran')</script>"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    seconds = np.random.default_rng(7).lognormal(8, 2, 3000)
    blocks = [
        Callout("Careful.", "warning", "Validity."),
        f"Try --predictor recent_mean:fields={'+'.join(['partition_id'] * 9)}.",
        figures.cdf("Times", {"actual": seconds, NASTY: seconds * 3}, x="time"),
        figures.lines("Arrivals", {"jobs": (["2004-01-01", "2004-01-08"], [3, 5])}, x="week", y="jobs"),
        figures.bars("Waits", ["EASY", NASTY], {"last_2": [3600.0, 60.0]}, value="mean wait", seconds=True),
        figures.scatter("Points", {NASTY: ([1.0], [2.0])}, x="x", y="y", alt="a point", labels={NASTY: [NASTY]}),
        Table(NASTY, [TableColumn("a", "a")], [{"a": NASTY * 3}]),
    ]
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(page("A log", [Section("All", blocks)], {"log": NASTY}), encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_page_is_drawn_without_complaint(tab: Any, written: Path, width: int, dark: bool) -> None:
    visit = tab.open(written, width=width, dark=dark)
    assert visit.complaints == []
    assert visit.outside == []
    drawn = "[...document.querySelectorAll('.js-plotly-plot')].filter(p => p.querySelector('.trace path')).length"
    assert tab.run(drawn) == 4
    assert tab.run("document.documentElement.scrollWidth") <= width
    background = tab.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background.removeprefix("rgb(").removesuffix(")").split(","))) < 300) == dark


def test_names_show_as_they_are(tab: Any, written: Path) -> None:
    tab.open(written, width=1280)
    assert NASTY in tab.run("document.querySelector('dl.provenance dd').textContent")
    assert "<b>bob</b>" in tab.run("document.querySelector('.legend').textContent")


def test_a_legend_entry_hides_its_curve(tab: Any, written: Path) -> None:
    tab.open(written, width=1280)
    hide = """new Promise(done => { const plot = document.getElementById('figure-0');
        plot.on('plotly_restyle', () => done(plot._fullData[0].visible));
        const at = plot.querySelector('.legendtoggle').getBoundingClientRect();
        for (const kind of ['mousedown', 'mouseup']) plot.querySelector('.legendtoggle').dispatchEvent(
            new MouseEvent(kind, {bubbles: true, clientX: at.x + 5, clientY: at.y + 5})); })"""
    assert tab.run(hide) == "legendonly"


def test_hover_tells_the_value(tab: Any, written: Path) -> None:
    tab.open(written, width=1280)
    at = tab.run(
        """(() => { const plot = document.getElementById('figure-2'); plot.scrollIntoView({behavior: 'instant'});
        window.seen = new Promise(done => plot.on('plotly_hover', e => done(e.points[0].customdata)));
        const bar = plot.querySelector('.bars .point path').getBoundingClientRect();
        return {x: bar.x + bar.width / 2, y: bar.y + bar.height / 2}; })()"""
    )
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=at["x"], y=at["y"])
    assert tab.run("window.seen") == "1 h"
