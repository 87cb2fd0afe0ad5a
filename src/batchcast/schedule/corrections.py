"""Corrections: the new planned length of a job that outlived its plan, by integer code.

All are capped by the request: only the request ends a job. Tsafrir, Etsion & Feitelson (TPDS 2007) for `incremental`.
"""

from __future__ import annotations

import numpy as np

from ..compiled import inlined

TO_REQUEST, INCREMENTAL, DOUBLING = range(3)
NAMES = {"requested": TO_REQUEST, "incremental": INCREMENTAL, "doubling": DOUBLING}

STEPS = np.array([1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000], np.float64) * 60.0  # 1 min .. 100 h


@inlined
def corrected(correction: int, elapsed: float, first: float, request: float, step: int) -> float:
    """The planned length after the `step`-th correction (from 0) of a job running for `elapsed` seconds.

    requested: the request. incremental: first prediction + STEPS[step], the request when they are used up. doubling:
    first prediction * 2^(step + 1). Never above the request; where that leaves no time beyond `elapsed`, the request.
    """
    if correction == INCREMENTAL and step < STEPS.size:
        new = first + STEPS[step]
    elif correction == DOUBLING and step < 60:
        new = first * 2.0 ** (step + 1)
    else:
        new = request
    new = min(new, request)
    return new if new > elapsed else request
