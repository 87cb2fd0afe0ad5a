# SPDX-License-Identifier: Apache-2.0
"""Compares the waits that `whatif --demand` predicts for a changed amount of work with the recorded waits.

`python -m benchmarks.machines.growth_backtest LOG...` splits each log into quarters of equal time. Each quarter
predicts the next one: the simulation receives the change of the work per day, which an operator would have to assume,
and no other information about the next quarter. In no log of the shared folder does the machine get more nodes, so the
machine is not changed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from batchcast.events.machine_size import machine_of_log
from batchcast.results.whatif import NOW, Variants, growth
from batchcast.table import Trace
from batchcast.trace.read import read_trace

PARTS, REPLICATES = 4, 9
"""The smallest and the largest of nine replicates enclose a tenth one with a probability of 80 %."""


def quarters(log: Trace) -> list[Trace]:
    """Split a log by time into PARTS, and leave out jobs without a run time or wait."""
    known = log.take(np.flatnonzero((log.run_time > 0) & np.isfinite(log.wait_time) & np.isfinite(log.procs("req"))))
    first, last = known.submit_time[[0, -1]]
    which = np.minimum((known.submit_time - first) * PARTS // (last - first), PARTS - 1)
    return [known.take(np.flatnonzero(which == k)) for k in range(PARTS)]


def work(log: Trace) -> float:
    """Return the processor-seconds of a log."""
    return float((log.procs("req") * log.run_time).sum())


def foretold(name: str, before: Trace, after: Trace, part: int) -> dict[str, Any]:
    """Predict the waits of the following quarter, and compare them with the recorded waits."""
    plan = Variants.of(machine_of_log(before), [])
    share = work(after) / work(before) - 1
    (row,) = (one for one in growth(before, plan, share, replicates=REPLICATES).rows if one["partition"] == "all")
    simulated = plan.simulate(after, NOW, "req").schedule.wait_time
    found: dict[str, Any] = {"log": name, "from": part + 1, "to": part + 2, "work": share, "jobs": len(after)}
    for key, of in (("mean_wait_s", np.mean), ("wait_90_s", lambda wait: np.quantile(wait, 0.9))):
        found |= {key: row[key], f"{key}_low": row[f"{key}_low"], f"{key}_high": row[f"{key}_high"]}
        found |= {f"{key}_before": float(of(before.wait_time)), f"{key}_recorded": float(of(after.wait_time))}
        found[f"{key}_simulated"] = float(of(simulated))
    return found


def main(paths: list[str]) -> None:
    rows = []
    for path in paths:
        name, log = Path(path).name.split("-cln")[0], read_trace(path)
        parts = quarters(log)
        rows += [foretold(name, parts[k], parts[k + 1], k) for k in range(PARTS - 1)]
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
