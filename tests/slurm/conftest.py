"""Real Slurm, MariaDB and PostgreSQL, or a reason why not."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def absent(reason: str) -> None:
    """The house's rule for missing real parts (tests/conftest.py)."""
    spec = importlib.util.spec_from_file_location("house_conftest", Path(__file__).parent.parent / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    house = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(house)
    house.absent(reason)


@pytest.fixture(scope="session")
def lab_possible() -> None:
    """Skip (or fail) unless a lab on real time can run here."""
    from slurm_lab import missing

    reason = missing()
    if reason:
        absent(reason)


@pytest.fixture(scope="session")
def fast_lab_possible() -> None:
    """Skip (or fail) unless an accelerated lab can run here."""
    from slurm_lab import missing

    reason = missing(speed=60)
    if reason:
        absent(reason)
