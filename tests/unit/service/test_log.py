"""Tests the log of service and collector: lines for people, or one JSON object per line for programs."""

from __future__ import annotations

import http.client
import json
import math
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchcast.service.http import server as service
from batchcast.service.log import Log
from batchcast.service.settings import load

VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())


@given(words=st.text(st.characters()), fields=st.dictionaries(st.sampled_from(["user", "path", "ms"]), VALUES))
def test_an_event_is_one_line_whatever_is_in_it(words: str, fields: dict) -> None:
    lines: list[str] = []
    Log(lines.append, "json")("request", words, **fields)
    told = json.loads(lines[0], parse_constant=pytest.fail)
    assert (len(lines), len(lines[0].splitlines())) == (1, 1)
    assert told["event"] == "request"
    for name, value in fields.items():
        assert told[name] == (None if isinstance(value, float) and not math.isfinite(value) else value)


@given(user=st.text(st.characters()))
def test_a_name_cannot_forge_a_line_or_a_field(user: str) -> None:
    lines: list[str] = []
    Log(lines.append)("request", user=user, status=200)
    assert len(lines[0].splitlines()) == 1
    assert lines[0].endswith(" status=200")
    assert lines[0].count("status=") == 1 + repr(user).count("status=")


@pytest.mark.parametrize("form", ["text", "json"])
def test_every_request_is_in_the_log(tmp_path: Path, form: str) -> None:
    lines: list[str] = []
    settings = load({"store": str(tmp_path / "none.db"), "log_format": form}, {})
    with service.Server(settings, "127.0.0.1:0", lines.append) as server:
        for path, status in (("/v1/openapi.json", 200), ("/v1/nowhere", 404)):
            connection = http.client.HTTPConnection(*server.address[:2], timeout=10)
            connection.request("GET", path)
            assert connection.getresponse().status == status
            connection.close()
    if form == "text":
        assert any("path='/v1/nowhere' status=404" in line for line in lines)
        return
    told = [json.loads(line) for line in lines]
    requests = {one["path"]: one for one in told if one["event"] == "request"}
    assert {path: one["status"] for path, one in requests.items()} == {"/v1/openapi.json": 200, "/v1/nowhere": 404}
    assert all(one["ms"] >= 0 for one in requests.values())
    assert all(datetime.fromisoformat(one["time"]).tzinfo is not None for one in told)
