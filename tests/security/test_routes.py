"""Every route, asked by everybody: what a private site hides is in no answer and on no page.

A route without a row in `QUESTIONS` fails, so a new one is decided on before it is served.
"""

from __future__ import annotations

import http.client
import os
import pwd
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote_plus, urlencode

import pytest
from starlette.routing import Mount, Route

from batchcast.service import child_process
from batchcast.service.http import admission, api, work_queue
from batchcast.service.http.server import Server
from batchcast.service.page.routes import routes as page_routes
from batchcast.service.settings import load

from .site import FIGURES, FORECAST, OTHER, OWNER, SECRETS, WAITING, build

JOB = "88100700"
ASKED = "partition=main&ntasks=4&time=60"
SIZES = tuple(f"partition=main&ntasks={n}&time={t}" for n, t in ((1, 1), (389, 699)))
QUESTIONS: Mapping[str, tuple[str, ...]] = {
    "/v1/start": (f"?job={JOB}", f"?user={OWNER}", "", "?job=77990", "?job=88100700,77990", "?job=1"),
    "/v1/test": tuple(f"?{each}" for each in (ASKED, *SIZES)),
    "/v1/where": tuple(f"?{each}" for each in (ASKED, *SIZES)),
    "/v1/choices": tuple(f"?{urlencode({'choice': each, 'user': of})}" for of in (OTHER, OWNER) for each in SIZES),
    "/v1/walltime": (f"?job={JOB}", f"?job=88100000&user={OWNER}", f"?name=*&user={OWNER}", "?name=*", "?job=1"),
    "/v1/report": (f"?user={OWNER}", "?account=secretaccount", "?partition=main", ""),
    "/v1/accuracy": ("", "?partition=main"),
    "/v1/hint": (
        f"?user={OWNER}&partition=main&ntasks=389", f"?user={OTHER}&partition=main&ntasks=389",
        f"?user={OTHER}&partition=main&ntasks=8", f"?user={OTHER}&name=secretname&ntasks=8", f"?user={OTHER}",
    ),
    "/v1/health": ("",),
    "/v1/openapi.json": ("",),
    "/metrics": ("",),
    "/": ("", f"?user={OWNER}"),
    "/jobs": ("", f"?user={OWNER}"),
    "/jobs/stream": (f"?user={OWNER}",),
    "/script": ("", f"?job={JOB}", "?job=88100600", "?job=77990", "?job=1", *(f" {each}" for each in (ASKED, *SIZES))),
    "/accuracy": ("",),
    "/cluster": ("",),
    "/operators": ("",),
    "/assets": ("/page.css",),
    "/assets/vendor": ("/uPlot.min.js",),
}  # fmt: skip
"""By route what is asked: a query, or after a blank the fields of a form."""
VIEWERS = ("nobody on TCP", "nobody by a proxy", OTHER, OWNER, "the operator")


class Site(NamedTuple):
    """Who asks, by what server and with which headers."""

    servers: Mapping[str, tuple[Server, dict[str, str]]]

    def ask(self, viewer: str, target: str, form: str = "") -> tuple[int, str]:
        server, headers = self.servers[viewer]
        connection = http.client.HTTPConnection("localhost", timeout=60)
        connection.sock = socket.socket(socket.AF_INET if server.is_tcp else socket.AF_UNIX)
        connection.sock.connect(server.address)
        headers = headers | ({"Content-Type": "application/x-www-form-urlencoded"} if form else {})
        connection.request("POST" if form else "GET", target, form or None, headers)
        answer = connection.getresponse()
        is_stream = answer.getheader("content-type", "").startswith("text/event-stream")
        text = (answer.read(10) if is_stream else answer.read()).decode()
        connection.close()
        return answer.status, text


@pytest.fixture(scope="module")
def private_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    yield from served(tmp_path_factory, True)


@pytest.fixture(scope="module")
def open_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    yield from served(tmp_path_factory, False)


def served(tmp_path_factory: pytest.TempPathFactory, is_private: bool) -> Iterator[Site]:
    """Three servers over one store: on TCP, on a socket of the operator's, and behind a proxy that names users."""
    place = tmp_path_factory.mktemp("routes")
    name = pwd.getpwuid(os.geteuid()).pw_name
    given = {"store": build(place, is_private), "runtime": "recent_mean", "wait": f"{FORECAST},recent_wait:need=1"}
    plain, proxy = load(given, {}), load({**given, "proxy_from": name, "proxy_header": "X-User"}, {})
    silent: Any = lambda _: None  # noqa: E731
    with (
        pytest.MonkeyPatch.context() as patch,
        Server(plain, "127.0.0.1:0", silent, True) as tcp,
        Server(plain, str(place / "own"), silent, True) as own,
        Server(proxy, str(place / "proxy"), silent, True) as by_proxy,
    ):
        patch.setattr(work_queue, "in_child", work_queue.in_thread)  # a process for each question takes seconds
        patch.setattr(child_process, "NICE", 0)  # else it would wait here for all that runs beside the tests
        patch.setattr(child_process, "SOON_S", 60.0)  # the first answer of a form waits until its clock is loaded
        named = {each: (by_proxy, {"X-User": each}) for each in (OTHER, OWNER)}
        nobody = {"nobody on TCP": (tcp, {"X-User": OWNER}), "nobody by a proxy": (by_proxy, {})}
        yield Site({**named, **nobody, "the operator": (own, {})})


def found_in(text: str, asked: str, words: tuple[str, ...], figures: tuple[str, ...] = ()) -> set[str]:
    """Which of these an answer holds, but for the words that came with the question."""
    said = unquote_plus(asked)
    found = {word for word in words if word in text and word not in said and not (word == "88100" and JOB in said)}
    text = re.sub(
        r'\b(?:[cr]?[xy][12]?|width|height|d|points|style|transform|viewBox)="[^"]*"', "", text
    )  # of drawings
    of_question = set(re.findall(r"\d+", said))
    hits = (re.search(rf".{{0,40}}(?<![\w.:-]){each}(?![\w.:]|-\d).{{0,20}}", text) for each in figures)
    return found | {hit[0] for each, hit in zip(figures, hits) if hit and each not in of_question}


@pytest.mark.parametrize("viewer", VIEWERS)
@pytest.mark.parametrize("route", sorted(QUESTIONS))
def test_no_answer_of_a_private_site_tells_of_others(private_site: Site, viewer: str, route: str) -> None:
    for question in QUESTIONS[route]:
        query, _, form = question.partition(" ")
        status, text = private_site.ask(viewer, route + query, form)
        assert status < 500, (status, text[:500])
        assert "Traceback" not in text
        if viewer == "the operator" or route in ("/assets", "/assets/vendor", "/v1/openapi.json"):
            break
        if viewer == OWNER:
            hidden = found_in(text, question, (OTHER, ">mine<", '"mine"', '"77990"'))
        else:
            hidden = found_in(text, question, SECRETS, FIGURES)
        assert not hidden, question


def finds(site: Site, viewer: str) -> None:
    """Whether what is searched for is there for whoever may see it: else the search would prove nothing."""
    texts = {
        question: site.ask(viewer, question)[1]
        for question in (f"/v1/start?user={OWNER}", f"/v1/where?{ASKED}", f"/script?job={JOB}", f"/?user={OWNER}")
    }
    found = {name: found_in(text, name, SECRETS, FIGURES) for name, text in texts.items()}
    assert all(found.values()), found
    assert f"behind {WAITING + 1} jobs" in texts[f"/v1/where?{ASKED}"]


def test_the_operator_of_a_private_site_is_told_what_is_searched_for(private_site: Site) -> None:
    finds(private_site, "the operator")


@pytest.mark.parametrize("viewer", [OTHER, "nobody on TCP"])
def test_on_an_open_site_everybody_is_told(open_site: Site, viewer: str) -> None:
    finds(open_site, viewer)


@pytest.mark.parametrize("place", ["/script", "/v1/start", "/v1/walltime"])
def test_a_job_of_somebody_else_is_refused_like_one_that_is_not_there(private_site: Site, place: str) -> None:
    for viewer in ("nobody on TCP", OTHER):
        there, gone = (private_site.ask(viewer, f"{place}?job={job}") for job in (JOB, "55500700"))
        assert (there[0], there[1].replace(JOB, "55500700")) == gone


def test_every_route_has_a_row() -> None:
    pages = {route.path for route in page_routes() if isinstance(route, Route | Mount)}
    assert {*api.ENDPOINTS, "/v1/openapi.json", "/metrics", *pages} == set(QUESTIONS)


@pytest.mark.parametrize("uid", [0, os.geteuid(), 4321])
def test_root_and_who_runs_the_service_see_everything_and_nobody_else(
    uid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "peer_of", lambda _: (uid, "somebody"))
    here, there = socket.socketpair()
    with here, there:
        viewer = admission.Admission(load({"store": str(Path("/nowhere"))}, {})).peer(here).viewer
    assert viewer.sees_all == (uid in (0, os.geteuid()))
