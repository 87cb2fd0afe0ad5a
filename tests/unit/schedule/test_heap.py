"""Tests that the heap returns its entries in order, ties included, for any mixture of pushes and pops."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from batchcast.compiled import kernel
from batchcast.schedule.state import HEAP, pop, push


@kernel
def played(heap: np.ndarray, keys: np.ndarray, order: np.ndarray) -> int:
    """Push key k at step k; a negative key pops; `order` receives the popped entries."""
    count = popped = 0
    for step in range(keys.size):
        if keys[step] >= 0:
            count = push(heap, count, keys[step], step, step)
        elif count > 0:
            order[popped] = heap[0].item
            popped += 1
            count = pop(heap, count)
    while count > 0:
        order[popped] = heap[0].item
        popped += 1
        count = pop(heap, count)
    return popped


@given(st.lists(st.integers(-3, 5), max_size=80))
def test_entries_come_in_order_of_key_and_tie(steps: list[int]) -> None:
    keys = np.array(steps, np.float64)
    order = np.zeros(len(steps) + 1, np.int64)
    popped = played(np.zeros(len(steps) + 1, HEAP), keys, order)
    waiting: list[tuple[int, int]] = []
    expected = []
    for step, key in enumerate(steps):
        if key >= 0:
            heapq.heappush(waiting, (key, step))
        elif waiting:
            expected.append(heapq.heappop(waiting)[1])
    expected += [step for _, step in sorted(waiting)]
    assert list(order[:popped]) == expected
