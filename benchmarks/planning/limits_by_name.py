"""Limits of named jobs, with and without jobs of the same name: core-hours requested, and jobs cut off.

    python benchmarks/planning/limits_by_name.py --floor 60 nextflow-chipseq.csv.gz CTC-SP2-1996-3.1-cln.swf.gz

In a log without job names, the executable is used as the name. Requested core-hours are limit times processors, plus
the user's own limit for a job that was cut off and would have ended by itself. Only jobs whose limit differs from the
limit without names are scored. Differences are per job, with 90 % intervals over users' submissions of one week.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from batchcast.evaluation.differences import burst_groups
from batchcast.evaluation.limits import find_limits
from batchcast.metrics.paired import paired_differences
from batchcast.trace.read import read_trace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--floor", type=float, default=300.0, help="the shortest limit and its steps, seconds")
    given = parser.parse_args()
    for path in given.logs:
        table(path, given.floor)


def table(path: Path, floor: float) -> None:
    """Print a line for limits by name, limits without names and the users' requests."""
    log = read_trace(path)
    if "job_name" not in log.names:
        log = log.with_columns({"job_name": log.nominal("app_id")})
    by_name, without = (find_limits(log, floor=floor, step=floor, by_name=one) for one in (True, False))
    limits = {"by name": by_name.limits["advice"], "without": without.limits["advice"], "own": without.limits["own"]}
    inside = without.scored & (limits["by name"] != limits["without"])
    run, own, procs = log.run_time[inside], limits["own"][inside], np.nan_to_num(log.procs()[inside], nan=1.0)
    group = np.unique(burst_groups(log)[inside], return_inverse=True)[1]
    asked, spent, cut = {}, {}, {}
    for name, limit in limits.items():
        short = (run > limit[inside]) & (run < own)
        cut[name] = 1000.0 * short
        asked[name] = procs * limit[inside] / 3600.0
        spent[name] = asked[name] + procs * np.where(short, own, 0.0) / 3600.0
    print(f"\n{path.name}: {inside.sum():,} of {without.scored.sum():,} jobs have another limit by name")
    print(
        f"{'':10}{'core-hours':>12}{'with second':>13}{'cut of 1,000':>14}   by name less it: core-hours, cut of 1,000"
    )
    for name in limits:
        line = f"{name:10}{asked[name].sum():12,.0f}{spent[name].sum():13,.0f}{cut[name].mean():14.1f}   "
        for values in (spent, cut) if name != "by name" else ():
            one = paired_differences(values["by name"][None], values[name], group, np.random.default_rng(0))[0]
            line += f"{one.verdict()} {one.difference:+.3g} ({one.low:+.3g} to {one.high:+.3g})   "
        print(line)


if __name__ == "__main__":
    main()
