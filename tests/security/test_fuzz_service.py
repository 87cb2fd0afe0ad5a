"""Lets hypothesis ask the service by its own OpenAPI document: each answer must be one that the document describes.

`BATCHCAST_FUZZ_SEED` sets the seed, and `BATCHCAST_FUZZ_INPUTS` the number of questions per route.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from batchcast.service import child_process
from batchcast.service.http import api, work_queue
from batchcast.service.http.server import Server
from batchcast.service.settings import load

from .site import OWNER, build

SEED = int(os.environ.get("BATCHCAST_FUZZ_SEED", "63"))
INPUTS = int(os.environ.get("BATCHCAST_FUZZ_INPUTS", "40"))
WORDS = (
    "", "0", "-1", "1", "4", "60", "9" * 20, "9" * 480, "nan", "inf", "1e308", "1:2:3:4", "1-00:00:00", "16G", "main",
    "*", "yes", "now+6hours", "2026-02-30", "9999-12-31", "\u00b2", "\u0663", "\0", "\u202e", "'", '"', "%", "../..",
    "<b>", "[1-1000000]", "88100700", "990", OWNER, "gpu:4", "a=b", "ntasks=4&time=240", "\u2028",
)  # fmt: skip


class Served(NamedTuple):
    """A server, and the text that it wrote to its log."""

    server: Server
    said: list[str]

    def ask(self, method: str, target: str) -> tuple[int, str, str]:
        """Return status, content type and body."""
        connection = http.client.HTTPConnection("localhost", timeout=60)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self.server.address)
        connection.request(method, target)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, str(answer.getheader("content-type", "")).partition(";")[0], text


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place, said = tmp_path_factory.mktemp("fuzz"), list[str]()
    given = {"store": build(place, False), "runtime": "recent_mean", "wait": "forecast,recent_wait:need=1"}

    def log(*words: Any) -> None:
        said.append(str(words))

    with pytest.MonkeyPatch.context() as patch, Server(load(given, {}), str(place / "own"), log, True) as server:
        # starting a process for each question takes seconds
        patch.setattr(work_queue, "in_child", work_queue.in_thread)
        patch.setattr(child_process, "NICE", 0)
        # the first answer of a form waits until the form's clock is loaded
        patch.setattr(child_process, "SOON_S", 60.0)
        yield Served(server, said)


def targets(place: str, operation: dict[str, Any]) -> st.SearchStrategy[str]:
    """Paths with queries of this operation: documented and undocumented parameters, with normal or unusual values."""
    names = [parameter["name"] for parameter in operation["parameters"]]
    examples = {p["name"]: [str(each) for each in p["schema"]["examples"]] for p in operation["parameters"]}
    if not names:
        return st.builds(lambda text: f"{place}?{quote(text)}" if text else place, st.text(max_size=20))
    odd = st.sampled_from(WORDS) | st.text(max_size=30)
    pair = st.sampled_from(names).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(examples[name]) | odd | odd)
    )
    pairs = st.lists(pair | st.tuples(st.text(max_size=5), odd), max_size=6)
    return pairs.map(
        lambda found: f"{place}?" + "&".join(f"{quote(n, safe='')}={quote(v, errors='replace')}" for n, v in found)
    )


@pytest.mark.long
@pytest.mark.parametrize("place", sorted(api.ENDPOINTS))
def test_each_answer_is_one_that_the_document_describes(served: Served, place: str) -> None:
    status, kind, text = served.ask("GET", "/v1/openapi.json")
    assert status == 200, kind
    document = json.loads(text)
    operation, schemas = document["paths"][place]["get"], document["components"]["schemas"]
    statuses: Counter[int] = Counter()

    @seed(SEED)
    @settings(
        max_examples=INPUTS, database=None, deadline=None, derandomize=False, phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(targets(place, operation))
    def asked(target: str) -> None:
        status, kind, text = served.ask("GET", target)
        statuses[status] += 1
        assert str(status) in operation["responses"], (status, target, text[:300])  # 500 is not a documented status
        (described,) = operation["responses"][str(status)]["content"]
        assert kind == described, (status, target)
        answer = json.loads(text)
        needed = schemas["Answer" if status == 200 else "Problem"]["required"]
        assert set(needed) <= set(answer), (status, target)
        assert "Traceback" not in text + "".join(served.said), (target, served.said[-1:])

    asked()
    assert statuses[429] + statuses[503] < sum(statuses.values()) / 2, f"most questions were not answered: {statuses}"
    assert {200, 404} & set(statuses), f"no question came through: {statuses}"
    assert served.ask("POST", place)[0] == 405
