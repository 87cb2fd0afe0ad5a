# SPDX-License-Identifier: Apache-2.0
"""Scores methods on a table of VASP runs, split 80/20 in time and by system, over bootstrap resamples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ...errors import UsageError
from ...evaluation.differences import Keys, burst_groups, compared
from ...events.recorded import events
from ...events.state import SystemState
from ...metrics.accuracy import APA, MAE, accuracy, best_relative_error, precision_recall, relative_accuracy
from ...predict.gate import class_key
from ...predict.registry import available, make, parse_spec
from ...report.blocks import Table
from ...table import Trace
from ..shared import columns_of
from .brbf import BrbfModel
from .features import FEATURES, TEXT_FEATURES
from .learner import KEY
from .runs import Runs

BASELINES = ("parzen:keys=ispin+isym+lreal+prec,window=500", "user_clusters", "boosted")
ENSEMBLES = ("irpa", "irpa:upper=forest", "brbf", "brbf:key_min=300")
METHODS = ("forest", "svr", "bayesian_ridge", *ENSEMBLES, *BASELINES)
SPLITS = ("time", "system")
AGAINST = "forest"
RANGES = tuple((30 * k, 30 * (k + 1)) for k in range(6)) + ((180, 0),)
CUTS = (60, 120)
TRAIN = 0.8
NOT_INSTALLED = "not installed yet"


class Split(NamedTuple):
    """One split of a trace: the rows for training and the rows for testing, ascending."""

    train: np.ndarray
    test: np.ndarray


def time_split(runs: Runs) -> Split:
    """Split in time: the first 80 % are for training, the last 20 % for testing; training runs that overlap the test
    period are not used."""
    trace = runs.trace
    cut = int(TRAIN * len(trace))
    first = trace.submit_time[cut]
    over = trace.submit_time[:cut] + trace.run_time[:cut] <= first
    return Split(np.flatnonzero(over), np.arange(cut, len(trace)))


def system_split(runs: Runs, rng: np.random.Generator) -> Split:
    """Split by system: random whole systems with about a fifth of the runs are for testing, the other runs are for
    training."""
    names, counts = np.unique(runs.system, return_counts=True)
    order = rng.permutation(len(names))
    held = names[order[: 1 + int(np.searchsorted(np.cumsum(counts[order]), (1 - TRAIN) * len(runs.system)))]]
    is_test = np.isin(runs.system, held)
    return Split(np.flatnonzero(~is_test), np.flatnonzero(is_test))


def resampled(split: Split, rng: np.random.Generator) -> Split:
    """Draw a bootstrap resample: the training rows and the test rows, each with replacement, sorted."""
    return Split(*(np.sort(rng.choice(rows, size=len(rows))) for rows in split))


def predict_split(trace: Trace, split: Split, spec: str, seed: int = 0) -> tuple[np.ndarray, dict[str, float]]:
    """Predict the test rows by a method; return the predictions (n,), the cost, and figures about BRBF's networks.

    The method observes every event of the training rows, is refitted once, and then predicts each test row without
    learning: the paper's static protocol. The cost is the time of training in seconds and the time of one prediction in
    milliseconds. `key_networks` is the number of keys with their own network, `by_key_network` the share of test rows
    that these networks predict (NaN for methods without such networks).
    """
    parameters = {"seed": seed, "rng": np.random.default_rng(seed)}
    unset = {name: value for name, value in parameters.items() if name not in parse_spec(spec)[1]}
    taught = trace.take(split.train)
    method = make("runtime", spec, known_at_submit=trace.info.known_at_submit, **unset)
    state = SystemState()
    began = perf_counter()
    for event in events(taught):
        state.apply(event)
        method.observe(event, state)
    if hasattr(method, "refit"):
        method.refit(state.now)
    learnt = perf_counter()
    asked = trace.take(split.test)
    points = np.array([method.predict(job, state).point for job in asked.requests()])
    ask_ms = 1000 * (perf_counter() - learnt) / max(len(asked), 1)
    model, networks, by_key = getattr(method, "model", None), 0, float("nan")
    if isinstance(model, BrbfModel):
        networks = len(model.networks)
        by_key = float(np.mean([model.has_network(class_key(job, method.uses)) for job in asked.requests()]))
    cost = {"learn_s": learnt - began, "predict_ms": ask_ms}
    return points, {**cost, "key_networks": networks, "by_key_network": by_key}


def study(
    runs: Runs,
    methods: Sequence[str] = METHODS,
    *,
    splits: Sequence[str] = SPLITS,
    resamples: int = 10,
    seed: int = 0,
    tick: Callable[[int], None] = lambda done: None,
) -> list[dict[str, Any]]:
    """Return one flat dictionary per split and method: means over the resamples; `..._sd` are standard deviations.

    Every resample draws training and test rows with replacement; a split by system also draws new systems. If
    `resamples` is 1, the split itself is used without resampling. Differences to `forest` (apa, MAE), with 90 %
    intervals, are computed on the split itself, paired over groups: the runs of one system, or if there is only one
    system, one user's submissions of one week. A method that is not registered gets a dictionary with a `note`. Equal
    seeds give equal results.
    """
    if resamples < 1:
        raise UsageError("--resamples: at least 1")
    registered = available("runtime")
    results: list[dict[str, Any]] = []
    done = 0
    for split in splits:
        points_of: dict[str, np.ndarray] = {}
        plain = _split(runs, split, np.random.default_rng([seed, SPLITS.index(split), 0]))
        for spec in methods:
            if parse_spec(spec)[0] not in registered:
                results.append({"predictor": spec, "split": split, "note": NOT_INSTALLED})
                continue
            figures = []
            if resamples > 1:
                points_of[spec] = predict_split(runs.trace, plain, spec, seed)[0]
            for number in range(resamples):
                rng = np.random.default_rng([seed, SPLITS.index(split), number])
                rows = resampled(_split(runs, split, rng), rng) if resamples > 1 else plain
                points, more = predict_split(runs.trace, rows, spec, seed)
                points_of.setdefault(spec, points)
                figures.append(figures_of(points, runs.trace.run_time[rows.test]) | more)
                done += 1
                tick(done)
            results.append({"predictor": spec, "split": split, "resamples": resamples, **_summary(figures)})
        keys = _differences(runs, plain.test, points_of, seed)
        results = [row | keys.get(row["predictor"], {}) if row["split"] == split else row for row in results]
    return results


def _split(runs: Runs, split: str, rng: np.random.Generator) -> Split:
    return time_split(runs) if split == "time" else system_split(runs, rng)


def _differences(runs: Runs, test: np.ndarray, points: Mapping[str, np.ndarray], seed: int) -> Keys:
    """Return the entries to add to each method's row: the method's differences to the method `AGAINST` over the test
    rows."""
    if AGAINST not in points or len(points) < 2:
        return {}
    systems = np.unique(runs.system[test], return_inverse=True)[1]
    by_system = len(np.unique(systems)) > 1
    group = systems if by_system else burst_groups(runs.trace)[test]
    actual = runs.trace.run_time[test]
    values = {
        spec: {"apa": relative_accuracy(said, actual), "mae_s": np.abs(said - actual)} for spec, said in points.items()
    }
    scored = np.zeros(len(runs.trace), dtype=bool)
    scored[test] = True
    keys = compared(runs.trace, scored, group, values, AGAINST, (APA, MAE), seed)
    words = {"groups_of": "one system's runs"} if by_system else {}
    for row in keys.values():
        row["differences"] = {name: replace(one, decided_by="") for name, one in row.get("differences", {}).items()}
    return {spec: row | words for spec, row in keys.items()}


def figures_of(predicted: np.ndarray, actual: np.ndarray) -> dict[str, float]:
    """Return accuracy measures: Return a method's scores: ACC and REC per range and cut, MRE, MAE, APA, and the share
    of underestimates."""
    house = accuracy(predicted, actual)
    figures = {name: house[name] for name in ("jobs", "mae_s", "apa", "underestimate_rate")}
    figures["best_90_mre"] = best_relative_error(predicted, actual)
    ranges = {f"under_{cut}_min": (0, cut) for cut in CUTS} | {range_name(*ends): ends for ends in RANGES}
    for name, (low, high) in ranges.items():
        pair = precision_recall(predicted, actual, 60.0 * low, 60.0 * high if high else np.inf)
        figures[f"acc_{name}"], figures[f"rec_{name}"] = pair
    return figures


def distribution(runs: Runs) -> list[dict[str, Any]]:
    """Return table 2: the share of runs in each range, of all runs, and of the training and the test runs of the split
    in time."""
    split = time_split(runs)
    parts = {"all": np.arange(len(runs.trace)), "train": split.train, "test": split.test}
    minutes = {f"share_{part}": runs.trace.run_time[members] / 60.0 for part, members in parts.items()}
    return [
        {"range_min": f"{low}-{high}" if high else f">{low}"}
        | {name: float(((m >= low) & (m < (high or np.inf))).mean()) for name, m in minutes.items()}
        for low, high in RANGES
    ]


def core_time(runs: Runs) -> dict[str, float]:
    """Return figure 1: the share of processor time by kind of run."""
    spent = runs.trace.run_time * runs.trace.procs()
    return {str(kind): float(spent[runs.kind == kind].sum() / spent.sum()) for kind in np.unique(runs.kind)}


def facts(runs: Runs) -> dict[str, Any]:
    """Return facts that limit the conclusions: constant features, number of BRBF's keys, shortest run, drift in time.

    `kinds_train_only` is, in the split in time, the share of training runs of kinds that do not occur among the test
    runs.
    """
    trace = runs.trace
    columns = {name: trace.nominal(name).codes if name in TEXT_FEATURES else trace.number(name) for name in FEATURES}
    split = time_split(runs)
    tested = np.unique(runs.kind[split.test])
    return {
        "constant_features": [name for name, values in columns.items() if len(np.unique(values)) == 1],
        "keys": len(np.unique(np.column_stack([columns[name] for name in KEY]), axis=0)),
        "shortest_s": float(trace.run_time.min()),
        "share_under_30_min": float((trace.run_time < 1800.0).mean()),
        "kinds_train_only": float((~np.isin(runs.kind[split.train], tested)).mean()),
    }


def range_name(low: int, high: int) -> str:
    """`30_60_min`, `over_180_min`."""
    return f"{low}_{high}_min" if high else f"over_{low}_min"


def _summary(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean and standard deviation of each score, over the resamples in which the score is defined."""
    summary: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy warns if all values are undefined; the result is NaN
        for name in figures[0]:
            values = np.array([one[name] for one in figures])
            summary[name] = float(np.nanmean(values))
            if name not in ("jobs", "learn_s", "predict_ms", "key_networks", "by_key_network"):
                summary[f"{name}_sd"] = float(np.nanstd(values, ddof=1)) if len(values) > 1 else float("nan")
    return summary


Rows = Sequence[Mapping[str, Any]]
PRINTED = {
    # tables 3 and 4: ACC and REC of 0-30, 30-60, 60-90, 90-120, 120-150, 150-180 minutes
    "forest": ((0.897, 0.207, 0.077, 0.154, 0.048, 0.0), (0.984, 0.036, 0.053, 0.125, 0.021, 0.0)),
    "bayesian_ridge": ((0.887, 0.099, 0.034, 0.0, 0.0, 0.053), (0.974, 0.027, 0.211, 0.0, 0.0, 0.1)),
    "svr": ((0.892, 0.578, 0.052, 0.0, 0.0, 0.0), (0.967, 0.111, 0.684, 0.0, 0.0, 0.0)),
    "parzen": ((0.817, 0.093, 0.0, 0.006, 0.032, 0.0), (0.477, 0.264, 0.0, 0.063, 0.064, 0.0)),
}
TABLE_2 = (
    # set of jobs, our column, minutes, first and end of their `RANGES`, printed share; the last three are from the text
    ("first", "share_all", "0-30", 0, 1, 0.557, ""),
    ("first", "share_all", "30-60", 1, 2, 0.096, ""),
    ("first", "share_all", "60-90", 2, 3, 0.049, ""),
    ("first", "share_all", "90-120", 3, 4, 0.033, ""),
    ("first", "share_all", ">120", 4, None, 0.265, ""),
    ("first, tested", "share_test", "0-60", 0, 2, 0.9, "the paper says: more than"),
    ("second, tested", "share_test", "0-60", 0, 2, 0.68, "printed: about"),
    ("second, tested", "share_test", "0-120", 0, 4, 0.75, "printed: about"),
)
PRINTED_SHARES = {row[2]: row[5] for row in TABLE_2[:5]}
TITLES = ("Table 3: ACC (precision) per range of run time", "Table 4: REC (recall) per range of run time")
NOTE = (
    "A dash: no job was predicted in the range (ACC), no job ran for a time in the range (REC), or the paper prints no "
    "value. The paper's jobs are other jobs; its rows beyond 60 minutes look shifted."
)


def range_tables(rows: Rows, words: str) -> list[Table]:
    """Return Tables 3 and 4; the paper's values are in a row below each method that the paper has."""
    tables = []
    for title, measure in zip(TITLES, ("acc", "rec")):
        names = [f"{measure}_{range_name(low, high)}" for low, high in RANGES]
        shown: list[dict[str, Any]] = []
        for row in rows:
            shown.append({"name": row["name"], **{name: row[name] for name in names}})
            if printed := PRINTED.get(str(row["predictor"]).split(":")[0]):
                shown.append({"name": f"{row['name']}, printed", **dict(zip(names, printed[measure == "rec"]))})
        titles = [f"{low}-{high} min" if high else f"> {low} min" for low, high in RANGES]
        columns = columns_of("name|predictor", *(f"{name}|{range}|ratio" for name, range in zip(names, titles)))
        tables.append(Table(f"{title} · {words}", columns, shown, NOTE))
    return tables


def shares_table(shares: Rows) -> Table:
    """Return Table 2 of the synthetic sets of jobs; for the second set the paper prints only two sums."""
    rows = []
    for jobs, column, minutes, first, end, printed, note in TABLE_2:
        ranges = [float(row[column]) for row in shares if row["data"] == jobs.partition(",")[0]]
        if ranges:
            ours = sum(ranges[first:end])
            rows.append({"data": jobs, "range": minutes, "ours": ours, "printed": printed, "note": note})
    columns = columns_of("data|set", "range|minutes", "ours|ours|share", "printed|printed|share", "note|")
    note = (
        "In the paper's Table 2, 65 % of all jobs run less than an hour; in its text, more than 90 % of the tested "
        "fifth do, so its jobs became shorter over time. The synthetic jobs have the same distribution at all times."
    )
    return Table("Table 2: distribution of run times", columns, rows, note)
