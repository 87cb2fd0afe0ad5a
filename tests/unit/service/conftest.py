"""Runs the service's child processes at normal priority: at their usual lower priority, they would wait for other
tests."""

import pytest

from batchcast.service import child_process


@pytest.fixture(autouse=True)
def as_soon_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a child process at the priority of the test itself."""
    monkeypatch.setattr(child_process, "NICE", 0)
