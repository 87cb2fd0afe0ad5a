"""Grid experiments: settings x runs x heuristics on common random numbers; the caller brings the watch and the pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..predict.registry import make
from ..predict.timed import Timed
from .clock import Mapping, Outcome, simulate
from .measures import MEASURES, measure, over_runs
from .model import Jobs, Model, Resources, Units
from .workload import Setting, draw

Watch = Callable[[], float]
Cell = tuple["Study", Setting, int]
Rows = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Study:
    """What is run: settings, heuristics by spec, mapping shape, units, sizes, runs and seed."""

    settings: Sequence[Setting]
    heuristics: Sequence[str]
    mapping: Mapping = field(default_factory=Mapping)
    units: Units = field(default_factory=Units)
    jobs: int = 10_000
    resources: int = 50
    runs: int = 10
    seed: int = 1


def one_run(
    jobs: Jobs,
    resources: Resources,
    spec: str,
    study_mapping: Mapping,
    units: Units,
    data_share: float = 0.5,
    *,
    watch: Watch,
) -> tuple[Outcome, dict[str, float]]:
    """One heuristic on one set of jobs: the outcome and its measures, decision time by `watch` (seconds) included."""
    heuristic = Timed(make("heuristic", spec, data_share=data_share), watch)
    outcome = simulate(jobs, resources, Model(jobs, resources, units), heuristic, study_mapping)
    decided = 1000.0 * heuristic.seconds / max(len(jobs), 1)
    return outcome, measure(outcome) | {"decision_ms_per_job": decided}


def run_study(
    study: Study,
    *,
    watch: Watch,
    each: Callable[..., Iterable[tuple[Setting, Rows]]] = map,
    tick: Callable[[int], None] = lambda done: None,
    keep_runs: bool = False,
) -> list[dict[str, Any]]:
    """One row a setting and heuristic: means over runs with 95 % intervals. Run k draws the same numbers everywhere.

    With `keep_runs` a row also has each measure run by run, in lists under `unfinished_runs` and the like.

    `watch` reads a clock in seconds; `each` runs the cells in order, as `map` does (a pool's own `map`: in processes).
    """
    cells = [(study, setting, run) for setting in study.settings for run in range(study.runs)]
    _cell(watch, 50, cells[0])  # compile once, before the stopwatch and before a pool's processes split
    gathered: dict[tuple[Setting, str], list[dict[str, float]]] = {}
    for done, (setting, rows) in enumerate(each(partial(_cell, watch, None), cells), start=1):
        for spec, row in rows.items():
            gathered.setdefault((setting, spec), []).append(row)
        tick(done)
    means: list[dict[str, Any]] = []
    for (s, spec), runs in gathered.items():
        names = {"rate": s.rate, "data_share": s.data_share, "large_share": s.large_share, "heuristic": spec}
        kept = {f"{key}_runs": [run[key] for run in runs] for key in MEASURES} if keep_runs else {}
        means.append({**names, **over_runs(runs), **kept})
    return means


def _cell(watch: Watch, first: int | None, cell: Cell) -> tuple[Setting, Rows]:
    study, setting, run = cell
    rng = np.random.default_rng([study.seed, run])
    jobs, resources = draw(setting, rng, jobs=first or study.jobs, resources=study.resources)
    rows = {
        spec: one_run(jobs, resources, spec, study.mapping, study.units, setting.data_share, watch=watch)[1]
        for spec in study.heuristics
    }
    return setting, rows
