# SPDX-License-Identifier: Apache-2.0
"""Effect of counting a burst as one piece of evidence on `forecast`: with this rule, and with every submission in full.

    python -m benchmarks.waits.bursts LOG --places 20001:60000

The program prints for both variants: CRPS of log(1 + wait), coverage of 80 and 90 % intervals in all and in windows of
5,000 jobs, the errors of the likely time, CPU seconds, and the number of submissions that counted. Then it prints the
difference between the variants, with 90 % intervals over groups of one user's submissions of one week. The features are
computed once and not counted in the CPU seconds.
"""

from __future__ import annotations

import argparse
from time import process_time

import numpy as np

from batchcast.evaluation.differences import burst_groups
from batchcast.evaluation.wait import WINDOW, crps_of, parse_jobs, recorded_wait, scored_rows, take_rows, transforms
from batchcast.metrics.paired import paired_differences
from batchcast.metrics.wait import share_by_window
from batchcast.predict.hazard.calibrated_waits import EACH, Bursts
from batchcast.predict.wait import forecast as module
from batchcast.predict.wait.forecast import Forecast
from batchcast.table import Trace
from batchcast.trace.read import read_trace

ALL = 10**9


def scores_of(log: Trace, scored: np.ndarray, each: int) -> dict[str, np.ndarray]:
    """Print one variant's row; return its scores by job."""
    method = Forecast()
    method.bursts = Bursts(each)
    began = process_time()
    said = method.predict_trace(log, ask=scored)
    cpu = process_time() - began
    wait = recorded_wait(log)[scored]
    at = transforms(method.chances[scored], wait)
    kept = {80: (at > 0.1) & (at <= 0.9), 90: (at > 0.05) & (at <= 0.95)}
    error = np.abs(said.points[scored] - wait)
    crps = crps_of(wait, take_rows(said, scored))
    cells = [f"{each} a doubling" if each < ALL else "every submission", f"{crps.mean():.3f}"]
    for level, held in kept.items():
        windows = share_by_window(held, WINDOW)
        near = np.mean(np.abs(windows - level / 100) <= 0.08)
        cells.append(f"{held.mean():.1%}, {windows.min():.1%} to {windows.max():.1%}, {near:.0%} within 8 points")
    cells += [f"{error.mean() / 60:.0f} min", f"{np.median(error) / 60:.1f} min", f"{cpu:.0f}", f"{method.votes:,}"]
    print("| " + " | ".join(cells) + " |", flush=True)
    return {"CRPS": crps, "mean error, s": error, "80 % kept": kept[80].astype(float)}


def main() -> None:
    """Print both rows and their difference."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("--places", default="10001:20000", help="first and last job scored, counted from 1")
    given = parser.parse_args()
    places = parse_jobs(given.places)
    log = read_trace(given.log)[: places[1]]
    scored = scored_rows(log, places)
    Forecast().predict_trace(log[:50])  # compiles
    seen = module.seen_in(log, "honest", "req", log.info.max_procs, "count", None)
    module.seen_in = lambda *_, **__: seen
    print("| counts | CRPS | 80 % kept | 90 % kept | mean error | median error | CPU s | submissions that count |")
    print("|---|---|---|---|---|---|---|---|")
    bursts, every = (scores_of(log, scored, each) for each in (EACH, ALL))
    group = np.unique(burst_groups(log)[scored], return_inverse=True)[1]
    for name, values in bursts.items():
        one = paired_differences(values[None], every[name], group, np.random.default_rng(0))[0]
        word = one.verdict(lower_is_better=name != "80 % kept")
        print(f"{name}: {one.difference:+.4g} ({one.low:+.4g} to {one.high:+.4g}), {word}; "
              f"one group owns {one.largest_share:.0%}")  # fmt: skip


if __name__ == "__main__":
    main()
