"""Effect of the queue order on a real Slurm: the same jobs in order of arrival, by time limits and by predictions.

    python benchmarks/order_gain.py --seeds 1,2,3 --jobs 300 --load 2 --arms none,order-limits,order,both-limits,both \
        --against none,order-limits -o order.jsonl

Workload, lab and history are the same as in planning_gain.py, with priority/multifactor and age as the only weight. An
arm is a value of the setting `plan` (none: off) and, after a slash, of `plan_within`. `order-limits` and `both-limits`
are the control: the order by the users' own time limits (`plan_order_by = "limits"`), which needs no predictions. With
`+reserve` Slurm reserves processors only for jobs past the age (bf_min_prio_reserve); with `+wide` the band is three
times the weight of age. The output file has one line per run; a run whose line is already there is skipped. With
`--padding default` two thirds of the users request one default limit, as half of the jobs of GWU-2019 do. A run takes
nine to ten minutes on a machine that is not busy: at nice 10 beside a load of 18, jobs ran up to 15 % longer, and half
of them were never ordered, because Slurm's clients failed. Waits in minutes; differences from the first arm, or from
each arm of `--against`, with a 90 % interval over bursts. A second table compares the simulated Slurm's means of the
same jobs, by seed and arm, with the lab's; with `--replicates` also their range by chance, and in a third table the
users who wait longer by more than chance.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from planning_gain import PADDINGS, _bursts, lateness, measure, parts, show, simulated, workload
from slurm_lab import missing

from batchcast.metrics.paired import paired_differences
from batchcast.metrics.schedule import bounded_slowdown
from batchcast.schedule.slurm.simulate import LOOKS_S

SLURM = {
    "PriorityType": "priority/multifactor", "PriorityWeightAge": "100000", "PriorityMaxAge": "2-00:00:00",
    "SchedulerParameters": "bf_interval=30,bf_resolution=60,bf_continue,sched_interval=30,batch_sched_delay=0",
}  # fmt: skip


def run_of(seed: int, jobs: int, load: float, speed: float, arm: str, padding: str = "people") -> dict[str, Any]:
    """Return the run of one arm on a new lab."""
    plan, within, words, band, by = parts(arm)
    loops = ",".join([SLURM["SchedulerParameters"], *(f"{name}={value}" for name, value in words.items())])
    more = {"PLAN": "off" if plan == "none" else plan, "PLAN_WITHIN": within, "PLAN_BAND": str(band)}
    more["PLAN_ORDER_BY"] = by
    slurm = SLURM | {"SchedulerParameters": loops}
    run = measure(seed, jobs, load, speed, plan != "none", slurm, padding, **more)
    return {**run, "arm": arm, "padding": padding}


def compare(runs: Sequence[dict[str, Any]], arms: Sequence[str], boot: int = 0) -> list[dict[str, Any]]:
    """Return a row for each arm: waits, bounded slowdown, users worse off by a tenth, differences from the first
    arm."""
    waits: dict[str, np.ndarray] = {}
    groups, who, length = [], [], []
    for arm in arms:
        waits[arm] = np.concatenate(
            [[r["start"] - r["submit"] for r in one["rows"]] for one in runs if one["arm"] == arm]
        )
    for one in (one for one in runs if one["arm"] == arms[0]):
        wishes = workload(one["seed"], one["jobs"], one["load"])[1]
        groups.append(one["seed"] * 10**6 + _bursts(wishes))
        who.append(one["seed"] * 100 + np.array([w.who for w in wishes]))
        length.append(np.array([w.runs for w in wishes]))
    group = np.unique(np.concatenate(groups), return_inverse=True)[1]
    person, runs_s = np.concatenate(who), np.concatenate(length)
    slow = {arm: bounded_slowdown(wait, runs_s, 60.0) for arm, wait in waits.items()}
    rows = []
    for arm in arms:
        row: dict[str, Any] = {"arm": arm, "jobs": len(runs_s), "mean wait": float(waits[arm].mean()) / 60}
        row |= {"slowdown": float(slow[arm].mean()), "longest": float(waits[arm].max()) / 60}
        many = [p for p in np.unique(person) if (person == p).sum() >= 10]
        worse = [waits[arm][person == p].mean() > 1.1 * waits[arms[0]][person == p].mean() for p in many]
        row |= {"people worse off": f"{sum(worse)} of {len(many)}"}
        for name, values, unit in (("wait", waits, 60.0), ("slowdown", slow, 1.0)):
            if arm == arms[0]:
                row[f"{name} difference"] = "-"
                continue
            draws = np.random.default_rng(boot)
            pair = paired_differences(values[arm][None] / unit, values[arms[0]] / unit, group, draws)[0]
            row[f"{name} difference"] = f"{pair.difference:.1f} ({pair.low:.1f} to {pair.high:.1f}): {pair.verdict()}"
        rows.append(row)
    return rows


def foretold(runs: Sequence[dict[str, Any]], replicates: int = 0) -> list[dict[str, Any]]:
    """Return a row for each run: mean wait and bounded slowdown in the lab and in the simulated Slurm, and their
    ratios.

    Jobs and history come from the seed's first arm, so the simulation uses later runs only for the collector's delay
    in planning a limit and in ordering a job; half a cycle of the simulation is part of that delay. With replicates, in
    which each submission is up to 20 s later: also the smallest and the largest mean wait.
    """
    rows = []
    for seed, load in dict.fromkeys((run["seed"], run["load"]) for run in runs):
        here = [run for run in runs if (run["seed"], run["load"]) == (seed, load)]
        length = np.array([w.runs for w in workload(seed, here[0]["jobs"], load)[1]])
        arms = [run["arm"] for run in here]
        late = lateness(here), {run["arm"]: lateness([run], "ordered_at") - LOOKS_S / 2 for run in here}
        again = [
            [wait.mean() / 60 for wait in simulated(seed, _later(here[0], k), arms, *late)] for k in range(replicates)
        ]
        for place, (run, wait) in enumerate(zip(here, simulated(seed, here[0], arms, *late))):
            real = np.array([r["start"] - r["submit"] for r in run["rows"]])
            row: dict[str, Any] = {"seed": seed, "load": load, "arm": run["arm"]}
            for name, lab, sim in (
                ("mean wait", real.mean() / 60, wait.mean() / 60),
                ("slowdown", bounded_slowdown(real, length, 60.0).mean(), bounded_slowdown(wait, length, 60.0).mean()),
                ("longest", real.max() / 60, wait.max() / 60),
            ):
                row |= {
                    f"{name} lab": float(lab),
                    f"{name} simulated": float(sim),
                    f"{name} off by": f"{sim / lab - 1:+.0%}",
                }
            if again:
                means = [one[place] for one in again]
                row["mean wait, replicates"] = f"{min(means):.1f} to {max(means):.1f}"
            rows.append(row)
    return rows


def beyond_chance(runs: Sequence[dict[str, Any]], arms: Sequence[str], replicates: int) -> list[dict[str, Any]]:
    """Return a row for each arm: users with ten jobs or more that are worse off by a tenth, and how many of them by
    more than chance.

    Chance is the simulated Slurm's first arm repeated with each submission up to 20 s later: how much a user's mean
    wait differs between two such runs under the same rule. A user waits longer by more than chance if the wait grows by
    a tenth and by more than 95 % of these differences. The last column is the share of users worse off less the share
    by chance, with a 90 % interval over users.
    """
    ratios: dict[str, list[float]] = {arm: [] for arm in arms}
    drawn = []
    for seed in dict.fromkeys(run["seed"] for run in runs):
        here = {run["arm"]: run for run in runs if run["seed"] == seed}
        first = here[arms[0]]
        who = np.array([w.who for w in workload(seed, first["jobs"], first["load"])[1]])
        again = [simulated(seed, _later(first, k), arms[:1])[0] for k in range(replicates)]
        waits = {arm: np.array([r["start"] - r["submit"] for r in here[arm]["rows"]]) for arm in arms}
        for person in (p for p in np.unique(who) if (who == p).sum() >= 10):
            own = who == person
            means = np.array([wait[own].mean() for wait in again])
            drawn.append((means[:, None] / means)[~np.eye(replicates, dtype=bool)])
            for arm in arms:
                ratios[arm].append(waits[arm][own].mean() / waits[arms[0]][own].mean())
    chance = np.array([(one > 1.1).mean() for one in drawn])
    most = np.array([max(1.1, np.quantile(one, 0.95)) for one in drawn])
    rows = []
    for arm in arms[1:]:
        ratio = np.array(ratios[arm])
        worse = (ratio > 1.1).astype(float)
        each = np.arange(len(ratio))
        pair = paired_differences(100 * worse[None], 100 * chance, each, np.random.default_rng(0))[0]
        rows.append(
            {
                "arm": arm, "people": len(ratio), "worse off by a tenth": int(worse.sum()),
                "by chance": float(chance.sum()), "worse off beyond chance": int((ratio > most).sum()),
                "points more than by chance": f"{pair.difference:.0f} ({pair.low:.0f} to {pair.high:.0f})",
            }
        )  # fmt: skip
    return rows


def _later(run: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the run with each submission up to 20 s later, so that Slurm's loops meet other jobs."""
    after = np.floor(np.random.default_rng([run["seed"], number]).uniform(0.0, 20.0, run["jobs"])).tolist()
    rows = [
        {**row, **{name: row[name] + more for name in ("submit", "start", "end")}}
        for row, more in zip(run["rows"], after)
    ]
    return {**run, "rows": rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--arms", default="none,limits,order,both,order/user")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--load", type=float, default=1.3)
    parser.add_argument("--speed", type=float, default=60.0)
    parser.add_argument("-o", "--output", type=Path, default=Path("order_gain.jsonl"))
    parser.add_argument("--padding", choices=PADDINGS, default="people")
    parser.add_argument("--against", default="", help="arms to compare the others with; the first of --arms by itself")
    parser.add_argument("--replicates", type=int, default=0)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # SIGTERM also stops the lab
    if reason := missing(given.speed):
        print(f"order_gain: {reason}", file=sys.stderr)
        return 1
    lines = given.output.read_text().splitlines() if given.output.exists() else []
    runs = {_key(one): one for one in map(json.loads, lines)}
    arms, chosen = given.arms.split(","), []
    for seed in map(int, given.seeds.split(",")):
        for arm in arms:
            asked = (seed, given.jobs, given.load, given.speed, arm, given.padding)
            if asked not in runs:
                runs[asked] = run_of(*asked)
                with given.output.open("a") as out:
                    out.write(json.dumps(runs[asked]) + "\n")
            chosen.append(runs[asked])
    for against in given.against.split(",") if given.against else arms[:1]:
        rows = compare(chosen, [against, *(arm for arm in arms if arm != against)])
        print(f"Differences from {against}:\n\n{show(rows)}\n")
    print(show(foretold(chosen, given.replicates)))
    if given.replicates > 1 and len(arms) > 1:
        print(f"\n{show(beyond_chance(chosen, arms, given.replicates))}")
    return 0


def _key(run: dict[str, Any]) -> tuple[Any, ...]:
    return (*(run[name] for name in ("seed", "jobs", "load", "speed", "arm")), run.get("padding", "people"))


if __name__ == "__main__":
    sys.exit(main())
