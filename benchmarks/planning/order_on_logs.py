"""What the order brings on logs, as a site can have it: levels, looks every 30 s, forecasts of then, Slurm's two loops.

    python -m benchmarks.planning.order_on_logs ../shared/traces/KTH-SP2-1996-2.1-cln.swf.gz ... --first 15000
    python -m benchmarks.planning.order_on_logs LOG ... --first 15000 --replicates 10

Each log runs on its own machine (one node a processor) by arrival, then under each order; `reserved`: Slurm reserves
processors only for jobs past the age (bf_min_prio_reserve), or that have waited for a day (bf_min_age_reserve). Mean
wait, mean bounded slowdown (bound 60 s), 99th percentile and longest wait as shares of those by arrival; differences of
mean waits with a 90 % interval over groups of one user's submissions of one week; users of ten jobs and more whose mean
wait is longer by more than a tenth and a minute. The ideal policies of docs/evidence/policy-study.md run on a pool, and
are no row here.

With `--replicates` another table: how many users are worse off, under the order and by chance. A replicate has each job
up to a minute later; chance is arrival's order with other such minutes. Once: the share in one replicate, on
average. In the mean: of users by their mean wait over all replicates, in which the luck of one schedule is gone.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from benchmarks.planning_gain import show

from batchcast import read_trace
from batchcast.events.machine_size import machine_of_log
from batchcast.events.recorded import replay
from batchcast.machines.machine import vary
from batchcast.metrics.paired import paired_differences
from batchcast.metrics.schedule import bounded_slowdown
from batchcast.planning.order import OrderRule
from batchcast.predict.registry import make
from batchcast.simulation.on_nodes import Ordering, QueuePlan, simulate_on
from batchcast.table import Trace

BAND = 100_000
ORDERS = {
    "by limits": Ordering("limit", rule=OrderRule(band=BAND)),
    "by forecasts": Ordering("forecast", rule=OrderRule(band=BAND)),
    "the same, shortest first": Ordering("forecast", rule=OrderRule(band=BAND, size=0.0)),
    "the same, age two days": Ordering("forecast", rule=OrderRule(band=BAND, age=172_800.0)),
    "by true run times": Ordering("forecast", "actual", OrderRule(band=BAND)),
    "by forecasts, reserved past the age": Ordering("forecast", rule=OrderRule(band=BAND)),
    "by arrival, reserved past a day": None,
}
RESERVED = {
    "by forecasts, reserved past the age": {"bf_min_prio_reserve": str(BAND)},
    "by arrival, reserved past a day": {"bf_min_age_reserve": "86400"},
}
"""Settings of Slurm besides: for whom processors are reserved."""
WEEK, MANY = 604_800.0, 10


def rows_of(name: str, log: Trace) -> list[dict[str, Any]]:
    """A row for each order."""
    machine = machine_of_log(log)
    plain = simulate_on(machine, log)
    wait = plain.start_time - plain.submit_time
    run = plain.end_time - plain.start_time
    user = np.asarray(log.nominal("user_id").codes)[plain.rows].astype(np.int64)
    group = np.unique(user * 10_000 + (plain.submit_time // WEEK).astype(np.int64), return_inverse=True)[1]
    slowdown = bounded_slowdown(wait, run, 60.0)
    people = [k for k in np.unique(user) if (user == k).sum() >= MANY]
    rows = []
    for words, order in ORDERS.items():
        here = vary(machine, RESERVED.get(words, {}))
        then = simulate_on(here, log, queue=QueuePlan(order=order))
        assert (then.rows == plain.rows).all()
        waits = then.start_time - then.submit_time
        pair = paired_differences(waits[None], wait, group, np.random.default_rng(0))[0]
        worse = [waits[user == k].mean() > 1.1 * wait[user == k].mean() + 60 for k in people]
        rows.append(
            {
                "log": name, "jobs": len(wait), "wait by arrival, h": float(wait.mean()) / 3600, "order": words,
                "wait": f"{waits.mean() / wait.mean():.2f}",
                "difference, h": f"{pair.difference / 3600:+.2f} ({pair.low / 3600:+.2f} to {pair.high / 3600:+.2f})",
                "slowdown": f"{bounded_slowdown(waits, run, 60.0).mean() / slowdown.mean():.2f}",
                "p99": f"{np.quantile(waits, 0.99) / np.quantile(wait, 0.99):.2f}",
                "longest": f"{waits.max() / wait.max():.2f}", "users worse off": f"{np.mean(worse):.0%}",
            }
        )  # fmt: skip
    return rows


def replicates_of(name: str, log: Trace, count: int) -> dict[str, Any]:
    """A row: how many users wait longer by more than a tenth and a minute, once and in the mean of the replicates."""
    machine = machine_of_log(log)
    told = replay(log, {"it": make("runtime", "kernel")}, total=float(machine.cpus))["it"].points
    order = QueuePlan(order=Ordering("forecast", told, OrderRule(band=BAND)))
    user = np.asarray(log.nominal("user_id").codes).astype(np.int64)
    waits: dict[str, list[np.ndarray]] = {"arrival": [], "chance": [], "order": []}
    for number in range(count):
        for kind, seed in (("arrival", number), ("chance", count + number), ("order", number)):
            then = simulate_on(machine, later(log, seed), queue=order if kind == "order" else QueuePlan())
            who = user[then.rows]
            people = [k for k in np.unique(who) if (who == k).sum() >= MANY]
            wait = then.start_time - then.submit_time
            waits[kind].append(np.array([wait[who == k].mean() for k in people]))
    by = {kind: np.array(some) for kind, some in waits.items()}
    row: dict[str, Any] = {"log": name, "users": by["order"].shape[1]}
    for kind in ("chance", "order"):
        once = by[kind] > 1.1 * by["arrival"] + 60
        mean = by[kind].mean(0) > 1.1 * by["arrival"].mean(0) + 60
        row |= {f"{kind}, once": f"{once.mean():.0%}", f"{kind}, in the mean": f"{mean.mean():.0%}"}
    return row


def later(log: Trace, seed: int) -> Trace:
    """The log with each job up to a minute later, in the same order."""
    after = np.random.default_rng(seed).uniform(0.0, 60.0, len(log))
    moved = np.maximum.accumulate(np.floor(log.submit_time + after))
    return Trace({**log.columns(), "submit_time": moved}, log.info, is_sorted=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--first", type=int, default=15_000)
    parser.add_argument("--replicates", type=int, default=0)
    given = parser.parse_args()
    for k, path in enumerate(given.logs):
        log, name = read_trace(path)[: given.first], path.rpartition("/")[2].split("-19")[0].split("-20")[0]
        rows = [replicates_of(name, log, given.replicates)] if given.replicates else rows_of(name, log)
        lines = show(rows).split("\n")
        print("\n".join(lines if k == 0 else lines[2:]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
