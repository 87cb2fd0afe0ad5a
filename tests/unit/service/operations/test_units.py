"""Tests the units that `batchcast install` writes: for this site, sandboxed as needed, and without a store's name."""

from __future__ import annotations

import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from click.testing import CliRunner

from batchcast.cli.main import cli
from batchcast.cli.site.setup import SERVICES, unit_files


def installed(folder: Path, *words: str, **env: str) -> dict[str, str]:
    place = folder / "units"
    clean = {"BATCHCAST_CONFIG": "/dev/null", "SLURM_CONF": "", **env}
    done = CliRunner().invoke(cli, ["install", "-o", str(place), *words], env=clean)
    assert done.exit_code == 0, done.output
    return {path.name: path.read_text() for path in place.iterdir()} | {"": done.output}


@pytest.mark.parametrize("name", SERVICES)
def test_units_write_for_nobody_else_and_name_no_store(name: str, tmp_path: Path) -> None:
    lines = installed(tmp_path, "--private-jobs", "yes")[name].splitlines()
    assert "UMask=0077" in lines
    assert not [line for line in lines if "BATCHCAST_STORE" in line or "BATCHCAST_LISTEN" in line]


def test_the_end_of_the_service_is_not_the_end_of_what_it_works_out(tmp_path: Path) -> None:
    """Otherwise systemd signals every process of a unit, and clients that were being answered got a 503 (make
    try-deb)."""
    assert "KillMode=mixed" in installed(tmp_path, "--private-jobs", "yes")["batchcast-serve.service"].splitlines()


def test_where_nobody_is_hidden_everybody_may_read_the_store(tmp_path: Path) -> None:
    texts = installed(tmp_path, "--private-jobs", "no")
    assert all("UMask=0022" in texts[name].splitlines() for name in SERVICES)
    assert not any("0077" in line for name in SERVICES for line in texts[name].splitlines() if line.startswith("UMask"))
    notes = [line for name in SERVICES for line in texts[name].splitlines() if line.startswith("# Every user can read")]
    assert len(notes) == len(SERVICES)
    assert all("To restrict it to the owner: UMask=0077" in note for note in notes)
    assert not any("Only the store's owner" in texts[name] for name in SERVICES), "the note on a closed store is gone"


def test_where_nobody_can_be_asked_they_are_closed(tmp_path: Path) -> None:
    texts = installed(tmp_path, PATH=str(tmp_path))
    assert all("UMask=0077" in texts[name].splitlines() for name in SERVICES)
    assert "scontrol is not installed on this machine" in texts[""]


def test_a_site_whose_slurm_and_store_are_elsewhere(tmp_path: Path) -> None:
    (slurm := tmp_path / "slurm").mkdir()
    (slurm / "squeue").write_text("#!/bin/sh\n")
    (slurm / "squeue").chmod(0o755)
    store = "postgresql://batchcast@db.example/batchcast"
    words = {"PATH": str(slurm), "SLURM_CONF": "/opt/slurm/etc/slurm.conf", "BATCHCAST_STORE": store}
    texts = installed(tmp_path, "--private-jobs", "yes", **words)
    collect = texts["batchcast-collect.service"].splitlines()
    assert f"Environment=PATH={slurm}:/usr/local/bin:/usr/bin:/bin" in collect
    assert "Environment=SLURM_CONF=/opt/slurm/etc/slurm.conf" in collect
    assert "PrivateNetwork=no" in texts["batchcast-serve.service"].splitlines()
    assert not [line for line in texts["batchcast-serve.service"].splitlines() if line == "PrivateNetwork=yes"]


def test_they_start_the_program_that_wrote_them(tmp_path: Path) -> None:
    import sys

    texts = installed(tmp_path, "--private-jobs", "yes")
    for name, verb in zip(SERVICES, ("collect", "site export", "serve")):
        assert f"ExecStart={sys.prefix}/bin/batchcast {verb} " in texts[name]
    assert "systemctl daemon-reload" in texts[""]


def test_a_python_that_the_collectors_user_cannot_start_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A venv in /opt made with root's own Python can be started by root only."""
    import sys

    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert "its Python lies in a home" not in installed(tmp_path, "--private-jobs", "yes")[""]
    monkeypatch.setattr(sys, "base_prefix", "/root/.pyenv/versions/3.11.7")
    said = installed(tmp_path, "--private-jobs", "yes")[""]
    assert "its Python lies in a home directory (/root/.pyenv/versions/3.11.7)" in said


def test_the_settings_file_lists_every_setting_with_its_default(tmp_path: Path) -> None:
    from batchcast.service.settings import NAMES, load

    text = unit_files("b", is_open=False, is_remote=False)["batchcast.toml"]
    assert load({}, {"BATCHCAST_CONFIG": written(tmp_path, text)}).overruled == ()
    lines = [line.removeprefix("# ") for line in text.splitlines()]
    given = [line for line in lines if line.partition(" = ")[0] in NAMES]
    path = written(tmp_path, "\n".join(given))
    loaded = load({}, {"BATCHCAST_CONFIG": path})
    assert [name for name, place in loaded.source.items() if place == path] == list(NAMES)
    built_in = load({}, {"BATCHCAST_CONFIG": "/dev/null", "HOME": str(tmp_path)})
    assert all(loaded[name] == built_in[name] for name in NAMES if name != "store")


def written(folder: Path, text: str) -> str:
    path = folder / "b.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", ["serve", "collect", "export"])
def test_systemd_finds_little_that_a_taken_over_service_could_reach(unit: str) -> None:
    """systemd's own measure of a unit's sandbox, from 0 to 10: above 5 it says MEDIUM, above 7 EXPOSED."""
    file = files("batchcast.service").joinpath("units", f"batchcast-{unit}.service")
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=30", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
