"""Predicts the remaining wait of jobs in a queue at noon: the hazard model on a cluster's snapshots.

    python -m benchmarks.graham FILE
    python -m benchmarks.graham FILE --fits 3    # the mean of three fits answers
    python -m benchmarks.graham FILE --fits 3 --every 8    # fitted anew every eight noons, as `forecast` learns on

FILE is `data_on_submit_days` of mila-iqia/slurm-queue-time-pred for Graham, its daily files concatenated (CSV, may be
.gz): a row is a job that was waiting at a noon. The first 70 % of the rows by their noon are for training, with what
was known at the first noon of the other rows: of a job that had not started by then, the model learns only that its
wait was at least this long. For the other rows, the remaining wait at their noon is predicted. Rows of one account and
submission second are one array: each has the weight 1 / sqrt(number of rows) in the fit. The file gives the instant at
which a job became eligible even if that was after its noon, which nearly reveals the start; such a job has no eligible
time here.
"""

from __future__ import annotations

import argparse
from time import process_time
from typing import Any

import numpy as np

from batchcast.metrics.paired import paired_differences
from batchcast.predict.hazard.bins import quantiles
from batchcast.predict.hazard.model import Waits, fit

TEACH = 0.7
NOT_KNOWN_THEN = (
    *("start_time", "elapsed_time", "end_time", "submit_wait", "submit_wait_sec", "eligible_wait", "eligible_wait_sec"),
    *("run_time", "run_time_sec", "poll_wait", "poll_wait_sec", "state", "alloc_nodes", "priority_x", "partition_id_x"),
    *("job_unique_id", "job_summary_id", "job_augment_id", "pending_id", "running_id", "sshare_id", "source_file"),
)
"""Columns that were known only later (`partition_id_x` is where the job ran, `_y` where it waited), and row numbers."""


def main() -> None:
    """Print the shares of predictions within a factor of 2 and 3, beside the shares of a constant prediction."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--seed", type=int, default=0, help="of the first fit; the others have the next ones")
    parser.add_argument("--fits", type=int, default=1, help="the mean of so many fits answers")
    parser.add_argument("--every", type=int, default=0, help="fit anew every so many noons, of what is known by then")
    given = parser.parse_args()
    table = read(given.file)
    noon, left = table["noon"], table["left"]
    days = np.unique(noon)
    cut = days[np.searchsorted(np.cumsum([np.sum(noon == day) for day in days]), TEACH * len(noon))]
    teach, asked = noon < cut, noon >= cut
    ended = left[teach] <= cut - noon[teach]
    began, later = process_time(), days[days >= cut]
    fitted_at = later[:: given.every] if given.every else later[:1]
    seeds = range(given.seed, given.seed + given.fits)
    curves = np.concatenate(
        [answers(table, at, until, seeds) for at, until in zip(fitted_at, (*fitted_at[1:], np.inf), strict=True)]
    )
    seconds = process_time() - began
    forecast = quantiles(curves, np.full((len(curves), 1), 0.5))[:, 0]
    constant = np.full(len(curves), np.median(left[teach][ended]))
    actual = left[asked]
    print(f"{teach.sum():,} rows teach, {ended.mean():.1%} of them had started by then; {asked.sum():,} are asked")
    print(f"fits: {len(fitted_at)} times {given.fits}, {seconds:.1f} CPU s; seed {given.seed}\n")
    print("| rest of the wait | within x2 | within x3 | median factor |\n|---|---|---|---|")
    off = {"constant": factor(constant, actual), "hazard": factor(forecast, actual)}
    for name, by in off.items():
        print(f"| {name} | {np.mean(by <= 2):.1%} | {np.mean(by <= 3):.1%} | {np.median(by):.2f} |")
    within = {name: (by <= 2).astype(float) for name, by in off.items()}
    groups = np.unique(np.stack([table["account"][asked], noon[asked] // (7 * 86400)]), axis=1, return_inverse=True)[1]
    random = np.random.default_rng(given.seed)
    (pair,) = paired_differences(within["hazard"], within["constant"], groups.ravel(), random)
    print(
        f"\nwithin x2, hazard less constant: {100 * pair.difference:.1f} points, 90 % {100 * pair.low:.1f} to "
        f"{100 * pair.high:.1f} over {pair.groups} groups of one account's rows of one week"
    )


def answers(table: dict[str, Any], at: float, until: float, seeds: range) -> np.ndarray:
    """Return the curves (n, 33) of the rows from the noon `at` to before `until`, by fits on what was known at `at`."""
    noon, left = table["noon"], table["left"]
    teach, asked = noon < at, (noon >= at) & (noon < until)
    ended = left[teach] <= at - noon[teach]
    waits = Waits(np.where(ended, left[teach], at - noon[teach]), ended, table["weight"][teach])
    models = [model for seed in seeds if (model := fit(table["features"][teach], waits, seed)) is not None]
    if not models:
        raise SystemExit("nothing is known of any start: is this the file?")
    return np.asarray(np.mean([model.curves(table["features"][asked]) for model in models], axis=0))


def read(path: str) -> dict[str, Any]:
    """Return features (n, f), noon and remaining wait in seconds, weight and account of each row, in order of noon."""
    import pandas

    rows = pandas.read_csv(path)
    stamps = {
        name: pandas.to_datetime(rows[name]).astype("int64").to_numpy() / unit(rows[name])
        for name in ("submit_time", "eligible_time", "poll_time", "start_time")
    }
    size = rows.groupby(["account_id", "submit_time"])["req_cpus"].transform("size")
    noon, left = stamps["poll_time"], stamps["start_time"] - stamps["poll_time"]
    text = rows["req_tres"].fillna("")
    known: dict[str, Any] = {
        "waited": noon - stamps["submit_time"],
        "eligible for": np.where(stamps["eligible_time"] <= noon, noon - stamps["eligible_time"], np.nan),
        "hour of submission": stamps["submit_time"] % 86400 / 3600,
        "weekday": noon // 86400 % 7,
        "gpus": text.str.extract(r"gres/gpu=(\d+)")[0].astype(float),
        "nodes": text.str.extract(r"node=(\d+)")[0].astype(float),
        "array": np.log1p(size),
    }
    numeric = rows.select_dtypes("number").columns.difference([*NOT_KNOWN_THEN, "cluster_id"])
    known |= {name: rows[name] for name in numeric}
    features = np.column_stack([np.asarray(column, float) for column in known.values()]).astype(np.float32)
    order = np.flatnonzero(left > 0)
    order = order[np.argsort(noon[order], kind="stable")]
    weight = 1.0 / np.sqrt(size.to_numpy(float))
    picked = {"features": features, "noon": noon, "left": left, "weight": weight}
    return {name: of[order] for name, of in picked.items()} | {"account": rows["account_id"].to_numpy(float)[order]}


def unit(column: Any) -> float:
    """Return how many ticks of a column of instants are one second."""
    import pandas

    kind = str(pandas.to_datetime(column.iloc[:1]).dtype)
    return {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.partition("[")[2].rstrip("]")]


def factor(said: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Return the larger divided by the smaller value, each at least one second."""
    a, b = np.maximum(said, 1.0), np.maximum(actual, 1.0)
    return np.asarray(np.maximum(a / b, b / a))


if __name__ == "__main__":
    main()
