# SPDX-License-Identifier: Apache-2.0
"""Compares variants of a machine on one log: whose waits become shorter and whose longer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from batchcast import plots

from ..errors import UsageError, says_arguments
from ..evaluation.differences import over_log, schedule_differences, shown_names
from ..evaluation.memory_limits import memory_note, placed_by
from ..evaluation.replay import jobs_mask
from ..evaluation.resampling import replicated
from ..evaluation.simulated import MADE_FROM_LOG
from ..evaluation.validity import MODELLED_ON_NODES, Validity, judge_validity
from ..events.machine_size import machine_of_log
from ..machines.machine import Machine, parse_changes, vary
from ..metrics.accuracy import SIZE_CLASSES, size_class
from ..metrics.paired import Difference, paired_differences
from ..processes import in_processes
from ..simulation.models import Nodes
from ..simulation.on_nodes import MemoryPlan, Ordering, QueuePlan
from ..simulation.schedule import Schedule
from ..table import Trace, check_log
from ..table.result import Picture, Rows
from ..trace.machine_files import open_machine
from ..units import parse_duration, parse_share

BY = ("user_id", "account", "qos", "partition_id")
LEAST = 20
"""Smaller groups are not shown separately, because single jobs would decide them."""
MOST = 3
"""Number of groups of each kind whose mean wait falls most, and of those whose mean wait rises most."""


def by_group(
    trace: Trace, now: Schedule, then: Schedule, mask: np.ndarray, procs: str = "req",
    bursts: np.ndarray | None = None, seed: int = 0,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return, for users, accounts and partitions, the groups whose mean wait falls or rises most, over the jobs in both
    schedules.

    Rows have kind, group, jobs, mean waits in s in the present and in the variant, and the difference; at most `most`
    groups gain and at most `most` lose. If `bursts` (the burst of each job, (n,)) is given, rows also have the
    difference's 90 % interval (NaN for fewer than 20 bursts), its verdict, and the number of bursts.
    """
    before, after = over_log(trace, now, now.wait_time), over_log(trace, then, then.wait_time)
    both = mask & ~np.isnan(before) & ~np.isnan(after)
    rows: list[dict[str, Any]] = []
    for kind, labels in _labels(trace, procs).items():
        groups: list[dict[str, Any]] = []
        for label in np.unique(labels[both]):
            here = both & (labels == label)
            if label != "" and here.sum() >= LEAST:
                a, b = float(before[here].mean()), float(after[here].mean())
                row = {"by": kind, "group": str(label), "jobs": int(here.sum())}
                groups.append({**row, "now_s": a, "then_s": b, "change_s": b - a})
        groups.sort(key=lambda row: row["change_s"])
        groups = groups if len(groups) <= 2 * MOST else [*groups[:MOST], *groups[-MOST:]]
        if bursts is not None:
            for row in groups:
                here = both & (labels == row["group"])
                row |= _interval(after[here], before[here], bursts[here], seed)
        rows += groups
    return rows


def _interval(after: np.ndarray, before: np.ndarray, group: np.ndarray, seed: int) -> dict[str, Any]:
    pair = paired_differences(after[None], before, group, np.random.default_rng(seed))[0]
    # without the largest burst of the difference, which belongs to one user, because other users also see these rows
    stated = Difference(pair.difference, pair.low, pair.high, pair.word())
    return {"differences": {"wait_s": stated}, "bursts": pair.groups}


def _labels(trace: Trace, procs: str) -> dict[str, np.ndarray]:
    # the code -1 of unknown users is the index of the last name, which is empty
    labels = {name: np.array([*shown_names(trace, name), ""])[trace.nominal(name).codes] for name in BY}
    sizes = size_class(trace.procs(procs))
    labels["size class"] = np.array([SIZE_CLASSES[k] if k >= 0 else "" for k in sizes])
    return {kind: values for kind, values in labels.items() if len(set(values.tolist()) - {""}) > 1}


NOW = "now"
Tick = Callable[[int], None]


@dataclass(frozen=True, slots=True, repr=False)
class WhatIf(Rows):
    """Results of a what-if: one row per machine variant, the present machine first, with waits and the difference from
    the present machine.

    `groups` are the users, accounts and partitions whose waits change most; `schedules` has each variant's schedule;
    `validity` says how well the simulation of the present machine reproduces the recorded waits.
    """

    groups: Sequence[Mapping[str, Any]]
    schedules: Mapping[str, Schedule]
    validity: Validity
    notes: Sequence[str]

    _printed: ClassVar[tuple[str, ...]] = (
        "policy", "jobs", "mean_wait_s", "mean_wait_s_difference", "median_wait_s", "max_wait_s",
    )  # fmt: skip

    def __repr__(self) -> str:
        return f"<WhatIf of {', '.join(self.schedules)}>"

    def _pictures(self) -> Mapping[str, Picture]:
        return {
            "differences": partial(plots.differences, self.rows, by=("policy",)),
            "waits": partial(plots.waits, self.schedules),
            "frontier": partial(plots.frontier, self.schedules),
        }


@says_arguments
def whatif(
    trace: Trace,
    machine: Machine | str | Path | None,
    variants: str | Sequence[str],
    *,
    mask: np.ndarray | None = None,
    procs: str = "req",
    replicates: int = 0,
    seed: int = 0,
    workers: int = 1,
) -> WhatIf:
    """Simulate a log under Slurm's loops on the present machine and on variants, as `batchcast whatif` does.

    Parameters
    ----------
    trace
        The log.
    machine
        The present machine, or a file that describes it (`batchcast machine capture`). If None, the machine follows
        from the log's header, else from the log's peak use.
    variants
        Changes of the machine, one text per variant in the form of `--vary`: `nodes=+10%`, `limits=forecast`,
        `order=forecast`.
    mask
        Which jobs are scored, booleans of shape (n,); all jobs are scheduled.
    procs
        Which processor count of a job is used: `req` (requested, else allocated) or `alloc`.
    replicates
        Number of further logs that are made from this log's weeks and simulated.
    seed
        Random seed of intervals and replicates.
    workers
        Number of processes; it does not change the results.

    Returns
    -------
    WhatIf
        The result, with `rows`, `groups`, `plot()` (`differences`, `waits`, `frontier`) and frames.

    Raises
    ------
    UsageError
        If a variant's text is wrong; the message has the accepted keys.

    Examples
    --------
    >>> from batchcast import Trace
    >>> from batchcast.machines.machine import homogeneous
    >>> log = Trace.from_arrays({"submit_time": [0.0, 1.0, 2.0], "wait_time": [0.0] * 3, "run_time": [60.0] * 3,
    ...                          "req_time": [90.0] * 3, "req_procs": [4, 4, 4]})
    >>> found = whatif(log, homogeneous(1, 4, 4000.0), "nodes=+100%")
    >>> found.to_polars()["policy"].to_list(), found.rows[1]["mean_wait_s"] < found.rows[0]["mean_wait_s"]
    (['now', 'nodes=+100%'], True)
    """
    check_log(trace)
    if not isinstance(machine, Machine):
        if not (machine is None or isinstance(machine, (str, Path))):
            accepted = "None, by the log; a file that describes it; a machines.machine.Machine"
            raise UsageError(f"machine: a {type(machine).__name__} (accepted: {accepted})")
        machine = machine_of_log(trace, procs) if machine is None else open_machine(str(machine))
    plan = Variants.of(machine, [variants] if isinstance(variants, str) else variants)
    tasks = [partial(plan.simulate, trace, name, procs) for name in plan.machines]
    made = dict(zip(plan.machines, in_processes(tasks, workers)))
    more = plan.replicated(trace, procs, replicates, seed, workers=workers)
    return plan.result(trace, made, jobs_mask("mask", mask, trace), procs, seed, more)


class Simulated(NamedTuple):
    """One variant's schedule, and the variant's memory requests if it changes them."""

    schedule: Schedule
    memory: MemoryPlan | None


@dataclass(frozen=True, slots=True)
class Variants:
    """Machine and predictor of each variant by name, the present machine first; also the variants' rules for memory
    requests and queue order."""

    machines: Mapping[str, tuple[Machine, str]]
    memory: Mapping[str, tuple[str, float]]
    orders: Mapping[str, Ordering]

    @classmethod
    def of(cls, machine: Machine, texts: Sequence[str]) -> Variants:
        """Parse the texts of the variants; UsageError for an unknown key."""
        orders = {name: order for name in texts if (order := _order(name)) is not None}
        memory: dict[str, tuple[str, float]] = {}
        machines = {NOW: (machine, "requested")}
        for text in texts:
            changes: Mapping[str, str] = parse_changes(text)
            kind, _, spec = changes.get("limits", "requested").partition(":")
            if kind not in ("forecast", "requested", "actual"):
                raise UsageError(f"limits={kind}: unknown (accepted: forecast, forecast:PREDICTOR, requested, actual)")
            if "memory" in changes:
                memory[text] = _memory(changes["memory"])
            machines[text] = (vary(machine, changes), spec or ("kernel" if kind == "forecast" else kind))
        return cls(machines, memory, orders)

    def simulate(self, trace: Trace, name: str, procs: str = "req", tick: Tick | None = None) -> Simulated:
        """Simulate a log under one variant."""
        machine, spec = self.machines[name]
        memory = placed_by(trace, machine, *self.memory[name], procs=procs) if name in self.memory else None
        model = Nodes(machine, procs, queue=QueuePlan(memory, order=self.orders.get(name)))
        return Simulated(model.run(trace, None, spec, tick=tick), memory)

    def replicated(
        self, trace: Trace, procs: str, count: int, seed: int, tick: Tick | None = None, workers: int = 1
    ) -> dict[str, dict[str, Any]]:
        """Return the keys that replicates of the log add to each variant's row; empty without replicates."""
        if not count:
            return {}

        def schedule(again: Trace, name: str) -> Schedule:
            return self.simulate(again, name, procs).schedule

        return replicated(trace, list(self.machines), schedule, NOW, count, seed, tick, workers)

    def result(
        self, trace: Trace, made: Mapping[str, Simulated], mask: np.ndarray, procs: str, seed: int,
        more: Mapping[str, Mapping[str, Any]],
    ) -> WhatIf:  # fmt: skip
        """Return the result of a what-if from its simulated variants."""
        schedules = {name: one.schedule for name, one in made.items()}
        placed = {name: one.memory for name, one in made.items() if one.memory is not None}
        keys = schedule_differences(trace, schedules, mask, NOW, procs=procs, seed=seed)
        rows = [
            {"policy": name, "predictor": self.machines[name][1], "part": "variant", **s.measures(mask[s.rows])}
            | {**keys[name], **more.get(name, {})}
            | ({"out_of_memory": placed[name].out_of_memory(s.rows)} if name in placed else {})
            for name, s in schedules.items()
        ]
        groups = [
            {"part": "group", "variant": name, **row}
            for name in list(schedules)[1:]
            for row in by_group(trace, schedules[NOW], schedules[name], mask, procs)
        ]
        now = self.machines[NOW][0]
        checked = judge_validity(
            trace, schedules[NOW], mask, procs=procs, modelled=MODELLED_ON_NODES,
            policy=MADE_FROM_LOG.get(now.name, "slurm"),
        )  # fmt: skip
        notes = [*schedules[NOW].remarks, *(memory_note(k, plan, schedules[k].rows) for k, plan in placed.items())]
        return WhatIf(rows, groups, schedules, checked, notes)


def _order(text: str) -> Ordering | None:
    """Return the queue order that a variant names."""
    changes = parse_changes(text)
    if "order" not in changes:
        if "within" in changes or "age" in changes:
            raise UsageError(f"{text}: within and age go with order=forecast or order=limit")
        return None
    age = parse_duration(changes["age"]) if "age" in changes else math.nan
    return Ordering.of(changes["order"], changes.get("within", "queue"), age)


def _memory(value: str) -> tuple[str, float]:
    """Return the rule for memory requests that a variant names, and the rule's risk."""
    rule, _, risk = value.partition(":")
    if rule not in ("forecast", "least_waste"):
        raise UsageError(f"memory={rule}: unknown (accepted: forecast, forecast:RISK such as forecast:1%, least_waste)")
    return ("advice" if rule == "forecast" else rule), parse_share(risk) if risk else 0.05
