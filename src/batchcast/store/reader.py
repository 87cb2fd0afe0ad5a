"""Reads a store for an answer: plain SQL, without the cost of loading an ORM where the store is an SQLite file.

`batchcast start` has half a second of CPU in all; importing SQLAlchemy takes most of that. So an SQLite store is read
with the standard library, any other through the same statements on SQLAlchemy. Read-only by construction.
"""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .place import check_there, trouble

Row = dict[str, Any]


class Reader:
    """An open store for reading. `rows(sql, name=value)` with `:name` in the text."""

    def __init__(self, url: str) -> None:
        self._sqlite: sqlite3.Connection | None = None
        self._store: Any = None
        self.shown = url
        if "://" in url and not url.startswith("sqlite:///"):
            from .database import Store

            self._store = Store(url, read_only=True)
            self.shown = self._store.shown
            return
        path = os.path.abspath(url.removeprefix("sqlite:///"))
        self.shown = path
        check_there(Path(path))
        self._sqlite = _open_sqlite(path)

    def rows(self, sql: str, **values: Any) -> list[Row]:
        """Every row of a query."""
        if self._sqlite is not None:
            try:
                cursor = self._sqlite.execute(sql, values)
                names = [d[0] for d in cursor.description]
                return [dict(zip(names, row)) for row in cursor]
            except sqlite3.DatabaseError as error:
                away = isinstance(error, sqlite3.OperationalError)
                raise trouble(self.shown, str(error), away=away) from None
        from sqlalchemy import text

        with self._store.begin() as connection:
            return [dict(row) for row in connection.execute(text(sql), values).mappings()]

    def memory(self, cluster: str) -> dict[str, Any]:
        """What the collector remembers of a cluster."""
        found = self.rows("SELECT name, value FROM meta WHERE cluster = :cluster", cluster=cluster)
        return {row["name"]: json.loads(row["value"]) for row in found}

    def clusters(self) -> list[str]:
        """The clusters in this store."""
        return [
            row["cluster"]
            for row in self.rows("SELECT DISTINCT cluster FROM meta WHERE cluster <> '' ORDER BY cluster")
        ]

    def close(self) -> None:
        """Give the store back."""
        if self._sqlite is not None:
            self._sqlite.close()
        else:
            self._store.close()


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
