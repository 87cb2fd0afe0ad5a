# SPDX-License-Identifier: Apache-2.0
"""How much memory to ask for at the least expected waste. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def least_waste(levels: Sequence[float], bounds: Sequence[float] | np.ndarray, again: float) -> float:
    """The bound with the least expected memory-time where a job that runs out is run again, every attempt in full.

    Parameters
    ----------
    levels
        In (0, 1), ascending (n,).
    bounds
        What the peak keeps to with these chances (n,), not descending, in any unit above 0.
    again
        What the second attempt asks, in the same unit; where it does not suffice or is unknown (NaN), each attempt
        asks twice as much as the one before.

    Returns
    -------
    float
        One of the bounds, the largest of equals.

    Notes
    -----
    The peak is taken to be the upper bound between two levels, and twice the last bound above it: with calibrated
    levels these chances are kept, where the support of an empirical distribution is exceeded by every job that needs a
    little more than the last. An attempt counts for the whole run time although it ends when memory does, which errs
    on the side of the larger request; the run time is taken as independent of the peak. After Tovar et al., A job
    sizing strategy for high-throughput scientific workflows, IEEE TPDS 29(2), 2018, doi:10.1109/TPDS.2017.2762310,
    where the first request is chosen from an empirical distribution and the second is the largest peak seen. O(n^2).

    >>> least_waste((0.75, 0.99), [1.0, 10.0], 16.0), least_waste((0.5, 0.99), [6.0, 10.0], 16.0)
    (1.0, 10.0)
    """
    first = np.asarray(bounds, float)
    peaks = np.append(first, 2.0 * first[-1])
    weights = np.diff([0.0, *levels, 1.0])
    steps = np.ceil(np.log2(peaks / first[:, None]) - 1e-12)
    doubled = first[:, None] * (2.0 ** (steps + 1.0) - 1.0)
    more = np.where(again >= peaks, first[:, None] + again, doubled)
    cost = np.where(peaks <= first[:, None], first[:, None], more) @ weights
    return float(first[cost <= cost.min() * (1.0 + 1e-12)].max())
