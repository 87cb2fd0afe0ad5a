# SPDX-License-Identifier: Apache-2.0
"""The order that forecasts buy under Slurm's loops: what orders, among whom, and the machine that can be ordered."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..cluster.machine import Machine
from ..cluster.request import NodeRequest
from ..errors import UsageError
from ..planning.order import AgeFinder, OrderRule, Queue, decide_order
from ..schedule.slurm.reorder import Reorder, Seen

BY = ("none", "forecast", "limit")
FOUND_EVERY_S = 300.0
"""An age that is found from the queue, and what is dealt out, are looked at anew at least so often."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """What orders waiting jobs (`none`, `forecast`, `limit`), by which predictor, under which rule.

    A predictor may also be the forecasts themselves, one a job of the log (n,), s; NaN: by its limit.

    >>> Ordering.of("forecast:last_2").predictor, Ordering.of("forecast").predictor
    ('last_2', 'kernel')
    """

    by: str = "none"
    predictor: Any = "kernel"
    rule: OrderRule = field(default_factory=OrderRule)

    @classmethod
    def of(cls, words: str, within: str = "queue", age: float = math.nan) -> Ordering:
        """From the words of a command. UsageError for one that is unknown."""
        by, _, spec = words.partition(":")
        if by not in BY or (spec and by != "forecast"):
            raise UsageError(f"order={words}: unknown (accepted: none, forecast, forecast:PREDICTOR, limit)")
        return cls(by, spec or "kernel", OrderRule(within, age))


def orderable(machine: Machine) -> Machine:
    """The machine with priorities that a SiteFactor can change: priority/basic becomes multifactor without weights.

    That keeps the order of arrival as it is.
    """
    if "multifactor" in machine.settings.get("PriorityType", ""):
        return machine
    settings = {k: v for k, v in machine.settings.items() if not k.startswith("PriorityWeight")}
    settings |= {"PriorityType": "priority/multifactor", "PriorityCalcPeriod": "7-00:00:00"}
    return replace(machine, settings=settings)


def reorder_by(
    rule: OrderRule, machine: Machine, requests: Sequence[NodeRequest], length: Callable[[NodeRequest], float]
) -> Reorder:
    """What each look of the simulation asks: the pure decision of `planning.order` on the jobs that wait."""
    ordered = sorted(requests, key=lambda r: r.submit)
    lengths = np.array([length(r) for r in ordered])
    sizes = np.array([float(r.cpus) for r in ordered])
    finder = AgeFinder(float(machine.cpus))
    steady = rule.within == "queue" and rule.age == rule.age

    def reorder(seen: Seen) -> tuple[np.ndarray, float]:
        group = np.where(seen.array >= 0, len(ordered) + seen.array, seen.places)
        queue = Queue(
            group, seen.arrival, sizes[seen.places], seen.priority, seen.factor, seen.factor != 0,
            lengths[seen.places], seen.user if rule.within == "user" else seen.account,
        )  # fmt: skip
        age = rule.age
        if age != age:
            age = finder.look(seen.places.tolist(), seen.arrival, queue.forecast * queue.size, seen.now)
        order = decide_order(queue, replace(rule, age=age), seen.now)
        coming = seen.arrival[~order.aged] + age
        crossing = float(np.nanmin(coming, initial=math.inf)) + 1e-6 if len(coming) else math.inf
        if steady and not np.isnan(seen.arrival).any():
            return order.factor, crossing
        return order.factor, min(crossing, seen.now + FOUND_EVERY_S)

    return reorder
