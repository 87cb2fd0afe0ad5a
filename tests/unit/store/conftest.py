"""The same store tests on a real SQLite and a real PostgreSQL."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[2] / "slurm" / "postgres_lab.py"


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
        house = importlib.util.spec_from_file_location("house_conftest", Path(__file__).parents[2] / "conftest.py")
        assert house is not None
        assert house.loader is not None
        module = importlib.util.module_from_spec(house)
        house.loader.exec_module(module)
        module.absent(reason)
    with lab.Postgres() as server:
        yield server.fresh_database


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store may be made."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return request.getfixturevalue("postgres_server")()
