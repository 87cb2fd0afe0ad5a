# SPDX-License-Identifier: Apache-2.0
"""Options and helpers shared by the verbs that use a collector's store."""

from __future__ import annotations

import os
import time
from typing import Any

import click

from ..service.answers.answer import parse_when
from .grammar import adds, option

__all__ = ["clock", "myself", "parse_when", "site_options"]


site_options = adds(
    option("--store PATH|URL", "Path or URL of the store.  [default: the setting `store`]", type=click.Path()),
    option("--batch-system slurm|pbs", "Batch system.  [default: slurm]", "scheduler"),
    option("-M, --cluster NAME", "Cluster.  [default: the only cluster in the store]"),
)
"""Options of every verb for a running cluster."""
log_option = option("--log-format text|json", "Format of log lines.  [default: text]")
"""Option of the daemons."""


def myself() -> Any:
    """Return the user of this process for the privacy rules."""
    from ..service.answers.disclosure import Viewer
    from ..service.settings import own_name

    return Viewer(own_name(), sees_all=os.getuid() == 0)


def clock(epoch: float, now: float) -> str:
    """Return a local time as Slurm prints it, without the date if it is today.

    >>> clock(float("nan"), 0.0)
    '-'
    """
    if epoch != epoch or epoch in (float("inf"), float("-inf")):
        return "-"
    there, here = time.localtime(epoch), time.localtime(now)
    return time.strftime("%H:%M:%S" if there[:3] == here[:3] else "%Y-%m-%dT%H:%M:%S", there)
