"""Puts the parts together: a batch system behind its transport."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from typing import Any

from ..slurm.transport import Commands, Recording, Transport
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
    from ..pbs.client import Pbs

    return Pbs(transport), commands.health


def own_name() -> str:
    """The user who this process is."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
