"""Let Schemathesis send requests, allowed and not allowed by the OpenAPI document, to a real service.

    python -m tools.try_api [QUESTIONS] [SEED]

It sends about this many requests (10,000), including invalid ones, over HTTP on loopback, about a small synthetic
store. It ends with 1 if an answer is not in the document, or is a 500. Answers that usually take a child process (0.25
s of CPU each) are computed in a thread, by the same code. The tests send hundreds of requests by hypothesis
(tests/unit/service/http/test_contract.py).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from unittest.mock import patch

from batchcast.service.http import work_queue
from batchcast.service.http.api import ENDPOINTS
from batchcast.service.http.server import Server
from batchcast.service.operations.metrics import ServiceMetrics
from batchcast.service.settings import load

from .demo_site import build

TOOL = "schemathesis==4.32.5"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def tried(store: str, questions: int, seed: int) -> int:
    """Print requests and answers, and return the exit code."""
    seen: Counter[tuple[str, int]] = Counter()
    count = ServiceMetrics.request

    def counted(self: ServiceMetrics, place: str, status: int, seconds: float) -> None:
        seen[place, status] += 1
        count(self, place, status, seconds)

    said: list[str] = []
    with (
        patch.object(work_queue, "in_child", work_queue.in_thread),
        patch.object(ServiceMetrics, "request", counted),
        Server(load({"store": store}, {}), "127.0.0.1:0", said.append, quiet=True) as server,
    ):
        words = [
            sys.executable,
            "-m",
            "uv",
            "tool",
            "run",
            "--quiet",
            "--system-certs",
            "--from",
            TOOL,
            "schemathesis",
            "run",
        ]
        words += [f"{server.shown}/v1/openapi.json", "--checks", CHECKS, "--phases", "examples,coverage,fuzzing"]
        words += [
            "--max-examples",
            str(questions // len(ENDPOINTS)),
            "--seed",
            str(seed),
            "--suppress-health-check",
            "all",
        ]
        code = subprocess.run(words, check=False).returncode
    for place in ENDPOINTS:
        answers = {status: number for (where, status), number in sorted(seen.items()) if where == place}
        print(f"{place}: {sum(answers.values())} questions, by status {answers}")
    wrong = sum(number for (_, status), number in seen.items() if status >= 500)
    print(f"{seen.total()} questions, seed {seed}: {wrong} with 500 or more", *said[-5:], sep="\n")
    return code or int(wrong > 0)


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as folder:
        build(f"{folder}/s.db", jobs=120)
        sys.exit(tried(f"{folder}/s.db", *(given + [10_000, 0][len(given) :])))
