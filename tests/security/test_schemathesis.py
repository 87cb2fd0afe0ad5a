"""Lets schemathesis, a program that knows nothing of this project, ask a served demo site, open and private.

schemathesis is installed in a Python of its own (`make setup-workflows`), because its plug-in would load into every
test. `BATCHCAST_FUZZ_SEED` sets the seed, and `BATCHCAST_FUZZ_INPUTS` the number of questions of each kind per route.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import absent
from tools.demo_site import build

from batchcast.service.settings import load
from tests.unit.service.http.test_bad_clients import Process

ST = Path(__file__).parents[2] / ".venv" / "schemathesis" / "bin" / "st"
SEED = os.environ.get("BATCHCAST_FUZZ_SEED", "63")
INPUTS = os.environ.get("BATCHCAST_FUZZ_INPUTS", "12")
CHECKS = "status_code_conformance,content_type_conformance,response_schema_conformance"
"""The document does not allow status 500; it allows 503 while models are loaded and after too long a wait."""


@pytest.mark.long
@pytest.mark.parametrize("private", [False, True], ids=["open", "private"])
def test_each_answer_conforms_to_the_document_and_none_is_a_failure(private: bool, tmp_path: Path) -> None:
    if not ST.exists():
        absent("schemathesis is not set up (make setup-workflows)")
    store = str(tmp_path / "store.db")
    build(store, jobs=600, private=private)
    with Process(load({"store": store}, {}), 1024) as server:
        host, port = server.address
        done = subprocess.run(
            [
                str(ST), "run", f"http://{host}:{port}/v1/openapi.json", "--seed", SEED, "--max-examples", INPUTS,
                "--phases", "examples,coverage,fuzzing", "--checks", CHECKS, "--workers", "1", "--no-color",
                "--max-time", "40", "--request-timeout", "60", "--warnings", "off",
            ],
            cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
    cases = re.search(r"(\d+) generated", done.stdout)
    assert done.returncode == 0, done.stdout[-6000:]
    assert cases is not None, done.stdout[-2000:]
    assert int(cases[1]) > 20, "hardly anything was asked"
    assert b"Traceback" not in server.log
    assert b"defect" not in server.log
