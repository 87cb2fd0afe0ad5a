# SPDX-License-Identifier: Apache-2.0
"""A binary heap of records (key, tie, item) in an array, used for ends of running jobs and for candidates of a pass."""

from __future__ import annotations

import numpy as np

from ..compiled import inlined
from ..compiled.arrays import Record


@inlined
def push(heap: Record, count: int, key: float, tie: int | np.int64, item: int) -> int:
    """Add an entry to a heap of `count` entries, the smallest (key, tie) first; return the new count. O(log count)."""
    place = count
    while place > 0:
        parent = (place - 1) >> 1
        above = heap[parent]
        if above.key < key or (above.key == key and above.tie < tie):
            break
        heap[place] = above
        place = parent
    heap[place].key = key
    heap[place].tie = tie
    heap[place].item = item
    return count + 1


@inlined
def pop(heap: Record, count: int) -> int:
    """Remove the first entry of a heap of `count` entries; return the new count. O(log count).

    The gap moves down to a leaf; the last entry fills the gap and moves up (bottom-up heapsort, Wegener 1993). The
    smaller child is chosen by arithmetic, because a processor cannot predict a branch for it.
    """
    last = count - 1
    moved = heap[last]
    place, child = 0, 2
    while child < last:
        left, right = heap[child - 1], heap[child]
        child -= int((left.key < right.key) | ((left.key == right.key) & (left.tie < right.tie)))
        heap[place] = heap[child]
        place = child
        child = 2 * place + 2
    if child == last:
        heap[place] = heap[child - 1]
        place = child - 1
    while place > 0:
        parent = (place - 1) >> 1
        if not before(moved, heap[parent]):
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = moved
    return last


@inlined
def before(one: Record, other: Record) -> bool:
    """Return whether entry `one` comes before entry `other`."""
    return bool(one.key < other.key or (one.key == other.key and one.tie < other.tie))
