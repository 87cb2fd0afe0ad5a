"""Fixtures that run the same store tests on a real SQLite and a real PostgreSQL."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import absent

PLACE = Path(__file__).parents[1] / "slurm" / "lab" / "postgres_lab.py"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The store's own tests run on both databases in the fast tier, the service's tests on PostgreSQL in the long
    tier."""
    for item in items:
        if "service" in item.path.parts and item.get_closest_marker("postgres"):
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Callable[[], str]]:
    """Returns the URL of a new database at every call."""
    spec = importlib.util.spec_from_file_location("postgres_lab", PLACE)
    assert spec is not None
    assert spec.loader is not None
    lab = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lab)
    reason = lab.missing()
    if reason:
        absent(reason)
    with lab.Postgres() as server:
        yield server.fresh_database


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Returns, at every call, another location for a store."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_server")
    numbers = itertools.count(1)
    return lambda: str(tmp_path / f"store{next(numbers)}.db")


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    """A location for an empty store."""
    return new_url()
