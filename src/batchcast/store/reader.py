# SPDX-License-Identifier: Apache-2.0
"""Reads a store to answer users' questions, without loading SQLAlchemy.

`batchcast start` has a budget of half a second of CPU, and importing SQLAlchemy takes most of that. Therefore SQLite is
read with the standard library and PostgreSQL with its driver, with the SQL texts of `statements.py`. The reader cannot
write.
"""

from __future__ import annotations

import math
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..errors import BatchcastError
from . import place
from .place import shown_url, sqlite_path, trouble
from .rows import stored_values
from .statements import JOB, TEXTS

Row = dict[str, Any]
_PARAMETER = re.compile(r"(?<!:):([a-z_]\w*)")


# Reading the clock for every row would cost more than many of the rows.
LOOK_EVERY = 500
_until: ContextVar[float] = ContextVar("until", default=math.inf)


class TooLong(BatchcastError):
    """An answer took too long and was abandoned."""


@contextmanager
def time_to_read(seconds: float) -> Iterator[None]:
    """Limit the time of `Reader.each` in this context: it raises TooLong after so many seconds."""
    token = _until.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _until.reset(token)


class Reader(AbstractContextManager["Reader"]):
    """A store that is open for reading; `ask(question, name=value)` runs a query of `statements.py`."""

    # A parameter of a query that is not given is NULL; if the query allows this, NULL means no restriction.

    def __init__(self, url: str) -> None:
        self.url, self.safe_url = url, shown_url(url)
        self._absent: frozenset[str] = frozenset()
        self._open(sqlite_path(url))
        place.check_version(self.safe_url, self.schema_version())
        self._absent = self._absent_columns()

    def _open(self, path: Path | None) -> None:
        if path is not None:
            place.check_there(path)
            self._connection: Any = _open_sqlite(str(path))
            self._wrong: type[Exception] = sqlite3.DatabaseError
            self._away: type[Exception] = sqlite3.OperationalError
            return
        import psycopg
        from psycopg.rows import dict_row

        self._wrong, self._away = psycopg.Error, psycopg.OperationalError
        where = place.normal_url(self.url).replace("+psycopg", "", 1)
        if "connect_timeout=" not in where:
            where += f"{'&' if '?' in where else '?'}connect_timeout=10"
        reading = "-c default_transaction_read_only=on"
        try:
            # With autocommit, no transaction stays open that would keep the server from removing deleted rows.
            self._connection = psycopg.connect(where, row_factory=dict_row, autocommit=True, options=reading)
        except psycopg.Error as error:
            raise self._explained(error) from None

    def ask(self, question: str, **values: Any) -> list[Row]:
        """Return all rows of a query, as dictionaries. `question` is the name of the query."""
        return list(self.each(question, **values))

    def each(self, question: str, **values: Any) -> Iterator[Row]:
        """Yield the rows of the query `question` one by one, for queries over a long history; TooLong after the time of
        `time_to_read`."""
        text = TEXTS[question]
        for name in self._absent:
            text = text.replace(f'jobs."{name}"', f'NULL AS "{name}"')
        until = _until.get()
        for k, row in enumerate(self._rows(text, {**dict.fromkeys(_PARAMETER.findall(text)), **values})):
            if k % LOOK_EVERY == 0 and time.monotonic() > until:
                raise TooLong("the answer takes too long", hint="use a shorter time span")
            yield row

    def _absent_columns(self) -> frozenset[str]:
        """Return the columns of `jobs` that this store lacks, because no newer collector has added them; their values
        are unknown."""
        cursor = self._connection.cursor()
        try:
            cursor.execute("SELECT * FROM jobs LIMIT 0")
        except self._wrong as error:
            raise self._explained(error) from None
        return frozenset(JOB) - {column[0] for column in cursor.description}

    def rows(self, text: str, **values: Any) -> list[Row]:
        """Return all rows of an SQL query, which has `:name` for each value."""
        return list(self._rows(text, values))

    def _rows(self, text: str, values: Mapping[str, Any]) -> Iterator[Row]:
        """Yield the rows of a query as dictionaries."""
        try:
            if isinstance(self._connection, sqlite3.Connection):
                cursor = self._connection.execute(text, values)
                names = [d[0] for d in cursor.description]
                for row in cursor:
                    yield dict(zip(names, row))
            else:
                yield from self._connection.cursor().stream(_PARAMETER.sub(r"%(\1)s", text.replace("%", "%%")), values)
        except self._wrong as error:
            raise self._explained(error) from None

    def memory(self, cluster: str) -> dict[str, Any]:
        """Return the values that the table `meta` has for a cluster, by name."""
        return stored_values(self.ask("memory", cluster=cluster), self.safe_url)

    def clusters(self) -> list[str]:
        """Return the clusters in this store."""
        return [row["cluster"] for row in self.ask("clusters")]

    def waiting(self, cluster: str, method: str, ids: Sequence[str] = (), user: str | None = None) -> list[Row]:
        """Return waiting jobs, by id or user, with their wait predictions; an array's id stands for its tasks."""
        of = {"cluster": cluster, "method": method, "user": user}
        if not ids:
            return self.ask("waiting", **of)
        # `_` separates an array's id from its task, and is a wildcard of LIKE.
        tasks = ((job_id, re.sub(r"([!%_])", r"!\1", job_id) + "!_%") for job_id in ids)
        answers = (self.ask("waiting", **of, job_id=job_id, tasks=pattern) for job_id, pattern in tasks)
        rows = {row["row"]: row for row in chain(*answers)}
        return sorted(rows.values(), key=lambda row: (row["submit_time"], row["row"]))

    def schema_version(self) -> int:
        """Return the schema version of the tables."""
        rows = self.ask("schema_version")
        return place.version_number(rows[0]["value"] if rows else None, self.safe_url)

    def pages(self) -> str:
        """Return the result of SQLite's check of its file: `ok`, or the first error."""
        try:
            return str(next(iter(self.rows("PRAGMA quick_check")[0].values())))
        except BatchcastError as error:
            return error.message

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _explained(self, error: Exception) -> BatchcastError:
        """Return a failure of the database as one of batchcast's errors."""
        complaint = place.without_secrets((str(error).strip().splitlines() or [type(error).__name__])[0], self.url)
        return trouble(self.safe_url, complaint, away=isinstance(error, self._away))


def _open_sqlite(path: str) -> sqlite3.Connection:
    """Return a read-only connection.

    SQLite in WAL mode needs the file's -shm index even for reading. If this user cannot open the index and no changes
    wait in the -wal file, the database file is opened as immutable.
    """
    last: sqlite3.DatabaseError | None = None
    for how in ("mode=ro", "mode=ro&immutable=1"):
        if "immutable" in how and os.path.exists(f"{path}-wal") and os.path.getsize(f"{path}-wal"):
            break  # an immutable connection would ignore the changes in the -wal file and return outdated rows
        try:
            connection = sqlite3.connect(f"file:{quote(path)}?{how}", uri=True, timeout=10)
            connection.execute("SELECT 1 FROM meta LIMIT 1")
            return connection
        except sqlite3.DatabaseError as error:
            last = error
    raise trouble(path, str(last), away=isinstance(last, sqlite3.OperationalError))
