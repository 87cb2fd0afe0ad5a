"""Fixtures with real Slurm, MariaDB and PostgreSQL; without them a test skips with the reason."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "lab"))

from places import NEWER


def absent(reason: str) -> None:
    """The project's rule for missing real parts (conftest.py)."""
    spec = importlib.util.spec_from_file_location("house_conftest", Path(__file__).parents[2] / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    house = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(house)
    house.absent(reason)


@pytest.fixture(params=["here", pytest.param("newer", marks=pytest.mark.slow)])
def lab_possible(request: pytest.FixtureRequest) -> Iterator[None]:
    """A lab in real time on this machine's Slurm and, in `make test-lab-all`, on the newer Slurm of `newer.sh`."""
    yield from labs_on(request.param, speed=1.0)


@pytest.fixture(params=["here", "newer"])
def fast_lab_possible(request: pytest.FixtureRequest) -> Iterator[None]:
    """An accelerated lab on each Slurm; skips (or fails) if the lab cannot run."""
    yield from labs_on(request.param, speed=60.0)


@pytest.fixture
def fast_lab_here() -> Iterator[None]:
    """An accelerated lab on this machine's Slurm alone."""
    yield from labs_on("here", speed=60.0)


@pytest.fixture
def lab_here() -> Iterator[None]:
    """A lab in real time on this machine's Slurm alone."""
    yield from labs_on("here", speed=1.0)


def labs_on(where: str, speed: float) -> Iterator[None]:
    """Start labs that run this version of Slurm. If the second Slurm is missing, the test skips and never fails,
    because not every package mirror has it."""
    import slurm_lab

    before = slurm_lab.CHOSEN["root"]
    slurm_lab.CHOSEN["root"] = NEWER if where == "newer" else Path("/")
    try:
        if reason := slurm_lab.missing(speed):
            (pytest.skip if where == "newer" else absent)(reason)
        yield
    finally:
        slurm_lab.CHOSEN["root"] = before
