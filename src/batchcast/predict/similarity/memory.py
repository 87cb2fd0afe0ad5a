# SPDX-License-Identifier: Apache-2.0
"""The arrays in which `kernel` stores finished jobs, their classes, unfinished jobs and learned weights.

docs/reference/kernel.md describes the method and its equations. Most candidates are the user's latest jobs, which are
read from one contiguous window. All other candidates are found by following linked lists through the ring of finished
jobs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...compiled import by_address, inlined

# kinds of classes of a job; each class links its finished jobs, newest first
USER, USER_LIMIT, USER_PROCS, USER_LIMIT_PROCS, LIMIT = range(5)
CLASSES = 5
REACH = (128, 64, 64, 64, 16)  # how many of each class's last finished jobs are candidates
MOST_CHOSEN = sum(REACH)  # largest number of candidates
MOST_CANDIDATES = 2 * MOST_CHOSEN  # each candidate may appear twice, unscaled and scaled
WINDOW = REACH[USER]  # number of a user's last finished jobs in the user's contiguous window
WINDOWS = 4096  # number of users with a window: 14 KB each

# terms of the difference between two jobs, d(i, j); then the fields that the log has, in order of first appearance
LIMIT_RATIO, LIMIT_DIFFERS, PROCS_RATIO, PROCS_DIFFER, SUBMIT_GAP, OTHER_USER, AGE, RANK, LATEST, SCALED = range(10)
OWN = 10
FIELDS = (
    "app_id", "queue_id", "group_id", "req_mem_kib", "partition_id", "account", "qos", "job_name",
    "req_gpus", "req_nodes", "work_dir", "name_stem",
)  # fmt: skip
TERM_START = (0.7, 1.0, 0.1, 0.6, 0.0, 1.6, -0.05, 0.6, -0.25, 0.2)
FIELD_START = (1.0, 0.4, 0.2, 1.8, 0.3, 0.2, 0.2, 0.5, 0.5, 0.3, 0.3, 0.5)
TERMS = OWN + len(FIELDS)

# indices of `Memory.numbers`: number of finished jobs so far, of list traversals, of compared fields and of unscaled
# candidates, and the room in use
TOTAL, STAMP, KNOWN_FIELDS, UNSCALED, ROOM = range(5)
WEIGHT, GRADIENT = SECONDS, LOG_SECONDS = range(2)
NUMBER, CODES_FROM = 0, 4  # rows of `window_codes`: running numbers, USER_LIMIT to USER_LIMIT_PROCS, field codes
BINS = 1024  # number of bins of the counting sort
MOST_RUNNING = 32  # largest number of running jobs of one user that are used as evidence
ROOMS = 256  # number of jobs of a whole log that have their own room: up to 75 KB each
NOBODY = -1
NOT_CHOSEN = -1
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
REACHED, MASS, CUT, PART, TIMES = range(5)  # rows of `Memory.censored`: one column per running job, then per part


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

    numbers: np.ndarray  # (5,) TOTAL, STAMP, KNOWN_FIELDS, UNSCALED, ROOM
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
    chosen: np.ndarray  # (slots, MOST_CHOSEN) running numbers of the candidates, `count` of them once listed
    steps: np.ndarray  # (slots, MOST_CHOSEN) how many jobs of its class ended after each candidate
    sorted: np.ndarray  # (slots, most) the candidates in order of run time, `sorted` of them
    running: np.ndarray  # (users,) slot of the job started last, NOBODY
    weight_index: np.ndarray  # (fields,) index of a field's weight, -1 while no job has had the field
    theta: np.ndarray  # (2, terms) weights and their sums of squared gradients
    offset: np.ndarray  # (users, 2, terms) each user's offset to theta, likewise
    differences: np.ndarray  # (rooms, terms, MOST_CHOSEN) of the candidates; one row per term, so that loops vectorize
    run_times: np.ndarray  # (rooms, 2, most) run times of unscaled and scaled candidates: seconds, log seconds
    original: np.ndarray  # (rooms, MOST_CHOSEN) the original of each scaled candidate; scaled ones follow all others
    sums: np.ndarray  # (2, terms) theta plus the user's offset; derivatives, or the median
    per_candidate: np.ndarray  # (2, most) WEIGHT, GRADIENT
    order: np.ndarray  # (2, most) candidates by seconds, and their bins
    bins: np.ndarray  # (BINS,)
    censored: np.ndarray  # (5, MOST_RUNNING + 1) evidence of running jobs for `censor_by_running_jobs`


@by_address
class Options(NamedTuple):
    """Options for learning the similarity weights: step sizes, weight of running jobs as evidence, scale of the
    score."""

    step: float = 0.02  # of AdaGrad, for the shared weights; 0: nothing is learned
    own_step: float = 0.02  # of AdaGrad, for a user's own offset
    offset_decay: float = 0.999  # factor applied to an offset at each of its steps
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
        chosen=np.zeros((slots, MOST_CHOSEN), np.int32),
        steps=np.zeros((slots, MOST_CHOSEN), np.int8),
        sorted=np.zeros((slots, MOST_CANDIDATES), np.uint16),
        running=np.full(users, NOBODY, np.int64),
        weight_index=np.full(fields, -1, np.int64),
        theta=theta,
        offset=np.zeros((users, 2, TERMS)),
        differences=np.zeros((rooms, TERMS, MOST_CHOSEN)),
        run_times=np.zeros((rooms, 2, MOST_CANDIDATES)),
        original=np.zeros((rooms, MOST_CHOSEN), np.uint32),
        sums=np.zeros((2, TERMS)),
        per_candidate=np.zeros((2, MOST_CANDIDATES)),
        order=np.zeros((2, MOST_CANDIDATES), np.uint32),
        bins=np.zeros(BINS, np.uint32),
        censored=np.zeros((5, MOST_RUNNING + 1)),
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
def ring_index(number: int, round_began: int, length: int) -> np.uint64:
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
def number_in_window(m: Memory, user: int, rank: int, oldest: int) -> int:
    """Return how many of the user's first `rank` finished jobs are in the window; 0 if the user has more than `rank`
    finished jobs."""
    if user >= len(m.window) or m.ends[user] != rank:
        return 0
    n, newest, numbers = min(rank, WINDOW), newest_in_window(rank), m.window_codes[user, NUMBER]
    while n > 0 and numbers[(newest + np.uint64(n - 1)) & np.uint64(WINDOW - 1)] < oldest:
        n -= 1
    return n


@inlined
def entries_before_wrap(newest: np.uint64, n: int) -> int:
    """Return how many of the n newest jobs lie between the newest job and the window's end; the remaining jobs wrap
    around to the window's start."""
    place: Any = np.int64(newest)
    until: int = min(n, WINDOW - place)
    return until


@inlined
def copy_newest(into: np.ndarray, window: np.ndarray, newest: np.uint64, n: int) -> None:
    """Copy the n newest entries of a window, newest first."""
    until = entries_before_wrap(newest, n)
    begin, rest = window[newest:], into[until:]
    for j in range(until):
        into[j] = begin[j]
    for j in range(n - until):
        rest[j] = window[j]


@inlined
def mark_differing(into: np.ndarray, window: np.ndarray, newest: np.uint64, n: int, code: int) -> None:
    """Write, for each of the n newest entries of a user's window, 1 if the entry's code differs from `code`, else 0."""
    until = entries_before_wrap(newest, n)
    begin, rest = window[newest:], into[until:]
    for j in range(until):
        into[j] = 1.0 if begin[j] != code else 0.0
    for j in range(n - until):
        rest[j] = 1.0 if window[j] != code else 0.0


@inlined
def find_class_in_window(window: np.ndarray, newest: np.uint64, n: int, code: int) -> tuple[int, int]:
    """Return how many of the n newest entries have the code, and the index of the oldest such entry (-1: none)."""
    until = entries_before_wrap(newest, n)
    begin, count, last = window[newest:], 0, -1
    for j in range(until):
        count += 1 if begin[j] == code else 0
        last = max(last, j if begin[j] == code else -1)
    for j in range(n - until):
        count += 1 if window[j] == code else 0
        last = max(last, until + j if window[j] == code else -1)
    return count, last


@inlined
def add_to_window(m: Memory, slot: int, number: int, index: np.uint64) -> None:
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
