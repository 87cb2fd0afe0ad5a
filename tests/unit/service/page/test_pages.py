"""Tests the pages as two users of a private site see them: each sees only own jobs."""

from __future__ import annotations

import http.client
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from batchcast.service.http.server import Server
from batchcast.service.settings import Settings, load

pytestmark = pytest.mark.long  # the fixture first learns from 1,100 jobs
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to speak for other users as a proxy")
PEOPLE = ("ada", "bela", "carl", "dora", "emil", "fritz", "gerda", "hanna", "jana", "kurt")
PAGES = ("/", "/jobs", "/script", "/accuracy", "/cluster", "/operators")


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[Settings, Server]]:
    """A private site, reached through a proxy that runs as nobody and names the user."""
    from tools.demo_site import build

    proxy = __import__("pwd").getpwuid(65534).pw_name
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        store = str(Path(place) / "s.db")
        build(store, jobs=1500, seed=9, private=True)
        Path(store).chmod(0o600)
        settings = load({"store": store, "private": "yes", "proxy_from": proxy, "proxy_header": "X-User"}, {})
        with Server(settings, str(Path(place) / "api.sock"), lambda _: None) as server:
            yield settings, server


_ASK = """
import http.client, json, socket, sys
for line in sys.stdin:
    user, method, target, body = json.loads(line)
    c = http.client.HTTPConnection("localhost", timeout=60)
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.connect(sys.argv[1])
    headers = {"X-User": user} | ({"Content-Type": "application/x-www-form-urlencoded"} if body else {})
    c.request(method, target, body or None, headers)
    a = c.getresponse()
    print(json.dumps([a.status, a.read().decode()]), flush=True)
"""


@pytest.fixture(scope="module")
def ask(site: tuple[Settings, Server]) -> Iterator[object]:
    """Ask as a user, through the proxy."""
    import json

    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", _ASK]
    with subprocess.Popen([*command, str(site[1].address)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          cwd="/") as proxy:  # fmt: skip

        def asked(user: str, target: str, method: str = "GET", body: str = "") -> tuple[int, str]:
            assert proxy.stdin is not None
            assert proxy.stdout is not None
            proxy.stdin.write(json.dumps([user, method, target, body]) + "\n")
            proxy.stdin.flush()
            status, text = json.loads(proxy.stdout.readline())
            return status, text

        yield asked
        proxy.communicate("")


def names_in(text: str, but: str) -> set[str]:
    return {name for name in PEOPLE if name != but and re.search(rf"\b{name}\b", text)}


@as_root
def test_each_sees_own_jobs_and_no_page_names_anybody_else(ask: object) -> None:
    assert callable(ask)
    for user in ("ada", "carl"):
        for place in PAGES:
            status, text = ask(user, place)
            assert status == 200, (place, text[:300])
            assert names_in(text, user) == set(), place
    own = ask("ada", "/")[1]
    assert "ada" in own
    assert 'class="jobs"' in own


@as_root
def test_nobody_gets_anothers_jobs_however_it_is_asked(ask: object) -> None:
    assert callable(ask)
    for place in ("/", "/jobs", "/jobs/stream"):
        status, text = ask("ada", f"{place}?user=carl")
        assert status == 403, (place, text[:500])
        assert 'class="jobs"' not in text
    ids = re.findall(r"script\?job=(\d+)", ask("carl", "/")[1])
    assert ids, "carl has waiting jobs"
    status, text = ask("ada", f"/script?job={ids[0]}")
    assert "jobs are private here" in text
    assert "carl" not in text
    other = ask("ada", "/script?job=99999999")[1]
    assert other.replace("99999999", ids[0]) == text, "nor whether there is such a job"


@pytest.mark.long
@as_root
def test_a_script_is_answered_with_what_would_start_sooner(ask: object) -> None:
    assert callable(ask)
    script = "#!/bin/sh\n#SBATCH --ntasks=512\n#SBATCH --time=1-00:00:00\nsrun x\n"
    status, text = ask("ada", "/script", "POST", urlencode({"script": script}))
    assert status == 200
    assert "Submitted now, it would start about" in text
    for change in ("--time=12:00:00", "--ntasks=256", "--partition=long"):
        assert change in text
    assert "Unchanged" in text
    assert "Where to submit it" in text
    assert "half the size" in text
    assert 'sbatch <span class="flag">--partition=' in text
    assert "Wohin abschicken?" in ask("ada", "/script?lang=de", "POST", urlencode({"script": script}))[1]
    assert "no partition" in ask("ada", "/script", "POST", urlencode({"partition": "nowhere"}))[1]
    assert "Traceback" not in ask("ada", "/script", "POST", urlencode({"time": "soon"}))[1]


@as_root
def test_what_is_too_large_or_sent_by_another_site_is_refused(site: tuple[Settings, Server], ask: object) -> None:
    assert callable(ask)
    assert ask("ada", "/script", "POST", urlencode({"script": "x" * 900_000}))[0] in (400, 413)
    connection = http.client.HTTPConnection("localhost", timeout=30)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(site[1].address))
    connection.request("POST", "/script", "time=1", {"Sec-Fetch-Site": "cross-site"})
    assert connection.getresponse().status == 403


@as_root
def test_what_comes_from_a_log_is_text(site: tuple[Settings, Server], ask: object) -> None:
    assert callable(ask)
    status, text = ask("ada", "/script", "POST", urlencode({"script": "#SBATCH --job-name=x</textarea><b>y"}))
    assert status == 200
    assert "<b>y" not in text
    status, text = ask("ada", "/?user=%3Cscript%3E")
    assert "<script>" not in text


def test_operators_and_prometheus_see_what_advice_came_to(site: tuple[Settings, Server]) -> None:
    """Ask as the service's own user, who sees everything."""
    from batchcast.service.operations.metrics import outcomes

    settings, server = site
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(server.address))
    connection.request("GET", "/operators")
    text = connection.getresponse().read().decode()
    assert "How the suggestions would have done" in text
    for method in ("calibrated", "kernel", "largest_recent"):
        assert f">{method}</td>" in text
    read = outcomes(settings.replaced(private="no"))
    rates = {
        (one.labels["kind"], one.labels["predictor"], one.labels["by"]): one.value
        for one in read if one.name == "advice_exceeded_ratio" and one.labels["partition"] == "all"
    }  # fmt: skip
    assert rates["limit", "calibrated", "advice"] <= 0.15
    assert rates["memory", "kernel", "advice"] <= 0.15
    assert ("limit", "calibrated", "users") in rates
    waits = {
        (one.labels["partition"], one.labels["size"], one.labels["quantile"]): one.value
        for one in read if one.name == "wait_seconds"
    }  # fmt: skip
    assert 0 <= waits["all", "all", "0.5"] <= waits["all", "all", "0.9"]
    assert {"all", "1"} < {size for _, size, _ in waits}
    told = [one.value for one in read if one.name == "wait_forecast_seconds"]
    assert len(told) == len(waits)
    hidden = [one for one in outcomes(settings.replaced(private="yes", least_users=1000)) if one.name == "waits"]
    assert hidden == []


@as_root
def test_a_limit_loads_nothing_that_only_waits_need(site: tuple[Settings, Server]) -> None:
    """The saved clock contains fitted models of waits; an answer about limits loads them and uses none."""
    from batchcast.store.place import clock_path

    store = site[0]["store"]
    kept = clock_path(store, "demo")
    assert b"tree_sizes" in kept.read_bytes(), "it holds a fitted model"
    code = (
        "import sys; sys.argv = ['batchcast', 'walltime', '--user', 'carl', '--name', '*']\n"
        "from batchcast.cli.main import entry\n"
        "try:\n    entry()\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "heavy = ('lightgbm', 'sklearn', 'scipy.stats', 'pandas', 'sqlalchemy')\n"
        "sys.exit(','.join(m for m in heavy if m in sys.modules) or 0)"
    )
    env = {**os.environ, "BATCHCAST_STORE": store, "BATCHCAST_CONFIG": os.devnull}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert "#SBATCH --time=" in done.stdout


@pytest.mark.parametrize(("known", "places"), [((None, 0.5, 1.0), "213.0,125.0 380.0,10.0"), ((0.9,), "46.0,33.0")])
def test_a_week_without_a_figure_moves_no_other(known: tuple[float | None, ...], places: str) -> None:
    from batchcast.service.page.routes import _templates

    nan = float("nan")
    weeks = [{"label": str(k), "coverage_90": nan if x is None else x, "coverage_50": nan} for k, x in enumerate(known)]
    drawn = str(_templates("en").get_template("plots.html.j2").module.over_time(weeks, "kept"))
    assert f'points="{places} "' in drawn
    assert drawn.count("<circle") == len(places.split())
