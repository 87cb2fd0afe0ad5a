"""Tests rules that should make fewer users wait longer than by arrival, on the lab's workload in the simulated Slurm.

    python -m benchmarks.planning.order_tried order.jsonl --seeds 11:30 --load 2
    python -m benchmarks.planning.order_tried order.jsonl --seeds 11:30 --load 2 --rules pushed,tenth,band

The columns are the same as in order_payers.py. A job's turn by arrival is the instant at which the work started from
the queue equals the work that arrived before the job. `until even`: if a user's jobs together waited longer than until
their turns by more than a share, the user's jobs are ordered by arrival from then on. `job`: the same rule for each job
separately. `small first`: least work first only among the small jobs that have this share of the work of the last 400
jobs; other jobs are ordered by arrival. `half the age`: a job is ordered by arrival after half of the usual age limit.
`pushed`: a job is pushed back by the machine time of later jobs that started first; if a user's waiting jobs are pushed
back by more than a share of the age limit, in sum or in the mean, they are ordered by arrival. `band`: this many times
the weight of age. `+wide`: three times. `root`: jobs are ranked by run time times the square root of the processors,
which is least slowdown first; `small .65`: among the small jobs with this share of the work. Second table: slowdown and
longest wait. With --rules only rules with one of these words in their names are run, beside the order in use. Last
line: a lower bound of the mean wait under any order.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import planning_gain
from benchmarks.planning.order_payers import by_arm, columns_of, people, waits_of
from benchmarks.planning_gain import BAND, show, workload

from batchcast.metrics.schedule import bounded_slowdown
from batchcast.planning.order import LEAST_AGE, AgeFinder, OrderRule, _by_level
from batchcast.simulation.on_nodes import QueueOrder

LOOK_S = 60.0


def until_even(share: float, each_job: bool = False) -> Callable[..., Any]:
    """Least work first; users whose jobs waited longer than until their turns by arrival, by more than `share`, are
    ordered by arrival."""

    def made(rule: OrderRule, machine: Any, requests: Any, length: Any) -> Any:
        ordered = sorted(requests, key=lambda r: r.submit)
        work = np.array([length(r) * r.cpus for r in ordered])
        names = np.array([r.cpus * 1000.0 + r.limit / 60 for r in ordered])
        who = np.arange(len(work)) if each_job else np.unique(names, return_inverse=True)[1]
        came, started, turn = np.full(len(work), np.nan), np.full(len(work), np.inf), np.full(len(work), np.inf)
        before, total, done = np.full(len(work), np.inf), 0.0, 0.0
        waiting, finder = np.zeros(0, np.int64), AgeFinder(float(machine.cpus))

        def reorder(seen: Any) -> tuple[np.ndarray, float]:
            nonlocal total, done, waiting
            here = seen.positions
            gone = np.setdiff1d(waiting, here)
            started[gone], done = seen.now, done + work[gone].sum()
            new = here[np.isnan(came[here])]
            came[new] = np.where(np.isnan(seen.arrival), seen.now, seen.arrival)[np.isin(here, new)]
            before[new] = total + np.cumsum(work[new]) - work[new]
            total, waiting = total + work[new].sum(), here.copy()
            turn[(before <= done) & np.isinf(turn)] = seen.now
            known = np.flatnonzero(~np.isnan(came))
            waits, own = (np.minimum(seen.now, t[known]) - came[known] for t in (started, turn))
            sums = [np.bincount(who[known], some, who.max() + 1) for some in (waits, own)]
            behind = sums[0] > (1 + share) * sums[1]
            age = finder.look(here.tolist(), seen.arrival, work[here], seen.now)
            aged = (seen.now - seen.arrival > age) | (seen.factor == rule.band)
            aged |= behind[who[here]] & (turn[here] <= seen.now)
            return _by_level(work[here], seen.factor.astype(np.int64), aged, rule.band), seen.now + LOOK_S

        return reorder

    return made


def pushed_back(share: float, mean: bool = False) -> Callable[..., Any]:
    """Least work first; users whose jobs later jobs pushed back by more than `share` of the age limit are ordered by
    arrival."""

    def made(rule: OrderRule, machine: Any, requests: Any, length: Any) -> Any:
        ordered = sorted(requests, key=lambda r: r.submit)
        work = np.array([length(r) * r.cpus for r in ordered])
        names = np.array([r.cpus * 1000.0 + r.limit / 60 for r in ordered])
        who = np.unique(names, return_inverse=True)[1]
        pushed, waiting, finder = np.zeros(len(work)), np.zeros(0, np.int64), AgeFinder(float(machine.cpus))

        def reorder(seen: Any) -> tuple[np.ndarray, float]:
            nonlocal waiting
            here = seen.positions
            for gone in np.setdiff1d(waiting, here).tolist():
                before = here[(here < gone) & (who[here] != who[gone])]
                pushed[before] += work[gone] / float(machine.cpus)
            waiting = here.copy()
            age = finder.look(here.tolist(), seen.arrival, work[here], seen.now)
            total = np.bincount(who[here], pushed[here], who.max() + 1)
            if mean:
                total = total / np.maximum(np.bincount(who[here], minlength=who.max() + 1), 1)
            aged = (seen.now - seen.arrival > age) | (seen.factor == rule.band) | (total[who[here]] > share * age)
            return _by_level(work[here], seen.factor.astype(np.int64), aged, rule.band), seen.now + LOOK_S

        return reorder

    return made


def in_band(share: float) -> Callable[..., Any]:
    """The order in use, in a band of this many times the weight of age."""

    def made(rule: OrderRule, *more: Any) -> Any:
        return QueueOrder(replace(rule, band=round(share * BAND)), *more)

    return made


def least_work(small: float = 1.0, age_share: float = 1.0, size: float = 1.0) -> Callable[..., Any]:
    """Least work first among the small jobs with the share `small` of the work, other jobs by arrival. The age limit is
    the share `age_share` of the usual one. `size` is the power of the processors by which jobs are ranked; one half is
    least slowdown first."""

    def made(rule: OrderRule, machine: Any, requests: Any, length: Any) -> Any:
        ordered = sorted(requests, key=lambda r: r.submit)
        work = np.array([length(r) * r.cpus for r in ordered])
        key = np.array([length(r) * r.cpus**size for r in ordered])
        finder, seen_before = AgeFinder(float(machine.cpus)), 0

        def reorder(seen: Any) -> tuple[np.ndarray, float]:
            nonlocal seen_before
            here = seen.positions
            seen_before = max(seen_before, int(here.max()) + 1)
            last = slice(max(seen_before - 400, 0), seen_before)
            ranks = np.argsort(key[last])
            done = np.cumsum(work[last][ranks])
            most = key[last][ranks[min(np.searchsorted(done, small * done[-1]), len(ranks) - 1)]]
            age = finder.look(here.tolist(), seen.arrival, work[here], seen.now)
            aged = (seen.now - seen.arrival > max(age_share * age, LEAST_AGE)) | (seen.factor == rule.band)
            ranked = np.where((key[here] <= most) | (small >= 1), key[here], math.inf)
            return _by_level(ranked, seen.factor.astype(np.int64), aged, rule.band), seen.now + LOOK_S

        return reorder

    return made


TRIED = {
    "until even, a tenth": ("order", until_even(0.1)),
    "until even, a quarter": ("order", until_even(0.25)),
    "job, a quarter": ("order", until_even(0.25, each_job=True)),
    "small first, a fifth+wide": ("order+wide", least_work(small=0.2)),
    "small first, a half+wide": ("order+wide", least_work(small=0.5)),
    "small first, a twentieth+wide": ("order+wide", least_work(small=0.05)),
    "small first, a tenth+wide": ("order+wide", least_work(small=0.1)),
    "pushed back, the age in sum": ("order", pushed_back(1.0)),
    "pushed back, half the age in the mean": ("order", pushed_back(0.5, mean=True)),
    "pushed back, a quarter in the mean": ("order", pushed_back(0.25, mean=True)),
    "band, a quarter": ("order", in_band(0.25)),
    "band, a half": ("order", in_band(0.5)),
    "half the age": ("order", least_work(age_share=0.5)),
    "root": ("order", least_work(size=0.5)),
    "root+wide": ("order+wide", least_work(size=0.5)),
    "root, .75 of the age+wide": ("order+wide", least_work(age_share=0.75, size=0.5)),
    "root, .65 of the age, small .65+wide": ("order+wide", least_work(0.65, 0.65, 0.5)),
    "root, half the age+wide": ("order+wide", least_work(age_share=0.5, size=0.5)),
    "root, .75 of the age, small .5+wide": ("order+wide", least_work(0.5, 0.75, 0.5)),
    "half the age+wide": ("order+wide", least_work(age_share=0.5)),
}


def frontier(columns: dict[str, list[np.ndarray]], length: np.ndarray) -> list[dict[str, Any]]:
    """Return a row for each arm: slowdown and longest wait as shares of arrival's, with 90 % intervals over
    workloads."""
    parts = np.split(length, np.cumsum([len(one) for one in columns["none"]])[:-1])
    slow = {a: np.array([bounded_slowdown(*one, 60.0).mean() for one in zip(w, parts)]) for a, w in columns.items()}
    longest = {arm: np.array([wait.max() for wait in waits]) for arm, waits in columns.items()}
    draws = np.random.default_rng(0).integers(0, len(parts), (2000, len(parts)))

    def share(values: np.ndarray, base: np.ndarray) -> str:
        low, high = np.quantile(values[draws].sum(1) / base[draws].sum(1), (0.05, 0.95))
        return f"{values.sum() / base.sum():.2f} ({low:.2f} to {high:.2f})"

    return [
        {"arm": arm, "slowdown, share": share(slow[arm], slow["none"]),
         "longest of each workload, share": share(longest[arm], longest["none"]),
         "longest of all, share": f"{longest[arm].max() / longest['none'].max():.2f}"}
        for arm in columns
    ]  # fmt: skip


def at_best(load: float, seeds: Sequence[int], none: Sequence[np.ndarray], most: float = 1.1) -> float:
    """Return the smallest mean wait, as a share of the mean wait by arrival, under any order in which no user waits
    longer than `most` times the wait by arrival, if the waiting work weighted by job stays constant (Kleinrock 1976):
    the users with the least work per job do not wait at all."""
    before = after = 0.0
    for seed, wait in zip(seeds, none):
        wishes = workload(seed, 300, load)[1]
        who, work = np.array([w.who for w in wishes]), np.array([w.procs * w.runs for w in wishes])
        jobs, owed = np.bincount(who, wait), np.bincount(who, wait * work)
        # if all users waited as long as allowed, the waits of some could be shorter by this sum
        given = (most - 1) * owed.sum()
        for k in sorted(np.flatnonzero(owed).tolist(), key=lambda k: owed[k] / jobs[k]):
            share = min(given / (most * owed[k]), 1.0)
            given -= share * most * owed[k]
            after += (1 - share) * most * jobs[k]
        before += jobs.sum()
    return after / before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--seeds", default="11:30")
    parser.add_argument("--load", type=float, default=2.0)
    parser.add_argument("--rules", default="", help="words, separated by commas")
    given = parser.parse_args()
    machine = json.loads(given.runs.read_text().splitlines()[0])["machine"]
    words = given.rules.split(",")
    chosen = {name: rule for name, rule in TRIED.items() if any(word in name for word in words)}
    first, _, last = given.seeds.partition(":")
    whole: list[dict[str, np.ndarray]] = []
    everybody: list[dict[str, Any]] = []
    wishes = []
    for seed in range(int(first), int(last or first) + 1):
        asked = (machine, seed, 300, given.load)
        arms = ["none", "order", "order+wide"]
        waits = dict(zip(arms, waits_of(*asked, arms)))
        for name, (arm, rule) in chosen.items():
            kept, planning_gain.QueueOrder = planning_gain.QueueOrder, rule
            try:
                waits[name] = waits_of(*asked, [arm])[0]
            finally:
                planning_gain.QueueOrder = kept
        everybody += people(*asked[1:], waits)
        wishes.append((seed, workload(*asked[1:])[1]))
        whole.append(waits)
    columns, bursts, length, work = columns_of(whole, wishes)
    print(show(by_arm(columns, bursts, length, work, everybody)))
    print(f"\n{show(frontier(columns, length))}")
    best = at_best(given.load, [seed for seed, _ in wishes], [waits["none"] for waits in whole])
    print(f"\nAt best, with nobody more than a tenth worse off: {best:.2f} of arrival's mean wait")
    return 0


if __name__ == "__main__":
    sys.exit(main())
