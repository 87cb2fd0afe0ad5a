"""Compares `kernel` with every other registered method, on the last jobs of each shared log with users, by paired
intervals."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from batchcast.evaluation.replay import replay
from batchcast.predict.registry import make
from batchcast.table import Trace
from batchcast.trace import read_trace
from benchmarks.speed.kernel import PAPERS, SHARED, WHOLE, difference, interval, measures, opened

LAST = 6_000
OTHERS = ("requested", "recent_mean", "last_2", "parzen", "user_clusters", "trip")
TRAINED = ("knn_ga", "minh_wolters", "smith_templates", "plain_regression", "su")
ON = "features=user_id+req_time+procs"  # these methods use features of VASP's input files, which no log has
MODELS = tuple(f"{name}:{ON},window=3000" for name in ("forest", "svr", "bayesian_ridge", "boosted", "irpa", "brbf"))


class Verdicts(NamedTuple):
    """The comparison of `kernel` with one method on one log, in MAE and in accuracy: ahead, level, behind or
    unknown."""

    method: str
    late: str
    near: str


def run() -> None:
    """Print every difference, then the methods that are not behind `kernel`; the real logs are not in the
    repository."""
    if not SHARED.is_dir():
        print("skipped: the real logs are not in the repository (BATCHCAST_SHARED names their folder)")
        return
    table()


def table(only: tuple[str, ...] = (), last: int = LAST, specs: tuple[str, ...] = OTHERS + TRAINED + MODELS) -> None:
    """Print a block of lines for each log (all, or those in `only`), then the rows of a table in
    docs/evidence/runtime.md."""
    print(f"the last {last:,} jobs, learned from alone: MAE in s, accuracy; kernel minus it (90 %); CPU s")
    rows = []
    for name, trace in logs(only):
        part = trace.take(np.arange(max(len(trace) - last, 0), len(trace)))
        own, found = beside(name, part, specs)
        rows.append(summary(name, own, found))
        print(rows[-1], flush=True)
    print("\n| log | `kernel`: MAE, accuracy | methods | ahead of in MAE | ahead of in accuracy "
          "| not ahead of in MAE | not ahead of in accuracy |\n|---|---|---|---|---|---|---|")  # fmt: skip
    print("\n".join(rows), flush=True)


def logs(only: tuple[str, ...]) -> Iterator[tuple[str, Trace]]:
    """Yield the shared logs with users, one at a time."""
    parts = {name: PAPERS[name] for name in ("HPC2N05", "SDSC04")} | WHOLE
    yield from opened({name: part for name, part in parts.items() if not only or name in only})
    if not only or "NREL" in only:
        yield "NREL", read_trace(str(SHARED / "traces" / "NREL-eagle-sample1000.csv.gz"), map="nrel")


def summary(name: str, own: str, found: list[Verdicts]) -> str:
    """Return a row of the table: the number of methods behind `kernel`, and the names of the others."""
    cells = [f"{sum(getattr(each, of) == 'ahead' for each in found)}" for of in ("late", "near")]
    for of in ("late", "near"):
        others = [f"`{v.method}` ({getattr(v, of)})" for v in found if getattr(v, of) != "ahead"]
        cells.append(", ".join(others) or "none")
    return f"| {name} | {own} | {len(found)} | {' | '.join(cells)} |"


def beside(name: str, trace: Trace, specs: tuple[str, ...]) -> tuple[str, list[Verdicts]]:
    """Print a line per method: the MAE and accuracy of `kernel`, and its comparison with the method."""
    whole = make("runtime", "kernel").predict_trace(trace).points
    error, accuracy = measures(whole, trace)
    own = f"{np.nanmean(error):,.0f} {np.nanmean(accuracy):.3f}"
    print(f"{name:10}{'kernel':42}{np.nanmean(error):8.0f}{np.nanmean(accuracy):6.3f}", flush=True)
    found = []
    for spec in specs:
        begun = time.process_time()
        points = replay(trace, [spec])[spec].points
        took = time.process_time() - begun
        error, accuracy = measures(points, trace)
        late, near = difference(whole, points, trace)
        largest = f"  {late.largest_share:.0%} one group's" if late.is_decided_by_one else ""
        found.append(Verdicts(spec.partition(":")[0], late.verdict(), near.verdict(lower_is_better=False)))
        print(
            f"{'':10}{spec.replace(ON + ',', ''):42}{np.nanmean(error):8.0f}{np.nanmean(accuracy):6.3f}"
            f"{interval(late, 0):>26}{interval(near, 3):>26}  {found[-1].late}, {found[-1].near}"
            f"{largest}  ({took:.0f} s)",
            flush=True,
        )
    return own, found
