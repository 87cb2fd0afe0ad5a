"""Slow reference versions of the ensembles' parts, written from the paper's formulas."""

from __future__ import annotations

import math


def gaussian(x, mean, variance):
    """g(x; mu, delta), eq. 9."""
    return math.exp(-((x - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)


def naive_bayes(codes, values, label, sizes, smoothing, new_codes, new_values):
    """Return P(class | row) of one new row by eqs. 6 to 9, one class and feature at a time."""
    n, classes = len(label), sorted(set(label))
    columns = list(zip(*values)) if values and values[0] else []
    spread = [sum((v - sum(c) / n) ** 2 for v in c) / n for c in columns]
    extra = smoothing * max(spread, default=0.0)
    posterior = []
    for one in classes:
        rows = [k for k in range(n) if label[k] == one]
        p = len(rows) / n
        for column, size in enumerate(sizes):
            same = sum(codes[k][column] == new_codes[column] for k in rows)
            p *= (same + 1) / (len(rows) + size + 1)
        for column in range(len(columns)):
            mine = [values[k][column] for k in rows]
            mean = sum(mine) / len(mine)
            variance = max(sum((v - mean) ** 2 for v in mine) / len(mine) + extra, 1e-9)
            p *= gaussian(new_values[column], mean, variance)
        posterior.append(p)
    total = sum(posterior)
    return [p / total for p in posterior]


def network(x, centres, spreads, weights, bias):
    """f(x), eqs. Return the output by eqs. 11 and 12, one center at a time."""
    total = bias
    for centre, spread, weight in zip(centres, spreads, weights):
        square = sum((a - b) ** 2 for a, b in zip(x, centre))
        total += weight * math.exp(-square / (2 * spread**2))
    return total
