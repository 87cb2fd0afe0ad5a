"""Gain of a user who games the order by predictions: many short jobs, so that a long job of the same name is predicted
to be short.

    python -m benchmarks.planning.order_gamed --seeds 1:3 --long 8

Each seed is a machine of 32 processors and three days of eleven users who repeat jobs and pad their limits. A twelfth
user submits `--long` jobs of six hours, and before each of them `--short` jobs of a minute. If the user is honest, the
short jobs have a different name and a limit of ten minutes. Otherwise they have the name, the size and the limit of the
long jobs, and either also their command (gamed) or a different command (changed). Nothing else differs. Each row is an
order: by time limits, or by predictions under the three bounds of `OrderRule`. Columns: the mean wait of the long jobs,
honest, gamed and changed; what each way of gaming gains, in minutes and as a share of the honest wait; what the long
jobs gain over the order by time limits on the same jobs (all of them, and the first and the last of each seed); and
what gaming costs a job of other users, each difference with a 90 % interval over seeds. The mean wait of all honest
jobs shows the cost of the bounds themselves.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from benchmarks.planning_gain import show

from batchcast.machines.machine import homogeneous
from batchcast.planning.order import OrderRule
from batchcast.simulation.on_nodes import Ordering, QueuePlan, simulate_on
from batchcast.table import Trace

NODES, CPUS, USERS, DAYS = 4, 8, 11, 3
LONG_S, LIMIT_S, LONG_PROCS = 6 * 3600.0, 8 * 3600.0, 8.0
SHORT_S, SHORT_LIMIT_S = 60.0, 600.0
ARMS: dict[str, OrderRule | None] = {
    "time limits": None,
    "no bound": OrderRule(least_share=0.0, most_overrun=1.0, own_history=False),
    "least share": OrderRule(most_overrun=1.0, own_history=False),
    "own history": OrderRule(least_share=0.0, most_overrun=1.0),
    "overruns": OrderRule(least_share=0.0, own_history=False),
    "without own history": OrderRule(own_history=False),
    "all": OrderRule(),
}
"""The rule of each order; None: time limits."""
LOAD = 0.7
GAMER = "gamer"
WAYS = ("honest", "gamed", "changed")


def crowd(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Draw the jobs of the honest users: each has a size, a typical run time and a padding of limits."""
    share = LOAD * NODES * CPUS * DAYS * 86400.0 / USERS
    rows: list[dict[str, Any]] = []
    for user in range(USERS):
        procs = float(rng.choice([1, 2, 4, 8, 16]))
        typical, padding = float(np.exp(rng.uniform(np.log(600), np.log(4 * 3600)))), float(rng.uniform(1.5, 10))
        limit = float(np.ceil(typical * padding / 900) * 900)
        for _ in range(max(int(share / (procs * typical)), 1)):
            run = min(typical * rng.lognormal(0.0, 0.3), 0.95 * limit)
            at = float(rng.uniform(0, DAYS * 86400))
            rows.append(_job(at, round(run), procs, limit, f"u{user}", f"job{user}", f"run{user}"))
    return rows


def gamers(rng: np.random.Generator, long: int, short: int, way: str) -> list[dict[str, Any]]:
    """Return long jobs from the second day on, and the short jobs, one every two minutes, in the hours before each."""
    rows = []
    for at in np.sort(rng.uniform(86400.0, DAYS * 86400.0, long)).tolist():
        rows.append(_job(at, LONG_S, LONG_PROCS, LIMIT_S, GAMER, "work", "solve"))
        for k in range(short):
            before = at - 18_000.0 - 120.0 * k
            if way == "honest":
                rows.append(_job(before, SHORT_S, LONG_PROCS, SHORT_LIMIT_S, GAMER, "test", "check"))
            else:
                command = "solve" if way == "gamed" else "check"
                rows.append(_job(before, SHORT_S, LONG_PROCS, LIMIT_S, GAMER, "work", command))
    return rows


def _job(at: float, run: float, procs: float, limit: float, user: str, name: str, command: str) -> dict[str, Any]:
    return {
        "submit_time": float(round(at)), "wait_time": 0.0, "run_time": run, "req_procs": procs, "req_time": limit,
        "user_id": user, "job_name": name, "app_id": command, "partition_id": "all",
    }  # fmt: skip


def waits(rows: list[dict[str, Any]]) -> list[np.ndarray]:
    """Return the waits (n,) of the rows under each order; predictions are made on the schedule in order of arrival."""
    machine = homogeneous(NODES, CPUS, **SETTINGS)
    log = Trace.from_arrays({"job_id": list(range(len(rows))), **{n: [r[n] for r in rows] for n in rows[0]}})
    log = log.with_columns({"wait_time": simulate_on(machine, log).wait_time})
    orders = (Ordering("limit") if rule is None else Ordering("forecast", "kernel", rule) for rule in ARMS.values())
    return [simulate_on(machine, log, queue=QueuePlan(order=order)).wait_time for order in orders]


SETTINGS = {"SchedulerType": "sched/backfill", "PriorityType": "priority/basic"}


def one_seed(seed: int, long: int, short: int) -> dict[str, list[list[float]]]:
    """Return the waits by arm and order: of the long jobs, and of all other jobs."""
    found: dict[str, list[list[float]]] = {}
    for arm in WAYS:
        rows = crowd(np.random.default_rng([seed, 1])) + gamers(np.random.default_rng([seed, 2]), long, short, arm)
        rows.sort(key=lambda r: r["submit_time"])
        is_long = np.array([r["run_time"] == LONG_S and r["user_id"] == GAMER for r in rows])
        others = np.array([r["user_id"] != GAMER for r in rows])
        for wait in waits(rows):
            found.setdefault(f"long, {arm}", []).append(wait[is_long].tolist())
            found.setdefault(f"first, {arm}", []).append(wait[is_long][:1].tolist())
            found.setdefault(f"last, {arm}", []).append(wait[is_long][-1:].tolist())
            found.setdefault(f"others, {arm}", []).append(wait[others].tolist())
    return found


def interval(differences: np.ndarray) -> str:
    """Return the mean of one difference per seed, with a 90 % interval from 10,000 resamples of the seeds."""
    drawn = np.random.default_rng(0).choice(differences, (10_000, len(differences))).mean(1)
    low, high = np.quantile(drawn, [0.05, 0.95])
    return f"{differences.mean():.1f} ({low:.1f} to {high:.1f})"


def table(runs: list[dict[str, list[list[float]]]]) -> list[dict[str, Any]]:
    """Return a row for each order, in minutes."""
    rows, limits = [], {}
    for k, name in enumerate(ARMS):
        mean = {one: np.array([np.mean(run[one][k]) for run in runs]) / 60 for one in runs[0]}
        limits = limits or mean
        row = {"order, bounds": name} | {way: round(float(mean[f"long, {way}"].mean()), 1) for way in WAYS}
        for way in WAYS[1:]:
            gain = mean["long, honest"] - mean[f"long, {way}"]
            over = {one: limits[f"{one}, {way}"] - mean[f"{one}, {way}"] for one in ("long", "first", "last")}
            row |= {
                f"{way}: gained": interval(gain),
                f"{way}: of the wait": f"{gain.mean() / mean['long, honest'].mean():.0%}",
                f"{way}: over limits": interval(over["long"]),
                f"{way}: of the first": interval(over["first"]),
                f"{way}: of the last": interval(over["last"]),
                f"{way}: costs others": interval(mean[f"others, {way}"] - mean["others, honest"]),
            }
        rows.append({**row, "others, honest": round(float(mean["others, honest"].mean()), 1)})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1:10")
    parser.add_argument("--long", type=int, default=4)
    parser.add_argument("--short", type=int, default=100)
    given = parser.parse_args()
    first, _, last = given.seeds.partition(":")
    seeds = range(int(first), int(last or first) + 1)
    rows = table([one_seed(seed, given.long, given.short) for seed in seeds])
    print(show(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
