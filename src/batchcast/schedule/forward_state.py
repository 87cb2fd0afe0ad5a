"""What the forward simulation holds: its arrays, their places, and room for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiled.by_address import by_address
from .state import HEAP

FCFS, EASY, EASY_SJBF, GREEDY = range(4)
SIZE, FREE, EXTRA, HEAD, JOBS, RUNNING, NEAR, FAR, OPENINGS, POLICY, RESERVED = range(11)
NOW, SHADOW = range(2)
BLOCK, WIDE = 16, 256
OPENING = np.dtype(
    [("time", "f8"), ("shadow", "f8"), ("shortest", "f8"), ("below", "f8"), ("free", "i8"), ("extra", "i8")]
)


@by_address
class Forward(NamedTuple):
    """The simulation's arrays: `tally` by SIZE..RESERVED, `time` by NOW and SHADOW; the queue by arrival.

    `start` is when a queued job starts (infinity: not yet; before now: frozen, it runs; -infinity: it left, or never
    fits). `order` and `place` map candidate places to jobs and back; `slot_*`, `block_*` and `wide_*` are processors
    and planned run times by candidate place and their minima over 16 and 256 places.
    """

    tally: np.ndarray
    time: np.ndarray
    running_end: np.ndarray
    running_procs: np.ndarray
    procs: np.ndarray
    planned: np.ndarray
    start: np.ndarray
    order: np.ndarray
    place: np.ndarray
    slot_procs: np.ndarray
    slot_planned: np.ndarray
    block_procs: np.ndarray
    block_planned: np.ndarray
    wide_procs: np.ndarray
    wide_planned: np.ndarray
    near: np.ndarray
    far: np.ndarray
    openings: np.ndarray


def blank_forward(size: int, running: int, queued: int, policy: int) -> Forward:
    """Room for so many running and queued jobs; every queued one may come to run."""
    blocks, wides = queued // BLOCK + 1, queued // WIDE + 1
    count, time = np.zeros(11, np.int64), np.zeros(2)
    count[SIZE], count[POLICY] = size, policy
    run, ends = running + queued, running + queued + 1
    return Forward(
        *(count, time, np.empty(run), _indices(run), _indices(queued), np.empty(queued), np.empty(queued)),
        *(_indices(queued), _indices(queued), _indices(queued), np.empty(queued)),
        *(_indices(blocks), np.empty(blocks), _indices(wides), np.empty(wides)),
        *(np.empty(ends, HEAP), np.empty(ends, HEAP), np.empty(run + queued + 2, OPENING)),
    )


def _indices(n: int) -> np.ndarray:
    return np.empty(n, np.int64)
