# SPDX-License-Identifier: Apache-2.0
"""Learns the queue order from pairs of jobs: weights of age, size, past use and class of a job.

A pair is two jobs of different users that had each waited for ten minutes when one of them (the winner) started. There
was room for either job, and their sizes and limits differ by less than a factor of two. The method counts by which
properties winners exceeded losers. Each pair of users counts once a day, so that a burst of jobs does not decide.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...machines.machine import Association, Machine, Qos
from .caps import PATIENCE_S, Queue, held_at

SIZE, USE = "size", "past use"
WORTH_S = tuple(days * 86400.0 for days in (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0))
HALF_LIVES_S = (86400.0, 7 * 86400.0, 30 * 86400.0)
MAX_AGE_DAYS = 128
ROOT = "root"
MOST_RATIO = 2.0  # maximum ratio between the sizes, and between the time limits, of a pair of jobs
LOSERS = 20  # maximum number of pairs per start; the losers are evenly spread over the queue
LEAST_GAIN = 0.01  # minimum share of the pairs that a factor must correct
SURE = 4.0  # minimum gain of a factor in standard errors over pairs of users
LEAST_PAIRS, LEAST_PEOPLE = 100, 10
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor of the queue order: the waiting time (s) that has the same weight as the factor's maximum, and its
    evidence.

    `name` is size, past use or a class. Of the pairs whose predicted order the factor changes, `pairs` started as
    predicted and `against` did not; `users` is the number of users whose jobs won the `pairs`.
    """

    name: str
    worth: float
    pairs: int
    against: int
    users: int


@dataclass(frozen=True, slots=True)
class Order:
    """The factors of a queue order besides waiting time; without factors the order is first come, first served.

    `half_life` is the half-life of past use (s). The learned order predicts a fraction `right` of the `pairs`
    correctly; arrival order predicts a fraction `first_come`.
    """

    factors: tuple[Factor, ...]
    half_life: float
    pairs: int
    right: float
    first_come: float


def learn_order(queue: Queue, users: np.ndarray, classes: np.ndarray, names: Sequence[str]) -> Order:
    """Learn the queue order that a log's pairs of comparable jobs support."""
    # `queue.submit` is when a job became eligible. Jobs of unknown users (-1) are in no pair.
    #
    # The priority is the waiting time plus the sum of each factor times a worth from `WORTH_S`. The factors are the
    # size as a share of the capacity, the rank by decayed past use, and each class. The method chooses the factor and
    # worth that predict most pairs correctly, then the next factor, as long as a further factor corrects one per cent
    # more of the pairs, its gain exceeds `SURE` standard errors over pairs of users, and ten users support it. Because
    # each pair of users counts once a day, a job that waited for weeks for unknown reasons has little influence. The
    # half-life of past use is the best of three candidates. Learning takes O(n log n) time and examines twenty pairs
    # per start.
    winner, loser = find_pairs(queue, users)
    if len(winner) < LEAST_PAIRS:
        return Order((), HALF_LIVES_S[1], len(winner), math.nan, math.nan)
    votes = _Votes(queue, users, winner, loser)
    size = (queue.size[winner] - queue.size[loser]) / queue.capacity
    kinds = {
        str(names[k]): (classes[winner] == k) * 1.0 - (classes[loser] == k) for k in np.unique(classes[classes >= 0])
    }
    age = queue.submit[loser] - queue.submit[winner]
    best: Order | None = None
    for half_life in HALF_LIVES_S:
        use = past_use(queue, users, queue.start[winner], users[winner], users[loser], half_life)
        factors, right = votes.choose(age, {SIZE: size, USE: use, **kinds})
        if best is None or right > best.right:
            best = Order(factors, half_life, len(winner), right, votes.share(age))
    assert best is not None
    return best


class _Votes:
    """The weights of the job pairs (m,), chosen so that each pair of users counts once a day; and each job pair's users
    and winner."""

    def __init__(self, queue: Queue, users: np.ndarray, winner: np.ndarray, loser: np.ndarray) -> None:
        day = (queue.start[winner] // 86400.0).astype(np.int64)
        cells = np.stack([np.minimum(users[winner], users[loser]), np.maximum(users[winner], users[loser]), day])
        _, cell, often = np.unique(cells, axis=1, return_inverse=True, return_counts=True)
        self.people = np.unique(cells[:2], axis=1, return_inverse=True)[1].ravel()
        self.weight, self.winners = 1.0 / often[cell.ravel()], users[winner]

    def share(self, margin: np.ndarray) -> float:
        """Return the weighted share of job pairs for which the winner's margin predicts which job started first."""
        return float((self.weight * _right(margin)).sum() / self.weight.sum())

    def choose(self, age: np.ndarray, factors: Mapping[str, np.ndarray]) -> tuple[tuple[Factor, ...], float]:
        """Choose factors one by one, best first; return them, and the share of pairs that they predict correctly."""
        chosen: list[Factor] = []
        margin = age
        while True:
            rest = {name: more for name, more in factors.items() if name not in {f.name for f in chosen}}
            tried = [
                (self.share(margin + worth * more), -worth, name) for name, more in rest.items() for worth in WORTH_S
            ]
            if not tried:
                break
            right, worth, name = max(tried)
            found = self.factor(name, -worth, margin, margin - worth * factors[name])
            if right < self.share(margin) + LEAST_GAIN or found is None:
                break
            chosen.append(found)
            margin = margin - worth * factors[name]
        return tuple(chosen), self.share(margin)

    def factor(self, name: str, worth: float, before: np.ndarray, after: np.ndarray) -> Factor | None:
        """Return the factor with its evidence; None if its gain could be chance or too few users support the factor."""
        gain = _right(after) - _right(before)
        by_people = np.bincount(self.people, self.weight * gain)
        sure = by_people.sum() >= SURE * np.sqrt((by_people**2).sum())
        users = len(np.unique(self.winners[gain > 0]))
        if not sure or users < LEAST_PEOPLE:
            return None
        return Factor(name, worth, int((gain > 0).sum()), int((gain < 0).sum()), users)


def _right(margin: np.ndarray) -> np.ndarray:
    """Return 1 if the predicted order puts the winner first, 0.5 if the predicted order is a tie, else 0."""
    return np.asarray(0.5 + 0.5 * np.sign(margin))


def find_pairs(queue: Queue, users: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of winners (jobs that started) and of losers (comparable jobs that waited although they fit)."""
    order = np.argsort(queue.submit, kind="stable")
    submits, latest = queue.submit[order], np.maximum.accumulate(queue.start[order])
    asked = np.flatnonzero((users >= 0) & (queue.start - queue.submit >= PATIENCE_S))
    low = np.searchsorted(latest, queue.start[asked], side="right")
    high = np.searchsorted(submits, queue.start[asked] - PATIENCE_S, side="right")
    free = queue.capacity - held_at(queue.start, queue.end, queue.size, queue.start[asked])
    winners, losers = [], []
    for row, begin, end, room in zip(asked.tolist(), low.tolist(), high.tolist(), free.tolist(), strict=True):
        other = order[begin:end]
        other = other[queue.start[other] > queue.start[row] + PATIENCE_S / 10]
        size, limit = queue.size[other] / queue.size[row], queue.limit[other] / queue.limit[row]
        alike = (size <= MOST_RATIO) & (size >= 1 / MOST_RATIO) & ~(limit > MOST_RATIO) & ~(limit < 1 / MOST_RATIO)
        alike &= (users[other] >= 0) & (users[other] != users[row]) & (queue.size[other] <= room + queue.size[row])
        other = other[alike]
        other = other[:: max(len(other) // LOSERS, 1)][:LOSERS]
        winners.append(np.full(len(other), row))
        losers.append(other)
    return np.concatenate([*winners, []]).astype(np.int64), np.concatenate([*losers, []]).astype(np.int64)


def past_use(
    queue: Queue, users: np.ndarray, when: np.ndarray, first_user: np.ndarray, second_user: np.ndarray, half_life: float
) -> np.ndarray:
    """Return the difference in (-1, 1) of the ranks of users `first_user` and `second_user`, ranked by decayed past
    use, least use first.

    A job's processor time counts as past use from the job's end on; ranks are updated every hour.
    """
    count = int(users.max(initial=0)) + 1
    hours = (when // HOUR_S).astype(np.int64)
    first = int(queue.start.min() // HOUR_S)
    wanted, place = np.unique(hours, return_inverse=True)
    ended = np.argsort(queue.end, kind="stable")
    ended = ended[users[ended] >= 0]
    done = (queue.end[ended] // HOUR_S).astype(np.int64)
    work = queue.size[ended] * (queue.end - queue.start)[ended]
    use, at, ranks, last = np.zeros(count), first, np.empty((len(wanted), count)), 0
    for k, hour in enumerate(wanted.tolist()):
        upto = int(np.searchsorted(done, hour, side="left"))
        use *= 0.5 ** ((hour - at) * HOUR_S / half_life)
        lately = work[last:upto] * 0.5 ** ((hour - done[last:upto]) * HOUR_S / half_life)
        use += np.bincount(users[ended[last:upto]], lately, count)
        at, last = hour, upto
        ranks[k] = np.searchsorted(np.sort(-use), -use, side="right") / count
    return np.asarray(ranks[place, first_user] - ranks[place, second_user])


def siblings(people: Sequence[tuple[str, str]]) -> tuple[Association, ...]:
    """Return associations of all accounts and users, with equal shares."""
    return (Association(ROOT), *(Association(account, user, ROOT) for account, user in people))


def with_order(machine: Machine, order: Order, by: str, people: Sequence[tuple[str, str]]) -> Machine:
    """Return the machine with the order as Slurm's multifactor priority, in which a weight of 1 is a second of waiting.

    `by` is the log's column with the classes: `partition_id`, or a column whose names become QOS. `people` are
    (account, user) pairs.
    """
    worth = {factor.name: factor.worth for factor in order.factors}
    words = {
        "PriorityType": "priority/multifactor",
        "PriorityMaxAge": f"{MAX_AGE_DAYS}-00:00:00",
        "PriorityWeightAge": f"{MAX_AGE_DAYS * 86400}",
    }
    if SIZE in worth:
        words["PriorityWeightJobSize"] = f"{worth.pop(SIZE):.0f}"
    if USE in worth:
        half_life = f"{order.half_life / 86400.0:.0f}-00:00:00"
        words |= {"PriorityWeightFairShare": f"{worth.pop(USE):.0f}", "PriorityDecayHalfLife": half_life}
        words["PriorityCalcPeriod"] = "01:00:00"
        machine = replace(machine, associations=siblings(people))
    most = f"{max(worth.values(), default=0.0):.0f}"
    if worth and by == "partition_id":
        words["PriorityWeightPartition"] = most
        factors = (replace(p, priority_job_factor=int(worth.get(p.name, 0.0))) for p in machine.partitions)
        machine = replace(machine, partitions=tuple(factors))
    elif worth:
        words["PriorityWeightQOS"] = most
        known = machine.qos or (Qos("learned"),)
        machine = replace(machine, qos=(*known, *(Qos(name, priority=value) for name, value in worth.items())))
    return replace(machine, settings={**machine.settings, **words})
