"""Tests tokens in the store, and the upgrade to this schema and back, on SQLite and PostgreSQL."""

from __future__ import annotations

import pytest
from sqlalchemy import inspect, text

from batchcast.errors import UsageError
from batchcast.planning.record import Entry, How, State
from batchcast.store import planned, tokens
from batchcast.store.database import VERSION, Store, schema_version
from batchcast.store.reader import Reader
from batchcast.store.tokens import id_of, user_of


def issued(store: Store, user: str, seed: int, until: float = 1000.0) -> str:
    with store.begin() as connection:
        return tokens.issue(connection, bytes([seed]) * 36, user, "nightly", 100.0, until)


def whose(url: str, token: str, now: float = 500.0) -> str | None:
    return user_of({row["id"]: row for row in Reader(url).ask("tokens")}, token, now)


def test_a_token_is_its_users_until_it_is_over_or_revoked_and_is_nowhere_in_the_store(url: str) -> None:
    store = Store(url, create=True)
    ada, bob = issued(store, "ada", 1), issued(store, "bob", 2)
    assert (whose(url, ada), whose(url, bob)) == ("ada", "bob")
    assert whose(url, ada, now=1000.0) is None, "over"
    assert whose(url, ada[:-1] + ("0" if ada[-1] != "0" else "1")) is None, "the right id with another secret"
    assert whose(url, f"{ada} ") is None
    with store.begin() as connection:
        assert tokens.revoke(connection, [id_of(ada) or ""], 600.0) == [id_of(ada)]
        assert tokens.revoke(connection, [id_of(ada) or ""], 700.0) == [], "once is enough"
    with pytest.raises(UsageError, match="no token 'abc'"), store.begin() as connection:
        tokens.revoke(connection, [id_of(bob) or "", "abc"], 700.0)
    assert (whose(url, ada), whose(url, bob)) == (None, "bob"), "a word that is wrong revokes nothing"
    secret = ada.rpartition("_")[2]
    assert all(secret not in str(value) for row in Reader(url).ask("tokens") for value in row.values())


def _shape(store: Store) -> dict[str, set[str]]:
    with store.begin() as connection:
        found = inspect(connection)
        return {name: {c["name"] for c in found.get_columns(name)} for name in found.get_table_names()}


def test_a_store_of_an_older_version_is_brought_up_to_date(url: str) -> None:
    store = Store(url, create=True)
    newest = _shape(store)
    with store.begin() as connection:
        planned.write(connection, "c", [(Entry("7", 1.0, 7200.0, 3600.0, State.PLANNED, 2.0), 7200.0, 3600.0, "")])
        for table in ("tokens", "renewed", "moves"):  # version 9 did not have these tables
            connection.execute(text(f"DROP TABLE {table}"))
        for column in ("node_list", "constraint", "partition_list", "exclusive", "nice", "cpus_per_task"):
            connection.execute(text(f'ALTER TABLE jobs DROP COLUMN "{column}"'))
        connection.execute(text("UPDATE meta SET value = '9' WHERE name = 'schema_version'"))
    store.close()
    again = Store(url)
    assert _shape(again) == newest
    with again.begin() as connection:
        assert schema_version(connection) == VERSION
        assert planned.entries(connection, "c")["7"].how is How.LIMIT
    assert Reader(url).ask("tokens") == []
