# SPDX-License-Identifier: Apache-2.0
"""Opens the store: SQLite by default (WAL, one file), PostgreSQL by URL; an older schema is brought up to date."""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Column, Connection, Engine, create_engine, event, inspect, select, text
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.schema import CreateColumn

from ..errors import BatchcastError, InputError
from .place import (
    VERSION,
    check_there,
    make_closed,
    make_room,
    normal_url,
    refuse_newer,
    refuse_older,
    shown_url,
    sqlite_path,
    trouble,
    without_secrets,
)
from .schema import jobs, meta, metadata, moves, renewed, tokens


def _add_moves(connection: Connection) -> None:
    moves.create(connection, checkfirst=True)
    if "why" not in {column["name"] for column in inspect(connection).get_columns("renewed")}:
        connection.execute(text("ALTER TABLE renewed ADD COLUMN why TEXT"))


def absent_columns(connection: Connection) -> list[Column[Any]]:
    """Columns of `jobs` that this store lacks, since the batchcast that made it did not know them."""
    there = {column["name"] for column in inspect(connection).get_columns("jobs")}
    return [column for column in jobs.columns if column.name not in there]


def _add_columns(connection: Connection) -> None:
    """Add the absent columns: a new line in `columns.py` needs no migration of its own."""
    dialect = connection.dialect
    unless = "IF NOT EXISTS " if dialect.name == "postgresql" else ""  # two may open it at once; SQLite has one writer
    for column in absent_columns(connection):
        words = CreateColumn(column).compile(dialect=dialect)
        connection.execute(text(f"ALTER TABLE jobs ADD COLUMN {unless}{words}"))


MIGRATIONS: dict[int, Callable[[Connection], None]] = {
    9: lambda connection: tokens.create(connection, checkfirst=True),
    10: lambda connection: renewed.create(connection, checkfirst=True),
    11: _add_moves,
    12: lambda connection: None,  # brought columns of jobs, which every opening adds
}
"""Version n: how a store of version n becomes one of n + 1, each in a transaction of its own."""

__all__ = ["Connection", "Store", "schema_version"]
LOCK_S = 60.0


class Store:
    """An open store. `begin()` gives a transaction; every failure of the database is one of batchcast's errors.

    `url` is a path or `sqlite:///path`, or `postgresql://user@host/name` (psycopg). A SQLite store is private to its
    owner when it is made (`is_new`): whoever learns that no job is hidden opens it. `failures` counts transactions that
    failed.
    """

    def __init__(self, url: str, *, create: bool = False, read_only: bool = False) -> None:
        self.url = normal_url(url)
        self.failures = 0
        self.shown = shown_url(self.url)
        path = sqlite_path(self.url)
        if path is not None:
            (make_room if create else check_there)(path)
        self.is_new = path is not None and create and make_closed(path)
        self.engine = self._engine(path, read_only)
        if read_only:
            self._do_without_absent_columns()
        else:
            self._bring_up_to_date(create)

    def _engine(self, path: Path | None, read_only: bool) -> Engine:
        if path is None:
            patience = {} if "connect_timeout=" in self.url else {"connect_timeout": 10}
            return create_engine(self.url, pool_pre_ping=True, connect_args=patience)
        engine = create_engine(self.url, connect_args={"timeout": 30})

        @event.listens_for(engine, "connect")
        def _set_up(connection: Any, _: Any) -> None:
            connection.isolation_level = None  # the driver leaves BEGIN to us
            cursor = connection.cursor()
            if not read_only:
                cursor.execute("PRAGMA journal_mode=WAL")
            cursor.execute("PRAGMA synchronous=FULL")  # an acknowledged forecast survives a power cut
            cursor.execute("PRAGMA foreign_keys=ON")
            cursor.close()

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

        return engine

    def _do_without_absent_columns(self) -> None:
        """Have columns of `jobs` that no collector has added yet read as unknown."""
        with self.begin() as connection:
            types = {one.name: one.type.compile(dialect=connection.dialect) for one in absent_columns(connection)}
        if not types:
            return
        absent = re.compile(rf'\bjobs\.("?)({"|".join(map(re.escape, types))})\1(?!["\w])')

        def unknown(found: re.Match[str]) -> str:
            return f"CAST(NULL AS {types[found[2]]}) AS {found[1]}{found[2]}{found[1]}"

        @event.listens_for(self.engine, "before_cursor_execute", retval=True)
        def _unknown(_c: Any, _cursor: Any, words: str, values: Any, *_: Any) -> tuple[str, Any]:
            return absent.sub(unknown, words), values

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction: all of it or nothing."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            self.failures += 1
            raise self.explained(error) from error

    def close(self) -> None:
        """Give up every connection."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def give_back(self) -> int:
        """Give the room of what was deleted back to the disk; how many bytes.

        SQLite writes its file anew for that, PostgreSQL its tables (VACUUM, VACUUM FULL): it takes as much room once
        more, and keeps writers waiting, on PostgreSQL readers, too. Where there is not so much room, or somebody holds
        the store for a minute, BatchcastError, and nothing has changed.
        """
        path = sqlite_path(self.url)
        if path is None:
            return self._tables_anew()
        with contextlib.closing(self.engine.raw_connection()) as held:
            driver = held.cursor()  # below SQLAlchemy, which would begin a transaction: VACUUM takes none
            try:
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                before = path.stat().st_size
                if shutil.disk_usage(path.parent).free < 2 * before:
                    raise BatchcastError(f"{path.parent} has not room for {self.shown} once more", hint="make room")
                for words in ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                    driver.execute(words)
            except sqlite3.Error as error:
                raise trouble(self.shown, str(error), away=True) from error
        return before - path.stat().st_size

    def _tables_anew(self) -> int:
        """The same on PostgreSQL, of our own tables alone; their owner may do it."""
        names = ", ".join(metadata.tables)
        held = text(
            "SELECT sum(pg_total_relation_size(CAST(name AS regclass))) FROM unnest(CAST(:names AS text[])) name"
        )
        try:
            with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                before = connection.scalar(held, {"names": list(metadata.tables)})
                connection.execute(text(f"SET lock_timeout = '{LOCK_S:.0f}s'"))
                connection.execute(text(f"VACUUM (FULL, ANALYZE) {names}"))
                after = connection.scalar(held, {"names": list(metadata.tables)})
                connection.execute(text("RESET lock_timeout"))
        except SQLAlchemyError as error:
            raise self.explained(error) from error
        return int(before) - int(after)

    def _bring_up_to_date(self, create: bool) -> None:
        with self.begin() as connection:
            tables = inspect(connection).get_table_names()
            there = "meta" in tables
            if tables and not there and sqlite_path(self.url) is not None:
                raise InputError(
                    f"{self.shown} is somebody else's database (tables {', '.join(tables[:3])})",
                    hint="name another file: --store PATH",
                )
            if not there and not create:
                raise InputError(f"{self.shown} is not a store of batchcast", hint="batchcast collect makes one")
            if not there:
                metadata.create_all(connection)
                connection.execute(meta.insert().values(cluster="", name="schema_version", value=str(VERSION)))
                return
            version = schema_version(connection)
        refuse_newer(self.shown, version)
        refuse_older(self.shown, version)
        for step in range(version, VERSION):
            with self.begin() as connection:
                MIGRATIONS[step](connection)
                says = meta.update().where(meta.c.cluster == "", meta.c.name == "schema_version")
                connection.execute(says.values(value=str(step + 1)))
        with self.begin() as connection:
            _add_columns(connection)

    def _no_room(self) -> bool:
        """Whether the disk of an SQLite store is all but full: SQLite calls that an I/O error at times."""
        path = sqlite_path(self.url)
        return path is not None and shutil.disk_usage(path.parent).free < 1_000_000

    def explained(self, error: SQLAlchemyError) -> BatchcastError:
        """What a failure of the database means, in words."""
        complaint = without_secrets(str(getattr(error, "orig", None) or error).strip().splitlines()[0], self.url)
        lost = isinstance(error, DBAPIError) and error.connection_invalidated
        full = "I/O error" in complaint and self._no_room()
        return trouble(self.shown, complaint, away=lost or isinstance(error, OperationalError), full=full)


def schema_version(connection: Connection) -> int:
    """The version the store says it has."""
    value = connection.scalar(select(meta.c.value).where(meta.c.cluster == "", meta.c.name == "schema_version"))
    return int(value) if value else 1
