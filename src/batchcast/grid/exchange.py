"""Exchanges of up to two jobs against up to two: off the fullest resource, or to where they are cheaper."""

from __future__ import annotations

import numpy as np

from ..compiled import allocating
from .standing import Index, Problem, Standing, shift

WIDEST = 8  # jobs a side that are paired, the least dear: 36 sets a side
MOST_RESOURCES = 200  # beyond, looking at all pairs of resources takes longer than a look at the clock should wait


@allocating
def relieved(problem: Problem, standing: Standing, full: Index, cap: float) -> tuple[bool, int]:
    """The least dear exchange after which `full` and another resource lie below `cap`: (done, pairs looked at).

    Dear is the change of sum price load, ties go to the first met. Jobs go to resources near them only. O(m WIDEST^4)
    at the most.
    """
    jobs, met = np.empty(4, dtype=np.int64), np.empty(4, dtype=np.int64)
    best, column, spent = np.inf, -1, 0
    for r in range(len(standing.load)):
        if r == full:
            continue
        dear, looked = _cheapest(problem, standing, full, r, cap, best, met)
        spent += looked
        if dear < best:
            best, column = dear, r
            jobs[:] = met
    if column >= 0:
        _exchange(problem, standing, full, column, jobs)
    return column >= 0, spent


@allocating
def cheapened(problem: Problem, standing: Standing, cap: float, least: float) -> tuple[bool, int]:
    """Exchanges that make a mapping less dear by `least` and more each, no resource above `cap` after one.

    What a mapping costs beyond the bound is dearness and slack; exchanges off the fullest resource turn the second
    into the first, these the first into the second. One pass over the pairs of resources of which one was touched
    since the last pass: (whether any was done, pairs of sets looked at).
    """
    m = len(standing.load)
    jobs = np.empty(4, dtype=np.int64)
    due = standing.touched.copy()
    standing.touched[:] = False
    done, spent = False, m
    if m > MOST_RESOURCES:
        return done, spent
    for a in range(m):
        for b in range(m):
            if a == b or not (due[a] or due[b]):
                continue
            dear, looked = _cheapest(problem, standing, a, b, cap, -least, jobs)
            spent += looked
            if dear < -least:
                _exchange(problem, standing, a, b, jobs)
                done = True
    return done, spent


@allocating
def _cheapest(
    problem: Problem, standing: Standing, a: Index, b: Index, cap: float, dearest: float, jobs: np.ndarray
) -> tuple[float, int]:
    """The least dear exchange below `dearest` after which a and b lie below `cap`: (its dearness, sets looked at).

    `jobs` (4,) gets the one or two that go from a to b and the none to two that go back, -1 for none.
    """
    times, _, price, _, _ = problem
    leaving, left = _sets(problem, standing, a, b)
    coming, came = _sets(problem, standing, b, a)
    best = dearest
    for one in range(left):
        i, j = leaving[one]
        relief = times[i, a] + (times[j, a] if j >= 0 else 0.0)
        burden = times[i, b] + (times[j, b] if j >= 0 else 0.0)
        moved = price[b] * burden - price[a] * relief
        above = cap - standing.load[a] + relief  # so much may come back
        below = standing.load[b] + burden - cap  # so much has to leave the other one
        if below < 0.0 and above > 0.0 and moved < best:
            best = moved
            jobs[0], jobs[1], jobs[2], jobs[3] = i, j, -1, -1
        for other in range(came):
            k, h = coming[other]
            heavy = times[k, a] + (times[h, a] if h >= 0 else 0.0)
            if heavy >= above:
                continue
            light = times[k, b] + (times[h, b] if h >= 0 else 0.0)
            dear = moved + price[a] * heavy - price[b] * light
            if light > below and dear < best:
                best = dear
                jobs[0], jobs[1], jobs[2], jobs[3] = i, j, k, h
    return best, left * (came + 1)


@allocating
def _exchange(problem: Problem, standing: Standing, a: Index, b: Index, jobs: np.ndarray) -> None:
    """The first two of `jobs` from a to b, the others back; -1 is none."""
    for at in range(4):
        if jobs[at] >= 0:
            shift(problem, standing, jobs[at], b if at < 2 else a)


@allocating
def _sets(problem: Problem, standing: Standing, old: Index, new: Index) -> tuple[np.ndarray, int]:
    """The jobs on `old` that are near `new`, of more than WIDEST the least dear, alone (second -1) and in pairs."""
    times, _, price, _, is_near = problem
    jobs, dear = np.empty(WIDEST, dtype=np.int64), np.empty(WIDEST)
    count = 0
    for at in range(standing.held[old]):
        i = standing.member[old, at]
        if not is_near[i, new]:
            continue
        cost = price[new] * times[i, new] - price[old] * times[i, old]
        if count == WIDEST:
            if cost >= dear[count - 1]:
                continue
            count -= 1
        k = count
        while k > 0 and dear[k - 1] > cost:
            jobs[k], dear[k] = jobs[k - 1], dear[k - 1]
            k -= 1
        jobs[k], dear[k] = i, cost
        count += 1
    sets = np.empty((count * (count + 1) // 2, 2), dtype=np.int64)
    k = 0
    for one in range(count):
        sets[k, 0], sets[k, 1] = jobs[one], -1
        k += 1
        for other in range(one + 1, count):
            sets[k, 0], sets[k, 1] = jobs[one], jobs[other]
            k += 1
    return sets, k
