# SPDX-License-Identifier: Apache-2.0
"""Xu, Xiong & Xiao 2018 on the paper's data: Tables 2 to 6, sensitivity runs, and accuracy results for the operator of
a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...cli.output import progress
from ...evaluation.accuracy import Scores, fresh_predictor, score
from ...evaluation.differences import burst_groups
from ...metrics.measure import mean
from ...metrics.schedule import bounded_slowdown
from ...simulation import Policy, Schedule, simulate
from ...table import Trace
from ...trace import Selection, read_trace, select, selection_mask
from ..shared import Gain, Precomputed, gain_rows


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
BESIDE = (NO_TRADE, FIXED, "requested", "last_2", "recent_mean")
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
    whole = read_trace(str(traces / each.log), timezone=each.timezone)
    trace = select(whole, each.selection)
    return whole, trace if first is None else trace.take(np.arange(min(first, len(trace))))


def table_2_row(each: DataSet, whole: Trace) -> dict[str, Any]:
    """Return a row of Table 2: numbers of jobs in the time window and in the selection, beside the paper's numbers.

    The paper prints for each set the number of jobs in the window, the number that Minh and Wolters used, and the
    number that the paper used.
    """
    return {
        "set": each.name,
        "log": each.log,
        "window": len(select(whole, replace(each.selection, status=()))),
        "printed_window": each.printed_window,
        "jobs": int(selection_mask(whole, each.selection).sum()),
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
        return score(trace, list(specs), protocol=protocol, mask=inside, tick=tick)


def operators_scores(each: DataSet, whole: Trace, first: int | None = None) -> Scores:
    """Learn from the whole log and score the paper's jobs under the honest protocol, as an operator would.

    If `first` is given, only this number of the paper's jobs is scored, and the log ends with the last scored job.
    """
    mask = selection_mask(whole, each.selection)
    if first is not None:
        end = int(np.flatnonzero(mask)[:first].max(initial=0)) + 1
        whole, mask = whole.take(np.arange(end)), mask[:end]
    return accuracy_of(whole, OPERATORS, "honest", f"{each.name}: learning from the whole log", mask)


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
        settings += [Plan("open", protocol, correction, Precomputed(forecasts)) for correction in CORRECTIONS]
        settings.append(Plan(RAISED, protocol, "none needed", Precomputed(np.fmax(forecasts, trace.run_time))))
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
    named = POLICIES[policy]
    used = replace(named, correct=plan.correction if plan.correction in CORRECTIONS else "requested")
    trained = plan.planner == METHOD
    given = fresh_predictor(METHOD, trace, trace.info.max_procs, 0, who=METHOD) if trained else plan.planner
    loop = "open" if plan.loop.startswith("open") else "closed"
    with progress(label, len(trace)) as tick:
        schedule = simulate(trace, used, given, loop=loop, tick=tick)
    words = {"policy": policy, "loop": plan.loop, "predictor": plan.predictor}
    words |= {"protocol": plan.protocol, "correction": plan.correction}
    noise = {} if plan.loop == "requests" else _wait_noise(trace, named, schedule)
    return words | averages(schedule, np.maximum(trace.req_time, trace.run_time)) | noise


def _wait_noise(trace: Trace, policy: Policy, schedule: Schedule) -> dict[str, float]:
    """Return the 90 % intervals of the gains in mean wait and bounded slowdown over planning with requested times."""
    base = simulate(trace, policy, "requested")
    group = burst_groups(trace)[base.rows]
    slow, their_slow = (bounded_slowdown(one.wait_time, one.run_time) for one in (schedule, base))
    gains = [
        Gain("", "", "wait_gain", schedule.wait_time, base.wait_time),
        Gain("", "", "bounded_slowdown_gain", slow, their_slow),
    ]
    rows = gain_rows(gains, group)
    return {f"{row['measure']}_{end}": row[f"gain_{end}"] for row in rows for end in ("low", "high")}


def baselines(each: DataSet, whole: Trace, trace: Trace, points: np.ndarray) -> list[dict[str, Any]]:
    """Compare explanations of the printed waits: other jobs, other machines, run times cut at the prediction.

    The scheduler plans with requested times, on the paper's selection and on the same window with jobs of every status,
    on machines from the log's size down to four fifths of it (wider jobs are left out). The rows of the paper's
    selection also have the result if every job ends at its prediction of `points` (n,): `cut_mean_wait_s`,
    `cut_mean_bounded_slowdown`. A real scheduler cannot end jobs at their prediction, but a simulator that uses the
    shorter of run time and prediction does so.
    """
    jobs_of = {"papers' selection": trace}
    if each.selection.status:
        jobs_of["every status"] = select(whole, replace(each.selection, status=()))
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
    schedule = simulate(shortened, policy, Precomputed(points), loop="open", total=size)
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
