"""Options and small things shared by the verbs that answer from a collector's store."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import click


def site_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--store`, `--scheduler` and `-M`, as every verb of the live side has them."""
    for option in (
        click.option("-M", "--cluster", metavar="NAME", help="The cluster.  [default: the store's only one]"),
        click.option("--scheduler", type=click.Choice(["slurm", "pbs"]), help="The batch system.  [default: slurm]"),
        click.option("--store", metavar="PATH|URL", help="The store.  [default: as batchcast doctor shows]"),
    ):
        command = option(command)
    return command


def whoami() -> str:
    """The user this process acts for, by user id, not by what the environment says."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def clock(epoch: float, now: float) -> str:
    """A local time as Slurm prints it; without the date when it is today's.

    >>> clock(float("nan"), 0.0)
    '-'
    """
    if epoch != epoch or epoch in (float("inf"), float("-inf")):
        return "-"
    there, here = time.localtime(epoch), time.localtime(now)
    return time.strftime("%H:%M:%S" if there[:3] == here[:3] else "%Y-%m-%dT%H:%M:%S", there)


def parse_when(text: str) -> float:
    """Epoch seconds from Slurm's time forms: now, now-7days, today, HH:MM, YYYY-MM-DD[THH:MM[:SS]], local time.

    >>> parse_when("uts100")
    100.0
    """
    import re
    from datetime import datetime, timedelta

    from ..errors import UsageError

    word = text.strip()
    if re.fullmatch(r"uts\d+", word):
        return float(word[3:])
    now = datetime.now()
    if match := re.fullmatch(r"now(?:([+-]\d+)\s*(seconds?|minutes?|hours?|days?|weeks?)?)?", word):
        unit = (match[2] or "seconds").rstrip("s") + "s"
        return (now + timedelta(**{unit: int(match[1] or 0)})).timestamp()
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    days = {"today": 0, "midnight": 0, "yesterday": -1, "tomorrow": 1}
    if word in days:
        return (midnight + timedelta(days=days[word])).timestamp()
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", word):
            hours, minutes, *seconds = (int(part) for part in word.split(":"))
            return midnight.replace(hour=hours, minute=minutes, second=seconds[0] if seconds else 0).timestamp()
        return datetime.fromisoformat(word).timestamp()
    except ValueError:
        raise UsageError(
            f"not a time: {text!r} (accepted: YYYY-MM-DD[THH:MM[:SS]], HH:MM, today, yesterday, now, now-7days)"
        ) from None
