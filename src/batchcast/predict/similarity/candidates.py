# SPDX-License-Identifier: Apache-2.0
"""Chooses the finished jobs that a job is compared with (its candidates), and collects the candidates' values that are
compared.

Most candidates are the user's latest jobs, which are read from one contiguous window. All other candidates are found by
following linked lists through the ring of finished jobs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compiled import inlined, inner
from .memory import (
    AGE,
    APART,
    AT_HAND,
    CLASSES,
    CODES_FROM,
    KNOWN_FIELDS,
    LIMIT,
    LIMIT_RATIO,
    LOG_SECONDS,
    NUMBER,
    OTHER_USER,
    OWN,
    PROCS_RATIO,
    RANK,
    REACH,
    RECENT,
    SECONDS,
    STAMP,
    TOTAL,
    USER,
    WINDOW,
    Memory,
)


@inlined
def place_in(number: int, round_began: int, length: int) -> np.uint64:
    """Return a finished job's index in the ring. The index is unsigned, so that numba adds no check for negative
    indices."""
    place = number - round_began
    return np.uint64(place - length if place >= length else place)


@inlined
def newest_in_window(rank: int) -> np.uint64:
    """Return the index, in the user's window, of the newest of the user's first `rank` finished jobs; older jobs
    follow."""
    return np.uint64(-rank & (WINDOW - 1))


@inlined
def in_window(m: Memory, user: int, rank: int, oldest: int) -> int:
    """Return how many of the user's first `rank` finished jobs are in the window; 0 if the user has more than `rank`
    finished jobs."""
    if user >= len(m.window) or m.ends[user] != rank:
        return 0
    n, newest, numbers = min(rank, WINDOW), newest_in_window(rank), m.window_codes[user, NUMBER]
    while n > 0 and numbers[(newest + np.uint64(n - 1)) & np.uint64(WINDOW - 1)] < oldest:
        n -= 1
    return n


@inlined
def before_the_end(newest: np.uint64, n: int) -> int:
    """Return how many of the n newest jobs lie between the newest job and the window's end; the remaining jobs wrap
    around to the window's start."""
    place: Any = np.int64(newest)
    until: int = min(n, WINDOW - place)
    return until


@inlined
def in_a_row(into: np.ndarray, window: np.ndarray, newest: np.uint64, n: int) -> None:
    """Copy the n newest entries of a window, newest first."""
    until = before_the_end(newest, n)
    begin, rest = window[newest:], into[until:]
    for j in range(until):
        into[j] = begin[j]
    for j in range(n - until):
        rest[j] = window[j]


@inlined
def differing(into: np.ndarray, window: np.ndarray, newest: np.uint64, n: int, code: int) -> None:
    """Write, for each of the n newest entries of a user's window, 1 if the entry's code differs from `code`, else 0."""
    until = before_the_end(newest, n)
    begin, rest = window[newest:], into[until:]
    for j in range(until):
        into[j] = 1.0 if begin[j] != code else 0.0
    for j in range(n - until):
        rest[j] = 1.0 if window[j] != code else 0.0


@inlined
def like_in_window(window: np.ndarray, newest: np.uint64, n: int, code: int) -> tuple[int, int]:
    """Return how many of the n newest entries have the code, and the index of the oldest such entry (-1: none)."""
    until = before_the_end(newest, n)
    begin, count, last = window[newest:], 0, -1
    for j in range(until):
        count += 1 if begin[j] == code else 0
        last = max(last, j if begin[j] == code else -1)
    for j in range(n - until):
        count += 1 if window[j] == code else 0
        last = max(last, until + j if window[j] == code else -1)
    return count, last


@inner
def choose_candidates(m: Memory, slot: int) -> int:
    """List the candidates of an unfinished job: from each of the job's classes, the last REACH jobs that finished
    before the job's submission.

    Each job is listed once, newest first within a class. Returns how many candidates at the front of the list come from
    the user's window. The prediction and the learning step at the job's end use the same list of candidates. The list
    contains all the user's jobs that finished since `listed_from`, so the user's other classes only add older jobs.
    """
    length, before, finished, listed, steps_of = len(m.finished), m.before, m.finished, m.listed[slot], m.steps[slot]
    m.numbers[STAMP] += 1
    stamp, oldest, user = m.numbers[STAMP], max(m.numbers[TOTAL] - length, 0), m.unfinished[slot].user
    round_began = oldest // length * length
    own, newest = in_window(m, user, m.unfinished[slot].rank, oldest), newest_in_window(m.unfinished[slot].rank)
    if own > 0:
        in_a_row(listed, m.window_codes[user, NUMBER], newest, own)
    n, listed_from, first = own, m.numbers[TOTAL], m.numbers[TOTAL]
    for kind in range(CLASSES):
        number, steps = m.heads[slot, kind], 0
        if USER < kind < LIMIT and listed_from <= oldest:
            continue
        if own > 0 and kind < LIMIT:
            steps, last = own, own - 1
            if kind > USER:
                steps, last = like_in_window(m.window_codes[user, kind], newest, own, m.classes[slot, kind])
            if steps > 0:
                number = before[place_in(listed[last], round_began, length), kind]
        while number >= oldest and steps < REACH[kind]:
            place = place_in(number, round_began, length)
            there = finished[place]
            is_listed = number >= listed_from and (kind < LIMIT or there.user == user)
            if kind == USER or not (is_listed or there.seen == stamp):
                there.seen = stamp
                listed[n], steps_of[n] = number, steps
                n += 1
            number = before[place, kind]
            steps += 1
        first = min(first, listed[n - 1]) if n > 0 else first
        if kind == USER:
            listed_from = number + 1 if number >= oldest else oldest
    m.unfinished[slot].count, m.unfinished[slot].oldest = n, first
    return own


@inlined
def fetch(m: Memory, slot: int, own: int) -> int:
    """Collect the values to compare of every candidate that the ring of finished jobs still contains; return the number
    of candidates.

    The values of the first `own` candidates are read from the user's window.
    """
    if own > 0:
        fetch_window(m, slot, own)
    job, length, room, known = m.unfinished[slot], len(m.finished), m.numbers[AT_HAND], m.numbers[KNOWN_FIELDS]
    oldest = max(m.numbers[TOTAL] - length, 0)
    round_began = oldest // length * length
    listed, steps, rows = m.listed[slot], m.steps[slot], m.difference[room]
    seconds, log_seconds = m.length[room, SECONDS], m.length[room, LOG_SECONDS]
    limits, procs, submits, ends = rows[LIMIT_RATIO], rows[PROCS_RATIO], rows[APART], rows[AGE]
    rank, other_user, recent, n = rows[RANK], rows[OTHER_USER], rows[RECENT], own
    for k in range(own, job.count):
        if listed[k] >= oldest:
            place = place_in(listed[k], round_began, length)
            other = m.finished[place]
            limits[n], procs[n], submits[n], ends[n] = other.log_limit, other.log_procs, other.submit, other.end
            seconds[n], log_seconds[n] = other.run, other.log_run
            mine = job.user == other.user
            other_user[n] = 0.0 if mine else 1.0
            rank[n] = job.rank - other.rank if mine else steps[k]
            for f in range(known):
                rows[OWN + f, n] = 1.0 if m.finished_codes[place, f] != m.codes[slot, f] else 0.0
            n += 1
    other_user[:own], recent[:n] = 0.0, 0.0
    if n > 0 and listed[0] >= oldest:
        recent[0] = 1.0 - other_user[0]
    return n


@inlined
def fetch_window(m: Memory, slot: int, own: int) -> None:
    """Collect, from the user's window, the values of the first `own` candidates and which of their codes differ."""
    user, room = m.unfinished[slot].user, m.numbers[AT_HAND]
    newest, window, codes = newest_in_window(m.unfinished[slot].rank), m.window[user], m.window_codes[user]
    rows, length = m.difference[room], m.length[room]
    in_a_row(rows[APART], window[0], newest, own)
    in_a_row(rows[AGE], window[1], newest, own)
    in_a_row(length[SECONDS], window[2], newest, own)
    in_a_row(length[LOG_SECONDS], window[3], newest, own)
    in_a_row(rows[LIMIT_RATIO], window[4], newest, own)
    in_a_row(rows[PROCS_RATIO], window[5], newest, own)
    for f in range(m.numbers[KNOWN_FIELDS]):
        differing(rows[OWN + f], codes[CODES_FROM + f], newest, own, m.codes[slot, f])


@inlined
def into_window(m: Memory, slot: int, number: int, place: np.uint64) -> None:
    """Add a finished job that is already in the ring to its user's window, as the window's newest job."""
    there, classes = m.finished[place], m.classes[slot]
    if there.user >= len(m.window):
        return
    window, codes, at = m.window[there.user], m.window_codes[there.user], newest_in_window(there.rank)
    window[0, at], window[1, at], window[2, at] = there.submit, there.end, there.run
    window[3, at], window[4, at], window[5, at] = there.log_run, there.log_limit, there.log_procs
    codes[NUMBER, at] = number
    for kind in range(USER + 1, LIMIT):
        codes[kind, at] = classes[kind]
    for f in range(m.numbers[KNOWN_FIELDS]):
        codes[CODES_FROM + f, at] = m.codes[slot, f]
