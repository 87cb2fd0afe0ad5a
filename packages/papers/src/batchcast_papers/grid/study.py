# SPDX-License-Identifier: Apache-2.0
"""Grid experiments: settings x runs x heuristics on common random numbers, with measures and confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from statistics import NormalDist
from time import perf_counter
from typing import Any

import numpy as np

from batchcast.broker.clock import ASSIGNED, REASONS, MappingRule, Run, simulate
from batchcast.broker.model import Jobs, Model, Resources, Setting, Units, draw_jobs
from batchcast.predict.batched import Timed
from batchcast.predict.registry import make
from batchcast.processes import in_processes

MEASURES = ("unfinished", "mean_wait", "mean_makespan")
SHORT = {"unfinished": "UFJ", "mean_wait": "AWT", "mean_makespan": "AMJ"}
"""The measures as abbreviated by Hao et al. 2014."""


def measure(outcome: Run) -> dict[str, float]:
    """Return UFJ, AWT and AMJ of one run (Hao et al. 2014, section 4): unfinished jobs, mean wait, mean makespan.

    Mean wait and mean makespan (start and finish minus arrival, in the model's time unit) are averages over jobs that
    ran; measures with `_in_time` are averages over jobs that finished in time. The measures `reason: ...` count the
    jobs of every outcome.
    """
    figures: dict[str, float] = {"submitted": len(outcome.outcome)}
    figures |= {"assigned": outcome.assigned, "unfinished": outcome.unfinished}
    for of, jobs in (("", np.isfinite(outcome.finish)), ("_in_time", outcome.outcome == ASSIGNED)):
        for name, until in (("mean_wait", outcome.start), ("mean_makespan", outcome.finish)):
            figures[name + of] = float((until - outcome.jobs.arrival)[jobs].mean()) if jobs.any() else math.nan
    counts = np.bincount(outcome.outcome, minlength=len(REASONS))
    figures["mapping_events"] = outcome.events
    return figures | {f"reason: {REASONS[k]}": int(counts[k]) for k in range(1, len(REASONS))}


def over_runs(runs: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Return each measure's mean over runs, and as `..._ci95` the half width of its 95 % interval (Student's t).

    >>> over_runs([{"unfinished": 1.0}, {"unfinished": 3.0}])
    {'unfinished': 2.0, 'unfinished_ci95': 12.706}
    """
    means: dict[str, Any] = {}
    for name in runs[0]:
        values = np.array([run[name] for run in runs], dtype=np.float64)
        means[name] = float(values.mean())
        if name in MEASURES or name == "decision_ms_per_job":
            means[f"{name}_ci95"] = half_width(values)
    return means


def half_width(values: np.ndarray) -> float:
    """Return the half width of the mean's 95 % interval; NaN for fewer than two values."""
    if len(values) < 2:
        return float("nan")
    return float(t_975(len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))


def with_width(row: Mapping[str, Any], name: str, digits: int, share: bool = False) -> str:
    """Return a mean (or a `share`, in percent) as text, with the half width of its interval over the runs if there are
    enough runs.

    >>> with_width({"mean_wait": 1.234, "mean_wait_ci95": 0.05}, "mean_wait", 2)
    '1.23 ± 0.05'
    """
    scale, unit = (100, " %") if share else (1, "")
    wide = scale * row[f"{name}_ci95"]
    return f"{scale * row[name]:,.{digits}f}" + (f" ± {wide:.{digits}f}" if wide == wide else "") + unit


def with_widths(
    rows: Sequence[Mapping[str, Any]], digits: Mapping[str, int], share: bool = False
) -> list[dict[str, Any]]:
    """Return the rows, each with the text of `with_width` for every mean of `digits`, under the name "..._words"."""
    texts = ({f"{key}_words": with_width(row, key, many, share) for key, many in digits.items()} for row in rows)
    return [{**row, **words} for row, words in zip(rows, texts)]


def t_975(freedom: int) -> float:
    """Return Student's 97.5 % quantile, within 0.002 from 3 degrees of freedom on (Cornish and Fisher's expansion).

    >>> t_975(1), round(t_975(9), 3)
    (12.706, 2.262)
    """
    if freedom <= 4:
        return (12.706, 4.303, 3.182, 2.776)[freedom - 1]
    z = NormalDist().inv_cdf(0.975)
    terms = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return float(z + sum(term / freedom ** (k + 1) for k, term in enumerate(terms)))


def load_and_unfinished(outcome: Run) -> dict[str, np.ndarray]:
    """Return the share of busy resources, the number of waiting jobs and the number of unfinished jobs at 200 instants
    (`time`). The call takes O(n log n) time.
    """
    ran, arrival = np.isfinite(outcome.start), outcome.jobs.arrival
    over = np.where(ran, outcome.finish, outcome.instant)
    known = np.isfinite(arrival) & np.isfinite(over)
    if not known.any():
        return {name: np.empty(0) for name in ("time", "load", "waiting", "unfinished")}
    time = np.linspace(arrival[known].min(), over[known].max(), 200)

    def by(instants: np.ndarray) -> np.ndarray:
        return np.searchsorted(np.sort(instants), time, side="right")

    started, ended = by(outcome.start[ran]), by(outcome.finish[ran])
    left = by(np.where(ran, outcome.start, outcome.instant)[known])
    late = (outcome.outcome != 0) & np.isfinite(outcome.instant)
    return {
        "time": time,
        "load": (started - ended) / len(outcome.resources),
        "waiting": by(arrival[known]) - left,
        "unfinished": by(outcome.instant[late]),
    }


@dataclass(frozen=True, slots=True)
class Study:
    """The description of a study: settings, heuristics by spec, mapping rule, units, numbers of jobs and resources,
    runs and seed."""

    settings: Sequence[Setting]
    heuristics: Sequence[str]
    mapping: MappingRule = field(default_factory=MappingRule)
    units: Units = field(default_factory=Units)
    jobs: int = 10_000
    resources: int = 50
    runs: int = 10
    seed: int = 1


def one_run(
    jobs: Jobs, resources: Resources, spec: str, study: Study, data_share: float = 0.5
) -> tuple[Run, dict[str, float]]:
    """Run one heuristic on one set of jobs, by the mapping rule and the units of a study; return the outcome and its
    measures."""
    heuristic = Timed(make("heuristic", spec, data_share=data_share), perf_counter)
    outcome = simulate(jobs, resources, Model(jobs, resources, study.units), heuristic, study.mapping)
    decided = 1000.0 * heuristic.seconds / max(len(jobs), 1)
    return outcome, measure(outcome) | {"decision_ms_per_job": decided}


def run_study(
    study: Study, *, workers: int = 1, tick: Callable[[int], None] | None = None, keep_runs: bool = False
) -> list[dict[str, Any]]:
    """Return one row per setting and heuristic: means over runs with 95 % intervals.

    Run number k draws the same random numbers in all settings. With `keep_runs` a row also lists each measure by run,
    for example `unfinished_runs`. `workers` is the number of processes; `tick` is called with the number of finished
    runs.
    """
    cells = [(setting, run) for setting in study.settings for run in range(study.runs)]
    _cell(replace(study, jobs=50), *cells[0])  # compiles once, before the timing and before processes are forked
    ran = in_processes([partial(_cell, study, *cell) for cell in cells], workers, tick)
    runs_of = [(setting, ran[k * study.runs :][: study.runs]) for k, setting in enumerate(study.settings)]
    return [
        {**asdict(setting), "heuristic": spec, **over_runs([run[spec] for run in runs])}
        | {f"{key}_runs": [run[spec][key] for run in runs] for key in MEASURES if keep_runs}
        for setting, runs in runs_of
        for spec in runs[0]
    ]


def _cell(study: Study, setting: Setting, run: int) -> dict[str, dict[str, float]]:
    """Return the measures of each heuristic in one run of one setting."""
    return {spec: row for spec, _, row in drawn_run(study, setting, run)}


def drawn_run(study: Study, setting: Setting, run: int) -> Iterator[tuple[str, Run, dict[str, float]]]:
    """Draw the jobs of one run of one setting; yield each heuristic's spec, outcome and measures on these jobs."""
    rng = np.random.default_rng([study.seed, run])
    jobs, resources = draw_jobs(setting, rng, jobs=study.jobs, resources=study.resources)
    for spec in study.heuristics:
        yield spec, *one_run(jobs, resources, spec, study, setting.data_share)
