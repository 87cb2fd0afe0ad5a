"""How close a search comes to the lower bound within a limit of processor time: `python benchmarks/policy/grid_box.py
search 2 1024x32:c_lolo`.

Matrices are drawn by Braun's recipe with seed 7, as `batchcast grid draw` draws them. The command's own limit is
wall-clock time, so that it does less on a busy machine; and `exact` computes its bound here between the search and the
chains, not in parallel. The solver also uses wall-clock time, so a busy machine proves less here too.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from batchcast.broker.model import Batch, makespan
from batchcast_papers.grid.files import draw_times
from batchcast_papers.grid.heuristics.exact import Exact
from batchcast_papers.grid.heuristics.search import Search

HARDEST = [f"{size}:{kind}" for size in ("1024x32", "2048x64") for kind in ("c_hihi", "s_lohi", "c_lolo", "i_hihi")]


def boxed(name: str, seconds: float, batch: Batch) -> tuple[float, float]:
    """Return the excess over the bound as a share, and the processor time used."""
    began = time.process_time()
    method: Search | Exact
    if name == "search":
        method = Search(kicks=10**9)
        method.stop = lambda: time.process_time() - began > seconds
    else:
        method = Exact(seconds=seconds, kicks=10**9)
        method.left = lambda: began + seconds - time.process_time()
    plan, bound = method.solve(batch)
    return makespan(batch, plan) / bound - 1, time.process_time() - began


def main() -> None:
    """Print one line per matrix."""
    name, seconds = sys.argv[1], float(sys.argv[2])
    Search(kicks=5).solve(Batch.of_times(np.random.default_rng(1).uniform(1, 9, (40, 4))))  # compiles
    for drawn in sys.argv[3:] or HARDEST:
        size, kind = drawn.split(":")
        n, m = map(int, size.split("x"))
        over, took = boxed(name, seconds, Batch.of_times(draw_times(np.random.default_rng(7), n, m, kind)))
        print(f"{name} {drawn}: {100 * over:.2f} % over the bound, {took:.1f} s of processor time", flush=True)


if __name__ == "__main__":
    main()
