# SPDX-License-Identifier: Apache-2.0
"""Xu, Xiong & Xiao 2018 on the paper's data: Tables 2 to 6, sensitivity runs, accuracy results for the operator of a
cluster, and the page of `reproduce online-knn-ga`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from batchcast.cli.output import progress, say
from batchcast.evaluation.accuracy import Scores, figures, fresh_predictor, score
from batchcast.evaluation.differences import burst_groups
from batchcast.events.setup import RunSetup
from batchcast.metrics.accuracy import accuracy
from batchcast.metrics.measure import mean
from batchcast.metrics.schedule import bounded_slowdown
from batchcast.report.blocks import Figure, Table, TableRows, columns_of
from batchcast.report.figures import cdf, lines
from batchcast.simulation import Policy, Schedule, simulate
from batchcast.table import Trace
from batchcast.trace import Selection, read_trace, select, selection_mask
from batchcast_papers.measures import running_mean

from ..shared import Gain, Gathering, gain_rows, gain_table, precomputed


class DataSet(NamedTuple):
    """One of the paper's data sets: the log, the selected jobs, and the figures that the paper prints."""

    name: str
    log: str
    selection: Selection
    timezone: str | None
    printed_window: int
    printed_minh: int
    printed_jobs: int
    pu_minh: float
    pu: float
    mae_minh: float
    mae: float
    waits: tuple[float, float, float, float]
    slowdowns: tuple[float, float, float, float]


SETS = (
    DataSet(
        "HPC2N04", "HPC2N-2002-2.2-cln.swf.gz", Selection(since="2004-01-01", until="2005-01-01"), None,
        81934, 81113, 81934, 0.36, 0.29, 9360, 5314, (321.61, 187.15, 287.27, 173.57), (150.24, 57.02, 131.94, 50.74),
    ),
    DataSet(
        "HPC2N05", "HPC2N-2002-2.2-cln.swf.gz", Selection(since="2005-01-01"), None,
        55389, 55389, 55839, 0.31, 0.40, 26280, 6130,
        (723.57, 439.52, 717.34, 394.70), (389.36, 219.18, 394.05, 194.44),
    ),
    DataSet(
        "SDSC02", "SDSC-BLUE-2000-4.2-cln.swf.gz", Selection(since="2002-01-01", status=("1",)), "+01:00",
        100000, 80756, 80756, 0.25, 0.31, 1842, 1839, (188.10, 98.53, 138.24, 77.08), (52.91, 28.46, 26.13, 15.94),
    ),
    DataSet(
        "SDSC04", "SDSC-DS-2004-2.1-cln.swf.gz", Selection(status=("1",)), None,
        84893, 66743, 66743, 0.29, 0.31, 2886, 4325, (167.46, 58.98, 153.28, 51.59), (62.63, 22.52, 46.98, 15.63),
    ),
)  # fmt: skip
METHOD = "knn_ga"
NO_TRADE = "knn_ga:pu_weight=0"
# no batch has a history of this length, so template {user}, K = 5 and alpha = 0 apply throughout
FIXED = "knn_ga:h=1000000,first=0"
LOCAL = ("knn_ga:local_model=linear", "knn_ga:local_model=svr")
TRAINED = (METHOD, NO_TRADE, FIXED)
MINH = "minh_wolters:population=50,generations=100,sample=1500"
"""The paper's only baseline, searched as thoroughly as knn_ga: equally many genomes, on the whole TrainingSet."""
MINH_APART = f"{MINH},apart=yes"
"""The baseline with separate parameters for large and small jobs; Xu et al. explain a part of its accuracy by them."""
REFERENCE_METHODS = (NO_TRADE, FIXED, "requested", "last_2", "recent_mean")
OPERATORS = (METHOD, FIXED, "requested", "last_2", "recent_mean")
UNTRAINED = 4500
PROTOCOLS = ("paper", "honest")
POLICIES = {
    "easy": Policy(event_order="pyss"),
    "easy-sjbf": Policy(backfill_order="sjf", event_order="pyss"),
}
MACHINES = (1.0, 0.95, 0.9, 0.85, 0.8)
RAISED = "open, raised"
CORRECTIONS = ("requested", "incremental", "doubling")
SENSITIVITY = (
    "knn_ga:h=5000,t1=2000",
    "knn_ga:t2=500",
    "knn_ga:generations=50",
    "knn_ga:generations=200",
    "knn_ga:warm_start=yes,first=0",
)


def load(each: DataSet, traces: Path, first: int | None = None) -> tuple[Trace, Trace]:
    """Return the whole log, and the paper's selection of it (only its `first` jobs, if given)."""
    whole_log = read_trace(str(traces / each.log), timezone=each.timezone)
    trace = select(whole_log, each.selection)
    return whole_log, trace if first is None else trace.take(np.arange(min(first, len(trace))))


def table_2_row(each: DataSet, whole_log: Trace) -> dict[str, Any]:
    """Return a row of Table 2: numbers of jobs in the time window and in the selection, beside the paper's numbers.

    The paper prints for each set the number of jobs in the window, the number that Minh and Wolters used, and the
    number that the paper used.
    """
    return {
        "set": each.name,
        "log": each.log,
        "window": len(select(whole_log, replace(each.selection, status=()))),
        "printed_window": each.printed_window,
        "jobs": int(selection_mask(whole_log, each.selection).sum()),
        "printed_jobs": each.printed_jobs,
        "printed_minh": each.printed_minh,
    }


def near_rows(each: DataSet, trace: Trace, points: Mapping[str, np.ndarray], protocol: str) -> list[dict[str, Any]]:
    """Return the results that the paper's text states about Figures 2 and 3.

    The results are the share of errors below 1,000 s among the first 9,000 scored jobs, and the mean error of the first
    quarter of the scored jobs and of all scored jobs, which grows according to the text. `points` has each method's
    predictions (n,), NaN if a job is not scored.
    """
    rows = []
    for spec, forecasts in points.items():
        error = np.abs(forecasts - trace.run_time)
        error = error[~np.isnan(error)]
        quarter, first = error[: max(len(error) // 4, 1)], error[:9000]
        rows.append(
            {
                "set": each.name, "protocol": protocol, "predictor": spec, "jobs": len(first),
                "below_1000_s": float((first < 1000.0).mean()),
                "printed_below_1000_s": 0.8 if each.name == "HPC2N04" and spec == METHOD else float("nan"),
                "quarter_mae_s": float(quarter.mean()), "mae_s": float(error.mean()),
            }
        )  # fmt: skip
    return rows


def accuracy_of(
    trace: Trace, specs: Sequence[str], protocol: str, label: str, mask: np.ndarray | None = None
) -> Scores:
    """Return scores of the jobs after the first UNTRAINED jobs, or of the jobs that `mask` selects."""
    inside = np.arange(len(trace)) >= UNTRAINED if mask is None else mask
    with progress(label, len(trace)) as tick:
        return score(trace, list(specs), RunSetup(protocol=protocol), mask=inside, tick=tick)


def operators_scores(each: DataSet, whole_log: Trace, first: int | None = None) -> Scores:
    """Learn from the whole log and score the paper's jobs under the honest protocol, as an operator would.

    If `first` is given, only this number of the paper's jobs is scored, and the log ends with the last scored job.
    """
    mask = selection_mask(whole_log, each.selection)
    if first is not None:
        end = int(np.flatnonzero(mask)[:first].max(initial=0)) + 1
        whole_log, mask = whole_log.take(np.arange(end)), mask[:end]
    return accuracy_of(whole_log, OPERATORS, "honest", f"{each.name}: learning from the whole log", mask)


def noise_rows(each: DataSet, trace: Trace, points: Mapping[str, np.ndarray], protocol: str) -> list[dict[str, Any]]:
    """Return the gains of `knn_ga` over each other method in Tables 3 and 4, with the gains' intervals on this data
    set.

    `points` has each method's predictions (n,), NaN if a job is not scored; the paper prints only the gains over Minh
    and Wolters.
    """
    actual, gains = trace.run_time, []
    printed = dict.fromkeys((MINH, MINH_APART), (1 - each.mae / each.mae_minh, each.pu_minh - each.pu))
    others = {**points, "requested": np.where(np.isnan(points[METHOD]), np.nan, trace.req_time)}
    for other, said in others.items():
        if other == METHOD:
            continue
        mae, pu = printed.get(other, (float("nan"), float("nan")))
        near, far = np.abs(points[METHOD] - actual), np.abs(said - actual)
        gains.append(Gain(METHOD, other, "MAE", near, far, mae))
        late, their_late = (np.where(np.isnan(one), np.nan, one < actual) for one in (points[METHOD], said))
        gains.append(Gain(METHOD, other, "PU", late, their_late, pu, points=True))
    named = {"set": each.name, "protocol": protocol}
    return [{**named, **row} for row in gain_rows(gains, burst_groups(trace))]


class Plan(NamedTuple):
    """One setting of Tables 5 and 6: the source of predictions, and the correction of predictions that are too
    short."""

    loop: str
    protocol: str
    correction: str
    planner: Any
    predictor: str = METHOD


def plans(trace: Trace, points: Mapping[str, np.ndarray], closed: Sequence[str] = ("requested",)) -> list[Plan]:
    """Return the settings under which a policy is simulated; `points` are predictions (n,) by protocol (open loop).

    The settings are: the users' requests; the actual run times; open loop under each protocol with each correction;
    open loop with every prediction that is below the run time raised to the run time (`RAISED`), which pyss does and
    which needs the future; closed loop (honest protocol) with each correction of `closed`.
    """
    settings = [
        Plan("requests", "", "requested", "requested", "requested"),
        Plan("perfect", "", "requested", "actual", "actual"),
    ]
    for protocol, forecasts in points.items():
        settings += [Plan("open", protocol, correction, precomputed(forecasts)) for correction in CORRECTIONS]
        settings.append(Plan(RAISED, protocol, "none needed", precomputed(np.fmax(forecasts, trace.run_time))))
    return settings + [Plan("closed", "honest", correction, METHOD) for correction in closed]


def baseline_plans(trace: Trace, points: Mapping[str, np.ndarray]) -> list[Plan]:
    """Return the settings of Tables 5 and 6 with the predictions of the method MINH (n,) by protocol, to compare with
    `knn_ga`."""
    name = MINH.partition(":")[0]
    made = plans(trace, points, closed=())[2:]  # all settings except the requested times and the actual run times
    return [plan._replace(predictor=name) for plan in made if plan.correction in ("requested", "none needed")]


def scheduled(trace: Trace, policy: str, plan: Plan, label: str) -> dict[str, Any]:
    """Return a row of Tables 5 and 6: one policy under one setting, averaged over all jobs, and over the jobs that the
    simulator pyss counts."""
    used = replace(POLICIES[policy], correct=plan.correction if plan.correction in CORRECTIONS else "requested")
    trained = plan.planner == METHOD
    given = fresh_predictor(METHOD, trace, trace.info.max_procs, 0, name=METHOD) if trained else plan.planner
    with progress(label, len(trace)) as tick:
        schedule = simulate(trace, used, given, loop="open" if plan.loop.startswith("open") else "closed", tick=tick)
    words = {"policy": policy, "loop": plan.loop, "predictor": plan.predictor}
    words |= {"protocol": plan.protocol, "correction": plan.correction}
    noise = {} if plan.loop == "requests" else _wait_noise(trace, POLICIES[policy], schedule)
    return words | averages(schedule, np.maximum(trace.req_time, trace.run_time)) | noise


def _wait_noise(trace: Trace, policy: Policy, schedule: Schedule) -> dict[str, float]:
    """Return the 90 % intervals of the gains in mean wait and bounded slowdown over planning with requested times."""
    base = simulate(trace, policy, "requested")
    group = burst_groups(trace)[base.rows]
    slow, their_slow = (bounded_slowdown(one.wait_time, one.run_time) for one in (schedule, base))
    pairs = {"wait_gain": (schedule.wait_time, base.wait_time), "bounded_slowdown_gain": (slow, their_slow)}
    rows = gain_rows([Gain("", "", name, *values) for name, values in pairs.items()], group)
    return {f"{row['measure']}_{end}": row[f"gain_{end}"] for row in rows for end in ("low", "high")}


def baselines(each: DataSet, whole_log: Trace, trace: Trace, points: np.ndarray) -> list[dict[str, Any]]:
    """Compare explanations of the printed waits: other jobs, other machines, run times cut at the prediction.

    The scheduler plans with requested times, on the paper's selection and on the same window with jobs of every status,
    on machines from the log's size down to four fifths of it (wider jobs are left out). The rows of the paper's
    selection also have the result if every job ends at its prediction of `points` (n,): `cut_mean_wait_s`,
    `cut_mean_bounded_slowdown`. A real scheduler cannot end jobs at their prediction, but a simulator that uses the
    shorter of run time and prediction does so.
    """
    jobs_of = {"papers' selection": trace}
    if each.selection.status:
        jobs_of["every status"] = select(whole_log, replace(each.selection, status=()))
    rows = []
    for words, log in jobs_of.items():
        for share in MACHINES:
            size = round(share * log.info.max_procs)
            fits = np.flatnonzero(~(log.procs("req") > size))
            fitting = log.take(fits)
            for policy, used in POLICIES.items():
                schedule = simulate(fitting, used, "requested", total=size)
                figures = averages(schedule, np.maximum(fitting.req_time, fitting.run_time))
                if log is trace:
                    figures |= _cut(fitting, used, points[fits], size)
                rows.append({"jobs_of": words, "processors": size, "policy": policy, **figures})
    return rows


def _cut(trace: Trace, policy: Policy, points: np.ndarray, size: int) -> dict[str, float]:
    """Return the mean wait and slowdown if each job ends at its prediction, unless the job ends earlier."""
    columns = {name: trace.column(name) for name in trace.names}
    shortened = Trace({**columns, "run_time": np.fmin(trace.run_time, points)}, trace.info, is_sorted=True)
    schedule = simulate(shortened, policy, precomputed(points), loop="open", total=size)
    figures = averages(schedule, points)
    return {f"cut_{name}": figures[name] for name in ("mean_wait_s", "mean_bounded_slowdown")}


def averages(schedule: Schedule, estimate: np.ndarray) -> dict[str, float]:
    """Return mean wait and bounded slowdown over all jobs, and over the jobs that pyss counts."""
    wait = schedule.wait_time
    counted = pyss_counts(schedule, estimate[schedule.rows])
    values = {"mean_wait_s": wait, "mean_bounded_slowdown": bounded_slowdown(wait, schedule.run_time)}
    return {
        "jobs": len(schedule),
        **{name: float(value.mean()) for name, value in values.items()},
        "pyss_jobs": int(counted.sum()),
        **{f"pyss_{name}": mean(value[counted]) for name, value in values.items()},
        "corrections": schedule.corrections,
    }


def pyss_counts(schedule: Schedule, estimate: np.ndarray) -> np.ndarray:
    """Return a mask of the jobs over which the simulator pyss averages.

    The simulator pyss omits the first hundredth of the jobs to finish, jobs of one processor with an estimate of one
    second, and jobs that end after the last submission.
    """
    order = np.argsort(schedule.end_time, kind="stable")
    counted = np.ones(len(schedule), bool)
    counted[order[: len(schedule) // 100]] = False
    counted &= ~((estimate == 1) & (schedule.procs == 1))
    return np.asarray(counted & (schedule.end_time <= schedule.submit_time.max(initial=0.0)))


def findings(rows: Mapping[str, Sequence[Mapping[str, Any]]], sets: Sequence[DataSet]) -> list[str]:
    """Return the findings of the tables, in sentences."""
    sentences = []
    for each in sets:
        name = each.name
        theirs = [r for r in rows["3-4"] if (r["set"], r["selection"]) == (name, "papers'")]
        if mine := {r["protocol"]: r for r in theirs if r["predictor"] == "knn_ga"}:
            words = [f"{p} protocol {r['mae_s']:,.0f} s (PU {r['underestimate_rate']:.2f})" for p, r in mine.items()]
            sentences.append(
                f"{name}: mean absolute error {' and '.join(words)}; printed {each.mae:,} s (PU {each.pu:.2f})."
            )
    for each in sets:
        name = each.name
        base = [r for r in rows["5-6"] if r["set"] == name and r["policy"] == "easy" and r["loop"] == "requests"]
        if base:
            sentences.append(
                f"{name}, EASY planned with requests: mean wait {base[0]['mean_wait_min']:.1f} min over all jobs, "
                f"{base[0]['pyss_mean_wait_min']:.1f} min over the jobs that pyss counts; printed {each.waits[0]:.1f} "
                "min."
            )
        theirs = [r for r in rows["3-4"] if (r["set"], r["protocol"], r["selection"]) == (name, "honest", "papers'")]
        honest = {r["predictor"]: r["mae_s"] for r in theirs}
        if "knn_ga" in honest:
            errors = ", ".join(f"{predictor} {error:,.0f} s" for predictor, error in honest.items())
            sentences.append(f"{name}, honest protocol, mean absolute error: {errors}.")
        best = {
            f"{row['loop']} {row['protocol']}".strip(): row["wait_gain"]
            for row in rows["5-6"]
            if row["set"] == name and row["policy"] == "easy" and row["correction"] in ("requested", "none needed")
        }
        if gains := [
            f"{how} {round(100 * gain) + 0} %" for how, gain in best.items() if not how.startswith("requests")
        ]:
            sentences.append(f"{name}, EASY, mean wait shorter than with requests by: {'; '.join(gains)}.")
    return [*sentences, *_cut_sentences(rows["baselines"])]


def _cut_sentences(rows: TableRows) -> list[str]:
    """Return sentences that compare the paper's gains with the gains in a simulation in which every job ends at its
    prediction."""
    sentences = []
    for row in rows:
        if "cut_wait_gain" in row and row["processors"] == max(r["processors"] for r in rows if r["set"] == row["set"]):
            ours, printed = 100 * row["cut_wait_gain"], 100 * row["printed_wait_gain"]
            sentences.append(
                f"{row['set']}, {row['policy']}: if every job ends at its prediction, unless it ends earlier, the mean "
                f"wait is {abs(ours):.1f} % {'shorter' if ours >= 0 else 'longer'} than with requests; printed "
                f"{printed:.1f} % shorter."
            )
    return sentences


PAPERS_SELECTION = "papers' selection (cut first, no history before; with status = 1 only jobs that will succeed)"


TABLES = {
    "2": Table(
        "Table 2: the data sets",
        columns_of(
            "set", "log", "selection", "window|in the window|count", "printed_window|printed|count",
            "jobs|jobs|count", "printed_jobs|printed|count", "printed_minh|Minh, printed|count",
            "taken|selected here|count",
        ),
        (),
        "The paper prints the count of HPC2N05 with two digits swapped. It prints other window counts for the SDSC "
        "sets than these logs have (100,000 is a round number) and does not say why; the counts of the selections "
        "agree.",
    ),
    "3-4": Table(
        "Tables 3 and 4: underestimate rate and mean absolute error",
        columns_of(
            "set", "protocol", "selection", "predictor", "jobs|jobs|count", "underestimate_rate|PU|ratio",
            "printed_pu|PU printed|ratio", "mae_s|MAE, s|number", "printed_mae_s|MAE printed, s|number",
            "coverage_90|within 90 % bound|share", "seconds|took, s|number",
        ),
        (),
        "The first h + t1 = 4500 jobs of each set are not scored; with the operator's history, which is the whole log, "
        "all are. The mean absolute error is in seconds, although the paper's caption says minutes. Took: wall time.",
    ),
    "near": Table(
        "Figures 2 and 3: what the paper's text says",
        columns_of(
            "set", "protocol", "predictor", "jobs|first jobs|count", "below_1000_s|errors below 1,000 s|share",
            "printed_below_1000_s|printed|share", "quarter_mae_s|MAE of the first quarter, s|number",
            "mae_s|MAE of all jobs, s|number",
        ),
        (),
        "The paper says of Figure 2 (some 9,000 jobs of HPC2N04): about 80 % of the errors are below 1,000 s. It says "
        "of Figure 3: the mean error grows with the number of predicted jobs. Here it grows in the rows in which the "
        "MAE of all jobs is above the MAE of the first quarter.",
    ),
    "5-6": Table(
        "Tables 5 and 6: mean wait and bounded slowdown (tau = 10 s)",
        columns_of(
            "set", "policy", "loop", "predictor|planned with", "protocol", "correction",
            "mean_wait_min|wait, min|number", "pyss_mean_wait_min|pyss' own|number", "printed_wait_min|printed|number",
            "wait_gain|gain|share", "wait_gain_words|90 % interval", "printed_wait_gain|printed|share",
            "mean_bounded_slowdown|bsld|number", "pyss_mean_bounded_slowdown|pyss' own|number",
            "printed_bounded_slowdown|printed|number", "bounded_slowdown_gain|gain|share",
            "bounded_slowdown_gain_words|90 % interval", "corrections|corrections|count",
        ),
        (),
        "Events are in the order of the simulator pyss, and no job is killed. 'open, raised': a prediction below the "
        "run time is replaced by the run time, as in pyss. Gains are relative to the same policy with users' limits, "
        "as means over all jobs. The means of pyss leave out the first 1 % of the jobs to finish, jobs on one "
        f"processor with an estimate of 1 s, and jobs that end after the last submission. {PAPERS_SELECTION}.",
    ),
    "baselines": Table(
        "Possible causes of the printed waits and gains",
        columns_of(
            "set", "jobs_of|jobs of", "jobs|jobs|count", "processors|processors|count", "policy",
            "mean_wait_min|wait, min|number", "printed_wait_min|printed|number", "mean_bounded_slowdown|bsld|number",
            "printed_bounded_slowdown|printed|number", "cut_wait_gain|wait gain if cut|share",
            "printed_wait_gain|printed|share", "cut_bounded_slowdown_gain|bsld gain if cut|share",
            "printed_bounded_slowdown_gain|printed|share",
        ),
        (),
        "The scheduler plans with the users' requests. Jobs wider than the machine are left out. Averages are over all "
        "jobs. 'If cut': a job ends at its knn_ga prediction (paper protocol) if it runs longer; no scheduler does "
        "that.",
    ),
    "sensitivity": Table(
        "Sensitivity on {} (" + PAPERS_SELECTION + ")",
        columns_of(
            "predictor|settings", "protocol", "jobs|jobs|count", "underestimate_rate|PU|ratio", "mae_s|MAE, s|number",
            "coverage_90|within 90 % bound|share", "seconds|took, s|number",
        ),
        (),
        "All rows omit the first 7000 jobs, because h=5000,t1=2000 is not trained before.",
    ),
}  # fmt: skip
"""The tables of the page without their rows, by the names in `Gathered.table_names`."""


def tables(rows: Mapping[str, TableRows], sensitive: str) -> list[Table]:
    """Return the tables that have at least one row; `sensitive` is the data set of the sensitivity runs."""
    keys, made = ("wait_gain", "bounded_slowdown_gain"), []
    for name, of_table in rows.items():
        if name == "noise" and of_table:
            naming = [("set", "set"), ("protocol", "protocol")]
            caption = "Are the gains of Tables 3 and 4 larger than the noise of their data set?"
            made.append(gain_table(of_table, naming, caption))
        elif of_table:
            table = TABLES[name]
            if name == "5-6":
                of_table = [{**row, **{f"{key}_words": _gain_words(row, key) for key in keys}} for row in of_table]
            made.append(replace(table, caption=table.caption.format(sensitive), rows=of_table))
    return made


def _gain_words(row: Mapping[str, Any], key: str) -> str | None:
    """Return the interval of a gain as text; None if the row has no interval."""
    low, high = (row.get(f"{key}_{end}") for end in ("low", "high"))
    return None if low is None or high is None else f"{100 * low:.1f} to {100 * high:.1f} %"


def _printed(each: DataSet, policy: str, predicted: bool) -> dict[str, float]:
    """Return the mean wait and the slowdown that the paper prints for a data set, planned with requests or with
    predictions."""
    at = 2 * (policy == "easy-sjbf") + predicted
    return {"printed_wait_min": each.waits[at], "printed_bounded_slowdown": each.slowdowns[at]}


def _printed_gains(each: DataSet, policy: str) -> dict[str, float]:
    """Return the gains of predictions over requests in mean wait and slowdown, as the paper's values give them."""
    (wait, slow), (better_wait, better_slow) = (
        _printed(each, policy, predicted).values() for predicted in (False, True)
    )
    return {"printed_wait_gain": 1 - better_wait / wait, "printed_bounded_slowdown_gain": 1 - better_slow / slow}


def with_printed_requests(rows: TableRows, each: DataSet) -> list[dict[str, Any]]:
    """Return the rows of a data set with waits in minutes, and with the paper's values under the same policy."""
    extended = []
    for row in rows:
        extra = {**_printed(each, row["policy"], False), **_printed_gains(each, row["policy"])}
        extra["mean_wait_min"] = row["mean_wait_s"] / 60
        if "cut_mean_wait_s" in row:
            extra["cut_wait_gain"] = 1 - row["cut_mean_wait_s"] / row["mean_wait_s"]
            extra["cut_bounded_slowdown_gain"] = 1 - row["cut_mean_bounded_slowdown"] / row["mean_bounded_slowdown"]
        extended.append({**row, **extra})
    return extended


def with_gains(rows: TableRows, each: DataSet) -> list[dict[str, Any]]:
    """Return a data set's rows of Tables 5 and 6 with waits in minutes, gains over planning with requested times (same
    policy), and printed figures.

    The figures that the paper prints for predictions are in the row whose setting can explain them: open loop, paper
    protocol, predictions raised to the run time.
    """
    base = {row["policy"]: row for row in rows if row["loop"] == "requests"}
    extended = []
    for row in rows:
        policy, requests = row["policy"], base[row["policy"]]
        extra = {
            "mean_wait_min": row["mean_wait_s"] / 60,
            "pyss_mean_wait_min": row["pyss_mean_wait_s"] / 60,
            "wait_gain": 1 - row["mean_wait_s"] / requests["mean_wait_s"],
            "bounded_slowdown_gain": 1 - row["mean_bounded_slowdown"] / requests["mean_bounded_slowdown"],
        }
        if row["loop"] == "requests":
            extra |= _printed(each, policy, False)
        elif (row["loop"], row["protocol"], row["predictor"]) == (RAISED, "paper", METHOD):
            extra |= _printed(each, policy, True)
            extra["printed_wait_gain"] = _printed_gains(each, policy)["printed_wait_gain"]
        extended.append({**row, **extra})
    return extended


def pictures(
    name: str, requested: np.ndarray, run: np.ndarray, points_of: Mapping[str, Mapping[str, np.ndarray]]
) -> list[Figure]:
    """Draw Figures 1 to 3 for one data set; `points_of` has predictions (n,) by protocol and method, NaN if a job is
    not scored."""
    drawn = [cdf(f"Figure 1 · {name}: requested and actual time", {"requested": requested, "actual": run}, x="time")]
    for protocol, points in points_of.items():
        errors = {_short(spec): np.abs(forecasts - run) for spec, forecasts in points.items()}
        means = {label: running_mean(error) for label, error in errors.items()}
        where = f"{name}, {protocol} protocol"
        drawn.append(cdf(f"Figure 2 · {where}: absolute error", errors, x="absolute error"))
        grows = f"Figure 3 · {where}: mean absolute error as jobs go by"
        drawn.append(lines(grows, means, x="jobs predicted", y="MAE", kind="seconds"))
    return drawn


def _short(spec: str) -> str:
    """Return a method's name for a legend: only its settings for `knn_ga`, only its name for the baseline."""
    name, _, settings = spec.partition(":")
    return settings if settings and name == "knn_ga" else name


READING = (
    "The baseline minh_wolters follows this paper's description of it. Its authors printed no settings, so we search "
    "it as thoroughly as knn_ga. The tables have it without and with separate parameters for large and small jobs "
    "(apart=yes). The paper does not say which of both its printed figures belong to, so they are beside both. A gain "
    "over minh_wolters is therefore a gain over our version of it. Compare knn_ga with last_2 and recent_mean too, "
    "which have no settings to choose.",
    "Honest protocol: neighbours are jobs that have ended before the predicted job is submitted. Paper protocol: "
    "earlier jobs in log order are neighbours even if they have not ended, which no running system can do.",
    "In Tables 5 and 6 the scheduler plans the first 4500 jobs with their requested times, because no window is full "
    "before.",
    "The paper does not print the genetic operators; ours are described in papers.online_knn_ga.genetic. Seeds are "
    "fixed.",
    "The fitness divides the relative error by exp((1 - PU)^2), so the search accepts a larger error for fewer "
    "underestimates. knn_ga:pu_weight=0 shows the error without that trade. knn_ga:h=1000000,first=0 shows the "
    "untrained rule (same user, the 5 nearest, nothing added) for all jobs.",
    "The paper does not say how the simulations of Tables 5 and 6 treat a job that runs longer than its estimate. "
    "pyss raises such an estimate to the run time, so it knows the run time of every underestimated job: the rows "
    "'open, raised'. Without this knowledge the scheduler must correct the estimate; the rows with corrections show "
    "how much of the gain remains.",
    "'If cut' is not a schedule: a simulator that takes the shorter of run time and prediction ends jobs that in fact "
    "ran longer. Each row of that table shows whether the printed gain has this size.",
)


class Gathered(Gathering):
    """The rows of each table, the figures and the logs' checksums; each part of the results is stored when it is
    finished."""

    paper, title = "online-knn-ga", "Online run-time prediction by similar jobs (Xu et al. 2018)"
    table_names = ("2", "3-4", "noise", "near", "5-6", "baselines", "sensitivity")
    reading = READING

    def add(
        self, each: DataSet, traces: Path, chosen_parts: set[str], closed: Sequence[str], sensitivity: bool
    ) -> None:
        """Compute and add all requested results for one data set."""
        whole_log, trace = load(each, traces, self.first)
        self.hashes[each.log] = whole_log.info.sha256
        self.rows["2"].append({**table_2_row(each, whole_log), "selection": _words(each), "taken": len(trace)})
        forecasts: dict[str, dict[str, np.ndarray]] = {}
        needed = {"accuracy", "minh", "local", "baselines", "schedules", "sensitivity"}
        for protocol in PROTOCOLS if chosen_parts & needed else ():
            # the method's settings as published, without the accuracy trade-off, and untrained
            forecasts[protocol] = self._scored(each, trace, protocol, "", [METHOD, *REFERENCE_METHODS])
            say(_latest(self.rows["3-4"]))
            for part, specs in {"minh": [MINH, MINH_APART], "local": LOCAL}.items():
                if part in chosen_parts:
                    forecasts[protocol] |= self._scored(each, trace, protocol, part, specs)
        for protocol, said in forecasts.items():
            self.rows["noise"] += noise_rows(each, trace, said, protocol)
            self.rows["near"] += near_rows(each, trace, said, protocol)
        if forecasts:
            self.pictures += pictures(each.name, trace.req_time, trace.run_time, forecasts)
        if "operator" in chosen_parts:
            run = partial(_stored, (), operators_scores, each, whole_log, self.first)
            part = self._part(each, "operator", {"specs": OPERATORS}, run)
            self.rows["3-4"] += _accuracy_rows(each, part["rows"], "honest", "operator's")
            say(_latest(self.rows["3-4"]))
        planned, minh = (
            # the first jobs have no prediction, and are planned with their requested time
            {p: np.where(np.isnan(of[spec]), trace.req_time, of[spec]) for p, of in forecasts.items() if spec in of}
            for spec in (METHOD, MINH)
        )
        if "baselines" in chosen_parts:
            compute = partial(baselines, each, whole_log, trace, planned["paper"])
            rows = self._part(each, "baselines", {"method": METHOD, "protocol": "paper"}, compute)
            self.rows["baselines"] += with_printed_requests([{"set": each.name, **row} for row in rows], each)
        if "schedules" in chosen_parts:
            settings = [*plans(trace, planned, closed), *baseline_plans(trace, minh)]
            self.rows["5-6"] += with_gains(self._schedules(each, trace, settings), each)
        if "sensitivity" in chosen_parts and sensitivity:
            self._sensitivity(each, trace, forecasts)

    def _part(self, each: DataSet, name: str, made_of: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
        """Return a stored or computed part of the results on one data set."""
        return self.part(each.log, f"{each.name}-{name}", {"selection": _words(each), **made_of}, compute)

    def _scored(
        self, each: DataSet, trace: Trace, protocol: str, part: str, specs: Sequence[str]
    ) -> dict[str, np.ndarray]:
        """Add rows of Tables 3 and 4 for the given methods; return the predictions (n,) of the methods that are
        trained."""
        label = ", ".join(filter(None, (each.name, f"{protocol} protocol", part)))
        name = "-".join(filter(None, (protocol, part)))
        run = partial(_stored, specs if part else TRAINED, accuracy_of, trace, specs, protocol, label)
        kept = self._part(each, name, {"specs": list(specs), "protocol": protocol}, run)
        self.rows["3-4"] += _accuracy_rows(each, kept["rows"], protocol, "papers'")
        return {spec: np.array(points) for spec, points in kept["points"].items()}

    def _schedules(self, each: DataSet, trace: Trace, settings: Sequence[Plan]) -> list[dict[str, Any]]:
        """Return a row of Tables 5 and 6 for each policy and setting."""
        rows = []
        for policy, plan in product(POLICIES, settings):
            words = [policy, plan.loop.replace(", ", "-"), plan.protocol, plan.correction.replace(" ", "-")]
            words.append("" if plan.predictor in (METHOD, "requested", "actual") else plan.predictor)
            name = "-".join(filter(None, words))
            run = partial(scheduled, trace, policy, plan, f"{each.name} {name}")
            origin = {"method": MINH if plan.predictor == "minh_wolters" else METHOD}
            rows.append({"set": each.name, **self._part(each, name, origin, run)})
        return rows

    def _sensitivity(self, each: DataSet, trace: Trace, forecasts: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Add rows for the settings of SENSITIVITY, and for the settings of Tables 3 and 4 over the jobs that all
        settings score."""
        mask = np.arange(len(trace)) >= 5000 + 2000  # then all settings of SENSITIVITY are trained
        for protocol in PROTOCOLS:
            rows: list[dict[str, Any]] = [
                {"predictor": spec, **accuracy(points[mask], trace.run_time[mask])}
                for spec, points in forecasts[protocol].items()
            ]
            for at, spec in enumerate(SENSITIVITY):
                label = f"{each.name}: {spec}, {protocol} protocol"
                run = partial(_stored, (), accuracy_of, trace, [spec], protocol, label, mask)
                origin = {"spec": spec, "protocol": protocol}
                rows += self._part(each, f"sensitivity-{protocol}-{at}", origin, run)["rows"]
            self.rows["sensitivity"] += [{"protocol": protocol, **row} for row in rows]


def _words(each: DataSet) -> str:
    """Return the selection of a data set in words, with the log's time zone."""
    chosen = each.selection
    parts = [f"from {chosen.since}" if chosen.since else "", f"to {chosen.until}" if chosen.until else ""]
    parts += [f"status {','.join(chosen.status)}" if chosen.status else "", each.timezone or ""]
    return ", ".join(filter(None, parts))


def _stored(points_of: Sequence[str], run: Callable[..., Scores], *given: Any) -> dict[str, Any]:
    """Return the stored part of a replay's results: accuracy measures, and predictions of the methods `points_of`."""
    scores = run(*given)
    return {"rows": figures(scores), "points": {spec: scores.points[spec].tolist() for spec in points_of}}


def _accuracy_rows(
    each: DataSet, rows: Sequence[Mapping[str, Any]], protocol: str, selection: str
) -> list[dict[str, Any]]:
    """Return our figures beside the paper's figures, under every protocol of learning, because the paper does not state
    its protocol."""
    of_minh = {"printed_pu": each.pu_minh, "printed_mae_s": each.mae_minh}
    of_method = {"printed_pu": each.pu, "printed_mae_s": each.mae}
    printed = {METHOD: of_method, MINH: of_minh, MINH_APART: of_minh}
    where = {"set": each.name, "protocol": protocol, "selection": selection}
    return [{**where, **row, **printed.get(row["predictor"], {})} for row in rows]


def _latest(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the latest result of `knn_ga` as a line of text, to show the progress of a long run."""
    row = next(row for row in reversed(rows) if row["predictor"] == "knn_ga")
    where = f"{row['set']}, {row['protocol']} protocol, {row['selection']} selection"
    return f"{where}: MAE {row['mae_s']:,.0f} s, PU {row['underestimate_rate']:.3f}, {row['seconds']:.0f} s"
