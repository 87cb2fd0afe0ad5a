"""Tests the widget for Open OnDemand, rendered by a real Ruby against a real service."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from tests.unit.service.http.test_client import Made, asked_until_loaded

from batchcast.client import Client
from batchcast.formats.sighting import Sighting
from batchcast.predict.protocol import Grounds, Prediction
from batchcast.service.http.server import Server
from batchcast.service.settings import load
from batchcast.store import clock_jobs, history
from batchcast.store.database import Store

WIDGET = Path(__file__).parents[3] / "contrib" / "ondemand"
ME, NOBODY = pwd.getpwuid(os.getuid()).pw_name, pwd.getpwuid(65534).pw_name


@pytest.fixture(scope="module")
def ruby() -> str:
    place = shutil.which("ruby")
    if place is None:
        reason = "no Ruby on this machine (Debian package ruby)"
        pytest.fail(reason) if os.environ.get("BATCHCAST_REQUIRE_REAL") == "1" else pytest.skip(reason)
    return str(place)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A private site where this user and nobody have one waiting job each."""
    now = time.time()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = f"{folder}/s.db"
        store = Store(path, create=True)
        jobs = [
            Sighting(str(100 + k), str(100 + k), now - 60, "PENDING", reason="Resources",
                     requested={"user_id": user, "partition_id": "main", "job_name": f"<b>job of {user}</b>"})
            for k, user in enumerate((ME, NOBODY))
        ]  # fmt: skip
        with store.begin() as connection:
            history.take_in(connection, "c", jobs, now)
            clock_jobs.write_meta(connection, "c", site={"private": True, "partitions": {}}, cycle_at=now,
                                  told_until=now, wait_methods=["m"])  # fmt: skip
            for row in connection.scalars(text("SELECT row FROM jobs")).all():
                said = Prediction(90.0, (0.5, 0.9), (90.0, 7200.0), "why", Grounds.CLASS)
                clock_jobs.issue(connection, [{"row": row, "kind": "wait", "moment": "submit", "method": "m",
                                               "as_of": now - 60, "issued_at": now, "prediction": said}])  # fmt: skip
        store.close()
        with Server(load({"store": path, "private": "yes"}, {}), f"{folder}/api.sock", lambda _: None) as opened:
            yield opened


def rendered(ruby: str, socket: object, *before: str, file: str = "") -> str:
    words = [*before, ruby, str(WIDGET / "render.rb"), *file.split()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60,
                          env={**os.environ, "BATCHCAST_SOCKET": str(socket), "LC_ALL": "C.UTF-8"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_who_is_signed_in_sees_own_jobs_and_names_are_text(ruby: str, server: Server) -> None:
    page = rendered(ruby, server.address)
    assert f"&lt;b&gt;job of {ME}&lt;/b&gt;" in page
    assert "<b>" not in page
    clock = r"(\w{3} \d\d \w{3} )?\d\d:\d\d"
    assert re.search(rf"^ *(any moment|likely (at once|{clock}), 9 in 10 by {clock})$", page, re.M), "as people read it"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_on_a_private_site_the_socket_knows_who_asks(ruby: str, server: Server) -> None:
    page = rendered(ruby, server.address, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    assert f"job of {NOBODY}" in page
    assert f"job of {ME}" not in page


def test_a_service_that_is_away_is_a_sentence(ruby: str, tmp_path: Path) -> None:
    assert "do not answer at the moment" in rendered(ruby, tmp_path / "nowhere")


ARRAY = """
require "{place}/initializers/batchcast"
rows = (1..12).map {{ |k| {{"job_id" => "80_#{{k}}", "reason_in_words" => "w", "likely_start_s" => nil}} }}
rows[4].update("likely_start_s" => Time.now.to_i, "by_90_start_s" => Time.now.to_i + 30)
answer = BatchcastJobs.shown([{{"job_id" => "7", "reason_in_words" => "w"}}] + rows, [])
puts answer.jobs.map {{ |job, tasks| [job["job_id"], tasks, BatchcastJobs.start(job, tasks)].join(" ") }}, answer.more
"""


def test_tasks_of_an_array_that_wait_alike_are_one_line(ruby: str) -> None:
    done = subprocess.run([ruby, "-e", ARRAY.format(place=WIDGET)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["7 1 start not known", "80_5 12 the first: any moment", "0"]


CODE = """
require "yaml"
require "{place}/initializers/batchcast"
now = Time.new(2030, 1, 1, 12, 0, 0)
form = YAML.load(ARGV[0])["attributes"]["size"]["options"]
puts form.to_json, *[7200, 0].map {{ |later| BatchcastJobs.in_words(now.to_i, now.to_i + later, now) }}
"""


def form_of(ruby: str, socket: object) -> list[str]:
    """Return the options of the form's select as JSON, and two starts in words."""
    page = rendered(ruby, socket, file="apps/jupyter/form.yml.erb")
    done = subprocess.run([ruby, "-e", CODE.format(place=WIDGET), page], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_without_an_answer_a_form_has_its_sizes_alone(ruby: str, tmp_path: Path) -> None:
    options, at_once_or_late, at_once = form_of(ruby, tmp_path / "nowhere")
    assert json.loads(options) == [
        ["4 cores, 8 hours", "--ntasks=4 --time=8:00:00 --mem=8G"],
        ["32 cores, 2 hours", "--ntasks=32 --time=2:00:00 --mem=64G"],
    ]
    assert (at_once_or_late, at_once) == ("likely at once, 9 in 10 by 14:00", "starts at once")


@pytest.mark.long
def test_a_form_says_when_each_size_would_start(ruby: str, made: Made, tmp_path: Path) -> None:
    with Server(made(False), str(tmp_path / "api.sock"), lambda _: None) as opened:
        asked_until_loaded(Client(str(opened.address), patience_s=20.0), [4], "user1")
        options = json.loads(form_of(ruby, opened.address)[0])
    assert all(": likely " in shown or ": starts at once" in shown for shown, _ in options), options
    assert options[0][1] == "--ntasks=4 --time=8:00:00 --mem=8G"
