"""Shared fixtures: the folder of real logs, and the rule that a test without its real part skips with a reason."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

for name, examples in (("house", 30), ("deep", 200)):  # `make test-all` uses the profile `deep`
    settings.register_profile(
        name, deadline=None, max_examples=examples, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("house")

ROOT = Path(__file__).parent
SHARED = Path(os.environ.get("BATCHCAST_SHARED", ROOT.parent / "shared"))
REQUIRE_REAL = os.environ.get("BATCHCAST_REQUIRE_REAL") == "1"


def absent(reason: str) -> None:
    """Skip the test with this reason; if real parts are required, fail instead."""
    if REQUIRE_REAL:
        pytest.fail(f"BATCHCAST_REQUIRE_REAL=1, but {reason}")
    pytest.skip(reason)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests of LightGBM if the system lacks libgomp, which comes with compilers and not with PyPI's wheel."""
    try:
        ctypes.CDLL("libgomp.so.1")
    except OSError as error:
        if not REQUIRE_REAL:
            reason = f"LightGBM cannot be loaded here: {error} (Debian package libgomp1)"
            for item in items:
                settings = getattr(item, "callspec", None)
                words = [str(value) for value in settings.params.values()] if settings else []
                if item.get_closest_marker("lightgbm") or any(w.startswith(("boosted", "forecast:")) for w in words):
                    item.add_marker(pytest.mark.skip(reason=reason))


OURS = ("BATCHCAST_", "HOME", "NUMBA_", "PATH", "PBS", "PYTHONPATH", "SLURM", "SQUEUE", "TMPDIR", "TZ", "XDG_")


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Fail a test that leaves another environment than it found, because later tests of the same process would depend
    on the order of tests. Only variables that batchcast and Slurm read count: libraries set others when they load."""
    before = dict(os.environ)
    yield
    changed = {name for name, _ in before.items() ^ os.environ.items() if name.startswith(OURS)}
    if changed:
        pytest.fail(f"the test leaves other environment variables: {', '.join(sorted(changed))}")


@pytest.fixture
def install_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str, str], None]]:
    """Return a function that installs a package with one reader: name and location of its entry point, and its code."""
    from batchcast.plug_ins import installed

    def install(name: str, place: str, code: str) -> None:
        module = place.partition(":")[0]
        (tmp_path / f"{module}.py").write_text(code, encoding="utf-8")
        about = tmp_path / f"{module}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[batchcast.formats]\n{name} = {place}\n")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, module, raising=False)
        installed.cache_clear()

    yield install
    installed.cache_clear()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real logs and reference results."""
    if not (SHARED / "traces").is_dir():
        pytest.skip(
            f"no folder {SHARED.name}/traces beside the project (or in BATCHCAST_SHARED): real logs are not in the repo"
        )
    return SHARED


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a real Chromium."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        absent("no Chromium on this machine (Debian package chromium)")
    assert path is not None
    return path
