"""Tests that the API follows its own OpenAPI document for any question drawn from it, and never returns 500."""

from __future__ import annotations

import http.client
import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cli.test_live import _store

from batchcast.service.answers.disclosure import Viewer
from batchcast.service.http import api
from batchcast.service.http.api import description
from batchcast.service.http.server import Server
from batchcast.service.settings import Settings, load

DOCUMENT: dict[str, Any] = json.loads(description())
ASKED = int(os.environ.get("BATCHCAST_QUESTIONS", "150"))
"""Number of questions per test."""
WORDS = st.sampled_from(
    ["", "0", "-1", "1", "101", "600", "500_2", "9" * 30, "main", "relax", "re*", "[", "user1", "bob", "now",
     "now-1days", "now+6hours", "uts0", "1:00:00", "1-0", "UNLIMITED", "5%", "nan", "inf", "1e400", "2G", "4Gn",
     "gpu:2", "2-4", "\x00", "%00", "\u202e", "1" * 499, "../..", "' OR 1=1 --"]
)  # fmt: skip
VALUES = st.one_of(WORDS, st.text(max_size=40), st.integers().map(str), st.floats().map(str))


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, str]:
    """A path of the document and a query: documented parameters, each optional, perhaps one twice or an unknown one."""
    place = draw(st.sampled_from(sorted(DOCUMENT["paths"])))
    names = [one["name"] for one in DOCUMENT["paths"][place]["get"]["parameters"]]
    chosen = draw(st.lists(st.sampled_from([*names, "x"]), max_size=5)) if names else []
    return place, urlencode([(name, draw(VALUES)) for name in chosen], errors="replace")


@pytest.fixture(scope="module")
def stores() -> Iterator[dict[bool, Settings]]:
    """An open and a private site with sixty jobs of six users, some of them waiting."""
    with tempfile.TemporaryDirectory() as place:
        yield {
            private: load({"store": _store(str(Path(place) / f"{private}.db"), private, time.time())}, {})
            for private in (False, True)
        }


def keeps_to(place: str, status: int, text: str) -> None:
    """Check that the document allows this answer for this path."""
    documented = DOCUMENT["paths"][place]["get"]["responses"]
    assert str(status) in documented, f"{status} is not among {', '.join(documented)}: {text[:300]}"
    content = documented[str(status)]["content"]
    (schema,) = (one["schema"]["$ref"].rpartition("/")[2] for one in content.values())
    conforms(json.loads(text), DOCUMENT["components"]["schemas"][schema])


TYPES = {"object": dict, "array": list, "string": str, "integer": int}


def conforms(value: Any, schema: dict[str, Any]) -> None:
    """Check the few keywords of JSON Schema that the document uses."""
    assert schema.keys() <= {"type", "required", "properties", "items", "const"}, "a word this test does not know"
    if "const" in schema:
        assert value == schema["const"]
    if "type" in schema:
        assert isinstance(value, TYPES[schema["type"]])
    for name in schema.get("required", ()):
        assert name in value
    for name, inner in schema.get("properties", {}).items():
        if name in value:
            conforms(value[name], inner)
    for one in value if "items" in schema else ():
        conforms(one, schema["items"])


@pytest.mark.long
@settings(max_examples=ASKED, deadline=None)
@given(questions(), st.booleans(), st.sampled_from([None, "user1", "bob", "nobody at all"]))
def test_every_answer_is_one_that_the_document_gives(
    stores: dict[bool, Settings], question: tuple[str, str], private: bool, who: str | None
) -> None:
    place, query = question
    found = api.reply(stores[private], f"{place}?{query}", Viewer(who))
    keeps_to(place, found.status, found.body)
    if private:
        shown = json.dumps(json.loads(found.body).get("results", []))
        assert not any(f'"{name}"' in shown for name in {"bob", "user1", "user2", "user3", "user4"} - {who})


@pytest.mark.parametrize("query", ["ntasks=main", "ntasks=" + "9" * 400, "nodes=x&cpus-per-task=y", "mem=lots"])
def test_what_is_no_count_is_no_defect(stores: dict[bool, Settings], query: str) -> None:
    found = api.reply(stores[False], f"/v1/where?{query}", Viewer("user1"))
    keeps_to("/v1/where", found.status, found.body)


def test_a_number_too_long_for_a_job_is_no_job_and_no_file(stores: dict[bool, Settings]) -> None:
    """Regression from schemathesis (python -m tools.try_api): such a name was looked up among the files."""
    found = api.reply(stores[False], "/v1/walltime?job=" + "0" * 300, Viewer("user1"))
    assert found.status == 400
    assert "not a job id" in found.body


def test_every_question_is_described_and_every_description_asked() -> None:
    assert set(DOCUMENT["paths"]) == set(api.ENDPOINTS)
    for place, (_, names, *_) in api.ENDPOINTS.items():
        assert [one["name"] for one in DOCUMENT["paths"][place]["get"]["parameters"]] == list(names)
        assert all(one["description"] for one in DOCUMENT["paths"][place]["get"]["parameters"])


def test_the_service_hands_out_its_description(stores: dict[bool, Settings], tmp_path: Path) -> None:
    with Server(stores[False], str(tmp_path / "api.sock"), lambda _: None) as server:
        status, kind, text = read(server, "/v1/openapi.json")
        assert (status, kind) == (200, "application/json")
        assert json.loads(text) == DOCUMENT
        status, kind, text = read(server, "/v1/walltime?name=relax*&user=user1")
        assert (status, kind) == (200, "application/json")
        keeps_to("/v1/walltime", status, text)


def read(server: Server, target: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(server.address))
    connection.request("GET", target)
    answer = connection.getresponse()
    return answer.status, answer.headers["Content-Type"].partition(";")[0], answer.read().decode()
