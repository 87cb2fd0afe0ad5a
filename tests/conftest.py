"""What tests share: where the real logs lie, and the rule that a missing real part is a reason, not a silence."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

for name, examples in (("house", 30), ("deep", 200)):  # `make test-all` goes deep
    settings.register_profile(
        name, deadline=None, max_examples=examples, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile("house")

ROOT = Path(__file__).parent.parent
SHARED = Path(os.environ.get("BATCHCAST_SHARED", ROOT.parent / "shared"))
REQUIRE_REAL = os.environ.get("BATCHCAST_REQUIRE_REAL") == "1"


def absent(reason: str) -> None:
    """Skip with the reason; where the real parts are required, fail instead."""
    if REQUIRE_REAL:
        pytest.fail(f"BATCHCAST_REQUIRE_REAL=1, but {reason}")
    pytest.skip(reason)


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
