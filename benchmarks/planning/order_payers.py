"""Users who wait longer under the queue order, and how many seem to by chance: the lab's workload on the simulated
Slurm.

    python -m benchmarks.planning.order_payers order.jsonl --seeds 11:30 --load 2 --arms order,order/account

The machine is the machine of the first run in the file that order_gain.py wrote. First table: each arm compared with
arrival; a user with ten jobs or more is worse off if the mean wait is longer by more than a tenth, or a quarter. By
chance: arrival again, with each job up to a minute later. By work: each job's wait is weighted by its processors times
its run time. Second table: users by rank of their mean work among the twelve, with their share of all work, the ratio
of their mean waits, and how many are worse off.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.planning_gain import PEOPLE, _bursts, show, simulated, workload

from batchcast.metrics.paired import paired_differences
from batchcast.metrics.schedule import bounded_slowdown

CHANCE = "none, up to a minute later"


def waits_of(machine: str, seed: int, jobs: int, load: float, arms: list[str], later: float = 0.0) -> list[np.ndarray]:
    """Return waits (s) under each arm; each submission comes up to `later` seconds after its planned instant."""
    wishes, now = workload(seed, jobs, load)[1], 1.75e9
    after = np.random.default_rng([seed, 9]).uniform(0.0, later, jobs)
    at = np.floor(now + 120.0 + np.array([w.at for w in wishes]) + after)
    rows = [{"submit": t, "start": t, "end": t + round(w.runs)} for t, w in zip(at.tolist(), wishes)]
    return simulated(seed, {"jobs": jobs, "load": load, "now": now, "rows": rows, "machine": machine}, arms)


def people(seed: int, jobs: int, load: float, waits: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Return, for each user with ten jobs or more, rank and share of work, and the mean wait under each arm."""
    wishes = workload(seed, jobs, load)[1]
    who, work = np.array([w.who for w in wishes]), np.array([w.procs * w.runs for w in wishes])
    mean = np.array([work[who == k].mean() if (who == k).any() else np.nan for k in range(PEOPLE)])
    rank = np.argsort(np.argsort(mean))
    return [
        {"rank": int(rank[k]) + 1, "share": work[who == k].sum() / work.sum()}
        | {arm: wait[who == k].mean() for arm, wait in waits.items()}
        for k in range(PEOPLE)
        if (who == k).sum() >= 10
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--seeds", default="11:30")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--load", type=float, default=2.0)
    parser.add_argument("--arms", default="order,order/account")
    given = parser.parse_args()
    machine = json.loads(given.runs.read_text().splitlines()[0])["machine"]
    first, _, last = given.seeds.partition(":")
    arms = ["none", *given.arms.split(",")]
    everybody: list[dict[str, Any]] = []
    whole, wishes = [], []
    for seed in range(int(first), int(last or first) + 1):
        asked = (machine, seed, given.jobs, given.load)
        waits = dict(zip(arms, waits_of(*asked, arms)))
        waits[CHANCE] = waits_of(*asked, ["none"], later=60.0)[0]
        everybody += people(*asked[1:], waits)
        wishes.append((seed, workload(*asked[1:])[1]))
        whole.append(waits)
    print(show(by_arm(*columns_of(whole, wishes), everybody)))
    print()
    print(show(by_rank(everybody, arms[1])))
    return 0


def columns_of(
    whole: list[dict[str, np.ndarray]], wishes: list[tuple[int, list[Any]]]
) -> tuple[dict[str, list[np.ndarray]], np.ndarray, np.ndarray, np.ndarray]:
    """Waits by arm, and each job's burst, run time (s) and work."""
    bursts = np.concatenate([seed * 10**6 + _bursts(some) for seed, some in wishes])
    length = np.array([w.runs for _, some in wishes for w in some])
    work = length * np.array([w.procs for _, some in wishes for w in some])
    return {arm: [waits[arm] for waits in whole] for arm in whole[0]}, bursts, length, work


def by_arm(
    columns: dict[str, list[np.ndarray]],
    bursts: np.ndarray,
    length: np.ndarray,
    work: np.ndarray,
    everybody: list[dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return a row for each arm; differences from arrival with a 90 % interval over bursts."""
    group, rows = np.unique(bursts, return_inverse=True)[1], []
    base = np.concatenate(columns["none"])
    for arm, waits in columns.items():
        wait = np.concatenate(waits)
        pair = paired_differences(wait[None] / 60, base / 60, group, np.random.default_rng(0))[0]
        ratio = np.array([one[arm] / one["none"] for one in everybody])
        longest = [a.max() / b.max() for a, b in zip(waits, columns["none"])]
        rows.append(
            {
                "arm": arm, "mean wait": float(wait.mean()) / 60,
                "by work": float(np.average(wait, weights=work)) / 60, "share": f"{wait.mean() / base.mean():.2f}",
                "difference": f"{pair.difference:.1f} ({pair.low:.1f} to {pair.high:.1f})",
                "slowdown": float(bounded_slowdown(wait, length, 60.0).mean()),
                "longest": f"{np.mean(longest):.2f} times, {max(longest):.2f} at most",
                "worse off by a tenth": f"{(ratio > 1.1).mean():.1%} of {len(ratio)}",
                "by a quarter": f"{(ratio > 1.25).mean():.1%}",
            }
        )  # fmt: skip
    return rows


def by_rank(everybody: list[dict[str, Any]], arm: str) -> list[dict[str, Any]]:
    """Return a row for each rank by work, from the least to the most."""
    rows = []
    for rank in range(1, PEOPLE + 1):
        here = [one for one in everybody if one["rank"] == rank]
        ratio, chance = (np.array([one[name] / one["none"] for one in here]) for name in (arm, CHANCE))
        rows.append(
            {
                "rank by work": rank, "people": len(here),
                "share of all work": f"{np.mean([one['share'] for one in here]):.1%}",
                f"wait under {arm} / none, median": f"{np.median(ratio):.2f}",
                "worse off by a tenth": f"{(ratio > 1.1).mean():.0%}", "by chance": f"{(chance > 1.1).mean():.0%}",
            }
        )  # fmt: skip
    return rows


if __name__ == "__main__":
    sys.exit(main())
