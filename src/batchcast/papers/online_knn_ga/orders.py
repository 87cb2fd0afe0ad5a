# SPDX-License-Identifier: Apache-2.0
"""The neighbour orders of a training set, once per template: they do not depend on N, K, alpha or beta.

For a query, the order of all candidates (distance, then the more recent) is sorted once, and queries with equal numbers
share it. "Among the last N eligible" is then a test of a candidate's place in completion order, so a genome needs only
one pass over the list. Most of the list is never needed: an entry can be among the K nearest for some N only if fewer
than `most` entries before it are more recent. Of n candidates about most * (1 + log(n/most)) remain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compiled import allocating
from .nearest import distance


class Orders(NamedTuple):
    """Orders of one template: query i's candidates, nearest first, are `entries[start[i]:start[i + 1]]`."""

    start: np.ndarray
    entries: np.ndarray


def neighbour_orders(
    queries: np.ndarray,
    query_codes: np.ndarray,
    done: np.ndarray,
    values: np.ndarray,
    codes: np.ndarray,
    templates: tuple[int, ...],
    most: int,
) -> dict[int, Orders]:
    """Return the orders of every template, for normalised queries (t, m), their codes (t, f) and finished counts (t,).

    Candidates of query i are the first done[i] rows of `values` (jobs, m), normalised, and `codes` (jobs, f), in
    completion order. `most` is the largest K. O(d n log n + t n) per template, d distinct queries.
    """
    distinct, group = np.unique(np.nan_to_num(queries, nan=np.inf), axis=0, return_inverse=True)
    vectors = np.where(np.isinf(distinct), np.nan, distinct)
    order = sorted_candidates(vectors, values)
    by_key: dict[bytes, Orders] = {}
    orders = {}
    for template in templates:
        label = classes(np.concatenate([codes, query_codes]), template)
        key = label.tobytes()
        if key not in by_key:  # a field without new information gives the same classes, hence the same order
            entries, start = needed(order, group.ravel(), done, label[: len(codes)], label[len(codes) :], most)
            by_key[key] = Orders(start, entries)
        orders[template] = by_key[key]
    return orders


def classes(codes: np.ndarray, template: int) -> np.ndarray:
    """Return one label per row of `codes` (n, fields): equal exactly if all fields of the template are, int64 (n,).

    Labels count up in order of first appearance, so templates with the same classes give the same labels.

    >>> classes(np.array([[7, 1], [5, 1], [7, 2]]), 0b01).tolist()
    [0, 1, 0]
    """
    label = np.zeros(len(codes), dtype=np.int64)
    for field in range(codes.shape[1]):
        if (template >> field) & 1:
            column = codes[:, field].astype(np.int64)
            column -= column.min(initial=0)
            _, first, label = np.unique(
                label * (column.max(initial=0) + 1) + column, return_index=True, return_inverse=True
            )
            label = np.argsort(np.argsort(first))[label.ravel()]
    return label


@allocating
def sorted_candidates(vectors: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return, per distinct query vector (d, m), all candidates (jobs, m) by distance, then recency, (d, jobs)."""
    jobs = len(values)
    order = np.empty((len(vectors), jobs), dtype=np.int32)
    away = np.empty(jobs)
    for v in range(len(vectors)):
        for back in range(jobs):
            away[back] = distance(values[jobs - 1 - back], vectors[v])
        ranked = np.argsort(away, kind="mergesort")
        for at in range(jobs):
            order[v, at] = jobs - 1 - ranked[at]
    return order


@allocating
def needed(
    order: np.ndarray,
    group: np.ndarray,
    done: np.ndarray,
    labels: np.ndarray,
    query_labels: np.ndarray,
    most: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the entries that some N in 1.. and K <= most can reach, query after query, and where each query begins."""
    start = np.zeros(len(group) + 1, dtype=np.int64)
    entries = np.empty(1024, dtype=np.int32)
    recent = np.empty(most, dtype=np.int64)  # the `most` largest places so far, ascending
    for i in range(len(group)):
        at = start[i]
        held = 0
        for place in order[group[i]]:
            if place >= done[i] or labels[place] != query_labels[i]:
                continue
            if held == most and place < recent[0]:
                continue
            if at == len(entries):
                entries = np.concatenate((entries, np.empty_like(entries)))
            entries[at] = place
            at += 1
            if held < most:
                slot = held
                held += 1
                while slot > 0 and recent[slot - 1] > place:
                    recent[slot] = recent[slot - 1]
                    slot -= 1
            else:
                slot = 0
                while slot + 1 < most and recent[slot + 1] < place:
                    recent[slot] = recent[slot + 1]
                    slot += 1
            recent[slot] = place
        start[i + 1] = at
    return entries[: start[-1]].copy(), start
