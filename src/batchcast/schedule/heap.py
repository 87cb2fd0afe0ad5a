"""A binary heap of records (key, tie, item) in an array: the ends of running jobs, the choices of a pass."""

from __future__ import annotations

import numpy as np

from ..compiled import inlined
from ..compiled.arrays import Record


@inlined
def push(heap: Record, count: int, key: float, tie: int | np.int64, item: int) -> int:
    """Add an entry to a heap of `count`, the smallest (key, tie) first; returns the new count. O(log count)."""
    place = count
    while place > 0:
        above = heap[(place - 1) // 2]
        if above.key < key or (above.key == key and above.tie < tie):
            break
        heap[place] = above
        place = (place - 1) // 2
    heap[place].key = key
    heap[place].tie = tie
    heap[place].item = item
    return count + 1


@inlined
def pop(heap: Record, count: int) -> int:
    """Drop the first entry of a heap of `count`; returns the new count. O(log count)."""
    last = count - 1
    moved = heap[last]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= last:
            break
        if child + 1 < last and before(heap[child + 1], heap[child]):
            child += 1
        if before(moved, heap[child]):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = moved
    return last


@inlined
def before(one: Record, other: Record) -> bool:
    """Whether one entry comes before another."""
    return bool(one.key < other.key or (one.key == other.key and one.tie < other.tie))
