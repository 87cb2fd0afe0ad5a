"""The sweeps that chose the parameters which Hao et al. 2014 do not print: units, T, late jobs, the load unit of asjs.

    python benchmarks/policy/grid_units.py

Ten minutes of CPU, on seeds that `batchcast reproduce grid` does not report. `--jobs` and `--runs` make it shorter.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from batchcast.broker.clock import MappingRule as Shape
from batchcast.broker.model import Setting, Units
from batchcast.cli.output import console
from batchcast.report.blocks import Table, TableColumn, TableRows, columns_of
from batchcast.report.terminal import show
from batchcast_papers.grid.paper_study import PRINTED, RATES, by_rate, ratio_of
from batchcast_papers.grid.study import SHORT, Study, run_study

SWEEP_SEEDS = 100
UNITS = ((0.005, 0.0006), (0.006, 0.0006), (0.007, 0.0007), (0.005, 0.0012))
EVERY = (0.1, 0.25, 0.5, 1.0)
REMAPPING: tuple[tuple[bool, Literal["run", "drop"]], ...] = ((False, "run"), (False, "drop"), (True, "run"))
LOAD_UNITS = (0.5, 0.8, 1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.5, 2.0)
CORNERS = tuple((p, q) for p in (0.3, 0.7) for q in (0.3, 0.7))


def unit_sweep(*, jobs: int = 3000, seed: int = 1, workers: int = 1) -> list[dict[str, Any]]:
    """Return the printed relations to min_min under other units, T, remapping and late jobs, the closest first.

    `distance` is the mean absolute gap, in points, of emin_min's AMJ and UFJ against min_min to the printed values;
    `overload_at` is the first rate from which min_min's unfinished jobs grow 1.5 times as fast as from 20 to 22.
    """
    rows = []
    cells = [Setting(r, p, q) for r in RATES for p, q in CORNERS]
    for compute, transfer in UNITS:
        for every in EVERY:
            for remap, late in REMAPPING:
                shape = Shape(every, remap, late)
                units, names = Units(compute, transfer), ("min_min", "emin_min", "ebest", "esufferage")
                study = Study(cells, names, shape, units, jobs, 50, 1, seed + SWEEP_SEEDS)
                results = run_study(study, workers=workers)
                row: dict[str, Any] = {
                    "compute_unit": compute, "transfer_unit": transfer, "every": every, "remap": remap, "late": late,
                }  # fmt: skip
                for name in names[1:]:
                    for key in ("mean_makespan", "unfinished"):
                        row[f"{name}_{SHORT[key].lower()}"] = ratio_of(results, name, "min_min", key) - 1
                gaps = row["emin_min_amj"] + 0.1551, row["emin_min_ufj"] + 0.2218
                row["distance"] = 50 * (abs(gaps[0]) + abs(gaps[1]))
                row["overload_at"] = _overload(results)
                rows.append(row)
    return sorted(rows, key=lambda row: float(row["distance"]))


def asjs_sweep(*, jobs: int = 10_000, runs: int = 10, seed: int = 1, workers: int = 1) -> list[dict[str, Any]]:
    """Return emin_min's three printed relations to `asjs` by its load unit, under the default units, the best first.

    The best has the fewest relations on the wrong side of 1, then the least `distance`, the largest absolute gap in
    points; at three rates and the four corners of p and q. O(`runs` x 12 settings) simulations each.
    """
    specs = [f"asjs:load_unit={unit:g}" for unit in LOAD_UNITS]
    cells = [Setting(r, p, q) for r in RATES[::2] for p, q in CORNERS]
    study = Study(cells, ("emin_min", *specs), jobs=jobs, runs=runs, seed=seed + SWEEP_SEEDS)
    results = run_study(study, workers=workers)
    rows = []
    for spec in specs:
        row: dict[str, Any] = {"heuristic": spec}
        gaps, wrong = [], 0
        for name, against, key, printed in PRINTED:
            if against == "asjs":
                ratio = row[SHORT[key].lower()] = ratio_of(results, name, spec, key)
                gaps.append(100 * abs(ratio - printed))
                wrong += (ratio < 1) != (printed < 1)
        rows.append(row | {"wrong_signs": wrong, "distance": max(gaps)})
    return sorted(rows, key=lambda row: (row["wrong_signs"], row["distance"]))


def _overload(results: Sequence[Mapping[str, Any]]) -> float:
    ufj = [row["unfinished"] for row in by_rate(results) if row["heuristic"] == "min_min"]
    steps = np.diff(ufj)
    later = [rate for rate, step in zip(RATES[1:-1], steps[1:]) if step > 1.5 * max(steps[0], 1e-9)]
    return later[0] if later else float("nan")


def sweep_tables(units: TableRows, asjs: TableRows) -> list[Table]:
    """Return the tables of both sweeps, the closest setting first."""
    columns = [TableColumn(k, k.replace("_", " ")) for k in ("compute_unit", "transfer_unit", "every", "remap", "late")]
    columns += [TableColumn(k, k.replace("_", " "), "share") for k in units[0] if k.endswith(("_amj", "_ufj"))]
    columns += columns_of("overload_at|overload at|number", "distance|distance, points|number")
    own = columns_of("heuristic|asjs")
    own += [TableColumn(k.lower(), f"emin_min / asjs, {k}", "ratio") for k in ("AWT", "AMJ", "UFJ")]
    own += columns_of("wrong_signs|wrong signs|count", "distance|largest gap, points|number")
    return [
        Table("Units, T, remapping and late jobs: printed relations to min_min under each", columns, units),
        Table("asjs by its load unit; printed: AWT .9645, AMJ .9828, UFJ 1.0155", own, asjs),
    ]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, help="jobs of a simulation (default: 3,000 for units, 10,000 for asjs)")
    parser.add_argument("--runs", type=int, default=10, help="simulations of each setting of asjs (default: 10)")
    parser.add_argument("--seed", type=int, default=2)
    options = parser.parse_args()
    common = {"seed": options.seed, "workers": os.cpu_count() or 1}
    units = unit_sweep(jobs=options.jobs or 3000, **common)
    asjs = asjs_sweep(jobs=options.jobs or 10_000, runs=options.runs, **common)
    show(console(), sweep_tables(units, asjs))


if __name__ == "__main__":
    main()
