# SPDX-License-Identifier: Apache-2.0
"""Reads a store for an answer, without the cost of loading SQLAlchemy. Read-only by construction.

`batchcast start` has half a second of CPU in all; importing SQLAlchemy takes most of that. So an SQLite store is read
with the standard library and PostgreSQL with its driver, through the texts of `statements.py`.
"""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from ..errors import BatchcastError
from .place import check_there, normal_url, refuse_newer, shown_url, sqlite_path, trouble, without_secrets
from .statements import JOB, TEXTS

Row = dict[str, Any]
_NAMED = re.compile(r"(?<!:):([a-z_]\w*)")


LOOK_EVERY = 500
_until: ContextVar[float] = ContextVar("until", default=math.inf)


class TooLong(BatchcastError):
    """An answer took longer than anybody waits."""


@contextmanager
def time_to_read(seconds: float) -> Iterator[None]:
    """Within the block, and this thread, `each` raises TooLong once so much time has gone: nobody waits for it now."""
    token = _until.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _until.reset(token)


class Reader:
    """An open store for reading: `ask(question, name=value)`, the questions being those of `statements.py`.

    A value that is not given is NULL: no restriction, where the question leaves it open.
    """

    def __init__(self, url: str) -> None:
        self.url, self.shown = url, shown_url(url)
        self._absent: frozenset[str] = frozenset()
        self._open(sqlite_path(url))
        refuse_newer(self.shown, self.schema_version())
        self._absent = self._absent_columns()

    def _open(self, path: Path | None) -> None:
        if path is not None:
            check_there(path)
            self._connection: Any = _open_sqlite(str(path))
            self._wrong: type[Exception] = sqlite3.DatabaseError
            self._away: type[Exception] = sqlite3.OperationalError
            return
        import psycopg
        from psycopg.rows import dict_row

        self._wrong, self._away = psycopg.Error, psycopg.OperationalError
        where = normal_url(self.url).replace("+psycopg", "", 1)
        if "connect_timeout=" not in where:
            where += f"{'&' if '?' in where else '?'}connect_timeout=10"
        reading = "-c default_transaction_read_only=on"
        try:
            self._connection = psycopg.connect(where, row_factory=dict_row, autocommit=True, options=reading)
        except psycopg.Error as error:
            raise self._explained(error) from None

    def ask(self, question: str, **values: Any) -> list[Row]:
        """Every row that answers a question, by column name."""
        return list(self.each(question, **values))

    def each(self, question: str, **values: Any) -> Iterator[Row]:
        """The same, one row at a time: for answers over much history. Asked when the first row is taken."""
        text = TEXTS[question]
        for name in self._absent:
            text = text.replace(f'jobs."{name}"', f'NULL AS "{name}"')
        until = _until.get()
        for k, row in enumerate(self._rows(text, {**dict.fromkeys(_NAMED.findall(text)), **values})):
            if k % LOOK_EVERY == 0 and time.monotonic() > until:
                raise TooLong("this takes longer than anybody waits", hint="a shorter time span")
            yield row

    def _absent_columns(self) -> frozenset[str]:
        """Columns of jobs that no newer collector has added to this store yet: they are unknown of every job."""
        cursor = self._connection.cursor()
        try:
            cursor.execute("SELECT * FROM jobs LIMIT 0")
        except self._wrong as error:
            raise self._explained(error) from None
        return frozenset(JOB) - {column[0] for column in cursor.description}

    def rows(self, text: str, **values: Any) -> list[Row]:
        """Every row of an SQL text with `:name` for each value."""
        return list(self._rows(text, values))

    def _rows(self, text: str, values: Mapping[str, Any]) -> Iterator[Row]:
        try:
            if isinstance(self._connection, sqlite3.Connection):
                cursor = self._connection.execute(text, values)
                names = [d[0] for d in cursor.description]
                for row in cursor:
                    yield dict(zip(names, row))
            else:
                yield from self._connection.cursor().stream(_NAMED.sub(r"%(\1)s", text.replace("%", "%%")), values)
        except self._wrong as error:
            raise self._explained(error) from None

    def memory(self, cluster: str) -> dict[str, Any]:
        """What the collector remembers of a cluster."""
        return {row["name"]: json.loads(row["value"]) for row in self.ask("memory", cluster=cluster)}

    def clusters(self) -> list[str]:
        """The clusters in this store."""
        return [row["cluster"] for row in self.ask("clusters")]

    def waiting(self, cluster: str, method: str, ids: Sequence[str] = (), user: str | None = None) -> list[Row]:
        """Waiting jobs by id (an array's id means its tasks) or of a user, with the wait forecast issued for each."""
        if not ids:
            return self.ask("waiting", cluster=cluster, method=method, user=user)
        rows: dict[int, Row] = {}
        for job_id in ids:
            tasks = re.sub(r"([!%_])", r"!\1", job_id) + "!_%"
            for row in self.ask("waiting", cluster=cluster, method=method, user=user, job_id=job_id, tasks=tasks):
                rows[row["row"]] = row
        return sorted(rows.values(), key=lambda row: (row["submit_time"], row["row"]))

    def schema_version(self) -> int:
        """The version of the tables."""
        rows = self.ask("schema_version")
        return int(rows[0]["value"]) if rows else 1

    def pages(self) -> str:
        """What SQLite says of its own file: `ok`, or what is broken."""
        try:
            return str(next(iter(self.rows("PRAGMA quick_check")[0].values())))
        except BatchcastError as error:
            return error.message

    def close(self) -> None:
        """Give the store back."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _explained(self, error: Exception) -> BatchcastError:
        complaint = without_secrets((str(error).strip().splitlines() or [type(error).__name__])[0], self.url)
        return trouble(self.shown, complaint, away=isinstance(error, self._away))


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
