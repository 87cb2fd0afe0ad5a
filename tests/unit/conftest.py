"""The same store tests on a real SQLite and a real PostgreSQL."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[1] / "slurm" / "lab" / "postgres_lab.py"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The store's own tests run on both in the fast tier, the service's on PostgreSQL in the long one."""
    for item in items:
        if "service" in item.path.parts and item.get_closest_marker("postgres"):
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Callable[[], str]]:
    """Gives the URL of a fresh database at every call."""
    spec = importlib.util.spec_from_file_location("postgres_lab", PLACE)
    assert spec is not None
    assert spec.loader is not None
    lab = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lab)
    reason = lab.missing()
    if reason:
        house = importlib.util.spec_from_file_location("house_conftest", Path(__file__).parents[1] / "conftest.py")
        assert house is not None
        assert house.loader is not None
        module = importlib.util.module_from_spec(house)
        house.loader.exec_module(module)
        module.absent(reason)
    with lab.Postgres() as server:
        yield server.fresh_database


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Gives, at every call, another place where a store may be made."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_server")
    numbers = itertools.count(1)
    return lambda: str(tmp_path / f"store{next(numbers)}.db")


@pytest.fixture
def url(new_url: Callable[[], str]) -> str:
    """Where an empty store may be made."""
    return new_url()
