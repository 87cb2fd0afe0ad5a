"""The guides about the service, followed from the first line to the last: connections, the page, and uninstalling.

Files go below a folder of the test instead of `/`: `systemctl`, `systemd-sysusers` and `userdel` can work on a folder.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from follow import Follower
from guide import ROOT, Shell, lines_of, settings_of
from slurm_lab import Lab, _free_ports
from test_guides import PATIENCE, site

__all__ = ["site"]
pytestmark = [pytest.mark.slurm, pytest.mark.lab, pytest.mark.slow, pytest.mark.usefixtures("lab_here")]
EVERY = "batchcast|curl|TOKEN=|cp |mkdir|cd |systemctl|rm |userdel|sacctmgr|python"
Site = tuple[Lab, Follower, Shell]


@contextlib.contextmanager
def serving(shell: Shell, line: str) -> Iterator[None]:
    """Run the line of a service until the block ends."""
    service = subprocess.Popen(["/bin/sh", "-c", f"exec {shell.here(line)}"], env=shell.env, cwd=shell.place)
    try:
        yield
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait(60)


def below(root: Path) -> Mapping[str, str]:
    """The words by which paths and programs of a guide stay below a folder."""
    folders = {f" /{name}/": f" {root}/{name}/" for name in ("etc", "usr", "opt", "var", "run")}
    programs = {
        "systemctl daemon-reload": "true",
        "systemctl enable --now": f"systemctl --root={root} enable",
        "systemctl disable --now": f"systemctl --root={root} disable",
        "&& systemd-sysusers": f"&& systemd-sysusers --root={root}",
        "userdel batchcast": f"userdel --prefix {root} batchcast",
    }
    return folders | programs


def test_scripts_tokens_prometheus_and_ondemand_are_connected_as_the_guide_says(site: Site, tmp_path: Path) -> None:
    lab, follower, shell = site
    root, port = tmp_path / "root", _free_ports(1)[0]
    for folder in ("etc/systemd/system", "etc/ood/config/apps/dashboard/initializers", "etc/ood/config/ondemand.d"):
        (root / folder).mkdir(parents=True)
    shell.words |= {
        "contrib/": f"{ROOT}/contrib/",
        "/run/batchcast/api.sock": str(tmp_path / "api.sock"),
        "https://batchcast.example.org": f"http://127.0.0.1:{port}",  # curl sends a token there
        "127.0.0.1:8642": f"127.0.0.1:{port}",
        "create ada": "create root",
        "714fe363": "$(batchcast site token list | awk 'END { print $1 }')",
        **below(root),
    }
    follower.start()
    lab.wait(follower.has_looked, "a cycle", PATIENCE)
    lines = lines_of("connect.md", EVERY)
    with (
        serving(shell, "batchcast serve --quiet --listen /run/batchcast/api.sock"),
        serving(shell, "batchcast serve --quiet --listen 127.0.0.1:8642"),
    ):
        asks = [line for line in lines if line.startswith("curl --unix-socket")]
        lab.wait(lambda: "results" in shell.run(asks[0], (0, 7)), "an answer over the socket", PATIENCE)
        lab.wait(lambda: "schema" in shell.run("curl -s http://127.0.0.1:8642/v1/health", (0, 7)), "a port", PATIENCE)
        said = shell.follow(lines)
        with_token = next(line for line in lines if "Bearer" in line)
        assert all(json.loads(said[line])["schema"].startswith("batchcast/start/") for line in (*asks[:2], with_token))
        assert [json.loads(said[line])["schema"].split("/")[1] for line in asks[2:]] == ["walltime", "accuracy"]
        assert "nightly" in said["batchcast site token list"]
        assert "revoked" in shell.run("batchcast site token list")
        status = "curl -s -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer none' http://127.0.0.1:8642/v1/start"
        assert shell.run(status) == "401"
    assert (root / "etc/systemd/system/sockets.target.wants/batchcast-metrics.socket").is_symlink()
    assert {path.name for path in (root / "etc/ood").rglob("*.*") if path.is_file()} >= {
        "batchcast.rb",
        "batchcast.yml",
    }


def test_the_page_is_tried_as_its_guide_says(site: Site, tmp_path: Path) -> None:
    lab, _, shell = site
    port = _free_ports(1)[0]
    shell.words = {"/tmp/demo.db": str(tmp_path / "demo.db"), "127.0.0.1:8642": f"127.0.0.1:{port}",
                   "python -m": f"PYTHONPATH={ROOT} {sys.executable} -m"}  # fmt: skip
    make, serve = lines_of("page.md", EVERY)
    shell.run(make, seconds=1200.0)  # half a minute on a machine that does nothing else
    with serving(shell, serve):
        url = "http://127.0.0.1:8642"
        lab.wait(lambda: "carl" in shell.run(f"curl -s '{url}/?user=carl'", (0, 7)), "the page", PATIENCE)
        for path in ("", "script", "accuracy", "cluster", "operators"):
            assert "</html>" in shell.run(f"curl -s --fail '{url}/{path}?user=carl'"), path
    config = tmp_path / "page.toml"
    config.write_text(settings_of("page.md"))
    shell.env["BATCHCAST_CONFIG"] = str(config)
    assert "X-Forwarded-User" in shell.run("batchcast doctor --settings")


def test_what_the_guide_of_installation_enables_the_guide_of_uninstalling_removes(site: Site, tmp_path: Path) -> None:
    lab, follower, shell = site
    root = tmp_path / "root"
    for folder in ("etc/systemd/system", "usr/lib/sysusers.d", "opt/batchcast/bin", "var/lib/batchcast", "run"):
        (root / folder).mkdir(parents=True)
    # sacctmgr asks about a user whom the machine does not know
    shell.words = {**below(root), "ACCOUNT": "physics", "user batchcast": "user sys"}
    *written, operator = lines_of("install.md", "batchcast install|cp |mkdir|systemctl|sacctmgr add")
    shell.follow(written)
    shell.run(operator)
    assert "sys" in lab.run("sacctmgr", "-nP", "show", "user", "format=user").split()
    assert (root / "etc/systemd/system/multi-user.target.wants/batchcast-collect.service").is_symlink()
    assert "batchcast" in (root / "etc/passwd").read_text()
    shell.env["BATCHCAST_STORE"] = follower.env["BATCHCAST_STORE"] = str(root / "var/lib/batchcast/store.db")
    follower.start()
    lab.wait(follower.has_looked, "a cycle", PATIENCE)
    off, *rest = lines_of("uninstall.md", EVERY)
    assert "no job has a planned limit or priority now" in shell.run(off)
    paths = [word for line in rest for word in shell.here(line).split() if word.startswith("/")]
    assert all(path.startswith(str(root)) for path in paths), "nothing of this machine"
    follower.kill(signal.SIGTERM)  # as `systemctl disable --now` stops it
    shell.follow(rest)
    assert not [str(path.relative_to(root)) for path in root.rglob("*batchcast*")]
    assert "batchcast" not in (root / "etc/passwd").read_text()
    assert "sys" not in lab.run("sacctmgr", "-nP", "show", "user", "format=user").split()
