# SPDX-License-Identifier: Apache-2.0
"""A planned outage: a reservation that keeps nodes free for some hours, and alternative start times."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..errors import UsageError
from ..formats.slurm.resources import expand
from ..machines.machine import Machine, Reservation

HOUR_S, WEEK_S = 3600.0, 7 * 86400.0
FORM = "nodes=ALL,start=2026-12-01T08:00,hours=10"
STEP_H = 6.0
MOST_STARTS = 337
"""Starts within a week at a step of half an hour; each costs a simulation."""
NAME = "planned_outage"
KEYS = ("nodes", "start", "hours", "step")


@dataclass(frozen=True, slots=True)
class Outage:
    """A reservation of nodes for `length` seconds from `start`, in seconds on the log's clock or of the epoch.

    `nodes` is `ALL`, a partition, or a host list such as `n[1-4]`. Other start times within the week are
    tried at intervals of `step` seconds.
    """

    nodes: str
    start: float
    length: float
    step: float = STEP_H * HOUR_S

    def names(self, machine: Machine) -> tuple[str, ...]:
        """Return the names of the nodes that the outage reserves; UsageError if a node does not exist."""
        there = machine.node_names()
        if self.nodes.upper() == "ALL":
            return there
        part = next((p for p in machine.partitions if p.name == self.nodes), None)
        names = part.nodes if part is not None else expand(self.nodes)
        strange = sorted(set(names) - set(there))
        if strange or not names:
            raise UsageError(
                f"--reserve: no node {(strange or [self.nodes])[0]!r} on this machine (accepted: ALL, a partition, or "
                f"nodes such as {there[0]})"
            )
        return names

    def on(self, machine: Machine, start: float) -> Machine:
        """Return the machine with the outage's reservation added from the given start time.

        >>> from batchcast.machines.machine import homogeneous
        >>> Outage("ALL", 0.0, 60.0).on(homogeneous(2, 4), 30.0).reservations[0].end
        90.0
        """
        added = Reservation(NAME, self.names(machine), start, start + self.length, flags=("MAINT",))
        return replace(machine, reservations=(*machine.reservations, added))

    def starts(self, earliest: float = -math.inf) -> list[float]:
        """Return the requested start and later starts within a week, at intervals of `step`, without start times before
        `earliest`."""
        count = math.ceil(WEEK_S / self.step)
        later = (self.start + k * self.step for k in range(count))
        return [start for start in later if start >= earliest]


def parse_outage(text: str, when: Callable[[str], float]) -> Outage:
    """Read `nodes=ALL,start=TIME,hours=10`; `when` turns the time into seconds. Raises UsageError for a text of another
    form.

    `step=HOURS` is the interval between the start times that are tried; its default is six hours.

    >>> parse_outage("nodes=n[1,3],start=90,hours=2", float)
    Outage(nodes='n[1,3]', start=90.0, length=7200.0, step=21600.0)
    """
    pairs = [piece.partition("=") for piece in re.split(r",(?=\w+=)", text)]
    given = {key.strip(): value.strip() for key, _, value in pairs}
    if set(given) - set(KEYS) or not {"nodes", "start", "hours"} <= set(given) or not all(given.values()):
        raise UsageError(f"--reserve: {text!r} (accepted: {FORM}, and step=HOURS)")
    hours, step = (_hours(key, given.get(key, f"{STEP_H:g}")) for key in ("hours", "step"))
    if WEEK_S / (step * HOUR_S) > MOST_STARTS:
        raise UsageError(
            f"--reserve: step={step:g} makes more than {MOST_STARTS - 1} starts in a week (accepted: 0.5 and more)"
        )
    return Outage(given["nodes"], when(given["start"]), hours * HOUR_S, step * HOUR_S)


def parse_extension(text: str) -> tuple[str, float]:
    """Read `job=4711,hours=4` as a job id and hours. Raises UsageError for a text of another form.

    >>> parse_extension("job=4711,hours=4")
    ('4711', 4.0)
    """
    given = dict(piece.partition("=")[::2] for piece in text.split(","))
    if set(given) != {"job", "hours"} or not given["job"]:
        raise UsageError(f"--extend: {text!r} (accepted: job=4711,hours=4)")
    return given["job"].strip(), _hours("hours", given["hours"], "--extend")


def _hours(key: str, text: str, option: str = "--reserve") -> float:
    """Read a number of hours above 0 and up to 30 days."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 720:
        raise UsageError(f"{option}: {key}={text!r} (accepted: hours above 0 and up to 720, such as {key}=10)")
    return value
