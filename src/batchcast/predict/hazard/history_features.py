# SPDX-License-Identifier: Apache-2.0
"""Features of a submission that describe the past: recent waits by class of jobs, recent starts, and rates of events.

The functions that store and read the history are compiled.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...compiled import inlined, inner, kernel
from ...compiled.arrays import Record
from ...events.record import NO_LIMIT
from .queue_features import bounded, scale

KINDS = (
    *("all", "size", "limit", "size_limit", "user", "user_size_limit", "user_app"),
    *("queue", "queue_size", "partition", "group", "account", "qos", "gpu_type"),
)
"""Kinds of classes whose waits are stored separately; a job with an unknown name belongs to no class of that kind."""
ALL, SIZE, LIMIT, SIZE_LIMIT, USER, USER_SIZE_LIMIT, USER_APP = range(7)
QUEUE, QUEUE_SIZE, PARTITION, GROUP, ACCOUNT, QOS, GPU_TYPE = range(7, 14)
QUICK_S, INSTANT_S = 3600.0, 60.0
CLASS = np.dtype(
    [
        ("key", "i8"),  # 0: the entry is free
        ("last", "f8"),  # log(1 + last wait); NaN until the first wait, as are the next four
        ("fast", "f8"),  # mean over about 4 waits
        ("slow", "f8"),  # mean over about 20 waits
        ("quick", "f8"),  # share of waits up to an hour, over about 10
        ("instant", "f8"),  # share of waits up to a minute
        ("when", "f8"),  # time of the last wait's end
        ("submitted", "f8"),  # time of the last submission
        ("gpus", "f8"),  # most GPUs of the type that were busy at one time; 0 for classes of other kinds
    ]
)
STARTED = np.dtype([("time", "f8"), ("procs", "f8"), ("limit", "f8"), ("wait", "f8")])
RECENT_STARTS = 512
RATES = ("submissions", "submitted work", "starts", "ends", "busy")
SPANS_S = (3600.0, 86400.0)
TIME, PEAK, STARTS, USED, BUSY, NUMBERS = 0, 1, 2, 3, 4, 5
"""Indices in `numbers`: time of the last event, largest number of busy processors so far, number of starts, number
of classes in use, processors busy since the last event; then rates.
"""


class WaitHistory(NamedTuple):
    """History of waits and starts: `classes` is a hash table of class records (CLASS) by key, `starts` a ring buffer of
    start records (STARTED).

    `numbers` has the 5 values with indices TIME to BUSY, then the rates listed in RATES over each time span in SPANS_S.

    >>> blank_history().numbers.shape
    (15,)
    """

    classes: np.ndarray
    starts: np.ndarray
    numbers: np.ndarray


def blank_history(size: int = 1 << 12) -> WaitHistory:
    """Return an empty history; `size` is the size of the hash table of classes, a power of two."""
    numbers = np.zeros(NUMBERS + len(RATES) * len(SPANS_S))
    numbers[TIME] = -math.inf
    return WaitHistory(np.zeros(size, CLASS), np.zeros(RECENT_STARTS, STARTED), numbers)


def with_room(lessons: WaitHistory, more: int) -> WaitHistory:
    """Return the history, with a hash table large enough for `more` events: at most half full. Amortized O(1)."""
    places = len(lessons.classes)
    needed = int(lessons.numbers[USED]) + more * len(KINDS)
    if 2 * needed <= places:
        return lessons
    while 2 * needed > places:
        places *= 2
    bigger = np.zeros(places, CLASS)
    for entry in lessons.classes[lessons.classes["key"] != 0]:
        bigger[place_of(bigger, entry["key"])] = entry
    return lessons._replace(classes=bigger)


@kernel
def place_of(classes: np.ndarray, key: int) -> int:
    """Return the index of a class in the hash table, or the free index where it belongs (linear probing)."""
    mask = np.uint64(len(classes) - 1)
    mixed = np.uint64(key) * np.uint64(11400714819323198485)
    place = (mixed >> np.uint64(24)) & mask
    while classes[place].key != 0 and classes[place].key != key:
        place = (place + np.uint64(1)) & mask
    return int(place)


@kernel
def level_of(value: float, most: int) -> int:
    """Return the size class: 1 for values up to 1, one more for each doubling; 0 if unknown."""
    if not value > 0.0:
        return 0
    return 1 + min(math.ceil(math.log2(max(value, 1.0)) - 1e-9), most - 1)


@inner
def write_keys(job: Record, keys: np.ndarray) -> None:
    """Write the positive keys (kinds,) of a job's classes; a key is 0 if the job has no class of that kind, and -1 if
    the class's name is new."""
    size = level_of(job.procs, 31)
    limit = level_of(job.limit / 60.0, 31) if job.limit < NO_LIMIT else 0
    both = 32 * size + limit
    keys[ALL] = key_of(ALL, 1, 0)
    keys[SIZE], keys[LIMIT] = key_of(SIZE, size + 1, 0), key_of(LIMIT, limit + 1, 0)
    keys[SIZE_LIMIT] = key_of(SIZE_LIMIT, 1, both)
    keys[USER], keys[USER_SIZE_LIMIT] = key_of(USER, job.user, 0), key_of(USER_SIZE_LIMIT, job.user, both)
    keys[USER_APP] = key_of(USER_APP, job.user, job.app) if job.app > 0 else 0
    keys[QUEUE], keys[QUEUE_SIZE] = key_of(QUEUE, job.queue, 0), key_of(QUEUE_SIZE, job.queue, size)
    keys[PARTITION], keys[GROUP] = key_of(PARTITION, job.partition, 0), key_of(GROUP, job.group, 0)
    keys[ACCOUNT], keys[QOS] = key_of(ACCOUNT, job.account, 0), key_of(QOS, job.qos, 0)
    keys[GPU_TYPE] = gpu_key(job.gpu_type) if job.gpus > 0.0 and job.gpu_type != 0 else 0


@inlined
def key_of(kind: int, name: int, more: int) -> int:
    """Combine a kind of class, the code of a name and a further code into one key; both codes are below 2^28."""
    if name <= 0:
        return name
    return int((np.int64(kind + 1) << 56) | (np.int64(name) << 28) | np.int64(more))


@inlined
def gpu_key(gpu_type: int) -> int:
    """Return the class key of a GPU type; 0 stands for GPUs of all types, a negative code for a new type."""
    return key_of(GPU_TYPE, gpu_type + 1 if gpu_type >= 0 else -1, 0)


@inner
def gpus_busy(m: WaitHistory, gpu_type: int, busy: float) -> None:
    """Record that `busy` GPUs of a type (0: of all types) are busy now."""
    c = entered(m, gpu_key(gpu_type))
    c.gpus = max(c.gpus, busy)


@inner
def most_gpus(m: WaitHistory, gpu_type: int) -> float:
    """Return the largest number of GPUs of a type (0: of all types) that were busy at the same time so far."""
    key = gpu_key(gpu_type)
    most: float = m.classes[place_of(m.classes, key)].gpus if key > 0 else 0.0
    return most


@inner
def wait_ended(m: WaitHistory, keys: np.ndarray, wait: float, now: float) -> None:
    """Record in every class of a job that the job left the queue after `wait` seconds."""
    value = math.log1p(wait)
    quick, instant = 1.0 if wait <= QUICK_S else 0.0, 1.0 if wait <= INSTANT_S else 0.0
    for kind in range(len(keys)):
        if keys[kind] <= 0:
            continue
        c = entered(m, keys[kind])
        c.last, c.when = value, now
        if c.fast != c.fast:
            c.fast = c.slow = value
            c.quick, c.instant = quick, instant
        else:
            c.fast += 0.25 * (value - c.fast)
            c.slow += 0.05 * (value - c.slow)
            c.quick += 0.1 * (quick - c.quick)
            c.instant += 0.1 * (instant - c.instant)


@inlined
def entered(m: WaitHistory, key: int) -> Record:
    """Return the entry of a class, created if it is new."""
    place = place_of(m.classes, key)
    if m.classes[place].key == 0:
        c = m.classes[place]
        c.key = key
        c.last = c.fast = c.slow = c.quick = c.instant = c.when = c.submitted = math.nan
        c.gpus = 0.0
        m.numbers[USED] += 1.0
    return m.classes[place]


@inner
def was_submitted(m: WaitHistory, keys: np.ndarray, now: float) -> None:
    """Record in every class of a job that the job was submitted."""
    for kind in range(len(keys)):
        if keys[kind] > 0:
            entered(m, keys[kind]).submitted = now


@inner
def was_started(m: WaitHistory, job: Record, now: float) -> None:
    """Record a job's start; the new record replaces the oldest start in the ring buffer."""
    start = m.starts[int(m.numbers[STARTS]) % len(m.starts)]
    start.time, start.procs, start.limit = now, job.procs, job.limit
    start.wait = max(now - job.submit, 0.0)
    m.numbers[STARTS] += 1.0


@inner
def time_passes(m: WaitHistory, now: float, busy: float) -> None:
    """Decay the exponentially weighted rates until `now`, and record that `busy` processors are busy from now on."""
    before = m.numbers[BUSY]
    m.numbers[BUSY] = busy
    gap = max(now - m.numbers[TIME], 0.0) if m.numbers[TIME] > -math.inf else 0.0
    m.numbers[TIME] = max(now, m.numbers[TIME])
    m.numbers[PEAK] = max(m.numbers[PEAK], busy)
    if gap <= 0.0:
        return
    for k in range(len(SPANS_S)):
        left = math.exp(-gap / SPANS_S[k])
        for rate in range(len(RATES)):
            m.numbers[NUMBERS + rate * len(SPANS_S) + k] *= left
        m.numbers[NUMBERS + 4 * len(SPANS_S) + k] += before * (1.0 - left)


@inlined
def count_in(m: WaitHistory, rate: int, amount: float) -> None:
    """Add an amount to an exponentially weighted rate."""
    for k in range(len(SPANS_S)):
        m.numbers[NUMBERS + rate * len(SPANS_S) + k] += amount


OF_CLASS = ("last wait", "mean of 4 waits", "mean of 20 waits", "share within 1 h", "share within 1 min", "since")
START_KINDS = ("as large and long", "as large", "no larger nor longer", "like", "all")
OF_START = ("since", "wait", "starts in 1 h", "starts in 1 day", "mean wait of 8")
HISTORY_NAMES = (
    *(f"{kind}: {what}" for kind in KINDS for what in OF_CLASS),
    *("user's last submission", "last submission"),
    *(f"starts {look}: {what}" for look in START_KINDS for what in OF_START),
    *(f"{rate} in {span / 3600:g} h" for rate in RATES for span in SPANS_S),
)
AT_STARTS = len(KINDS) * len(OF_CLASS) + 2
AT_RATES = AT_STARTS + len(START_KINDS) * len(OF_START)


@inner
def write_history(m: WaitHistory, job: Record, keys: np.ndarray, now: float, size: float, out: np.ndarray) -> None:
    """Write the features of past waits and starts to `out`; `keys` are the keys of the job's classes."""
    out[:] = math.nan
    for kind in range(len(keys)):
        if keys[kind] <= 0:
            continue
        c = m.classes[place_of(m.classes, keys[kind])]
        into = out[6 * kind : 6 * kind + 6]
        if c.key != 0 and c.last == c.last:
            into[0], into[1], into[2], into[3], into[4] = c.last, c.fast, c.slow, c.quick, c.instant
            into[5] = scale(now - c.when)
    for k in range(2):
        key = keys[(USER, ALL)[k]]
        if key > 0:
            c = m.classes[place_of(m.classes, key)]
            if c.key != 0:
                out[6 * len(KINDS) + k] = scale(now - c.submitted) if c.submitted == c.submitted else math.nan
    write_starts(m, job, now, out[AT_STARTS:AT_RATES])
    rates = out[AT_RATES:]
    gap = max(now - m.numbers[TIME], 0.0)
    for k in range(len(SPANS_S)):
        left = math.exp(-gap / SPANS_S[k])
        for rate in range(4):
            place = rate * len(SPANS_S) + k
            rates[place] = scale(left * m.numbers[NUMBERS + place])
        place = 4 * len(SPANS_S) + k
        busy = left * m.numbers[NUMBERS + place] + (1.0 - left) * m.numbers[BUSY]
        rates[place] = busy / size if size > 0.0 else math.nan


@inner
def write_starts(m: WaitHistory, job: Record, now: float, out: np.ndarray) -> None:
    """Write features of the latest starts of comparable jobs: time since the start, waits of the started jobs, and
    number of starts."""
    total = int(m.numbers[STARTS])
    for look in range(5):
        out[5 * look + 2] = out[5 * look + 3] = 0.0
    seen = np.int64(0)  # number of waits in each comparison's mean, four bits each
    limit = bounded(job.limit)
    for back in range(min(total, len(m.starts))):
        start = m.starts[(total - 1 - back) % len(m.starts)]
        theirs, since, wait = bounded(start.limit), max(now - start.time, 0.0), math.log1p(start.wait)
        is_large, is_small = start.procs >= job.procs, start.procs <= job.procs
        is_like = within_two(start.procs, job.procs) and within_two(theirs, limit)
        counts = (is_large and theirs >= limit, is_large, is_small and theirs <= limit, is_like)
        for look in range(5):
            if look < 4 and not counts[look]:
                continue
            into, number = out[5 * look : 5 * look + 5], (seen >> (4 * look)) & 15
            if number == 0:
                into[0], into[1], into[4] = scale(since), wait, 0.0
            if number < 8:
                into[4] = (into[4] * number + wait) / (number + 1)
                seen += np.int64(1) << (4 * look)
            into[2] += 1.0 if since <= 3600.0 else 0.0
            into[3] += 1.0 if since <= 86400.0 else 0.0


@inlined
def within_two(first: float, second: float) -> bool:
    """Return whether the two values differ at most by a factor of two."""
    return first <= 2.0 * second and second <= 2.0 * first
