"""The service's tests: what it does at a lower priority would wait here for all that runs beside them."""

import pytest

from batchcast.service import child_process


@pytest.fixture(autouse=True)
def as_soon_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child's answer at the priority of the test itself."""
    monkeypatch.setattr(child_process, "NICE", 0)
