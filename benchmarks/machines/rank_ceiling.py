# SPDX-License-Identifier: Apache-2.0
"""What a rank correlation of waits means: how like itself a simulation is when next to nothing of its input changes.

python -m benchmarks.machines.rank_ceiling LOG MACHINE      (MACHINE: the file of `batchcast machine learn LOG`)
python -m benchmarks.machines.rank_ceiling --made

The same jobs are simulated twice on the same machine; the second time each is eligible up to a minute later, or one
run time in ten is up to half longer or shorter, or one node in fifty is missing. Waits of the last 40 % of the jobs are
compared as the validity line compares them. Where the site's own scheduler knew such small things and the log does not,
no simulation of the log can agree better with the record. `--made` asks it of the log of `batchcast demo`, whose waits
are those of Slurm's loops on a machine that is known, and says as well what the learned machine makes of that log.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.cluster import cluster_machine, cluster_path

from batchcast.evaluation.validity import MINUTE
from batchcast.machines.machine import Machine
from batchcast.metrics.curves import cdf_distance, rank_correlation
from batchcast.simulation.learned.caps import find_held, with_releases
from batchcast.simulation.learned.learn import SHARE, split
from batchcast.simulation.on_nodes import simulate_on
from batchcast.table import Trace
from batchcast.trace.machine_files import open_machine
from batchcast.trace.read import read_trace

LATER_S, TENTH, HALF, MISSING = 60.0, 0.1, 0.5, 0.02
SEED = 38


def from_eligible(trace: Trace, waits: np.ndarray) -> np.ndarray:
    """Seconds (n,) from when a job was eligible to its start, less than a minute as none."""
    left = waits - np.fmax(trace.number("eligible_time") - trace.submit_time, 0.0)
    return np.where(left < MINUTE, 0.0, left)


def simulated_waits(trace: Trace, machine: Machine) -> np.ndarray:
    """Those of the simulation on a machine; NaN: not simulated."""
    schedule = simulate_on(machine, trace)
    found = np.full(len(trace), np.nan)
    found[schedule.rows] = schedule.wait_time
    return from_eligible(trace, found)


def line(name: str, one: np.ndarray, two: np.ndarray) -> None:
    """How like each other the waits of the last 40 % of the jobs are."""
    known = ~np.isnan(one) & ~np.isnan(two) & (np.arange(len(one)) >= int(len(one) * SHARE))
    one, two = one[known], two[known]
    figures = two.mean() / one.mean(), cdf_distance(one, two), rank_correlation(one, two)
    print(f"{name:<58}{figures[0]:8.2f}{figures[1]:10.3f}{figures[2]:8.2f}", flush=True)


def changed(trace: Trace, machine: Machine) -> Iterator[tuple[str, Trace, Machine]]:
    """The same question with next to nothing changed."""
    rng = np.random.default_rng(SEED)
    later = np.round(rng.uniform(0.0, LATER_S, len(trace)))
    eligible = np.fmax(trace.submit_time, trace.number("eligible_time")) + later
    yield "each job eligible up to a minute later", trace.with_columns({"eligible_time": eligible}), machine
    other = np.where(rng.random(len(trace)) < TENTH, rng.uniform(1.0 - HALF, 1.0 + HALF, len(trace)), 1.0)
    run = np.maximum(np.round(trace.run_time * other), np.minimum(trace.run_time, 1.0))
    yield "a tenth of the run times up to half longer or shorter", trace.with_columns({"run_time": run}), machine
    gone = {name for part in machine.partitions for name in part.nodes[: max(round(MISSING * len(part.nodes)), 1)]}
    groups = (replace(g, names=tuple(name for name in g.names if name not in gone)) for g in machine.nodes)
    parts = (replace(p, nodes=tuple(name for name in p.nodes if name not in gone)) for p in machine.partitions)
    kept = (replace(r, nodes=tuple(name for name in r.nodes if name not in gone)) for r in machine.reservations)
    smaller = replace(
        machine, nodes=tuple(g for g in groups if g.names), partitions=tuple(parts), reservations=tuple(kept)
    )
    yield "one node in fifty missing", trace, smaller


def compare(trace: Trace, machine: Machine) -> None:
    """The record, then the simulation changed by next to nothing, against the simulation."""
    simulated = simulated_waits(trace, machine)
    line("simulated, against the record", from_eligible(trace, trace.wait_time), simulated)
    for name, log, other in changed(trace, machine):
        line(f"against itself: {name}", simulated, simulated_waits(log, other))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", nargs="?", type=Path)
    parser.add_argument("machine", nargs="?", type=Path)
    parser.add_argument("--made", action="store_true")
    given = parser.parse_args()
    if given.made == (given.machine is not None):
        parser.error("LOG and MACHINE, or --made")
    print(f"{'':<58}{'mean':>8}{'distance':>10}{'rank':>8}")
    if given.made:
        log = read_trace(str(cluster_path()))
        compare(log, cluster_machine())
        learned, log, _ = split(log)
        line("learned, against the record", from_eligible(log, log.wait_time), simulated_waits(log, learned.machine))
        return
    log = read_trace(str(given.log))
    compare(with_releases(log, find_held(log)), open_machine(given.machine))


if __name__ == "__main__":
    main()
