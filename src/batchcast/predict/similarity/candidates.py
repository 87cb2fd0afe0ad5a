# SPDX-License-Identifier: Apache-2.0
"""Stores the finished jobs of `kernel`, chooses the finished jobs that a job is compared with (its candidates), and
computes the candidates' weights exp(-theta . d).

`kernel` stores finished jobs, linked lists of their classes, unfinished jobs and learned weights in the arrays of
`Memory`. Most candidates are the user's latest jobs, which are read from one contiguous window. All other candidates
are found by following linked lists through the ring of finished jobs.

The logarithm and the exponential use only float64 additions and multiplications, so results are equal bit for bit on
every machine; a C library's functions differ between versions.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...compiled import by_address, inlined, inner

# kinds of classes of a job; each class links its finished jobs, newest first
USER, USER_LIMIT, USER_PROCS, USER_LIMIT_PROCS, LIMIT = range(5)
CLASSES = 5
REACH = (128, 64, 64, 64, 16)  # how many of each class's last finished jobs are candidates
LISTED = sum(REACH)  # largest number of candidates
MOST = 2 * LISTED  # each candidate may appear twice, unscaled and scaled
WINDOW = REACH[USER]  # number of a user's last finished jobs in the user's contiguous window
WINDOWS = 4096  # number of users with a window: 14 KB each

# terms of the difference between two jobs, d(i, j); then the fields that the log has, in order of first appearance
LIMIT_RATIO, LIMIT_DIFFERS, PROCS_RATIO, PROCS_DIFFER, APART, OTHER_USER, AGE, RANK, RECENT, SCALED = range(10)
OWN = 10
FIELDS = (
    "app_id", "queue_id", "group_id", "req_mem_kib", "partition_id", "account", "qos", "job_name",
    "req_gpus", "req_nodes", "work_dir", "name_stem",
)  # fmt: skip
START = (0.7, 1.0, 0.1, 0.6, 0.0, 1.6, -0.05, 0.6, -0.25, 0.2)
FIELD_START = (1.0, 0.4, 0.2, 1.8, 0.3, 0.2, 0.2, 0.5, 0.5, 0.3, 0.3, 0.5)
TERMS = OWN + len(FIELDS)

# indices of `Memory.numbers`: number of finished jobs so far, of list traversals, of known fields and of unscaled
# candidates, and the room in use
TOTAL, STAMP, KNOWN_FIELDS, PLAIN, AT_HAND = range(5)
WEIGHT, GRADIENT = SECONDS, LOG_SECONDS = range(2)
NUMBER, CODES_FROM = 0, 4  # rows of `window_codes`: running numbers, USER_LIMIT to USER_LIMIT_PROCS, field codes
BINS = 1024  # number of bins of the counting sort
MOST_RUNNING = 32  # largest number of running jobs of one user that are used as evidence
ROOMS = 256  # number of jobs of a whole log that have their own room: up to 75 KB each
NOBODY = -1
NOT_LISTED = -1
POINTS = ("between", "median", "accuracy", "geometric")
BETWEEN, MEDIAN, ACCURACY, GEOMETRIC = range(4)

FINISHED = np.dtype(
    [("submit", "f8"), ("end", "f8"), ("run", "f8"), ("log_run", "f8"), ("log_limit", "f8"), ("log_procs", "f8"),
     ("seen", "i8"), ("rank", "i4"), ("user", "i4")]
)  # 64 bytes: one line of the processor's cache  # fmt: skip
UNFINISHED = np.dtype(
    [("asked", "f8"), ("start", "f8"), ("limit", "f8"), ("log_limit", "f8"), ("log_procs", "f8"),
     ("rank", "i8"), ("user", "i8"), ("next", "i8"), ("previous", "i8"), ("count", "i8"),
     ("sorted", "i8"), ("compared", "i8"), ("fields", "i8"), ("oldest", "i8")]
)  # fmt: skip


@by_address
class Memory(NamedTuple):
    """The arrays in which one `kernel` stores its data. Index 0 of the arrays for unfinished jobs is used for a job
    that is predicted but not submitted.

    Finished jobs are numbered in the order of their ends. The ring stores a finished job at its number modulo the
    ring's length, until a later job overwrites it. A user's latest jobs are also stored in a window, newest first, so
    that they are read in sequence; reading them from the ring would cost a cache miss each.

    The finished jobs of a class form a linked list from the newest to the oldest. An unfinished job stores the newest
    job of each of its five classes at its submission. The finished jobs that a job is compared with (its candidates)
    are listed once, when they are first needed. The differences between the job and its candidates are stored in a
    block of work arrays, called a room. Some jobs have their own room and keep the differences until they end; all
    other jobs share the last room.
    """

    numbers: np.ndarray  # (5,) TOTAL, STAMP, KNOWN_FIELDS, PLAIN, AT_HAND
    finished: np.ndarray  # (ring,) FINISHED
    finished_codes: np.ndarray  # (ring, fields)
    before: np.ndarray  # (ring, classes) the next older job in the class's list
    unfinished: np.ndarray  # (slots,) UNFINISHED
    codes: np.ndarray  # (slots, fields)
    classes: np.ndarray  # (slots, classes)
    heads: np.ndarray  # (slots, classes) newest finished job of each class at submission
    head: np.ndarray  # (classes, numbers of classes) newest finished job now
    ends: np.ndarray  # (users,) number of finished jobs
    window: np.ndarray  # (windows, 6, WINDOW) the first fields of FINISHED of a user's last finished jobs
    window_codes: np.ndarray  # (windows, 4 + fields, WINDOW) NUMBER, classes, codes
    log_rank: np.ndarray  # (WINDOW,) log(1 + rank)
    listed: np.ndarray  # (slots, LISTED) running numbers of the candidates, `count` of them once listed
    steps: np.ndarray  # (slots, LISTED) how many jobs of its class ended after each candidate
    sorted: np.ndarray  # (slots, most) the candidates in order of run time, `sorted` of them
    running: np.ndarray  # (users,) slot of the job started last, NOBODY
    place: np.ndarray  # (fields,) index of a field's weight, -1 while no job has had the field
    theta: np.ndarray  # (2, terms) weights and their sums of squared gradients
    offset: np.ndarray  # (users, 2, terms) each user's offset to theta, likewise
    difference: np.ndarray  # (rooms, terms, LISTED) of the candidates; one row per term, so that loops vectorize
    length: np.ndarray  # (rooms, 2, most) run times of unscaled and scaled candidates: seconds, log seconds
    again: np.ndarray  # (rooms, LISTED) the original of each scaled candidate; scaled ones follow all others
    sums: np.ndarray  # (2, terms) theta plus the user's offset, derivatives
    candidate: np.ndarray  # (2, most) WEIGHT, GRADIENT
    order: np.ndarray  # (2, most) candidates by seconds, and their bins
    bins: np.ndarray  # (BINS,)
    heard: np.ndarray  # (5, MOST_RUNNING + 1) evidence of running jobs for `censor`


@by_address
class Options(NamedTuple):
    """Options for learning the similarity weights: step sizes, weight of running jobs as evidence, scale of the
    score."""

    step: float = 0.02  # of AdaGrad, for the shared weights; 0: nothing is learned
    own_step: float = 0.02  # of AdaGrad, for a user's own offset
    keep: float = 0.999  # factor applied to an offset at each of its steps
    running: float = 0.6  # weight of a running job relative to a finished job; 0: running jobs are ignored
    most_running: int = MOST_RUNNING
    scaled: bool = True  # whether a candidate with another limit is added a second time, scaled
    relative: bool = True  # score on shares of the limit, else on log seconds
    point: int = BETWEEN  # index in POINTS: which value of the distribution is the point


def make_memory(ring: int, slots: int, users: int, classes: int, rooms: int = 1) -> Memory:
    """Return empty arrays of the given sizes, with `theta` at its initial values."""
    fields = len(FIELDS)
    theta = np.zeros((2, TERMS))
    theta[0, :OWN] = START
    return Memory(
        numbers=np.zeros(5, np.int64),
        finished=np.zeros(ring, FINISHED),
        finished_codes=np.zeros((ring, fields), np.int32),
        before=np.full((ring, CLASSES), NOBODY, np.int32),
        unfinished=np.zeros(slots, UNFINISHED),
        codes=np.zeros((slots, fields), np.int32),
        classes=np.zeros((slots, CLASSES), np.int64),
        heads=np.full((slots, CLASSES), NOBODY, np.int64),
        head=np.full((CLASSES, classes), NOBODY, np.int64),
        ends=np.zeros(users, np.int64),
        window=np.zeros((min(users, WINDOWS), 6, WINDOW)),
        window_codes=np.zeros((min(users, WINDOWS), CODES_FROM + fields, WINDOW), np.int32),
        log_rank=np.zeros(WINDOW),
        listed=np.zeros((slots, LISTED), np.int32),
        steps=np.zeros((slots, LISTED), np.int8),
        sorted=np.zeros((slots, MOST), np.uint16),
        running=np.full(users, NOBODY, np.int64),
        place=np.full(fields, -1, np.int64),
        theta=theta,
        offset=np.zeros((users, 2, TERMS)),
        difference=np.zeros((rooms, TERMS, LISTED)),
        length=np.zeros((rooms, 2, MOST)),
        again=np.zeros((rooms, LISTED), np.uint32),
        sums=np.zeros((2, TERMS)),
        candidate=np.zeros((2, MOST)),
        order=np.zeros((2, MOST), np.uint32),
        bins=np.zeros(BINS, np.uint32),
        heard=np.zeros((5, MOST_RUNNING + 1)),
    )


def grown(memory: Memory, what: str, size: int) -> Memory:
    """Return the memory with one dimension, `ring` (before it wraps around), `slots`, `users` or `classes`, enlarged to
    `size`."""
    sizes = {"ring": len(memory.finished), "slots": len(memory.unfinished), "users": len(memory.ends)}
    larger = make_memory(**{**sizes, "classes": memory.head.shape[1], what: size})
    changed = {}
    for name, old in memory._asdict().items():
        new = getattr(larger, name)
        if sum(new.shape) > sum(old.shape):
            new[tuple(map(slice, old.shape))] = old
            changed[name] = new
    return memory._replace(**changed)


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


LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # log(2) in two parts; k * LN2_HIGH is exact
INTEGER = 6755399441055744.0  # 1.5 * 2^52: adding and subtracting it rounds to an integer, found in the low bits
INTEGER_BITS = 0x4338000000000000
ONE = 0x3FF0000000000000
ROOT_HALF = 0x3FE6A09E667F3BCD
MANTISSA = 0x000FFFFFFFFFFFFF
BIAS = 1023


@inlined
def exponential(x: float) -> float:
    """Compute e^x for x up to 700 with an error below 1e-14; x below -700 counts as -700, where e^x is nearly 0.

    x = k log 2 + r with |r| <= log(2) / 2. A Taylor series to degree 11 gives e^r, and k is added to the exponent bits.
    """
    x = max(x, -700.0)
    shifted = x * 1.4426950408889634 + INTEGER
    k = shifted - INTEGER
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    p = 1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800))
    p = 1 / 120 + r * (1 / 720 + r * (1 / 5040 + r * (1 / 40320 + r * p)))
    p = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * p))))
    power = (np.float64(shifted).view(np.int64) << 52) + (np.int64(BIAS) << 52)
    return p * np.int64(power).view(np.float64)


@inlined
def logarithm_from_one(x: float) -> float:
    """Compute log x for finite x >= 1 with an error below 1e-15.

    x = 2^k m with m between the square roots of 1/2 and 2. log m = 2 atanh(s), s = (m - 1) / (m + 1), as a polynomial
    in odd powers with minimax coefficients, as in common C libraries (Cody & Waite; error below 2^-58).
    """
    shifted = np.float64(x).view(np.int64) + np.int64(ONE - ROOT_HALF)
    k = np.int64((shifted >> 52) - BIAS + INTEGER_BITS).view(np.float64) - INTEGER
    m = np.int64((shifted & np.int64(MANTISSA)) + np.int64(ROOT_HALF)).view(np.float64)
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    r = 0.1818357216161805012 + z * (0.1531383769920937332 + z * 0.1479819860511658591)
    r = 0.3999999999940941908 + z * (0.2857142874366239149 + z * (0.2222219843214978396 + z * r))
    r = z * (0.6666666666666735130 + z * r)
    half = 0.5 * f * f
    return k * LN2_HIGH - ((half - (s * (half + r) + k * LN2_LOW)) - f)


@inlined
def added(a: np.ndarray, n: int) -> float:
    """Sum a[j] for j < n, in eight independent partial sums that the processor can compute in parallel."""
    whole = n - n % 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for j in range(0, whole, 8):
        s0 += a[j]
        s1 += a[j + 1]
        s2 += a[j + 2]
        s3 += a[j + 3]
        s4 += a[j + 4]
        s5 += a[j + 5]
        s6 += a[j + 6]
        s7 += a[j + 7]
    for j in range(whole, n):
        s0 += a[j]
    return ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))


@inlined
def largest(a: np.ndarray, n: int) -> float:
    """Return the largest a[j] for j < n (no NaN), four comparisons at a time."""
    whole = n - n % 4
    m0 = m1 = m2 = m3 = -np.inf
    for j in range(0, whole, 4):
        m0 = a[j] if a[j] > m0 else m0
        m1 = a[j + 1] if a[j + 1] > m1 else m1
        m2 = a[j + 2] if a[j + 2] > m2 else m2
        m3 = a[j + 3] if a[j + 3] > m3 else m3
    for j in range(whole, n):
        m0 = a[j] if a[j] > m0 else m0
    return max(max(m0, m1), max(m2, m3))


@inlined
def least(a: np.ndarray, n: int) -> float:
    """Return the smallest a[j] for j < n (no NaN), four comparisons at a time."""
    whole = n - n % 4
    m0 = m1 = m2 = m3 = np.inf
    for j in range(0, whole, 4):
        m0 = a[j] if a[j] < m0 else m0
        m1 = a[j + 1] if a[j + 1] < m1 else m1
        m2 = a[j + 2] if a[j + 2] < m2 else m2
        m3 = a[j + 3] if a[j + 3] < m3 else m3
    for j in range(whole, n):
        m0 = a[j] if a[j] < m0 else m0
    return min(min(m0, m1), min(m2, m3))


@inlined
def apart(a: float, b: float) -> tuple[float, float]:
    """Return the distance of two logarithms and whether they differ; an unknown value (NaN) equals only an unknown
    value.
    """
    ratio = abs(a - b)
    known, unknown = ratio == ratio, (a != a) & (b != b)
    return (ratio if known else 0.0), (0.0 if (a == b) | unknown else 1.0)


@inner
def gather(m: Memory, o: Options, slot: int) -> int:
    """Write run times, log run times and differences of an unfinished job's candidates; return the number of
    candidates.

    Differences are stored only for unscaled candidates, because a scaled copy has the same differences, except for the
    term SCALED. Differences stored in the job's own block of work arrays (room) stay valid until the ring overwrites a
    candidate or a new field appears.
    """
    job, last = m.unfinished[slot], len(m.difference) - 1
    own = choose_candidates(m, slot) if job.count == NOT_LISTED else 0
    m.numbers[AT_HAND] = min(slot, last)
    if job.fields == m.numbers[KNOWN_FIELDS] and job.oldest >= m.numbers[TOTAL] - len(m.finished):
        m.numbers[PLAIN] = job.count
        return job.compared  # type: ignore[no-any-return]
    n = m.numbers[PLAIN] = fetch(m, slot, own)
    compare(m, slot, own, n)
    job.compared = n + (add_scaled(m, n, job.log_limit) if o.scaled else 0)
    job.fields = m.numbers[KNOWN_FIELDS] if slot < last else NOT_LISTED
    return job.compared  # type: ignore[no-any-return]


@inlined
def compare(m: Memory, slot: int, own: int, n: int) -> None:
    """Convert the candidates' collected values to differences from the job; the first `own` candidates are the user's
    latest jobs, newest first."""
    job = m.unfinished[slot]
    asked, log_limit, log_procs = job.asked, job.log_limit, job.log_procs
    rows, signed = m.difference[m.numbers[AT_HAND]], m.candidate[GRADIENT]
    ratio, differs = rows[LIMIT_RATIO], rows[LIMIT_DIFFERS]
    by_procs, procs_differ = rows[PROCS_RATIO], rows[PROCS_DIFFER]
    between, age, rank = rows[APART], rows[AGE], rows[RANK]
    padded = (n + 7) & -8  # vectorized loops need a multiple of 8; the surplus results are ignored
    for j in range(padded):
        signed[j] = log_limit - ratio[j]
    for j in range(padded):
        ratio[j], differs[j] = apart(log_limit, ratio[j])
    for j in range(padded):
        by_procs[j], procs_differ[j] = apart(log_procs, by_procs[j])
    for j in range(padded):
        between[j] = logarithm_from_one(1.0 + abs(asked - between[j]) / 60.0)
    for j in range(padded):
        age[j] = logarithm_from_one(1.0 + max(asked - age[j], 0.0) / 60.0)
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
    room = m.numbers[AT_HAND]
    again, ratio, signed = m.again[room], m.difference[room, LIMIT_RATIO], m.candidate[GRADIENT]
    seconds, log_seconds = m.length[room, SECONDS], m.length[room, LOG_SECONDS]
    more = 0
    for j in range(n):
        again[more] = j
        more += 1 if ratio[j] > 0.0 else 0
    for k in range(more):
        log_seconds[n + k] = max(log_seconds[again[k]] + signed[again[k]], 0.0)
    into, longs = seconds[n:], log_seconds[n:]  # slices, because numba only vectorizes loops that start at 0
    for k in range((more + 7) & -8):
        into[k] = exponential(min(longs[k], 700.0))
    return more


@inner
def weigh(m: Memory, user: int, n: int) -> float:
    """Compute the weights of the n candidates, normalized to sum to 1; return the logarithm of their sum before
    normalization."""
    terms = OWN + m.numbers[KNOWN_FIELDS]
    w, theta = m.candidate[WEIGHT], m.sums[0]
    for t in range(terms):
        theta[t] = m.theta[0, t] + m.offset[user, 0, t]
    plain, again = m.numbers[PLAIN], m.again[m.numbers[AT_HAND]]
    exponents(m, theta, terms, (plain + 7) & -8)
    for k in range(n - plain):
        w[plain + k] = w[again[k]] - theta[SCALED]
    best = largest(w, n)
    padded = (n + 7) & -8
    for j in range(padded):
        w[j] = exponential(w[j] - best)
    total = added(w, n)
    share = 1.0 / total
    for j in range(padded):
        w[j] *= share
    return best + math.log(total)


@inlined
def exponents(m: Memory, theta: np.ndarray, terms: int, n: int) -> None:
    """Compute -theta . d of the n candidates that are not scaled, four terms at a time."""
    w, rows, t = m.candidate[WEIGHT], m.difference[m.numbers[AT_HAND]], terms % 4
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
def likeness(m: Memory, slot: int, other: int) -> float:
    """Return theta . d between an unfinished job and a running job, where both jobs have the same user and the running
    job counts as the user's newest job."""
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
