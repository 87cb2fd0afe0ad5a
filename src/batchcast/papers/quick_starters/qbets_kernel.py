# SPDX-License-Identifier: Apache-2.0
"""`qbets` over a whole log at once, compiled; it stops for each clustering.

The bookkeeping is that of `qbets`, event by event: the same waits in the same order, so the same sums to the bit.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...compiled import by_address, inlined, inner, kernel
from ...compiled.arrays import Record
from ...events.event import SUBMIT
from ...events.kernel import apply_event, jobs_of, queue_of
from ...predict.wait.groups import NO_CLASS, guessed, learned

COUNT, MISSES, FIRST = range(3)  # waits in a history, misses in a row, where its oldest stands
SUM, SQUARES, PRODUCTS = range(3)  # of log waits, and of each with the next
EVENT, SUBMITTED, LEARNED, CLUSTERED = range(4)  # how far the log is, and at which submission shapes were clustered


@by_address
class Waits(NamedTuple):
    """The waits learned, in order, and the histories of them: one a cluster, and after these one of all jobs."""

    job: np.ndarray  # (n,) whose wait it is
    kept: np.ndarray  # (n,) until a change point or the history's length forgets it
    wait: np.ndarray  # (n,) by job, as it teaches
    log: np.ndarray  # (n,) by job
    cluster: np.ndarray  # (n,) by job
    issued: np.ndarray  # (n,) by job, the bound at its submission
    recent: np.ndarray  # (histories, n) places in `job`, oldest first from FIRST on
    ordered: np.ndarray  # (histories, n) waits, ascending
    state: np.ndarray  # (histories, 3) COUNT, MISSES, FIRST
    sums: np.ndarray  # (histories, 3) SUM, SQUARES, PRODUCTS


class Terms(NamedTuple):
    """What does not change: `binomial_ranks`, the longest runs of misses by chance, and the method's settings."""

    rank: np.ndarray
    runs: np.ndarray
    need: int
    keep: int
    recluster: int
    left_teach: bool


def waits_of(wait: np.ndarray, log: np.ndarray, clusters: int) -> Waits:
    """Nothing learned yet, room for every wait (n,) of a log; pages are taken as they are written."""
    n, histories = len(wait), clusters + 1
    return Waits(
        job=np.zeros(n, np.int64),
        kept=np.ones(n, np.bool_),
        wait=wait,
        log=log,
        cluster=np.zeros(n, np.int64),
        issued=np.full(n, np.inf),
        recent=np.zeros((histories, n), np.int64),
        ordered=np.zeros((histories, n)),
        state=np.zeros((histories, 3), np.int64),
        sums=np.zeros((histories, 3)),
    )


def refill(w: Waits, live: np.ndarray) -> None:
    """Fill each cluster's history anew with those of the waits `live`, places in order, that are its own."""
    own = w.cluster[w.job[live]]
    for g in range(len(w.state) - 1):
        entries = live[own == g]
        n, jobs = len(entries), w.job[entries]
        x, w.state[g], w.sums[g] = w.log[jobs], (n, 0, 0), 0.0
        w.recent[g, :n], w.ordered[g, :n] = entries, np.sort(w.wait[jobs])
        for k, terms in enumerate((x, x * x, x[1:] * x[:-1])):  # one after the other, as `learn` adds them
            w.sums[g, k] = np.add.accumulate(terms)[-1] if len(terms) else 0.0


@kernel
def binomial_ranks(q: float, c: float, rank: np.ndarray) -> None:
    """The smallest k with P(Bin(n, q) < k) >= c into rank[n], n + 1 where there is none; for all n at once.

    What the k-th smallest of n waits bounds: Brevik, Nurmi & Wolski, PPoPP 2006, section 3. The misses above it are
    Bin(n, 1 - q); `below` is the chance of at most `most` of them, `exactly` of just as many, carried from n to n + 1.
    """
    most, below, exactly = 0, 1.0, 1.0
    limit = (1.0 - c) * (1.0 + 1e-12)
    for n in range(len(rank)):
        if n > 0:
            below -= (1.0 - q) * exactly
            exactly *= n * q / (n - most)
        while below <= limit:
            exactly *= (n - most) / (most + 1.0) * ((1.0 - q) / q)
            most += 1
            below += exactly
        rank[n] = n + 1 - most


def binomial_rank(n: int, q: float, c: float) -> int:
    """The smallest k with P(Bin(n, q) < k) >= c: the k-th smallest of n bounds the q-quantile with confidence c.

    n + 1 when no order statistic does. Source: Brevik, Nurmi & Wolski, "Predicting bounds on queuing delay", PPoPP
    2006, section 3.

    >>> binomial_rank(59, 0.95, 0.95), binomial_rank(58, 0.95, 0.95), binomial_rank(1000, 0.95, 0.95)
    (59, 59, 962)
    """
    return int(ranks(q, c, n.bit_length())[n])


@lru_cache(maxsize=64)
def ranks(q: float, c: float, bits: int) -> np.ndarray:
    """`binomial_rank` of every n below 2 to the power of `bits`."""
    rank = np.empty(1 << bits, np.int64)
    binomial_ranks(q, c, rank)
    return rank


@lru_cache(maxsize=64)
def shortest_history(q: float, c: float) -> int:
    """The fewest waits from which an order statistic bounds the q-quantile with confidence c: 59 for .95/.95.

    >>> shortest_history(0.95, 0.95)
    59
    """
    return math.ceil(math.log(1.0 - c) / math.log(q))


@inlined
def place_of(values: np.ndarray, count: int, value: float) -> int:
    """How many of the ascending values are not above this one."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if value < values[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@inner
def drop_oldest(w: Waits, g: int, marks: bool) -> None:
    """A history forgets its oldest wait; `marks`: for good."""
    of, sums, values = w.state[g], w.sums[g], w.ordered[g]
    at = w.recent[g, of[FIRST]]
    if marks:
        w.kept[at] = False
    place = place_of(values, of[COUNT], w.wait[w.job[at]]) - 1
    of[COUNT] -= 1
    of[FIRST] += 1
    for k in range(place, of[COUNT]):
        values[k] = values[k + 1]
    x = w.log[w.job[at]]
    sums[SUM] -= x
    sums[SQUARES] -= x * x
    if of[COUNT] > 0:
        sums[PRODUCTS] -= x * w.log[w.job[w.recent[g, of[FIRST]]]]


@inner
def take_in(w: Waits, g: int, at: int) -> None:
    """A history takes in the wait at a place of `job`."""
    of, sums, values = w.state[g], w.sums[g], w.ordered[g]
    wait, x, end = w.wait[w.job[at]], w.log[w.job[at]], of[FIRST] + of[COUNT]
    if of[COUNT] > 0:
        sums[PRODUCTS] += x * w.log[w.job[w.recent[g, end - 1]]]
    sums[SUM] += x
    sums[SQUARES] += x * x
    w.recent[g, end] = at
    place = place_of(values, of[COUNT], wait)
    for k in range(of[COUNT], place, -1):
        values[k] = values[k - 1]
    values[place] = wait
    of[COUNT] += 1


@inlined
def autocorrelation(w: Waits, g: int) -> float:
    """Lag-1 autocorrelation of a history's log waits, 0 to 0.9."""
    n, sums = w.state[g, COUNT], w.sums[g]
    mean = sums[SUM] / n
    variance = sums[SQUARES] / n - mean * mean
    if n < 3 or variance <= 1e-12:
        return 0.0
    of_lags: float = min(max((sums[PRODUCTS] / (n - 1) - mean * mean) / variance, 0.0), 0.9)
    return of_lags


@inner
def learn(w: Waits, t: Terms, g: int, at: int, marks: bool) -> None:
    """A history learns a wait, and is cut where a run of misses is longer than chance explains."""
    of = w.state[g]
    of[MISSES] = of[MISSES] + 1 if w.wait[w.job[at]] > w.issued[w.job[at]] else 0
    take_in(w, g, at)
    if 0 < t.keep < of[COUNT]:
        drop_oldest(w, g, marks)
    if of[MISSES] >= t.runs[0] and of[COUNT] > t.need and of[MISSES] >= t.runs[round(autocorrelation(w, g) * 10)]:
        while of[COUNT] > t.need:
            drop_oldest(w, g, marks)
        of[MISSES] = 0


@inner
def bound_of(s: Record, w: Waits, t: Terms, g: int, now: float) -> float:
    """A history's bound; queued jobs of its kind that already waited beyond it count as longer waits."""
    n, values, everyone = w.state[g, COUNT], w.ordered[g], len(w.state) - 1
    bound: float = values[min(t.rank[n], n) - 1]
    jobs, queue = jobs_of(s), queue_of(s)
    longer, oldest = 0, np.inf
    for k in range(s.queue_first, s.queue_end):
        job = queue[k]
        if not jobs[job].submit < now - bound:
            break
        if g == everyone or w.cluster[job] == g:
            longer += 1
            oldest = min(oldest, jobs[job].submit)
    if longer == 0:
        return bound
    rank = t.rank[n + longer]
    return values[rank - 1] if rank <= n else max(values[n - 1], now - oldest)  # type: ignore[no-any-return]


@inlined
def oldest_of(s: Record, w: Waits, g: int, now: float) -> float:
    """The longest wait so far among a cluster's queued jobs, 0 when none is queued."""
    jobs, queue, longest = jobs_of(s), queue_of(s), 0.0
    for k in range(s.queue_first, s.queue_end):
        if w.cluster[queue[k]] == g:
            longest = now - jobs[queue[k]].submit
            break
    return longest


@inner
def answer(s: Record, w: Waits, t: Terms, i: int, now: float, procs: float, out: np.ndarray, said: np.ndarray) -> None:
    """Median and bound of a job submitted now into `out`, how many waits answer and which history into `said`."""
    everyone = len(w.state) - 1
    g = w.cluster[i] if w.state[w.cluster[i], COUNT] >= t.need else everyone
    n = w.state[g, COUNT]
    said[0], said[1] = n, g
    if n == 0:
        said[1] = NO_CLASS
        out[:] = guessed(s, procs, now, oldest_of(s, w, 0, now))
        return
    out[1] = w.issued[i] = bound_of(s, w, t, g, now)
    rank = max(1, int(np.ceil(0.5 * n)))
    out[0] = min(w.ordered[g, min(rank, n) - 1], out[1])


@kernel
def follow(
    state: np.ndarray, requests: np.ndarray, events: np.ndarray, procs: np.ndarray, w: Waits, t: Terms, at: np.ndarray,
    out: np.ndarray, said: np.ndarray,
) -> bool:  # fmt: skip
    """The log from `at` on, up to the next clustering; whether one is due. Every job is answered."""
    s, everyone = state[0], len(w.state) - 1
    while at[EVENT] < len(events):
        event = events[at[EVENT]]
        i = event.entry
        if event.rank == SUBMIT:
            if at[SUBMITTED] % t.recluster == 0 and at[SUBMITTED] != at[CLUSTERED]:
                return True
            answer(s, w, t, i, event.time, procs[i], out[i], said[i])
            at[SUBMITTED] += 1
        apply_event(s, requests, event)
        if learned(s, i, t.left_teach):
            k = at[LEARNED]
            w.job[k] = i
            at[LEARNED] += 1
            learn(w, t, w.cluster[i], k, True)
            learn(w, t, everyone, k, False)
        at[EVENT] += 1
    return False
