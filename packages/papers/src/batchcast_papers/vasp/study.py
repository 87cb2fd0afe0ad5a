# SPDX-License-Identifier: Apache-2.0
"""Tables 2 to 5 and figures 1 and 6 to 9 of Wu et al. 2019, for a table of VASP runs and for synthetic jobs.

Methods are scored on runs split 80/20 in time and by system, over bootstrap resamples.
"""

from __future__ import annotations

import csv
import gzip
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from batchcast.errors import UsageError, input_error
from batchcast.evaluation.differences import Comparisons, ResultRow, burst_groups, compared
from batchcast.events.recorded import events
from batchcast.events.state import SystemState
from batchcast.inputs.features import FEATURES, TEXT_FEATURES, features
from batchcast.inputs.incar import parse_incar
from batchcast.inputs.poscar import Poscar, Potential
from batchcast.metrics.accuracy import APA, MAE, accuracy, relative_accuracy
from batchcast.metrics.paired import DECIDES, LEAST_GROUPS, Difference
from batchcast.predict.gate import class_key
from batchcast.predict.registry import available, make, parse_spec
from batchcast.report.blocks import Block, Callout, Figure, Section, Table, TableRows, columns_of
from batchcast.report.difference import difference_words
from batchcast.report.figures import bars
from batchcast.table import LogInfo, Nominal, Trace
from batchcast.units import span
from batchcast_papers.measures import best_relative_error, precision_recall

from .methods import KEY, Brbf

COPY = ("date", "elapsed_s", "cpu_s", "maxmem_kb")
NEEDED = (*COPY, "cores", "titel", "zval", "ions_per_type", "nkpts", "nbands", "nelect", "encut", "prec", "ispin",
          "lhfcalc", "lreal", "nelm", "ediff", "volume")  # fmt: skip


class Runs(NamedTuple):
    """Distinct runs in time order: the trace, and for each job its system (chemical formula) and its kind of
    calculation."""

    trace: Trace
    system: np.ndarray
    kind: np.ndarray


def read_runs(path: str | Path) -> Runs:
    """Read the runs that have an elapsed time; rows with equal date, elapsed time, CPU time and memory are one run.

    The CSV has one row per OUTCAR with the columns `NEEDED`. Features follow `vasp.features` as far as the table of
    runs has the data: ISYM, ISTART, ICHARG, NELMIN and EDIFFG are VASP's defaults. The submission is the time at which
    VASP began; the wait is 0. A *system* is a chemical formula with any geometry and potentials, because features do
    not distinguish geometries. Rows that were dropped are counted in `info.dropped`. An InputError names the file and
    line.
    """
    name = str(path)
    dropped = {"no elapsed time": 0, "copy of a run (same date, elapsed, CPU time, memory)": 0}
    unfinished, copy = dropped
    runs: dict[tuple[str, ...], dict[str, str]] = {}
    for line, row in _rows(Path(path), name):
        key = tuple(row[column] for column in COPY)
        if not row["elapsed_s"]:
            dropped[unfinished] += 1
        elif key in runs:
            dropped[copy] += 1
        else:
            runs[key] = row | {"line": str(line)}
    made = sorted((_run(row, name) for row in runs.values()), key=lambda run: run["submit_time"])
    cells = {column: [run[column] for run in made] for column in made[0]}
    system, kind = (np.array(cells.pop(column)) for column in ("system", "kind"))
    columns = {k: Nominal.encode(v) if k in TEXT_FEATURES else np.array(v, float) for k, v in cells.items()}
    return Runs(Trace.from_arrays(columns, LogInfo(source=name, format="csv", dropped=dropped)), system, kind)


def _rows(path: Path, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line number and the cells of each row of the table; InputError if the file is not such a table."""
    try:
        opened: Any = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", newline="", encoding="utf-8") as file:
            table = csv.DictReader(file)
            if missing := [column for column in NEEDED if column not in (table.fieldnames or ())]:
                raise input_error(name, f"no column {', '.join(missing)}", line=1, accepted=", ".join(NEEDED))
            for row in table:
                if None in row or None in row.values():
                    raise input_error(name, "not as many cells as columns", line=table.line_num)
                yield table.line_num, row
    except (UnicodeDecodeError, csv.Error, EOFError, zlib.error):
        accepted = f"one row per OUTCAR with the columns {', '.join(NEEDED)}"
        hint = f"jobs that `batchcast vasp collect` wrote: batchcast runtime {name} --predictor irpa,brbf,boosted"
        raise input_error(name, "not a CSV of finished VASP runs", accepted=accepted, hint=hint) from None
    except OSError as error:
        what, hint = f"cannot be read ({error.strerror or error})", "--data with the path of vasp-klimes.csv.gz"
        raise input_error(name, what, hint=hint) from None


def _run(row: Mapping[str, str], name: str) -> dict[str, Any]:
    """Convert a row of the table to a run; InputError names the line of a run that cannot be read."""
    try:
        when = datetime.strptime(" ".join(row["date"].split()), "%Y.%m.%d %H:%M:%S").replace(tzinfo=UTC)
        run = {"submit_time": when.timestamp(), "wait_time": 0.0, "run_time": float(row["elapsed_s"])}
        kind = f"{'HF' if row['lhfcalc'].startswith('T') else 'PBE'}, ENCUT {float(row['encut']):g} eV"
        system = _formula(row["titel"], row["ions_per_type"])
        return {**run, "req_procs": float(row["cores"]), **_features(row), "system": system, "kind": kind}
    except (ValueError, IndexError) as error:
        raise input_error(name, f"a run that cannot be read: {error}", line=int(row["line"])) from None


def _features(row: Mapping[str, str]) -> Mapping[str, float | str]:
    """Return the features of a run from a row of the table."""
    tags = ("PREC", "LREAL", "LHFCALC", "ISPIN", "NELM", "EDIFF", "ENCUT", "NBANDS", "NELECT")
    incar = parse_incar("\n".join(f"{tag} = {row[tag.lower()]}" for tag in tags))
    counts = tuple(int(n) for n in row["ions_per_type"].split())
    cell = Poscar(((0.0,) * 3,) * 3, float(row["volume"]), 1.0, (), counts)
    potentials = [
        Potential(titel, float(zval), float(row["encut"]), False)
        for titel, zval in zip(row["titel"].split(";"), row["zval"].split(";"))
    ]
    return features(incar, cell, int(row["nkpts"]), potentials).values


def _formula(titel: str, counts: str) -> str:
    """Return the chemical formula, such as `C2H6`, from potentials' titles and ion counts; elements are sorted.

    >>> _formula("PAW_PBE H_h 06Feb2004;PAW_PBE C_s 06Sep2000", "4 1")
    'C1H4'
    """
    atoms: Counter[str] = Counter()
    for name, count in zip(titel.split(";"), counts.split()):
        atoms[name.split()[1].split("_")[0]] += int(count)
    return "".join(f"{element}{number}" for element, number in sorted(atoms.items()))


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
    over = trace.submit_time[:cut] + trace.run_time[:cut] <= trace.submit_time[cut]
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
    networks, by_key = 0, float("nan")
    if isinstance(method, Brbf):
        networks = len(method.networks)
        by_key = float(np.mean([method.has_network(class_key(job, method.uses)) for job in asked.requests()]))
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
        rngs = [np.random.default_rng([seed, SPLITS.index(split), number]) for number in range(resamples)]
        plain = _split(runs, split, np.random.default_rng([seed, SPLITS.index(split), 0]))
        drawn = [resampled(_split(runs, split, rng), rng) for rng in rngs] if resamples > 1 else [plain]
        for spec in methods:
            if parse_spec(spec)[0] not in registered:
                results.append({"predictor": spec, "split": split, "note": NOT_INSTALLED})
                continue
            figures = []
            if resamples > 1:
                points_of[spec] = predict_split(runs.trace, plain, spec, seed)[0]
            for rows in drawn:
                points, more = predict_split(runs.trace, rows, spec, seed)
                points_of.setdefault(spec, points)
                figures.append(figures_of(points, runs.trace.run_time[rows.test]) | more)
                done += 1
                tick(done)
            results.append({"predictor": spec, "split": split, "resamples": resamples, **_summary(figures)})
        found = _differences(runs, plain.test, points_of, seed)
        results = [ResultRow(row, found.get(row["predictor"])) if row["split"] == split else row for row in results]
    return results


def _split(runs: Runs, split: str, rng: np.random.Generator) -> Split:
    """Split the runs in time or by system."""
    return time_split(runs) if split == "time" else system_split(runs, rng)


def _differences(runs: Runs, test: np.ndarray, points: Mapping[str, np.ndarray], seed: int) -> Comparisons:
    """Return each method's comparison: the method's differences to the method `AGAINST` over the test
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
    found = compared(runs.trace, scored, group, values, AGAINST, (APA, MAE), seed)
    return {
        spec: replace(
            one, groups_of="one system's runs" if by_system else one.groups_of,
            differences={name: replace(change, decided_by="") for name, change in one.differences.items()},
        )
        for spec, one in found.items()
    }  # fmt: skip


def figures_of(predicted: np.ndarray, actual: np.ndarray) -> dict[str, float]:
    """Return accuracy measures: ACC and REC per range and cut, MRE, MAE, APA, and the share
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


def range_tables(rows: TableRows, words: str) -> list[Table]:
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


def shares_table(shares: TableRows) -> Table:
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


PAPER_NAMES = {
    "forest": "RFR",
    "svr": "SVR",
    "bayesian_ridge": "BRR",
    "irpa": "IRPA",
    "brbf": "BRBF",
    "parzen": "PDR",
    "user_clusters": "UBCETE",
}
PAPER_MRE = {"forest": 0.268, "svr": 0.372, "bayesian_ridge": 0.532, "irpa": 0.203, "brbf": 0.178}
LONGEST_NAME = 28
SPLIT_WORDS = {
    "time": "split in time: the first 80 % of the runs are for training, the last 20 % for testing",
    "system": "split by system: no chemical formula is in both training and test runs",
}


def cannot(facts: Mapping[str, Any]) -> str:
    """Describe which claims the available runs cannot support, from `papers.vasp.study.facts`."""
    constant = ", ".join(facts["constant_features"]) or "none"
    return (
        "These are not the paper's jobs: its 16,700 runs of one centre are not public, so no figure here confirms or "
        f"refutes the paper's. These features are constant here: {constant}. BRBF's key (ISPIN, ISYM, LREAL, PREC) has "
        f"{facts['keys']} values here. The shortest run takes {span(facts['shortest_s'])}; "
        f"{100 * facts['share_under_30_min']:.0f} % of the runs take less than 30 minutes (in the paper 56 %). The "
        "table of runs has no input files: ISYM, ISTART, ICHARG, NELMIN and EDIFFG are VASP's defaults, and NBANDS is "
        "what VASP used, rounded up to its processors. The table has no users, so methods that use the user treat all "
        "runs as one user's."
    )


def can(facts: Mapping[str, Any]) -> str:
    """Describe which results the available runs show, from `papers.vasp.study.facts`."""
    return (
        "These runs can show that the methods work from end to end on real run times, how the methods rank on new "
        "systems, and how much worse they are when settings change over time: in the split in time, "
        f"{100 * facts['kinds_train_only']:.0f} % of the training runs are of a kind (functional and cutoff) that does "
        "not occur in the test runs. The split by system is the honest test for new chemistry, but methods then train "
        "on later runs to predict earlier runs. Trust a result only if both splits show it."
    )


def vasp_sections(
    results: TableRows, runs: Runs, facts: Mapping[str, Any], resamples: int, synthetic: Sequence[Block] = ()
) -> list[Section]:
    """Return the page's sections from the results of `papers.vasp.study`."""
    limits = [Callout(cannot(facts), "warning"), Callout(can(facts))]
    return [
        Section("What this shows, and what it cannot", [*limits, *_best(results)]),
        Section("The runs", _run_blocks(runs)),
        *(
            Section(words.capitalize(), _split_blocks(split, results, resamples, on_page=True))
            for split, words in SPLIT_WORDS.items()
        ),
        *([Section("Synthetic jobs at the paper's scale", list(synthetic))] if synthetic else []),
    ]


def summary_tables(results: TableRows, resamples: int) -> list[Block]:
    """Return the tables for the terminal: for each split the overview and tables 3 to 5."""
    return [block for split in SPLIT_WORDS for block in _split_blocks(split, results, resamples)]


def differences_tables(rows: TableRows, words: str) -> list[Table]:
    """Compare each method with the paper's random forest, with 90 % intervals; empty if there are no results of the
    forest."""
    rows = _with_names(row for row in rows if "against" in row)
    if not rows:
        return []
    against, of_groups = shown_name(rows[0]["against"]), rows[0]["groups_of"]
    columns = columns_of(
        "name|predictor", f"apa_words|apa against {against}|difference",
        f"mae_words|mean error against {against}|difference",
    )  # fmt: skip
    shown = [
        row
        | {"apa_words": difference_words(Difference.get(row, "apa"), "ratio")}
        | {"mae_words": difference_words(Difference.get(row, "mae_s"), "seconds")}
        for row in rows
    ]
    by_method = {str(row["predictor"]): apa for row in rows if (apa := Difference.get(row, "apa")) is not None}
    groups = next(iter(by_method.values())).groups or 0
    note = (
        f"Intervals of 90 % over {groups:,} groups of {of_groups}, in the split itself, not resampled. "
        "Level: these runs do not show which of both methods is better."
    )
    if groups < LEAST_GROUPS:
        note = f"No interval: {groups} groups of {of_groups}, {LEAST_GROUPS} are needed."
    decided = "; ".join(
        f"{shown_name(method)} {100 * apa.largest_share:.0f} %, and without this group the difference is "
        f"{apa.without_largest:+.3f}"
        for method, apa in by_method.items()
        if apa.largest_share > DECIDES
    )
    note += f" The largest group's share of the sum of absolute differences in apa: {decided}." if decided else ""
    return [Table(f"Differences between methods · {words}", columns, shown, note)]


def _best(results: TableRows) -> list[str]:
    """Return a sentence for each split about the methods with the largest and the smallest accuracy."""
    sentences = []
    for split, words in SPLIT_WORDS.items():
        rows = [row for row in results if row["split"] == split and "apa" in row]
        if rows:
            last, lead = (extreme(rows, key=lambda row: float(row["apa"])) for extreme in (min, max))
            sentences.append(
                f"{words.capitalize()}: {shown_name(lead['predictor'])} has the largest mean apa "
                f"({_spread(lead, 'apa')}), {shown_name(last['predictor'])} the smallest ({last['apa']:.3f})."
            )
    return sentences


def _run_blocks(runs: Runs) -> list[Block]:
    """Return the blocks about the public runs: a sentence, table 2 and figure 1."""
    dropped = "; ".join(f"{count:,} rows left out: {rule}" for rule, count in runs.trace.info.dropped.items())
    rows = [row | {"share_paper": PRINTED_SHARES.get(str(row["range_min"]))} for row in distribution(runs)]
    spent = runs.trace.run_time * runs.trace.procs()
    share_of = {str(kind): float(spent[runs.kind == kind].sum() / spent.sum()) for kind in np.unique(runs.kind)}
    columns = columns_of(
        "range_min|run time, minutes",
        "share_paper|paper|share|the paper's table 2; it ends with 26.5 % over 120 minutes",
        "share_all|all runs|share", "share_train|first 80 %|share", "share_test|last 20 %|share",
    )  # fmt: skip
    caption = (
        "The paper's figure 1 shows the share of VASP among all applications of its machine. Here every run is a VASP "
        "run, and the kinds are functionals and cutoffs."
    )
    title, value = "Figure 1: processor time by kind of run", "share of processor time"
    return [
        f"{len(runs.trace):,} distinct runs of {len(np.unique(runs.system))} systems. {dropped}.",
        Table("Table 2: distribution of run times", columns, rows),
        bars(title, list(share_of), {value: list(share_of.values())}, value=value, kind="share", caption=caption),
    ]


def _split_blocks(split: str, results: TableRows, resamples: int, *, on_page: bool = False) -> list[Block]:
    """Return the tables of one split of the runs: the overview, the differences and tables 3 to 5; on the page also
    figures."""
    rows, words = [row for row in results if row["split"] == split], SPLIT_WORDS[split]
    scored = _with_names(row for row in rows if "apa" in row)
    absent = {row["predictor"]: row["note"] for row in rows if "note" in row}
    blocks: list[Block] = [_overview(scored, absent, split, resamples), *differences_tables(scored, words)]
    if on_page:
        caption = f"Like the paper's figures 6 to 9, for the public runs, {words}."
        blocks += [Callout(f"{shown_name(spec)}: {note}", "warning") for spec, note in absent.items()]
        blocks += [cut_figure(scored, cut, split, caption) for cut in CUTS]
    columns = columns_of("name|predictor", "text|MRE", "paper|paper|ratio|the paper's table 5, for other jobs")
    errors = [{**row, "text": _spread(row, "best_90_mre"), "paper": PAPER_MRE.get(row["predictor"])} for row in scored]
    title = f"Table 5: mean relative error, best 90 % predicted under 1 h · {words}"
    return [*blocks, *range_tables(scored, words), Table(title, columns, errors)]


def _overview(rows: TableRows, absent: Mapping[str, str], split: str, resamples: int) -> Table:
    """Return the table of accuracy measures of all methods on one split; `absent` has remarks on other methods."""
    columns = columns_of(
        "name|predictor", "apa|apa|ratio|mean of min(predicted, actual) / max(predicted, actual); 1 is perfect",
        "apa_sd|± apa|ratio|standard deviation over the resamples",
        "mae_s|mean error|seconds|mean absolute error (MAE)",
        "underestimate_rate|UR|share|underestimates: runs that took longer than predicted",
        "best_90_mre|MRE|ratio|mean relative error, best 90 % of the runs predicted under 1 h",
        "acc_under_60_min|ACC 1 h|ratio|precision of 'under 1 h'",
        "rec_under_60_min|REC 1 h|ratio|recall of 'under 1 h'", "acc_under_120_min|ACC 2 h|ratio",
        "rec_under_120_min|REC 2 h|ratio",
    )  # fmt: skip
    note = (
        "Means over the resamples; ± is their standard deviation. Methods are trained once and do not learn during the "
        "test (the paper's protocol)." + (" Each resample draws new systems." if split == "system" else "")
    ) + "".join(f" {spec}: {words}." for spec, words in absent.items())
    return Table(f"VASP run times · {SPLIT_WORDS[split]} · {resamples} bootstrap resamples", columns, rows, note)


def cut_figure(scored: TableRows, cut: int, subject: str, caption: str) -> Figure:
    """Draw the accuracy ACC and recall REC of each method for jobs that are predicted to run shorter than `cut`
    minutes."""
    names = [shown_name(str(row["predictor"])) for row in scored]
    shares = {"ACC (precision)": f"acc_under_{cut}_min", "REC (recall)": f"rec_under_{cut}_min"}
    series = {title: [row[key] for row in scored] for title, key in shares.items()}
    title, value = f"Recognition of runs under {cut // 60} h ({subject})", f"ACC and REC of the cut at {cut // 60} h"
    return bars(title, names, series, value=value, kind="share", caption=caption)


def _with_names(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return copies of the rows with each method's name as the page shows it."""
    return [dict(row) | {"name": shown_name(str(row["predictor"]))} for row in rows]


def _spread(row: Mapping[str, Any], name: str) -> str:
    """Return a mean with its standard deviation, if there are enough resamples."""
    deviation = row[f"{name}_sd"]
    return f"{row[name]:.3f}" + (f"\u00a0±\u00a0{deviation:.3f}" if deviation == deviation else "")


def shown_name(spec: str) -> str:
    """Return the method's name and parameters (shortened to ... if long), with the paper's abbreviation.

    >>> shown_name("irpa:upper=forest"), shown_name("boosted"), shown_name("parzen:keys=ispin+isym+lreal+prec")
    ('irpa:upper=forest (IRPA)', 'boosted', 'parzen:... (PDR)')
    """
    name = spec.split(":")[0]
    short = PAPER_NAMES.get(name)
    shown = spec if len(spec) <= LONGEST_NAME else f"{name}:..."
    return f"{shown} ({short})" if short else shown


def synthetic_tables(results: TableRows, shares: TableRows) -> list[Table]:
    """Return the tables of the synthetic sets: the data of figures 6 to 9, and tables 2 to 5."""
    tables = []
    note = "Synthetic jobs (seeded) exercise every branch of the methods; they cannot confirm the paper's figures."
    for data, figures, printed in (("first", "Figures 6 and 7, table 5", PAPER_MRE), ("second", "Figures 8 and 9", {})):
        named = _with_names(row for row in results if row["data"] == data)
        rows = [row | {"paper": printed.get(str(row["predictor"]))} for row in named]
        tables += _set_tables(rows, figures, f"synthetic VASP jobs, {data} set", note)
        tables += range_tables(rows, "synthetic first set") if printed else []
    return [*tables, shares_table(shares)]


def own_tables(results: TableRows, shares: TableRows, source: str) -> list[Table]:
    """Return Tables 2 to 5 of a site's own jobs, split in time."""
    rows = _with_names(results)
    parts = ("share_all|all jobs|share", "share_train|training|share", "share_test|predicted|share")
    of_run_times = Table(f"Table 2: run times of {source}", columns_of("range_min|minutes", *parts), shares)
    return [*_set_tables(rows, "Table 5", source, ""), *range_tables(rows, source), of_run_times]


def _set_tables(rows: list[dict[str, Any]], figures: str, named: str, note: str) -> list[Table]:
    """Return the accuracy of all methods on one set of jobs, split in time, and the differences between methods."""
    columns = columns_of(
        "name|predictor", "apa|apa|ratio", "acc_under_60_min|ACC 1 h|ratio", "rec_under_60_min|REC 1 h|ratio",
        "acc_under_120_min|ACC 2 h|ratio", "rec_under_120_min|REC 2 h|ratio", "best_90_mre|MRE|ratio",
        *(["paper|MRE printed|ratio"] if any("paper" in row for row in rows) else []),
    )  # fmt: skip
    note += "".join(
        f" {row['name']}: {row['key_networks']:.0f} keys have their own network; these networks predicted "
        f"{100 * row['by_key_network']:.1f} % of the test jobs."
        for row in rows
        if row["by_key_network"] == row["by_key_network"]
    )
    return [Table(f"{figures}: {named}, split in time", columns, rows, note), *differences_tables(rows, named)]


def synthetic_figures(results: TableRows) -> list[Block]:
    """Draw figures 6 and 7 from the first synthetic set, 8 and 9 from the second: results for cuts at one and two
    hours."""
    figures: list[Block] = []
    for number, data, cut in zip((6, 7, 8, 9), ("first", "first", "second", "second"), CUTS * 2):
        of = f"synthetic jobs of the {data} set"
        caption = f"The paper's figure {number} for {of}; it cannot confirm the paper's figure."
        rows = [row for row in results if row["data"] == data]
        figures.append(cut_figure(rows, cut, f"figure {number}, synthetic {data} set", caption))
    return figures
