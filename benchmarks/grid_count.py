"""How many mappings lie within a share of the bound, estimated: `python -m benchmarks.grid_count 1024x32:i_hihi`.

The number of 0/1 matrices with a one in each row and column sums below a cap, by the entropy of the largest product
distribution that keeps the caps in the mean, less what meeting all of them at once costs (Barvinok & Hartigan 2010,
"Maximum entropy Gaussian approximations", for the integer points of a polytope; inequalities by the exponential tail
beyond each cap). An estimate, no proof: where it is far below one, nothing is to be expected there.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.optimize import minimize

from batchcast.grid.balance import prices
from batchcast.grid.matrix import draw_times

HARDEST = ("1024x32:i_hihi", "1024x32:s_lohi", "2048x64:s_lohi")
SHARES = (0.001, 0.002, 0.003, 0.004, 0.005, 0.0075)


def log10_mappings(times: np.ndarray, cap: float) -> float:
    """log10 of the expected number of mappings of `times` (n, m) with every resource below `cap`."""
    share = times / cap

    def dual(price: np.ndarray) -> tuple[float, np.ndarray]:
        """The entropy's dual and its gradient at the caps' multipliers `price` (m,)."""
        odds = -share * price
        most = odds.max(axis=1, keepdims=True)
        weight = np.exp(odds - most)
        total = weight.sum(axis=1, keepdims=True)
        gradient = 1.0 - (weight / total * share).sum(axis=0)
        return float((np.log(total) + most).sum() + price.sum()), gradient

    m = times.shape[1]
    start, bounds = np.full(m, 50.0), [(1e-6, None)] * m
    least = minimize(dual, start, jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": 3000, "ftol": 1e-14})
    chance = np.exp(-share * least.x)
    chance /= chance.sum(axis=1, keepdims=True)
    load = chance * share
    covariance = np.diag((load * share).sum(axis=0)) - load.T @ load
    cost = 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1] + np.log(least.x).sum()
    return float(least.fun - cost) / float(np.log(10.0))


def main() -> None:
    """A line a matrix: drawn with seed 7, as in `grid_box`."""
    for drawn in sys.argv[1:] or HARDEST:
        size, kind = drawn.split(":")
        n, m = map(int, size.split("x"))
        times = draw_times(np.random.default_rng(7), n, m, kind)
        bound, _ = prices(times, np.zeros(m), 2000)
        words = [f"{100 * share:g} %: 10^{log10_mappings(times, bound * (1 + share)):.0f}" for share in SHARES]
        print(f"{drawn}, mappings within so much of the bound: {', '.join(words)}", flush=True)


if __name__ == "__main__":
    main()
