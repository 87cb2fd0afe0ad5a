# SPDX-License-Identifier: Apache-2.0
"""Tables 1 to 8 and the figures of Kumar & Vadhiyar 2012 on the available logs, with our results beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from batchcast.errors import NoAnswer
from batchcast.evaluation.differences import burst_groups
from batchcast.evaluation.wait import WaitRun, last_needed, recorded_wait, run_wait, score_run, scored_rows
from batchcast.metrics.measure import mean
from batchcast.metrics.wait import error_by_range, good, ppert, rms
from batchcast.report import figures
from batchcast.report.blocks import Block, Callout, Figure, Section, Table, TableRows, columns_of
from batchcast.table import Trace
from batchcast_papers.measures import ranges_matrix, rms_decrease

from ..shared import Gain, gain_rows, gain_table

THRESHOLD_S = 3600.0
JOBS = (10001, 50000)
QUICK_JOBS = (10001, 16000)
METHODS = {
    "log_uniform": "log_uniform",
    "log_uniform tables": "log_uniform:reading=tables",
    "qbets": "qbets",
    "qbets tables": "qbets:reading=tables",
    "ibl": "ibl",
    "ibl text": "ibl:reading=text",
    "pqstar": "pqstar",
    "pqstar tables": "pqstar:reading=tables",
}
BOUNDS = ("log_uniform", "qbets")
THRESHOLDS_S = tuple(600.0 * k for k in range(1, 7))
THRESHOLD_LOG = "CTC"

NAN = float("nan")
WIDTHS = {"quick": 2, "near": 2, "identified": 4, "misguided": 2, "rms": 4, "ppert": 4, "good": 4}
"""Number of printed values of each key of `PRINTED`."""


def _printed(line: str) -> tuple[str, dict[str, tuple[float, ...]]]:
    """Return a log's name and its printed values by key, from a line with all values."""
    name, *numbers = line.split()
    values = iter([int(number) if number.isdigit() else float(number) for number in numbers])
    return name, {key: tuple(islice(values, width)) for key, width in WIDTHS.items()}


# The printed values of Tables 1 to 7: quick %, recomputed quick %, near % of quick, near jobs, identified % (log-u,
# QBETS, IBL, PQStar), misguided %, of them < 4 h, rms decrease % (log-u, QBETS, IBL), normalised vs IBL, PPErt and good
# % (four)
PRINTED = dict(map(_printed, """\
CTC        56  54.58  53  53   2   5  43  84     9  59  80  58     2  42  41.1  19.6   1.4    0.5   3   6  39  60
HPC2N      57  56.85  62  54   3  19  49  80    10  46  84  59  2.25  42  44.7  16.5  1.96   0.68   5  17  46  66
SDSC-BLUE  70  69.78  51  46   8  45  63  89     6  57  77  58     2  33  31.7  13.1  2.01   0.75   8  35  53  70
SDSC-SP2   66  66.25  50  45   1   4  49  79     6  57  71  56  1.75  38  55.2  32.3  2.86    1.2   3   6  45  64
ANL        65    nan  17  48  11  42  61  78     4  72  75  61     2  22  20.7  17.5  2.21    1.4   5  32  36  57
LANL       94   94.1  39  39   8  67  85  88     1  61  90  57     1   5  35.2  22.4  0.12   0.06   9  61  91  94
Paragon    88    nan  61  43   6  48  81  89     1  45  79  64   1.5   6  45.7  18.3  0.45   0.24   6  45  79  85
DAS2-fs0   99    nan  66  59  71  95  96  98  0.25  32  19   7     0   0   2.6  0.25  0.01  0.007  73  96  98  99
""".splitlines()))  # fmt: skip
UNPRINTED: Mapping[str, Sequence[float]] = dict.fromkeys(PRINTED["CTC"], (NAN,) * 4)
"""The printed values of a log that the paper does not have."""
OWN_NAMES = {"LANL": "lanl", "ANL": "anl", "Paragon": "par", "DAS2-fs0": "das2-fs0"}
# our values in docs/papers/quick-starters.md for the two readings: identified, misguided, near (%)
MEASURED: Mapping[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "CTC": ((81.7, 9.9, 55.5), (81.9, 9.4, 54.7)),
    "HPC2N": ((87.3, 13.7, 63.3), (86.8, 12.1, 63.1)),
    "SDSC-BLUE": ((84.1, 5.9, 55.6), (85.7, 5.3, 55.5)),
    "SDSC-SP2": ((76.8, 9.7, 58.2), (77.3, 9.0, 57.6)),
}
LONG_QUICK = {"CTC": 0.30, "ANL": 0.30}  # in the paper's text: about this share ran for more than an hour
PRINTED_THRESHOLDS = (84.2, 84.0, 83.7, 83.7, 83.6, 84.3)


@dataclass(frozen=True, slots=True)
class LogStudy:
    """The results of all methods on one log's scored jobs, the share of quick starters, and the share of quick starters
    that run long."""

    name: str
    trace: Trace
    rows: np.ndarray
    quick_share: float
    long_share: float
    runs: Mapping[str, WaitRun]

    @property
    def wait(self) -> np.ndarray:
        """Return the waits of the scored jobs."""
        return np.asarray(recorded_wait(self.trace)[self.rows])

    def value(self, method: str) -> np.ndarray:
        """Return the predicted waits of Tables 5 and 7: the upper bounds of bound methods, the point predictions of
        other methods."""
        run = self.runs[method]
        given = run.answer if method.split()[0] in BOUNDS else run.forecasts.points
        return np.asarray(given[self.rows])

    def rms(self, method: str, *, relative: bool = False) -> float:
        """Return the root of a method's mean square error, in seconds or relative to the wait."""
        error = self.value(method) - self.wait
        return rms(error / np.maximum(self.wait, 1.0) if relative else error)

    def score(self, method: str) -> dict[str, float]:
        """Return the accuracy measures of one method."""
        return score_run(self.runs[method], self.trace, self.rows, THRESHOLD_S)


def name_of(path: Path) -> str:
    """Return the name of the user's log in tables: the paper's name if the file name contains it, else the file name.

    >>> name_of(Path("LANL-CM5-1994-4.1-cln.swf.gz")), name_of(Path("ours.swf")), name_of(Path("jobs.parquet"))
    ('LANL', 'ours', 'jobs')
    """
    plain = path.name.lower().removesuffix(".parquet")
    for name, piece in OWN_NAMES.items():
        if piece in plain:
            return name
    return path.name.partition(".")[0]


def own_jobs(count: int, jobs: tuple[int, int]) -> tuple[int, int]:
    """Return the first and last predicted job of the user's log: the paper's range or, for a short log, its last three
    quarters.

    >>> own_jobs(60_000, (10_001, 50_000)), own_jobs(2_000, (10_001, 50_000))
    ((10001, 50000), (501, 2000))
    """
    return jobs if count >= 2 * jobs[0] else (count // 4 + 1, count)


def study_log(
    name: str,
    trace: Trace,
    tick: Callable[[int], None] = lambda done: None,
    jobs: tuple[int, int] = JOBS,
    *,
    before: int = 0,
) -> LogStudy:
    """Run every method on jobs 10,001 to 50,000 (or the log's end), with all earlier jobs as history; a minute per
    log. `tick` is called with the number of finished runs, `before` on other logs included.
    """
    if len(trace) < jobs[0]:
        raise NoAnswer(f"{name}: {len(trace):,} jobs, scored are those from {jobs[0]:,} on", hint="a longer log")
    wait = recorded_wait(trace)
    share = mean(wait[wait == wait] <= THRESHOLD_S)
    long = mean(trace.run_time[(wait <= THRESHOLD_S) & ~np.isnan(trace.run_time)] > 3600.0)
    rows = scored_rows(trace, jobs)
    head = trace.take(np.arange(last_needed(rows)))
    runs = {}
    for k, (method, spec) in enumerate(METHODS.items()):
        runs[method] = run_wait(head, spec, rows[: len(head)])
        tick(before + k + 1)
    return LogStudy(name, head, rows[: len(head)], share, long, runs)


def table_rows(study: LogStudy) -> list[dict[str, Any]]:
    """Return one flat row per method: the values of Tables 1 to 5 and 7 beside the printed values."""
    printed, order = PRINTED.get(study.name, UNPRINTED), ("log_uniform", "qbets", "ibl", "pqstar")
    wait, run = study.wait, study.trace.run_time[study.rows]
    rows = []
    for method, wait_run in study.runs.items():
        score, base = study.score(method), method.split()[0]
        place = order.index(base)
        row = {
            "log": study.name,
            "predictor": METHODS[method],
            "protocol": wait_run.protocol,
            "jobs": score["jobs"],
            "quick_share_log": study.quick_share,
            "quick_share_log_recomputed": _percent(printed, "quick", 1),
            "quick_share_log_printed": _percent(printed, "quick", 0),
            "quick_long_share": study.long_share,
            "quick_long_share_printed": LONG_QUICK.get(study.name, NAN),
            "quick_share": score["quick_share"],
            "identified": score["quick_identified"],
            "bounded": score["quick_bounded"],
            "identified_printed": _percent(printed, "identified", place),
            "misguided": score["misguided_share"],
            "misguided_under_4h": score["misguided_under_4h"],
            "rms_error_s": study.rms(method),
            "mean_ppert": float(ppert(study.value(method), wait, run).mean()),
            "mean_ppert_printed": printed["ppert"][place],
            "good": float(good(study.value(method), wait, run).mean()),
            "good_printed": _percent(printed, "good", place),
            "seconds": wait_run.seconds,
            "search_s": wait_run.search_s,
        }
        if base == "pqstar":
            row |= _pqstar_row(study, method, printed)
        rows.append(row)
    return rows


def _pqstar_row(study: LogStudy, method: str, printed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a row of PQStar that other methods do not have."""

    def decrease(reference: str, *, relative: bool = False) -> float:
        return rms_decrease(study.rms(method, relative=relative), study.rms(reference, relative=relative))

    run, reading = study.runs[method], int(method == "pqstar tables")
    measured = MEASURED.get(study.name, ((NAN,) * 3,) * 2)[reading]
    row: dict[str, Any] = {
        "reading": ("text", "tables")[reading],
        "identified_measured": measured[0] / 100,
        "misguided_measured": measured[1] / 100,
        "misguided_printed": _percent(printed, "misguided", 0),
        "misguided_under_4h_printed": _percent(printed, "misguided", 1),
        "near_share": float(run.marks.near[study.rows][study.wait <= THRESHOLD_S].mean()) if run.marks else NAN,
        "near_share_measured": measured[2] / 100,
        "near_share_printed": _percent(printed, "near", 0),
        "near_jobs": float(run.marks.near_jobs[study.rows].mean()) if run.marks else NAN,
        "near_jobs_printed": printed["near"][1],
    }
    for k, other in enumerate(("log_uniform", "qbets", "ibl")):
        row[f"rms_decrease_from_{other}"] = decrease(other)
        row[f"rms_decrease_from_{other}_printed"] = _percent(printed, "rms", k)
    return row | {
        "rms_decrease_from_ibl_text": decrease("ibl text"),
        "normalised_rms_decrease_from_ibl_text": decrease("ibl text", relative=True),
        "normalised_rms_decrease_from_ibl": decrease("ibl", relative=True),
        "normalised_rms_decrease_from_ibl_printed": _percent(printed, "rms", 3),
    }


def noise_rows(study: LogStudy) -> list[dict[str, Any]]:
    """Return PQStar's gains of Tables 3, 5 and 7, each with its confidence interval on this log and the gain that the
    paper prints."""
    printed, wait, rows = PRINTED.get(study.name, UNPRINTED), study.wait, study.rows
    quick, nothing = wait <= THRESHOLD_S, np.full(len(wait), np.nan)
    marked = {m: np.where(quick, run.marked[rows].astype(float), nothing) for m, run in study.runs.items()}
    run_time = study.trace.run_time[rows]
    square = {m: (study.value(m) - wait) ** 2 for m in study.runs}
    normal = {m: one / np.maximum(wait, 1.0) ** 2 for m, one in square.items()}
    off = {m: ppert(study.value(m), wait, run_time) for m in study.runs}
    near = {m: good(study.value(m), wait, run_time).astype(float) for m in study.runs}
    ours, places = "pqstar", ("log_uniform", "qbets", "ibl")
    gains = []
    for other in ("log_uniform", "qbets", "ibl text", "ibl"):
        at = places.index(other.split()[0])
        theirs, mine = _percent(printed, "identified", at), _percent(printed, "identified", 3)
        gains.append(Gain(ours, METHODS[other], "identified", marked[ours], marked[other], mine - theirs, True, True))
        fall = _percent(printed, "rms", at)
        gains.append(Gain(ours, METHODS[other], "RMS error", square[ours], square[other], fall, root=True))
        if other.startswith("ibl"):
            least = _percent(printed, "rms", 3)
            gains.append(Gain(ours, METHODS[other], "normalised RMS", normal[ours], normal[other], least, root=True))
        part = 1 - printed["ppert"][3] / printed["ppert"][at]
        gains.append(Gain(ours, METHODS[other], "mean PPErt", off[ours], off[other], part))
        more = _percent(printed, "good", 3) - _percent(printed, "good", at)
        gains.append(Gain(ours, METHODS[other], "good forecasts", near[ours], near[other], more, True, True))
    group = burst_groups(study.trace)[rows]
    return [{"log": study.name, "table": "noise", **row} for row in gain_rows(gains, group)]


def threshold_rows(study: LogStudy) -> list[dict[str, Any]]:
    """Return Table 8: the share of quick starters that the marks of `pqstar` identify, for each threshold."""
    rows = []
    for (threshold, printed), reading in product(zip(THRESHOLDS_S, PRINTED_THRESHOLDS), ("text", "tables")):
        run = run_wait(study.trace, f"pqstar:reading={reading},fallback=none", study.rows, threshold=threshold)
        score = score_run(run, study.trace, study.rows, threshold)
        row = {"log": study.name, "table": 8, "predictor": f"pqstar:reading={reading}", "quick_s": threshold}
        row |= {"quick_share": score["quick_share"], "identified": score["quick_identified"]}
        rows.append(row | {"identified_printed": printed / 100, "misguided": score["misguided_share"]})
    return rows


def predicted_ranges(study: LogStudy, method: str) -> np.ndarray:
    """Return (7, 7) shares: for each range of actual waits (row), the share of the range's jobs whose predicted wait is
    in each range."""
    counts = ranges_matrix(study.wait, np.maximum(study.value(method), 1.0)).astype(float)
    totals = counts.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(counts, totals, out=np.full_like(counts, np.nan), where=totals > 0))


def _percent(printed: Mapping[str, Any], key: str, place: int) -> float:
    """Return a printed percentage as a share."""
    return float(printed[key][place] / 100)


RANGES = ("≤ 1 h", "1–3 h", "3–6 h", "6–12 h", "12–24 h", "1–2 d", "> 2 d")
ROUNDED = ("15 min", "30 min", "1 h", "3 h", "6 h", "12 h", "24 h")
SLOTS = {"qbets": 1, "ibl": 2, "pqstar": 3, "ibl text": 4}


def pqstar_tables(rows: TableRows, thresholds: TableRows) -> list[Table]:
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


def discussion(rows: TableRows) -> list[Block]:
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


def _identified(rows: TableRows) -> str:
    """Return the shares of identified quick starters of several logs, in words."""
    return ", ".join(f"{100 * r['identified']:.0f} %" for r in rows)


def bounds_said(rows: TableRows) -> list[str]:
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


def noise_table(rows: TableRows) -> Table:
    """Return the table of PQStar's gains with their 90 % intervals on each log."""
    return gain_table(rows, [("log", "log")], "Are PQStar's gains larger than the noise of their log?")


def pqstar_sections(rows: TableRows, thresholds: TableRows, studies: Sequence[Any], noise: TableRows) -> list[Section]:
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
    """Draw the waits of the first 1,000 scored jobs against one of their columns."""
    values = study.trace.procs() if column == "procs" else study.trace.number(column)
    rows = np.flatnonzero(study.rows)[:1000]
    title = f"Figure 1({part}) · {study.name}: wait against {words} (1,000 jobs)"
    alt = f"Wait of 1,000 jobs of {study.name} against {words}: at most values, waits cover all magnitudes."
    x, points = words + (", s" if column != "procs" else ""), (values[rows], floor(study.wait[:1000]))
    return _log_axes(figures.scatter(title, {"jobs": points}, x=x, y="wait, s", alt=alt))


def _log_axes(figure: Figure) -> Figure:
    """Return the figure with logarithmic axes."""
    axes = {axis: {**figure.layout[axis], "type": "log"} for axis in ("xaxis", "yaxis")}
    return replace(figure, layout={**figure.layout, **axes})


def _stacked(title: str, shares: np.ndarray) -> Figure:
    """Draw, for each range of actual waits, the shares of the predicted ranges as one bar."""
    series = {f"predicted {name}": shares[:, k].tolist() for k, name in enumerate(RANGES)}
    figure = figures.bars(title, RANGES, series, value="share of the jobs", kind="share")
    data = [{**d, "text": None} for d in figure.data]
    xaxis = {**figure.layout["xaxis"], "range": [0, 1]}
    layout = {**figure.layout, "barmode": "stack", "xaxis": xaxis, "legend": {"traceorder": "normal"}}
    return replace(figure, data=data, layout=layout, height=380)


def _table(caption: str, rows: TableRows, columns: str) -> Table:
    """Return a table; `columns` has columns as for `columns_of`, separated by semicolons."""
    return Table(caption, columns_of(*columns.split("; ")), rows)
