"""Cuts a log into periods so that no instant lies in two of them."""

from __future__ import annotations

import itertools

import numpy as np

from batchcast import Trace


def cut(log: Trace, pieces: int) -> list[Trace]:
    """Return about this many pieces with about equally many jobs."""
    at = [len(log) * k // pieces for k in range(1, pieces)]
    edges = sorted({0, len(log), *np.searchsorted(log.submit_time, log.submit_time[at]).tolist()})
    return [log[first:end] for first, end in itertools.pairwise(edges)]
