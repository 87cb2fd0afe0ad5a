# SPDX-License-Identifier: Apache-2.0
"""`kernel`'s candidates: the finished jobs that a job is compared with, their differences from the job (d in
docs/reference/kernel.md), and their weights.
"""

from __future__ import annotations

import math

import numpy as np

from ...compiled import inlined, inner
from . import memory as at
from .exact import exponential, largest_of, logarithm_from_one, total_of
from .memory import (
    Memory,
    Options,
    copy_newest,
    find_class_in_window,
    mark_differing,
    newest_in_window,
    number_in_window,
    ring_index,
)


@inner
def choose_candidates(m: Memory, slot: int) -> int:
    """List the candidates of an unfinished job: from each of the job's classes, the last REACH jobs that finished
    before the job's submission.

    Each job is listed once, newest first within a class. Returns how many candidates at the front of the list come from
    the user's window. The prediction and the learning step at the job's end use the same list of candidates. The list
    contains all the user's jobs that finished since `complete_from`, so the user's other classes only add older jobs.
    """
    length, before, finished, chosen, steps_of = len(m.finished), m.before, m.finished, m.chosen[slot], m.steps[slot]
    m.numbers[at.STAMP] += 1
    stamp, oldest, user = m.numbers[at.STAMP], max(m.numbers[at.TOTAL] - length, 0), m.unfinished[slot].user
    round_began = oldest // length * length
    own, newest = number_in_window(m, user, m.unfinished[slot].rank, oldest), newest_in_window(m.unfinished[slot].rank)
    if own > 0:
        copy_newest(chosen, m.window_codes[user, at.NUMBER], newest, own)
    n, complete_from, first = own, m.numbers[at.TOTAL], m.numbers[at.TOTAL]
    for kind in range(at.CLASSES):
        number, steps = m.heads[slot, kind], 0
        if at.USER < kind < at.LIMIT and complete_from <= oldest:
            continue
        if own > 0 and kind < at.LIMIT:
            steps, last = own, own - 1
            if kind > at.USER:
                steps, last = find_class_in_window(m.window_codes[user, kind], newest, own, m.classes[slot, kind])
            if steps > 0:
                number = before[ring_index(chosen[last], round_began, length), kind]
        while number >= oldest and steps < at.REACH[kind]:
            place = ring_index(number, round_began, length)
            there = finished[place]
            is_chosen = number >= complete_from and (kind < at.LIMIT or there.user == user)
            if kind == at.USER or not (is_chosen or there.stamp == stamp):
                there.stamp = stamp
                chosen[n], steps_of[n] = number, steps
                n += 1
            number = before[place, kind]
            steps += 1
        first = min(first, chosen[n - 1]) if n > 0 else first
        if kind == at.USER:
            complete_from = number + 1 if number >= oldest else oldest
    m.unfinished[slot].count, m.unfinished[slot].oldest = n, first
    return own


@inlined
def read_candidates(m: Memory, slot: int, own: int) -> int:
    """Collect the values to compare of every candidate that the ring of finished jobs still contains; return the number
    of candidates.

    The values of the first `own` candidates are read from the user's window.
    """
    if own > 0:
        read_window(m, slot, own)
    job, length, room, known = m.unfinished[slot], len(m.finished), m.numbers[at.ROOM], m.numbers[at.KNOWN_FIELDS]
    oldest = max(m.numbers[at.TOTAL] - length, 0)
    round_began = oldest // length * length
    chosen, steps, rows = m.chosen[slot], m.steps[slot], m.differences[room]
    seconds, log_seconds = m.run_times[room, at.SECONDS], m.run_times[room, at.LOG_SECONDS]
    limits, procs, submits, ends = rows[at.LIMIT_RATIO], rows[at.PROCS_RATIO], rows[at.SUBMIT_GAP], rows[at.AGE]
    rank, other_user, latest, n = rows[at.RANK], rows[at.OTHER_USER], rows[at.LATEST], own
    for k in range(own, job.count):
        if chosen[k] >= oldest:
            place = ring_index(chosen[k], round_began, length)
            other = m.finished[place]
            limits[n], procs[n], submits[n], ends[n] = other.log_limit, other.log_procs, other.submit, other.end
            seconds[n], log_seconds[n] = other.run, other.log_run
            mine = job.user == other.user
            other_user[n] = 0.0 if mine else 1.0
            rank[n] = job.rank - other.rank if mine else steps[k]
            for f in range(known):
                rows[at.OWN + f, n] = 1.0 if m.finished_codes[place, f] != m.codes[slot, f] else 0.0
            n += 1
    other_user[:own], latest[:n] = 0.0, 0.0
    if n > 0 and chosen[0] >= oldest:
        latest[0] = 1.0 - other_user[0]
    return n


@inlined
def read_window(m: Memory, slot: int, own: int) -> None:
    """Collect, from the user's window, the values of the first `own` candidates and which of their codes differ."""
    user, room = m.unfinished[slot].user, m.numbers[at.ROOM]
    newest, window, codes = newest_in_window(m.unfinished[slot].rank), m.window[user], m.window_codes[user]
    rows, length = m.differences[room], m.run_times[room]
    copy_newest(rows[at.SUBMIT_GAP], window[0], newest, own)
    copy_newest(rows[at.AGE], window[1], newest, own)
    copy_newest(length[at.SECONDS], window[2], newest, own)
    copy_newest(length[at.LOG_SECONDS], window[3], newest, own)
    copy_newest(rows[at.LIMIT_RATIO], window[4], newest, own)
    copy_newest(rows[at.PROCS_RATIO], window[5], newest, own)
    for f in range(m.numbers[at.KNOWN_FIELDS]):
        mark_differing(rows[at.OWN + f], codes[at.CODES_FROM + f], newest, own, m.codes[slot, f])


@inlined
def log_distance(a: float, b: float) -> tuple[float, float]:
    """Return the distance of two logarithms and whether they differ; an unknown value (NaN) equals only an unknown
    value.
    """
    ratio = abs(a - b)
    known, unknown = ratio == ratio, (a != a) & (b != b)
    return (ratio if known else 0.0), (0.0 if (a == b) | unknown else 1.0)


@inner
def prepare_candidates(m: Memory, o: Options, slot: int) -> int:
    """Write run times, log run times and differences of an unfinished job's candidates; return the number of
    candidates.

    Differences are stored only for unscaled candidates, because a scaled copy has the same differences, except for the
    term SCALED. Differences stored in the job's own block of work arrays (room) stay valid until the ring overwrites a
    candidate or a new field appears.
    """
    job, last = m.unfinished[slot], len(m.differences) - 1
    own = choose_candidates(m, slot) if job.count == at.NOT_CHOSEN else 0
    m.numbers[at.ROOM] = min(slot, last)
    if job.fields == m.numbers[at.KNOWN_FIELDS] and job.oldest >= m.numbers[at.TOTAL] - len(m.finished):
        m.numbers[at.UNSCALED] = job.count
        return job.compared  # type: ignore[no-any-return]
    n = m.numbers[at.UNSCALED] = read_candidates(m, slot, own)
    compute_differences(m, slot, own, n)
    job.compared = n + (add_scaled(m, n, job.log_limit) if o.scaled else 0)
    job.fields = m.numbers[at.KNOWN_FIELDS] if slot < last else at.NOT_CHOSEN
    return job.compared  # type: ignore[no-any-return]


@inlined
def compute_differences(m: Memory, slot: int, own: int, n: int) -> None:
    """Convert the candidates' collected values to differences from the job; the first `own` candidates are the user's
    latest jobs, newest first."""
    job = m.unfinished[slot]
    submit, log_limit, log_procs = job.submit, job.log_limit, job.log_procs
    rows, signed = m.differences[m.numbers[at.ROOM]], m.per_candidate[at.GRADIENT]
    ratio, differs = rows[at.LIMIT_RATIO], rows[at.LIMIT_DIFFERS]
    by_procs, procs_differ = rows[at.PROCS_RATIO], rows[at.PROCS_DIFFER]
    gap, age, rank = rows[at.SUBMIT_GAP], rows[at.AGE], rows[at.RANK]
    padded = (n + 7) & -8  # vectorized loops need a multiple of 8; the surplus results are ignored
    for j in range(padded):
        signed[j] = log_limit - ratio[j]
    for j in range(padded):
        ratio[j], differs[j] = log_distance(log_limit, ratio[j])
    for j in range(padded):
        by_procs[j], procs_differ[j] = log_distance(log_procs, by_procs[j])
    for j in range(padded):
        gap[j] = logarithm_from_one(1.0 + abs(submit - gap[j]) / 60.0)
    for j in range(padded):
        age[j] = logarithm_from_one(1.0 + max(submit - age[j], 0.0) / 60.0)
    for j in range(own):
        rank[j] = m.log_rank[j]
    others = rank[own:n]  # a slice, because numba only vectorizes loops that start at 0
    for j in range(n - own):
        others[j] = logarithm_from_one(1.0 + others[j])


@inlined
def add_scaled(m: Memory, n: int, log_limit: float) -> int:
    """Append a copy of each of the n candidates with another limit, scaled by the ratio of limits; return the new
    number of candidates.
    """
    room = m.numbers[at.ROOM]
    original, ratio, signed = m.original[room], m.differences[room, at.LIMIT_RATIO], m.per_candidate[at.GRADIENT]
    seconds, log_seconds = m.run_times[room, at.SECONDS], m.run_times[room, at.LOG_SECONDS]
    more = 0
    for j in range(n):
        original[more] = j
        more += 1 if ratio[j] > 0.0 else 0
    for k in range(more):
        log_seconds[n + k] = max(log_seconds[original[k]] + signed[original[k]], 0.0)
    into, longs = seconds[n:], log_seconds[n:]  # slices, because numba only vectorizes loops that start at 0
    for k in range((more + 7) & -8):
        into[k] = exponential(min(longs[k], 700.0))
    return more


@inner
def compute_weights(m: Memory, user: int, n: int) -> float:
    """Compute the weights of the n candidates, normalized to sum to 1; return the logarithm of their sum before
    normalization."""
    terms = at.OWN + m.numbers[at.KNOWN_FIELDS]
    w, theta = m.per_candidate[at.WEIGHT], m.sums[0]
    for t in range(terms):
        theta[t] = m.theta[0, t] + m.offset[user, 0, t]
    unscaled, original = m.numbers[at.UNSCALED], m.original[m.numbers[at.ROOM]]
    negative_distances(m, theta, terms, (unscaled + 7) & -8)
    for k in range(n - unscaled):
        w[unscaled + k] = w[original[k]] - theta[at.SCALED]
    best = largest_of(w, n)
    padded = (n + 7) & -8
    for j in range(padded):
        w[j] = exponential(w[j] - best)
    total = total_of(w, n)
    share = 1.0 / total
    for j in range(padded):
        w[j] *= share
    return best + math.log(total)


@inlined
def negative_distances(m: Memory, theta: np.ndarray, terms: int, n: int) -> None:
    """Compute -theta . d of the n candidates that are not scaled, four terms at a time."""
    w, rows, t = m.per_candidate[at.WEIGHT], m.differences[m.numbers[at.ROOM]], terms % 4
    w[:n] = 0.0
    for u in range(t):
        d, much = rows[u], theta[u]
        for j in range(n):
            w[j] -= much * d[j]
    while t < terms:
        a, b, c, d = rows[t], rows[t + 1], rows[t + 2], rows[t + 3]
        by_a, by_b, by_c, by_d = theta[t], theta[t + 1], theta[t + 2], theta[t + 3]
        for j in range(n):
            w[j] = w[j] - by_a * a[j] - by_b * b[j] - by_c * c[j] - by_d * d[j]
        t += 4


@inner
def distance_to_running(m: Memory, slot: int, running_slot: int) -> float:
    """Return theta . d between an unfinished job and a running job, where both jobs have the same user and the running
    job counts as the user's newest job.

    Theta is the sum of the shared and the user's own weights that `compute_weights` has written for this job.
    """
    job, theirs, theta = m.unfinished[slot], m.unfinished[running_slot], m.sums[0]
    ratio, differs = log_distance(job.log_limit, theirs.log_limit)
    exponent: float = theta[at.LIMIT_RATIO] * ratio + theta[at.LIMIT_DIFFERS] * differs
    ratio, differs = log_distance(job.log_procs, theirs.log_procs)
    exponent += theta[at.PROCS_RATIO] * ratio + theta[at.PROCS_DIFFER] * differs
    exponent += theta[at.SUBMIT_GAP] * math.log(1.0 + abs(job.submit - theirs.submit) / 60.0)
    for f in range(m.numbers[at.KNOWN_FIELDS]):
        if m.codes[slot, f] != m.codes[running_slot, f]:
            exponent += theta[at.OWN + f]
    return exponent
