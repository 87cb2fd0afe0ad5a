# SPDX-License-Identifier: Apache-2.0
"""Compares Hao et al. 2014 with our results: figures 2 to 4, printed ratios, growth of the measures, and settings that
the paper does not state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .clock import REASONS
from .model import Setting
from .study import MEASURES, SHORT, Study, half_width

RATES = (20.0, 22.0, 24.0, 26.0, 28.0, 30.0)
SHARES = (0.3, 0.5, 0.7)
PAPER_HEURISTICS = ("min_min", "asjs", "emin_min", "ebest", "esufferage", "sufferage")
READINGS = ("ebest:reading=job", "esufferage:lone=last,urgent=0")
OURS = ("deadline_search",)
# printed ratios: (heuristic, reference heuristic, measure, printed ratio)
PRINTED = (
    ("emin_min", "min_min", "mean_makespan", 1 - 0.1551),
    ("emin_min", "min_min", "unfinished", 1 - 0.2218),
    ("ebest", "min_min", "mean_makespan", 1 - 0.0832),
    ("ebest", "min_min", "unfinished", 1 - 0.1874),
    ("esufferage", "min_min", "mean_makespan", 1 - 0.2420),
    ("esufferage", "min_min", "unfinished", 1 - 0.0533),
    ("emin_min", "asjs", "mean_wait", 0.9645),
    ("emin_min", "asjs", "mean_makespan", 0.9828),
    ("emin_min", "asjs", "unfinished", 1.0155),
)
REASONS_WHY = {
    "ebest": "it postpones jobs by design, as the paper's text says; the printed mean contradicts this. The other "
    "reading (urgent jobs first, each on the resource where it ends first) is closest to the paper",
    "esufferage": "with few waiting jobs on 50 resources the order hardly matters, so it acts like emin_min. The "
    "reading without the urgent rule, in which a job with one feasible resource has sufferage 0, is closest",
}


def paper_study(
    *,
    jobs: int = 10_000,
    runs: int = 10,
    seed: int = 1,
    extra: Sequence[str] = READINGS + OURS,
    rates: Sequence[float] = RATES,
) -> Study:
    """Return the published experiment: 6 arrival rates x 9 mixes of jobs, with the paper's heuristics, other readings
    of the paper, and our search."""
    cells = [Setting(r, p, q) for r in rates for p in SHARES for q in SHARES]
    return Study(cells, (*PAPER_HEURISTICS, *extra), jobs=jobs, runs=runs, seed=seed)


FLOOR = f"reason: {REASONS[3]}"


def floors(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return for each rate how many unfinished jobs no method could have finished: means over the nine mixes of jobs.

    `floor` counts jobs whose deadline is too tight even for an idle grid; `floor_share` is `floor` as a share of
    `emin_min`'s unfinished jobs. `against_min_min` is emin_min's number of unfinished jobs divided by min_min's number,
    minus one. `above_floor_against_min_min` is the same ratio without the jobs that `floor` counts.
    """
    rows = []
    for rate, ours, base, cells in _at_rates(results, "emin_min", "min_min"):
        floor, most = ours[FLOOR], ours["submitted"]
        row = {"rate": rate, "floor": floor, "floor_of_submitted": floor / most, "emin_min": ours["unfinished"]}
        row |= {"floor_share": floor / ours["unfinished"], "min_min": base["unfinished"]}
        row["against_min_min"] = ours["unfinished"] / base["unfinished"] - 1
        row["against_min_min_ci95"] = _width(cells, "emin_min", "min_min", "unfinished", of_sums=True)
        row["above_floor_against_min_min"] = (ours["unfinished"] - floor) / (base["unfinished"] - floor) - 1
        rows.append(row)
    return rows


def by_rate(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the data of figures 2 to 4: each heuristic's mean over the nine mixes, in a row per arrival rate.

    A column `..._ci95` has the mean half width of the mixes' 95 % intervals over the runs; the mixes share random
    numbers, so the interval of their mean is at most as wide.
    """
    return _means(results, "rate", (*MEASURES, "decision_ms_per_job", "submitted", FLOOR))


def by_share(results: Sequence[Mapping[str, Any]], share: str) -> list[dict[str, Any]]:
    """Return figures 2 to 4 by p (`data_share`) or q (`large_share`): each heuristic's means over the other settings.

    Columns `..._ci95` have the same meaning as in `by_rate`.
    """
    return _means(results, share, MEASURES)


def _means(results: Sequence[Mapping[str, Any]], axis: str, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Return each heuristic's means of the given measures, in a row per value of `axis` (the arrival rate or a
    share)."""
    columns = (*keys, *(f"{key}_ci95" for key in MEASURES))
    rows: list[dict[str, Any]] = []
    for value in sorted({row[axis] for row in results}):
        for name in _names(results):
            cells = [row for row in results if row[axis] == value and row["heuristic"] == name]
            means = {key: float(np.mean([row.get(key, np.nan) for row in cells])) for key in columns}
            rows.append({axis: value, "heuristic": name, **means})
    return rows


def relations(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return every ratio that the paper prints, our ratio (a mean over settings), and the difference in percentage
    points."""
    present = _names(results)
    rows = []
    for name, against, key, printed in PRINTED:
        for spec in (s for s in present if s.split(":")[0] == name):
            ratio, wide = ratio_of(results, spec, against, key), _width(_cells(results), spec, against, key)
            stands = "one run" if wide != wide else "outside" if abs(ratio - 1.0) > wide else "inside"
            rows.append(
                {
                    "heuristic": spec, "against": against, "measure": SHORT[key], "printed": printed, "ours": ratio,
                    "ours_ci95": wide, "stands": stands,
                    "gap_points": 100 * (ratio - printed), "same_sign": (ratio < 1) == (printed < 1),
                    "within_5_points": abs(ratio - printed) <= 0.05,
                }
            )  # fmt: skip
    return rows


def ratio_of(results: Sequence[Mapping[str, Any]], name: str, against: str, key: str) -> float:
    """Return the mean over settings of the ratio of two heuristics' measures."""
    return float(np.mean([cell[name][key] / cell[against][key] for cell in _cells(results)]))


Cells = list[dict[str, Mapping[str, Any]]]


def _cells(results: Sequence[Mapping[str, Any]]) -> Cells:
    """Return each setting's results by heuristic."""
    cells: dict[tuple[float, float, float], dict[str, Mapping[str, Any]]] = {}
    for row in results:
        cells.setdefault((row["rate"], row["data_share"], row["large_share"]), {})[row["heuristic"]] = row
    return [cells[setting] for setting in sorted(cells)]


def _width(cells: Cells, name: str, against: str, key: str, *, of_sums: bool = False) -> float:
    """Return the half width of the 95 % interval over the runs (paired) of the mean ratio of two heuristics' measures,
    or of the ratio of their sums over the settings; NaN for one run."""
    if any(f"{key}_runs" not in cell[spec] for cell in cells for spec in (name, against)):
        return float("nan")
    ours, base = (np.array([cell[spec][f"{key}_runs"] for cell in cells]) for spec in (name, against))
    return half_width(ours.sum(axis=0) / base.sum(axis=0) if of_sums else (ours / base).mean(axis=0))


def growth(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return whether each heuristic's unfinished jobs (UFJ), mean wait (AWT) and mean makespan (AMJ) grow at every step
    of the rate, of p and of q."""
    axes = ("rate", "data_share", "large_share")
    means = {axis: _means(results, axis, MEASURES) for axis in axes}

    def grows(name: str, key: str, axis: str) -> bool:
        return bool((np.diff([row[key] for row in means[axis] if row["heuristic"] == name]) > 0).all())

    return [
        {"heuristic": name, "measure": SHORT[key]} | {f"grows_with_{axis}": grows(name, key, axis) for axis in axes}
        for name in _names(results)
        for key in MEASURES
    ]


def against_emin_min(results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Compare `deadline_search` with `emin_min` at every arrival rate: unfinished jobs, makespan, and time of a
    decision."""
    rows = []
    for rate, ours, base, cells in _at_rates(results, OURS[0], "emin_min"):
        row = {"rate": rate, "heuristic": OURS[0]}
        for key in ("unfinished", "mean_makespan"):
            row[f"{key}_change"] = ours[key] / base[key] - 1
            row[f"{key}_change_ci95"] = _width(cells, OURS[0], "emin_min", key, of_sums=True)
        rows.append(row | {"decision_ms_per_job": ours["decision_ms_per_job"]})
    return rows


def _at_rates(results: Sequence[Mapping[str, Any]], name: str, against: str) -> Iterator[tuple[float, Any, Any, Cells]]:
    """Yield each arrival rate with the means of two heuristics, and with each setting's results by heuristic."""
    table = {(row["rate"], row["heuristic"]): row for row in by_rate(results)}
    for rate in sorted({row["rate"] for row in results if row["heuristic"] == name}):
        cells = _cells([row for row in results if row["rate"] == rate])
        yield rate, table[rate, name], table[rate, against], cells


def _names(results: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["heuristic"] for row in results))
