"""Grid experiments: settings x runs x heuristics on common random numbers, over processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..grid.clock import Mapping, Outcome, simulate
from ..grid.measures import measure, over_runs
from ..grid.model import Jobs, Model, Resources, Units
from ..grid.protocol import Batch, Heuristic, Plan
from ..grid.workload import Setting, draw
from ..predict.registry import make


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


class Timed:
    """A heuristic with a stopwatch around its decisions."""

    def __init__(self, heuristic: Heuristic) -> None:
        self.heuristic, self.deadlines, self.seconds = heuristic, heuristic.deadlines, 0.0

    def assign(self, batch: Batch) -> Plan:
        """The heuristic's plan; its time is added up."""
        began = time.perf_counter()
        plan = self.heuristic.assign(batch)
        self.seconds += time.perf_counter() - began
        return plan


def one_run(
    jobs: Jobs, resources: Resources, spec: str, study_mapping: Mapping, units: Units, data_share: float = 0.5
) -> tuple[Outcome, dict[str, float]]:
    """One heuristic on one set of jobs: the outcome and its measures, decision time included."""
    heuristic = Timed(make("heuristic", spec, data_share=data_share))
    outcome = simulate(jobs, resources, Model(jobs, resources, units), heuristic, study_mapping)
    decided = 1000.0 * heuristic.seconds / max(len(jobs), 1)
    return outcome, measure(outcome) | {"decision_ms_per_job": decided}


def run_study(
    study: Study, *, workers: int = 1, tick: Callable[[int], None] = lambda done: None
) -> list[dict[str, Any]]:
    """One row a setting and heuristic: means over runs with 95 % intervals. Run k draws the same numbers everywhere."""
    cells = [(study, setting, run) for setting in study.settings for run in range(study.runs)]
    gathered: dict[tuple[Setting, str], list[dict[str, float]]] = {}
    for done, (setting, rows) in enumerate(_each(cells, workers), start=1):
        for spec, row in rows.items():
            gathered.setdefault((setting, spec), []).append(row)
        tick(done)
    return [
        {"rate": s.rate, "data_share": s.data_share, "large_share": s.large_share, "heuristic": spec, **over_runs(runs)}
        for (s, spec), runs in gathered.items()
    ]


def _each(
    cells: list[tuple[Study, Setting, int]], workers: int
) -> Iterator[tuple[Setting, dict[str, dict[str, float]]]]:
    _cell((cells[0][0], cells[0][1], 0), 50)  # compile once, before the stopwatch and before the processes split
    if workers <= 1:
        yield from map(_cell, cells)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(_cell, cells, chunksize=2)


def _cell(cell: tuple[Study, Setting, int], first: int | None = None) -> tuple[Setting, dict[str, dict[str, float]]]:
    study, setting, run = cell
    rng = np.random.default_rng([study.seed, run])
    jobs, resources = draw(setting, rng, jobs=first or study.jobs, resources=study.resources)
    rows = {
        spec: one_run(jobs, resources, spec, study.mapping, study.units, setting.data_share)[1]
        for spec in study.heuristics
    }
    return setting, rows
