# SPDX-License-Identifier: Apache-2.0
"""A mapping of jobs to resources that is changed in place, by single moves and by chains of moves.

If each job is cheap on few resources only, almost no job is cheap on both of two given resources, so exchanges between
two resources do not help. A chain passes through several resources: each job moves to a resource that is cheap for the
job and displaces another job from this resource; the chain ends when a displaced job fits without displacing another
job. These chains of moves are called ejection chains (Glover 1996; for jobs under capacities Yagiura, Ibaraki and
Glover 2004).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...compiled import allocating, inlined

Index = int | np.integer[Any]  # an array index, from a loop or from an array of indices


class Problem(NamedTuple):
    """Constants of the problem of mapping n jobs to m resources: run times (n, m), times at which resources become free
    (m,), prices (m,), and allowed resources.

    `candidates` (n, c) lists the resources to which each job may move, by price times time, cheapest first.
    `is_candidate` (n, m) has the resources in `candidates` as a mask, without resources on which the job's time is
    infinite.
    """

    times: np.ndarray
    free: np.ndarray
    price: np.ndarray
    candidates: np.ndarray
    is_candidate: np.ndarray

    @classmethod
    def of(cls, times: np.ndarray, free: np.ndarray, price: np.ndarray, most_candidates: int) -> Problem:
        """Build the problem with each job's `most_candidates` cheapest resources by price times time."""
        dear = price * times
        count = min(most_candidates, times.shape[1])
        cheapest = np.argsort(dear, axis=1, kind="stable")[:, :count]
        is_candidate = np.zeros(times.shape, dtype=np.bool_)
        np.put_along_axis(is_candidate, cheapest, True, axis=1)
        return cls(times, free, price, np.ascontiguousarray(cheapest), is_candidate & np.isfinite(times))

    def makespan(self, where: np.ndarray) -> float:
        """Return the last end of a mapping (n,) of jobs to resources."""
        return float(loads(self.times, self.free, where).max())


class Assignment(NamedTuple):
    """A mapping of jobs to resources, modified in place: each job's resource (n,), each resource's load (m,) and each
    resource's jobs.

    `member[r, :job_count[r]]` are the jobs on resource r, unordered; `position[i]` is the index of job i among the jobs
    of its resource. `touched` (m,) marks resources that changed since all exchanges were last examined.
    """

    where: np.ndarray
    load: np.ndarray
    member: np.ndarray
    job_count: np.ndarray
    position: np.ndarray
    touched: np.ndarray

    @classmethod
    def of(cls, problem: Problem, where: np.ndarray) -> Assignment:
        """Build an `Assignment` from a mapping: each job's resource (n,)."""
        n, m = problem.times.shape
        count = np.bincount(where, minlength=m)
        member = np.empty((m, n), dtype=np.int32)
        order = np.argsort(where, kind="stable")
        first = np.cumsum(count) - count
        position = np.empty(n, dtype=np.int64)
        position[order] = np.arange(n) - first[where[order]]
        member[where, position] = np.arange(n)
        return cls(
            where.copy(), loads(problem.times, problem.free, where), member, count, position, np.ones(m, dtype=np.bool_)
        )


@allocating
def shift(problem: Problem, standing: Assignment, i: Index, r: Index) -> None:
    """Move job i to resource r, and update the loads, the job lists and the jobs' indices."""
    where, load, member, count, position, touched = standing
    old = where[i]
    last = member[old, count[old] - 1]
    member[old, position[i]], position[last] = last, position[i]
    count[old] -= 1
    load[old] -= problem.times[i, old]
    member[r, count[r]], position[i] = i, count[r]
    count[r] += 1
    load[r] += problem.times[i, r]
    where[i] = r
    touched[old] = touched[r] = True


@allocating
def loads(times: np.ndarray, free: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Return the time at which each resource ends its jobs, (m,). O(n)."""
    load = free.copy()
    for i in range(len(where)):
        load[where[i]] += times[i, where[i]]
    return load


DEEPEST = 4  # maximum number of moves in a chain
WIDEST = 8  # number of moves examined at each step of a chain; the moves that exceed the cap least are chosen
MOST_OPENED = 20  # maximum number of steps in a search for a chain: further steps would only find more expensive chains
CHEAP = 0.6  # maximum cost of a move, as a share of a job's mean cost (bound / n)
BARRIER = 1.0  # an incomplete chain may exceed the cap by this many mean costs of a job
STEP = 1e-7  # required gain of a chain as a share of the makespan, so that a rounding error does not count as progress
GIVEN_UP = 0.004  # a mapping that exceeds the best by this much after a kick is not improved further
JOBS_A_KICK = 3


class Trail(NamedTuple):
    """Work arrays of a search for chains of moves: moves to try at each depth, moves of the present chain, moves of the
    best chain.

    `cheap` (n,) is the number of each job's candidate resources that are cheap enough for a move and can run the job.
    `dear` (DEEPEST + 1,) is the change of the priced load (sum of price times load) before each depth. `due` (m,) marks
    resources that changed since a chain from them was last searched.
    """

    job: np.ndarray
    target: np.ndarray
    over: np.ndarray
    move_count: np.ndarray
    next_move: np.ndarray
    moved: np.ndarray
    origin: np.ndarray
    dear: np.ndarray
    best_job: np.ndarray
    best_target: np.ndarray
    due: np.ndarray
    cheap: np.ndarray

    @classmethod
    def of(cls, problem: Problem, bound: float) -> Trail:
        """Return empty work arrays; the lower bound on the makespan decides which moves are cheap."""
        dear = np.take_along_axis(problem.price * problem.times, problem.candidates, axis=1)
        cheap = np.asarray((dear - dear[:, :1] <= CHEAP * bound / len(dear)).sum(axis=1))
        wide, deep = np.zeros((DEEPEST, WIDEST), dtype=np.int64), np.zeros(DEEPEST, dtype=np.int64)
        return cls(
            wide, wide.copy(), np.zeros(wide.shape), deep, deep.copy(), deep.copy(), deep.copy(),
            np.zeros(DEEPEST + 1), deep.copy(), deep.copy(), np.ones(len(problem.free), dtype=np.bool_), cheap,
        )  # fmt: skip


@allocating
def best_chain(
    problem: Problem, standing: Assignment, trail: Trail, first: Index, cap: float, dearest: float
) -> tuple[int, int]:
    """Find the cheapest chain of moves from resource `first` that costs less than `dearest` and leaves no load above
    `cap`; return its length (0: no such chain; `trail` has its moves) and the number of examined moves.

    The search is depth first, and first tries the moves that exceed the cap least; ties go to the job that is earlier
    in the resource's list. The mapping `standing` is unchanged at the end. O(MOST_OPENED
    jobs-on-a-resource candidates).
    """
    depth, opened, looked, length = 0, 0, 0, 0
    best = dearest
    place: Index = first
    trail.dear[0] = 0.0
    while depth >= 0:
        if place >= 0:
            best, length, seen = _look(problem, standing, trail, depth, place, cap, best, length)
            looked += seen
            opened += 1
            place = -1
        nth = trail.next_move[depth]
        if nth < trail.move_count[depth] and depth < DEEPEST - 1 and opened < MOST_OPENED:
            trail.next_move[depth] += 1
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
    problem: Problem, standing: Assignment, trail: Trail, depth: int, r: Index, cap: float, best: float, length: int
) -> tuple[float, int, int]:
    """Examine all moves off resource r that bring the load of r down to `cap`; add moves that need further moves to
    `trail`.

    Returns the least change of the priced load by a complete chain, the length of that chain, and the number of
    examined moves.
    """
    times, _, price, candidates, _ = problem
    need = standing.load[r] - cap
    barrier, count, looked = BARRIER * cap / len(times), 0, 0
    for nth in range(standing.job_count[r]):
        i = standing.member[r, nth]
        if times[i, r] < need:
            continue
        again = False
        for before in range(depth):
            again = again or trail.moved[before] == i
        if again:
            continue
        for column in range(trail.cheap[i]):
            target = candidates[i, column]
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
    trail.move_count[depth], trail.next_move[depth] = count, 0
    return best, length, looked


@allocating
def tightened(problem: Problem, standing: Assignment, trail: Trail, worst: float, work: int) -> int:
    """Apply chains of moves away from the fullest resource, then chains that make the mapping cheaper without a longer
    makespan.

    The makespan never rises. The function stops when no chain improves the mapping, when no chain lowers a makespan
    that is above `worst`, or after `work` examined moves. The function returns the number of examined moves.
    """
    looked, going = 0, True
    while going and looked < work:
        full = standing.load.argmax()
        top = standing.load[full]
        cap = top * (1.0 - STEP)
        length, seen = best_chain(problem, standing, trail, full, cap, np.inf)
        looked += seen + 1
        _follow(problem, standing, trail, length)
        going = length > 0
        if going or top > worst:
            continue
        for r in range(len(standing.load)):
            if r == full or not trail.due[r]:
                continue
            trail.due[r] = False
            length, seen = best_chain(problem, standing, trail, r, cap, -STEP * cap)
            looked += seen
            _follow(problem, standing, trail, length)
            going = going or length > 0
    return looked


@allocating
def _follow(problem: Problem, standing: Assignment, trail: Trail, length: int) -> None:
    """Apply the moves of the best chain."""
    for depth in range(length):
        _moved(problem, standing, trail, trail.best_job[depth], trail.best_target[depth])


@allocating
def _moved(problem: Problem, standing: Assignment, trail: Trail, i: Index, r: Index) -> None:
    """Move job i to resource r, and mark both resources, so that chains from them are searched again."""
    trail.due[standing.where[i]] = trail.due[r] = True
    shift(problem, standing, i, r)


@allocating
def chained(
    problem: Problem,
    standing: Assignment,
    trail: Trail,
    best_where: np.ndarray,
    kicks: int,
    slack: float,
    target: float,
    work: int,
    rng: np.random.Generator,
) -> int:
    """Improve a mapping in rounds: descend by chains of moves, accept the mapping if its makespan is within `slack` of
    the best, move a few random jobs.

    A better mapping overwrites `best_where` (n,); at the end, `standing` contains the last accepted mapping. The search
    stops after `kicks` rounds, at a makespan of at most `target`, or after `work` examined moves. Returns the number of
    rounds.
    """
    where = standing.where
    # the loads are recomputed, because rounding errors of many steps accumulate
    standing.load[:] = loads(problem.times, problem.free, where)
    best = loads(problem.times, problem.free, best_where).max()
    kept = where.copy()
    done = 0
    while done < kicks and best > target and work > 0:
        work -= tightened(problem, standing, trail, best * (1.0 + GIVEN_UP), work)
        done += 1
        top = standing.load.max()
        if top <= best * (1.0 + slack):
            kept[:] = where
            if top < best:
                best = top
                best_where[:] = where
        else:
            restore(problem, standing, kept)
            trail.due[:] = False
        for nth in range(JOBS_A_KICK):
            i = int(rng.integers(0, len(where)))
            full = standing.load.argmax()
            if nth == 0 and standing.job_count[full] > 0:  # this job is among those that determine the makespan
                i = standing.member[full, rng.integers(0, standing.job_count[full])]
            r = problem.candidates[i, rng.integers(0, max(trail.cheap[i], 1))]
            if r != where[i]:
                _moved(problem, standing, trail, i, r)
    restore(problem, standing, kept)
    return done


@allocating
def restore(problem: Problem, standing: Assignment, mapping: np.ndarray) -> None:
    """Move every job back to its resource in `mapping` (n,)."""
    for i in range(len(mapping)):
        if standing.where[i] != mapping[i]:
            shift(problem, standing, i, mapping[i])
