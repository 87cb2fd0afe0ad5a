# SPDX-License-Identifier: Apache-2.0
"""Computes the energy of a schedule: the power of each node in its state, summed over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from ..errors import UsageError, check_takes, raised_outside, standing_at
from .own_clock import nodes_of
from .schedule import Schedule

BUSY, IDLE, OFF = "busy", "idle", "off"
JOULES_A_KWH = 3.6e6


@runtime_checkable
class Power(Protocol):
    """Protocol of a node's power by state; a node that was idle for `off_after` seconds is off until a job needs the
    node."""

    @property
    def off_after(self) -> float:
        """Seconds without a job after which a node is switched off; infinity means never."""

    def watts(self, state: str, used: int, procs: int) -> float:
        """Return the power in watts of a node with `procs` processors, by its state: `busy` (with `used` processors in
        use), `idle` or `off`."""


@dataclass(frozen=True, slots=True)
class Watts:
    """Watts per processor: The power attributes are `idle` for a node without a job, `busy` for a node with a job and
    `off` for a node that is switched off.

    Switching a node costs neither time nor energy in this model, so the savings of switching off are an upper bound.

    >>> Watts(idle=5.0, busy=10.0).watts("busy", 2, 4)
    30.0
    """

    idle: float = 5.0
    busy: float = 10.0
    off: float = 0.5
    off_after: float = math.inf

    def watts(self, state: str, used: int, procs: int) -> float:
        """See `Power`."""
        if state == OFF:
            return self.off * procs
        return self.idle * procs + (self.busy - self.idle) * used


def energy(schedule: Schedule, power: Any = None, nodes: Any = ()) -> dict[str, float]:
    """Compute the energy of a schedule from its first submission to its last end.

    Parameters
    ----------
    schedule
        A schedule of your own scheduler on `nodes`, or any schedule on a pool, which counts as one node.
    power
        Power of a node in each state, by default `Watts()`; an object or its class.
    nodes
        Processors of each node, as for `simulate`, if the schedule has nodes.

    Returns
    -------
    dict
        `energy_kwh`, `busy_kwh`, `idle_kwh`, `off_kwh`, and `kwh_per_core_hour` of the jobs' core-hours.
        O(n log n).

    Raises
    ------
    UsageError
        If a pool's nodes should be switched off, if `nodes` are not the nodes of the schedule, or if watts are not
        numbers.

    Examples
    --------
    >>> from batchcast import Trace, simulate
    >>> log = Trace.from_arrays({"submit_time": [0, 0], "run_time": [3600, 3600], "req_time": [3600, 3600],
    ...                          "req_procs": [2, 4]})
    >>> energy(simulate(log, total=4), Watts(idle=100.0, busy=200.0))["energy_kwh"]
    1.4
    """
    drawn = _power(power)
    if not isinstance(schedule, Schedule):
        raise UsageError(f"energy: {type(schedule).__name__} is not a schedule (accepted: the result of simulate)")
    placed = schedule.nodes or tuple({0: int(procs)} for procs in schedule.procs.tolist())
    sizes = [schedule.total] if not schedule.nodes else [node.procs for node in nodes_of(nodes)] if nodes else []
    if not schedule.nodes and drawn.off_after < math.inf:
        raise UsageError("energy: a pool has no nodes that could be off (accepted: off_after=inf)",
                         hint="simulate with your own scheduler and nodes=[...]")  # fmt: skip
    placements = (each for where in schedule.nodes for each in where.items())
    if sum(sizes) != schedule.total or any(k >= len(sizes) or procs > sizes[k] for k, procs in placements):
        raise UsageError(f"energy: nodes={nodes!r} (accepted: the nodes that the schedule was made on)")
    joules = dict.fromkeys((BUSY, IDLE, OFF), 0.0)
    first = float(schedule.submit_time.min()) if len(schedule) else 0.0
    last = float(schedule.end_time.max()) if len(schedule) else 0.0
    held: list[list[tuple[float, float, int]]] = [[] for _ in sizes]
    for where, start, end in zip(placed, schedule.start_time.tolist(), schedule.end_time.tolist()):
        for number, procs in where.items():
            held[number].append((start, end, procs))
    for jobs, procs in zip(held, sizes):
        for seconds, used in _steps(jobs, first, last):
            awake = seconds if used else min(seconds, drawn.off_after)
            joules[BUSY if used else IDLE] += awake * _watts(drawn, BUSY if used else IDLE, used, procs)
            if seconds > awake:
                joules[OFF] += (seconds - awake) * _watts(drawn, OFF, 0, procs)
    worked = float((schedule.procs * schedule.run_time).sum()) / 3600.0
    kwh = {f"{state}_kwh": value / JOULES_A_KWH for state, value in joules.items()}
    total = math.fsum(kwh.values())
    return {"energy_kwh": total, **kwh, "kwh_per_core_hour": total / worked if worked > 0 else math.nan}


def energy_rows(schedules: Mapping[str, Schedule], power: Any = None, nodes: Any = ()) -> list[dict[str, Any]]:
    """Return one flat row per policy with the energy and the mean wait of its schedule.

    Examples
    --------
    >>> from batchcast import Trace, simulate
    >>> log = Trace.from_arrays({"submit_time": [0, 0], "run_time": [9, 9], "req_time": [9, 9], "req_procs": [2, 4]})
    >>> [row["policy"] for row in energy_rows({each: simulate(log, each, total=4) for each in ("fcfs", "easy")})]
    ['fcfs', 'easy']
    """
    if not isinstance(schedules, Mapping):
        what = f"energy: got {type(schedules).__name__}; expected a dict of name to schedule"
        raise UsageError(f'{what} (accepted: {{"easy": simulate(log, "easy"), ...}})')
    return [
        {"policy": name, **energy(schedule, power, nodes), "mean_wait_s": schedule.measures()["mean_wait_s"]}
        for name, schedule in schedules.items()
    ]


def _steps(jobs: Sequence[tuple[float, float, int]], first: float, last: float) -> list[tuple[float, int]]:
    """Return periods from `first` to `last`, each with its length in seconds and the number of processors used
    throughout the period."""
    if not jobs:
        return [(last - first, 0)]
    start, end, procs = (np.array(column, float) for column in zip(*jobs))
    time = np.concatenate([[first], start, end, [last]])
    change = np.concatenate([[0.0], procs, -procs, [0.0]])
    order = np.argsort(time, kind="stable")
    used = np.rint(np.cumsum(change[order]))[:-1].astype(int)
    seconds = np.diff(time[order])
    spans: list[tuple[float, int]] = []
    for length, held in zip(seconds.tolist(), used.tolist()):
        if length > 0 and spans and spans[-1][1] == held:
            spans[-1] = (spans[-1][0] + length, held)  # merge equal periods, so that an idle period counts as one
        elif length > 0:
            spans.append((length, held))
    return spans


def _power(given: Any) -> Power:
    """Return a Power object, created if a class is given; UsageError names a missing member."""
    power = Watts() if given is None else given() if isinstance(given, type) else given
    name = getattr(power, "__name__", type(power).__name__)
    off_after = getattr(power, "off_after", None)
    if not (callable(getattr(power, "watts", None)) and isinstance(off_after, Real)):
        forms = "a number off_after and a method watts(state, used, procs), as in Watts"
        raise UsageError(f"energy: {name} is not a Power (accepted: {forms})")
    check_takes(power, f"energy: {name}", "watts(state, used, procs)")
    if not float(off_after) >= 0:
        raise UsageError(f"energy: {name}.off_after is {off_after!r} (accepted: seconds from 0, or infinity: never)")
    return cast("Power", power)


def _watts(power: Power, state: str, used: int, procs: int) -> float:
    who = f"energy: {type(power).__name__}"
    try:
        watts = power.watts(state, used, procs)
    except Exception as error:
        raise raised_outside(error, f"{who}.watts({state!r}, {used}, {procs})") from error
    if not (isinstance(watts, Real) and 0 <= watts < math.inf):
        what = f"{who}{standing_at(power.watts)} answered {watts!r} W for {state!r}"
        raise UsageError(f"{what} (accepted: a finite number, 0 or more)")
    return watts
