"""What a job sees of the past when it is submitted: waits of its classes, the last starts, rates. Compiled."""

from __future__ import annotations

import math

import numpy as np

from ...compiled import inlined, inner
from ...compiled.arrays import Record
from .lessons import ALL, BUSY, KINDS, NUMBERS, RATES, SPANS_S, STARTS, TIME, USER, Lessons, place_of
from .see_queue import bounded, scale

OF_CLASS = ("last wait", "mean of 4 waits", "mean of 20 waits", "share within 1 h", "share within 1 min", "since")
LOOKS = ("as large and long", "as large", "no larger nor longer", "like", "all")
OF_LOOK = ("since", "wait", "starts in 1 h", "starts in 1 day", "mean wait of 8")
NAMES = (
    *(f"{kind}: {what}" for kind in KINDS for what in OF_CLASS),
    *("user's last submission", "last submission"),
    *(f"starts {look}: {what}" for look in LOOKS for what in OF_LOOK),
    *(f"{rate} in {span / 3600:g} h" for rate in RATES for span in SPANS_S),
)
AT_STARTS = len(KINDS) * len(OF_CLASS) + 2
AT_RATES = AT_STARTS + len(LOOKS) * len(OF_LOOK)


@inner
def see_past(m: Lessons, job: Record, keys: np.ndarray, now: float, size: float, out: np.ndarray) -> None:
    """Write NAMES of the past into `out`; `keys` are those of the job's classes."""
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
    see_starts(m, job, now, out[AT_STARTS:AT_RATES])
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
def see_starts(m: Lessons, job: Record, now: float, out: np.ndarray) -> None:
    """The last starts of jobs that compare with this one, newest first: when, after which wait, how many."""
    total = int(m.numbers[STARTS])
    for look in range(5):
        out[5 * look + 2] = out[5 * look + 3] = 0.0
    seen = np.int64(0)  # four bits a look: how many of its waits are in the mean
    limit = bounded(job.limit)
    for back in range(min(total, len(m.starts))):
        start = m.starts[(total - 1 - back) % len(m.starts)]
        theirs, since, wait = bounded(start.limit), max(now - start.time, 0.0), math.log1p(start.wait)
        for look in range(5):
            if look == 0:
                counts = start.procs >= job.procs and theirs >= limit
            elif look == 1:
                counts = start.procs >= job.procs
            elif look == 2:
                counts = start.procs <= job.procs and theirs <= limit
            elif look == 3:
                counts = within_two(start.procs, job.procs) and within_two(theirs, limit)
            else:
                counts = True
            if not counts:
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
def within_two(one: float, other: float) -> bool:
    """Whether neither is more than twice the other."""
    return one <= 2.0 * other and other <= 2.0 * one
