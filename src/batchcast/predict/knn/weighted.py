# SPDX-License-Identifier: Apache-2.0
"""Nearest neighbours under a weighted distance over names and numbers.

One job at a time or a whole training set at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...compiled import allocating
from .nearest import alike, insert, mean_and_std, mean_of_last


@allocating
def weighted_nearest(
    codes: np.ndarray,
    values: np.ndarray,
    query_codes: np.ndarray,
    query: np.ndarray,
    null: np.ndarray,
    span: np.ndarray,
    weights: np.ndarray,
    template: int,
    n: int,
    k: int,
    parted_at: float,
) -> np.ndarray:
    """Positions of the k nearest of the last n finished jobs that match the template, nearest first.

    D(x, y) = sqrt(sum w_a d_a^2 / sum w_a): d is 0 or 1 for names (first the `codes`' weights), |x - y|/range for
    numbers (then the `values`'), 1 where either is unknown (`null` holds the code that means unknown), 0 in a column
    without range. With `parted_at` not NaN only jobs on the query's side of that number of processors (the first
    number) count. Ties: the more recently completed. O(n (fields + k)).
    """
    best = np.empty(k)
    positions = np.empty(k, dtype=np.int64)
    count = 0
    fields = len(query_codes)
    whole = weights.sum()
    for back in range(min(n, len(codes))):
        place = len(codes) - 1 - back
        if not alike(codes[place], query_codes, template):
            continue
        if parted_at == parted_at and (values[place, 0] > parted_at) != (query[0] > parted_at):
            continue
        total = 0.0
        for field in range(fields):
            if codes[place, field] != query_codes[field] or query_codes[field] == null[field]:
                total += weights[field]
        for column in range(len(query)):
            d = abs(values[place, column] - query[column])
            if d != d:
                total += weights[fields + column]
            elif span[column] > 0.0:
                d /= span[column]
                total += weights[fields + column] * d * d
        count = insert(best, positions, count, np.sqrt(total / whole) if whole > 0.0 else 0.0, place)
    return positions[:count]


OTHER_SIDE = 1 << 30


class Groups(NamedTuple):
    """Distinct queries against distinct finished jobs, and who is in which group.

    `parts` (q, g, attributes) are the differences d_a before weighing; `differs` (q, g) has a bit for each name field
    that differs, and OTHER_SIDE where only one of the two has more than `parted_at` processors. Group j's finished jobs
    are `members[start[j]:start[j + 1]]`, ascending; distinct query j's jobs likewise by `asked` and `query_start`.
    """

    parts: np.ndarray
    differs: np.ndarray
    start: np.ndarray
    members: np.ndarray
    query_start: np.ndarray
    asked: np.ndarray

    @classmethod
    def of(
        cls,
        codes: np.ndarray,
        values: np.ndarray,
        query_codes: np.ndarray,
        queries: np.ndarray,
        null: np.ndarray,
        span: np.ndarray,
        parted_at: float,
    ) -> Groups:
        """From finished jobs' and queries' codes and numbers, as `weighted_nearest` takes them. O((jobs + q g) a)."""
        known, start, members = _distinct(codes, values)
        asking, query_start, asked = _distinct(query_codes, queries)
        ours, theirs = query_codes[asking], codes[known]
        unequal = ours[:, None, :] != theirs[None, :, :]
        names = unequal | (ours == null)[:, None, :]
        apart = np.abs(values[known][None, :, :] - queries[asking][:, None, :])
        with np.errstate(invalid="ignore", divide="ignore"):
            numbers = np.where(np.isnan(apart), 1.0, np.where(span > 0, apart / span, 0.0))
        side = (queries[asking][:, 0] > parted_at)[:, None] != (values[known][:, 0] > parted_at)[None, :]
        bits = (unequal * (1 << np.arange(ours.shape[1]))).sum(axis=2)
        differs = bits + OTHER_SIDE * (side & (parted_at == parted_at))
        return cls(np.concatenate([names, numbers], axis=2), differs, start, members, query_start, asked)


def _distinct(codes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A row of each distinct kind, and the rows of each kind one after the other, ascending, with where they begin."""
    table = np.column_stack([codes, np.where(np.isnan(values), -np.inf, values)])
    _, first, kind = np.unique(table, axis=0, return_index=True, return_inverse=True)
    kind = kind.ravel()
    start = np.concatenate([[0], np.cumsum(np.bincount(kind, minlength=len(first)))])
    return first, start, np.argsort(kind, kind="stable")


@allocating
def grouped_estimates(
    groups: Groups,
    run: np.ndarray,
    total: np.ndarray,
    done: np.ndarray,
    fallback: np.ndarray,
    weights: np.ndarray,
    template: int,
    n: int,
    k: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each query's `weighted_nearest` among the first done[i] finished; std NaN: the limit.

    O(q g (attributes + log g)) for the distinct ones, then about K steps a query.
    """
    parts, differs, start, members, query_start, asked = groups
    count, attributes = parts.shape[1], parts.shape[2]
    mean, std = np.empty(len(done)), np.empty(len(done))
    whole = weights.sum()
    apart, which = np.empty(count), np.empty(count, dtype=np.int64)
    near, upper = np.empty(k, dtype=np.int64), np.empty(count, dtype=np.int64)
    for query in range(len(query_start) - 1):
        like = 0
        for group in range(count):
            if differs[query, group] & (template | OTHER_SIDE):
                continue
            d = 0.0
            for a in range(attributes):
                d += weights[a] * parts[query, group, a] * parts[query, group, a]
            apart[like], which[like] = np.sqrt(d / whole) if whole > 0.0 else 0.0, group
            like += 1
        order = np.argsort(apart[:like])
        for at in range(query_start[query], query_start[query + 1]):
            i = asked[at]
            oldest = done[i] - n
            taken, first = 0, 0
            while first < like and taken < k:
                last = first + 1
                while last < like and apart[order[last]] == apart[order[first]]:
                    last += 1
                for tied in range(first, last):
                    group = which[order[tied]]
                    of_group = members[start[group] : start[group + 1]]
                    upper[tied] = start[group] + np.searchsorted(of_group, done[i])
                while taken < k:
                    newest, from_group = -1, -1
                    for tied in range(first, last):
                        place = upper[tied] - 1
                        if place >= start[which[order[tied]]] and members[place] > newest:
                            newest, from_group = members[place], tied
                    if newest < max(oldest, 0):
                        break
                    near[taken] = newest
                    upper[from_group] -= 1
                    taken += 1
                first = last
            if taken > 0:
                mean[i], std[i] = mean_and_std(run, near[:taken])
            elif done[i] > 0:
                mean[i], std[i] = mean_of_last(total, done[i], n), 0.0
            else:
                mean[i], std[i] = fallback[i], np.nan
    return mean, std
