"""Which processors a schedule's jobs could have had: what a picture needs, since a pool only counts them."""

from __future__ import annotations

from bisect import insort
from typing import NamedTuple

import numpy as np


class Pieces(NamedTuple):
    """Blocks of neighbouring processors: job (its place in the arrays given), first processor and how many, (m,)."""

    job: np.ndarray
    first: np.ndarray
    procs: np.ndarray


def placement(start: np.ndarray, end: np.ndarray, procs: np.ndarray, total: int) -> Pieces:
    """Places every job on processors 0.. so that no two jobs share one at a time; one job may come in several pieces.

    Jobs are placed in the order they start (ties: as given), ends of the same instant first, each into the smallest gap
    that holds it whole (ties: the lowest), else into the lowest gaps one after the other. Where jobs hold more than
    `total` at once, processors above it are used. Jobs of no length or unknown times have no piece. A job that fits the
    machine is never moved while it runs. O(n g), g the number of gaps.

    >>> [column.tolist() for column in placement(np.array([0.0, 0.0, 5.0]), np.array([5.0, 9.0, 9.0]),
    ...                                          np.array([2, 1, 2]), 3)]
    [[0, 1, 2], [0, 2, 0], [2, 1, 2]]
    """
    free: list[tuple[int, int]] = [(0, int(total))] if total > 0 else []
    top = max(int(total), 0)
    running: list[tuple[float, int, list[tuple[int, int]]]] = []
    pieces: list[tuple[int, int, int]] = []
    drawn = np.flatnonzero((end > start) & (procs > 0))
    for job in drawn[np.argsort(start[drawn], kind="stable")].tolist():
        while running and running[0][0] <= start[job]:
            free = _merged(free + running.pop(0)[2])
        need = int(procs[job])
        if (room := sum(count for _, count in free)) < need:
            free = _merged([*free, (top, need - room)])
            top += need - room
        taken, free = _take(free, need)
        insort(running, (float(end[job]), job, taken))
        pieces += [(job, first, count) for first, count in taken]
    table = np.array(pieces, dtype=np.int64).reshape(-1, 3)
    return Pieces(table[:, 0], table[:, 1], table[:, 2])


def _take(free: list[tuple[int, int]], need: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The blocks a job gets and the gaps that stay."""
    whole = [(count, first) for first, count in free if count >= need]
    order = [min(whole)[::-1]] if whole else list(free)
    taken: list[tuple[int, int]] = []
    for first, count in order:
        if need == 0:
            break
        taken.append((first, min(count, need)))
        need -= taken[-1][1]
    held = dict(taken)
    left = [(first + held.get(first, 0), count - held.get(first, 0)) for first, count in free]
    return taken, [gap for gap in left if gap[1]]


def _merged(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Gaps in order, neighbours joined."""
    made: list[tuple[int, int]] = []
    for first, count in sorted(gaps):
        if made and sum(made[-1]) == first:
            made[-1] = (made[-1][0], made[-1][1] + count)
        else:
            made.append((first, count))
    return made
