# SPDX-License-Identifier: Apache-2.0
"""The lock that lets only one process write to a store. The lock is released when the process ends, even if the process
is killed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import func, select, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from ..ceilings import without_links
from ..errors import BatchcastError, InputError
from .database import Store
from .place import sqlite_path

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
        raise InputError(
            f"{path}.lock cannot be written: {error.strerror}",
            hint="run the collector as the store's owner, or name another --store",
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise _busy(store) from None
        yield


@contextmanager
def _session_lock(store: Store) -> Iterator[None]:
    """Holds a lock of PostgreSQL that lasts as long as its connection. After the block the connection is closed, not
    returned to the pool.
    """
    try:
        connection = store.engine.connect()
        try:
            connection.execute(text("SET lock_timeout = '2s'"))
            connection.execute(select(func.pg_advisory_lock(_LOCK)))
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
    """Returns the error for a store that another collector writes to."""
    return BatchcastError(
        f"another collector is writing to {store.shown}",
        hint="one store has one running collector: give each cluster a store of its own (--store PATH), or stop the "
        "other (systemctl status batchcast-collect)",
    )
