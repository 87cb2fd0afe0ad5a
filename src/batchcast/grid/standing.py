# SPDX-License-Identifier: Apache-2.0
"""A mapping that changes in place: what of the problem stays, where the jobs stand, and one job shifted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..compiled import allocating

Index = int | np.integer[Any]  # a place in an array, as a loop or as an array of places gives it


class Problem(NamedTuple):
    """What does not change: times (n, m), when resources are free (m,), their prices (m,), and where a job may go.

    `near` (n, c) lists each job's resources by price times time, cheapest first; `is_near` (n, m) tells the same, for
    finite times only.
    """

    times: np.ndarray
    free: np.ndarray
    price: np.ndarray
    near: np.ndarray
    is_near: np.ndarray

    @classmethod
    def of(cls, times: np.ndarray, free: np.ndarray, price: np.ndarray, near: int) -> Problem:
        """With each job's `near` cheapest resources by price times time."""
        dear = price * times
        count = min(near, times.shape[1])
        cheapest = np.argsort(dear, axis=1, kind="stable")[:, :count]
        is_near = np.zeros(times.shape, dtype=np.bool_)
        np.put_along_axis(is_near, cheapest, True, axis=1)
        return cls(times, free, price, np.ascontiguousarray(cheapest), is_near & np.isfinite(times))


class Assignment(NamedTuple):
    """A mapping that moves change in place: where each job is (n,), loads (m,), and each resource's jobs as a list.

    `member[r, :held[r]]` are the jobs on r in no order; `place[i]` is job i's position there. `touched` (m,)
    tells which resources changed since all exchanges were last looked at.
    """

    where: np.ndarray
    load: np.ndarray
    member: np.ndarray
    held: np.ndarray
    place: np.ndarray
    touched: np.ndarray

    @classmethod
    def of(cls, problem: Problem, where: np.ndarray) -> Assignment:
        """Of a mapping (n,)."""
        n, m = problem.times.shape
        count = np.bincount(where, minlength=m)
        member = np.empty((m, n), dtype=np.int32)
        order = np.argsort(where, kind="stable")
        first = np.cumsum(count) - count
        place = np.empty(n, dtype=np.int64)
        place[order] = np.arange(n) - first[where[order]]
        member[where, place] = np.arange(n)
        return cls(
            where.copy(), loads(problem.times, problem.free, where), member, count, place, np.ones(m, dtype=np.bool_)
        )


@allocating
def shift(problem: Problem, standing: Assignment, i: Index, r: Index) -> None:
    """Job i to resource r: its load, its list, its place."""
    where, load, member, count, place, touched = standing
    old = where[i]
    last = member[old, count[old] - 1]
    member[old, place[i]], place[last] = last, place[i]
    count[old] -= 1
    load[old] -= problem.times[i, old]
    member[r, count[r]], place[i] = i, count[r]
    count[r] += 1
    load[r] += problem.times[i, r]
    where[i] = r
    touched[old] = touched[r] = True


@allocating
def loads(times: np.ndarray, free: np.ndarray, where: np.ndarray) -> np.ndarray:
    """When each resource ends its jobs, (m,). O(n)."""
    load = free.copy()
    for i in range(len(where)):
        load[where[i]] += times[i, where[i]]
    return load
