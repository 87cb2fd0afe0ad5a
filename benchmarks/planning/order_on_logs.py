"""Effect of the queue order on logs under Slurm's two loops: levels, cycles of 30 s, predictions of the recorded clock.

    python -m benchmarks.planning.order_on_logs ../shared/traces/KTH-SP2-1996-2.1-cln.swf.gz ... --first 15000
    python -m benchmarks.planning.order_on_logs LOG ... --first 15000 --arms "limits; rule; rule, reserved"
    python -m benchmarks.planning.order_on_logs LOG ... --first 15000 --replicates 10
    python -m benchmarks.planning.order_on_logs LOG ... --first 4000 --arms "limits; unbounded; any history; quantile"

Each log runs on its own machine (one node per processor) by arrival, then under each arm (`ARMS`): which run times
order the queue, and which become the limits of waiting jobs. Mean wait, mean bounded slowdown (bound 60 s), 99th
percentile and longest wait are shares of the value in order of arrival. Differences of mean waits are shares of the
mean wait by arrival, with a 90 % interval over groups of one user's submissions of one week: from arrival, from the
order by limits, and from the order by limits with the same planned lengths; with these arms, also from the orders
`unbounded` and `any history`. Users of ten jobs and more are worse off if their mean wait is longer by more than a
tenth and a minute. After several logs a second table has the geometric means, and how many logs are clearly ahead of or
behind the order by limits.

With `--replicates` another table shows how many users are worse off, under the order and by chance. In a replicate each
job arrives up to a minute later; chance is the order of arrival with different delays. *Once* is the share in one
replicate, on average. *In the mean* judges users by their mean wait over all replicates, which removes the chance of
one schedule.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from benchmarks.planning_gain import show

from batchcast import read_trace
from batchcast.events.machine_size import machine_of_log
from batchcast.events.recorded import replay
from batchcast.machines.machine import Machine, vary
from batchcast.metrics.paired import PairedDifference, paired_differences
from batchcast.metrics.schedule import bounded_slowdown
from batchcast.planning.order import LENGTH_QUANTILE, ORDER_QUANTILE, OrderRule
from batchcast.predict.batched import quantiles_of
from batchcast.predict.registry import make
from batchcast.simulation.on_nodes import Ordering, QueuePlan, simulate_on
from batchcast.table import Trace

BAND = 100_000
WEEK, MANY = 604_800.0, 10


class Arm(NamedTuple):
    """The run times (words of `times_of`) that order the queue, and that become the limits of waiting jobs; empty: no
    change.

    `slurm` has additional settings of Slurm.
    """

    order: str = ""
    lengths: str = ""
    rule: OrderRule = OrderRule(band=BAND)
    slurm: Mapping[str, str] = {}


RESERVED = {"bf_min_prio_reserve": str(BAND)}
ARMS = {
    "limits": Arm("limit"),
    "limits, planned lengths": Arm("limit", "length"),
    "point": Arm("point"),
    "quantile": Arm("order"),
    "unbounded": Arm("order", rule=OrderRule(band=BAND, least_share=0.0, most_overrun=1.0, own_history=False)),
    "any history": Arm("order", rule=OrderRule(band=BAND, own_history=False)),
    "rule": Arm("order", "length"),
    "rule, reserved": Arm("order", "length", slurm=RESERVED),
    "blend": Arm("blend", "length"),
    "shortest first": Arm("order", "length", OrderRule(band=BAND, size=0.0)),
    "true run times": Arm("true", "true"),
}
"""`rule` is what `plan = "both"` does: order by the 90 % quantile, limits at the 80 % quantile. `quantile` is its order
alone; `unbounded` and `any history` are `quantile` without all bounds on gaming or without the last one; `point` orders
by point predictions; `rule, reserved` reserves processors only for jobs past the age. `blend` orders by the geometric
mean of limit and 80 % quantile."""
SHOWN = ("limits", "limits, planned lengths", "point", "quantile", "rule", "rule, reserved", "true run times")


def times_of(log: Trace, machine: Machine) -> dict[str, np.ndarray]:
    """Return run times (n,) in seconds by word; NaN stands for the job's own limit."""
    told = replay(log, {"it": make("runtime", "kernel")}, total=float(machine.cpus))["it"]
    limit, length = log.number("req_time"), quantiles_of(told, LENGTH_QUANTILE)
    within = np.fmin(length, limit)
    return {
        "limit": np.full(len(log), np.nan), "point": told.points, "order": quantiles_of(told, ORDER_QUANTILE),
        "length": length, "blend": np.where(limit > 0, np.sqrt(within * limit), within), "true": log.run_time,
    }  # fmt: skip


class Ran(NamedTuple):
    """Waits (n,) of the jobs that ran, their run times, and their groups and users."""

    waits: dict[str, np.ndarray]
    run: np.ndarray
    group: np.ndarray
    user: np.ndarray

    def against(self, arm: str, other: str) -> PairedDifference:
        """Return the difference of mean waits, as a share of the mean wait by arrival."""
        unit = self.waits["arrival"].mean()
        one, reference = self.waits[arm][None] / unit, self.waits[other] / unit
        return paired_differences(one, reference, self.group, np.random.default_rng(0))[0]


def run_arms(log: Trace, arms: Mapping[str, Arm]) -> Ran:
    """Run the log in order of arrival and under each arm."""
    machine = machine_of_log(log)
    plain = simulate_on(machine, log)
    user = np.asarray(log.nominal("user_id").codes)[plain.rows].astype(np.int64)
    group = np.unique(user * 10_000 + (plain.submit_time // WEEK).astype(np.int64), return_inverse=True)[1]
    waits, times = {"arrival": plain.start_time - plain.submit_time}, times_of(log, machine)
    for name, arm in arms.items():
        queue = QueuePlan(
            order=Ordering("forecast", times[arm.order], arm.rule) if arm.order else None,
            lengths=times[arm.lengths] if arm.lengths else None,
        )
        then = simulate_on(vary(machine, arm.slurm) if arm.slurm else machine, log, queue=queue)
        assert (then.rows == plain.rows).all()
        waits[name] = then.start_time - then.submit_time
    return Ran(waits, plain.end_time - plain.start_time, group, user)


CONTROLS = {
    "from limits": "limits", "from limits, lengths": "limits, planned lengths", "from unbounded": "unbounded",
    "from any history": "any history",
}  # fmt: skip


def rows_of(name: str, ran: Ran) -> list[dict[str, Any]]:
    """Return a row for each arm."""
    wait = ran.waits["arrival"]
    slowdown = bounded_slowdown(wait, ran.run, 60.0).mean()
    people = [k for k in np.unique(ran.user) if (ran.user == k).sum() >= MANY]
    rows = []
    for arm, waits in ran.waits.items():
        if arm == "arrival":
            continue
        worse = [waits[ran.user == k].mean() > 1.1 * wait[ran.user == k].mean() + 60 for k in people]
        row = {
            "log": name, "jobs": len(wait), "wait by arrival, h": float(wait.mean()) / 3600, "order": arm,
            "wait": f"{waits.mean() / wait.mean():.2f}", "from arrival": _words(ran.against(arm, "arrival")),
        }  # fmt: skip
        for title, control in CONTROLS.items():
            if control in ran.waits:
                row[title] = "-" if control == arm else _words(ran.against(arm, control))
        slow = bounded_slowdown(waits, ran.run, 60.0).mean()
        row |= {
            "slowdown": f"{slow / slowdown:.2f}", "p99": f"{np.quantile(waits, 0.99) / np.quantile(wait, 0.99):.2f}",
            "longest": f"{waits.max() / wait.max():.2f}", "users worse off": f"{np.mean(worse):.0%}",
        }  # fmt: skip
        rows.append(row)
    return rows


def _words(pair: PairedDifference) -> str:
    return f"{pair.difference:+.2f} ({pair.low:+.2f} to {pair.high:+.2f}): {pair.verdict()}"


def means_of(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each arm: geometric means over logs, and the number of logs with a clear difference from
    limits."""
    found = []
    for arm in dict.fromkeys(row["order"] for row in rows):
        mine = [row for row in rows if row["order"] == arm]
        row = {"order": arm, "logs": len(mine)}
        for what in ("wait", "slowdown", "p99", "longest"):
            row[what] = f"{np.exp(np.mean([np.log(float(one[what])) for one in mine])):.2f}"
        row["longest, most"] = f"{max(float(one['longest']) for one in mine):.2f}"
        for title in CONTROLS:
            words = [str(one.get(title, "")).rpartition(" ")[2] for one in mine]
            row[f"ahead, behind {title}"] = f"{words.count('ahead')}, {words.count('behind')}"
        found.append(row)
    return found


def replicates_of(name: str, log: Trace, count: int) -> dict[str, Any]:
    """Return a row: how many users wait longer by more than a tenth and a minute, once and in the mean of the
    replicates."""
    machine = machine_of_log(log)
    order = QueuePlan(order=Ordering("forecast", times_of(log, machine)["order"], OrderRule(band=BAND)))
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
    """Return the log with each job up to a minute later, in the same order."""
    after = np.random.default_rng(seed).uniform(0.0, 60.0, len(log))
    moved = np.maximum.accumulate(np.floor(log.submit_time + after))
    return Trace({**log.columns(), "submit_time": moved}, log.info, is_sorted=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--first", type=int, default=15_000)
    parser.add_argument("--arms", default="; ".join(SHOWN), help=f"separated by semicolons, of: {'; '.join(ARMS)}")
    parser.add_argument("--replicates", type=int, default=0)
    given = parser.parse_args()
    arms, rows = {name: ARMS[name] for name in given.arms.split("; ")}, []
    for k, path in enumerate(given.logs):
        log, name = read_trace(path)[: given.first], path.rpartition("/")[2].split("-19")[0].split("-20")[0]
        some = [replicates_of(name, log, given.replicates)] if given.replicates else rows_of(name, run_arms(log, arms))
        rows += some
        lines = show(some).split("\n")
        print("\n".join(lines if k == 0 else lines[2:]), flush=True)
    if len(given.logs) > 1 and not given.replicates:
        print(f"\n{show(means_of(rows))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
