# SPDX-License-Identifier: Apache-2.0
"""Computes Tables 5 and 6 of Wang, Dai, Yu & Dong 2021 on public logs, and the page of `reproduce su`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from batchcast.cli.output import progress, say
from batchcast.errors import NoAnswer, UsageError
from batchcast.evaluation.accuracy import figures, score
from batchcast.evaluation.differences import burst_groups
from batchcast.events.setup import RunSetup
from batchcast.metrics.accuracy import accuracy, relative_accuracy
from batchcast.report.blocks import Figure, Table, TableRows, columns_of
from batchcast.report.figures import bars, lines
from batchcast.simulation import Policy, Schedule
from batchcast.simulation.models import SLURM, Nodes, Pool
from batchcast.table import Trace
from batchcast.trace import Selection, select

from ..shared import Gain, Gathering, gain_rows, gain_table, precomputed
from .methods import TextClusters, cluster_texts, user_and_text


def findings(rows: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return the findings of the tables, in sentences."""
    sentences = []
    for log, kept in dict.fromkeys((row["log"], row["jobs_of"]) for row in rows["5"]):
        mine = {row["predictor"]: row for row in rows["5"] if (row["log"], row["jobs_of"]) == (log, kept)}
        su, plain = (sum(mine[name]["mae_s"] for name in names) / 3 for names in zip(*PAIRS))
        best = min((name for name in mine if name.startswith("SU")), key=lambda name: mine[name]["mae_s"])
        sentences.append(
            f"{log}, {kept} jobs: mean error with clusters and neighbours {su:,.0f} s, without {plain:,.0f} s "
            f"({1 - su / plain:+.0%}; printed +74%); smallest of the three: {best} (printed: SU svr)."
        )
        sentences += [
            _comparison(row, mine)
            for row in rows["noise"]
            if (row["log"], row["jobs_of"], row["method"], row["measure"]) == (log, kept, "SU svr", "MAE")
            and row["against"] in ("recent_mean", "last_2")
            and row["gain"] < 0
        ]
    return sentences


def _comparison(row: Mapping[str, Any], mine: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a sentence about a simple method with a smaller mean error than SU, and about whether the difference could
    be chance."""
    words = {
        "inside": "this log does not show which of the two is better",
        "too few groups": "too few groups for an interval",
    }
    ours, theirs = mine["SU svr"]["mae_s"], mine[row["against"]]["mae_s"]
    return (
        f"{row['log']}, {row['jobs_of']} jobs: {row['against']}, which uses past run times alone, has a mean error of "
        f"{theirs:,.0f} s, SU svr {ours:,.0f} s ({1 - theirs / ours:.0%} less); "
        f"{words.get(row['ours'], 'outside the noise of this log')}."
    )


def table_5(rows: TableRows, every: int) -> Table:
    """Return the table of prediction errors, our errors beside the errors that the paper prints."""
    columns = columns_of(
        "log", "jobs_of|which jobs", "predictor", "jobs|jobs|count", "mae_s|MAE, s|number",
        "printed_mae_s|printed|number", "apa|APA|ratio", "printed_apa|printed|ratio", "underestimate_rate|UR|ratio",
        "printed_ur|printed|ratio", "coverage_90|within 90 % bound|share", "seconds|took, s|number",
    )  # fmt: skip
    scored = "Every job is scored." if every == 1 else f"Every {every}th job is scored, the same for all methods."
    note = f"{scored} The paper's log is not public, so compare only the order of the methods and their relative gains."
    return Table("Table 5: errors, honest protocol", columns, rows, note)


def table_6(rows: TableRows) -> Table:
    """Return the table of mean waits, our waits beside the waits that the paper prints."""
    columns = columns_of(
        "log", "scheduler", "predictor|planned with", "jobs|jobs|count", "mean_wait_s|mean wait, s|number",
        "printed_mean_wait|printed|number", "mean_bounded_slowdown|bsld|number", "corrections|corrections|count",
    )  # fmt: skip
    note = (
        "EASY: first come, first served on a pool of processors; if a job exceeds its prediction, its requested time "
        "replaces the prediction. Slurm, which the paper used: Slurm's two scheduling loops on nodes estimated from "
        "the log; predictions are the time limits of waiting jobs. Both use predictions of an open-loop replay under "
        "the honest protocol."
    )
    return Table("Table 6: mean waits by simulation", columns, rows, note)


def class_table(rows: TableRows) -> Table:
    """Return the table of accuracy measures by class of jobs."""
    columns = columns_of(
        "log", "class", "predictor", "jobs|jobs|count", "mae_s|MAE, s|number", "apa|APA|ratio",
        "underestimate_rate|UR|ratio",
    )  # fmt: skip
    note = (
        "Classes are the clusters of each user's job names; class A has the most scored jobs. Sizes are requested "
        "processors."
    )
    return Table("Measures by class of jobs", columns, rows, note)


def clustering_pictures(
    log: str, user: str, tried: Sequence[int], sse: TableRows | Any, score: Any, k: int
) -> list[Figure]:
    """Draw Figures 4 and 5: SSE and Calinski-Harabasz score against the number k of clusters, for one user's job
    names."""
    caption = f"user {user}; chosen: k = {k}, the largest score up to the elbow of SSE"
    shown = (("Figure 4", "SSE", "SSE", sse), ("Figure 5", "Calinski-Harabasz score", "score", score))
    return [
        lines(f"{number}, {log}: {words} against k", {y: (tried, of_k)}, x="k", y=y, caption=caption, markers=True)
        for number, words, y, of_k in shown
    ]


def error_picture(log: str, errors: Mapping[str, np.ndarray]) -> Figure:
    """Draw Figure 9: the distribution of prediction minus run time, from the 5 % to the 95 % quantile."""
    shares = np.linspace(0.05, 0.95, 181)
    series = {name: (np.quantile(values, shares) / 3600.0, shares) for name, values in errors.items() if len(values)}
    words = "; ".join(
        f"{name}: {(values < 0).mean():.0%} of errors below 0" for name, values in errors.items() if len(values)
    )
    title = f"Figure 9, {log}: error (prediction minus run time)"
    figure = lines(title, series, x="error, hours", y="share of the jobs", kind="share", caption=words)
    return replace(figure, alt=f"Distribution of the signed error in hours. {words}.")


def table_5_pictures(log: str, rows: TableRows) -> list[Figure]:
    """Draw Figures 6 to 8 as bars: MAE, APA and UR of every method, our values and the printed values."""
    names, drawn = [row["predictor"] for row in rows], []
    for number, key, printed in zip((6, 7, 8), MEASURES, PRINTED_KEYS):
        series = {"ours": [row[key] for row in rows], "printed": [row.get(printed, float("nan")) for row in rows]}
        drawn.append(_bars(f"Figure {number}, {log}: {MEASURES[key]}", names, series, MEASURES[key]))
    return drawn


def class_pictures(log: str, rows: TableRows) -> list[Figure]:
    """Draw Figure 10: APA, UR and MAE by class of jobs."""
    classes = list(dict.fromkeys(row["class"] for row in rows))
    methods = list(dict.fromkeys(row["predictor"] for row in rows))
    drawn = []
    for key in ("apa", "underestimate_rate", "mae_s"):
        at = {(row["class"], row["predictor"]): row[key] for row in rows}
        series = {method: [at.get((name, method), float("nan")) for name in classes] for method in methods}
        drawn.append(_bars(f"Figure 10, {log}: {MEASURES[key]} by class", classes, series, MEASURES[key]))
    return drawn


def _bars(title: str, names: Sequence[str], series: Mapping[str, Sequence[float]], words: str) -> Figure:
    """Draw a measure as bars: MAE is in seconds, the other measures are shares."""
    return bars(title, names, series, value=words, kind="seconds" if words == "MAE" else "share")


LOGS = {
    "CTC": "CTC-SP2-1996-3.1-cln.swf.gz",
    "SDSC-DS": "SDSC-DS-2004-2.1-cln.swf.gz",
    "NREL": "NREL-eagle-sample1000.csv.gz",
}
MODELS = ("linear", "forest", "svr")
PAIRS = [(f"SU {model}", f"plain {model}") for model in MODELS]
KINDS = {"su": "SU", "plain_regression": "plain"}
PAPER = {f"{kind}:model={model}": f"{words} {model}" for kind, words in KINDS.items() for model in MODELS}
REFERENCE_METHODS = ("requested", "last_2", "recent_mean", "trip")
SVR = ("SU svr", "plain svr")
MEASURES = {"mae_s": "MAE", "apa": "APA", "underestimate_rate": "UR"}
PRINTED_KEYS = ("printed_mae_s", "printed_apa", "printed_ur")
PRINTED = {
    "SU linear": (3140.5, 0.7482, 0.3134, 213.8),
    "SU forest": (3181.9, 0.7469, 0.3022, 204.6),
    "SU svr": (2762.7, 0.8046, 0.2485, 192.6),
    "plain linear": (15039.3, 0.2784, 0.2871, 297.4),
    "plain forest": (10892.6, 0.3769, 0.2731, 285.1),
    "plain svr": (9488.0, 0.5400, 0.489, 274.6),
}


def local_offset(trace: Trace, timezone: str) -> float:
    """Return the seconds from a log's clock to local time, by the time zone's offset in the middle of the log."""
    middle = trace.info.unix_start + (float(np.median(trace.submit_time)) if len(trace) else 0.0)
    ahead = datetime.fromtimestamp(middle, ZoneInfo(timezone)).utcoffset() or timedelta(0)
    return float(trace.info.unix_start % 86400.0 + ahead.total_seconds())


def settings_of(offset: float, also: Sequence[str]) -> str:
    """Return the settings of `su` for the user's own log, as the end of a predictor's spec; empty for the paper's logs.

    >>> settings_of(3600.0, ["mesh"]), settings_of(0.0, [])
    (',utc_offset=3600,also=mesh', '')
    """
    words = f",utc_offset={offset:g}" if offset else ""
    return words + (f",also={'+'.join(also)}" if also else "")


def scored_jobs(trace: Trace, every: int, label: str, more: str = "") -> dict[str, Any]:
    """Replay one log with every method (honest protocol); return accuracy over all jobs and by size, and predictions.

    Every `every`-th job is scored, which gives the same jobs for all methods; the methods learn from all jobs. In the
    result, `rows` are the rows of the scored jobs, and `points` are their predictions by each method of the paper.
    `more` are further settings of `su`.
    """
    mask, names = np.arange(len(trace)) % every == 0, _names(more, (*PAPER, *REFERENCE_METHODS))
    with progress(label, len(trace)) as tick:
        scores = score(trace, list(names), mask=mask, tick=tick)
    rows = np.flatnonzero(scores.scored)
    group = burst_groups(trace)[rows]
    actual = trace.run_time[rows]
    points = {name: scores.points[spec][rows] for spec, name in names.items()}
    return {
        "noise": gain_rows(_gains(points, actual), group),
        "figures": [{**row, "predictor": names[row["predictor"]]} for row in figures(scores)],
        "by_size": [{**row, "predictor": names[row["predictor"]]} for row in figures(scores, by="size")],
        "rows": rows.tolist(),
        "points": {name: points[name].tolist() for name in PAPER.values()},
    }


def _names(more: str, specs: Iterable[str]) -> dict[str, str]:
    """Return each method's name in the tables, by its spec with the further settings of `su`."""
    return {spec + more if spec.startswith("su:") else spec: PAPER.get(spec, spec) for spec in specs}


def _gains(points: Mapping[str, np.ndarray], actual: np.ndarray) -> list[Gain]:
    """Return Table 5's gains of SU over the same regression without clusters, and over methods that predict means of
    past run times."""
    error = {name: np.abs(said - actual) for name, said in points.items()}
    near = {name: relative_accuracy(said, actual) for name, said in points.items()}
    late = {name: (said < actual).astype(float) for name, said in points.items()}
    gains = []
    for su, plain in PAIRS:
        ours, theirs = PRINTED[su], PRINTED[plain]
        gains.append(Gain(su, plain, "MAE", error[su], error[plain], 1 - ours[0] / theirs[0]))
        gains.append(Gain(su, plain, "APA", near[su], near[plain], ours[1] / theirs[1] - 1, True))
        gains.append(Gain(su, plain, "UR", late[su], late[plain], theirs[2] - ours[2], points=True))
    return gains + [Gain("SU svr", name, "MAE", error["SU svr"], error[name]) for name in ("last_2", "recent_mean")]


def simulated_waits(trace: Trace, first: int, label: str, more: str = "") -> dict[str, list[dict[str, Any]]]:
    """Return mean waits under EASY and Slurm's loops, planned with each method's predictions (honest protocol, open
    loop), and the gains in mean wait."""
    part = trace.take(np.arange(min(first, len(trace))))
    with progress(label, len(part)) as tick:
        names = _names(more, PAPER)
        scored = score(part, list(names), tick=tick).points
    planners: dict[str, Any] = {"requests": "requested", "perfect": "actual"}
    for spec, points in scored.items():
        planners[names[spec]] = precomputed(np.where(np.isnan(points), part.req_time, points))
    waits: dict[str, list[dict[str, Any]]] = {"rows": [], "noise": []}
    # on nodes, predictions replace only limits of waiting jobs, because a running job that has exceeded its predicted
    # limit would block backfill
    easy: tuple[Pool | Nodes, Policy] = (Pool(RunSetup(loop="open")), Policy())
    for scheduler, (model, policy) in {"EASY": easy, "Slurm": (Nodes(), SLURM)}.items():
        schedules = {
            name: model.run(part, Policy() if name == "perfect" else policy, planner)
            for name, planner in planners.items()
        }
        for name, schedule in schedules.items():
            printed = {"printed_mean_wait": PRINTED[name][3]} if name in PRINTED else {}
            waits["rows"].append({"scheduler": scheduler, "predictor": name, **schedule.measures(), **printed})
        waits["noise"] += _wait_gains(part, schedules, f"mean wait, {scheduler}")
    return waits


def _wait_gains(part: Trace, schedules: Mapping[str, Schedule], measure: str) -> list[dict[str, Any]]:
    """Return Table 6's gains of SU over the plain regressions, and the gain of `SU svr` over planning with requested
    times."""
    gains = []
    for su, plain in PAIRS:
        printed = 1 - PRINTED[su][3] / PRINTED[plain][3]
        gains.append(Gain(su, plain, measure, schedules[su].wait_time, schedules[plain].wait_time, printed))
    requests = schedules["requests"]
    gains.append(Gain("SU svr", "requests", measure, schedules["SU svr"].wait_time, requests.wait_time))
    return gain_rows(gains, burst_groups(part)[requests.rows])


def clustered_users(trace: Trace) -> tuple[str, np.ndarray, TextClusters]:
    """Cluster the job names of every user; return an example user, each job's class (n,), and the example's clusters.

    Class numbers are unique over all users. The example user has the most jobs among users with at least 16 names or,
    if there are none, among all users.
    """
    pairs = [user_and_text(job) for job in trace.requests()]
    names: dict[str, Counter[str]] = {}
    for user, text in pairs:
        names.setdefault(user, Counter())[text] += 1
    many = [user for user, counts in names.items() if len(counts) >= 16] or list(names)
    chosen = max(many, key=lambda user: sum(names[user].values()))
    clusters = {user: cluster_texts(counts) for user, counts in names.items()}
    number: dict[tuple[str, int], int] = {}
    classes = [number.setdefault((user, clusters[user].labels[text]), len(number)) for user, text in pairs]
    return chosen, np.array(classes), clusters[chosen]


def by_class(actual: np.ndarray, points: Mapping[str, np.ndarray], labels: np.ndarray) -> list[dict[str, Any]]:
    """Return MAE, APA and UR of the methods `SVR` over the 15 classes with most jobs, named A, B, ...

    `actual`, `labels` and each array in `points` have the shape (n,) over the scored jobs.
    """
    counts = Counter(labels[labels >= 0].tolist())
    rows = []
    for place, (label, _) in enumerate(counts.most_common(15)):
        mask = labels == label
        for name in SVR:
            measured = accuracy(points[name][mask], actual[mask])
            rows.append({"class": chr(ord("A") + place), "predictor": name, **measured})
    return rows


@dataclass(eq=False)
class Gathered(Gathering):
    """The rows of each table, the figures and the logs' checksums; every part is stored when it is finished."""

    every: int
    schedule_first: int

    paper, title = "su", "Run times from clusters of job names (Wang et al. 2021)"
    table_names = ("5", "6", "class", "noise")
    reading = (
        "The paper does not print the number of neighbours and alpha: both are searched on the last finished jobs.",
        "The SVR works on standardised run times with scikit-learn's defaults; estimates stay in the neighbours' "
        "range.",
        "'completed': as in the paper, jobs that failed are removed from the log before the replay. A running system "
        "does not know which jobs will fail, so these results are optimistic.",
    )

    def add(self, name: str, whole_log: Trace, more: str = "") -> None:
        """Add one log's results, with all jobs and (as in the paper) with completed jobs; `more` has further settings
        of `su`.

        If a log has no completed jobs, for example because it has no status, the tables have only results with all
        jobs.
        """
        self.hashes[name] = whole_log.info.sha256
        logs = {"all": whole_log}
        with suppress(NoAnswer, UsageError):  # this error is raised if no job is selected
            logs["completed"] = select(whole_log, Selection(status=("completed",)))
        for kept, log in logs.items():
            trace = log.take(np.arange(min(self.first or len(log), len(log))))
            compute = partial(scored_jobs, trace, self.every, f"{name}, {kept} jobs", more)
            part = self.part(name, f"{name}-{kept}", {"every": self.every, "more": more}, compute)
            self.rows["5"] += [
                {"log": name, "jobs_of": kept, **row, **dict(zip(PRINTED_KEYS, PRINTED.get(row["predictor"], ())))}
                for row in part["figures"]
            ]
            self.rows["noise"] += [{"log": name, "jobs_of": kept, **row} for row in part["noise"]]
            say(f"{name}, {kept} jobs: {len(part['rows']):,} scored")
            if kept == "all":
                self._classes(name, trace, part)
                if self.schedule_first and trace.info.max_procs > 0:
                    run = partial(simulated_waits, trace, self.schedule_first, f"{name}, Table 6", more)
                    made_of = {"schedule_first": self.schedule_first, "more": more}
                    simulated = self.part(name, f"{name}-schedules", made_of, run)
                    self.rows["6"] += [{"log": name, **row} for row in simulated["rows"]]
                    self.rows["noise"] += [{"log": name, "jobs_of": kept, **row} for row in simulated["noise"]]

    def tables(self) -> list[Any]:
        """Return the tables with the results that were added so far."""
        waits = [table_6(self.rows["6"])] if self.rows["6"] else []
        naming = [("log", "log"), ("jobs_of", "which jobs")]
        noise = gain_table(self.rows["noise"], naming, "Are SU's gains larger than the noise of the logs?")
        return [table_5(self.rows["5"], self.every), *waits, noise, class_table(self.rows["class"])]

    def _classes(self, name: str, trace: Trace, part: Mapping[str, Any]) -> None:
        """Add accuracy by class of names and by size, and the paper's figures."""
        rows = np.array(part["rows"], dtype=int)
        actual = trace.run_time[rows]
        points = {name: np.array(values) for name, values in part["points"].items()}
        user, labels, clusters = clustered_users(trace)
        classes = by_class(actual, points, labels[rows])
        self.rows["class"] += [{"log": name, **row} for row in classes]
        sizes = [row for row in part["by_size"] if row["predictor"] in SVR]
        self.rows["class"] += [{"log": name, "class": f"{row['group']} processors", **row} for row in sizes]
        errors = {method: values - actual for method, values in points.items()}
        self.pictures += clustering_pictures(name, user, clusters.tried, clusters.sse, clusters.score, clusters.k)
        rows_5 = [row for row in self.rows["5"] if (row["log"], row["jobs_of"]) == (name, "all")]
        self.pictures += [*table_5_pictures(name, rows_5), error_picture(name, errors)]
        self.pictures += class_pictures(name, classes)
