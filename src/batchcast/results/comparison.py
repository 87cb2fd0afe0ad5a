# SPDX-License-Identifier: Apache-2.0
"""Side by side: two reports, two schedules, or variants of a machine on one log; and a report read again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import plots
from ..cluster.machine import Machine
from ..cluster.vary import parse_changes, vary
from ..errors import UsageError
from ..evaluation import comparison
from ..evaluation.comparison import Comparison
from ..evaluation.differences import schedule_differences
from ..evaluation.memory_limits import memory_note, placed_by
from ..evaluation.replay import check_log, jobs_mask
from ..evaluation.resampling import replicated
from ..evaluation.simulated import MADE_FROM_LOG
from ..evaluation.validity import MODELLED_ON_NODES, Validity, judge_validity
from ..evaluation.whatif import by_group
from ..processes import in_processes
from ..simulation import Schedule
from ..simulation.slurm_order import Ordering
from ..simulation.slurm_trace import MemoryPlan, QueuePlan, simulate_on
from ..table import Trace
from ..table.result import Picture, Rows
from ..trace.schedule import FORECASTS, GROUPS, read_forecasts, read_groups, read_result, read_schedule, read_starts
from ..trace.slurm_record import open_machine
from ..units import parse_duration, parse_share


@dataclass(frozen=True, slots=True, repr=False)
class Report(Rows):
    """What `evaluate` left in a folder: its rows (`part` tells them apart), the whole `document`, and where it lies."""

    document: Mapping[str, Any]
    folder: Path

    def __repr__(self) -> str:
        return f"<Report of {self.document['log'].get('jobs')} jobs in {self.folder}>"

    def part(self, name: str) -> list[Mapping[str, Any]]:
        """The rows of one part: forecast, schedule, step, limits, waste, validity."""
        return [row for row in self.rows if row.get("part") == name]

    def _pictures(self) -> Mapping[str, Picture]:
        schedules = self.part("schedule")
        points = {
            f"{row['policy']}, {row['predictor']}": (row["mean_wait_s"] / 3600.0, row["max_wait_s"] / 3600.0)
            for row in schedules
        }
        found: dict[str, Picture] = {
            "differences": partial(plots.differences, schedules),
            "frontier": partial(plots.tradeoff, points, "mean wait (h)", "longest wait (h)"),
        }
        error = partial(plots.differences, self.part("forecast"), "mae_s", ("predictor",))
        return (found if schedules else {}) | {"error_differences": error}


def read_report(folder: str | Path) -> Report:
    """The report that `evaluate` wrote.

    Parameters
    ----------
    folder
        The folder, or its result.json.

    Returns
    -------
    Report
        `rows`, `part(NAME)`, `plot()`, frames.

    Raises
    ------
    InputError
        Says what the file is where it is no report.

    Examples
    --------
    >>> import batchcast, tempfile
    >>> log = batchcast.read_trace(batchcast.demo_path())[:800]
    >>> found = batchcast.evaluate(log, predictor="last_2", policies="easy")
    >>> with tempfile.TemporaryDirectory() as place:
    ...     page = batchcast.write_report(found, place)
    ...     [row["predictor"] for row in read_report(place).part("schedule")]
    ['requested', 'last_2', 'actual']
    """
    document, place = read_result(folder)
    return Report(document["results"], document, place)


@dataclass(frozen=True, slots=True, repr=False)
class ScheduleComparison(Rows):
    """Two schedules of the same jobs: a row a mean with its interval; `shared` says how many start alike."""

    shared: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"<ScheduleComparison of {self.shared['jobs']} jobs: {self.shared['same_start']} start at one instant>"

    def _pictures(self) -> Mapping[str, Picture]:
        times = [row for row in self.rows if row["measure"] != "bounded_slowdown"]
        each = {r["measure"]: tuple(r[key] / 60.0 for key in ("difference", "low", "high")) for r in times}
        return {"differences": partial(plots.intervals, each, "B less A, means (min)")}


def compare(
    a: Any, b: Any, *, log: Trace | None = None, seed: int = 0, resamples: int = 1000
) -> Comparison | ScheduleComparison:
    """Two reports of `evaluate`, or two schedules, side by side; changes are B less A, with 90 % intervals.

    Parameters
    ----------
    a, b
        Two folders that `write_report` or `batchcast evaluate` wrote; or two schedules: what `simulate` returned, or a
        CSV with job_id and start_time, ours, Batsim's or anybody's.
    log
        Of two schedules: the log that names their users.
    seed
        For the intervals' draws.
    resamples
        How many draws.

    Returns
    -------
    Comparison or ScheduleComparison
        `rows`, `plot()`, frames.

    Raises
    ------
    UsageError
        Where one is a schedule and the other a report, or no job is in both.

    Examples
    --------
    >>> import batchcast
    >>> jobs = batchcast.read_trace(batchcast.demo_path())[:800]
    >>> found = compare(batchcast.simulate(jobs, "fcfs"), batchcast.simulate(jobs, "easy"), log=jobs)
    >>> found.to_polars()["measure"].to_list()
    ['wait', 'turnaround', 'bounded_slowdown']
    """
    kinds = {_is_schedule(a), _is_schedule(b)}
    if len(kinds) > 1:
        raise UsageError("compare: a schedule and a report (accepted: two schedules, or two reports of evaluate)")
    if kinds == {True}:
        users = None if log is None else users_of(log)
        shared, rows = comparison.compare_starts(_starts(a), _starts(b), users, seed=seed, resamples=resamples)
        return ScheduleComparison(rows, shared)
    one, other = (
        comparison.Report(document, schedules_in(place), read_forecasts(place / FORECASTS))
        for document, place in map(read_result, (a, b))
    )
    return comparison.compare(one, other, seed=seed, resamples=resamples)


def users_of(log: Trace) -> dict[str, int]:
    """The user of each job, as a number, by the job's id."""
    return dict(zip(map(str, log.job_id.tolist()), log.nominal("user_id").codes.tolist()))


def schedules_in(place: Path) -> Callable[[Mapping[str, Any]], Mapping[str, np.ndarray] | None]:
    """Reads a row's schedule from a report's own folder; None where it is not there."""

    def read(row: Mapping[str, Any]) -> Mapping[str, np.ndarray] | None:
        name = Path(str(row.get("schedule_file", "")))
        if name.parts[:1] != ("schedules",) or len(name.parts) != 2 or not (place / name).is_file():
            return None
        schedule = read_schedule(place / name)
        group = read_groups(place / GROUPS, schedule)
        return schedule if group is None else {**schedule, "group": group}

    return read


def _is_schedule(side: Any) -> bool:
    return isinstance(side, Schedule) or str(side).endswith(".csv")


def _starts(side: Any) -> Mapping[str, np.ndarray]:
    """A schedule as `trace.schedule.read_starts` reads one."""
    if not isinstance(side, Schedule):
        return read_starts(side)
    numbers = {name: np.asarray(getattr(side, name), float) for name in ("submit_time", "start_time", "end_time")}
    return {"job_id": side.job_id.astype(str), **numbers, "procs": np.asarray(side.procs, float)}


NOW = "now"
Tick = Callable[[int], None]


@dataclass(frozen=True, slots=True, repr=False)
class WhatIf(Rows):
    """A row a variant, the present first: its waits, and the difference to the present with its interval.

    `groups` are the users, accounts and partitions that gain and pay most; `schedules` by variant; `validity` says how
    near the present comes to the record.
    """

    groups: Sequence[Mapping[str, Any]]
    schedules: Mapping[str, Schedule]
    validity: Validity
    notes: Sequence[str]

    def __repr__(self) -> str:
        return f"<WhatIf of {', '.join(self.schedules)}>"

    def _pictures(self) -> Mapping[str, Picture]:
        return {
            "differences": partial(plots.differences, self.rows, by=("policy",)),
            "waits": partial(plots.waits, self.schedules),
            "frontier": partial(plots.frontier, self.schedules),
        }


def whatif(
    trace: Trace,
    machine: Machine | str | Path,
    variants: str | Sequence[str],
    *,
    mask: np.ndarray | None = None,
    procs: str = "req",
    replicates: int = 0,
    seed: int = 0,
    workers: int = 1,
) -> WhatIf:
    """Simulate a log under Slurm's loops on a machine as it is and as it could be, as `batchcast whatif` does.

    Parameters
    ----------
    trace
        The log.
    machine
        The machine as it is now, or a file that describes it (`batchcast machine capture`).
    variants
        What changes, one text a variant, as `--vary` takes them: `nodes=+10%`, `limits=forecast`, `order=forecast`.
    mask
        Which jobs are scored, (n,) booleans; all are scheduled.
    procs
        A job's processors: `req` (requested, else allocated) or `alloc`.
    replicates
        How many logs made of this one's weeks are simulated as well.
    seed
        For the intervals' and the replicates' draws.
    workers
        Processes at once; the results are the same with any number.

    Returns
    -------
    WhatIf
        `rows`, `groups`, `plot()` (`differences`, `waits`, `frontier`), frames.

    Raises
    ------
    UsageError
        Names the variant and the accepted words.

    Examples
    --------
    >>> from batchcast import Trace
    >>> from batchcast.cluster.machine import homogeneous
    >>> log = Trace.from_arrays({"submit_time": [0.0, 1.0, 2.0], "wait_time": [0.0] * 3, "run_time": [60.0] * 3,
    ...                          "req_time": [90.0] * 3, "req_procs": [4, 4, 4]})
    >>> found = whatif(log, homogeneous(1, 4, 4000.0), "nodes=+100%")
    >>> found.to_polars()["policy"].to_list(), found.rows[1]["mean_wait_s"] < found.rows[0]["mean_wait_s"]
    (['now', 'nodes=+100%'], True)
    """
    check_log(trace)
    now = machine if isinstance(machine, Machine) else open_machine(str(machine))
    plan = Variants.of(now, [variants] if isinstance(variants, str) else variants)
    tasks = [partial(plan.simulate, trace, name, procs) for name in plan.machines]
    made = dict(zip(plan.machines, in_processes(tasks, workers)))
    more = plan.replicated(trace, procs, replicates, seed, workers=workers)
    return plan.result(trace, made, jobs_mask("mask", mask, trace), procs, seed, more)


class Simulated(NamedTuple):
    """One variant's schedule, and how its jobs' memory was advised, where it was."""

    schedule: Schedule
    memory: MemoryPlan | None


@dataclass(frozen=True, slots=True)
class Variants:
    """The machine and the predictor of each variant by its name, the present first; its memory's rule, its order."""

    machines: Mapping[str, tuple[Machine, str]]
    memory: Mapping[str, tuple[str, float]]
    orders: Mapping[str, Ordering]

    @classmethod
    def of(cls, machine: Machine, texts: Sequence[str]) -> Variants:
        """The variants that texts name; UsageError for a word that is none."""
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
        """A log under one variant."""
        machine, spec = self.machines[name]
        memory = placed_by(trace, machine, *self.memory[name], procs=procs) if name in self.memory else None
        queue = QueuePlan(memory, order=self.orders.get(name))
        return Simulated(simulate_on(machine, trace, spec, procs=procs, queue=queue, tick=tick), memory)

    def replicated(
        self, trace: Trace, procs: str, count: int, seed: int, tick: Tick | None = None, workers: int = 1
    ) -> dict[str, dict[str, Any]]:
        """What each variant's row gains from replicates of the log; nothing of none."""
        if not count:
            return {}

        def schedule(again: Trace, name: str) -> Schedule:
            return self.simulate(again, name, procs).schedule

        return replicated(trace, list(self.machines), schedule, NOW, count, seed, tick, workers)

    def result(
        self, trace: Trace, made: Mapping[str, Simulated], mask: np.ndarray, procs: str, seed: int,
        more: Mapping[str, Mapping[str, Any]],
    ) -> WhatIf:  # fmt: skip
        """The rows of what was simulated."""
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
        notes = [f"{n} jobs not simulated ({why})" for why, n in schedules[NOW].left_out.items() if n]
        notes += [*schedules[NOW].notes, *(memory_note(k, plan, schedules[k].rows) for k, plan in placed.items())]
        return WhatIf(rows, groups, schedules, checked, notes)


def _order(text: str) -> Ordering | None:
    """The order of Slurm's queue that a variant names."""
    changes = parse_changes(text)
    if "order" not in changes and ("within" in changes or "age" in changes):
        raise UsageError(f"{text}: within and age go with order=forecast or order=limit")
    if "order" not in changes:
        return None
    age = parse_duration(changes["age"]) if "age" in changes else math.nan
    return Ordering.of(changes["order"], changes.get("within", "queue"), age)


def _memory(value: str) -> tuple[str, float]:
    """Which advice places jobs, and at which risk."""
    rule, _, risk = value.partition(":")
    if rule not in ("forecast", "least_waste"):
        raise UsageError(f"memory={rule}: unknown (accepted: forecast, forecast:RISK such as forecast:1%, least_waste)")
    return ("advice" if rule == "forecast" else rule), parse_share(risk) if risk else 0.05
