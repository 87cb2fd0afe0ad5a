# SPDX-License-Identifier: Apache-2.0
"""Tables 1 to 8 and the figures of Kumar & Vadhiyar 2012, with our results beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...report import figures
from ...report.blocks import Block, Callout, Figure, Section, Table
from ..shared import columns_of, gain_table

RANGES = ("≤ 1 h", "1–3 h", "3–6 h", "6–12 h", "12–24 h", "1–2 d", "> 2 d")
ROUNDED = ("15 min", "30 min", "1 h", "3 h", "6 h", "12 h", "24 h")
Row = Mapping[str, Any]
SLOTS = {"qbets": 1, "ibl": 2, "pqstar": 3, "ibl text": 4}


def pqstar_tables(rows: Sequence[Row], thresholds: Sequence[Row]) -> list[Table]:
    """Return the paper's tables with our results; a dash means that the paper does not print the value."""
    pq = [row for row in rows if row["predictor"].startswith("pqstar")]
    tables = [
        _table("Table 1 · quick starters of the whole log (wait at most 1 h; including jobs cancelled in the queue)",
               [row for row in pq if row["reading"] == "text"], "log; quick_share_log|quick starters|share; "
               "quick_share_log_recomputed|recomputed in the notes|share; quick_share_log_printed|printed|share; "
               "quick_long_share|of them ran > 1 h|share; quick_long_share_printed|printed|share"),
        _table("Table 2 · share of the quick starters that the near history finds", pq, "log; predictor; "
               "near_share|near|share; near_share_measured|measured in the notes|share; "
               "near_share_printed|printed|share; near_jobs|near jobs|number; near_jobs_printed|printed|number"),
        _table("Table 3 · quick starters identified", rows, "log; predictor; identified|identified|share; "
               "identified_measured|measured in the notes|share; identified_printed|printed|share; "
               "bounded|with fallback answers|share"),
        _table("Table 4 · misguided (marked quick, but waited longer), of all jobs", rows, "log; predictor; "
               "misguided|misguided|share; misguided_measured|measured in the notes|share; "
               "misguided_printed|printed|share; misguided_under_4h|of them < 4 h|share; "
               "misguided_under_4h_printed|printed|share"),
        _table("Table 5 · how much smaller PQStar's RMS error is", pq, "log; predictor; " + "".join(
                   f"rms_decrease_from_{other}|than {other}|share; rms_decrease_from_{other}_printed|printed|share; "
                   for other in ("log_uniform", "qbets", "ibl")) +
               "rms_decrease_from_ibl_text|than ibl:reading=text|share; "
               "normalised_rms_decrease_from_ibl|normalised, than ibl|share; "
               "normalised_rms_decrease_from_ibl_text|than ibl:reading=text|share; "
               "normalised_rms_decrease_from_ibl_printed|printed|share"),
        _table("Table 6 · ranges, and the interval their waits are rounded up to",
               [{"range": a, "interval": b} for a, b in zip(RANGES, ROUNDED)], "range|wait; interval"),
        _table("Table 7 · |predicted wait - wait| / (wait + run), and good forecasts", rows, "log; predictor; "
               "mean_ppert|mean PPErt|number; mean_ppert_printed|printed|number; good|good|share; "
               "good_printed|printed|share"),
    ]  # fmt: skip
    if thresholds:
        columns = "predictor; quick_s|threshold|seconds; quick_share|quick starters|share; identified|identified|share"
        columns += "; identified_printed|printed|share; misguided|misguided|share"
        tables.append(_table(f"Table 8 · thresholds, {thresholds[0]['log']}", thresholds, columns))
    return tables


def discussion(rows: Sequence[Row]) -> list[Block]:
    """Describe which results of the paper are reproduced, which are not, and why."""
    strong, plain = ([r for r in rows if r["predictor"] == name] for name in ("ibl", "ibl:reading=text"))
    known = [r for r in plain if r["identified_printed"] == r["identified_printed"]]
    printed = "".join(f", {r['log']} printed {100 * r['identified_printed']:.0f} %" for r in known)
    return [
        "Jobs 10,001 to 50,000 (or to the log's end) are predicted; all earlier jobs are history. pqstar uses the "
        "paper's order of events (starts up to an instant come before the submissions of that instant), other methods "
        "the honest order.",
        Callout(
            "reading=text follows the papers' text and is the default. reading=tables was fitted: for pqstar to the "
            "printed tables; for qbets and log_uniform to the printed Table 3, on the jobs that are scored here.",
            "note",
        ),
        *(Callout(words, "note") for words in bounds_said(rows)),
        Callout(
            f"This ibl identifies {_identified(strong)} of the quick starters (logs in the order of the tables); the "
            "paper prints 43 to 63 %. It also uses the user's queued and running jobs, and its weights are searched on "
            "each log's first 10,000 jobs. PQStar's gain over it in Tables 3, 5 and 7 is therefore small or negative.",
            "note",
        ),
        Callout(
            "ibl:reading=text is the method as the papers describe it (numbers divided by their range, no search of "
            "weights, the weighted mean of 50 neighbours, no history of the user). It identifies "
            f"{_identified(plain)} (the same logs){printed}.",
            "note",
        ),
        "No reading that we tried gives the printed mean PPErt and the printed number of jobs in the near history (see "
        "docs/papers/quick-starters.md). The decreases of the RMS error from log_uniform and qbets depend on how "
        "far the bounds of these methods overshoot, which the papers do not state.",
    ]


def _identified(rows: Sequence[Row]) -> str:
    """Return the shares of identified quick starters of several logs, in words."""
    return ", ".join(f"{100 * r['identified']:.0f} %" for r in rows)


def bounds_said(rows: Sequence[Row]) -> list[str]:
    """Describe, for each reading (interpretation) of the bound methods, the distance to the printed Table 3 by log, in
    percentage points.

    >>> bounds_said([{"predictor": "qbets", "log": "CTC", "identified": 0.15, "identified_printed": 0.05}])
    ['qbets against the printed Table 3: CTC +10.0 points. Further than 8 points on CTC.']
    """
    sentences = []
    for name in dict.fromkeys(r["predictor"] for r in rows if r["predictor"].startswith(("qbets", "log_uniform"))):
        apart = {
            r["log"]: 100 * (r["identified"] - r["identified_printed"])
            for r in rows
            if r["predictor"] == name and r["identified_printed"] == r["identified_printed"]
        }
        if apart:
            far = [log for log, points in apart.items() if abs(points) > 8.0]
            words = ", ".join(f"{log} {points:+.1f}" for log, points in apart.items())
            verdict = f"Further than 8 points on {', '.join(far)}." if far else "Within 8 points on all of them."
            sentences.append(f"{name} against the printed Table 3: {words} points. {verdict}")
    return sentences


def pqstar_figures(studies: Sequence[Any]) -> list[Figure]:
    """Draw waits against job size and limit (first log), and for each log the errors by range of waits, the predicted
    ranges and the quick starters."""
    from ...metrics.wait import error_by_range
    from .study import predicted_ranges

    drawn = [_against(studies[0], "a", "processors", "procs"), _against(studies[0], "b", "limit", "req_time")]
    for study in studies:
        wait = study.wait[:5000]
        errors = {m: error_by_range(wait, study.value(m)[:5000]) for m in ("qbets", "ibl", "ibl text", "pqstar")}
        title = f"Figure 3(a) · {study.name}: mean error by range of the actual wait (5,000 jobs)"
        drawn.append(figures.bars(title, RANGES, errors, value="mean absolute error", kind="seconds", slots=SLOTS))
        quick = np.flatnonzero(study.wait <= 3600.0)[:2000]
        actual = floor(study.wait[quick])
        waits = {m: (actual, floor(study.value(m)[quick])) for m in ("ibl", "ibl text", "pqstar")}
        title = f"Figure 3(b, c) · {study.name}: actual and predicted wait of quick starters"
        alt = f"{study.name}: predicted against actual wait of {len(quick)} quick starters, ibl and pqstar."
        drawing = figures.scatter(title, waits, x="actual wait, s", y="predicted wait, s", alt=alt, slots=SLOTS)
        drawn.append(_log_axes(drawing))
        for method in errors:
            title = f"Figure 4 · {study.name}, {method}: predicted range by range of the actual wait"
            drawn.append(_stacked(title, predicted_ranges(study, method)))
    return drawn


def noise_table(rows: Sequence[Row]) -> Table:
    """Return the table of PQStar's gains with their 90 % intervals on each log."""
    return gain_table(rows, [("log", "log")], "Are PQStar's gains larger than the noise of their log?")


def pqstar_sections(
    rows: Sequence[Row], thresholds: Sequence[Row], studies: Sequence[Any], noise: Sequence[Row]
) -> list[Section]:
    """Return the sections of the page: which results are reproduced, the tables, the figures."""
    return [
        Section("What is reproduced", discussion(rows)),
        Section("Tables", [*pqstar_tables(rows, thresholds), noise_table(noise)]),
        Section("Pictures", pqstar_figures(studies)),
    ]


def floor(values: np.ndarray) -> np.ndarray:
    """Return values for logarithmic axes, raised to at least one second."""
    return np.asarray(np.maximum(values, 1.0))


def _against(study: Any, part: str, words: str, column: str) -> Figure:
    values = study.trace.procs() if column == "procs" else study.trace.number(column)
    rows = np.flatnonzero(study.rows)[:1000]
    title = f"Figure 1({part}) · {study.name}: wait against {words} (1,000 jobs)"
    alt = f"Wait of 1,000 jobs of {study.name} against {words}: at most values, waits cover all magnitudes."
    x, points = words + (", s" if column != "procs" else ""), (values[rows], floor(study.wait[:1000]))
    return _log_axes(figures.scatter(title, {"jobs": points}, x=x, y="wait, s", alt=alt))


def _log_axes(figure: Figure) -> Figure:
    axes = {axis: {**figure.layout[axis], "type": "log"} for axis in ("xaxis", "yaxis")}
    return replace(figure, layout={**figure.layout, **axes})


def _stacked(title: str, shares: np.ndarray) -> Figure:
    series = {f"predicted {name}": shares[:, k].tolist() for k, name in enumerate(RANGES)}
    figure = figures.bars(title, RANGES, series, value="share of the jobs", kind="share")
    data = [{**d, "text": None} for d in figure.data]
    xaxis = {**figure.layout["xaxis"], "range": [0, 1]}
    layout = {**figure.layout, "barmode": "stack", "xaxis": xaxis, "legend": {"traceorder": "normal"}}
    return replace(figure, data=data, layout=layout, height=380)


def _table(caption: str, rows: Sequence[Row], columns: str) -> Table:
    """Return a table; `columns` has columns as for `columns_of`, separated by semicolons."""
    return Table(caption, columns_of(*columns.split("; ")), rows)
