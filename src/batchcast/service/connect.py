"""Puts the parts together: a batch system behind its transport, and the one writer of a store."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import BatchcastError, InputError, UsageError
from ..slurm.transport import Commands, Recording, Transport
from ..store.database import Store
from ..store.place import sqlite_path
from .settings import Settings


def open_scheduler(settings: Settings, record: str | None = None) -> tuple[Any, Callable[[], dict[str, Any]]]:
    """The batch system the settings name, and the counters of its transport."""
    local = {"TZ": "UTC"} if settings["scheduler"] == "pbs" else {}  # PBS prints local time only
    commands = Commands(
        environment=local,
        timeout_s=settings["timeout_s"],
        floor_s=settings["floor_s"],
        back_off_s=settings["back_off_s"],
        longest_back_off_s=settings["longest_back_off_s"],
    )
    transport: Transport = Recording(commands, record) if record else commands
    if settings["scheduler"] == "slurm":
        from ..slurm.client import Slurm

        return Slurm(transport), commands.health
    if settings["scheduler"] == "pbs":
        from ..pbs.client import Pbs

        return Pbs(transport), commands.health
    raise UsageError(f"no scheduler {settings['scheduler']!r} (accepted: slurm, pbs)")


@contextmanager
def single_writer(store: Store) -> Iterator[None]:
    """One collector a store; the hold goes with the process, however it ends.

    On PostgreSQL it waits two seconds: the server may notice a little later that the one before is gone.
    """
    path = sqlite_path(store.url)
    if path is None:
        with _session_lock(store):
            yield
        return
    try:
        file = open(f"{path}.lock", "w")  # noqa: SIM115
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
    """A lock that lives as long as its connection, which is closed at the end, not pooled."""
    from sqlalchemy import text
    from sqlalchemy.exc import OperationalError, SQLAlchemyError

    try:
        connection = store.engine.connect()
        try:
            connection.execute(text("SET lock_timeout = '2s'"))
            connection.execute(text("SELECT pg_advisory_lock(74220522)"))
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
    return BatchcastError(f"another collector is writing to {store.shown}", hint="systemctl status batchcast-collect")
