"""How often the 90 % time of a job that has waited for a while is kept, and how often the forecast alone has none.

    python -m benchmarks.waits.tails LOG --jobs 3001:12000

`forecast` answers at every submission. After 10 min, 1 h, 4 h and a day each job that still waits is told its 90 % time
given the time waited (`predict.conditional`). Where that lies beyond the highest issued level it comes from the tail;
without it there would be no answer. The last columns are of those alone.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from batchcast.predict.batched import replay
from batchcast.predict.conditional import given_waited
from batchcast.predict.protocol import Prediction
from batchcast.predict.registry import make
from batchcast.trace.read import read_trace

AGES = (("10 min", 600.0), ("1 h", 3600.0), ("4 h", 14_400.0), ("a day", 86_400.0))


def main() -> None:
    """Print a row for each age."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("--jobs", default="3001:12000", help="first and last job scored, counted from 1")
    given = parser.parse_args()
    first, last = (int(number) for number in given.jobs.split(":"))
    log = read_trace(given.log)[:last]
    said = replay(log, {"it": make("wait", "forecast")})["it"]
    wait = log.wait_time
    print("| waited | jobs | half within | 90 % kept | no answer without the tail | of those kept |")
    print("|---|---|---|---|---|---|")
    for name, age in AGES:
        rows = []
        for j in np.flatnonzero((wait > age) & (np.arange(len(log)) >= first - 1) & np.isfinite(said.points)):
            known = np.isfinite(said.quantiles[j])
            levels, quantiles = tuple(np.array(said.levels)[known]), tuple(said.quantiles[j][known])
            if not levels:
                continue
            likely, by_90 = given_waited(Prediction(float(said.points[j]), levels, quantiles), age).quantiles
            left = 1.0 - np.interp(age, [0.0, *quantiles], [0.0, *levels])
            beyond = age > quantiles[-1] or 0.1 * left < 1.0 - levels[-1] - 1e-12
            rows.append((wait[j] <= likely, wait[j] <= by_90, beyond, math.isfinite(by_90)))
        half, kept, beyond, finite = np.array(rows, bool).reshape(-1, 4).T
        assert finite.all()
        print(
            f"| {name} | {len(rows)} | {half.mean():.1%} | {kept.mean():.1%} | {beyond.mean():.0%} | "
            f"{kept[beyond].mean():.1%} |"
        )


if __name__ == "__main__":
    main()
