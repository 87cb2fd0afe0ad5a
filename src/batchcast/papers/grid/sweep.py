"""What Hao et al. 2014 leave open, tried out: units and the mapping event, then the one free number of `asjs`.

Sweeps run on seeds of their own (`SWEEP_SEEDS` after the reported one), so the reported runs decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ...grid.clock import Mapping as Shape
from ...grid.measures import SHORT
from ...grid.model import Units
from ...grid.study import Study, Watch, run_study
from ...grid.workload import Setting
from .study import PRINTED, RATES, by_rate, ratio_of

SWEEP_SEEDS = 100
UNITS = ((0.005, 0.0006), (0.006, 0.0006), (0.007, 0.0007), (0.005, 0.0012))
EVERY = (0.1, 0.25, 0.5, 1.0)
REMAPPING: tuple[tuple[bool, Literal["run", "drop"]], ...] = ((False, "run"), (False, "drop"), (True, "run"))
LOAD_UNITS = (0.5, 0.8, 1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.5, 2.0)
Each = Callable[..., Iterable[Any]]
CORNERS = tuple((p, q) for p in (0.3, 0.7) for q in (0.3, 0.7))


def unit_sweep(
    watch: Watch, *, jobs: int = 3000, runs: int = 1, seed: int = 1, each: Each = map
) -> list[dict[str, Any]]:
    """Units, T, remapping and late jobs: the printed relations to min_min under each, the closest set first.

    `distance` is the mean absolute gap, in points, of emin_min's AMJ and UFJ against min_min to the printed ones;
    `overload_at` the first rate from which min_min's unfinished jobs grow half as fast again as from 20 to 22.
    """
    rows = []
    cells = [Setting(r, p, q) for r in RATES for p, q in CORNERS]
    for compute, transfer in UNITS:
        for every in EVERY:
            for remap, late in REMAPPING:
                shape = Shape(every, remap, late)
                units, names = Units(compute, transfer), ("min_min", "emin_min", "ebest", "esufferage")
                study = Study(cells, names, shape, units, jobs, 50, runs, seed + SWEEP_SEEDS)
                results = run_study(study, watch=watch, each=each)
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


def asjs_sweep(
    watch: Watch, *, jobs: int = 10_000, runs: int = 10, seed: int = 1, each: Each = map
) -> list[dict[str, Any]]:
    """`asjs` by its load unit under the default units: emin_min's three printed relations to it, the best first.

    Best has the fewest relations on the wrong side of 1, then the least `distance`, the largest of the three absolute
    gaps in points; at three rates and the four corners of p and q. O(10 runs x 12 settings) simulations each.
    """
    specs = [f"asjs:load_unit={unit:g}" for unit in LOAD_UNITS]
    cells = [Setting(r, p, q) for r in RATES[::2] for p, q in CORNERS]
    results = run_study(
        Study(cells, ("emin_min", *specs), jobs=jobs, runs=runs, seed=seed + SWEEP_SEEDS), watch=watch, each=each
    )
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
