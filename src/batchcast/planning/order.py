# SPDX-License-Identifier: Apache-2.0
"""The order of waiting jobs by Slurm's SiteFactor: by predicted work; jobs that have waited longer than a given age are
ordered by arrival. Pure.

Work is run time times processors. The run time used for the order is the `ORDER_QUANTILE` of the prediction, or the
time limit itself. This quantile of the run time is far below time limits that are too long, and close to accurate time
limits (docs/evidence/order.md). Jobs are not ordered by run time alone, because a wide job at the head of Slurm's queue
leaves processors idle, so that ordering by run time loses what it gains (docs/guides/planning.md).

Within the queue (`within="queue"`) all jobs of one level have the same SiteFactor. There are 63 levels by work, five
for every factor of four in work, and one level above them for jobs that have waited longer than the age. Within an
account or a user, jobs of one QOS and partition exchange their own priorities, if the priorities differ by at most a
given range (`band`). The exchanged priorities are rounded down. Therefore a job of another account or user is not
passed by more jobs than before, and no job's priority falls by more than `band`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..errors import UsageError
from ..job import name_stem

LEVELS = 64
LEAST_WORK, STEPS = 60.0, 2.5
"""Work below LEAST_WORK (processor-seconds) is in the first level; each doubling of work is STEPS levels."""
LEAST_AGE, MOST_AGE = 3600.0, 172_800.0
HALF_LIFE = 200
"""After this many jobs have left the queue, the weight of earlier jobs has halved."""
LEAST_SHARE = 0.125
"""The run time that orders a job is at least this share of its time limit, so that a user's short jobs of the same name
help a long job only a little.

With a share of an eighth or a quarter, a user who submits short jobs to lower the predictions gains nothing
(benchmarks/planning/order_gamed.py, measured with point predictions). In the lab, both shares gave the same mean waits.
"""
MOST_OVERRUN = 0.25
"""If a larger share of a user's recent work ran longer than the run times that ordered it, time limits order the user's
jobs.

So a user who submits short jobs to lower the predictions gains from a long job only until that job has run longer than
predicted (docs/figures/order-gamed.json).
"""
OVERRUN_WINDOW = 14 * 86_400.0
"""Jobs that ended more than this many seconds ago do not count as recent work."""
OVERRUNS_EVERY_S = 1800.0
"""Interval (s) at which overruns and histories are updated. They change within hours, and each update costs a pass
over recent jobs.
"""
ORDER_QUANTILE, LENGTH_QUANTILE = 0.9, 0.8
"""Quantiles of the predicted run time: the first orders jobs, the second is the planned limit of waiting jobs."""
WITHIN = ("queue", "account", "user")


@dataclass(frozen=True, slots=True)
class OrderRule:
    """The settings for the order of waiting jobs.

    `within` says which jobs are ordered among each other. Jobs that have waited longer than `age` seconds (NaN: see
    `AgeFinder`) are ordered by arrival. `band` is the range of priorities that the order may use.

    The work of a job is its run time times its processors to the power `size`; a `size` of 0 orders by run time, 1 by
    work. The run time that orders a job is at least the share `least_share` of its time limit. If more than the share
    `most_overrun` of a user's work ran longer than the run times that ordered it, all jobs of the user are ordered by
    their time limits (1: no bound; see `overrunning`). With `own_history`, a job is ordered by its time limit until a
    job with the same user, name and command has ended (`kind_of`). Raises UsageError for an unknown word, a band below
    128, an age that is not positive, or a size or a share outside 0 to 1.

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
            raise UsageError(f"a band of {self.band} is too small for {LEVELS} levels (accepted: {2 * LEVELS} or more)")
        if self.age <= 0:
            raise UsageError(f"an age of {self.age:g} s (accepted: above 0, or none to estimate it from the queue)")
        for share, what, accepted in (
            (self.size, "a size of {:g}", "from 0, shortest first, to 1, least work first"),
            (self.least_share, "a least share of {:g} of the time limit", "from 0, no bound, to 1"),
            (self.most_overrun, "a largest overrun of {:g} of the work", "from 0 to 1, no bound"),
        ):
            if not 0 <= share <= 1:
                raise UsageError(f"{what.format(share)} (accepted: {accepted})")

    def length(self, forecast: float, limit: float) -> float:
        """Return the run time (s) that orders a job: the prediction, but at least the share `least_share` of the limit
        and at most the limit.

        A prediction of NaN (no similar job has ended) is replaced by the limit. A limit that is unknown (NaN) or
        infinite is not used as a bound. The share `least_share` protects against a predictor that has learned from too
        short jobs.

        >>> rule = OrderRule(least_share=0.25)
        >>> [rule.length(said, 7200.0) for said in (60.0, 3600.0, 9000.0, math.nan)]
        [1800.0, 3600.0, 7200.0, 7200.0]
        """
        if not limit < math.inf:
            return forecast if forecast == forecast else math.inf
        return limit if forecast != forecast else min(max(forecast, self.least_share * limit), limit)


def kind_of(user: Hashable, name: Hashable, command: Hashable) -> tuple[Hashable, ...]:
    """Return the key of a job's own history (user, name and command); ended jobs with an equal key belong to this
    history.

    Digits in the name are ignored, because predictors treat such names as equal. Digits in the command are not ignored,
    because its arguments may determine the run time.

    >>> kind_of("ada", "wing_012", "a1") == kind_of("ada", "wing_013", "a1"), kind_of("ada", "w", "a1")
    (True, ('ada', 'w', 'a1'))
    """
    return user, name_stem(name) if isinstance(name, str) else name, command


class Ran(NamedTuple):
    """Jobs that still run, or that ended within the last `OVERRUN_WINDOW` seconds, as arrays (n,).

    `user` is the user's number, `elapsed` the run time until now (s), `length` the run time that ordered the job (s),
    `limit` the time limit (s; NaN or infinity: none), and `size` the number of processors.
    """

    user: np.ndarray
    elapsed: np.ndarray
    length: np.ndarray
    limit: np.ndarray
    size: np.ndarray


def overrunning(ran: Ran, most: float) -> np.ndarray:
    """Return the numbers of users whose jobs ran too long: more than the share `most` of their work was beyond the run
    times that ordered their jobs.

    A job that was ordered by its time limit does not count, because its user gained no advantage from the job's order.
    Running jobs count with their run time so far. Therefore a user who submits short jobs to lower the predictions is
    detected while the first long job runs. O(n).

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
    """The waiting jobs, as arrays (n,); each task of a job array is a row. All times of waiting jobs are in seconds.

    Array tasks that share one record in slurmctld have the same `group`. `arrival` is the instant since which a job
    waits only for its turn (NaN: it also waits for something else, such as a dependency). `priority` includes the
    present SiteFactor `factor`; `ours` says whether batchcast has set the factor. `forecast` is the run time that
    orders the job, which is the limit if there is no prediction. Jobs with the same `party` may exchange priorities:
    jobs of one account (and user), one QOS and the same partitions.
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
    """The new SiteFactor of each waiting job (n,), and whether the job has waited longer than the age."""

    factor: np.ndarray
    aged: np.ndarray


def decide_order(queue: Queue, rule: OrderRule, now: float) -> Order:
    """Return the SiteFactor of each waiting job. Raises UsageError if `age` is NaN.

    Array tasks that share a record in slurmctld have one SiteFactor, which depends on the tasks' largest work and
    earliest arrival. If somebody else has set the SiteFactor of a record, batchcast does not change it. A job keeps its
    SiteFactor if this factor belongs to the level of jobs that have waited longer than the age. A job moves to another
    level only if its work lies more than half a level outside its present level. Equal jobs are ordered by arrival,
    then in the given order. O(n log n).

    >>> one = np.array([1.0, 1.0])
    >>> queue = Queue(np.arange(2), 9 * one, one, one, 0 * one, one > 2, np.array([7200.0, 60.0]), 0 * one)
    >>> decide_order(queue, OrderRule(age=3600.0), 10.0).factor.tolist()
    [3593, 4921]
    """
    if rule.age != rule.age:
        hint = "replace(rule, age=AgeFinder(processors).look(...))"
        raise UsageError("the age limit has not been determined yet", hint=hint)
    ours = queue.ours.astype(bool)
    work, others = queue.forecast * np.maximum(queue.size, 1.0) ** rule.size, (queue.factor != 0) & ~ours
    first, of, work, arrival, others = _by_record(queue.group, work, queue.arrival, others)
    stands = np.where(ours, queue.factor, 0)[first].astype(np.int64)
    aged = now - arrival > rule.age
    if rule.within == "queue":
        aged |= stands == rule.band
        factor = _by_level(work, stands, aged, rule.band)
    else:
        own = queue.priority[first] - queue.factor[first]
        factor = _dealt(work, arrival, own, stands, aged, np.where(others, -1, queue.party[first]), rule.band)
    whole = np.where(others[of], queue.factor, factor[of])
    return Order(whole.astype(np.int64), aged[of])


def _by_record(
    group: np.ndarray, work: np.ndarray, arrival: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray | slice, np.ndarray | slice, np.ndarray, np.ndarray, np.ndarray]:
    """Return of each record of slurmctld its first row, of each row its record, and of each record the largest work,
    the earliest arrival (infinity if unknown), and whether somebody else has set the factor of a row.
    """
    if (group[1:] > group[:-1]).all():  # no job arrays: a simulation asks so often that this test pays off
        return slice(None), slice(None), work, np.fmin(arrival, np.inf), others
    records, first, of = np.unique(group, return_index=True, return_inverse=True)
    count = len(records)
    largest, earliest, of_others = np.full(count, -np.inf), np.full(count, np.inf), np.zeros(count, bool)
    np.maximum.at(largest, of, work)
    np.fmin.at(earliest, of, arrival)
    np.logical_or.at(of_others, of, others)
    return first, of, largest, earliest, of_others


class AgeFinder:
    """Estimates the age after which arrival decides: the longest wait of a waiting job if jobs started in order of
    arrival.

    A job's wait is first estimated as the work of all waiting jobs divided by the processors, when the job was first
    seen. The estimated wait is then multiplied by the ratio of actual to estimated waits, weighted by work, of the jobs
    that have left the queue. The mean wait weighted by work does not depend on the order in which a busy machine starts
    jobs (Kleinrock, Queueing Systems 2, 1976, chapter 3), so batchcast's order does not influence the age. A new
    `AgeFinder` knows only the present queue, unless it continues from a state.

    >>> finder, again = AgeFinder(10.0), AgeFinder(10.0)
    >>> work = np.array([72_000.0]), np.array([36_000.0])
    >>> before = finder.look(["a"], np.zeros(1), work[0], 0.0)
    >>> again.restore(finder.state())
    >>> [each.look(["a"], np.zeros(1), work[1], 60.0) for each in (finder, again, AgeFinder(10.0))]
    [7200.0, 7200.0, 3600.0]
    """

    def __init__(self, processors: float) -> None:
        self.processors = processors
        self._waiting: dict[Hashable, tuple[float, float, float]] = {}
        self._waited = self._in_store = 0.0
        self._is_new = False

    def state(self) -> dict[str, Any]:
        """Return the estimates of waiting jobs and the sums over jobs that have left, as values for JSON."""
        return {"waiting": self._waiting, "waited": self._waited, "in_store": self._in_store}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned. Raises ValueError, TypeError or KeyError if the state is damaged."""
        waiting = state["waiting"].items()
        self._waiting = {str(key): (float(at), float(much), float(due)) for key, (at, much, due) in waiting}
        self._waited, self._in_store, self._is_new = float(state["waited"]), float(state["in_store"]), True

    def look(self, keys: Iterable[Hashable], arrival: np.ndarray, work: np.ndarray, now: float) -> float:
        """Return the age (s): at least an hour, at most two days; two days if `processors` are unknown.

        `keys` identify the waiting jobs. `arrival` (n,) is the instant since which a job waits only for its turn (NaN:
        it also waits for something else). `work` (n,) is predicted run time times processors. O(n).

        >>> finder = AgeFinder(10.0)
        >>> finder.look(["a"], np.zeros(1), np.array([72_000.0]), 0.0)
        7200.0
        >>> finder.look(["b"], np.array([9e3]), np.array([60_000.0]), 10_800.0)  # a was to wait 2 h and waited 3
        9000.0
        """
        if not self.processors > 0:
            return MOST_AGE
        waits = ~np.isnan(arrival)
        work = np.fmin(work, self.processors * MOST_AGE)  # the work of a job without a limit may be infinite
        store = max(min(float(work[waits].sum()) / self.processors, MOST_AGE), 1.0)
        shown = ((key, at, much) for key, at, much, here in zip(keys, arrival.tolist(), work.tolist(), waits) if here)
        seen = {key: self._waiting.get(key) or (at, much, store) for key, at, much in shown}
        left = [one for key, one in self._waiting.items() if key not in seen]
        if left and not self._is_new:  # when a job left before a restart is not known
            fades = 0.5 ** (len(left) / HALF_LIFE)
            self._waited = fades * self._waited + sum(much * (now - at) for at, much, _ in left)
            self._in_store = fades * self._in_store + sum(much * expected for _, much, expected in left)
        self._waiting, self._is_new = seen, False
        longer = max(self._waited / self._in_store, 1.0) if self._in_store > 0 else 1.0
        longest = max((expected for _, _, expected in seen.values()), default=0.0)
        return min(max(longer * longest, LEAST_AGE), MOST_AGE)


@cache
def level_factors(band: int) -> np.ndarray:
    """Return the SiteFactor of every level: `band` for level 0 (jobs that have waited longer than the age), at most
    half of `band` for other levels.

    The SiteFactors of the levels after level 0 are equally spaced. Jobs that have waited longer than the age precede
    all other jobs if the site's own priorities differ by less than half of `band`.

    >>> level_factors(10_000)[[0, 1, 63]].tolist()
    [10000, 4921, 78]
    """
    level = np.arange(LEVELS)
    return np.where(level == 0, band, band * (LEVELS - level) // (2 * LEVELS)).astype(np.int64)


def head_start(band: int, age_weight: float, max_age: float) -> float:
    """Return how many seconds longer a job of twice the work must have waited to come before a job with half its work;
    infinity if it never does.

    The levels are added to Slurm's own age priority, which is `age_weight` (PriorityWeightAge) after `max_age` seconds
    (PriorityMaxAge).

    >>> head_start(100_000, 100_000.0, 172_800.0) / 60
    56.25
    """
    longer = STEPS * band / (2 * LEVELS) * max_age / age_weight if age_weight > 0 else math.inf
    return longer if longer < max_age else math.inf


def _by_level(work: np.ndarray, stands: np.ndarray, aged: np.ndarray, band: int) -> np.ndarray:
    """Return the SiteFactor of each record by its level, or the present SiteFactor if the work lies within half a level
    of the record's present level.

    A present SiteFactor that does not belong to any level counts as missing.
    """
    exact = STEPS * np.log2(np.maximum(work, LEAST_WORK) / LEAST_WORK)
    level = np.minimum(1 + np.floor(exact), LEVELS - 1).astype(np.int64)
    ladder = level_factors(band)
    before = LEVELS - np.searchsorted(ladder[:0:-1], stands) - 1  # a higher level has a lower SiteFactor
    known = (before >= 1) & (ladder[before] == stands) & (stands > 0)
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
    """Return SiteFactors that exchange priorities within each party (jobs that may exchange priorities): first the jobs
    that have waited longer than the age, by arrival, then the other jobs, least work first.

    Priorities are exchanged only if they differ by at most `band`, so SiteFactors lie between -`band` and `band`.
    SiteFactors are rounded down to a multiple of a step, so that about 64 values are in use and jobs of other parties
    are not passed. If a SiteFactor would be too low after rounding, the step is halved. Records of
    party -1, whose SiteFactor somebody else has set, get the factor 0.
    """
    level = np.floor(STEPS * np.log2(np.maximum(work, LEAST_WORK) / LEAST_WORK))
    peers, spread = _peers(own, party, band)
    best = np.lexsort((arrival, np.where(aged, -1.0, level), peers))
    prizes = np.lexsort((arrival, -own, peers))  # a group of records has the same positions in both orders
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
    """Return group numbers (n,) of records that exchange priorities, and the widest spread of priorities in a group.

    Going down from a party's highest priority, a record whose priority is more than `band` below the group's first
    record begins a new group.
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
    """Return the step between SiteFactors: the smallest power of two, at least 1, of which at most 31 fit into the
    widest spread of priorities."""
    return float(2.0 ** max(math.ceil(math.log2(spread / 31)), 0)) if spread > 0 else 1.0
