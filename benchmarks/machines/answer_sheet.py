# SPDX-License-Identifier: Apache-2.0
"""What each difference between a description and an answer sheet's runs explains, and what the runs say of each other.

python -m benchmarks.machines.answer_sheet FOLDER

For each machine: level, Spearman's correlation of the settings' means, and how far starts are apart. Then, without a
simulation, starts of a recorded run that passed over a waiting job of another user that asked for no more processors,
nodes and time: in how many had the one that started the higher priority, with past use and without? Then recorded runs
against each other: those of the same weights, and those whose weights are in the same proportion, for which Slurm's
priorities have the same order. About five minutes of CPU for 41 runs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from benchmarks.prove import CLEARLY, DEFAULTS, PAST_USE, Run, Waits, runs_of, waits_of

from batchcast.machines.machine import Machine, vary
from batchcast.metrics.curves import rank_correlation
from batchcast.schedule.slurm.simulate import LOOKS_S, Recorded, Seen, Takes, simulate_slurm
from batchcast.simulation.on_nodes import requests_of, row_of
from batchcast.table import Trace
from batchcast.trace.machine_files import open_machine
from batchcast.trace.read import read_trace

Key = tuple[str, ...]
AGE = {"PriorityMaxAge": DEFAULTS["PriorityMaxAge"]}
OLD_AGE = {**AGE, "PriorityDecayHalfLife": DEFAULTS["PriorityDecayHalfLife"]}
CYCLE = {**AGE, "bf_interval": DEFAULTS["bf_interval"]}
MACHINES: dict[str, dict[str, str]] = {
    "as described": {}, "age over 7 days": AGE, "age and half-life of 7 days": OLD_AGE, "age, cycles of 30 s": CYCLE,
}  # fmt: skip


def weights_of(run: Run) -> Key:
    return tuple(run[0][word] for word in ("fairshare", "age", "jobsize"))


def pooled(runs: list[Run], means: np.ndarray, key: Callable[[Run], object] = weights_of) -> dict[object, list[float]]:
    """Means of runs by what they have in common."""
    pools: dict[object, list[float]] = {}
    for run, mean in zip(runs, means.tolist(), strict=True):
        pools.setdefault(key(run), []).append(mean)
    return pools


def line(name: str, runs: list[Run], waits: list[Waits]) -> None:
    recorded, simulated, off = np.array(waits).T
    pools = [[np.mean(pool) for pool in pooled(runs, means).values()] for means in (recorded, simulated)]
    level, rank = simulated.mean() / recorded.mean(), rank_correlation(*map(np.array, pools))
    print(f"{name:<48}{level:6.2f}{rank:10.2f}{off.mean():8.0f} s", flush=True)


def simulate(described: Machine, runs: list[Run], logs: list[Trace]) -> tuple[list[Waits], list[bool]]:
    """Each machine, with past use as the settings say, and without where the starts are clearly nearer then.

    The recorded means, and which runs are nearer without under the age over seven days.
    """
    print(f"{'machine':<48}{'level':>6}{'Spearman':>10}{'starts off':>10}")
    waits: list[Waits] = []
    nearer: list[bool] = []
    for name, more in MACHINES.items():
        with_use = [waits_of(described, {**run[1], **more}, log) for run, log in zip(runs, logs, strict=True)]
        without = [
            waits_of(described, {**run[1], **more, PAST_USE: "0"}, log) for run, log in zip(runs, logs, strict=True)
        ]
        waits = with_use
        if more == AGE:
            nearer = [b[2] < CLEARLY * a[2] for a, b in zip(with_use, without, strict=True)]
        line(name, runs, with_use)
        chosen = [b if b[2] < CLEARLY * a[2] else a for a, b in zip(with_use, without, strict=True)]
        line(f"{name}, past use where it had an effect", runs, chosen)
    return waits, nearer


def passed_over(machine: Machine, log: Trace) -> tuple[float, float]:
    """Starts that passed over somebody who asked for no more, and how many of them follow the priorities.

    The record is replayed start by start, so past use is what it was. One that passed several counts by its share.
    """
    requests = sorted(requests_of(log, machine)[0], key=lambda r: r.submit)
    rows = np.array([row_of(r) for r in requests])
    start = log.submit_time[rows] + log.wait_time[rows]
    fixed: dict[tuple[str, int], Takes] = {
        (r.key, r.task): (at + 0.5, 0, ()) for r, at in zip(requests, start.tolist(), strict=True)
    }
    size = np.array([[r.cpus, max(r.min_nodes, 1), r.limit] for r in requests])
    user = np.array([r.user for r in requests])
    found = np.zeros(2)

    def look(seen: Seen) -> tuple[np.ndarray, float]:
        waits, places, priority = start[seen.places] - seen.now, seen.places, seen.priority
        for k in np.flatnonzero((waits > 0) & (waits <= LOOKS_S)):
            passed = (waits > LOOKS_S) & (user[places] != user[places[k]])
            passed &= (size[places] <= size[places[k]]).all(axis=1)
            if passed.any():
                found[:] += 1, (priority[k] >= priority[passed]).mean()
        return seen.factor, seen.now + LOOKS_S

    simulate_slurm(machine, requests, recorded=Recorded(fixed=fixed), since=math.inf, reorder=look)
    return float(found[0]), float(found[1])


def order(described: Machine, runs: list[Run], logs: list[Trace], nearer: list[bool]) -> None:
    """Test by the order of recorded starts whether past use counted, for runs that fit better without it and others."""
    print("\nstarts that passed over somebody who asked for no more, and how many follow the priorities")
    for group in (True, False):
        of = [(run, log) for run, log, one in zip(runs, logs, nearer, strict=True) if one == group]
        by = [
            np.sum([passed_over(vary(described, {**run[1], **AGE, **more}), log) for run, log in of], axis=0)
            for more in ({}, {PAST_USE: "0"})
        ]
        name = "nearer without past use" if group else "the others"
        print(f"  {len(of)} runs, {name}: {by[0][0]:.0f}; with past use {by[0][1]:.0f}, without {by[1][1]:.0f}")


def compare(runs: list[Run], recorded: np.ndarray) -> None:
    """Recorded runs against each other."""
    pairs = np.array([pool[:2] for pool in pooled(runs, recorded).values() if len(pool) > 1])
    rank = rank_correlation(pairs[:, 0], pairs[:, 1])
    print(f"\n{len(pairs)} settings were run twice: {np.abs(np.diff(pairs)).mean():.0f} s apart, Spearman {rank:.2f}")
    print("weights in one proportion, mean waits of their runs (s):")
    shares = pooled(runs, recorded, lambda run: tuple(float(w) / float(weights_of(run)[1]) for w in weights_of(run)))
    for share, means in shares.items():
        of = [run for run in runs if tuple(float(w) / float(weights_of(run)[1]) for w in weights_of(run)) == share]
        if len({weights_of(run) for run in of}) > 1:
            told = (f"{'/'.join(weights_of(run))}: {mean:.0f}" for run, mean in zip(of, means, strict=True))
            print("  " + ", ".join(told))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    runs = runs_of(folder)
    described, logs = open_machine(folder / "machine"), [read_trace(path) for _, _, path in runs]
    waits, nearer = simulate(described, runs, logs)
    order(described, runs, logs, nearer)
    compare(runs, np.array([recorded for recorded, _, _ in waits]))


if __name__ == "__main__":
    main()
