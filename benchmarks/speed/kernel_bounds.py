"""`calibrated`: the coverage of its bounds on whole logs, the cost of limits at these bounds, and the length of other
methods' bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from batchcast.evaluation.accuracy import run_time_target
from batchcast.evaluation.limits import PROMISED, find_limits, limit_rows
from batchcast.evaluation.replay import replay
from batchcast.metrics.coverage import is_covered
from batchcast.metrics.paired import Difference
from batchcast.table import Trace
from benchmarks.speed.kernel import SHARED, WHOLE, Part, opened

LOGS: dict[str, Part] = {
    "HPC2N": ("HPC2N-2002-2.2-cln", None, None),
    "LPC": WHOLE["LPC"],
    "SDSC-DS": ("SDSC-DS-2004-2.1-cln", None, None),
} | {name: part for name, part in WHOLE.items() if name != "LPC"}
WINDOW = 5000
NEAR = 0.02
YEAR = 31_557_600
BOUNDED = ("kernel", "parzen", "user_clusters", "knn_ga", "smith_templates", "trip")
ALSO = ("calibrated", *(f"calibrated:of={name}" for name in BOUNDED[1:]))
FIRST = 5_000


def run() -> None:
    """Print the tables; the real logs are not in the repository."""
    if not SHARED.is_dir():
        print("skipped: the real logs are not in the repository (BATCHCAST_SHARED names their folder)")
        return
    held_and_cost()
    lengths()


def held_and_cost(logs: dict[str, Part] = LOGS) -> None:
    """Print the coverage of bounds in all and in windows, without and with `lots`, then the limits of `batchcast limits
    LOG`."""
    print(f"bounds of `calibrated`: share that held, and share of windows of {WINDOW:,} jobs within 2 points")
    for name, trace in opened(logs):
        for lots in (True, False):
            limits = find_limits(trace, lots=lots)
            rows = np.flatnonzero(limits.scored)
            run = run_time_target(trace).within[rows]
            cells = [f"{level:.1%} {held(run, limits.bounds[level][rows], level)}" for level in PROMISED]
            print(f"{name:10}{'lots ' if lots else '     '}{'   '.join(cells)}", flush=True)
        print(f"{'':10}windows that fail at 90 %: {owned(trace, rows, run, limits.bounds[0.9][rows])}", flush=True)
        for row in limit_rows(limits):
            print(f"{'':10}{limit_line(row)}", flush=True)


def held(run: np.ndarray, bound: np.ndarray, level: float) -> str:
    """The two shares."""
    kept = np.cumsum(np.concatenate([[0], is_covered(run, bound)]))
    share = (kept[WINDOW:] - kept[:-WINDOW]) / WINDOW
    within = np.mean(np.abs(share - level) <= NEAR) if len(share) else np.nan
    return f"{kept[-1] / len(run):.3f} {within:.3f}"


def owned(trace: Trace, rows: np.ndarray, run: np.ndarray, bound: np.ndarray, level: float = 0.9) -> str:
    """Return how many windows (one per 500 jobs) miss the level, and which share of a window's misses belongs to the
    user with the most misses."""
    users, failed, shares, total = trace.nominal("user_id").codes[rows], 0, [], 0
    missed = run > bound * (1 + 1e-9)
    for end in range(WINDOW, len(rows), 500):
        part = slice(end - WINDOW, end)
        total += 1
        if abs(1.0 - missed[part].mean() - level) > NEAR:
            failed += 1
            who, wrong = users[part], missed[part]
            count = np.bincount(who[wrong] + 1, minlength=2) if wrong.any() else np.zeros(2)
            shares.append(count.max() / max(count.sum(), 1))
    half = f"; the user with most misses owns {np.median(shares):.0%} of them at the median" if shares else ""
    return f"{failed} of {total}{half}"


def limit_line(row: dict[str, Any]) -> str:
    """Return kills and core-hours of one rule, and the difference from the users' own limits with its interval."""
    line = (
        f"{row['limits']:14}killed of 1,000 {row['killed_per_thousand']:6.1f}"
        f"  not by own {row['killed_beyond_own_per_thousand']:6.1f}  unused core-h {row['over_request_core_h']:13,.0f}"
    )
    stated = Difference.get(row, "mean_unused_core_h")
    if stated is None:
        return line
    return f"{line}  less own, a job: {stated.low:+.2f} to {stated.high:+.2f}"


def lengths(logs: dict[str, Part] = LOGS) -> None:
    """Print, for the first jobs of each log, the sum of all bounds in years, their coverage, and their pinball loss."""
    print(f"\nthe first {FIRST:,} jobs: share that held, sum of the bounds in years, mean pinball loss in s")
    print(f"{'':10}{'':30}" + "".join(f"{level:>24.0%}" for level in PROMISED[:3]))
    for name, trace in opened(logs):
        part = trace.take(np.arange(min(FIRST, len(trace))))
        ran = ~np.isnan(part.run_time)
        run = run_time_target(part).within[ran]
        for spec, said in replay(part, [*BOUNDED, *ALSO]).items():
            if not said.levels:
                print(f"{name:10}{spec:30}no quantiles", flush=True)
                continue
            cells = ""
            for level in PROMISED[:3]:
                bound = np.exp([np.interp(level, said.levels, row) for row in np.log(said.quantiles[ran])])
                bound = np.where(np.isnan(bound), said.points[ran], bound)
                loss = np.mean(np.maximum(level * (run - bound), (level - 1.0) * (run - bound)))
                cells += f"{np.mean(is_covered(run, bound)):8.3f}{bound.sum() / YEAR:8.2f}{loss:8.0f}"
            print(f"{name:10}{spec:30}{cells}", flush=True)
