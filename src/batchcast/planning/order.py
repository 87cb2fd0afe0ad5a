# SPDX-License-Identifier: Apache-2.0
"""The order of waiting jobs: the SiteFactor of each, by predicted work, or by arrival after an age. Pure.

Work is run time times processors. The run time is the `ORDER_QUANTILE` of the prediction, which replaces bad time
limits and is close to good ones (docs/evidence/order.md), or the time limit itself. Work decides, and not run time
alone, because under Slurm's loops a wide job at the head leaves processors idle, so shortest first loses what it gains
(docs/guides/planning.md).

Within the queue (`within="queue"`) a factor is that of a level: 63 levels by work, five for two doublings, and one
above them for jobs that have waited longer than the age. Within an account or a user, in one QOS and partition, the
jobs' own priorities are exchanged among jobs that differ by at most the band, and rounded down: no job outside is
passed by more jobs than before, and no job loses more than the band.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..errors import UsageError
from ..job import name_stem

LEVELS = 64
LEAST_WORK, STEPS = 60.0, 2.5
"""Work below this (processor-seconds) is in the first level; each doubling is this many levels."""
LEAST_AGE, MOST_AGE = 3600.0, 172_800.0
HALF_LIFE = 200
"""After this many jobs have left the queue, earlier jobs count half."""
LEAST_SHARE = 0.125
"""A job counts as at least this share of its time limit, so that short jobs under its name help a long job little.

Measured when points ordered: at an eighth and at a quarter, a user who teaches the predictor short run times gains
nothing (benchmarks/planning/order_gamed.py). In the lab the mean waits of both shares do not differ.
"""
MOST_OVERRUN = 0.25
"""A user is ordered by time limits while a larger share of the user's recent work ran past the times that ordered it.

So a user who teaches the predictor short run times gains by a long job only until that job has shown how long it runs
(docs/figures/order-gamed.json).
"""
OVERRUN_WINDOW = 14 * 86_400.0
"""Jobs that ended longer ago (s) do not count as recent work."""
OVERRUNS_EVERY_S = 1800.0
"""Overruns and histories are updated this often (s), because they take hours to build up and each update costs a pass
over recent jobs."""
ORDER_QUANTILE, LENGTH_QUANTILE = 0.9, 0.8
"""Quantiles of the predicted run time: one orders jobs, the other becomes the planned limit of waiting jobs."""
WITHIN = ("queue", "account", "user")


@dataclass(frozen=True, slots=True)
class OrderRule:
    """The rule of the order: among whom, after which age (s; NaN: see `AgeFinder`), and the band of priority.

    `size` is the power of a job's processors in its work: 0
    is shortest first, 1 least work first. `least_share` is the least share of its time limit that a job counts as.
    `most_overrun` is the share of a user's work that may run past what ordered it, before time limits order all jobs
    of the user (1: no bound; see `overrunning`). With `own_history`, a time limit orders each job until a job with the
    same user, name and command has ended (`kind_of`). Raises UsageError for an unknown word, a band below 128, an age
    that is not positive, or a size or a share outside 0 to 1.

    >>> OrderRule(within="everybody")
    Traceback (most recent call last):
    batchcast.errors.UsageError: within = 'everybody' (accepted: queue, account, user)
    """

    within: str = "queue"
    age: float = math.nan
    band: int = 10_000
    size: float = 1.0
    least_share: float = LEAST_SHARE
    most_overrun: float = MOST_OVERRUN
    own_history: bool = True

    def __post_init__(self) -> None:
        if self.within not in WITHIN:
            raise UsageError(f"within = {self.within!r} (accepted: {', '.join(WITHIN)})")
        if self.band < 2 * LEVELS:
            raise UsageError(f"a band of {self.band} has no room for {LEVELS} levels (accepted: {2 * LEVELS} and more)")
        if self.age <= 0:
            raise UsageError(f"an age of {self.age:g} s (accepted: above 0, or none: found from the queue)")
        if not 0 <= self.size <= 1:
            raise UsageError(f"a size of {self.size:g} (accepted: 0, shortest first, to 1, least work first)")
        if not 0 <= self.least_share <= 1:
            raise UsageError(f"a least share of {self.least_share:g} of the limit (accepted: 0, no bound, to 1)")
        if not 0 <= self.most_overrun <= 1:
            raise UsageError(f"a most overrun of {self.most_overrun:g} of the work (accepted: 0 to 1, no bound)")

    def length(self, forecast: float, limit: float) -> float:
        """Return the run time (s) that orders a job: its prediction, between the least share of its limit and its
        limit.

        A prediction of NaN (no similar job has ended) becomes the limit. A limit that is unknown (NaN) or infinite
        bounds nothing. So a job never counts as less than this share of its limit, whatever the predictor was taught.

        >>> rule = OrderRule(least_share=0.25)
        >>> [rule.length(said, 7200.0) for said in (60.0, 3600.0, 9000.0, math.nan)]
        [1800.0, 3600.0, 7200.0, 7200.0]
        """
        if not limit < math.inf:
            return forecast if forecast == forecast else math.inf
        return limit if forecast != forecast else min(max(forecast, self.least_share * limit), limit)


def kind_of(user: Hashable, name: Hashable, command: Hashable) -> tuple[Hashable, ...]:
    """Return the key by which an ended job counts as another job's own history: user, name and command.

    Digits in the name do not count, because predictions count such names as equal. Digits in the command count, because
    its arguments may determine the run time.

    >>> kind_of("ada", "wing_012", "a1") == kind_of("ada", "wing_013", "a1"), kind_of("ada", "w", "a1")
    (True, ('ada', 'w', 'a1'))
    """
    return user, name_stem(name) if isinstance(name, str) else name, command


class Ran(NamedTuple):
    """Jobs that have started and ended at most `OVERRUN_WINDOW` ago or still run, arrays (n,).

    `user` is a number for each user, `elapsed` how long a job ran until now (s), `length` the run time that ordered it
    (s), `limit` its time limit (s; NaN or infinity: none), `size` its processors.
    """

    user: np.ndarray
    elapsed: np.ndarray
    length: np.ndarray
    limit: np.ndarray
    size: np.ndarray


def overrunning(ran: Ran, most: float) -> np.ndarray:
    """Return the numbers of users of whom more than the share `most` of the work ran past the run times that ordered
    it.

    A job that was ordered by its time limit cannot run past it, and its user gained nothing. Running jobs count with
    their time so far, so a user who taught the predictor short run times is detected while the first long job runs.
    O(n).

    >>> two = np.array([0, 1])
    >>> ran = Ran(two, np.array([7200.0, 7200.0]), np.array([600.0, 6900.0]), np.full(2, 28_800.0), np.ones(2))
    >>> overrunning(ran, 0.25)
    array([0])
    """
    users = int(ran.user.max(initial=-1)) + 1
    past = np.where(ran.length < np.where(np.isnan(ran.limit), np.inf, ran.limit), ran.elapsed - ran.length, 0.0)
    over = np.bincount(ran.user, np.maximum(past, 0.0) * ran.size, users)
    found: np.ndarray = np.flatnonzero(over > most * np.bincount(ran.user, ran.elapsed * ran.size, users))
    return found


class Queue(NamedTuple):
    """The waiting jobs as seen, arrays (n,). Seconds; a task of an array is a row.

    `group` is one number for tasks that share a record in slurmctld. `arrival` is since when only the queue holds a job
    (NaN: something else does). `priority` includes the present `factor`; `ours` says whether batchcast has set the
    factor. `forecast` is the run time that orders the job, the limit without a prediction. `party` numbers jobs that
    may change places within an account or a user: one account (and user), one QOS, the same partitions.
    """

    group: np.ndarray
    arrival: np.ndarray
    size: np.ndarray
    priority: np.ndarray
    factor: np.ndarray
    ours: np.ndarray
    forecast: np.ndarray
    party: np.ndarray


class Order(NamedTuple):
    """The factor that each row should have (n,), and whether it is past the age."""

    factor: np.ndarray
    aged: np.ndarray


def decide_order(queue: Queue, rule: OrderRule, now: float) -> Order:
    """Return the factor of each waiting job. Raises UsageError if the rule's age is still to be found.

    Tasks of one record have one factor, by their most work and first arrival. A record with somebody else's factor
    keeps it. A job past the age stays so. A level changes only if the work is half a level beyond it. Equal jobs are
    ordered by arrival, then in the given order. O(n log n).

    >>> one = np.array([1.0, 1.0])
    >>> queue = Queue(np.arange(2), 9 * one, one, one, 0 * one, one > 2, np.array([7200.0, 60.0]), 0 * one)
    >>> decide_order(queue, OrderRule(age=3600.0), 10.0).factor.tolist()
    [3593, 4921]
    """
    if rule.age != rule.age:
        raise UsageError(
            "the age limit has not been determined yet", hint="replace(rule, age=AgeFinder(processors).look(...))"
        )
    groups, first, of = np.unique(queue.group, return_index=True, return_inverse=True)
    count = len(groups)
    work, arrival = np.full(count, -np.inf), np.full(count, np.inf)
    np.maximum.at(work, of, queue.forecast * np.maximum(queue.size, 1.0) ** rule.size)
    np.fmin.at(arrival, of, queue.arrival)
    others = np.zeros(count, bool)
    np.logical_or.at(others, of, (queue.factor != 0) & ~queue.ours.astype(bool))
    stands = np.where(queue.ours.astype(bool), queue.factor, 0)[first].astype(np.int64)
    aged = now - arrival > rule.age
    if rule.within == "queue":
        aged |= stands == rule.band
        factor = _by_level(work, stands, aged, rule.band)
    else:
        own = queue.priority[first] - queue.factor[first]
        factor = _dealt(work, arrival, own, stands, aged, np.where(others, -1, queue.party[first]), rule.band)
    whole = np.where(others[of], queue.factor, factor[of])
    return Order(whole.astype(np.int64), aged[of])


class AgeFinder:
    """Finds the age after which arrival decides: the longest wait that a waiting job would have in order of arrival.

    This wait is estimated as the time for which the queue kept the machine busy when the job was first seen, times the
    ratio by which such waits turned out longer for jobs that have left the queue since, weighted by work. That mean
    does not depend on the order in which a busy machine takes jobs (Kleinrock, Queueing Systems 2, 1976, chapter 3), so
    the order cannot change its own age. Nothing is stored: a new finder begins with the present queue.
    """

    def __init__(self, processors: float) -> None:
        self.processors = processors
        self._seen: dict[Hashable, tuple[float, float, float]] = {}
        self._waited = self._in_store = 0.0

    def look(self, keys: Iterable[Hashable], arrival: np.ndarray, work: np.ndarray, now: float) -> float:
        """Return the age (s): at least an hour, at most two days; two days if `processors` are unknown.

        `keys` name the waiting jobs, `arrival` (n,) is since when only the queue holds each (NaN: something else does),
        `work` (n,) is predicted run time times processors. O(n).

        >>> finder = AgeFinder(10.0)
        >>> finder.look(["a"], np.zeros(1), np.array([72_000.0]), 0.0)
        7200.0
        >>> finder.look(["b"], np.array([9e3]), np.array([60_000.0]), 10_800.0)  # a was to wait 2 h and waited 3
        9000.0
        """
        if not self.processors > 0:
            return MOST_AGE
        waits = ~np.isnan(arrival)
        work = np.fmin(work, self.processors * MOST_AGE)  # a job without a limit may have infinite work
        store = max(min(float(work[waits].sum()) / self.processors, MOST_AGE), 1.0)
        shown = ((key, at, much) for key, at, much, here in zip(keys, arrival.tolist(), work.tolist(), waits) if here)
        seen = {key: self._seen.get(key) or (at, much, store) for key, at, much in shown}
        left = [one for key, one in self._seen.items() if key not in seen]
        if left:
            fades = 0.5 ** (len(left) / HALF_LIFE)
            self._waited = fades * self._waited + sum(much * (now - at) for at, much, _ in left)
            self._in_store = fades * self._in_store + sum(much * expected for _, much, expected in left)
        self._seen = seen
        longer = max(self._waited / self._in_store, 1.0) if self._in_store > 0 else 1.0
        longest = max((expected for _, _, expected in seen.values()), default=0.0)
        return min(max(longer * longest, LEAST_AGE), MOST_AGE)


def factor_of(level: int | np.ndarray, band: int) -> np.ndarray:
    """Return the factor of a level: level 0, past the age, has the whole band, the others evenly at most half.

    So arrival decides after the age if the site's own priorities differ by less than half the band.

    >>> factor_of(np.array([0, 1, 63]), 10_000).tolist()
    [10000, 4921, 78]
    """
    level = np.asarray(level)
    return np.where(level == 0, band, band * (LEVELS - level) // (2 * LEVELS)).astype(np.int64)


def head_start(band: int, age_weight: float, max_age: float) -> float:
    """Return how much longer (s) a job of twice the work must have waited to come first; infinity: never.

    Slurm's own weight of age (PriorityWeightAge, reached after PriorityMaxAge, s) counts besides the levels.

    >>> head_start(100_000, 100_000.0, 172_800.0) / 60
    56.25
    """
    longer = STEPS * band / (2 * LEVELS) * max_age / age_weight if age_weight > 0 else math.inf
    return longer if longer < max_age else math.inf


def _by_level(work: np.ndarray, stands: np.ndarray, aged: np.ndarray, band: int) -> np.ndarray:
    """Return the factor of each record by its level; the present factor if the work moved by less than half a level.

    A factor outside this band's levels counts as none.
    """
    exact = STEPS * np.log2(np.maximum(work, LEAST_WORK) / LEAST_WORK)
    level = np.minimum(1 + np.floor(exact), LEVELS - 1).astype(np.int64)
    ladder = factor_of(np.arange(LEVELS), band)
    before = LEVELS - np.searchsorted(ladder[:0:-1], stands) - 1  # the ladder of factors falls
    known = (before >= 1) & (ladder[np.clip(before, 0, LEVELS - 1)] == stands) & (stands > 0)
    beyond = np.where(before == LEVELS - 1, np.inf, before + 0.5)
    keeps = known & (exact >= before - 1.5) & (exact < beyond)
    return ladder[np.where(aged, 0, np.where(keeps, before, level))]


def _dealt(
    work: np.ndarray,
    arrival: np.ndarray,
    own: np.ndarray,
    stands: np.ndarray,
    aged: np.ndarray,
    party: np.ndarray,
    band: int,
) -> np.ndarray:
    """Return factors that exchange each party's own priorities: past the age by arrival, then least work first.

    Priorities are exchanged only among records that differ by at most the band, so factors lie between -band and band.
    Each is rounded down to a step, so that about 64 factors are in use and no other party is passed; the step is halved
    if it would round too low. Party -1 gets no factor.
    """
    level = np.floor(STEPS * np.log2(np.maximum(work, LEAST_WORK) / LEAST_WORK))
    peers, spread = _peers(own, party, band)
    best = np.lexsort((arrival, np.where(aged, -1.0, level), peers))
    prizes = np.lexsort((arrival, -own, peers))  # peers have the same positions in both orders
    due = np.zeros(len(own))
    due[best] = own[prizes] - own[best]
    due = np.where(party == -1, 0.0, due)
    least = np.maximum(-float(band), 1.0 - own)  # Slurm raises lower priorities to 1
    step = finer = _step(spread)
    factor = np.floor(due / step) * step
    while (low := factor < np.minimum(least, due)).any():
        finer /= 2
        factor[low] = np.floor(due[low] / finer) * finer
    keeps = (stands <= due) & (stands > due - 2 * step) & (stands >= least)
    return np.floor(np.where(keeps, stands, factor)).astype(np.int64)


def _peers(own: np.ndarray, party: np.ndarray, band: int) -> tuple[np.ndarray, float]:
    """Return numbers (n,) of the records that exchange priorities, and the widest spread in one number.

    From a party's highest priority down, a record more than the band below the first record begins a new number.
    """
    ranked = np.lexsort((-own, party))
    peers, number, top, of, spread = np.empty(len(own), np.int64), -1, 0.0, None, 0.0
    for row, mine, whose in zip(ranked.tolist(), own[ranked].tolist(), party[ranked].tolist()):
        if whose != of or mine < top - band:
            number, top, of = number + 1, mine, whose
        peers[row] = number
        if whose != -1:
            spread = max(spread, top - mine)
    return peers, spread


def _step(spread: float) -> float:
    """Return a power of two, at least 1, of which the widest spread of priorities contains at most 31."""
    return float(2.0 ** max(math.ceil(math.log2(spread / 31)), 0)) if spread > 0 else 1.0
