"""Tests the service's pages in a real Chromium: axe-core reports nothing, nothing is fetched from outside, and all is
readable without scripts."""

from __future__ import annotations

import hashlib
import http.client
import re
import time
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from batchcast.service.http.server import Server
from batchcast.service.settings import load
from batchcast.store import clock_jobs
from batchcast.store.database import Store

pytestmark = pytest.mark.long
PAGES = {"jobs": "?user=carl", "script": "script?job=JOB", "accuracy": "accuracy", "cluster": "cluster",
         "operators": "operators"}  # fmt: skip
VENDOR = files("batchcast.vendored").joinpath("browser")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> str:
    from tools.demo_site import build

    path = str(tmp_path_factory.mktemp("site") / "demo.db")
    build(path, jobs=1500, seed=9, looks=True)
    return path


@pytest.fixture(scope="module")
def site(demo: str) -> Iterator[Server]:
    with Server(load({"store": demo}, {}), "127.0.0.1:0", lambda _: None) as server:
        yield server


@pytest.fixture(scope="module")
def waiting(demo: str) -> str:
    import sqlite3

    with sqlite3.connect(demo) as connection:
        return str(connection.execute("SELECT job_id FROM jobs WHERE open = 1 AND start_time IS NULL").fetchone()[0])


def read(site: Server, target: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(*site.address[:2], timeout=60)
    connection.request("GET", target, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@pytest.mark.browser
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("width", "dark", "language"), [(1280, False, "en"), (1280, True, "de"), (390, True, "en"),
                                                         (390, False, "de")])  # fmt: skip
def test_a_page_is_clean(
    tab: Any, site: Server, waiting: str, name: str, width: int, dark: bool, language: str
) -> None:
    target = PAGES[name].replace("JOB", waiting)
    mark = "&" if "?" in target else "?"
    visit = tab.open(f"{site.shown}/{target}{mark}lang={language}", width=width, dark=dark)
    assert visit.complaints == []
    assert [url for url in visit.outside if not url.startswith(site.shown)] == []
    assert tab.run("document.documentElement.lang") == language
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.violations() == []


@pytest.mark.browser
def test_what_to_change_is_seen_on_a_telephone(tab: Any, site: Server) -> None:
    tab.open(f"{site.shown}/?user=carl", width=390)
    inside = "[...document.querySelectorAll('.fold td.says:not(.none)')].map(td => td.getBoundingClientRect())"
    seen = tab.run(f"{inside}.map(box => [box.left, box.right, box.height])")
    assert seen, "carl asks for far more time than his jobs use"
    assert all(0 <= left < right <= 390 and height > 0 for left, right, height in seen)
    tall = tab.run("[...document.querySelectorAll('.fold tbody tr')].map(tr => tr.getBoundingClientRect().height)")
    assert max(tall) < 200, "no row stands empty"


CUT = """[...document.querySelectorAll('main *')].filter(e => !e.closest('svg, thead, .unseen, .u-wrap') &&
    !e.closest('[aria-labelledby=hour]') && e.offsetWidth && (e.getBoundingClientRect().right > innerWidth + 1 ||
    e.matches('.scroll') && e.scrollWidth > e.clientWidth + 1)).map(e => e.outerHTML.slice(0, 120))"""


@pytest.mark.browser
@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("name", PAGES)
def test_on_a_phone_nothing_is_cut(tab: Any, site: Server, waiting: str, name: str, language: str) -> None:
    """Only the heat map of weekdays scrolls: its eight columns do not fit, and its row names stay in view."""
    target = PAGES[name].replace("JOB", waiting)
    tab.open(f"{site.shown}/{target}{'&' if '?' in target else '?'}lang={language}", width=390)
    assert tab.run(CUT) == []


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_name_of_an_uploaded_script_has_room(tab: Any, site: Server, width: int) -> None:
    tab.open(f"{site.shown}/script", width=width)
    assert tab.run("document.querySelector('[type=file]').offsetWidth") >= 250


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_bars_of_running_jobs_can_be_read(tab: Any, site: Server, width: int) -> None:
    tab.open(f"{site.shown}/?user=carl", width=width)
    bars = "[...document.querySelectorAll('.bar.end')]"
    assert tab.run(f"{bars}.length") > 0
    parts = f"{bars}.flatMap(bar => [...bar.querySelectorAll('.near, .far')].map(r => r.getBoundingClientRect().width))"
    assert tab.run(f"Math.min(...{parts})") >= 3
    whole = f"{bars}.map(bar => bar.querySelector('.last').getBoundingClientRect().right / bar.clientWidth)"
    assert tab.run(f"Math.max(...{whole})") > 0.4, "the axis is no longer than these jobs need"


@pytest.mark.browser
def test_my_jobs_follow_the_store(tab: Any, demo: str, site: Server) -> None:
    tab.open(f"{site.shown}/?user=carl", width=1280)
    assert "in the dark" not in tab.run("document.body.innerText")
    from batchcast.formats.sighting import Sighting
    from batchcast.store import history

    now = time.time()
    fresh = Sighting("99999", "99999", now, "PENDING", reason="Priority",
                     requested={"user_id": "carl", "partition_id": "main", "job_name": "in the dark"})  # fmt: skip
    tab.run(
        "new Promise(done => document.body.addEventListener('htmx:sseOpen', () => done(1)) || setTimeout(done, 1500))"
    )
    tab.call("Runtime.evaluate", expression="window.seen = new Promise(done => document.body.addEventListener("
             "'htmx:sseMessage', () => done(1)))")  # fmt: skip
    store = Store(demo)
    with store.begin() as connection:
        history.take_in(connection, "demo", [fresh], now)
        clock_jobs.write_meta(connection, "demo", cycle_at=now)
    store.close()
    tab.run("window.seen")
    assert "in the dark" in tab.run("document.body.innerText")


@pytest.mark.parametrize("target", ["/?user=carl", "/accuracy", "/cluster", "/operators", "/script"])
def test_everything_is_there_without_scripts(site: Server, target: str) -> None:
    status, text = read(site, target)
    assert status == 200
    assert "<h1>" in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "style=" not in text, "the content security policy forbids it"
    if target not in ("/script", "/operators"):
        assert "<svg" in text


def test_the_language_is_the_readers(site: Server) -> None:
    assert 'lang="de"' in read(site, "/cluster", **{"Accept-Language": "de-DE,de;q=0.9"})[1]
    assert 'lang="en"' in read(site, "/cluster", **{"Accept-Language": "fr"})[1]
    assert "Wer wartet" in read(site, "/cluster?lang=de")[1]


def test_the_german_catalogue_is_whole_and_compiled() -> None:
    from tools.catalogue import PLACE, current

    text, missing = current(PLACE.read_bytes())
    assert missing == []
    assert text == PLACE.read_bytes(), "python -m tools.catalogue"


def test_vendored_assets_are_what_they_are_said_to_be() -> None:
    listed = tomllib.loads(VENDOR.joinpath("VENDORED.toml").read_text())
    present = {one.name for one in VENDOR.iterdir()} - {"VENDORED.toml"}
    assert present == set(listed) | {one["text"] for one in listed.values()}
    for name, one in listed.items():
        assert hashlib.sha256(VENDOR.joinpath(name).read_bytes()).hexdigest() == one["sha256"], name


def test_dashboards_and_alerts_ask_for_what_the_service_shows(demo: str) -> None:
    """Checks that every metric name in the dashboards is exported; `python -m tools.try_prometheus STORE` asks a real
    Prometheus."""
    from tools.dashboards import DASHBOARDS, PLACE, questions, text_of

    from batchcast.service.http.admission import Admission
    from batchcast.service.operations.metrics import ServiceMetrics, outcomes, store_readings

    settings = load({"store": demo}, {})
    measures, door = ServiceMetrics(), Admission(settings)
    door.refused["rate"] += 1
    measures.request("/v1/start", 200, 0.1)
    shown = measures.text(door.open, door.refused, [*(store_readings(settings) or ()), *outcomes(settings)]).decode()
    there = set(re.findall(r"^(batchcast_\w+)", shown, re.MULTILINE))
    asked = {name: " ".join(exprs) for name, exprs in questions().items()}
    asked["alerts"] = (PLACE.parent / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
    for name, exprs in asked.items():
        wanted = set(re.findall(r"\b(batchcast_\w+)", exprs))
        assert wanted, name
        assert wanted <= there, f"{name}: {wanted - there}"
    for name in DASHBOARDS:
        assert (PLACE / f"{name}.json").read_text(encoding="utf-8") == text_of(name), "python -m tools.dashboards"
