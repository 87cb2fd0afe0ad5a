"""Tests that verbs ask the service's socket as the user if the user may not read the store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from batchcast.formats.sighting import Sighting
from batchcast.service.http.server import Server
from batchcast.service.settings import load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store
from batchcast.store.schema import jobs

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
NOBODY = __import__("pwd").getpwuid(65534).pw_name


@pytest.fixture(scope="module")
def closed() -> Iterator[dict[str, str]]:
    """A private site: only its owner may read the store, a service answers, and the environment is an ordinary
    user's."""
    now = time.time()
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        inner = Path(place) / "inner"
        inner.mkdir(mode=0o700)
        store, listen = inner / "s.db", str(Path(place) / "api.sock")
        opened = Store(str(store), create=True)
        seen = [
            Sighting(str(10 + k), str(10 + k), now - 9000 + k, "COMPLETED", start_time=now - 8000 + k,
                     end_time=now - 7000 + k, requested={"user_id": (NOBODY, "bob")[k % 2], "partition_id": "main",
                     "job_name": "relax", "req_time": 7200.0, "req_procs": 4.0}, allocated={"alloc_procs": 4.0})
            for k in range(20)
        ]  # fmt: skip
        seen += [Sighting(str(100 + k), str(100 + k), now - 60, "PENDING", reason="Resources",
                          requested={"user_id": (NOBODY, "bob")[k], "partition_id": "main", "job_name": "relax"})
                 for k in range(2)]  # fmt: skip
        with opened.begin() as connection:
            history.take_in(connection, "c", seen, now)
            connection.execute(
                update(jobs)
                .where(jobs.c.open == 0)
                .values(told=7, told_start=jobs.c.start_time, told_end=jobs.c.end_time)
            )
            clock_jobs.write_meta(
                connection, "c", site={"private": True, "partitions": {}}, cycle_at=now, told_until=now
            )
        store.chmod(0o600)
        settings = load({"store": str(store), "listen": listen, "private": "yes"}, {})
        with Server(settings, listen, lambda _: None):
            yield {"PATH": os.environ["PATH"], "BATCHCAST_CONFIG": os.devnull, "BATCHCAST_STORE": str(store),
                   "BATCHCAST_LISTEN": listen, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}  # fmt: skip


def asked(closed: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    command = [*nobody, sys.executable, "-c", "from batchcast.cli.main import entry; entry()", *words]
    return subprocess.run(command, env=closed, capture_output=True, text=True, check=False, cwd="/", timeout=60)


def test_walltime_and_report_are_of_the_askers_own_jobs(closed: dict[str, str]) -> None:
    done = asked(closed, "walltime", "--name", "relax*")
    assert "#SBATCH --time=" in done.stdout, done.stderr
    done = asked(closed, "report", "-S", "now-1days")
    assert "relax" in done.stdout, done.stderr


def test_nobody_elses_are_shown(closed: dict[str, str]) -> None:
    for words in (("report", "-u", "bob"), ("walltime", "--name", "r*", "-u", "bob"), ("start", "-u", "bob")):
        done = asked(closed, *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert "jobs are private here" in done.stderr


def test_start_and_accuracy_ask_there_too(closed: dict[str, str]) -> None:
    done = asked(closed, "start")
    assert done.returncode == 3
    assert "there is no prediction for 100 yet" in done.stderr, "the service knows the waiting job of this user"
    assert "no prediction of c" in asked(closed, "accuracy").stderr


def test_without_a_service_it_is_said_whom_to_ask(closed: dict[str, str]) -> None:
    done = asked({**closed, "BATCHCAST_LISTEN": "/nowhere/api.sock"}, "start")
    assert done.returncode == 4
    assert "you cannot read the store" in done.stderr


def test_a_script_is_asked_about_there_too(closed: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        (script := Path(place) / "job.sh").write_text("#SBATCH -p main -n 4 -t 1:00:00\n#SBATCH -o out\n")
        done = asked(closed, "start", "--test", str(script), "-c", "2", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["results"][0]["likely_wait_s"] > 0
    assert said["results"][0]["name"] == "job.sh"
    assert any("8 processors, limit 1:00:00" in note for note in said["warnings"])
