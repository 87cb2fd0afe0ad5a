"""Candidates of a job, how they differ from it, and their weights exp(-theta . d)."""

from __future__ import annotations

import math

from ...compiled import inlined, kernel
from .memory import (
    AGE,
    APART,
    CLASSES,
    KNOWN_FIELDS,
    LIMIT_DIFFERS,
    LIMIT_RATIO,
    OTHER_USER,
    OWN,
    PROCS_DIFFER,
    PROCS_RATIO,
    RANK,
    REACH,
    RECENT,
    SCALED,
    STAMP,
    TOTAL,
    USER,
    Memory,
    Options,
)


@inlined
def apart(a: float, b: float) -> tuple[float, float]:
    """How far two logarithms are from each other, and whether they differ: unknown equals unknown, and nothing else."""
    if a == b or (a != a and b != b):
        return 0.0, 0.0
    return (abs(a - b) if a == a and b == b else 0.0), 1.0


@kernel
def gather(m: Memory, o: Options, slot: int) -> int:
    """Write the candidates of an unfinished job: differences, seconds, log seconds; how many.

    The last REACH finished of each of its classes when it was submitted, each once, newest first within a class.
    """
    job, codes, length = m.unfinished[slot], m.codes[slot], len(m.finished)
    m.numbers[STAMP] += 1
    stamp, oldest, fields = m.numbers[STAMP], max(m.numbers[TOTAL] - length, 0), m.numbers[KNOWN_FIELDS]
    n = 0
    for kind in range(CLASSES):
        number, steps = m.heads[slot, kind], 0
        while number >= oldest and steps < REACH[kind]:
            place = number % length
            other = m.finished[place]
            if other.seen != stamp:
                m.finished[place].seen = stamp
                d = m.difference[n]
                d[LIMIT_RATIO], d[LIMIT_DIFFERS] = apart(job.log_limit, other.log_limit)
                d[PROCS_RATIO], d[PROCS_DIFFER] = apart(job.log_procs, other.log_procs)
                d[APART] = math.log(1.0 + abs(job.asked - other.submit) / 60.0)
                mine = job.user == other.user
                d[OTHER_USER] = 0.0 if mine else 1.0
                d[AGE] = math.log(1.0 + max(job.asked - other.end, 0.0) / 60.0)
                d[RANK] = math.log(1.0 + (job.rank - other.rank if mine else steps))
                d[RECENT] = 1.0 if kind == USER and steps == 0 else 0.0
                d[SCALED] = 0.0
                for f in range(fields):
                    d[OWN + f] = 1.0 if codes[f] != m.finished_codes[place, f] else 0.0
                m.candidate[0, n], m.candidate[1, n] = other.run, other.log_run
                n += 1
                if o.scaled and d[LIMIT_RATIO] > 0.0:
                    n = add_scaled(m, n, job.log_limit - other.log_limit, OWN + fields)
            number = m.before[place, kind]
            steps += 1
    return n


@inlined
def add_scaled(m: Memory, n: int, ratio: float, terms: int) -> int:
    """The candidate before `n` a second time, its run time scaled by the ratio of the limits."""
    for t in range(terms):
        m.difference[n, t] = m.difference[n - 1, t]
    m.difference[n, SCALED] = 1.0
    m.candidate[1, n] = max(m.candidate[1, n - 1] + ratio, 0.0)
    m.candidate[0, n] = math.exp(m.candidate[1, n])
    return n + 1


@kernel
def weigh(m: Memory, user: int, n: int) -> float:
    """Weights of the n candidates, summing to one; the logarithm of what they were divided by."""
    terms = OWN + m.numbers[KNOWN_FIELDS]
    w, theta = m.candidate[2], m.sums[0]
    for t in range(len(theta)):
        theta[t] = m.theta[0, t] + m.offset[user, 0, t]
    best = -math.inf
    for j in range(n):
        d = m.difference[j]
        a = b = c = e = 0.0
        for t in range(0, terms, 4):
            a += theta[t] * d[t]
            b += theta[t + 1] * d[t + 1]
            c += theta[t + 2] * d[t + 2]
            e += theta[t + 3] * d[t + 3]
        w[j] = -((a + b) + (c + e))
        best = max(best, w[j])
    total = 0.0
    for j in range(n):
        w[j] = math.exp(w[j] - best)
        total += w[j]
    for j in range(n):
        w[j] /= total
    return best + math.log(total)


@kernel
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
