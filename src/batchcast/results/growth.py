# SPDX-License-Identifier: Apache-2.0
"""Simulates waits with more work and other machines: user-weeks of the log are drawn and added until the work has
grown."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from batchcast import plots

from ..errors import UsageError
from ..evaluation.differences import burst_groups, shown_names
from ..evaluation.resampling import moved_jobs
from ..metrics.bursts import WEEK_S
from ..processes import in_processes
from ..table import Trace
from ..table.result import Picture, Rows
from ..units import counted, parse_span
from .whatif import NOW, Variants

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
    found = re.fullmatch(r"([+-]?\d+(?:\.\d+)?)%(?:,target=(.+))?", text.strip())
    if found is None or not -100 < float(found[1]) <= 900:
        raise UsageError(f"--demand: {text!r} (accepted: +20%, -10%, 0%; above -100% and up to 900%; and target=4h)")
    return float(found[1]) / 100, parse_span(found[2]) if found[2] else math.nan


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
    found = {str(row["reaction"]): "" for row in rows}
    reacting = {row["variant"] for row in rows if row["reaction"] != "none"}
    for row in sorted(rows, key=lambda row: -float(row["procs"])):
        if row["partition"] == EVERYTHING and row["wait_90_s_high"] < target:
            words = [str(row["reaction"])] if row["variant"] in reacting else found
            found |= dict.fromkeys(words, str(row["variant"]))
    return found


def grown(trace: Trace, share: float, rng: np.random.Generator, procs: str = "req") -> Trace:
    """Return a log with more or less work, by adding or removing whole user-weeks.

    Parameters
    ----------
    trace
        The log.
    share
        Change of the processor-seconds as a fraction: 0.2 adds a fifth, -0.1 removes a tenth.
    rng
        Random generator that draws user-weeks (one user's submissions of one week) with replacement, and the week in
        which each user-week is placed.
    procs
        Which processor count of a job is used: `req` (requested, else allocated) or `alloc`.

    Returns
    -------
    Trace
        The log with the drawn jobs added (with new job ids), or without the drawn user-weeks.

    Examples
    --------
    >>> log = Trace.from_arrays({"submit_time": [0.0, 5.0, 9.0], "run_time": [10.0] * 3, "req_procs": [1] * 3,
    ...                          "user_id": ["a", "b", "c"]})
    >>> len(grown(log, 1.0, np.random.default_rng(0))), len(grown(log, -0.3, np.random.default_rng(0)))
    (6, 2)
    """
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
    tick: Callable[[int], None] | None = None,
) -> Growth:
    """Simulate a log with grown work on the present machine and on each variant, for three reactions of users.

    Parameters
    ----------
    trace
        The log.
    plan
        The machine variants (`Variants.of`), including the present machine.
    share
        Growth of the work as a fraction.
    procs
        Which processor count of a job is used: `req` (requested, else allocated) or `alloc`.
    replicates
        Number of logs that are drawn for each row, at least 2.
    seed
        Random seed of the draws.
    workers
        Number of parallel processes; it does not change the results.
    tick
        Function that is called with the number of finished schedules.

    Returns
    -------
    Growth
        For each variant with more processors, users react by submitting further work that fills none, half or all of
        the added capacity. Intervals reach from the smallest to the largest value over the replicates.
    """
    if replicates < 2:
        raise UsageError("--demand: one replicate gives no interval (accepted: --replicates 2 and more)")
    present = plan.machines[NOW][0].cpus
    cases = [(NOW, "none", share)]
    for name, (machine, _) in list(plan.machines.items())[1:]:
        more = machine.cpus / present - 1
        reactions = REACTIONS if more > 0 else {"none": 0.0}
        cases += [(name, word, (1 + share) * (1 + part * more) - 1) for word, part in reactions.items()]
    rng = np.random.default_rng(seed)
    states = [copy.deepcopy(one) for one in rng.spawn(replicates)]

    def simulate(name: str, total: float, state: np.random.Generator) -> Mapping[str, tuple[int, float, float]]:
        log = grown(trace, total, copy.deepcopy(state), procs)
        return _waits(log, plan.simulate(log, name, procs).schedule)

    tasks = [partial(simulate, name, total, state) for name, _, total in cases for state in states]
    made = in_processes(tasks, workers, tick)
    rows = []
    for k, (name, word, total) in enumerate(cases):
        some = made[k * replicates : (k + 1) * replicates]
        for part in [EVERYTHING, *sorted({p for one in some for p in one} - {EVERYTHING})]:
            seen = [one[part] for one in some if part in one]
            row: dict[str, Any] = {"variant": name, "reaction": word, "work": total, "partition": part}
            row["procs"] = plan.machines[name][0].cpus
            row |= {"jobs": round(float(np.mean([n for n, _, _ in seen]))), "replicates": len(seen)}
            for key, place in (("mean_wait_s", 1), ("wait_90_s", 2)):
                values = [float(one[place]) for one in seen]
                row |= {key: float(np.median(values)), f"{key}_low": min(values), f"{key}_high": max(values)}
            rows.append(row)
    notes = [f"{counted(replicates, 'log')} of drawn user-weeks for each row; intervals are their smallest and largest"]
    return Growth(rows, notes)


def _waits(trace: Trace, schedule: Any) -> Mapping[str, tuple[int, float, float]]:
    """Jobs, mean wait and 90 % wait (s) of a schedule, for all jobs, and by partition if the log has several."""
    waits, codes = schedule.wait_time, trace.nominal("partition_id").codes[schedule.rows]
    names = shown_names(trace, "partition_id")
    found, present = {EVERYTHING: waits}, np.unique(codes[codes >= 0]).tolist()
    if len(present) > 1:
        found |= {names[code]: waits[codes == code] for code in present}
    return {name: (len(w), float(w.mean()), float(np.quantile(w, 0.9))) for name, w in found.items()}
