# SPDX-License-Identifier: Apache-2.0
"""Compiled passes of the paired interval: differences summed by group, groups dealt into cells, samples weighed."""

from __future__ import annotations

import numpy as np

from ..compiled import kernel


@kernel
def sum_by_group(
    values: np.ndarray, reference: np.ndarray, group: np.ndarray, total: np.ndarray, size: np.ndarray, count: np.ndarray
) -> None:  # pragma: no cover - compiled
    """Adds value - reference and its absolute value to each job's group: total, size (groups, methods); jobs: count.

    `values` (methods, n), `reference` and `group` (n,), all known. One pass, O(methods n).
    """
    methods, n = values.shape
    for i in range(n):
        g, base = group[i], reference[i]
        count[g] += 1.0
        for k in range(methods):
            one = values[k, i] - base
            total[g, k] += one
            size[g, k] += abs(one)


@kernel
def deal(
    total: np.ndarray, count: np.ndarray, mean: np.ndarray, cell: np.ndarray, rest: np.ndarray, jobs: np.ndarray
) -> None:  # pragma: no cover - compiled
    """Adds each group's sum less mean x count to its cell: rest (cells, methods), jobs (cells,). O(methods groups)."""
    groups, methods = total.shape
    for g in range(groups):
        c = cell[g]
        jobs[c] += count[g]
        for k in range(methods):
            rest[c, k] += total[g, k] - mean[k] * count[g]


@kernel
def sum_samples(
    drawn: np.ndarray, columns: np.ndarray, weight: np.ndarray, sums: np.ndarray
) -> None:  # pragma: no cover - compiled
    """Sums of the columns over each sample's cells: sums (samples, columns); `drawn` (samples, cells) are the draws.

    `weight` (cells,) is room to count in. O(samples cells columns).
    """
    samples, cells = drawn.shape
    width = columns.shape[1]
    for s in range(samples):
        weight[:] = 0.0
        for j in range(cells):
            weight[drawn[s, j]] += 1.0
        for c in range(cells):
            times = weight[c]  # often 0, and a branch on it costs more than adding nothing
            for k in range(width):
                sums[s, k] += times * columns[c, k]


@kernel
def over_groups(
    total: np.ndarray, size: np.ndarray, whole_total: np.ndarray, whole_size: np.ndarray, largest: np.ndarray
) -> None:  # pragma: no cover - compiled
    """Sums of both (groups, methods) over all groups, and the first group with the largest size: (methods,) each.

    The outputs begin as zeros. O(methods groups).
    """
    groups, methods = total.shape
    for g in range(groups):
        for k in range(methods):
            whole_total[k] += total[g, k]
            whole_size[k] += size[g, k]
            if size[g, k] > size[largest[k], k]:
                largest[k] = g
