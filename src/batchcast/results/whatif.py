# SPDX-License-Identifier: Apache-2.0
"""Simulate a log on changed machines, with grown work, and with a planned outage, and compare the waits of its jobs."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from batchcast import plots

from ..errors import NoAnswer, UsageError, says_arguments
from ..evaluation.differences import (
    Replicates,
    ResultRow,
    burst_groups,
    moved_jobs,
    over_log,
    replicated,
    schedule_differences,
    shown_names,
)
from ..evaluation.limits import memory_note, placed_by
from ..evaluation.replay import jobs_mask
from ..evaluation.validity import MADE_FROM_LOG, MODELLED_ON_NODES, Recorded, Validity, judge_validity
from ..events.machine_size import machine_of_log
from ..events.setup import RunSetup
from ..machines.machine import Machine, parse_changes, vary
from ..metrics.accuracy import SIZE_CLASSES, size_class
from ..metrics.bursts import WEEK_S
from ..metrics.paired import Difference, PairedDifference, paired_differences
from ..processes import in_processes
from ..simulation.models import Nodes
from ..simulation.on_nodes import MemoryPlan, Ordering, QueuePlan, simulate_on
from ..simulation.outage import HOUR_S, Outage
from ..simulation.schedule import Schedule
from ..simulation.workload import left_out_words
from ..table import Trace, check_log
from ..table.result import Picture, Rows
from ..trace.machine_files import open_machine
from ..trace.select import format_date, zone
from ..units import counted, parse_duration, parse_share, parse_span

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

    Rows have kind, group, jobs, mean waits in s in the present and in the variant, and the difference; at most `MOST`
    groups gain and at most `MOST` lose. If `bursts` (the burst of each job, (n,)) is given, rows also have the
    difference's 90 % interval (NaN for fewer than 20 bursts), its verdict, and the number of bursts.
    """
    before, after = over_log(trace, now, now.wait_time), over_log(trace, then, then.wait_time)
    both = mask & ~np.isnan(before) & ~np.isnan(after)
    rows: list[dict[str, Any]] = []
    for kind, labels in _labels(trace, procs).items():
        groups: list[dict[str, Any]] = []
        for label, jobs in zip(*np.unique(labels[both], return_counts=True)):
            if label != "" and jobs >= LEAST:
                a, b = (float(waits[both & (labels == label)].mean()) for waits in (before, after))
                row = {"by": kind, "group": str(label), "jobs": int(jobs)}
                groups.append({**row, "now_s": a, "then_s": b, "change_s": b - a})
        groups.sort(key=lambda row: row["change_s"])
        groups = [*groups[:MOST], *groups[MOST:][-MOST:]]
        if bursts is not None:
            for row in groups:
                here, rng = both & (labels == row["group"]), np.random.default_rng(seed)
                pair = paired_differences(after[None, here], before[here], bursts[here], rng)[0]
                # without the largest burst of the difference: it belongs to one user, but other users see these rows
                stated = Difference(pair.difference, pair.low, pair.high, pair.verdict())
                row |= {"differences": {"wait_s": stated}, "bursts": pair.groups}
        rows += groups
    return rows


def _labels(trace: Trace, procs: str) -> dict[str, np.ndarray]:
    """Return the label of each job by kind of group, for the kinds that have several labels; unknown is empty."""
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

    rows: Sequence[ResultRow]
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
        memory, machines = {}, {NOW: (machine, "requested")}
        for text in texts:
            changes: Mapping[str, str] = parse_changes(text)
            kind, _, spec = changes.get("limits", "requested").partition(":")
            if kind not in ("forecast", "requested", "actual"):
                raise UsageError(f"limits={kind}: unknown (accepted: forecast, forecast:PREDICTOR, requested, actual)")
            if "memory" in changes:
                rule, _, risk = changes["memory"].partition(":")
                if rule not in ("forecast", "least_waste"):
                    accepted = "forecast, forecast:RISK such as forecast:1%, least_waste"
                    raise UsageError(f"memory={rule}: unknown (accepted: {accepted})")
                memory[text] = ("advice" if rule == "forecast" else rule), parse_share(risk) if risk else 0.05
            machines[text] = (vary(machine, changes), spec or ("kernel" if kind == "forecast" else kind))
        return cls(machines, memory, orders)

    def simulate(self, trace: Trace, name: str, procs: str = "req", tick: Tick | None = None) -> Simulated:
        """Simulate a log under one variant."""
        machine, spec = self.machines[name]
        memory = placed_by(trace, machine, *self.memory[name], procs=procs) if name in self.memory else None
        model = Nodes(machine, RunSetup(procs), queue=QueuePlan(memory, order=self.orders.get(name)))
        return Simulated(model.run(trace, None, spec, tick=tick), memory)

    def replicated(
        self, trace: Trace, procs: str, count: int, seed: int, tick: Tick | None = None, workers: int = 1
    ) -> Replicates | None:
        """Return each variant's differences over replicates of the log; None without replicates."""
        if not count:
            return None

        def schedule(name: str, again: Trace) -> Schedule:
            return self.simulate(again, name, procs).schedule

        again = {name: partial(schedule, name) for name in self.machines}
        return replicated(trace, again, NOW, count, seed, tick, workers)

    def result(
        self, trace: Trace, simulated: Mapping[str, Simulated], mask: np.ndarray, procs: str, seed: int,
        more: Replicates | None,
    ) -> WhatIf:  # fmt: skip
        """Return the result of a what-if from its simulated variants."""
        schedules = {name: run.schedule for name, run in simulated.items()}
        placed = {name: run.memory for name, run in simulated.items() if run.memory is not None}
        differences = schedule_differences(trace, schedules, mask, NOW, procs=procs, seed=seed)
        differences = more.added(differences) if more else differences
        rows = [
            ResultRow(
                {"policy": name, "predictor": self.machines[name][1], "part": "variant", **s.measures(mask[s.rows])},
                differences[name],
                {"out_of_memory": placed[name].out_of_memory(s.rows)} if name in placed else {},
            )
            for name, s in schedules.items()
        ]
        groups = [
            {"part": "group", "variant": name, **row}
            for name in list(schedules)[1:]
            for row in by_group(trace, schedules[NOW], schedules[name], mask, procs)
        ]
        policy = MADE_FROM_LOG.get(self.machines[NOW][0].name, "slurm")
        checked = judge_validity(
            Recorded.of(trace, mask, procs), schedules[NOW], modelled=MODELLED_ON_NODES, policy=policy
        )
        notes = [*schedules[NOW].remarks, *(memory_note(k, plan, schedules[k].rows) for k, plan in placed.items())]
        return WhatIf(rows, groups, schedules, checked, notes)


def _order(text: str) -> Ordering | None:
    """Return the queue order that a variant names."""
    changes = parse_changes(text)
    if "order" not in changes and changes.keys() & {"within", "age"}:
        raise UsageError(f"{text}: within and age go with order=forecast or order=limits")
    if "order" not in changes:
        return None
    age = parse_duration(changes["age"]) if "age" in changes else math.nan
    return Ordering.of(changes["order"], changes.get("within", "queue"), age)


REACTIONS = {"none": 0.0, "half": 0.5, "full": 1.0}
"""The share of the added capacity that users fill with more work because waits become shorter."""
EVERYTHING = "all"


@dataclass(frozen=True, slots=True, repr=False)
class Growth(Rows):
    """Result with one row per machine variant, reaction of users, and partition: mean and 90 % waits (s) with intervals
    over replicates."""

    notes: Sequence[str]

    _printed: ClassVar[tuple[str, ...]] = ("variant", "reaction", "partition", "jobs", "mean_wait_s", "wait_90_s")

    def __repr__(self) -> str:
        return f"<Growth of {len(self.rows)} rows>"

    def _pictures(self) -> Mapping[str, Picture]:
        keys = ("wait_90_s", "wait_90_s_low", "wait_90_s_high")
        each = {
            f"{row['variant']}, {row['reaction']}": tuple(float(row[key]) / 60 for key in keys)
            for row in self.rows
            if row["partition"] == EVERYTHING
        }
        return {"waits": partial(plots.intervals, each, "90 % of jobs wait at most (min)")}


def parse_growth(text: str) -> tuple[float, float]:
    """Read a change of the work in per cent, and a target of the 90 % wait, as a fraction and seconds (NaN: none).

    >>> parse_growth("+20%"), parse_growth("-5%,target=4h")
    ((0.2, nan), (-0.05, 14400.0))
    """
    match = re.fullmatch(r"([+-]?\d+(?:\.\d+)?)%(?:,target=(.+))?", text.strip())
    if match is None or not -100 < float(match[1]) <= 900:
        raise UsageError(f"--demand: {text!r} (accepted: +20%, -10%, 0%; above -100% and up to 900%; and target=4h)")
    return float(match[1]) / 100, parse_span(match[2]) if match[2] else math.nan


def smallest(rows: Sequence[Mapping[str, Any]], target: float) -> dict[str, str]:
    """Find, for each reaction of users, the machine variant with the fewest processors that keeps the 90 % wait below a
    target.

    The 90 % wait of all jobs must be below the target (s) in every replicate. The result is "" for a reaction without a
    sufficient variant. A variant without more processors, such as the present machine, has no capacity to which users
    could react, so it counts for every reaction.

    >>> row = {"partition": "all", "variant": "now", "reaction": "none", "procs": 4, "wait_90_s_high": 90.0}
    >>> more = [{**row, "variant": "add=1xn1", "procs": 8, "reaction": word} for word in ("none", "full")]
    >>> smallest([row, *more], 100.0), smallest([row, *more], 60.0)
    ({'none': 'now', 'full': 'now'}, {'none': '', 'full': ''})
    """
    variant_of = {str(row["reaction"]): "" for row in rows}
    reacting = {row["variant"] for row in rows if row["reaction"] != "none"}
    for row in sorted(rows, key=lambda row: -float(row["procs"])):
        if row["partition"] == EVERYTHING and row["wait_90_s_high"] < target:
            words = [str(row["reaction"])] if row["variant"] in reacting else variant_of
            variant_of |= dict.fromkeys(words, str(row["variant"]))
    return variant_of


def grown(trace: Trace, share: float, rng: np.random.Generator, procs: str = "req") -> Trace:
    """Return a log with more work (0.2: a fifth more) or less work (-0.1: a tenth less), by adding or removing whole
    user-weeks.

    >>> log = Trace.from_arrays({"submit_time": [0.0, 5.0, 9.0], "run_time": [10.0] * 3, "req_procs": [1] * 3,
    ...                          "user_id": ["a", "b", "c"]})
    >>> len(grown(log, 1.0, np.random.default_rng(0))), len(grown(log, -0.3, np.random.default_rng(0)))
    (6, 2)
    """
    # A user-week is one user's submissions of one week. User-weeks are drawn with replacement, and each is placed in a
    # drawn week, so that the bursts of a user stay together.
    work = np.nan_to_num(trace.procs(procs) * trace.run_time)
    target = abs(share) * float(work.sum())
    group = burst_groups(trace, procs)
    parts = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    weeks = int((trace.submit_time[-1] - trace.submit_time[0]) // WEEK_S) + 1
    drawn: list[np.ndarray] = []
    moved: list[np.ndarray] = []
    total, places = 0.0, rng.permutation(len(parts)).tolist()
    while total < target and (share > 0 or places):
        part = parts[int(rng.integers(len(parts))) if share > 0 else places.pop()]
        amount = float(work[part].sum())
        if amount and total + amount / 2 > target and rng.random() > (target - total) / amount:
            break  # the rule gives the requested work on average, whatever the size of the last user-week
        week = int((trace.submit_time[part[0]] - trace.submit_time[0]) // WEEK_S)
        drawn.append(part)
        moved.append(np.full(len(part), (int(rng.integers(weeks)) - week) * WEEK_S))
        total += amount
    rows = np.arange(len(trace))
    if share < 0:
        return trace.take(np.setdiff1d(rows, np.concatenate(drawn)) if drawn else rows)
    rows, shift = np.concatenate([rows, *drawn]), np.concatenate([np.zeros(len(trace)), *moved])
    by_time = np.argsort(trace.submit_time[rows] + shift, kind="stable")
    return moved_jobs(trace, rows[by_time], shift[by_time])


def growth(
    trace: Trace,
    plan: Variants,
    share: float,
    *,
    procs: str = "req",
    replicates: int = 5,
    seed: int = 0,
    workers: int = 1,
    tick: Tick | None = None,
) -> Growth:
    """Simulate a log with grown work on the present machine and on each variant, for three reactions of users."""
    # For each variant with more processors, users react by submitting further work that fills none, half or all of the
    # added capacity. Intervals reach from the smallest to the largest value over the replicates.
    if replicates < 2:
        raise UsageError("--demand: one replicate gives no interval (accepted: --replicates 2 and more)")
    present = plan.machines[NOW][0].cpus
    cases = [(NOW, "none", share)]
    for name, (machine, _) in list(plan.machines.items())[1:]:
        more = machine.cpus / present - 1
        reactions = REACTIONS if more > 0 else {"none": 0.0}
        cases += [(name, word, (1 + share) * (1 + part * more) - 1) for word, part in reactions.items()]
    states = np.random.default_rng(seed).spawn(replicates)

    def simulate(name: str, total: float, state: np.random.Generator) -> Mapping[str, tuple[int, float, float]]:
        log = grown(trace, total, copy.deepcopy(state), procs)
        return _waits(log, plan.simulate(log, name, procs).schedule)

    tasks = [partial(simulate, name, total, state) for name, _, total in cases for state in states]
    made = in_processes(tasks, workers, tick)
    rows = []
    for k, (name, word, total) in enumerate(cases):
        some = made[k * replicates : (k + 1) * replicates]
        for part in [EVERYTHING, *sorted({p for one in some for p in one} - {EVERYTHING})]:
            jobs, *waits = zip(*(one[part] for one in some if part in one))
            row: dict[str, Any] = {"variant": name, "reaction": word, "work": total, "partition": part}
            row |= {"procs": plan.machines[name][0].cpus, "jobs": round(float(np.mean(jobs))), "replicates": len(jobs)}
            for key, values in zip(("mean_wait_s", "wait_90_s"), waits):
                row |= {key: float(np.median(values)), f"{key}_low": min(values), f"{key}_high": max(values)}
            rows.append(row)
    notes = [f"{counted(replicates, 'log')} of drawn user-weeks for each row; intervals are their smallest and largest"]
    return Growth(rows, notes)


def _waits(trace: Trace, schedule: Any) -> Mapping[str, tuple[int, float, float]]:
    """Jobs, mean wait and 90 % wait (s) of a schedule, for all jobs, and by partition if the log has several."""
    waits, codes = schedule.wait_time, trace.nominal("partition_id").codes[schedule.rows]
    names = shown_names(trace, "partition_id")
    groups, present = {EVERYTHING: waits}, np.unique(codes[codes >= 0]).tolist()
    if len(present) > 1:
        groups |= {names[code]: waits[codes == code] for code in present}
    return {name: (len(w), float(w.mean()), float(np.quantile(w, 0.9))) for name, w in groups.items()}


LEAD_S = 14 * 86400.0
"""The simulation begins this long before the outage, so that the machine is full and a queue exists."""
TAIL_S = 2 * 86400.0
"""The log must continue for this long after an outage, because jobs that arrive then are delayed too."""
DELAYED_S = 60.0
"""A job counts as delayed if it starts later by more than a minute."""
SEED = 0


@dataclass(frozen=True, slots=True, repr=False)
class OutageResult(Rows):
    """Result with one row per start of the outage: the requested start first, then the other starts, ordered by
    increasing delayed work.

    `groups` are the users, accounts and partitions that an outage at the requested start delays most. `notes` state
    what the simulation assumes.
    """

    groups: Sequence[Mapping[str, Any]]
    notes: Sequence[str]

    _printed: ClassVar[tuple[str, ...]] = ("start", "delayed_jobs", "delayed_users", "mean_delay_s", "delayed_hours")

    def __repr__(self) -> str:
        return f"<OutageResult of {len(self.rows)} starts>"

    def _pictures(self) -> Mapping[str, Picture]:
        keys = ("delayed_hours", "delayed_hours_low", "delayed_hours_high")
        each = {str(row["start"]): tuple(float(row[key]) for key in keys) for row in self.rows}
        return {"starts": partial(plots.intervals, each, "delayed work (processor-hours)")}


def outage(
    trace: Trace, machine: Machine, planned: Outage, *, procs: str = "req", workers: int = 1, tick: Tick | None = None
) -> OutageResult:
    """Simulate a log under Slurm's loops without and with a planned outage, at its requested start and at other starts
    of that week.

    >>> from batchcast.machines.machine import homogeneous
    >>> log = Trace.from_arrays({"submit_time": [0.0, 10.0, 9000.0], "run_time": [60.0] * 3, "req_time": [90.0] * 3,
    ...                          "req_procs": [4] * 3})
    >>> found = outage(log, homogeneous(1, 4), Outage("ALL", 100.0, 3600.0, 7 * 86400.0))
    >>> found.rows[0]["delayed_jobs"], found.rows[0]["mean_delay_s"] > 3500
    (1, True)
    """
    # Jobs from two weeks before the outage to a week after the last start are simulated. The scheduler knows the
    # outage's reservation from the beginning, so no job starts that would run into the outage.
    #
    # The work that an outage delays is the sum over jobs of processors times the change of the start, in
    # processor-hours; jobs that start earlier reduce the sum. The intervals of the delayed work and of the difference
    # to the best start resample user-weeks (`metrics.paired_differences`).
    first = planned.start - LEAD_S
    near = (trace.submit_time >= first) & (trace.submit_time < planned.start + 2 * WEEK_S + planned.length)
    last, week = float(trace.submit_time[-1]) if len(trace) else -np.inf, planned.starts()
    starts = [planned.start, *(start for start in week[1:] if start + planned.length + TAIL_S <= last)]
    if not near.any() or planned.start > last:
        ends, there = trace.info.unix_start + trace.submit_time[[0, -1]], zone(trace.info.timezone)
        begin, end = (format_date(float(t), there) for t in ends)
        what = f"the outage is not within the log, whose jobs were submitted from {begin} to {end}"
        raise NoAnswer(what, hint="a start within the log")
    part = trace if near.all() else trace.take(near, replace(trace.info))
    machines = (machine, *(planned.on(machine, start) for start in starts))
    simulate = [partial(simulate_on, each, part, setup=RunSetup(procs)) for each in machines]
    now, *held = in_processes(simulate, workers, tick)
    rows = _rows(part, now, held, starts, procs)
    groups = by_group(part, now, held[0], np.ones(len(part), bool), procs)
    asked, others = rows[0], sorted(rows[1:], key=lambda row: float(row["delayed_hours"]))
    notes = left_out_words(now.left_out)
    if cut := len(week) - len(starts):
        notes.append(f"{counted(cut, 'start')} of that week left out, because the log ends within two days after it")
    if planned.start + planned.length + TAIL_S > last:
        notes.append("the log ends within two days after the outage, so less work is delayed than would be")
    return OutageResult([asked, *others], [row for row in groups if row["change_s"] > 0], [*notes, *now.notes])


def _rows(
    trace: Trace, now: Schedule, held: Sequence[Schedule], starts: Sequence[float], procs: str
) -> list[dict[str, Any]]:
    """Return the work delayed by an outage at each start, and the difference from the best, with intervals."""
    begins = np.array([over_log(trace, schedule, schedule.start_time) for schedule in (now, *held)])
    both = ~np.isnan(begins).any(axis=0)
    if not both.any():
        raise UsageError("--reserve: with the outage no job would ever start (accepted: fewer hours or nodes)")
    delay = begins[1:, both] - begins[0, both]
    hours = delay * trace.procs(procs)[both] / HOUR_S
    group = burst_groups(trace, procs)[both]
    users = trace.nominal("user_id").codes[both]
    best = int(np.argmin(hours.sum(axis=1)))
    none = np.zeros(hours.shape[1])
    rng = np.random.default_rng(SEED)
    alone = paired_differences(hours, none, group, rng)
    to_best = paired_differences(hours, hours[best], group, rng)
    there = zone(trace.info.timezone)
    rows = []
    for k, start in enumerate(starts):
        late = delay[k] > DELAYED_S
        rows.append({
            "start": format_date(trace.info.unix_start + start, there), "start_s": trace.info.unix_start + start,
            "part": "asked" if k == 0 else "other", "jobs": int(both.sum()), "delayed_jobs": int(late.sum()),
            "delayed_users": len(np.unique(users[late & (users >= 0)])),
            "mean_delay_s": float(delay[k, late].mean()) if late.any() else 0.0,
            "most_delay_s": float(delay[k].max(initial=0.0)),
            **_total("delayed_hours", alone[k]),
            **_total("more_than_best_hours", to_best[k]),
            "verdict": "best" if k == best else to_best[k].verdict(),
        })  # fmt: skip
    return rows


def _total(name: str, pair: PairedDifference) -> dict[str, float]:
    """Return a sum over jobs and its interval, from the difference of means."""
    values = {name: pair.difference, f"{name}_low": pair.low, f"{name}_high": pair.high}
    return {key: value * pair.jobs for key, value in values.items()}
