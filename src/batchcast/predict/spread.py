"""From a handful of like jobs to quantiles: what can be promised when so many ran before."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .protocol import at_least_a_second

LEVELS = (0.1, 0.5, 0.9)


def sample_quantiles(
    run_times: Sequence[float], limit: float = float("nan"), levels: Sequence[float] = LEVELS
) -> tuple[float, ...]:
    """Quantiles of the next run time as order statistics of n earlier ones: the ceil(level * (n + 1))-th smallest.

    That rank makes P(next <= value) at least `level` when the n + 1 run times are exchangeable; with too few jobs for
    a level the largest (or smallest) stands in, which promises less: the report's coverage shows what it was worth.
    Kept between one second and the limit, monotone. Seconds; () for no jobs. O(n log n).

    >>> sample_quantiles([30.0, 10.0, 20.0])
    (10.0, 20.0, 30.0)
    """
    ordered = sorted(run_times)
    n = len(ordered)
    if not n:
        return ()
    ranks = (min(max(math.ceil(level * (n + 1) - 1e-9), 1), n) for level in levels)
    return tuple(at_least_a_second(ordered[rank - 1], limit) for rank in ranks)
