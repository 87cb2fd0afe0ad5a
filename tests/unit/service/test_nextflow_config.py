"""Tests the configuration for Nextflow: a real Groovy runs its closures against a real service."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.unit.service.http.test_client import Made

import batchcast.client
from batchcast.service.answers.disclosure import Viewer
from batchcast.service.http import server as service
from batchcast.service.http.admission import Peer

pytestmark = pytest.mark.long
CONFIG = Path(__file__).parents[3] / "contrib" / "nextflow" / "batchcast.config"
ASK = """
import groovy.json.*
def found = new ConfigSlurper().parse(new File(args[0]).toURI().toURL())
def params = [batchcast_client: args[1]]
def asked = { closure, task -> closure.delegate = [task: task, params: params]
    closure.resolveStrategy = Closure.DELEGATE_FIRST; closure() }
new JsonSlurper().parse(new File(args[2])).each { task ->
    def words = ['time', 'memory', 'errorStrategy'].collectEntries { [it, asked(found.process[it], task)] }
    for (int tries = 0; task.patient && tries < 30 && words.time == '7200 s'; tries++) {
        words.time = asked(found.process.time, task)      // 200 ms are short where tests run beside others
    }
    words.jobName = asked(found.executor.jobName, task)
    println JsonOutput.toJson(words)
}
"""


@pytest.fixture(scope="module")
def groovy() -> dict[str, str]:
    """The environment in which Groovy starts."""
    java = shutil.which("java")
    environment = {**os.environ, "JAVA_HOME": str(Path(java).resolve().parents[1])} if java else dict(os.environ)
    if not shutil.which("groovy") or subprocess.run(["groovy", "--version"], env=environment, check=False).returncode:
        reason = "no Groovy on this machine (Debian package groovy)"
        pytest.fail(reason) if os.environ.get("BATCHCAST_REQUIRE_REAL") == "1" else pytest.skip(reason)
    return environment


def requests(environment: dict[str, str], folder: Path, address: str, *tasks: dict[str, Any]) -> list[dict[str, str]]:
    """Return the results of the configuration's closures for each task."""
    (folder / "ask.groovy").write_text(ASK)
    (folder / "tasks.json").write_text(json.dumps(tasks))
    done = subprocess.run(
        ["groovy", "ask.groovy", str(CONFIG), batchcast.client.__file__, "tasks.json"], cwd=folder,
        env={**environment, "BATCHCAST_SERVICE": address}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_task_asks_for_what_its_history_needs_and_a_retry_for_what_it_held_and_a_half(
    groovy: dict[str, str],
    made: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = {"process": "FLOW:SUB:relax", "cpus": 4, "attempt": 1, "exitStatus": None, "ext": {}, "previousTrace": None}
    late = {**first, "attempt": 2, "exitStatus": 140, "previousTrace": {"memory": 2 << 30}}
    full = {**late, "exitStatus": 137}
    fuller = {**full, "attempt": 3, "previousTrace": {"memory": 15 << 30}, "ext": {"limit_s": 600}}
    other = {**first, "exitStatus": 1, "process": "never_seen", "ext": {"limit_s": 300, "memory_mib": 500}}
    with service.Server(made(False), str(tmp_path / "api.sock"), lambda _: None) as server:
        monkeypatch.setattr(server.admission, "peer", lambda _: Peer(Viewer("user1"), False, "user1"))
        tasks = ({**first, "patient": True}, late, full, fuller, other)
        said = requests(groovy, tmp_path, str(server.address), *tasks)
    assert 100 <= int(said[0]["time"].removesuffix(" s")) < 7200
    assert [one["time"] for one in said[1:4]] == ["7200 s", "7200 s", "600 s"], "as written from the second attempt on"
    assert [one["memory"] for one in said] == ["16000 MB", "16000 MB", "3072 MB", "16000 MB", "500 MB"]
    assert [one["errorStrategy"] for one in said] == ["finish", "retry", "retry", "retry", "finish"]
    assert {one["jobName"] for one in said[:4]} == {"relax"}
    alone = requests(groovy, tmp_path, str(tmp_path / "nobody.sock"), first)
    assert (alone[0]["time"], alone[0]["memory"]) == ("7200 s", "16000 MB")
