# SPDX-License-Identifier: Apache-2.0
"""Pictures of wait predictions: reliability, width of intervals, errors and identified quick starters, also by
partition and size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np

from ..evaluation.wait import Scored, crps_of, transforms
from ..metrics.measure import coverage_by_level
from ..metrics.wait import COMPARED, bin_of, error_by_range, identified_curve, reliability
from ..predict.hazard.bins import reached
from . import figures
from .blocks import Block, Figure, Section, Table, columns_of, measure_columns
from .figures import span

RANGES = ("≤ 1 h", "1–3 h", "3–6 h", "6–12 h", "12–24 h", "1–2 d", "> 2 d")
SPANS_S = {"10 min": 600.0, "1 h": 3600.0, "4 h": 14400.0, "1 day": 86400.0}
DRAWN = 300
LEAST, MOST_GROUPS = 20, 20


def wait_sections(
    table: Table, methods: Sequence[Scored], wait: np.ndarray, groups: Mapping[str, Sequence[str]], threshold: float
) -> list[Section]:
    """Return the page of `batchcast wait`: the table, the pictures, and the results by group, for jobs with a recorded
    wait.

    `wait` are the waits (n,) of the scored jobs in seconds, and `groups` has each job's group, by name of the grouping.
    """
    known = ~np.isnan(wait)
    wait = wait[known]
    methods = [method.take(known) for method in methods]
    groups = {name: list(compress(labels, known)) for name, labels in groups.items()}
    pictures: list[Block] = [f for f in (promised(methods, wait), chances_said(methods, wait), sharpness(methods)) if f]
    pictures += [errors(methods, wait), finders(methods, wait, threshold)]
    tables = [by_group(methods, wait, name, labels) for name, labels in groups.items()]
    return [
        Section("Scores", short_and_whole(table)),
        Section("Calibration and errors", pictures),
        Section("By group", [table for table in tables if table.rows]),
    ]


def short_and_whole(table: Table) -> list[Block]:
    """Return the main columns, one row per method, and the folded table with all columns."""
    columns = [column for column in table.columns if not column.more]
    if len(columns) == len(table.columns):
        return [table]
    first = list({row["predictor"]: row for row in reversed(table.rows)}.values())[::-1]
    whole = replace(table, caption=f"{table.caption}: all columns", note="", folded=True)
    return [replace(table, columns=columns, rows=first), whole]


def promised(methods: Sequence[Scored], wait: np.ndarray) -> Figure | None:
    """Return the reliability diagram of quantiles: the share of jobs that had started by each level."""
    series: dict[str, tuple[Any, Any]] = {}
    for method in methods:
        given = ~np.isnan(method.forecasts.quantiles)
        enough = given.sum(axis=0) >= LEAST
        levels = np.array(method.forecasts.levels)[enough]
        if len(levels):
            shares = coverage_by_level(wait, levels.tolist(), method.forecasts.quantiles[:, enough])
            series[method.predictor] = (levels, np.array(list(shares.values())))
    return _reliability(
        "Reliability of the quantiles", series, _slots(methods), x="level of the quantile",
        y="share of jobs started by this quantile",
        caption="On the diagonal, coverage equals the level. Below it, jobs started later than predicted. Jobs that "
        "start at once are within every quantile, so many of them raise the low levels above the diagonal.",
    )  # fmt: skip


def chances_said(methods: Sequence[Scored], wait: np.ndarray) -> Figure | None:
    """Return the reliability diagram of probabilities: the observed share of jobs that started within a time span
    against the predicted probability."""
    series: dict[str, tuple[Any, Any]] = {}
    for method in methods:
        if method.chances is None:
            continue
        for name, seconds in SPANS_S.items():
            said = reached(method.chances, np.full(len(wait), seconds))
            rows = [row for row in reliability(said, wait <= seconds) if row[2] >= LEAST]
            series[f"{method.predictor}, within {name}"] = ([row[0] for row in rows], [row[1] for row in rows])
    return _reliability(
        "Predicted probability of a start within a time, and what happened", series, {"ideal": 0},
        x="mean predicted probability", y="share of jobs that started",
        caption=f"Jobs in ten classes of predicted probability; classes with fewer than {LEAST} jobs are left out.",
    )  # fmt: skip


def _reliability(title: str, series: figures.Series, slots: Mapping[str, int], **words: Any) -> Figure | None:
    """Return a figure of shares with the ideal diagonal; None if there is no series."""
    drawn: figures.Series = {"ideal": ([0.0, 1.0], [0.0, 1.0]), **series}
    return figures.lines(title, drawn, kind="share", slots=slots, markers=True, **words) if series else None


def sharpness(methods: Sequence[Scored]) -> Figure | None:
    """Return a figure of the width of the 80 % prediction intervals: among calibrated methods, narrower is better."""
    widths = {}
    for method in methods:
        levels = list(method.forecasts.levels)
        if 0.1 in levels and 0.9 in levels:
            low, high = (method.forecasts.quantiles[:, levels.index(level)] for level in (0.1, 0.9))
            widths[method.predictor] = high - low
    if not widths:
        return None
    caption = "A narrow interval is better only if its coverage is right (first figure)."
    x = "from the 10 % to the 90 % quantile"
    return figures.cdf("Width of the 80 % intervals", widths, x=x, slots=_slots(methods), caption=caption)


def errors(methods: Sequence[Scored], wait: np.ndarray) -> Figure:
    """Return a figure of the mean absolute error of the point prediction, by range of the actual wait."""
    counts = np.bincount(bin_of(wait), minlength=len(RANGES)).tolist()
    ranges = [f"{name} ({count:,})" for name, count in zip(RANGES, counts)]
    by_range = {method.predictor: error_by_range(wait, method.forecasts.points) for method in methods}
    return figures.bars("Mean error by range of the actual wait", ranges, by_range, value="mean absolute error",
                        kind="seconds", slots=_slots(methods), caption="In brackets: the number of jobs.")  # fmt: skip


def finders(methods: Sequence[Scored], wait: np.ndarray, threshold: float) -> Figure:
    """Return quick starters identified against jobs misguided, marked from the likeliest quick starter on."""
    quick, series = wait <= threshold, {}
    for method in methods:
        late, found = identified_curve(method.quick_score(threshold), quick)
        picked = np.unique(np.linspace(0, len(late) - 1, DRAWN).round().astype(int))
        series[method.predictor] = (late[picked], found[picked])
    return figures.lines(
        f"Finding jobs that start within {span(threshold)}", series,
        x="slower jobs marked as quick, share of all jobs", y="quick jobs found, share of the quick jobs",
        kind="share", slots=_slots(methods), over_share=True,
        caption="Jobs are marked as quick in order of their predicted probability, else of their predicted wait. "
        "Further up and to the left is better.",
    )  # fmt: skip


def by_group(methods: Sequence[Scored], wait: np.ndarray, name: str, labels: Sequence[str]) -> Table:
    """Return each method's results in the 20 largest groups of at least 20 jobs."""
    names, which = np.unique(np.asarray(labels, dtype=str), return_inverse=True)
    sizes = np.bincount(which, minlength=len(names))
    largest = [k for k in np.argsort(-sizes, kind="stable").tolist() if sizes[k] >= LEAST][:MOST_GROUPS]
    rows = []
    for k in largest:
        inside = which == k
        for method in (each.take(inside) for each in methods):
            error = np.abs(method.forecasts.points - wait[inside])
            kept = float("nan")
            if method.chances is not None:
                at = transforms(method.chances, wait[inside])
                kept = float(((at > 0.1) & (at <= 0.9)).mean())
            rows.append({
                name: str(names[k]), "predictor": method.predictor, "jobs": int(inside.sum()),
                "median_wait_s": float(np.median(wait[inside])), "median_ae_s": float(np.median(error)),
                "mae_s": float(error.mean()), "crps_log": float(crps_of(wait[inside], method.forecasts).mean()),
                "interval_80": kept,
            })  # fmt: skip
    errors = ("mae_s|mean error|seconds", "median_ae_s|median error|seconds")
    columns = (
        *columns_of(name, "predictor", "jobs|jobs|count", "median_wait_s|median wait|seconds", *errors),
        *measure_columns(COMPARED[1:]),
        *columns_of("interval_80|80 % coverage|share|waits between the 10 % and 90 % quantiles"),
    )
    left_out = len(names) - len(largest)
    note = f"{left_out} smaller group{'s' if left_out != 1 else ''} left out." if left_out else ""
    return Table(f"By {name}", columns, rows, note)


def _slots(methods: Sequence[Scored]) -> dict[str, int]:
    return {**{method.predictor: place + 1 for place, method in enumerate(methods)}, "ideal": 0}
