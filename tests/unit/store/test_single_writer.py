"""Tests that a store has one collector, and that its lock ends with the collector."""

from __future__ import annotations

import pytest

from batchcast.errors import BatchcastError
from batchcast.store.database import Store, single_writer


def test_a_second_collector_is_refused_and_the_hold_ends_with_the_first(url: str) -> None:
    first, second = Store(url, create=True), Store(url)
    hold = single_writer(first)
    hold.__enter__()
    with pytest.raises(BatchcastError, match="another collector"), single_writer(second):
        pass
    hold.__exit__(None, None, None)
    with single_writer(second):
        pass
