# SPDX-License-Identifier: Apache-2.0
"""`kernel`'s memory of finished jobs, and the compiled steps that read and change it.

The first half chooses the finished jobs that a job is compared with (its candidates), and computes the candidates'
weights exp(-theta . d). `kernel` stores finished jobs, linked lists of their classes, unfinished jobs and learned
weights in the arrays of `Memory`. Most candidates are the user's latest jobs, which are read from one contiguous
window. All other candidates are found by following linked lists through the ring of finished jobs.

The second half builds the weighted distribution of a job's candidates, in which running jobs are censored evidence, and
updates the memory when a job is submitted, predicted, started, ended or withdrawn. It also performs the learning step,
and processes a whole log in one call.

The logarithm and the exponential use only float64 additions and multiplications, so results are equal bit for bit on
every machine; a C library's functions differ between versions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...compiled import by_address, inlined, inner, kernel
from ...events.event import END, START, SUBMIT, WITHDRAW

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
TERM_START = (0.7, 1.0, 0.1, 0.6, 0.0, 1.6, -0.05, 0.6, -0.25, 0.2)
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
     ("stamp", "i8"), ("rank", "i4"), ("user", "i4")]
)  # 64 bytes: one line of the processor's cache  # fmt: skip
UNFINISHED = np.dtype(
    [("submit", "f8"), ("start", "f8"), ("limit", "f8"), ("log_limit", "f8"), ("log_procs", "f8"),
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
    weight_index: np.ndarray  # (fields,) index of a field's weight, -1 while no job has had the field
    theta: np.ndarray  # (2, terms) weights and their sums of squared gradients
    offset: np.ndarray  # (users, 2, terms) each user's offset to theta, likewise
    difference: np.ndarray  # (rooms, terms, LISTED) of the candidates; one row per term, so that loops vectorize
    length: np.ndarray  # (rooms, 2, most) run times of unscaled and scaled candidates: seconds, log seconds
    again: np.ndarray  # (rooms, LISTED) the original of each scaled candidate; scaled ones follow all others
    sums: np.ndarray  # (2, terms) theta plus the user's offset; derivatives, or the median
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
    theta[0, :OWN] = TERM_START
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
        weight_index=np.full(fields, -1, np.int64),
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


def grown(memory: Memory, dimension: str, size: int) -> Memory:
    """Return the memory with one dimension, `ring` (before it wraps around), `slots`, `users` or `classes`, enlarged to
    `size`."""
    sizes = {"ring": len(memory.finished), "slots": len(memory.unfinished), "users": len(memory.ends)}
    larger = make_memory(**{**sizes, "classes": memory.head.shape[1], dimension: size})
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
            if kind == USER or not (is_listed or there.stamp == stamp):
                there.stamp = stamp
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
def into_window(m: Memory, slot: int, number: int, index: np.uint64) -> None:
    """Add a finished job that is already in the ring to its user's window, as the window's newest job."""
    there, classes = m.finished[index], m.classes[slot]
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
ONE_BITS = 0x3FF0000000000000
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
    shifted = np.float64(x).view(np.int64) + np.int64(ONE_BITS - ROOT_HALF)
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
def largest(a: np.ndarray, n: int, sign: float = 1.0) -> float:
    """Return the largest sign * a[j] for j < n (no NaN), four comparisons at a time; `sign` is 1 or -1."""
    whole = n - n % 4
    m0 = m1 = m2 = m3 = -np.inf
    for j in range(0, whole, 4):
        m0 = sign * a[j] if sign * a[j] > m0 else m0
        m1 = sign * a[j + 1] if sign * a[j + 1] > m1 else m1
        m2 = sign * a[j + 2] if sign * a[j + 2] > m2 else m2
        m3 = sign * a[j + 3] if sign * a[j + 3] > m3 else m3
    for j in range(whole, n):
        m0 = sign * a[j] if sign * a[j] > m0 else m0
    return max(max(m0, m1), max(m2, m3))


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
    submit, log_limit, log_procs = job.submit, job.log_limit, job.log_procs
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
        between[j] = logarithm_from_one(1.0 + abs(submit - between[j]) / 60.0)
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
def likeness(m: Memory, slot: int, running_slot: int) -> float:
    """Return theta . d between an unfinished job and a running job, where both jobs have the same user and the running
    job counts as the user's newest job.

    Theta is the sum of the shared and the user's own weights that `weigh` has written for this job.
    """
    job, theirs, theta = m.unfinished[slot], m.unfinished[running_slot], m.sums[0]
    ratio, differs = apart(job.log_limit, theirs.log_limit)
    exponent: float = theta[LIMIT_RATIO] * ratio + theta[LIMIT_DIFFERS] * differs
    ratio, differs = apart(job.log_procs, theirs.log_procs)
    exponent += theta[PROCS_RATIO] * ratio + theta[PROCS_DIFFER] * differs
    exponent += theta[APART] * math.log(1.0 + abs(job.submit - theirs.submit) / 60.0)
    for f in range(m.numbers[KNOWN_FIELDS]):
        if m.codes[slot, f] != m.codes[running_slot, f]:
            exponent += theta[OWN + f]
    return exponent


LOW = 0.4  # the point lies between the quantiles LOW and 1 - LOW
REACHED, MASS, CUT, PART, TIMES = range(5)  # rows of `Memory.heard`: one column per running job, then per part


@inner
def sort(m: Memory, slot: int, n: int) -> None:
    """Sort the n candidates by log run time; reuse the job's earlier sorting if no candidate was dropped."""
    order, kept = m.order[0], m.sorted[slot]
    if m.unfinished[slot].sorted == n:
        for a in range(n):
            order[a] = kept[a]
        return
    into_bins(m, n)
    insert_in_row(m.candidate[GRADIENT], order, n)
    for a in range(n):
        kept[a] = order[a]
    m.unfinished[slot].sorted = n


@inlined
def into_bins(m: Memory, n: int) -> None:
    """Presort candidates by run time into bins between the smallest and the largest value; there are about as many bins
    as candidates.
    """
    value, order, bin_of, bins = m.length[m.numbers[AT_HAND], LOG_SECONDS], m.order[0], m.order[1], m.bins
    in_order = m.candidate[GRADIENT]
    low, high, number = -largest(value, n, -1.0), largest(value, n), 64
    while number < n and number < BINS:
        number *= 2
    scale = (number - 1) / (high - low) if high > low else 0.0
    bins[:number] = 0
    for j in range(n):
        into = np.uint64(int((value[j] - low) * scale))  # unsigned: numba adds no check for negative indices
        bin_of[j] = into
        bins[into] += 1
    before = 0
    for b in range(number):
        here = bins[b]
        bins[b] = before
        before += here
    for j in range(n):
        b = bin_of[j]
        place = bins[b]
        order[place], in_order[place] = j, value[j]
        bins[b] = place + 1


@inlined
def insert_in_row(value: np.ndarray, order: np.ndarray, n: int) -> None:
    """Sort values with their indices by a stable insertion sort."""
    for a in range(1, n):
        v, b = value[a], a - 1
        if value[b] > v:
            j = order[a]
            while b >= 0 and value[b] > v:
                value[b + 1], order[b + 1] = value[b], order[b]
                b -= 1
            value[b + 1], order[b + 1] = v, j


@inner
def censor(m: Memory, o: Options, slot: int, itself: int, now: float, n: int, log_sum: float) -> None:
    """Move weight from candidates that the user's running jobs have outlived to longer candidates.

    As in Efron 1967, the weight of a censored observation moves to values beyond the censoring time, in proportion to
    the weights of these values. A running job has the weight `o.running` times its similarity, while the weights of all
    candidates sum to 1. Running jobs are processed in order from newest to oldest.
    """
    other, heard, seen = m.running[m.unfinished[slot].user], 0, 0
    while other >= 0 and seen < min(o.most_running, MOST_RUNNING):
        elapsed = now - m.unfinished[other].start
        if elapsed > 0.0 and other != itself:
            mass = o.running * math.exp(min(-likeness(m, slot, other) - log_sum, 50.0))
            hear(m, heard, math.log(max(elapsed, 1.0)), mass)
            heard += 1
        other = m.unfinished[other].next
        seen += 1
    if heard > 0:
        redistribute(m, n, heard)


@inlined
def hear(m: Memory, heard: int, reached: float, mass: float) -> None:
    """Record a running job's log seconds so far and weight in column `heard` of the evidence of running jobs."""
    cut, b = m.heard[CUT], heard
    m.heard[REACHED, heard], m.heard[MASS, heard] = reached, mass
    while b > 0 and cut[b - 1] > reached:
        cut[b] = cut[b - 1]
        b -= 1
    cut[b] = reached


@inlined
def redistribute(m: Memory, n: int, heard: int) -> None:
    """Move weight beyond the time that each running job has reached, one job after the other.

    All candidates between the times of two running jobs change by the same factor, so one factor per interval is
    computed.
    """
    w, order, begins = m.candidate[WEIGHT], m.order[0], m.order[1]
    reached, mass, cut, part, times = m.heard[REACHED], m.heard[MASS], m.heard[CUT], m.heard[PART], m.heard[TIMES]
    begins[0], begins[heard + 1] = 0, n
    for s in range(heard):
        begins[s + 1] = first_above(m.length[m.numbers[AT_HAND], LOG_SECONDS], order, n, cut[s])
    for s in range(heard + 1):
        part[s], times[s] = added_in_order(w, order, begins[s], begins[s + 1]), 1.0
    for k in range(heard):
        below, last = 0.0, 0
        while last < heard and cut[last] <= reached[k]:
            below += part[last]
            last += 1
        above = 1.0 - below
        if below > 0.0 and above > 1e-9:
            moved = below * mass[k] / (1.0 + mass[k])
            less, more = 1.0 - moved / below, 1.0 + moved / above
            for s in range(heard + 1):
                factor = less if s < last else more
                part[s] *= factor
                times[s] *= factor
    for s in range(heard + 1):
        factor = times[s]
        for a in range(begins[s], begins[s + 1]):
            w[order[a]] *= factor


@inlined
def first_above(value: np.ndarray, order: np.ndarray, n: int, cut: float) -> int:
    """Return the index of the first candidate, in the sorted order, whose value is above `cut`."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if value[order[middle]] > cut:
            high = middle
        else:
            low = middle + 1
    return low


@inlined
def added_in_order(w: np.ndarray, order: np.ndarray, begin: int, end: int) -> float:
    """Sum the candidates' weights between two indices in the sorted order, in four independent partial sums."""
    whole = end - (end - begin) % 4
    s0 = s1 = s2 = s3 = 0.0
    for a in range(begin, whole, 4):
        s0 += w[order[a]]
        s1 += w[order[a + 1]]
        s2 += w[order[a + 2]]
        s3 += w[order[a + 3]]
    for a in range(whole, end):
        s0 += w[order[a]]
    return (s0 + s1) + (s2 + s3)


@inlined
def quantiles(m: Memory, n: int, levels: np.ndarray | Sequence[float], out: np.ndarray) -> None:
    """Compute weighted quantiles of the n candidates at ascending levels in one pass."""
    w, order, seconds = m.candidate[WEIGHT], m.order[0], m.length[m.numbers[AT_HAND], SECONDS]
    below, a = w[order[0]], 0
    for k in range(len(levels)):
        level = levels[k] - 1e-12
        while a < n - 1 and below < level:
            a += 1
            below += w[order[a]]
        out[k] = seconds[order[a]]


@inlined
def within(seconds: float, limit: float) -> float:
    """Limit a value to at most the time limit, if known, and at least one second."""
    return max(min(seconds, limit), 1.0) if limit == limit else max(seconds, 1.0)


@inlined
def middle(m: Memory, o: Options, n: int, limit: float) -> float:
    """Return the point of the distribution that the option `point` (`POINTS`) selects, at most the time limit."""
    if o.point == MEDIAN:
        quantiles(m, n, (0.5,), m.sums[1])
        return within(m.sums[1, 0], limit)
    if o.point == GEOMETRIC:
        return within(geometric_mean(m, n), limit)
    return most_accurate(m, n, limit, LOW if o.point == BETWEEN else 0.0)


@inlined
def geometric_mean(m: Memory, n: int) -> float:
    """Return the geometric mean of the n candidates, each counted as at least one second."""
    seconds, w = m.length[m.numbers[AT_HAND], SECONDS], m.candidate[WEIGHT]
    total, weight = 0.0, 0.0
    for j in range(n):
        total += w[j] * math.log(max(seconds[j], 1.0))
        weight += w[j]
    return math.exp(total / weight)


@inlined
def most_accurate(m: Memory, n: int, limit: float, low: float) -> float:
    """Return the candidate p between the quantiles `low` and 1 - `low` with the largest sum_j w_j min(p, y_j) / max(p,
    y_j).

    The sum equals rising / p + p falling, where rising is the sum of w y up to p and falling the sum of w / y beyond p.
    Between two candidates, the sum is convex in p, so its maximum is at a candidate. Candidates above the limit count
    as the limit. Of two equally good candidates, the shorter is returned.
    """
    seconds, w, order = m.length[m.numbers[AT_HAND], SECONDS], m.candidate[WEIGHT], m.order[0]
    first, below, rising, falling = 0, w[order[0]], 0.0, 0.0
    while first < n - 1 and below < low - 1e-12:
        rising += w[order[first]] * within(seconds[order[first]], limit)
        first += 1
        below += w[order[first]]
    last = first
    while last < n - 1 and below < 1.0 - low - 1e-12:
        last += 1
        below += w[order[last]]
    for a in range(first, n):
        falling += w[order[a]] / within(seconds[order[a]], limit)
    best, point = -1.0, 0.0
    for a in range(first, last + 1):
        p = within(seconds[order[a]], limit)
        rising += w[order[a]] * p
        falling -= w[order[a]] / p
        expected = rising / p + falling * p
        if expected > best + 1e-12:
            best, point = expected, p
    return point


@inner
def quantile_left(m: Memory, n: int, elapsed: float, level: float) -> float:
    """Return the quantile at a level among the candidates longer than `elapsed`; NaN if no candidate is longer."""
    seconds, w = m.length[m.numbers[AT_HAND], SECONDS], m.candidate[WEIGHT]
    left = 0.0
    for j in range(n):
        if seconds[j] > elapsed:
            left += w[j]
    if left <= 0.0:
        return math.nan
    below = 0.0
    last: float = math.nan
    for a in range(n):
        j = m.order[0, a]
        if seconds[j] > elapsed:
            below += w[j]
            last = seconds[j]
            if below >= (level - 1e-12) * left:
                return last
    return last


FARTHEST = 10.0  # largest run time in the score, in time limits, so that outliers do not dominate
ROUNDING = 1e-12  # added to squared slopes; without it, AdaGrad would turn rounding errors into full steps
NO_LIMIT = 1e5  # seconds used as the time limit if none is known


@inlined
def scored(m: Memory, o: Options, n: int, limit: float, run: float) -> float:
    """Write the candidates' run times on the score's scale (shares of the limit or log seconds); return `run` on this
    scale.
    """
    room, t = m.numbers[AT_HAND], m.candidate[GRADIENT]
    seconds, log_seconds = m.length[room, SECONDS], m.length[room, LOG_SECONDS]
    if not o.relative:
        for j in range(n):
            t[j] = log_seconds[j]
        return math.log(run)
    scale = max(limit, 60.0) if limit == limit else NO_LIMIT
    for j in range(n):
        t[j] = min(seconds[j] / scale, FARTHEST)
    return min(run / scale, FARTHEST)


@inner
def learn(m: Memory, o: Options, slot: int, run: float) -> float:
    """Take one gradient step for the similarity weights theta and the user's offset; return the CRPS (NaN with fewer
    than two candidates).

    For weights w on sorted values t, CRPS = sum_j w_j |t_j - y| - 1/2 sum_jk w_j w_k |t_j - t_k| (Gneiting & Raftery
    2007, eq. 21). The derivative of the CRPS in w_j is g_j = |t_j - y| - sum_k w_k |t_j - t_k|, and in theta -sum_j w_j
    (g_j - mean g) d_j. After sorting, the cost is linear in the number of candidates.
    """
    n = gather(m, o, slot)
    if n < 2:
        return math.nan
    weigh(m, m.unfinished[slot].user, n)
    sort(m, slot, n)
    crps = slopes(m, o, n, run, m.unfinished[slot].limit)
    step(m, o, m.unfinished[slot].user, n)
    return crps


@inlined
def slopes(m: Memory, o: Options, n: int, run: float, limit: float) -> float:
    """Write the derivative of the CRPS with respect to each weight; return the CRPS."""
    w, g, order = m.candidate[WEIGHT], m.candidate[GRADIENT], m.order[0]
    y = scored(m, o, n, limit, run)
    mean = dot(w, g, n)
    crps, below, moment = 0.0, 0.0, 0.0
    for a in range(n):
        j = order[a]
        t = g[j]
        spread = t * below - moment + (mean - moment) - t * (1.0 - below)
        below += w[j]
        moment += w[j] * t
        g[j] = abs(t - y) - spread
        crps += w[j] * (abs(t - y) - 0.5 * spread)
    return crps


@inlined
def step(m: Memory, o: Options, user: int, n: int) -> None:
    """Take an AdaGrad step (Duchi, Hazan & Singer 2011) for the similarity weights theta and the user's offset; the
    offset also decays a little.
    """
    w, g, slope = m.candidate[WEIGHT], m.candidate[GRADIENT], m.sums[1]
    terms, mean = OWN + m.numbers[KNOWN_FIELDS], dot(w, g, n)
    for j in range(n):
        g[j] = w[j] * (g[j] - mean)
    plain, scaled = m.numbers[PLAIN], 0.0
    rows, again = m.difference[m.numbers[AT_HAND]], m.again[m.numbers[AT_HAND]]
    for k in range(plain, n):
        scaled += g[k]
        g[again[k - plain]] += g[k]
    for t in range(terms):
        slope[t] = -dot(g, rows[t], plain) if t != SCALED else -scaled
    now, squares = m.theta[0], m.theta[1]
    for t in range(terms):
        squares[t] += slope[t] * slope[t]
        now[t] -= o.step * slope[t] / math.sqrt(squares[t] + ROUNDING)
    if o.own_step > 0.0:
        now, squares = m.offset[user, 0], m.offset[user, 1]
        for t in range(terms):
            squares[t] += slope[t] * slope[t]
            now[t] = o.keep * now[t] - o.own_step * slope[t] / math.sqrt(squares[t] + ROUNDING)


@inlined
def dot(a: np.ndarray, b: np.ndarray, n: int) -> float:
    """Sum a[j] * b[j] for j < n, in eight independent partial sums."""
    whole = n - n % 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for j in range(0, whole, 8):
        s0 += a[j] * b[j]
        s1 += a[j + 1] * b[j + 1]
        s2 += a[j + 2] * b[j + 2]
        s3 += a[j + 3] * b[j + 3]
        s4 += a[j + 4] * b[j + 4]
        s5 += a[j + 5] * b[j + 5]
        s6 += a[j + 6] * b[j + 6]
        s7 += a[j + 7] * b[j + 7]
    for j in range(whole, n):
        s0 += a[j] * b[j]
    return ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))


ABSURD = 1e15  # seconds or processors; larger values count as unknown


@inlined
def logarithm(value: float) -> float:
    """Return the log of a limit or a number of processors; NaN if it is unknown or implausible."""
    return math.log(value) if 0.0 < value < ABSURD else math.nan


@kernel
def note(m: Memory, slot: int, numbers: np.ndarray, codes: np.ndarray) -> None:
    """Write a job's request to a slot: numbers (submit time, limit, processors) and codes (user, classes, fields).

    Fields that are unknown for all earlier jobs are ignored, because every candidate would differ in them.
    """
    job, user = m.unfinished[slot], codes[0]
    job.submit, job.limit = numbers[0], numbers[1]
    job.log_limit, job.log_procs = logarithm(numbers[1]), logarithm(numbers[2])
    job.user, job.rank, job.start = user, m.ends[user], math.nan
    job.next = job.previous = NOBODY
    job.count = job.sorted = job.fields = NOT_LISTED
    for kind in range(CLASSES):
        m.classes[slot, kind] = codes[1 + kind]
        m.heads[slot, kind] = m.head[kind, codes[1 + kind]]
    for f in range(len(m.weight_index)):
        m.codes[slot, f] = 0
    for f in range(len(m.weight_index)):
        if m.weight_index[f] >= 0:
            m.codes[slot, m.weight_index[f]] = codes[1 + CLASSES + f]


@kernel
def submitted(m: Memory, slot: int, numbers: np.ndarray, codes: np.ndarray) -> None:
    """Record a submitted job, and start comparing fields that no earlier job had."""
    note(m, slot, numbers, codes)
    met(m, slot, codes)


@inner
def met(m: Memory, slot: int, codes: np.ndarray) -> None:
    """Add the fields that no earlier job had to the compared fields."""
    for f in range(len(m.weight_index)):
        if m.weight_index[f] < 0 and codes[1 + CLASSES + f] != 0:
            m.weight_index[f] = m.numbers[KNOWN_FIELDS]
            m.theta[0, OWN + m.weight_index[f]] = FIELD_START[f]
            m.numbers[KNOWN_FIELDS] += 1
            m.codes[slot, m.weight_index[f]] = codes[1 + CLASSES + f]


@kernel
def answer(m: Memory, o: Options, slot: int, itself: int, now: float, levels: np.ndarray, out: np.ndarray) -> int:
    """Write a prediction into `out`: the point, quantiles at `levels` (ascending), and five numbers about its evidence.

    Returns the number of finished jobs on which the prediction is based. The evidence is the total weight of the user's
    own candidates, of the user's candidates with this limit, with these processors, and with both; and the effective
    number of candidates, 1 / (sum of squared weights). `itself` is the index (slot) of a job that is predicted while it
    runs, else NOBODY.
    """
    n = weighted(m, o, slot, itself, now)
    if n == 0:
        return 0
    limit = m.unfinished[slot].limit
    out[0] = middle(m, o, n, limit)
    quantiles(m, n, levels, out[1:])
    for k in range(len(levels)):
        out[1 + k] = within(out[1 + k], limit)
    rests_on(m, n, out[1 + len(levels) :])
    return n


@inner
def weighted(m: Memory, o: Options, slot: int, itself: int, now: float) -> int:
    """Compute the sorted and weighted finished jobs that a job is compared with, including the evidence of running
    jobs; return their number."""
    n = gather(m, o, slot)
    if n > 0:
        log_sum = weigh(m, m.unfinished[slot].user, n)
        sort(m, slot, n)
        if o.running > 0.0:
            censor(m, o, slot, itself, now, n, log_sum)
    return n


@inner
def forecast(m: Memory, o: Options, slot: int, now: float, otherwise: float) -> float:
    """Return the point prediction for a job at its submission; `otherwise` if there is no candidate."""
    n = weighted(m, o, slot, NOBODY, now)
    return middle(m, o, n, m.unfinished[slot].limit) if n > 0 else otherwise


@inner
def tail(m: Memory, slot: int, levels: Sequence[float], out: np.ndarray) -> None:
    """Write quantiles at ascending levels for the job predicted last; without a candidate, `out` is unchanged."""
    n = m.unfinished[slot].sorted
    if n > 0:
        quantiles(m, n, levels, out)
        for k in range(len(levels)):
            out[k] = within(out[k], m.unfinished[slot].limit)


@inlined
def rests_on(m: Memory, n: int, shares: np.ndarray) -> None:
    """Write the total weight of the user's candidates (all, with this limit, of this size, both) and the effective
    number of candidates.
    """
    shares[:] = 0.0
    squares = 0.0
    w, rows = m.candidate[WEIGHT], m.difference[m.numbers[AT_HAND]]
    other_user, limit_differs, procs_differ = rows[OTHER_USER], rows[LIMIT_DIFFERS], rows[PROCS_DIFFER]
    plain, again = m.numbers[PLAIN], m.again[m.numbers[AT_HAND]]
    for k in range(n):
        j = k if k < plain else again[k - plain]
        own = w[k] * (1.0 - other_user[j])
        squares += w[k] * w[k]
        shares[0] += own
        shares[1] += own * (1.0 - limit_differs[j])
        shares[2] += own * (1.0 - procs_differ[j])
        shares[3] += own * (1.0 - limit_differs[j]) * (1.0 - procs_differ[j])
    shares[4] = 1.0 / squares


@kernel
def revised(m: Memory, o: Options, slot: int, itself: int, now: float, elapsed: float) -> float:
    """Return the median run time of candidates longer than `elapsed`, the seconds that a job has run; at most the
    limit.

    If no candidate is longer, return the limit, or twice `elapsed` if the limit is unknown or passed.
    """
    n, limit = weighted(m, o, slot, itself, now), m.unfinished[slot].limit
    median = quantile_left(m, n, elapsed, 0.5) if n > 0 else math.nan
    if median == median and not median > limit:
        return median
    return limit if elapsed < limit < math.inf else 2.0 * max(elapsed, 1.0)


@kernel
def started(m: Memory, slot: int, now: float) -> None:
    """Add a started job at the front of its user's list of running jobs."""
    job = m.unfinished[slot]
    job.start, job.previous, job.next = now, NOBODY, m.running[job.user]
    if job.next >= 0:
        m.unfinished[job.next].previous = slot
    m.running[job.user] = slot


@kernel
def stopped(m: Memory, slot: int) -> None:
    """Remove a job that no longer runs from its user's list of running jobs."""
    job = m.unfinished[slot]
    if job.start != job.start:
        return
    if job.previous >= 0:
        m.unfinished[job.previous].next = job.next
    else:
        m.running[job.user] = job.next
    if job.next >= 0:
        m.unfinished[job.next].previous = job.previous
    job.start = math.nan
    job.next = job.previous = NOBODY


@kernel
def ended(m: Memory, o: Options, slot: int, now: float, run: float, teach: bool) -> float:
    """Record an ended job: learn from it (if `teach`), then store it as a candidate; return the CRPS of the job's
    prediction."""
    run = max(run, 1.0)
    crps = learn(m, o, slot, run) if teach and o.step > 0.0 else math.nan
    stopped(m, slot)
    job, number = m.unfinished[slot], m.numbers[TOTAL]
    place = number % len(m.finished)
    kept = m.finished[place]
    kept.submit, kept.end, kept.run, kept.log_run = job.submit, now, run, math.log(run)
    kept.log_limit, kept.log_procs, kept.user, kept.stamp = job.log_limit, job.log_procs, job.user, 0
    m.ends[job.user] += 1
    kept.rank = m.ends[job.user]
    for f in range(len(m.weight_index)):
        m.finished_codes[place, f] = m.codes[slot, f]
    for kind in range(CLASSES):
        m.before[place, kind] = m.head[kind, m.classes[slot, kind]]
        m.head[kind, m.classes[slot, kind]] = number
    into_window(m, slot, number, np.uint64(place))
    if number < WINDOW:
        m.log_rank[number] = logarithm_from_one(1.0 + number)
    m.numbers[TOTAL] += 1
    return crps


@kernel
def follow(
    m: Memory,
    o: Options,
    events: tuple[np.ndarray, np.ndarray, np.ndarray],
    jobs: tuple[np.ndarray, np.ndarray],
    run: np.ndarray,
    levels: np.ndarray,
    free: np.ndarray,
    slot_of: np.ndarray,
    out: np.ndarray,
) -> None:
    """Process every event of a log (time, kind, row); write each job's prediction to its row of `out`.

    `jobs` contains numbers and codes for `note`, `free` is a stack of free slots, `slot_of` gives the slot of each row.
    """
    time, kind, rows = events
    numbers, codes = jobs
    left = len(free)
    for e in range(len(time)):
        row, what = rows[e], kind[e]
        if what == SUBMIT:
            left -= 1
            slot = slot_of[row] = free[left]
            note(m, slot, numbers[row], codes[row])
            if answer(m, o, slot, NOBODY, time[e], levels, out[row]) == 0:
                out[row, 0] = math.nan
            met(m, slot, codes[row])
        elif what == START:
            started(m, slot_of[row], time[e])
        elif what in (END, WITHDRAW):
            slot = slot_of[row]
            if what == END:
                ended(m, o, slot, time[e], run[row], True)
            else:
                stopped(m, slot)
            free[left] = slot
            left += 1
