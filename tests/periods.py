"""A log cut into periods, no instant in two of them."""

from __future__ import annotations

import itertools

import numpy as np

from batchcast import Trace


def cut(log: Trace, pieces: int) -> list[Trace]:
    """About so many pieces of about as many jobs."""
    at = [len(log) * k // pieces for k in range(1, pieces)]
    edges = sorted({0, len(log), *np.searchsorted(log.submit_time, log.submit_time[at]).tolist()})
    return [log[first:end] for first, end in itertools.pairwise(edges)]
