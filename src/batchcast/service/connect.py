"""Puts the parts together: a batch system behind its transport, and the one writer of a store."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import BatchcastError, UsageError
from ..slurm.transport import Commands, Recording, Transport
from ..store.database import Store, sqlite_path
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
    """One collector a store; the hold goes with the process, however it ends."""
    path = sqlite_path(store.url)
    if path is None:
        from sqlalchemy import text

        with store.engine.connect() as connection:  # a session lock lives as long as this connection
            if not connection.scalar(text("SELECT pg_try_advisory_lock(74220522)")):
                raise _busy(store)
            connection.commit()
            connection.detach()  # closed at the end, not pooled: the lock goes with it
            yield
        return
    with open(f"{path}.lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise _busy(store) from None
        yield


def _busy(store: Store) -> BatchcastError:
    return BatchcastError(f"another collector is writing to {store.shown}", hint="systemctl status batchcast-collect")
