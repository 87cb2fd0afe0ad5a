# SPDX-License-Identifier: Apache-2.0
"""What holds of a site at one look, and the invariant that every planned limit keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

NOBODY: frozenset[str] = frozenset()


class How(StrEnum):
    """What is set of a waiting job so that Slurm plans with less than its limit."""

    LIMIT = "limit"
    """The limit itself; it is given back when the job has started."""
    TIME_MIN = "time-min"
    """--time-min: when Slurm starts the job by backfill it lowers the limit, down to this at the most."""


class Terms(NamedTuple):
    """What holds at one look. Seconds; instants since the epoch.

    `stopped` says why nothing may stand on a planned limit now; empty: planning goes on. `over_time` and `longest`
    are OverTimeLimit and MaxTime by partition, `defaults` the limits of jobs that name none. `walls` are the longest
    limits that accounting enforces, by ("qos", name) and ("user", account, user). `margin` is how long a look may be
    late. `least` is the shortest limit that is set. `how` is what is set: the limit, or --time-min. `comments`:
    AdminComment may be written, a record beside ours. `booted` is when slurmctld started: what it was told shortly
    before, it may have forgotten. Within `grace` of an entry a change that is on its way may still arrive.
    `partitions` and `qos` are opted in as a whole, `percent` of their jobs by `seed`. `at_start`: a script of ours
    gives limits back as jobs start (`start_list`), so a job that has started with its user's limit has it from us.
    """

    now: float
    over_time: Mapping[str, float]
    longest: Mapping[str, float]
    stopped: str = ""
    walls: Mapping[tuple[str, ...], float] = {}
    next_outage: float = math.inf
    margin: float = 60.0
    least: float = 60.0
    booted: float = -math.inf
    grace: float = 60.0
    partitions: frozenset[str] = NOBODY
    qos: frozenset[str] = NOBODY
    percent: float = 100.0
    seed: int = 0
    how: How = How.LIMIT
    comments: bool = False
    defaults: Mapping[str, float] = {}
    at_start: bool = False


def least_limit(user_limit: float, partitions: Sequence[str], over_time: Mapping[str, float]) -> float:
    """The shortest limit under which Slurm alone cannot end a job before its user's limit.

    Slurm ends a job when it has run for TimeLimit + OverTimeLimit. So with a limit of at least user_limit -
    OverTimeLimit it runs for its user's limit whatever becomes of the agent and of slurmctld. Of several partitions the
    least counts; of one that is not known nothing is allowed.

    >>> least_limit(7200.0, ["main", "long"], {"main": 1800.0, "long": 3600.0})
    5400.0
    >>> least_limit(7200.0, ["other"], {"main": 1800.0})
    7200.0
    """
    return user_limit - min((over_time.get(name, 0.0) for name in partitions), default=0.0)


def in_minutes(seconds: float) -> float:
    """Rounded up to whole minutes, Slurm's unit of limits, in seconds.

    >>> in_minutes(61.0), in_minutes(120.0)
    (120.0, 120.0)
    """
    return math.ceil(seconds / 60.0 - 1e-9) * 60.0


def opted_in(settings: Any, now: float, stop: str) -> Terms:
    """Of the terms only whose jobs these are: what advice in comments goes by."""
    return Terms(
        now=now,
        over_time={},
        longest={},
        stopped=stop,
        partitions=names_in(settings["plan_partitions"]),
        qos=names_in(settings["plan_qos"]),
        percent=settings["plan_percent"],
        seed=settings["plan_seed"],
    )


def names_in(text: str) -> frozenset[str]:
    return frozenset(filter(None, (name.strip() for name in text.split(","))))
