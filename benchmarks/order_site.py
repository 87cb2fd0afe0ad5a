"""Compares the queue order that a site can use (levels of SiteFactor, cycles of 30 s in Slurm's loops) with the ideal
policy.

    python benchmarks/order_site.py LOG...

Each log's jobs run on the log's own machine. Rows: the pool under EASY with limits and under the policy `forecast` with
`kernel`, as in docs/evidence/policy-study.md; Slurm's two loops in order of arrival, with the order of `batchcast
plan`, with processors reserved only for jobs past the age (bf_min_prio_reserve), and without levels and with cycles of
1 s, which shows the cost of levels and cycles. All rows use the predictions of `kernel` at each submission on the
recorded clock. Differences are from Slurm's loops in order of arrival (on the pool: from EASY) with a 90 % interval
over users' weeks; a user with ten jobs or more is worse off if the mean wait is longer by more than a tenth. With
--cycles the rows are the order with cycles of 30 s and of 1 s, and differences are from cycles of 30 s: the possible
gain of a level set at submission.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from planning_gain import show

from batchcast.events.machine_size import machine_of_log
from batchcast.events.recorded import replay
from batchcast.machines.machine import vary
from batchcast.metrics.bursts import user_weeks
from batchcast.metrics.paired import paired_differences
from batchcast.metrics.schedule import bounded_slowdown
from batchcast.planning.order import OrderRule
from batchcast.predict.registry import make
from batchcast.simulation import Schedule, simulate
from batchcast.simulation.on_nodes import Ordering, QueuePlan, simulate_on
from batchcast.table import Trace
from batchcast.trace import read_trace

pure: Any = importlib.import_module("batchcast.planning.order")
clock: Any = importlib.import_module("batchcast.schedule.slurm.simulate")
FINE = 64
"""To simulate an order without levels: this many times as many levels, in a band this many times as wide."""


def in_fine_levels(run: Callable[[], Schedule]) -> Schedule:
    """Return the result of `run` with 64 times as many levels: the package's own decision with changed constants."""
    kept = pure.LEVELS, pure._by_level
    pure.LEVELS, pure._by_level = kept[0] * FINE, _finely
    try:
        return run()
    finally:
        pure.LEVELS, pure._by_level = kept


def _finely(work: np.ndarray, stands: np.ndarray, aged: np.ndarray, band: int) -> np.ndarray:
    """Like `_by_level`, but with 64 times as many levels, which are computed again in every cycle."""
    exact = FINE * pure.STEPS * np.log2(np.maximum(work, pure.LEAST_WORK) / pure.LEAST_WORK)
    level = np.clip(1 + np.floor(exact), 1, pure.LEVELS - 1)
    return pure.level_factors.__wrapped__(band)[np.where(aged, 0, level.astype(np.int64))]


def at_once(run: Callable[[], Schedule]) -> Schedule:
    """Return the result of `run` with a cycle each second."""
    kept, clock.LOOKS_S = clock.LOOKS_S, 1.0
    try:
        return run()
    finally:
        clock.LOOKS_S = kept


BASES = ("pool: EASY, limits", "Slurm: none", "cycles of 30 s", "cycles of 30 s, reserved past the age")


def schedules(trace: Trace, cycles: bool = False, words: Sequence[str] = ("",)) -> dict[str, Schedule]:
    """Return each row's schedule by name. If there are words, only rows whose name has one of them are run."""
    machine = machine_of_log(trace)
    told = replay(trace, {"it": make("runtime", "kernel")}, total=float(machine.cpus))["it"].points
    rule = OrderRule()

    def ordered(band: int = rule.band, reserve: int = 0) -> Schedule:
        order = Ordering("forecast", told, replace(rule, band=band))
        here = vary(machine, {"bf_min_prio_reserve": str(reserve)} if reserve else {})
        return simulate_on(here, trace, queue=QueuePlan(order=order))

    if cycles:
        return {
            BASES[2]: ordered(), "cycles of 1 s": at_once(ordered), BASES[3]: ordered(reserve=rule.band),
            "cycles of 1 s, reserved past the age": at_once(lambda: ordered(reserve=rule.band)),
        }  # fmt: skip
    wide = rule.band * FINE
    rows: dict[str, Callable[[], Schedule]] = {
        "pool: EASY, limits": lambda: simulate(trace, "easy", "requested", total=float(machine.cpus)),
        "pool: forecast": lambda: simulate(trace, "forecast", "kernel", total=float(machine.cpus)),
        "Slurm: none": lambda: simulate_on(machine, trace),
        "Slurm: order": ordered,
        "Slurm: order, reserved past the age": lambda: ordered(reserve=rule.band),
        "without levels": lambda: in_fine_levels(lambda: ordered(wide)),
        "without levels, looks of 1 s": lambda: in_fine_levels(lambda: at_once(lambda: ordered(wide))),
    }
    return {name: make_row() for name, make_row in rows.items() if any(word in name for word in words)}


def compare(trace: Trace, made: dict[str, Schedule], boot: int = 0) -> list[dict[str, Any]]:
    """Return a row for each schedule, over the jobs that all schedules have."""
    common = sorted(set.intersection(*(set(s.rows.tolist()) for s in made.values())))
    users = np.asarray(trace.nominal("user_id").codes)[common]
    group = user_weeks(users, trace.submit_time[common])
    many = [u for u in np.unique(users) if (users == u).sum() >= 10]
    waits, slow = {}, {}
    for name, one in made.items():
        whole = np.full((2, len(trace)), np.nan)
        whole[:, one.rows] = one.wait_time, one.run_time
        waits[name] = whole[0, common]
        slow[name] = bounded_slowdown(whole[0, common], whole[1, common])
    rows, base = [], ""
    for name, wait in waits.items():
        base = name if name in BASES else base
        before = waits[base]
        row = {"schedule": name, "mean wait, h": f"{wait.mean() / 3600:.2f}", "slowdown": float(slow[name].mean())}
        row["longest"] = f"{wait.max() / before.max():.2f}"
        worse = np.mean([wait[users == u].mean() > 1.1 * before[users == u].mean() for u in many])
        row["users worse off"] = f"{worse:.0%}"
        for title, values in (("wait less, h", {k: v / 3600 for k, v in waits.items()}), ("slowdown less", slow)):
            draws = np.random.default_rng(boot)
            pair = paired_differences(values[name][None], values[base], group, draws)[0] if name != base else None
            row[title] = f"{pair.difference:+.2f} ({pair.low:+.2f} to {pair.high:+.2f})" if pair else "-"
        rows.append(row)
    return rows


def main(logs: Sequence[str], cycles: bool, rows: str) -> int:
    for path in logs:
        trace = read_trace(path)
        print(f"\n{trace.info.source}\n\n{show(compare(trace, schedules(trace, cycles, rows.split(','))))}", flush=True)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--cycles", action="store_true")
    parser.add_argument("--rows", default="", help="words, separated by commas: only rows with one in their names")
    given = parser.parse_args()
    sys.exit(main(given.logs, given.cycles, given.rows))
