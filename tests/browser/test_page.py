"""Tests in a real Chromium that pages cause no error or outside request and draw every figure, at any window size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batchcast.report import Callout, Section, Table, TableColumn, figures, page

pytestmark = [pytest.mark.browser, pytest.mark.long]
NASTY = "<b>bob</b></script><script>console.error('ran')</script>"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    seconds = np.random.default_rng(7).lognormal(8, 2, 3000)
    blocks = [
        Callout("Careful.", "warning", "Validity."),
        f"Try --predictor recent_mean:fields={'+'.join(['partition_id'] * 9)}.",
        figures.cdf("Times", {"actual": seconds, NASTY: seconds * 3}, x="time"),
        figures.lines("Arrivals", {"jobs": (["2004-01-01", "2004-01-08"], [3, 5])}, x="week", y="jobs"),
        figures.bars("Waits", ["EASY", NASTY], {"last_2": [3600.0, 60.0]}, value="mean wait", kind="seconds"),
        figures.scatter("Points", {NASTY: ([1.0], [2.0])}, x="x", y="y", alt="a point"),
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
    assert tab.inked() == 4
    assert tab.run("document.documentElement.scrollWidth") <= width
    background = tab.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background.removeprefix("rgb(").removesuffix(")").split(","))) < 300) == dark


def test_names_show_as_they_are(tab: Any, written: Path) -> None:
    tab.open(written, width=1280)
    assert NASTY in tab.run("document.querySelector('dl.provenance dd').textContent")
    assert "<b>bob</b>" in tab.run("document.querySelector('.legend').textContent")


def test_a_legend_entry_hides_its_curve(tab: Any, written: Path) -> None:
    tab.open(written, width=1280)
    press = "document.querySelector('.legend button').click()"
    shown = "document.getElementById('figure-0').chart.shown.map(trace => trace.name)"
    pressed = "document.querySelector('.legend button').getAttribute('aria-pressed')"
    tab.run(press)
    assert (tab.run(shown), tab.run(pressed)) == ([NASTY], "false")
    tab.run(press)
    assert (tab.run(shown), tab.run(pressed)) == (["actual", NASTY], "true")


AT = """(() => { const {plot, hits} = document.getElementById('figure-K').chart;
    plot.root.scrollIntoView({behavior: 'instant'});
    const edge = plot.over.getBoundingClientRect(), [x, y, wide, high] = [...hits[0].places.at(-1), 0, 0];
    return {x: edge.x + Math.min(x + wide / 2, edge.width - 2), y: edge.y + y + high / 2}; })()"""
SCALE = "(() => { const {min, max} = document.getElementById('figure-K').chart.plot.scales.x; return [min, max]; })()"
TOLD = "document.querySelector('#figure-K .tip:not([hidden])').innerText"


@pytest.mark.parametrize(
    ("figure", "said"),
    [(1, ["2004-01-08", "jobs 5"]), (2, ["last_2 " + NASTY + ": 1 min"]), (3, [NASTY + " x 1", "y 2"])],
    ids=["line", "bar", "point"],
)
def test_hover_tells_the_value(tab: Any, written: Path, figure: int, said: list[str]) -> None:
    tab.open(written, width=1280)
    at = tab.run(AT.replace("K", str(figure)))
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=at["x"], y=at["y"])
    assert tab.run(TOLD.replace("K", str(figure))).splitlines() == said


@pytest.mark.parametrize("figure", [0, 1, 2, 3], ids=["steps", "line", "bar", "point"])
def test_a_tap_tells_what_hover_tells_and_a_finger_across_zooms(tab: Any, written: Path, figure: int) -> None:
    tab.open(written, width=390)
    tab.call("Emulation.setTouchEmulationEnabled", enabled=True)
    at = tab.run(AT.replace("K", str(figure)))
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=at["x"], y=at["y"])
    hovered = tab.run(TOLD.replace("K", str(figure)))
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
    tab.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[at])
    tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert tab.run(TOLD.replace("K", str(figure))) == hovered
    scale = SCALE.replace("K", str(figure))
    whole = tab.run(scale)
    for kind, x in (("touchStart", 200), ("touchMove", 240), ("touchMove", 300)):
        tab.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": at["y"]}])
    tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    part = tab.run(scale)
    assert whole[0] < part[0] < part[1] < whole[1]


def test_dragging_zooms_and_a_double_click_shows_all(tab: Any, written: Path) -> None:
    tab.open(written, width=1280)
    scale = SCALE.replace("K", "0")
    whole = tab.run(scale)
    edge = tab.run("document.querySelector('#figure-0 .u-over').getBoundingClientRect().toJSON()")
    middle = {"y": edge["y"] + edge["height"] / 2, "button": "left"}
    for kind, share, count in (("mousePressed", 0.4, 1), ("mouseMoved", 0.6, 0), ("mouseReleased", 0.6, 1)):
        x = edge["x"] + share * edge["width"]
        tab.call("Input.dispatchMouseEvent", type=kind, x=x, buttons=1, clickCount=count, **middle)
    part = tab.run(scale)
    assert whole[0] < part[0] < part[1] < whole[1]
    tab.run("document.querySelector('#figure-0 .u-over').dispatchEvent(new MouseEvent('dblclick'))")
    assert tab.run(scale) == whole


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing(tab: Any, written: Path, width: int, dark: bool) -> None:
    tab.open(written, width=width, dark=dark)
    assert tab.violations() == []


def test_another_width_is_drawn_anew(tab: Any, written: Path) -> None:
    tab.open(written, width=1280)
    wide = "[...document.querySelectorAll('.uplot')].map(p => p.clientWidth)"
    before = tab.run(wide)
    tab.call("Emulation.setDeviceMetricsOverride", width=390, height=900, deviceScaleFactor=1, mobile=False)
    tab.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
    tab.run("window.drawn")
    assert all(new < 390 < old for new, old in zip(tab.run(wide), before, strict=True))
    assert tab.run("document.documentElement.scrollWidth") <= 390
