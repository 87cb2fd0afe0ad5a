# SPDX-License-Identifier: Apache-2.0
"""Options and small things shared by the verbs that answer from a collector's store."""

from __future__ import annotations

import os
import time
from typing import Any

import click

from ..service.answers.answer import parse_when
from .grammar import adds

__all__ = ["clock", "myself", "parse_when", "site_options", "whoami"]


site_options = adds(
    click.option(
        "--store",
        type=click.Path(),
        metavar="PATH|URL",
        help="Path or URL of the store.  [default: the setting `store`]",
    ),
    click.option(
        "--batch-system",
        "scheduler",
        type=click.Choice(["slurm", "pbs"]),
        help="Batch system.  [default: slurm]",
    ),
    click.option("-M", "--cluster", metavar="NAME", help="Cluster.  [default: the only cluster in the store]"),
)
"""As every verb of the live side has them."""
log_option = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="Format of log lines.  [default: text]",
)
"""As the daemons have it."""


def whoami() -> str:
    """The user this process acts for, by user id, not by what the environment says."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def myself() -> Any:
    """The user this process acts for, as the privacy rule sees them."""
    from ..service.answers.disclosure import Viewer

    return Viewer(whoami(), sees_all=os.getuid() == 0)


def clock(epoch: float, now: float) -> str:
    """A local time as Slurm prints it; without the date when it is today's.

    >>> clock(float("nan"), 0.0)
    '-'
    """
    if epoch != epoch or epoch in (float("inf"), float("-inf")):
        return "-"
    there, here = time.localtime(epoch), time.localtime(now)
    return time.strftime("%H:%M:%S" if there[:3] == here[:3] else "%Y-%m-%dT%H:%M:%S", there)
