# SPDX-License-Identifier: Apache-2.0
"""Compare a synthetic log with a real one: both have the same machine, number of jobs and load."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import NoAnswer
from ..metrics.accuracy import relative_accuracy
from ..metrics.curves import cdf_distance
from ..metrics.measure import mean
from ..table import Trace
from ..trace.synth import HEAD, Recipe, make_log

QUANTILES = (0.25, 0.5, 0.75, 0.95)
COMPARED = ("procs", "run_time", "interarrival", "req_time", "accuracy", "last_run_ratio")


def compare(log: Trace, seed: int, *, longest: float | None = None) -> list[dict[str, Any]]:
    """Return two flat rows, for the log and for a synthetic log with the log's jobs, machine, load and number of users;
    the second row has the distances between the two logs' distributions.

    `distance_*` is the largest difference of two cumulative distributions (Kolmogorov & Smirnov's), between 0 and 1.
    `longest` defaults to the longest time limit that at least one job in a hundred requests.
    """
    if longest is None:
        asked, count = np.unique(log.req_time[~np.isnan(log.req_time)], return_counts=True)
        often = asked[count >= 0.01 * count.sum()]
        if not len(often):
            raise NoAnswer(f"{log.info.source}: no request is common enough to be the longest one", hint="--longest")
        longest = float(max(often.max(), 60.0))
    is_known = ~(np.isnan(log.run_time) | np.isnan(log.procs("alloc")))
    jobs, seconds = int(is_known.sum()), float(np.ptp(log.submit_time)) if len(log) else 0.0
    if seconds <= 0 or not log.info.max_procs > 0 or jobs < 2:
        raise NoAnswer(
            f"{log.info.source}: to imitate a log, its jobs, their span and the machine's size must be known",
            hint="--procs-total N",
        )
    area = float((log.run_time * log.procs("alloc"))[is_known].sum())
    users, procs = len(np.unique(log.nominal("user_id").codes)) or None, int(log.info.max_procs)
    recipe = Recipe(jobs=jobs, procs=procs, load=area / seconds / procs, users=users, longest=longest, waits="none")
    imitation = make_log(np.random.default_rng(seed), recipe)
    real, synthetic = samples(log), samples(imitation)
    distances = {f"distance_{name}": cdf_distance(real[name], synthetic[name]) for name in COMPARED}
    return [
        {"workload": log.info.source, **figures(log, real), **dict.fromkeys(distances, math.nan)},
        {"workload": "synthetic", **figures(imitation, synthetic), **distances},
    ]


def samples(log: Trace) -> dict[str, np.ndarray]:
    """Return the values of each compared quantity, without unknown values; ratios are between 0 and 1.

    `accuracy` is min/max of run time and time limit; `last_run_ratio` is min/max of a run time and the run time of the
    user's previous job, which shows how well history can predict.
    """
    run, request = log.run_time, log.req_time
    user = log.nominal("user_id").codes
    order = np.argsort(user, kind="stable")
    again = np.flatnonzero(user[order][1:] == user[order][:-1])
    return {
        "procs": _without_nan(log.procs("alloc")),
        "run_time": _without_nan(run),
        "interarrival": np.diff(log.submit_time),
        "req_time": _without_nan(request),
        "accuracy": _without_nan(relative_accuracy(run, request)),
        "last_run_ratio": _without_nan(relative_accuracy(run[order][again], run[order][again + 1])),
    }


def figures(log: Trace, values_of: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return jobs, load, quantiles, accuracy of users' time limits and popularity of time limits, as one flat row."""
    area = float(np.nansum(log.run_time * log.procs("alloc")))
    _, count = np.unique(values_of["req_time"], return_counts=True)
    user = log.nominal("user_id").codes
    row: dict[str, Any] = {
        "jobs": len(log),
        "load": area / float(np.ptp(log.submit_time)) / log.info.max_procs,
        "users": len(np.unique(user)),
        "serial_share": float((values_of["procs"] == 1).mean()),
        "power_of_two_share": float((np.log2(values_of["procs"]) % 1 == 0).mean()),
        "mean_run_s": float(values_of["run_time"].mean()),
        "apa": mean(values_of["accuracy"]),
        "at_request_share": mean(values_of["accuracy"] >= 0.99),
        "request_values": len(count),
        "popular_requests_share": float(np.sort(count)[-HEAD:].sum() / max(count.sum(), 1)),
        "like_last_run": mean(values_of["last_run_ratio"]),
        "same_user_next_share": float((user[1:] == user[:-1]).mean()),
    }
    for name, unit in (("procs", ""), ("run_time", "_s"), ("interarrival", "_s"), ("req_time", "_s")):
        values = values_of[name] if len(values_of[name]) else np.array([math.nan])
        for q, value in zip(QUANTILES, np.quantile(values, QUANTILES, method="inverted_cdf").tolist()):
            row[f"{name}_p{round(100 * q)}{unit}"] = value
    return row


def _without_nan(values: np.ndarray) -> np.ndarray:
    return np.asarray(values[~np.isnan(values)])
