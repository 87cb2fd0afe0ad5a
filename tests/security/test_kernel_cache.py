"""Tests that the cache of compiled kernels belongs to this user, and that no file in a working directory can redirect
it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchcast.compiled import place
from batchcast.compiled.place import kernel_folder

SHOWS = """
from batchcast.predict.hazard.history_features import level_of
import numba
level_of(5.0, 31)
print(repr(numba.config.CACHE_DIR), numba.config.DISABLE_JIT, level_of.stats.cache_path)
"""


@pytest.fixture(autouse=True)
def _asked_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    kernel_folder.cache_clear()
    yield
    kernel_folder.cache_clear()


@pytest.mark.parametrize("first", ["", "import yaml\n", "import yaml, numba\n"])
def test_a_settings_file_in_the_working_directory_changes_nothing(tmp_path: Path, first: str) -> None:
    """numba reads a configuration file if YAML is installed; a program that imports either one first must not bypass
    the check."""
    pytest.importorskip("yaml")
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    setting = f"cache_dir: {hostile / 'kernels'}\n" + ("" if "numba" in first else "disable_jit: 1\n")
    (hostile / ".numba_config.yaml").write_text(setting)
    home = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"} | home
    done = subprocess.run(
        [sys.executable, "-c", first + SHOWS], cwd=hostile, env=environment, capture_output=True, text=True, check=True
    )
    named, is_off, path = done.stdout.rsplit(maxsplit=2)
    assert path.startswith(str(tmp_path / "cache" / "batchcast"))
    assert is_off == "0"
    assert "numba" in first or "hostile" not in named
    assert sorted(each.name for each in hostile.iterdir()) == [".numba_config.yaml"]


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
def test_under_any_umask_the_folder_is_its_owner_s_alone(
    umask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = os.umask(umask)
    try:
        folder = Path(kernel_folder())
    finally:
        os.umask(before)
    assert folder.is_relative_to(tmp_path / "cache")
    assert (tmp_path / "cache").stat().st_mode & 0o022 == 0
    assert folder.stat().st_mode & 0o077 == 0
    assert folder.parent.stat().st_mode & 0o022 == 0


@pytest.mark.parametrize("who", ["group", "others"])
def test_a_folder_that_others_can_write_to_is_not_read(
    who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = Path(kernel_folder())
    assert folder.is_relative_to(tmp_path / "cache")
    folder.chmod(0o770 if who == "group" else 0o707)
    kernel_folder.cache_clear()
    assert Path(kernel_folder()).is_relative_to(tmp_path / "temporary")


def test_a_shared_folder_above_it_is_no_place_unless_it_is_sticky(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who can write to a folder can replace ours inside it, unless the folder has the sticky bit."""
    shared = tmp_path / "shared"
    shared.mkdir()
    ways = {path: path.stat().st_mode for path in tmp_path.parents if path != Path("/") and path != Path("/tmp")}
    for path in ways:
        path.chmod(0o755)  # pytest's own folders are closed to other users, so everything below them is safe
    tmp_path.chmod(0o755)
    try:
        monkeypatch.setenv("XDG_CACHE_HOME", str(shared))
        for mode, is_used in ((0o2775, False), (0o777, False), (0o1777, True)):
            shared.chmod(mode)
            kernel_folder.cache_clear()
            assert Path(kernel_folder()).is_relative_to(shared) == is_used, oct(mode)
        shared.chmod(0o777)
        tmp_path.chmod(0o700)
        kernel_folder.cache_clear()
        assert Path(kernel_folder()).is_relative_to(shared), "nobody else gets to it"
    finally:
        for path, mode in ways.items():
            path.chmod(mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_root_with_another_user_s_home_does_not_run_what_lies_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under `sudo` if HOME remains the caller's home."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    folder = Path(kernel_folder())
    os.chown(folder, 4321, 4321)
    kernel_folder.cache_clear()
    assert not Path(kernel_folder()).is_relative_to(tmp_path / "home")
    os.chown(folder, 0, 0)
    os.chown(tmp_path / "home", 4321, 4321)
    kernel_folder.cache_clear()
    assert not Path(kernel_folder()).is_relative_to(tmp_path / "home")


def test_a_home_that_cannot_be_written_to_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nobody-writes-here")
    assert Path(kernel_folder()).is_relative_to(tmp_path / "temporary")
    assert place.fingerprint()
