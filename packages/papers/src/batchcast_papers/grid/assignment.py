# SPDX-License-Identifier: Apache-2.0
"""A mapping of jobs to resources that is changed in place: by moves, swaps, exchanges and chains of moves.

Moves, swaps and exchanges shorten the makespan of the mapping; resource prices give a lower bound on the makespan.

If each job is cheap on few resources only, almost no job is cheap on both of two given resources, so exchanges between
two resources do not help. A chain passes through several resources: each job moves to a resource that is cheap for the
job and displaces another job from this resource; the chain ends when a displaced job fits without displacing another
job. These chains of moves are called ejection chains (Glover 1996; for jobs under capacities Yagiura, Ibaraki and
Glover 2004).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from batchcast.compiled import allocating, inlined
from batchcast.compiled.arrays import insert_sorted

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


PAIRED = 8  # number of cheapest jobs per resource that are paired: 36 sets of jobs per resource
MOST_RESOURCES = 200  # with more resources, a pass over all pairs is too long between two clock checks


@allocating
def relieved(problem: Problem, standing: Assignment, full: Index, cap: float) -> tuple[bool, int]:
    """Apply the cheapest exchange of jobs after which the resource `full` and the other resource have loads below
    `cap`: (done, examined pairs).

    The cost of an exchange is the change of the priced load (sum of price times load); ties go to the first exchange.
    Jobs move only to candidate resources. O(m PAIRED^4).
    """
    jobs = np.empty(4, dtype=np.int64)
    best, column, spent = np.inf, -1, 0
    for r in range(len(standing.load)):
        if r == full:
            continue
        dear, looked = _cheapest(problem, standing, full, r, cap, best, jobs)
        spent += looked
        if dear < best:
            best, column = dear, r
    if column >= 0:
        _exchange(problem, standing, full, column, jobs)
    return column >= 0, spent


@allocating
def cheapened(problem: Problem, standing: Assignment, cap: float, least: float) -> tuple[bool, int]:
    """Apply exchanges that make a mapping cheaper by at least `least`, without a resource above `cap`.

    A mapping's makespan exceeds the bound for two reasons: jobs run on expensive resources, and resources have slack,
    because they are free before the makespan. Exchanges that take jobs off the fullest resource use up slack and make
    the mapping more expensive; the exchanges of this function make the mapping cheaper and restore slack. One pass
    covers the pairs of resources of which one changed since the last pass. Returns whether an exchange was applied, and
    the number of examined pairs of job sets.
    """
    m = len(standing.load)
    jobs = np.empty(4, dtype=np.int64)
    due = standing.touched.copy()
    standing.touched[:] = False
    done, spent = False, m
    if m > MOST_RESOURCES:
        return done, spent
    for a in range(m):
        for b in range(m):
            if a == b or not (due[a] or due[b]):
                continue
            dear, looked = _cheapest(problem, standing, a, b, cap, -least, jobs)
            spent += looked
            if dear < -least:
                _exchange(problem, standing, a, b, jobs)
                done = True
    return done, spent


@allocating
def _cheapest(
    problem: Problem, standing: Assignment, a: Index, b: Index, cap: float, dearest: float, jobs: np.ndarray
) -> tuple[float, int]:
    """Find the cheapest exchange below `dearest` after which resources a and b are below `cap`: (cost, examined sets).

    Writes the exchange, if there is one below `dearest`, to `jobs` (4,): first the one or two jobs that move from
    resource a to b, then up to two jobs that move from b to a; -1 fills unused entries.
    """
    times, _, price, _, _ = problem
    leaving, left = _sets(problem, standing, a, b)
    coming, came = _sets(problem, standing, b, a)
    best = dearest
    for one in range(left):
        i, j = leaving[one]
        relief = times[i, a] + (times[j, a] if j >= 0 else 0.0)
        burden = times[i, b] + (times[j, b] if j >= 0 else 0.0)
        moved = price[b] * burden - price[a] * relief
        above = cap - standing.load[a] + relief  # maximum load that may come back to a
        below = standing.load[b] + burden - cap  # minimum load that must leave b
        if below < 0.0 and above > 0.0 and moved < best:
            best = moved
            jobs[0], jobs[1], jobs[2], jobs[3] = i, j, -1, -1
        for other in range(came):
            k, h = coming[other]
            heavy = times[k, a] + (times[h, a] if h >= 0 else 0.0)
            if heavy >= above:
                continue
            light = times[k, b] + (times[h, b] if h >= 0 else 0.0)
            dear = moved + price[a] * heavy - price[b] * light
            if light > below and dear < best:
                best = dear
                jobs[0], jobs[1], jobs[2], jobs[3] = i, j, k, h
    return best, left * (came + 1)


@allocating
def _exchange(problem: Problem, standing: Assignment, a: Index, b: Index, jobs: np.ndarray) -> None:
    """Move the first two of `jobs` from resource a to b, and the other two from b to a; -1 is an unused entry."""
    for at in range(4):
        if jobs[at] >= 0:
            shift(problem, standing, jobs[at], b if at < 2 else a)


@allocating
def _sets(problem: Problem, standing: Assignment, old: Index, new: Index) -> tuple[np.ndarray, int]:
    """Return sets of one job (the second is -1) or two jobs, from the PAIRED jobs that are cheapest to move from
    resource `old` to `new`."""
    times, _, price, _, is_candidate = problem
    jobs, dear = np.empty(PAIRED, dtype=np.int64), np.empty(PAIRED)
    count = 0
    for at in range(standing.job_count[old]):
        i = standing.member[old, at]
        if not is_candidate[i, new]:
            continue
        cost = price[new] * times[i, new] - price[old] * times[i, old]
        count = insert_sorted(dear, jobs, count, cost, i)
    sets = np.empty((count * (count + 1) // 2, 2), dtype=np.int64)
    k = 0
    for one in range(count):
        for other in range(one, count):
            sets[k, 0], sets[k, 1] = jobs[one], jobs[other] if other > one else -1
            k += 1
    return sets, k


BEYOND_ROUNDING = 1e-9  # a step must lower the fullest resource by this share, so that rounding is no progress
PAIRS_A_CHECK = 10_000_000  # pairs of jobs between two checks of the clock: about ten milliseconds


@allocating
def dearer(
    times: np.ndarray, free: np.ndarray, price: np.ndarray, best: np.ndarray, bound: float, rates: np.ndarray
) -> float:
    """Perform a price step for each of `rates`, which say how much prices change; return the lower bound on the
    makespan. The function updates `price` (m,), and `best` (m,), the prices that give the bound."""
    n, m = times.shape
    load = np.empty(m)
    for rate in rates:
        load[:] = free
        value = (price * free).sum()
        for i in range(n):
            least, column = np.inf, 0
            for r in range(m):
                dear = price[r] * times[i, r]
                if dear < least:
                    least, column = dear, r
            load[column] += times[i, column]
            value += least
        if value > bound:
            bound = value
            best[:] = price
        if value <= 0.0:
            break
        for r in range(m):
            price[r] *= np.exp(rate * min(load[r] / value - 1.0, 20.0))
        price /= price.sum()
    return bound


def priced(
    times: np.ndarray, free: np.ndarray, steps: int, stop: Callable[[], bool] = lambda: False
) -> tuple[float, np.ndarray]:
    """Return a lower bound on the makespan and the resource prices that give it: (bound, prices (m,) with sum 1).

    For any prices w >= 0 with sum 1, the priced load sum_r w_r load_r is at most the makespan. The priced load is least
    if each job i is on the resource r with the least w_r times[i, r]. The bound is the Lagrangian dual of the linear
    relaxation; its best value is the relaxation's optimum. The method is multiplicative weights, in which the price of
    an overloaded resource rises. The function calls `stop` between price steps; bound and prices are valid whenever the
    function ends. O(steps n m).
    """
    price = np.full(times.shape[1], 1.0 / times.shape[1])
    best, bound, at = price.copy(), 0.0, 0
    rates = np.array([0.1 * 0.01 ** (step / steps) for step in range(steps)])
    stride = max(1, PAIRS_A_CHECK // times.size)
    while at < steps and not (at and stop()):
        bound = dearer(times, free, price, best, bound, rates[at : at + stride])
        at += stride
    return bound, best


def settle(problem: Problem, standing: Assignment, stop: Callable[[], bool] = lambda: False) -> float:
    """Improve the mapping by `descend` until no step shortens the makespan or `stop` returns true; return the
    makespan."""
    left = 0
    while left == 0:
        value, left = descend(problem, standing, PAIRS_A_CHECK, True)
        if stop():
            break
    return float(value)


@allocating
def descend(problem: Problem, standing: Assignment, work: int, deep: bool) -> tuple[float, int]:
    """Apply moves and swaps that lower the load of the fullest resource, and return two values: the makespan, and the
    remaining work, which is 0 if the descent is not finished.

    If no move or swap lowers the load of the fullest resource, up to two jobs leave the fullest resource and up to two
    jobs come back (`relieved`). If no exchange (`relieved`) helps either, a `deep` descent makes the mapping cheaper
    (`cheapened`) but leaves no resource with more load than the fullest resource, and continues. All other steps lower
    the load of the fullest resource by more than a rounding error and leave the other resource below this load, so the
    makespan never rises and no step repeats. Among these steps the function applies the step that raises the priced
    load least, because this choice leaves jobs on the resources that the bound assigns to them. Jobs move only to near
    resources. `work` limits the number of examined pairs of jobs; another call continues the descent.
    """
    times, _, price, candidates, is_candidate = problem
    _, load, member, count, _, _ = standing
    m = times.shape[1]
    while work > 0:
        full = load.argmax()
        top = load[full]
        least = BEYOND_ROUNDING * top
        best, job, column, other = np.inf, -1, -1, -1
        for at in range(count[full]):
            i = member[full, at]
            relief = times[i, full]
            if relief <= least:
                continue
            for r in candidates[i]:
                if r == full or not is_candidate[i, r]:
                    continue
                moved = price[r] * times[i, r] - price[full] * relief
                room = top - least - load[r] - times[i, r]
                if room > 0.0 and moved < best:
                    best, job, column, other = moved, i, r, -1
                work -= count[r]
                for back in range(count[r]):
                    k = member[r, back]
                    if is_candidate[k, full] and times[k, full] < relief - least and -times[k, r] < room:
                        dear = moved - price[r] * times[k, r] + price[full] * times[k, full]
                        if dear < best:
                            best, job, column, other = dear, i, r, k
        if job < 0:
            better, spent = relieved(problem, standing, full, top - least)
            work -= spent
            if deep and not better:
                better, spent = cheapened(problem, standing, top - least, least * price.sum())
                work -= spent
            if not better:
                return top, max(work, 1)
            continue
        shift(problem, standing, job, column)
        if other >= 0:
            shift(problem, standing, other, full)
        work -= m
    return load.max(), 0


@allocating
def kicked(
    problem: Problem, standing: Assignment, kicks: int, slack: float, target: float, rng: np.random.Generator
) -> tuple[np.ndarray, float, int]:
    """Improve a mapping by kicks: move a few random jobs to one of their cheap resources, descend, and accept the
    result if it is not worse.

    At the end, `standing` contains the last accepted mapping. `slack` is the accepted relative loss of a kick. Returns
    the best mapping (n,), its makespan, and the number of kicks; stops after `kicks` kicks, at a makespan of at most
    `target`, or after `PAIRS_A_CHECK` examined pairs.
    """
    times, _, _, candidates, is_candidate = problem
    n = len(times)
    where = standing.where
    standing.load[:] = loads(times, problem.free, where)  # recomputed, because rounding errors of many steps accumulate
    best = current = standing.load.max()
    best_where, kept = where.copy(), where.copy()
    done, work = 0, PAIRS_A_CHECK
    while done < kicks and best > target and work > 0:
        for nth in range(JOBS_A_KICK):
            i = int(rng.integers(0, n))
            full = standing.load.argmax()
            if nth == 0 and standing.job_count[full] > 0:  # one of the jobs that determine the makespan
                i = standing.member[full, rng.integers(0, standing.job_count[full])]
            r = candidates[i, rng.integers(0, candidates.shape[1])]
            if is_candidate[i, r] and r != where[i]:
                shift(problem, standing, i, r)
        improved, work = descend(problem, standing, work, False)
        if improved <= current * (1.0 + slack):
            if improved < best:
                best = improved
                best_where[:] = where
            current = improved
            kept[:] = where
        else:
            restore(problem, standing, kept)
        done += 1
    return best_where, loads(times, problem.free, best_where).max(), done


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
