"""Tests the Gantt excerpt in a real Chromium: users' colors, the strips below it, and the brush by mouse, keys and
touch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from batchcast.evaluation.evaluation import evaluate
from batchcast.report import Section, page
from batchcast.report.evaluation.machine import gantt
from batchcast.table import LogInfo, Trace

pytestmark = [pytest.mark.browser, pytest.mark.long]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(4)
    submit = np.sort(rng.integers(0, 2 * 86400, 400))
    columns = {"submit_time": submit, "wait_time": rng.integers(0, 900, 400), "run_time": rng.integers(60, 9000, 400),
               "req_time": np.full(400, 10000), "req_procs": rng.integers(1, 9, 400),
               "user_id": rng.integers(0, 12, 400)}  # fmt: skip
    found = evaluate(Trace.from_arrays(columns, LogInfo(max_procs=48)), predictor=["last_2"], policy=["easy"])
    figure = gantt(found)
    assert figure is not None
    path = tmp_path_factory.mktemp("gantt") / "index.html"
    path.write_text(page("A log", [Section("All", [figure, "words " * 3000])], {}), encoding="utf-8")
    return path


RANGE = "(() => { const {min, max} = document.getElementById('PLACE').chart.plot.scales.x; return [min, max]; })()"
BOX = """(() => { const one = document.querySelector('WHAT');
    one.scrollIntoView({behavior: 'instant', block: 'center'}); return one.getBoundingClientRect().toJSON(); })()"""
PICK = """(async () => { const list = document.querySelectorAll('.pick select')[WHICH]; list.selectedIndex = ENTRY;
    list.dispatchEvent(new Event('change', {bubbles: true})); await window.drawn; })()"""


def shown(tab: Any) -> list[float]:
    """Return the range that the Gantt chart shows; the queue strip has the same range."""
    tab.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
    above, queue = (tab.run(RANGE.replace("PLACE", place)) for place in ("figure-0", "figure-0-0"))
    assert above == queue
    return list(above)


def whole(tab: Any) -> list[float]:
    return list(tab.run(RANGE.replace("PLACE", "figure-0-1")))


def mouse(tab: Any, kind: str, x: float, y: float, count: int = 1) -> None:
    tab.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=count)


def drag(tab: Any, what: str, one: float, other: float) -> None:
    box = tab.run(BOX.replace("WHAT", what))
    at = [(box["x"] + share * box["width"], box["y"] + box["height"] / 2) for share in (one, (one + other) / 2, other)]
    for kind, place in zip(("mousePressed", "mouseMoved", "mouseMoved", "mouseReleased"), [*at, at[-1]], strict=True):
        mouse(tab, kind, *place)


def press(tab: Any, key: str, shift: bool = False) -> None:
    for kind in ("keyDown", "keyUp"):
        text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
        tab.call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0, **text)


def touch(tab: Any, *points: tuple[float, float]) -> None:
    """Touch the first point with one finger, move over the other points, and lift the finger."""
    for kind, point in zip(("touchStart", *["touchMove"] * (len(points) - 1)), points):
        tab.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": point[0], "y": point[1]}])
    tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])


def phone(tab: Any, written: Path) -> None:
    tab.open(written, width=390)
    tab.call("Emulation.setTouchEmulationEnabled", enabled=True)


def test_the_users_colours_are_picked_and_hold_the_same_bars(tab: Any, written: Path) -> None:
    tab.open(written, width=1280)
    bars = "document.getElementById('figure-0').chart.shown.map(t => [t.name, t.x.length, t.marker.pattern.shape])"
    before = tab.run(bars)
    assert [name for name, *_ in before] == ["started at once", "waited", "passed a waiting job (backfilled)"]
    tab.run(PICK.replace("WHICH", "1").replace("ENTRY", "1"))
    after = tab.run(bars)
    assert len(after) == 8
    assert all(name.startswith("user ") for name, *_ in after[:-1])
    assert after[-1][0] == "others (5 users)"
    assert sum(count for _, count, _ in after) == sum(count for _, count, _ in before)
    assert len({shape for *_, shape in after}) == 8
    ink = "document.getElementById('figure-0').chart.shown.map(t => t.meta.slot)"
    assert tab.run(ink) == [1, 2, 3, 4, 5, 6, 7, 0]
    assert tab.run("document.querySelector('.legend').innerText").startswith(after[0][0])


def test_the_brush_chooses_by_mouse_what_both_show(tab: Any, written: Path) -> None:
    tab.open(written, width=1280)
    low, high = whole(tab)
    assert shown(tab) == [low, high]
    drag(tab, ".reach", 0.25, 0.5)
    first = shown(tab)
    assert first == pytest.approx([low + 0.25 * (high - low), low + 0.5 * (high - low)], abs=0.005 * (high - low))
    drag(tab, ".reach", 0.4, 0.6)
    assert shown(tab) == pytest.approx([first[0] + 0.2 * (high - low), first[1] + 0.2 * (high - low)], abs=1000)
    drag(tab, ".reach", 0.7, 0.8)
    end = shown(tab)
    assert end[1] == pytest.approx(low + 0.8 * (high - low), abs=0.005 * (high - low))
    words = tab.run("document.querySelector('.brush').getAttribute('aria-valuetext')")
    assert f"Shown: {words}." == tab.run("document.querySelector('.seen').innerText")
    tab.run(PICK.replace("WHICH", "0").replace("ENTRY", "1"))
    assert shown(tab) == end, "another schedule is shown over the same time"
    box = tab.run(BOX.replace("WHAT", ".reach"))
    for count in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            mouse(tab, kind, box["x"] + 9, box["y"] + 9, count)
    assert shown(tab) == [low, high]


def test_the_brush_is_moved_and_sized_by_keys(tab: Any, written: Path) -> None:
    tab.open(written, width=1280)
    low, high = whole(tab)
    tab.run("document.querySelectorAll('select')[1].focus()")
    for _ in range(9):
        press(tab, "Tab")
        if tab.run("document.activeElement.className") == "brush":
            break
    assert tab.run("document.activeElement.className") == "brush"
    press(tab, "-")
    part = shown(tab)
    assert part[1] - part[0] == pytest.approx((high - low) / 1.5)
    press(tab, "ArrowRight")
    assert shown(tab) == pytest.approx([end + (part[1] - part[0]) / 10 for end in part])
    press(tab, "ArrowLeft", shift=True)
    assert np.diff(shown(tab)) == pytest.approx((high - low) / 1.5**2)
    press(tab, "End")
    assert shown(tab)[1] == high
    press(tab, "ArrowRight", shift=True)
    assert (shown(tab)[1], np.diff(shown(tab))) == (high, pytest.approx((high - low) / 1.5))
    press(tab, "Escape")
    assert shown(tab) == [low, high]
    assert tab.run("document.querySelector('.brush').getAttribute('aria-valuetext')").startswith("all: ")


def test_a_zoom_of_either_moves_the_brush(tab: Any, written: Path) -> None:
    tab.open(written, width=1280)
    low, high = whole(tab)
    for place in ("#figure-0 .u-over", "#figure-0-0 .u-over"):
        drag(tab, place, 0.2, 0.7)
        part = shown(tab)
        assert low < part[0] < part[1] < high
        brush, reach = (tab.run(BOX.replace("WHAT", what)) for what in (".brush", ".reach"))
        assert brush["width"] / reach["width"] == pytest.approx((part[1] - part[0]) / (high - low), abs=0.01)
        tab.run(f"document.querySelector('{place}').dispatchEvent(new MouseEvent('dblclick'))")
        assert shown(tab) == [low, high]


def test_the_queue_strip_tells_its_value(tab: Any, written: Path) -> None:
    tab.open(written, width=1280)
    box = tab.run(BOX.replace("WHAT", "#figure-0-0 .u-over"))
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=box["x"] + box["width"] / 2, y=box["y"] + 20)
    told = tab.run("document.querySelector('#figure-0-0 .tip:not([hidden])').innerText")
    held = tab.run("""(() => { const {plot, shown: [t]} = document.getElementById('figure-0-0').chart;
        const at = t.x.findLastIndex(x => x <= (plot.scales.x.min + plot.scales.x.max) / 2);
        return [t.y[at], t.customdata[at]]; })()""")
    assert told == f"waited for {held[0]} processors, by {held[1]} jobs"


def test_the_plots_begin_at_one_pixel(tab: Any, written: Path) -> None:
    for width in (1280, 390):
        tab.open(written, width=width)
        edges = "[...document.querySelectorAll('.u-over')].map(o => [o.getBoundingClientRect().left, o.clientWidth])"
        assert len({tuple(edge) for edge in tab.run(edges)}) == 1


def test_a_tap_reads_and_a_tap_elsewhere_ends_it(tab: Any, written: Path) -> None:
    phone(tab, written)
    place = tab.run("""(() => { const {plot, hits} = document.getElementById('figure-0').chart;
        plot.root.scrollIntoView({behavior: 'instant', block: 'center'});
        const edge = plot.over.getBoundingClientRect(), {places} = hits.find(hit => hit.places.length);
        const [x, y, wide, high] = places.reduce((a, b) => a[2] * a[3] > b[2] * b[3] ? a : b);
        return [edge.x + x + wide / 2, edge.y + y + high / 2]; })()""")
    touch(tab, place)
    told = tab.run("document.querySelector('#figure-0 .tip:not([hidden])').innerText")
    assert "processors, waited" in told
    assert " of user " in told
    touch(tab, (20, 8))
    assert tab.run("document.querySelector('#figure-0 .tip:not([hidden])')") is None


@pytest.mark.parametrize("what", ["#figure-0 .u-over", "#figure-0-0 .u-over", ".reach"])
def test_a_finger_across_zooms_and_two_taps_show_all(tab: Any, written: Path, what: str) -> None:
    phone(tab, written)
    low, high = whole(tab)
    box = tab.run(BOX.replace("WHAT", what))
    y = box["y"] + box["height"] / 2
    touch(tab, *((box["x"] + share * box["width"], y) for share in (0.2, 0.3, 0.5, 0.6)))
    part = shown(tab)
    assert part == pytest.approx([low + share * (high - low) for share in (0.2, 0.6)], abs=0.02 * (high - low))
    for _ in range(2):
        touch(tab, (box["x"] + 0.9 * box["width"], y))
    assert shown(tab) == [low, high]


@pytest.mark.parametrize("what", ["#figure-0 .u-over", ".reach"])
def test_a_finger_up_and_down_scrolls_the_page(tab: Any, written: Path, what: str) -> None:
    phone(tab, written)
    box, at = tab.run(BOX.replace("WHAT", what)), tab.run("scrollY")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch(tab, *((x, y - 15 * step) for step in range(15)))
    tab.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
    assert tab.run("scrollY") > at + 100
    assert shown(tab) == whole(tab)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_axe_finds_nothing(tab: Any, written: Path, width: int, dark: bool) -> None:
    visit = tab.open(written, width=width, dark=dark)
    tab.run(PICK.replace("WHICH", "1").replace("ENTRY", "1"))
    assert tab.violations() == []
    assert visit.complaints == []
    assert tab.run("document.documentElement.scrollWidth") <= width
