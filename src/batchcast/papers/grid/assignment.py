# SPDX-License-Identifier: Apache-2.0
"""A mapping that changes in place, by single jobs and by chains of moves.

Where jobs are cheap on a few resources each, two resources share next to no jobs, so that no exchange between two of
them helps. A chain passes through several: each job moves to a resource that is cheap for it, and the one that no
longer fits there moves on, until one fits. Ejection chains: Glover 1996; for the assignment of jobs under capacities
Yagiura, Ibaraki and Glover 2004.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...compiled import allocating, inlined

Index = int | np.integer[Any]  # a place in an array, as a loop or as an array of places gives it


class Problem(NamedTuple):
    """What does not change: times (n, m), when resources are free (m,), their prices (m,), and where a job may go.

    `near` (n, c) lists each job's resources by price times time, cheapest first; `is_near` (n, m) tells the same, for
    finite times only.
    """

    times: np.ndarray
    free: np.ndarray
    price: np.ndarray
    near: np.ndarray
    is_near: np.ndarray

    @classmethod
    def of(cls, times: np.ndarray, free: np.ndarray, price: np.ndarray, near: int) -> Problem:
        """With each job's `near` cheapest resources by price times time."""
        dear = price * times
        count = min(near, times.shape[1])
        cheapest = np.argsort(dear, axis=1, kind="stable")[:, :count]
        is_near = np.zeros(times.shape, dtype=np.bool_)
        np.put_along_axis(is_near, cheapest, True, axis=1)
        return cls(times, free, price, np.ascontiguousarray(cheapest), is_near & np.isfinite(times))


class Assignment(NamedTuple):
    """A mapping that moves change in place: where each job is (n,), loads (m,), and each resource's jobs as a list.

    `member[r, :held[r]]` are the jobs on r in no order; `place[i]` is job i's position there. `touched` (m,)
    tells which resources changed since all exchanges were last looked at.
    """

    where: np.ndarray
    load: np.ndarray
    member: np.ndarray
    held: np.ndarray
    place: np.ndarray
    touched: np.ndarray

    @classmethod
    def of(cls, problem: Problem, where: np.ndarray) -> Assignment:
        """Of a mapping (n,)."""
        n, m = problem.times.shape
        count = np.bincount(where, minlength=m)
        member = np.empty((m, n), dtype=np.int32)
        order = np.argsort(where, kind="stable")
        first = np.cumsum(count) - count
        place = np.empty(n, dtype=np.int64)
        place[order] = np.arange(n) - first[where[order]]
        member[where, place] = np.arange(n)
        return cls(
            where.copy(), loads(problem.times, problem.free, where), member, count, place, np.ones(m, dtype=np.bool_)
        )


@allocating
def shift(problem: Problem, standing: Assignment, i: Index, r: Index) -> None:
    """Job i to resource r: its load, its list, its place."""
    where, load, member, count, place, touched = standing
    old = where[i]
    last = member[old, count[old] - 1]
    member[old, place[i]], place[last] = last, place[i]
    count[old] -= 1
    load[old] -= problem.times[i, old]
    member[r, count[r]], place[i] = i, count[r]
    count[r] += 1
    load[r] += problem.times[i, r]
    where[i] = r
    touched[old] = touched[r] = True


@allocating
def loads(times: np.ndarray, free: np.ndarray, where: np.ndarray) -> np.ndarray:
    """When each resource ends its jobs, (m,). O(n)."""
    load = free.copy()
    for i in range(len(where)):
        load[where[i]] += times[i, where[i]]
    return load


DEEPEST = 4  # moves of a chain
WIDEST = 8  # moves that are followed at each place of a chain, those that leave the least above the cap
MOST_OPENED = 20  # places a search for a chain looks at: more find dearer ways out of the same corner, later
CHEAP = 0.6  # a job moves to resources that make the mapping dearer by at most so many jobs' mean cost, bound / n
BARRIER = 1.0  # and so much of the same, priced, may lie above the cap while a chain is under way
STEP = 1e-7  # what a chain has to gain, as a share of the makespan: rounding never looks like progress
GIVEN_UP = 0.004  # a kick this much above the best is not made cheaper any more
JOBS_A_KICK = 3


class Trail(NamedTuple):
    """Room for a search of chains: moves to try at each depth (job, target, over; `held`, `at`), moves made, the best.

    `dear` (DEEPEST + 1,) adds up the change of sum price load before each depth; `due` (m,) tells which resources
    changed since a chain that begins there was last looked for.
    """

    job: np.ndarray
    target: np.ndarray
    over: np.ndarray
    held: np.ndarray
    at: np.ndarray
    moved: np.ndarray
    origin: np.ndarray
    dear: np.ndarray
    best_job: np.ndarray
    best_target: np.ndarray
    due: np.ndarray

    @classmethod
    def empty(cls, m: int) -> Trail:
        """Nothing tried yet on `m` resources."""
        wide, deep = np.zeros((DEEPEST, WIDEST), dtype=np.int64), np.zeros(DEEPEST, dtype=np.int64)
        return cls(
            wide, wide.copy(), np.zeros(wide.shape), deep, deep.copy(), deep.copy(), deep.copy(),
            np.zeros(DEEPEST + 1), deep.copy(), deep.copy(), np.ones(m, dtype=np.bool_),
        )  # fmt: skip


def cheap_near(problem: Problem, bound: float) -> np.ndarray:
    """How many of each job's `near` resources (n,) are cheap enough to move to; times there are finite."""
    dear = np.take_along_axis(problem.price * problem.times, problem.near, axis=1)
    return np.asarray((dear - dear[:, :1] <= CHEAP * bound / len(dear)).sum(axis=1))


@allocating
def best_chain(
    problem: Problem, standing: Assignment, cheap: np.ndarray, trail: Trail, first: Index, cap: float, dearest: float
) -> tuple[int, int]:
    """The least dear chain below `dearest` that begins on `first` and leaves all it touches at most `cap`: its length
    (0: none), left in `trail`, and how many moves were looked at.

    Depth first; at each place the moves that leave the least above the cap come first, ties by resource's list.
    `standing` is as before. O(MOST_OPENED jobs-on-a-resource near).
    """
    depth, opened, looked, length = 0, 0, 0, 0
    best = dearest
    place: Index = first
    trail.dear[0] = 0.0
    while depth >= 0:
        if place >= 0:
            best, length, seen = _look(problem, standing, cheap, trail, depth, place, cap, best, length)
            looked += seen
            opened += 1
            place = -1
        nth = trail.at[depth]
        if nth < trail.held[depth] and depth < DEEPEST - 1 and opened < MOST_OPENED:
            trail.at[depth] += 1
            i, r = trail.job[depth, nth], trail.target[depth, nth]
            old = standing.where[i]
            trail.moved[depth], trail.origin[depth] = i, old
            dear = problem.price[r] * problem.times[i, r] - problem.price[old] * problem.times[i, old]
            trail.dear[depth + 1] = trail.dear[depth] + dear
            shift(problem, standing, i, r)
            place = r
            depth += 1
        else:
            depth -= 1
            if depth >= 0:
                shift(problem, standing, trail.moved[depth], trail.origin[depth])
    return length, looked


@inlined
def _look(
    problem: Problem,
    standing: Assignment,
    cheap: np.ndarray,
    trail: Trail,
    depth: int,
    r: Index,
    cap: float,
    best: float,
    length: int,
) -> tuple[float, int, int]:
    """All moves off r after which it is at most `cap`: those that end a chain against the best, the others to `trail`.

    Returns the least change of sum price load, that chain's length, and how many moves were looked at.
    """
    times, _, price, near, _ = problem
    need = standing.load[r] - cap
    barrier, count, looked = BARRIER * cap / len(times), 0, 0
    for nth in range(standing.held[r]):
        i = standing.member[r, nth]
        if times[i, r] < need:
            continue
        again = False
        for before in range(depth):
            again = again or trail.moved[before] == i
        if again:
            continue
        for column in range(cheap[i]):
            target = near[i, column]
            if target == r:
                continue
            looked += 1
            over = price[target] * (standing.load[target] + times[i, target] - cap)
            if over <= 0.0:
                dear = trail.dear[depth] + price[target] * times[i, target] - price[r] * times[i, r]
                if dear < best:
                    best, length = dear, depth + 1
                    for before in range(depth):
                        trail.best_job[before] = trail.moved[before]
                        trail.best_target[before] = standing.where[trail.moved[before]]
                    trail.best_job[depth], trail.best_target[depth] = i, target
                continue
            if over > barrier or (count == WIDEST and over >= trail.over[depth, count - 1]):
                continue
            count = min(count + 1, WIDEST)
            k = count - 1
            while k > 0 and trail.over[depth, k - 1] > over:
                trail.over[depth, k] = trail.over[depth, k - 1]
                trail.job[depth, k], trail.target[depth, k] = trail.job[depth, k - 1], trail.target[depth, k - 1]
                k -= 1
            trail.over[depth, k], trail.job[depth, k], trail.target[depth, k] = over, i, target
    trail.held[depth], trail.at[depth] = count, 0
    return best, length, looked


@allocating
def tightened(problem: Problem, standing: Assignment, cheap: np.ndarray, trail: Trail, worst: float, work: int) -> int:
    """Chains off the fullest resource, and where none is left chains that make the mapping cheaper below its makespan.

    The makespan never rises. Ends where nothing helps, above `worst` where no chain lowers it, or when `work` moves
    were looked at: how many there were.
    """
    looked, going = 0, True
    while going and looked < work:
        full = standing.load.argmax()
        top = standing.load[full]
        cap = top * (1.0 - STEP)
        length, seen = best_chain(problem, standing, cheap, trail, full, cap, np.inf)
        looked += seen + 1
        _follow(problem, standing, trail, length)
        going = length > 0
        if going or top > worst:
            continue
        for r in range(len(standing.load)):
            if r == full or not trail.due[r]:
                continue
            trail.due[r] = False
            length, seen = best_chain(problem, standing, cheap, trail, r, cap, -STEP * cap)
            looked += seen
            _follow(problem, standing, trail, length)
            going = going or length > 0
    return looked


@allocating
def _follow(problem: Problem, standing: Assignment, trail: Trail, length: int) -> None:
    """The best chain's moves."""
    for depth in range(length):
        _moved(problem, standing, trail, trail.best_job[depth], trail.best_target[depth])


@allocating
def _moved(problem: Problem, standing: Assignment, trail: Trail, i: Index, r: Index) -> None:
    """Job i to r for good: both resources are due to be looked at."""
    trail.due[standing.where[i]] = trail.due[r] = True
    shift(problem, standing, i, r)


@allocating
def chained(
    problem: Problem,
    standing: Assignment,
    cheap: np.ndarray,
    trail: Trail,
    best_where: np.ndarray,
    kicks: int,
    slack: float,
    target: float,
    work: int,
    rng: np.random.Generator,
) -> int:
    """Iterated descent by chains: descend, keep what lies within `slack` of the best, move a few jobs at random.

    `best_where` (n,) is the best mapping so far and is replaced by better ones, `standing` the last one kept, then
    and now. Returns the rounds done; stops after `kicks`, at a makespan of at most `target`, or when `work` moves were
    looked at.
    """
    where = standing.where
    standing.load[:] = loads(problem.times, problem.free, where)  # sums of many steps drift
    best = loads(problem.times, problem.free, best_where).max()
    kept = where.copy()
    done = 0
    while done < kicks and best > target and work > 0:
        work -= tightened(problem, standing, cheap, trail, best * (1.0 + GIVEN_UP), work)
        done += 1
        top = standing.load.max()
        if top <= best * (1.0 + slack):
            kept[:] = where
            if top < best:
                best = top
                best_where[:] = where
        else:
            _restore(problem, standing, kept)
            trail.due[:] = False
        for nth in range(JOBS_A_KICK):
            i = int(rng.integers(0, len(where)))
            full = standing.load.argmax()
            if nth == 0 and standing.held[full] > 0:  # one of the jobs that hold the makespan up
                i = standing.member[full, rng.integers(0, standing.held[full])]
            r = problem.near[i, rng.integers(0, max(cheap[i], 1))]
            if r != where[i]:
                _moved(problem, standing, trail, i, r)
    _restore(problem, standing, kept)
    return done


@allocating
def _restore(problem: Problem, standing: Assignment, kept: np.ndarray) -> None:
    """The mapping `kept` (n,) again."""
    for i in range(len(kept)):
        if standing.where[i] != kept[i]:
            shift(problem, standing, i, kept[i])
