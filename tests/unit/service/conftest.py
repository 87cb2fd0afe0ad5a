"""Runs the service's child processes at normal priority: at their usual lower priority, they would wait for other
tests."""

from collections.abc import Callable

import pytest

from batchcast.service import child_process
from batchcast.service.collector.cycle import Collector
from batchcast.service.settings import Settings, load
from batchcast.store.database import Store

from .http.past import Past


@pytest.fixture(autouse=True)
def as_soon_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a child process at the priority of the test itself."""
    monkeypatch.setattr(child_process, "NICE", 0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Settings]:
    """The settings of an open and of a private site, as of second 2700."""
    found = {}
    for private in (False, True):
        past = Past(private)
        path = str(tmp_path_factory.mktemp("s") / "store.db")
        settings = load({"store": path, "history_days": 0.01}, {})
        collector = Collector(past, Store(path, create=True), settings)
        for past.time in range(1000, 2710, 60):
            assert not collector.cycle().problems
        found[private] = settings
    return lambda private: found[private]
