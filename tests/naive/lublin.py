"""Lublin & Feitelson's model (2003) job by job, with one random number per decision and a walk through slots."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np


def size(rng: np.random.Generator, kind: Any, procs: int) -> int:
    what = rng.random()
    if what <= kind.serial:
        return 1
    widest = math.log2(procs) - kind.narrower
    middle = widest - kind.below_widest
    octave = rng.uniform(kind.smallest, middle) if rng.random() <= kind.first_stage else rng.uniform(middle, widest)
    if what <= kind.serial + kind.power_of_two:
        octave = math.floor(octave + 0.5)
    return min(math.floor(2.0**octave + 0.5), procs)


def run_time(rng: np.random.Generator, kind: Any, procs: int) -> float:
    share = min(max(kind.short_slope * procs + kind.short_share, 0.0), 1.0)
    while True:
        log = rng.gamma(*(kind.short if rng.random() <= share else kind.long))
        if log <= 12.0:
            return float(math.floor(math.exp(log)))


def arrivals(gaps: list[float], weights: list[float]) -> Iterator[float]:
    """Each gap pays for time: half an hour of a slot costs the slot's weight in half hours, and the rest counts for the
    next slot."""
    slot, within, day = 0, 0.0, 0
    for gap in gaps:
        left = gap
        while left > (1.0 - within) * weights[slot] * 1800.0:
            left -= (1.0 - within) * weights[slot] * 1800.0
            within, slot = 0.0, slot + 1
            if slot == 48:
                slot, day = 0, day + 1
        within += left / (weights[slot] * 1800.0)
        yield day * 86400.0 + (slot + within) * 1800.0
