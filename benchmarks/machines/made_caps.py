# SPDX-License-Identifier: Apache-2.0
"""Puts caps into synthetic logs, and checks whether exactly these caps are found, and none in logs without caps.

python -m benchmarks.machines.made_caps [--logs N] [--first SEED]

Each seed draws a machine (with or without GPUs), its users and their jobs, and none, one or two caps on the processors,
jobs or GPUs of each user or account. The simulated Slurm, which enforces the caps as the QOS of a partition, determines
the waits. A cap *bound* a job if, at one of twelve instants of its wait, the machine had room for it beside all earlier
submissions of others, and this cap was the only one that its user (or account) would have exceeded. A cap should be
found if it bound at least fifty jobs of at least three users (or accounts).
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from batchcast.machines.machine import Limits, Machine, NodeGroup, Partition, Qos
from batchcast.simulation.learned.caps import steps
from batchcast.simulation.learned.learn import implied
from batchcast.simulation.on_nodes import simulate_on
from batchcast.table import Trace

KINDS = ("none", "cpu", "jobs", "gpu", "cpu+jobs", "cpu+gpu", "jobs+gpu")
LOOKS, ENOUGH, GROUPS, DAY = 12, 50, 3, 86400.0
VERDICTS = {
    "exact": "all that should be found is, and nothing else",
    "whose": "the number is right, but a user's where it was an account's, or the reverse",
    "wrong": "another number than was put in, or one where there was none",
    "missed": "one that should be found is not",
    "few": "too few jobs were bound, and nothing wrong was found",
}
LIMIT_S = (3600.0, 7200.0, 14400.0, 43200.0)


@dataclass(frozen=True, slots=True)
class Made:
    """A log, the caps of its machine (`of` user or account, amounts by kind), and the jobs bound by each cap."""

    log: Trace
    kind: str
    of: str
    caps: dict[str, float]
    bound: dict[str, int]


def make(seed: int, kind: str = "") -> Made:
    """Return the log of a seed; `kind` of KINDS, else drawn."""
    rng = np.random.default_rng(seed)
    kind = kind or str(rng.choice(KINDS))
    nodes, cpus = int(rng.integers(8, 33)), int(rng.choice([16, 32, 64]))
    gpus = 4 if "gpu" in kind or rng.random() < 0.3 else 0
    log = requests(rng, nodes, cpus, gpus)
    of = "account" if rng.random() < 0.25 else "user"
    share = rng.uniform(0.15, 0.45) if of == "user" else rng.uniform(0.25, 0.6)
    jobs = int(rng.integers(3, 13))
    values = {
        "cpu": max(round(share * nodes) * cpus, 2.0 * cpus),
        "jobs": float(jobs if of == "user" else 2 * jobs),
        "gpu": float(max(round(share * nodes) * gpus, 8)),
    }
    caps = {what: values[what] for what in values if what in kind.split("+")}
    schedule = simulate_on(machine_with(nodes, cpus, gpus, of, caps), log)
    there = schedule.rows
    log = log.take(there).with_columns({"wait_time": schedule.wait_time})
    return Made(log, kind, of, caps, bound_jobs(log, of, caps, nodes * cpus, nodes * gpus))


def requests(rng: np.random.Generator, nodes: int, cpus: int, gpus: int) -> Trace:
    """Draw users of a few accounts who submit series of similar jobs, a few users most of them; the machine is well
    used."""
    count, users, days = int(rng.integers(2000, 4001)), int(rng.integers(8, 31)), int(rng.integers(15, 46))
    accounts = rng.integers(0, max(users // 4, 3), users)
    rows: list[tuple[float, int, float, float, float, float]] = []
    sizes = cpus * np.array([1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 1, 2, 3])
    while len(rows) < count:
        user, many, at = int(rng.zipf(1.5)) % users, int(rng.integers(1, 25)), rng.uniform(0.0, days * DAY)
        size, limit = float(rng.choice(sizes)), float(rng.choice(LIMIT_S))
        asked = float(rng.choice([1, 1, 2, 4])) * max(math.ceil(size / cpus), 1) if gpus and rng.random() < 0.5 else 0.0
        rows += [
            (at + rng.uniform(0.0, 600.0), user, size, limit, limit * rng.beta(1, 3) + 5.0, asked) for _ in range(many)
        ]
    submit, user, size, limit, run, asked = (np.array(column) for column in zip(*sorted(rows), strict=True))
    scale = min(1.0, rng.uniform(0.6, 1.0) * nodes * cpus * days * DAY / np.dot(size, run))
    if gpus:
        scale = min(scale, rng.uniform(0.6, 1.0) * nodes * gpus * days * DAY / np.dot(asked, run))
    columns = {
        "job_id": np.arange(1, len(rows) + 1), "submit_time": np.round(submit), "run_time": np.ceil(run * scale),
        "req_procs": size, "req_nodes": np.ceil(size / cpus), "req_time": limit,
        "user_id": [f"u{k:.0f}" for k in user], "account": [f"a{accounts[int(k)]}" for k in user],
    }  # fmt: skip
    if gpus:
        columns["req_gpus"] = asked
    if rng.random() < 0.5:
        columns["qos"] = ["normal"] * len(rows)
    return Trace.from_arrays(columns)


def machine_with(nodes: int, cpus: int, gpus: int, of: str, caps: dict[str, float]) -> Machine:
    """Return a machine of equal nodes, with the caps as the limits of its partition's QOS."""
    names = tuple(f"n{k}" for k in range(nodes))
    tres = {"gres/gpu" if what == "gpu" else what: caps[what] for what in ("cpu", "gpu") if what in caps}
    limits = Limits(**{f"max_tres_per_{of}": tres, f"max_jobs_per_{of}": caps.get("jobs", math.inf)})
    qos = (Qos("other"), Qos("normal", limits=limits))
    group = NodeGroup(names, cpus, gres={"gpu": gpus} if gpus else {})
    settings = {"SchedulerType": "sched/backfill", "AccountingStorageEnforce": "limits"}
    return Machine((group,), (Partition("all", names, default=True, qos="normal"),), qos, settings=settings)


def bound_jobs(log: Trace, of: str, caps: dict[str, float], cpus: int, gpus: int) -> dict[str, int]:
    """Return how many jobs each cap held back: 0 if fewer than three users (or accounts) have such jobs."""
    submit, start = log.submit_time, log.submit_time + log.wait_time
    end = start + log.run_time
    asks = {"cpu": log.procs(), "jobs": np.ones(len(log)), "gpu": np.nan_to_num(log.number("req_gpus"))}
    group = log.nominal("account" if of == "account" else "user_id").codes
    when = submit[:, None] + (np.arange(LOOKS) + 0.5) / LOOKS * log.wait_time[:, None]
    room = np.repeat((log.wait_time > 0)[:, None], LOOKS, axis=1)
    for what, there in (("cpu", cpus), ("gpu", gpus)):
        taken = held(start, end, asks[what], when)
        for j in range(len(log)):
            before = np.flatnonzero((group[:j] != group[j]) & (start[:j] > submit[j]))
            taken[j] += (start[before] > when[j][:, None]) @ asks[what][before] + asks[what][j]
        room &= taken <= there
    near = {what: np.zeros(when.shape, bool) for what in caps}
    for what, value in caps.items():
        for g in np.unique(group):
            mine = group == g
            level = held(start[mine], end[mine], asks[what][mine], when[mine]) + asks[what][mine][:, None]
            near[what][mine] = (level > value) & (asks[what][mine][:, None] > 0)
    found = {}
    for what in caps:
        alone = near[what] & room & (sum(near.values()) == 1)
        bound = alone.any(axis=1)
        found[what] = int(bound.sum()) if len(np.unique(group[bound])) >= GROUPS else 0
    return found


def held(start: np.ndarray, end: np.ndarray, size: np.ndarray, when: np.ndarray) -> np.ndarray:
    """Return the resources that jobs use at each of the instants."""
    time, running = steps(start, end, size)
    place = np.searchsorted(time, when, side="right") - 1
    return np.where(place >= 0, running[np.maximum(place, 0)], 0.0)


def found_in(log: Trace) -> dict[str, dict[str, float]]:
    """Return the caps for all users in the log's learned machine, by user and account."""
    limits = next((q.limits for q in implied(log).machine.qos if q.name.startswith("cap-")), Limits())
    both = {
        "user": (limits.max_jobs_per_user, limits.max_tres_per_user),
        "account": (limits.max_jobs_per_account, limits.max_tres_per_account),
    }
    return {
        of: {**({"jobs": jobs} if jobs < math.inf else {}), **{k.removeprefix("gres/"): v for k, v in tres.items()}}
        for of, (jobs, tres) in both.items()
    }


def judged(made: Made) -> tuple[str, dict[str, dict[str, float]]]:
    """Return the verdict, one of VERDICTS, and the caps that were found."""
    found = found_in(made.log)
    values = {what: value for of in ("account", "user", made.of) for what, value in found[of].items()}
    if any(made.caps.get(what) != value for caps in found.values() for what, value in caps.items()):
        return "wrong", found
    wanted = [what for what in made.caps if made.bound[what] >= ENOUGH]
    if any(what not in values for what in wanted):
        return "missed", found
    if any(what not in found[made.of] for what in values):
        return "whose", found
    return "exact" if wanted or not made.caps else "few", found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", default="", choices=KINDS, help="only such logs")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each log")
    given = parser.parse_args()
    count: Counter[tuple[str, str]] = Counter()
    for seed in range(given.first, given.first + given.logs):
        made = make(seed, given.kind)
        verdict, found = judged(made)
        count[made.kind, verdict] += 1
        if given.verbose:
            print(seed, len(made.log), made.kind, made.of, made.caps, made.bound, verdict, found, flush=True)
    print(f"{'caps':<10}" + "".join(f"{name:>8}" for name in VERDICTS))
    for kind in (*KINDS, "all"):
        row = [sum(n for (k, v), n in count.items() if v == verdict and kind in (k, "all")) for verdict in VERDICTS]
        print(f"{kind:<10}" + "".join(f"{n:8d}" for n in row))
    for verdict, says in VERDICTS.items():
        print(f"{verdict}: {says}")


if __name__ == "__main__":
    main()
