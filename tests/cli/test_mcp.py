"""Tests that `batchcast mcp`, asked by the protocol's own client, gives the answers of the command line."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from .test_live import _store, measured, results

__all__ = ["measured"]

SCRIPT = "#!/bin/sh\n#SBATCH -p main -n 8 -t 2:00:00\n#SBATCH -J relax\nsrun x\n"
Question = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _store(str(tmp_path_factory.mktemp("mcp") / "s.db"), False, time.time())


def ask(store: str, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Return the answers of an MCP server that is started as an assistant starts it."""
    command, *words = [sys.executable, "-m", "batchcast", "mcp"]
    env = {"PATH": os.environ["PATH"], "BATCHCAST_STORE": store, "BATCHCAST_CONFIG": os.devnull}
    env |= {name: os.environ[name] for name in ("NUMBA_CACHE_DIR", "HOME") if name in os.environ}

    async def talk() -> list[dict[str, Any]]:
        async with Client(stdio_client(StdioServerParameters(command=command, args=words, env=env, cwd="/"))) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == ["start", "where", "walltime", "report", "why"]
            assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
            answers = [await client.call_tool(name, given) for name, given in questions]
        assert not any(answer.is_error for answer in answers)
        return [answer.structured_content for answer in answers]

    return asyncio.run(talk())


def test_each_tool_answers_as_the_command_line_does(store: str) -> None:
    start, why, where, walltime, report = ask(
        store,
        [
            ("start", {"job_ids": ["600"]}), ("why", {"job_ids": ["600"]}), ("where", {"script": SCRIPT}),
            ("walltime", {"name": "relax"}), ("report", {"days": 2}),
        ],
    )  # fmt: skip
    (told,), (reason,) = start["results"], why["results"]
    (said,) = results("start", "600", store=store)
    likely = time.mktime(time.strptime(told["likely_start"], "%Y-%m-%dT%H:%M:%S"))
    assert abs(likely - said["likely_start_s"]) < 60.0, "the question was asked some seconds earlier"
    assert told["basis"] == said["basis"] == reason["basis"]
    assert reason["reason_in_words"] == said["reason_in_words"]
    assert int(told["track_record_coverage_90"].removesuffix(" %")) == round(100 * said["track_record_coverage_90"])
    way = where["results"][0]
    assert way["flags"].startswith("--partition=main")
    assert way["by_10_start"] <= way["likely_start"] <= way["by_90_start"], "an interval"
    assert way["basis"]
    assert way["track_record_forecasts"] == told["track_record_forecasts"] > 0, "and the record of such answers"
    (limit,) = results("walltime", "--name", "relax", store=store)
    assert walltime["results"][0]["limit"] == limit["limit"]
    assert [one["jobs"] for one in report["results"]] == [
        one["jobs"] for one in results("report", "-S", "now-2days", store=store)
    ]


def test_what_is_not_known_is_said_to_be(store: str) -> None:
    """Without data the tool must not return an empty answer, which an assistant would fill with inventions, nor
    fail."""
    hostile = ["--store=/etc/passwd", "--machine=/etc/passwd", "600; rm -rf /"]
    asked = [("start", {"job_ids": [one]}) for one in hostile]
    asked += [
        ("walltime", {"name": "--json"}), ("walltime", {}), ("where", {"script": SCRIPT, "done_by": "soonish"}),
        ("where", {"script": "x" * 300_000}), ("report", {"days": -4}),
    ]  # fmt: skip
    for (tool, given), answer in zip(asked, ask(store, asked), strict=True):
        assert answer["answer"] == "not known", (tool, given)
        assert isinstance(answer["why"], list), "a text would be read letter by letter"
        assert any(re.search("[a-z]{3}", one) for one in answer["why"]), (tool, given)
        assert "root:" not in json.dumps(answer)


@pytest.mark.long
def test_a_hundred_questions_have_the_answers_of_the_command_line(store: str) -> None:
    draw = random.Random(5)
    waiting = {one["job_id"]: one for one in results("start", "--me", store=store)}
    asked: list[Question] = []
    for _ in range(100):
        jobs = draw.sample(sorted(waiting), draw.randint(1, min(3, len(waiting))))
        asked.append(draw.choice([
            ("start", {"job_ids": jobs}), ("why", {"job_ids": jobs}), ("start", {}),
            ("walltime", {"name": draw.choice(["relax", "rel*", "nothing like it"])}),
            ("report", {"days": draw.randint(1, 30)}), ("where", {"script": SCRIPT}),
        ]))  # fmt: skip
    for (tool, given), answer in zip(asked, ask(store, asked), strict=True):
        if tool in ("start", "why"):
            names = [one["job_id"] for one in answer["results"]]
            assert sorted(names) == sorted(given.get("job_ids", waiting))
            assert all(one["basis"] == waiting[one["job_id"]]["basis"] for one in answer["results"])
        elif given.get("name") == "nothing like it":
            assert answer["answer"] == "not known"
        else:
            assert answer["results"]
