# SPDX-License-Identifier: Apache-2.0
"""Open the store: SQLite by default (one file in WAL mode), or PostgreSQL by URL. Older schemas are migrated."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Engine, Table, create_engine, event, func, inspect, select, text
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.schema import CreateColumn

from ..ceilings import without_links
from ..errors import BatchcastError, InputError
from . import place
from .place import OLDEST, VERSION, shown_url, sqlite_path, trouble
from .schema import jobs, meta, metadata, renewed


def absent_columns(connection: Connection, table: Table = jobs) -> list[Column[Any]]:
    """Return the columns of a table that this store lacks because an older batchcast created it."""
    there = {column["name"] for column in inspect(connection).get_columns(table.name)}
    return [column for column in table.columns if column.name not in there]


def _add_columns(connection: Connection) -> None:
    """Add the absent columns, so that a new line in `columns.py` needs no migration."""
    dialect = connection.dialect
    # On PostgreSQL, two processes can open the store at the same time; SQLite has only one writer.
    unless = "IF NOT EXISTS " if dialect.name == "postgresql" else ""
    for table in (jobs, renewed):
        for column in absent_columns(connection, table):
            words = CreateColumn(column).compile(dialect=dialect)
            connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {unless}{words}"))


LOCK_S = 60.0

__all__ = ["Connection", "Store", "schema_version"]


class Store(AbstractContextManager["Store"]):
    """An open store: an SQLite file (a path, or `sqlite:///path`), or PostgreSQL (`postgresql://user@host/name`)."""

    # Every failure of the database is raised as one of batchcast's errors.

    def __init__(self, url: str, *, create: bool = False, read_only: bool = False) -> None:
        self.url = place.normal_url(url)
        self.failures = 0  # transactions that failed
        self.safe_url = shown_url(self.url)
        path = sqlite_path(self.url)
        if path is not None and not create:
            place.check_there(path)
        # Only its owner can read a new file. The collector gives access to others once it knows that the site does not
        # hide jobs.
        self.is_new = path is not None and create and place.make_closed(path)
        self.engine = self._engine(path, read_only)
        if read_only:
            self._do_without_absent_columns()
        else:
            self._bring_up_to_date(create)

    def _engine(self, path: Path | None, read_only: bool) -> Engine:
        """Return the SQLAlchemy engine, with the settings for SQLite or PostgreSQL."""
        if path is None:
            patience = {} if "connect_timeout=" in self.url else {"connect_timeout": 10}
            # The server may have closed an idle connection between two cycles, so each connection is tested before its
            # use.
            return create_engine(self.url, pool_pre_ping=True, connect_args=patience)
        engine = create_engine(self.url, connect_args={"timeout": 30})

        @event.listens_for(engine, "connect")
        def _set_up(connection: Any, _: Any) -> None:
            connection.isolation_level = None  # the driver must not issue BEGIN, because _begin below does
            if not read_only:
                connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")  # a committed prediction must survive a power failure
            connection.execute("PRAGMA foreign_keys=ON")

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            # BEGIN IMMEDIATE takes the write lock at once. If a transaction read first and wrote later, it could fail
            # with SQLITE_BUSY, and waiting would not help.
            connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

        return engine

    def _do_without_absent_columns(self) -> None:
        """Rewrite each statement so that columns of `jobs` that this store lacks are read as NULL."""
        with self.begin() as connection:
            types = {one.name: one.type.compile(dialect=connection.dialect) for one in absent_columns(connection)}
        if not types:
            return
        absent = re.compile(rf'\bjobs\.("?)({"|".join(map(re.escape, types))})\1(?!["\w])')

        def as_null(match: re.Match[str]) -> str:
            return f"CAST(NULL AS {types[match[2]]}) AS {match[1]}{match[2]}{match[1]}"

        @event.listens_for(self.engine, "before_cursor_execute", retval=True)
        def _unknown(_c: Any, _cursor: Any, words: str, values: Any, *_: Any) -> tuple[str, Any]:
            return absent.sub(as_null, words), values

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """Open a transaction, which is committed as a whole or rolled back."""
        try:
            with self.engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            self.failures += 1
            raise self.explained(error) from error

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def __exit__(self, *_: object) -> None:
        self.close()

    def give_back(self) -> int:
        """Return the space of deleted rows to the disk (VACUUM, VACUUM FULL), and the number of bytes."""
        # If the disk has no space for a second copy, or the store stays locked for a minute, VACUUM fails and the store
        # is unchanged.
        #
        # The database is rewritten. Rewriting needs free space of the size of the store, and blocks writers, on
        # PostgreSQL also readers.
        path = sqlite_path(self.url)
        if path is None:
            return self._tables_anew()
        with closing(self.engine.raw_connection()) as held:
            driver = held.cursor()  # VACUUM fails in SQLAlchemy's transaction, so this uses the driver's own cursor
            try:
                # The size of the file is only comparable if no changes wait in the -wal file.
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                before = path.stat().st_size
                # VACUUM writes a temporary copy and, in WAL mode, the whole new database to the -wal file.
                if shutil.disk_usage(path.parent).free < 2 * before:
                    what = f"{path.parent} has not enough free space for a second copy of {self.safe_url}"
                    raise BatchcastError(what, hint="free some disk space")
                for words in ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                    driver.execute(words)
            except sqlite3.Error as error:
                raise trouble(self.safe_url, str(error), away=True) from error
        return before - path.stat().st_size

    def _tables_anew(self) -> int:
        """Return the bytes freed by VACUUM FULL on PostgreSQL, for batchcast's own tables only."""
        sizes = [f"pg_total_relation_size('{name}')" for name in metadata.tables]
        size = text(f"SELECT {' + '.join(sizes)}")
        try:
            with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                before = connection.scalar(size)
                # While VACUUM FULL waits for its exclusive lock, all later readers wait behind it.
                connection.execute(text(f"SET lock_timeout = '{LOCK_S:.0f}s'"))
                connection.execute(text(f"VACUUM (FULL, ANALYZE) {', '.join(metadata.tables)}"))
                after = connection.scalar(size)
                connection.execute(text("RESET lock_timeout"))
        except SQLAlchemyError as error:
            raise self.explained(error) from error
        return int(before) - int(after)

    def _bring_up_to_date(self, create: bool) -> None:
        """Create the tables of a new store, or migrate an older one."""
        with self.begin() as connection:
            tables = inspect(connection).get_table_names()
            if "meta" not in tables:
                if tables and sqlite_path(self.url) is not None:
                    what = f"is the database of another program (tables {', '.join(tables[:3])})"
                    raise InputError(f"{self.safe_url} {what}", hint="choose another file with --store PATH")
                if not create:
                    hint = "batchcast collect creates one"
                    raise InputError(f"{self.safe_url} is not a store of batchcast", hint=hint)
                metadata.create_all(connection)
                connection.execute(meta.insert().values(cluster="", name="schema_version", value=str(VERSION)))
                return
            version = schema_version(connection)
        place.check_version(self.safe_url, version, OLDEST)
        with self.begin() as connection:
            if version < VERSION:  # so far, newer versions only added tables and columns
                for table in metadata.sorted_tables:
                    table.create(connection, checkfirst=True)
                set_version = meta.update().where(meta.c.cluster == "", meta.c.name == "schema_version")
                connection.execute(set_version.values(value=str(VERSION)))
            _add_columns(connection)

    def explained(self, error: SQLAlchemyError) -> BatchcastError:
        """Translate a failure of the database to one of batchcast's errors."""
        complaint = place.without_secrets(str(getattr(error, "orig", None) or error).strip().splitlines()[0], self.url)
        lost = isinstance(error, DBAPIError) and error.connection_invalidated
        path = sqlite_path(self.url)
        # SQLite may report a full disk as an I/O error
        full = "I/O error" in complaint and path is not None and shutil.disk_usage(path.parent).free < 1_000_000
        return trouble(self.safe_url, complaint, away=lost or isinstance(error, OperationalError), full=full)


def schema_version(connection: Connection) -> int:
    """Return the schema version that the store records."""
    value = connection.scalar(select(meta.c.value).where(meta.c.cluster == "", meta.c.name == "schema_version"))
    return place.version_number(value, shown_url(str(connection.engine.url)))


# PostgreSQL leaves the numbers of advisory locks to the applications. This number is arbitrary and must not change.
_LOCK = 74220522


@contextmanager
def single_writer(store: Store) -> Iterator[None]:
    """Hold the writer lock of a store; raise BatchcastError if another collector holds it.

    On PostgreSQL the lock waits two seconds, because the server may notice late that an earlier collector has ended.
    """
    path = sqlite_path(store.url)
    if path is None:
        with _session_lock(store):
            yield
        return
    try:
        file = open(f"{path}.lock", "w", opener=without_links)  # noqa: SIM115
        os.fchmod(file.fileno(), 0o600)  # an earlier version may have created the file with access for others
    except OSError as error:
        hint = "run the collector as the store's owner, or name another --store"
        raise InputError(f"{path}.lock cannot be written: {error.strerror}", hint=hint) from None
    with file:
        try:
            # The kernel releases this lock when the process ends, so a killed collector leaves no lock behind.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise _busy(store) from None
        yield


@contextmanager
def _session_lock(store: Store) -> Iterator[None]:
    """Hold a lock of PostgreSQL that lasts as long as its connection. After the block the connection is closed, not
    returned to the pool."""
    try:
        connection = store.engine.connect()
        try:
            connection.execute(text("SET lock_timeout = '2s'"))
            connection.execute(select(func.pg_advisory_lock(_LOCK)))
            # The lock belongs to the session and outlasts the transaction. An open transaction would keep the server
            # from removing deleted rows.
            connection.commit()
            connection.detach()
        except BaseException:
            connection.close()
            raise
    except SQLAlchemyError as error:
        if isinstance(error, OperationalError) and getattr(error.orig, "sqlstate", "") == "55P03":
            raise _busy(store) from None
        raise store.explained(error) from None
    with connection:
        yield


def _busy(store: Store) -> BatchcastError:
    return BatchcastError(
        f"another collector is writing to {store.safe_url}",
        hint="one store has one running collector: give each cluster a store of its own (--store PATH), or stop the "
        "other (systemctl status batchcast-collect)",
    )
