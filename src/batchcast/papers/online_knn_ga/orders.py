# SPDX-License-Identifier: Apache-2.0
"""Sorts the neighbours of a training set once per template, because the order does not depend on N, K, alpha or beta.

For each query, all candidates are sorted once by distance, and at equal distance by recency, the latest first; queries
with equal numbers share the order. A genome then needs only one pass over the sorted list, which skips candidates that
are not among the last N jobs in completion order. Most entries of the list are never needed: an entry can be among the
K nearest for some N only if fewer than `most` of the nearer entries are more recent. Of n candidates, about most * (1 +
log(n/most)) remain in the list.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compiled import allocating
from .nearest import distance


class Orders(NamedTuple):
    """The sorted neighbours under one template: query i's candidates, nearest first, are `entries[start[i]:start[i +
    1]]`."""

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
    """Return each template's sorted neighbours of the queries, given by normalised numbers (t, m), codes (t, f) and
    counts of finished jobs (t,).

    Candidates of query i are the first done[i] rows of `values` (jobs, m), normalised, and `codes` (jobs, f), in
    completion order. `most` is the largest number K of neighbours. The cost per template is O(d n log n + t n) for n
    jobs and t queries, of which d are distinct.
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
    """Return labels, int64 (n,): rows of `codes` (n, fields) that are equal in the template's fields get equal labels.

    Labels are numbered by first appearance, so templates that split the rows into the same classes give the same
    labels.

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
    """Return, for each query vector (d, m), the candidates (jobs, m) sorted by distance, then recency, (d, jobs)."""
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
    """Return the entries that any N and K <= most can need, query after query, and the index at which each query's
    entries begin."""
    start = np.zeros(len(group) + 1, dtype=np.int64)
    entries = np.empty(1024, dtype=np.int32)
    recent = np.empty(most, dtype=np.int64)  # the `most` latest positions in completion order so far, ascending
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
