"""Reads a store for an answer: plain SQL, without the cost of loading an ORM.

`batchcast start` has half a second of CPU in all; importing SQLAlchemy takes most of that. So an SQLite store is read
with the standard library and PostgreSQL with its driver, through the same statements. Read-only by construction.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from typing import Any
from urllib.parse import quote

from .place import check_there, normal_url, shown_url, sqlite_path, trouble

Row = dict[str, Any]
_NAMED = re.compile(r"(?<!:):([a-z_]\w*)")


class Reader:
    """An open store for reading. `rows(sql, name=value)` with `:name` in the text."""

    def __init__(self, url: str) -> None:
        self.shown = shown_url(url)
        path = sqlite_path(url)
        if path is not None:
            check_there(path)
            self._connection: Any = _open_sqlite(str(path))
            self._wrong: type[Exception] = sqlite3.DatabaseError
            self._away: type[Exception] = sqlite3.OperationalError
            return
        import psycopg
        from psycopg.rows import dict_row

        self._wrong, self._away = psycopg.Error, psycopg.OperationalError
        where = normal_url(url).replace("+psycopg", "", 1)
        if "connect_timeout=" not in where:
            where += f"{'&' if '?' in where else '?'}connect_timeout=10"
        reading = "-c default_transaction_read_only=on"
        try:
            self._connection = psycopg.connect(where, row_factory=dict_row, autocommit=True, options=reading)
        except psycopg.Error as error:
            raise self._explained(error) from None

    def rows(self, sql: str, **values: Any) -> list[Row]:
        """Every row of a query."""
        try:
            if isinstance(self._connection, sqlite3.Connection):
                cursor = self._connection.execute(sql, values)
                names = [d[0] for d in cursor.description]
                return [dict(zip(names, row)) for row in cursor]
            return list(self._connection.execute(_NAMED.sub(r"%(\1)s", sql.replace("%", "%%")), values))
        except self._wrong as error:
            raise self._explained(error) from None

    def memory(self, cluster: str) -> dict[str, Any]:
        """What the collector remembers of a cluster."""
        found = self.rows("SELECT name, value FROM meta WHERE cluster = :cluster", cluster=cluster)
        return {row["name"]: json.loads(row["value"]) for row in found}

    def clusters(self) -> list[str]:
        """The clusters in this store."""
        found = self.rows("SELECT DISTINCT cluster FROM meta WHERE cluster <> '' ORDER BY cluster")
        return [row["cluster"] for row in found]

    def close(self) -> None:
        """Give the store back."""
        self._connection.close()

    def _explained(self, error: Exception) -> Exception:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return trouble(self.shown, said, away=isinstance(error, self._away))


def _open_sqlite(path: str) -> sqlite3.Connection:
    """Read-only; where even the write-ahead index cannot be opened and nobody collects, the file as it lies there."""
    last: sqlite3.DatabaseError | None = None
    for how in ("mode=ro", "mode=ro&immutable=1"):
        if "immutable" in how and os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"):
            break  # unmerged changes: reading past them would answer from yesterday
        try:
            connection = sqlite3.connect(f"file:{quote(path)}?{how}", uri=True, timeout=10)
            connection.execute("SELECT 1 FROM meta LIMIT 1")
            return connection
        except sqlite3.DatabaseError as error:
            last = error
    raise trouble(path, str(last), away=isinstance(last, sqlite3.OperationalError))
