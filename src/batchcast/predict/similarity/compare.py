# SPDX-License-Identifier: Apache-2.0
"""Which finished jobs are a job's candidates, how they differ from it, and their weights exp(-theta . d)."""

from __future__ import annotations

import math

import numpy as np

from ...compiled import inlined, inner
from .elementary import added, exponential, largest, logarithm_from_one
from .memory import (
    AGE,
    APART,
    CLASSES,
    KNOWN_FIELDS,
    LIMIT_DIFFERS,
    LIMIT_RATIO,
    NOT_LISTED,
    OTHER_USER,
    OWN,
    PLAIN,
    PROCS_DIFFER,
    PROCS_RATIO,
    RANK,
    REACH,
    RECENT,
    SCALED,
    STAMP,
    TOTAL,
    Memory,
    Options,
)


@inner
def choose_candidates(m: Memory, slot: int) -> None:
    """List an unfinished job's candidates: the last REACH finished of each of its classes when it was submitted.

    Each once, newest first within a class. A job may be asked about, and learned from when it ends, by one list.
    """
    length = len(m.finished)
    m.numbers[STAMP] += 1
    stamp, oldest = m.numbers[STAMP], max(m.numbers[TOTAL] - length, 0)
    round_began = oldest // length * length
    n = 0
    for kind in range(CLASSES):
        number, steps = m.heads[slot, kind], 0
        while number >= oldest and steps < REACH[kind]:
            place = number - round_began
            place -= length if place >= length else 0
            if m.finished[place].seen != stamp:
                m.finished[place].seen = stamp
                m.listed[slot, n], m.steps[slot, n] = number, steps
                n += 1
            number = m.before[place, kind]
            steps += 1
    m.unfinished[slot].count = n


@inlined
def apart(a: float, b: float) -> tuple[float, float]:
    """How far two logarithms are from each other, and whether they differ: unknown equals unknown, and nothing else."""
    ratio = abs(a - b)
    known, unknown = ratio == ratio, (a != a) & (b != b)
    return (ratio if known else 0.0), (0.0 if (a == b) | unknown else 1.0)


@inner
def gather(m: Memory, o: Options, slot: int) -> int:
    """Write the candidates of an unfinished job: seconds, log seconds, differences of all but the scaled; how many.

    A scaled one differs as the one it repeats does, and in being scaled.
    """
    if m.unfinished[slot].count == NOT_LISTED:
        choose_candidates(m, slot)
    n = m.numbers[PLAIN] = fetch(m, slot)
    compare(m, slot, n)
    return n + add_scaled(m, n, m.unfinished[slot].log_limit) if o.scaled else n


@inlined
def fetch(m: Memory, slot: int) -> int:
    """Fetch what is to be compared of every candidate that is still remembered; how many."""
    job, codes, length, fields = m.unfinished[slot], m.codes[slot], len(m.finished), m.numbers[KNOWN_FIELDS]
    oldest = max(m.numbers[TOTAL] - length, 0)
    round_began = oldest // length * length
    d, seconds, log_seconds = m.difference, m.candidate[0], m.candidate[1]
    n = 0
    for k in range(job.count):
        number = m.listed[slot, k]
        if number < oldest:
            continue
        place = number - round_began
        place -= length if place >= length else 0
        other = m.finished[place]
        mine = job.user == other.user
        d[LIMIT_RATIO, n], d[PROCS_RATIO, n] = other.log_limit, other.log_procs
        d[APART, n], d[AGE, n] = other.submit, other.end
        d[OTHER_USER, n] = 0.0 if mine else 1.0
        d[RANK, n] = job.rank - other.rank if mine else m.steps[slot, k]
        d[RECENT, n] = 1.0 if k == 0 and mine else 0.0
        for f in range(fields):
            d[OWN + f, n] = 1.0 if codes[f] != m.finished_codes[place, f] else 0.0
        seconds[n], log_seconds[n] = other.run, other.log_run
        n += 1
    return n


@inlined
def compare(m: Memory, slot: int, n: int) -> None:
    """Turn what was fetched into differences."""
    job = m.unfinished[slot]
    asked, log_limit, log_procs = job.asked, job.log_limit, job.log_procs
    ratio, differs, by_procs, procs_differ = (
        m.difference[LIMIT_RATIO], m.difference[LIMIT_DIFFERS], m.difference[PROCS_RATIO], m.difference[PROCS_DIFFER]
    )  # fmt: skip
    signed, between, age, rank = m.candidate[3], m.difference[APART], m.difference[AGE], m.difference[RANK]
    for j in range(n):
        signed[j] = log_limit - ratio[j]
    for j in range(n):
        ratio[j], differs[j] = apart(log_limit, ratio[j])
    for j in range(n):
        by_procs[j], procs_differ[j] = apart(log_procs, by_procs[j])
    for j in range(n):
        between[j] = logarithm_from_one(1.0 + abs(asked - between[j]) / 60.0)
    for j in range(n):
        age[j] = logarithm_from_one(1.0 + max(asked - age[j], 0.0) / 60.0)
    for j in range(n):
        rank[j] = logarithm_from_one(1.0 + rank[j])


@inlined
def add_scaled(m: Memory, n: int, log_limit: float) -> int:
    """After the n candidates those with another limit once more, their run times scaled by the ratio; how many."""
    again, ratio, seconds, log_seconds, signed = (
        m.again, m.difference[LIMIT_RATIO], m.candidate[0], m.candidate[1], m.candidate[3]
    )  # fmt: skip
    more = 0
    for j in range(n):
        again[more] = j
        more += 1 if ratio[j] > 0.0 else 0
    for k in range(more):
        log_seconds[n + k] = max(log_seconds[again[k]] + signed[again[k]], 0.0)
    for k in range(n, n + more):
        seconds[k] = exponential(min(log_seconds[k], 700.0))
    return more


@inner
def weigh(m: Memory, user: int, n: int) -> float:
    """Weights of the n candidates, summing to one; the logarithm of what they were divided by."""
    terms = OWN + m.numbers[KNOWN_FIELDS]
    w, theta = m.candidate[2], m.sums[0]
    for t in range(terms):
        theta[t] = m.theta[0, t] + m.offset[user, 0, t]
    plain = m.numbers[PLAIN]
    exponents(m, theta, terms, plain)
    for k in range(n - plain):
        w[plain + k] = w[m.again[k]] - theta[SCALED]
    best = largest(w, n)
    for j in range(n):
        w[j] = exponential(w[j] - best)
    total = added(w, n)
    share = 1.0 / total
    for j in range(n):
        w[j] *= share
    return best + math.log(total)


@inlined
def exponents(m: Memory, theta: np.ndarray, terms: int, n: int) -> None:
    """-theta . d of the n candidates that are not scaled, four terms at a time."""
    w, t = m.candidate[2], terms % 4
    w[:n] = 0.0
    for u in range(t):
        d, much = m.difference[u], theta[u]
        for j in range(n):
            w[j] -= much * d[j]
    while t < terms:
        a, b, c, d = m.difference[t], m.difference[t + 1], m.difference[t + 2], m.difference[t + 3]
        by_a, by_b, by_c, by_d = theta[t], theta[t + 1], theta[t + 2], theta[t + 3]
        for j in range(n):
            w[j] = w[j] - by_a * a[j] - by_b * b[j] - by_c * c[j] - by_d * d[j]
        t += 4


@inner
def likeness(m: Memory, slot: int, other: int) -> float:
    """theta . d between an unfinished job and a running one: both are the user's own, newest, of no age."""
    user = m.unfinished[slot].user
    job, theirs, theta, own = m.unfinished[slot], m.unfinished[other], m.theta[0], m.offset[user, 0]
    ratio, differs = apart(job.log_limit, theirs.log_limit)
    exponent: float = (theta[LIMIT_RATIO] + own[LIMIT_RATIO]) * ratio + (
        theta[LIMIT_DIFFERS] + own[LIMIT_DIFFERS]
    ) * differs
    ratio, differs = apart(job.log_procs, theirs.log_procs)
    exponent += (theta[PROCS_RATIO] + own[PROCS_RATIO]) * ratio + (theta[PROCS_DIFFER] + own[PROCS_DIFFER]) * differs
    exponent += (theta[APART] + own[APART]) * math.log(1.0 + abs(job.asked - theirs.asked) / 60.0)
    for f in range(m.numbers[KNOWN_FIELDS]):
        if m.codes[slot, f] != m.codes[other, f]:
            exponent += theta[OWN + f] + own[OWN + f]
    return exponent
