"""Runs the review's attack on a real service and a real collector, with SQLite and PostgreSQL: every count must be
0."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from .attack import ROWS, attack, table


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_attack_of_the_review_gets_nothing(postgres_server: Callable[[], str]) -> None:
    found = attack(postgres_server())
    print(table(found))
    assert set().union(*found.values()) == set(ROWS)
    control = {store: some.pop("control", None) for store, some in found.items()}
    assert {store for store, count in control.items() if count} == {"SQLite", "PostgreSQL"}
    assert not {(store, point) for store, some in found.items() for point, count in some.items() if count}
