# SPDX-License-Identifier: Apache-2.0
"""An index over a long queue: a tree of minima for each class of width, with 16 slots or 16 nodes below each node.

A job can be backfilled if it needs at most the free processors, and either ends before the head's reservation or leaves
the head enough processors. Separate minima of width (processors) and planned run time cannot show whether one job meets
both conditions; the minimum run time per class of width can. The index exists only while the queue is long. A pass then
costs (started jobs) x log(queue).

A row of the index is a node of the tree: the smallest planned run time of each class, the smallest candidate key of
each class, and the smallest key for choosing the head job. Row 0 has the smallest width of each class. The array stores
the tree level by level, the leaves first.
"""

from __future__ import annotations

import numpy as np

from ..compiled import inlined, inner
from ..compiled.arrays import Record
from .state import CLASSES, GONE, HEAD_KEY, KEYS, ROW, choices_of, nodes_of, pop, push, slots_of

LAST = 1.7e308  # stands for an infinite key, because infinity means that a node has no job
LEVEL = 1 << 40  # a node is encoded as level * LEVEL + its position in the level


@inner
def watch_length(s: Record, rules: Record) -> None:
    """Build the index when the queue becomes long, drop the index when the queue is short. O(queue), amortised O(1)."""
    span = s.tail - s.head
    if s.indexed:
        s.indexed = 4 * span > rules.long_queue
    elif span > rules.long_queue:
        build(s, rules)


@inner
def build(s: Record, rules: Record) -> None:
    """Enter every slot into the index."""
    s.indexed = 1
    for position in range(s.tail):
        enter(s, rules, position)


@inlined
def classes_within(s: Record, procs: int | np.int64) -> int:
    """Return the number of width classes whose smallest width is at most `procs`.

    Some jobs in the last of the counted width classes may need more than `procs` processors. A job of `procs`
    processors belongs to the last of the counted width classes.
    """
    index = nodes_of(s)
    count = 0
    for k in range(CLASSES):
        count += index[0, k] <= procs
    return count


@inner
def enter(s: Record, rules: Record, position: int) -> None:
    """Lower the minima in the tree nodes above a queue slot. Entering the first slot below a tree node resets the node.
    O(levels), usually less."""
    index = nodes_of(s)
    slot = slots_of(s)[position]
    live = slot.procs != GONE
    number = classes_within(s, slot.procs) - 1
    row, size, node, within = 1, s.leaves, position // 16, position % 16
    while True:
        entry = index[row + node]
        lowered = within == 0
        if lowered:
            for k in range(ROW):
                entry[k] = np.inf
        if live:
            if slot.planned < entry[number]:
                entry[number] = slot.planned
                lowered = True
            if rules.candidate_order != 0 and min(slot.candidate_key, LAST) < entry[KEYS + number]:
                entry[KEYS + number] = min(slot.candidate_key, LAST)
                lowered = True
            if rules.head_order != 0 and slot.head_key < entry[HEAD_KEY]:
                entry[HEAD_KEY] = slot.head_key
                lowered = True
        if size == 1 or not lowered:
            return
        row += size
        size = (size + 15) // 16
        within += 16 * (node % 16) if within == 0 else 1
        node //= 16


@inner
def leave(s: Record, rules: Record, position: int, procs: np.int64) -> None:
    """Raise the minima in the tree nodes above a queue slot that became empty; `procs` was the width of its job. The
    call takes at most O(16 levels) time."""
    slots, index = slots_of(s), nodes_of(s)
    number = classes_within(s, procs) - 1
    length = key = head_key = np.inf
    for other in range(position // 16 * 16, min(position // 16 * 16 + 16, s.tail)):
        slot = slots[other]
        if slot.procs == GONE:
            continue
        head_key = min(head_key, slot.head_key)
        if classes_within(s, slot.procs) - 1 == number:
            length = min(length, slot.planned)
            key = min(key, min(slot.candidate_key, LAST))
    row, size, node, last = 1, s.leaves, position // 16, (s.tail - 1) // 16
    while True:
        entry = index[row + node]
        same = entry[number] == length
        entry[number] = length
        if rules.candidate_order != 0:
            same = same and entry[KEYS + number] == key
            entry[KEYS + number] = key
        if rules.head_order != 0:
            same = same and entry[HEAD_KEY] == head_key
            entry[HEAD_KEY] = head_key
        if same or size == 1:
            return
        length = key = head_key = np.inf
        for other in range(node // 16 * 16, min(node // 16 * 16 + 16, last + 1)):
            below = index[row + other]
            length = min(length, below[number])
            key = min(key, below[KEYS + number])
            head_key = min(head_key, below[HEAD_KEY])
        row += size
        size = (size + 15) // 16
        node //= 16
        last //= 16


@inlined
def may_pass(s: Record, slot: Record) -> bool:
    """Return whether a waiting job may be backfilled now: it fits, and does not delay the head's reservation."""
    if slot.procs > s.free:
        return False
    return bool(slot.procs <= s.extra_procs or s.now + slot.planned <= s.shadow_time)


@inlined
def least_key(s: Record, rules: Record, row: int, node: int) -> float:
    """Return the smallest candidate key below a node; infinity if no job below the node can be backfilled.

    If the policy does not order the backfill candidates, the key is 0, and the caller takes jobs by arrival.
    """
    entry = nodes_of(s)[row + node]
    least = np.inf
    for k in range(s.classes_free):
        if k < s.classes_extra or s.now + entry[k] <= s.shadow_time:
            if rules.candidate_order != 0:
                least = min(least, entry[KEYS + k])
            elif entry[k] < np.inf:
                return 0.0
    return least


@inner
def count_classes(s: Record) -> None:
    """Store the numbers of width classes that begin within the free and within the extra processors."""
    s.classes_free = classes_within(s, s.free)
    s.classes_extra = min(classes_within(s, s.extra_procs), s.classes_free)


@inner
def next_by_arrival(s: Record, rules: Record, head: int, start: int) -> int:
    """Return the first slot from `start` on, other than the head, that may be backfilled now, or -1."""
    slots = slots_of(s)
    position = start
    count_classes(s)
    while position < s.tail:
        if position % 16 == 0:
            row, size, node = 1, s.leaves, position // 16
            s.looked_at += 1
            if least_key(s, rules, row, node) == np.inf:
                span = 16
                while size > 1 and node % 16 == 0:
                    row += size
                    size = (size + 15) // 16
                    node //= 16
                    s.looked_at += 1
                    if least_key(s, rules, row, node) < np.inf:
                        break
                    span *= 16
                position += span
                continue
        slot = slots[position]
        s.looked_at += 1
        if position != head and may_pass(s, slot):
            return position
        position += 1
    return -1


@inlined
def top_level(s: Record) -> int:
    """Return the number of the tree's topmost level, which has one node; the leaves are level 0."""
    level, size = 0, s.leaves
    while size > 1:
        size = (size + 15) // 16
        level += 1
    return level


@inlined
def first_row(s: Record, level: int) -> int:
    """Return the index row of the first node of a level."""
    row, size = 1, s.leaves
    for _ in range(level):
        row += size
        size = (size + 15) // 16
    return row


@inner
def next_by_key(s: Record, rules: Record, count: int, head: int) -> tuple[int, int]:
    """Continue a search by key: return the size of the heap, and the next slot to backfill, or -1.

    The heap has tree nodes, each with the smallest key below it, and slots, each with its own key; equal keys are in
    order of position. Fewer and fewer jobs fit during a pass, so a node's key can only rise; it is checked when the
    node is opened.
    """
    slots, choices = slots_of(s), choices_of(s)
    count_classes(s)
    while count > 0:
        code, position = choices[0].item, choices[0].tie
        count = pop(choices, count)
        if code < 0:
            if may_pass(s, slots[position]):
                return count, position
            continue
        level, node = code // LEVEL, code % LEVEL
        s.looked_at += 16
        if level == 0:
            for other in range(node * 16, min(node * 16 + 16, s.tail)):
                if other != head and may_pass(s, slots[other]):
                    count = push(choices, count, slots[other].candidate_key, other, -1)
            continue
        row, span = first_row(s, level - 1), 16**level
        for child in range(node * 16, min(node * 16 + 16, (s.tail - 1) // span + 1)):
            key = least_key(s, rules, row, child)
            if key < np.inf:
                count = push(choices, count, key, child * span, (level - 1) * LEVEL + child)
    return count, -1


@inner
def head_by_key(s: Record) -> int:
    """Return the slot of the head job: the smallest queue-order key, equal keys by arrival; the queue must have a job.
    O(16 levels)."""
    slots, index = slots_of(s), nodes_of(s)
    level, node = top_level(s), 0
    least = index[first_row(s, level)][HEAD_KEY]
    position: int = s.head
    if least == np.inf:
        return position
    while level > 0:
        level -= 1
        row = first_row(s, level)
        node *= 16
        while index[row + node][HEAD_KEY] != least:
            node += 1
    position = node * 16
    while slots[position].procs == GONE or slots[position].head_key != least:
        position += 1
    return position
