"""Asks every route as every viewer: no answer and no page may contain what a private site hides.

A route without a row in `QUESTIONS` fails the test, so its privacy is decided before it is served.
"""

from __future__ import annotations

import http.client
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import unquote_plus, urlencode

import anyio.to_thread
import pytest
from starlette.routing import Mount, Route

from batchcast.service import child_process
from batchcast.service.http import admission, api, work_queue
from batchcast.service.http.server import Server
from batchcast.service.page.routes import routes as page_routes
from batchcast.service.settings import load
from tests.unit.service.http.test_bad_clients import Process, told

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
"""The questions of each route: a query, or after a blank the fields of a form."""
OF_OWN_JOBS = ("/", "/jobs", "/jobs/stream", "/metrics", "/v1/start", "/v1/health", "/script")
"""Routes that show each viewer's own jobs unless the question names a user."""
VIEWERS = ("nobody on TCP", "nobody by a proxy", OTHER, OWNER, "by a proxy", "operator", "root")
SEES_ALL = ("operator", "root")
PEERS = {OTHER: 4101, OWNER: 4102, "operator": 4100, "root": 0, "proxy": 4103}
"""The clients of the unix socket: user ids by name. The service runs as the operator."""
PEER = ["operator"]
"""The user id of the next connection to a unix socket."""


class Site(NamedTuple):
    """The servers of one store."""

    tcp: Server
    unix: Server

    def ask(self, viewer: str, target: str, form: str = "") -> tuple[int, str]:
        """Return the status and the text that a route answers this viewer."""
        server = self.tcp if viewer == "nobody on TCP" else self.unix
        headers = {"X-User": OWNER} if viewer == "nobody on TCP" else {}  # a header that only the proxy may send
        headers |= {"X-User": OTHER} if viewer == "by a proxy" else {}
        headers |= {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
        PEER[:] = ["proxy" if "proxy" in viewer else viewer]
        connection = http.client.HTTPConnection("localhost", timeout=60)
        connection.sock = socket.socket(socket.AF_INET if server.is_tcp else socket.AF_UNIX)
        connection.sock.connect(server.address)
        connection.request("POST" if form else "GET", target, form or None, headers)
        answer = connection.getresponse()
        is_stream = answer.getheader("content-type", "").startswith("text/event-stream")
        text = (answer.read(10) if is_stream else answer.read()).decode()
        connection.close()
        return answer.status, text


HOURS = {"sqlite": 1 / 6, "postgres": 15.0}
"""The time of day (UTC) of the servers on each store: figures of complete days change at midnight."""
STORES = ("sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.long]))


@pytest.fixture(scope="module", params=STORES)
def private_site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    yield from served(request, tmp_path_factory, True)


@pytest.fixture(scope="module", params=STORES)
def open_site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    yield from served(request, tmp_path_factory, False)


def _nothing(_: object) -> None:
    pass


async def _in_this_process(_: object, answer: Any) -> Any:
    """Return the answer of the long-running child process, without the seconds in which it loads."""
    return await anyio.to_thread.run_sync(answer)


def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, is_private: bool
) -> Iterator[Site]:
    """Two servers over one store: one on TCP, and one on a unix socket for users, the operator, root and a proxy."""
    place = tmp_path_factory.mktemp("routes")
    clock = time.time
    shift = HOURS[request.param] * 3600.0 - clock() % 86400.0 + 86400.0
    url = request.getfixturevalue("postgres_server")() if request.param == "postgres" else ""
    given = {"runtime": "recent_mean", "wait": f"{FORECAST},recent_wait:need=1"}
    given |= {"proxy_from": "proxy", "proxy_header": "X-User"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: clock() + shift)
        settings = load({**given, "store": build(place, is_private, url)}, {})
        patch.setattr(admission, "peer_of", lambda _: (PEERS[PEER[0]], PEER[0]))
        patch.setattr(admission, "os", SimpleNamespace(getuid=lambda: PEERS["operator"]))
        # starting a process for each question takes seconds
        patch.setattr(work_queue, "in_child", work_queue.in_thread)
        patch.setattr(child_process.KeptChild, "run", _in_this_process)
        with (
            Server(settings, "127.0.0.1:0", _nothing, True) as tcp,
            Server(settings, str(place / "socket"), _nothing, True) as unix,
        ):
            yield Site(tcp, unix)


def found_in(text: str, asked: str, words: tuple[str, ...], figures: tuple[str, ...] = ()) -> set[str]:
    """Return which of these secrets an answer contains, apart from words that were part of the question."""
    said = unquote_plus(asked)
    # these digits may occur in ids that begin with 88100 and in seconds since 1970
    parts = {word: rf"(?<![\d.]){word}" if word.isdigit() else re.escape(word) for word in words}
    found = {word for word, part in parts.items() if re.search(part, text) and word not in said}
    found -= {"88100"} if JOB in said else set()
    text = re.sub(
        r'\b(?:[cr]?[xy][12]?|width|height|d|points|style|transform|viewBox)="[^"]*"', "", text
    )  # coordinates in drawings
    text = re.sub(r"\d+[\xa0 ](?:d|h|min|s)\b", "", text)  # waits may contain these digits
    of_question = set(re.findall(r"\d+", said))
    hits = (re.search(rf".{{0,40}}(?<![\w.:-]){each}(?![\w.:]|-\d).{{0,20}}", text) for each in figures)
    return found | {hit[0] for each, hit in zip(figures, hits) if hit and each not in of_question}


@pytest.mark.parametrize("viewer", VIEWERS)
@pytest.mark.parametrize("route", sorted(QUESTIONS))
def test_no_answer_of_a_private_site_tells_of_others(private_site: Site, viewer: str, route: str) -> None:
    for question in QUESTIONS[route]:
        text = answer_of(private_site, viewer, route, question)
        if viewer in SEES_ALL or route in ("/assets", "/assets/vendor", "/v1/openapi.json"):
            break  # this viewer may see everything: it is enough that there is an answer
        if viewer == OWNER:
            hidden = found_in(text, question, (OTHER, ">mine<", '"mine"', '"77990"'))
        else:
            hidden = found_in(text, question, SECRETS, FIGURES)
        assert not hidden, question


@pytest.mark.parametrize("viewer", VIEWERS)
@pytest.mark.parametrize("route", sorted(QUESTIONS))
def test_on_an_open_site_no_known_viewer_is_told_less_than_another(open_site: Site, viewer: str, route: str) -> None:
    """Each question gets an answer, and the operator's answers contain the words of the owner's jobs."""
    for question in QUESTIONS[route][:3]:
        text = answer_of(open_site, viewer, route, question)
        if viewer in SEES_ALL or route in OF_OWN_JOBS or route == "/operators":
            continue
        told = found_in(told_to_the_operator(open_site, route, question), question, SECRETS)
        assert found_in(text, question, SECRETS) >= told, question


@cache
def told_to_the_operator(site: Site, route: str, question: str) -> str:
    """The operator's answers, requested once for all viewers."""
    return answer_of(site, "operator", route, question)


def answer_of(site: Site, viewer: str, route: str, question: str) -> str:
    """Return the text of one answer, which must never be a server error."""
    query, _, form = question.partition(" ")
    status, text = site.ask(viewer, route + query, form)
    assert status < 500, (status, text[:500])
    assert "Traceback" not in text
    return text


def finds(site: Site, viewer: str) -> None:
    """Checks that a viewer who may see the secret finds it; otherwise the search for leaks would prove nothing."""
    texts = {
        question: site.ask(viewer, question)[1]
        for question in (f"/v1/start?user={OWNER}", f"/v1/where?{ASKED}", f"/script?job={JOB}", f"/?user={OWNER}")
    }
    found = {name: found_in(text, name, SECRETS, FIGURES) for name, text in texts.items()}
    assert all(found.values()), found
    assert f"behind {WAITING + 1} jobs" in texts[f"/v1/where?{ASKED}"]


@pytest.mark.parametrize("viewer", SEES_ALL)
def test_operators_and_root_are_told_on_a_private_site_what_is_searched_for(private_site: Site, viewer: str) -> None:
    finds(private_site, viewer)


@pytest.mark.parametrize("viewer", VIEWERS)
def test_on_an_open_site_everybody_is_told(open_site: Site, viewer: str) -> None:
    finds(open_site, viewer)


def test_a_number_of_five_thousand_digits_in_a_form_is_no_failure_and_as_time_or_memory_refused(
    private_site: Site,
) -> None:
    form = {"partition": "main", "ntasks": "4", "time": "60"}
    for field in ("time", "mem"):
        status, text = private_site.ask(OTHER, "/script", urlencode({**form, field: "9" * 5000}))
        assert 400 <= status < 500, field
        assert "Traceback" not in text
    for field in ("ntasks", "nodes"):  # the search reads counts of up to nine digits
        answer_of(private_site, OTHER, "/script", f" {urlencode({**form, field: '9' * 5000})}")


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
    monkeypatch.setattr(admission, "os", os)  # the sites in this file pretend to run as the operator
    here, there = socket.socketpair()
    with here, there:
        viewer = admission.Admission(load({"store": str(Path("/nowhere"))}, {})).peer(here).viewer
    assert viewer.sees_all == (uid in (0, os.geteuid()))


@pytest.mark.long
def test_the_process_that_listens_loads_no_compiler(tmp_path: Path) -> None:
    """Answers that need compiled code come from child processes, because numba and LLVM would occupy 95 MB in the
    server.

    The test asks each route, including answers that need a prediction and the form that compares machines.
    """
    settings = load({"store": build(tmp_path, False)}, {})
    with Process(settings, 1024) as server:
        statuses = {}
        for route, questions in QUESTIONS.items():
            for question in questions[:2]:
                query, _, form = question.partition(" ")
                body = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(form)}\r\n\r\n{form}"
                head = (
                    f"{'POST' if form else 'GET'} {route}{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                )
                if route != "/jobs/stream":  # this answer has no end
                    heard = told(server.address, (head + (body if form else "\r\n")).encode())
                    statuses[route + question] = heard.split(b" ", 2)[1]
        # 503 is allowed while the child process loads
        assert not {q: status for q, status in statuses.items() if status == b"500"}
        assert statuses["/v1/health"] == statuses[f"/v1/test?{ASKED}"] == statuses["/operators"] == b"200", statuses
        assert "llvm" not in Path(f"/proc/{server.process.pid}/maps").read_text()
