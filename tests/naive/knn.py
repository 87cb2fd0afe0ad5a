"""A slow reference version of knn_ga in the paper's words: compute all distances, sort all jobs, take the first K."""

import math
import statistics
from typing import NamedTuple


class Done(NamedTuple):
    """A finished job: its number in submit order, its fields, its run time."""

    number: int
    nominals: tuple
    numbers: tuple
    run: float


def similarity(one, other, scale):
    total = 0.0
    for x, y, (low, high) in zip(one, other, scale):
        if math.isnan(x) and math.isnan(y):
            continue
        if math.isnan(x) or math.isnan(y):
            total += 1.0
        elif high > low:
            total += ((x - low) / (high - low) - (y - low) / (high - low)) ** 2
    return math.sqrt(total)


def scale_of(history):
    columns = zip(*history) if history else ()
    known = ([v for v in column if not math.isnan(v)] for column in columns)
    return [(min(values), max(values)) if values else (0.0, 0.0) for values in known]


def predict(finished, nominals, numbers, limit, fallback, scale, chosen, oldest):
    """Return the predicted run time. `finished` is in order of completion; `chosen` = (template bits, N, K, alpha,
    beta)."""
    bits, n, k, alpha, beta, *_ = chosen
    last = [job for job in finished if job.number >= oldest][-n:]
    newest_first = list(reversed(last))
    for wanted in (bits, (1, 0, 0, 0)):
        same = [
            job for job in newest_first if all(not bit or a == b for bit, a, b in zip(wanted, job.nominals, nominals))
        ]
        near = sorted(same, key=lambda job: similarity(job.numbers, numbers, scale))[:k]  # stable: newest first
        if near:
            runs = [job.run for job in near]
            estimate = statistics.fmean(runs) + alpha * statistics.pstdev(runs)
            break
    else:
        if not last:
            return max(fallback, 1.0)
        estimate = statistics.fmean(job.run for job in last)
    if not math.isnan(limit):
        estimate = min(estimate, beta * limit)
    return max(estimate, 1.0)


def fitness(pairs, weight=1.0):
    """Return the paper's fitness (smaller is better) of `pairs` of (predicted, actual) run times."""
    error = sum(abs(p - r) for p, r in pairs)
    truth = sum(r for _, r in pairs)
    pu = sum(p < r for p, r in pairs) / len(pairs)
    return (error / truth if truth else error) / math.exp(weight * (1 - pu) ** 2)
