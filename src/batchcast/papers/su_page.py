# SPDX-License-Identifier: Apache-2.0
"""The page and tables of `batchcast reproduce su`, and what they say in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..report.blocks import Figure, Section, Table, TableColumn
from ..report.figures import bars, lines
from .shared import gain_table


def findings(rows: dict[str, list[dict[str, Any]]]) -> list[str]:
    """What the tables say, in sentences."""
    sentences = []
    for log, kept in dict.fromkeys((row["log"], row["jobs_of"]) for row in rows["5"]):
        mine = {row["predictor"]: row for row in rows["5"] if (row["log"], row["jobs_of"]) == (log, kept)}
        su, plain = (
            sum(mine[f"{kind} {model}"]["mae_s"] for model in ("linear", "forest", "svr")) / 3
            for kind in ("SU", "plain")
        )
        best = min((name for name in mine if name.startswith("SU")), key=lambda name: mine[name]["mae_s"])
        sentences.append(
            f"{log}, {kept} jobs: mean error with clusters and neighbours {su:,.0f} s, without {plain:,.0f} s "
            f"({1 - su / plain:+.0%}; printed +74%); smallest of the three: {best} (printed: SU svr)."
        )
        sentences += [
            _beside(row, mine)
            for row in rows["noise"]
            if (row["log"], row["jobs_of"], row["method"], row["measure"]) == (log, kept, "SU svr", "MAE")
            and row["against"] in ("recent_mean", "last_2")
            and row["gain"] < 0
        ]
    return sentences


def _beside(row: Mapping[str, Any], mine: Mapping[str, Mapping[str, Any]]) -> str:
    """Plain history that has a smaller mean error than SU, and whether that stands outside the noise of the log."""
    words = {"inside": "this log cannot tell the two apart", "too few groups": "too few groups to tell"}
    ours, theirs = mine["SU svr"]["mae_s"], mine[row["against"]]["mae_s"]
    return (
        f"{row['log']}, {row['jobs_of']} jobs: {row['against']}, plain history, has a mean error of {theirs:,.0f} s, "
        f"SU svr {ours:,.0f} s ({1 - theirs / ours:.0%} less); "
        f"{words.get(row['ours'], 'outside the noise of this log')}."
    )


Rows = Sequence[Mapping[str, Any]]


def table_5(rows: Rows, every: int) -> Table:
    """Errors beside the printed ones."""
    columns = [
        TableColumn("log", "log"), TableColumn("jobs_of", "jobs of"), TableColumn("predictor", "predictor"),
        TableColumn("jobs", "jobs", "count"), TableColumn("mae_s", "MAE, s", "number"),
        TableColumn("printed_mae_s", "printed", "number"), TableColumn("apa", "APA", "ratio"),
        TableColumn("printed_apa", "printed", "ratio"), TableColumn("underestimate_rate", "UR", "ratio"),
        TableColumn("printed_ur", "printed", "ratio"), TableColumn("coverage_90", "90 % bound held", "share"),
        TableColumn("seconds", "took, s", "number"),
    ]  # fmt: skip
    scored = "Every job is scored." if every == 1 else f"Every {every}th job is scored, the same for all methods."
    note = f"{scored} The printed figures are of a log that is not public: order and relative gains compare."
    return Table("Table 5: errors, honest protocol", columns, rows, note)


def table_6(rows: Rows) -> Table:
    """Waits beside the printed ones."""
    columns = [
        TableColumn("log", "log"), TableColumn("predictor", "planned with"), TableColumn("jobs", "jobs", "count"),
        TableColumn("mean_wait_s", "mean wait, s", "number"), TableColumn("printed_mean_wait", "printed", "number"),
        TableColumn("mean_bounded_slowdown", "bsld", "number"), TableColumn("corrections", "corrections", "count"),
    ]  # fmt: skip
    note = "EASY, first come first served, open loop (honest); a job that outlives its plan gets its request as plan."
    return Table("Table 6: mean waits by simulation", columns, rows, note)


def noise_table(rows: Rows) -> Table:
    """SU's gains with the interval of each log."""
    return gain_table(rows, [("log", "log"), ("jobs_of", "jobs of")], "Do SU's gains stand outside these logs' noise?")


def class_table(rows: Rows) -> Table:
    """Measures by class."""
    columns = [
        TableColumn("log", "log"), TableColumn("class", "class"), TableColumn("predictor", "predictor"),
        TableColumn("jobs", "jobs", "count"), TableColumn("mae_s", "MAE, s", "number"),
        TableColumn("apa", "APA", "ratio"), TableColumn("underestimate_rate", "UR", "ratio"),
    ]  # fmt: skip
    note = (
        "Classes: the clusters of job names, user by user; A has most scored jobs of all. Sizes: processors asked for."
    )
    return Table("Measures by class of jobs", columns, rows, note)


def clustering_pictures(log: str, user: str, tried: Sequence[int], sse: Rows | Any, score: Any, k: int) -> list[Figure]:
    """The paper's Figures 4 and 5: SSE and Calinski-Harabasz score against k for one user's names."""
    caption = f"user {user}; chosen: k = {k}, the largest score up to the elbow of SSE"
    return [
        lines(f"Figure 4, {log}: SSE against k", {"SSE": (tried, sse)}, x="k", y="SSE", caption=caption, markers=True),
        lines(f"Figure 5, {log}: Calinski-Harabasz score against k", {"score": (tried, score)}, x="k", y="score",
              caption=caption, markers=True),
    ]  # fmt: skip


def error_picture(log: str, errors: Mapping[str, np.ndarray]) -> Figure:
    """The paper's Figure 9: the distribution of prediction less run time, around 0; the middle nine tenths."""
    shares = np.linspace(0.05, 0.95, 181)
    series = {name: (np.quantile(values, shares) / 3600.0, shares) for name, values in errors.items() if len(values)}
    words = "; ".join(f"{name}: {(values < 0).mean():.0%} below 0" for name, values in errors.items() if len(values))
    title = f"Figure 9, {log}: error, prediction less run time"
    figure = lines(title, series, x="error, hours", y="share of the jobs", kind="share", caption=words)
    return replace(figure, alt=f"Distribution of the signed error in hours. {words}.")


def table_5_pictures(log: str, rows: Rows) -> list[Figure]:
    """The paper's Figures 6 to 8 as bars: MAE, APA and UR of every method, ours and printed."""
    names = [row["predictor"] for row in rows]
    drawn = []
    for number, key, printed, words in (
        (6, "mae_s", "printed_mae_s", "MAE"), (7, "apa", "printed_apa", "APA"),
        (8, "underestimate_rate", "printed_ur", "UR"),
    ):  # fmt: skip
        series = {"ours": [row[key] for row in rows], "printed": [row.get(printed, float("nan")) for row in rows]}
        title = f"Figure {number}, {log}: {words}"
        drawn.append(bars(title, names, series, value=words, kind="seconds" if key == "mae_s" else "share"))
    return drawn


def class_pictures(log: str, rows: Rows) -> list[Figure]:
    """The paper's Figure 10: APA, UR and MAE by class."""
    classes = list(dict.fromkeys(row["class"] for row in rows))
    methods = list(dict.fromkeys(row["predictor"] for row in rows))
    drawn = []
    for key, words in (("apa", "APA"), ("underestimate_rate", "UR"), ("mae_s", "MAE")):
        at = {(row["class"], row["predictor"]): row[key] for row in rows}
        series = {method: [at.get((name, method), float("nan")) for name in classes] for method in methods}
        title = f"Figure 10, {log}: {words} by class"
        drawn.append(bars(title, classes, series, value=words, kind="seconds" if key == "mae_s" else "share"))
    return drawn


def sections(summary: Sequence[str], tables: Sequence[Table], figures: Sequence[Figure]) -> list[Section]:
    """The page's sections."""
    return [
        Section("In short", list(summary)),
        *(Section(table.caption, [table]) for table in tables),
        Section("Pictures", list(figures)),
        Section("How the paper was read", list(READING)),
    ]


READING = (
    "The number of neighbours and alpha are not printed: both are searched on the last finished jobs and noted.",
    "The SVR works on standardised run times with scikit-learn's defaults; estimates stay in the neighbours' range.",
    "'completed': the log was cut to jobs that succeeded before anything was learned, as in the paper; only the end "
    "tells which those are, so the figure is optimistic.",
)
