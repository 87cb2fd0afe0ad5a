"""Which processors each job of a schedule holds: the lowest free ones, so that no two jobs share one at one time."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from ..errors import InputError

Intervals = list[tuple[int, int]]


def place(start: np.ndarray, end: np.ndarray, procs: np.ndarray, total: int) -> list[Intervals]:
    """For each job (n,) its processors, numbered from 0, as closed intervals in ascending order.

    The schedule only counts processors; this numbers them afterwards, which is always possible: at one instant jobs
    that end give theirs back first, then jobs of no length take and return theirs, then the others start, by row.
    Jobs get the lowest free numbers. Raises InputError where more than `total` are held at once. O(n log n + n g), g
    the gaps among the free.

    >>> place(np.array([0.0, 0.0, 5.0]), np.array([5.0, 9.0, 7.0]), np.array([2, 1, 3]), 4)
    [[(0, 1)], [(2, 2)], [(0, 1), (3, 3)]]
    """
    n = len(start)
    free: Intervals = [(0, total - 1)]
    given: list[Intervals] = [[] for _ in range(n)]
    row = np.arange(n)
    lasts = end > start
    time = np.concatenate([end[lasts], start])
    kind = np.concatenate([np.zeros(int(lasts.sum()), dtype=int), np.where(lasts, 2, 1)])
    rows = np.concatenate([row[lasts], row])
    order = np.lexsort((rows, kind, time))
    for k, what in zip(rows[order].tolist(), kind[order].tolist()):
        if what == 0:
            _give_back(free, given[k])
            continue
        given[k] = _take(free, int(procs[k]))
        if what == 1:
            _give_back(free, given[k])
    return given


def interval_text(held: Intervals) -> str:
    """Intervals as Batsim writes them, its canonical form.

    >>> interval_text([(0, 3), (8, 8)])
    '0-3 8'
    """
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in held)


def _take(free: Intervals, count: int) -> Intervals:
    """The lowest `count` free processors, no longer free."""
    taken: Intervals = []
    used = 0
    for low, high in free:
        if count <= 0:
            break
        size = min(count, high - low + 1)
        taken.append((low, low + size - 1))
        count -= size
        if low + size <= high:
            free[used] = (low + size, high)
        else:
            used += 1
    if count > 0:
        raise InputError("the schedule holds more processors at once than the machine has")
    del free[:used]
    return taken


def _give_back(free: Intervals, held: Intervals) -> None:
    """Processors free again, joined with their free neighbours."""
    for low, high in held:
        k = bisect_left(free, (low, high))
        if k < len(free) and free[k][0] == high + 1:
            high = free.pop(k)[1]
        if k > 0 and free[k - 1][1] == low - 1:
            k -= 1
            low = free.pop(k)[0]
        free.insert(k, (low, high))
