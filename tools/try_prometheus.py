"""Try alert rules and dashboards in a real Prometheus with a real service: python -m tools.try_prometheus STORE.

Needs Debian's package prometheus. promtool checks and tests the rules first. Ends with 1 if a rule is not loaded, a
query of a dashboard is refused, or a query that must have an answer for any store has none.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from batchcast.service.http.server import Server
from batchcast.service.settings import load

from .dashboards import questions

FOLDER = Path(__file__).parents[1] / "contrib" / "prometheus"
NEEDS_HISTORY = ("rate(", "deriv(", "histogram_quantile(")
"""Queries about a change: they have an answer only after Prometheus has read for a while and something happened."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def asked(port: int, target: str) -> Any:
    with urlopen(f"http://127.0.0.1:{port}/api/v1/{target}", timeout=10) as answer:
        return json.load(answer)["data"]


def until(done: Callable[[], bool], seconds: float) -> bool:
    """Return whether the condition became true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if done():
                return True
        except OSError:
            pass
        time.sleep(0.5)
    return False


def configured(folder: Path, target: str) -> Path:
    """Write the shipped configuration, with this service, read every second."""
    shutil.copy(FOLDER / "alerts.yml", folder)
    text = (FOLDER / "prometheus.yml").read_text(encoding="utf-8")
    text = text.replace("127.0.0.1:9742", target).replace("scrape_interval: 30s", "scrape_interval: 1s")
    (path := folder / "prometheus.yml").write_text(text, encoding="utf-8")
    return path


def tried(store: str) -> list[str]:
    """Return what is wrong; empty if nothing is."""
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        subprocess.run(["promtool", *words], cwd=FOLDER, check=True)
    with (
        tempfile.TemporaryDirectory() as name,
        Server(load({"store": store}, {}), "127.0.0.1:0", lambda _: None) as server,
    ):
        folder, port = Path(name), free_port()
        config = configured(folder, f"127.0.0.1:{server.address[1]}")
        subprocess.run(["promtool", "check", "config", str(config)], check=True, stdout=subprocess.DEVNULL)
        words = [
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with subprocess.Popen(["prometheus", *words], stderr=subprocess.DEVNULL) as running:
            try:
                return found(port)
            finally:
                running.terminate()


def found(port: int) -> list[str]:
    """Return what a running Prometheus says about rules, the service, and every query."""
    there = "query?query=" + quote('count(batchcast_forecast_coverage) and on() up{job="batchcast"} == 1')
    if not until(lambda: bool(asked(port, there)["result"]), 120):
        return ["nothing was read of the service within two minutes"]
    wrong = []
    rules = [rule for group in asked(port, "rules")["groups"] for rule in group["rules"]]
    wrong += [
        f"rule {rule['name']}: {rule['health']} {rule.get('lastError', '')}"
        for rule in rules
        if rule["health"] == "err"
    ]
    print(f"{len(rules)} rules loaded; not silent: {[rule['name'] for rule in rules if rule['state'] != 'inactive']}")
    for name, exprs in questions().items():
        answers = {expr: asked(port, f"query?query={quote(expr)}")["result"] for expr in exprs}
        empty = [expr for expr, result in answers.items() if not result]
        wrong += [
            f"{name}: no answer to {expr}"
            for expr in empty
            if not expr.startswith(NEEDS_HISTORY) and "(rate(" not in expr
        ]
        print(f"{name}: {len(exprs)} questions asked, {len(exprs) - len(empty)} with an answer")
    return wrong


if __name__ == "__main__":
    problems = tried(sys.argv[1])
    print("\n".join(problems) or "every rule loaded, every question taken")
    sys.exit(bool(problems))
