"""Slow mapping rules that examine every pair of job and resource at every step."""

from itertools import combinations

import numpy as np


def pairs(times, free, deadline, key, urgent):
    """Emin-min (key c) and Ebest (key slack) by their pseudo code, with the urgent rule before each step."""
    free, open_jobs, plan = list(free), set(range(len(times))), []
    while True:
        ends = {
            i: {r: free[r] + times[i, r] for r in range(len(free)) if free[r] + times[i, r] <= deadline[i]}
            for i in open_jobs
        }
        ends = {i: {r: c for r, c in e.items() if c < np.inf} for i, e in ends.items()}
        pressing = [(deadline[i], i) for i, e in ends.items() if 0 < len(e) < urgent]
        if pressing:
            i = min(pressing)[1]
            choice = [min((c, i, r) for r, c in ends[i].items())]
        else:
            choice = [
                (c if key == "c" else deadline[i] - free[r] - times[i, r], i, r)
                for i in ends
                for r, c in ends[i].items()
            ]
        if not choice:
            return plan
        _, i, r = min(choice)
        free[r] += times[i, r]
        open_jobs.remove(i)
        plan.append((i, r))


def by_preference(times, free, deadline, price, weight, urgent, now):
    """Map jobs step by step: find every open job's resource of least weighted time and cost, and place the job that
    ends first."""
    free, open_jobs, plan = list(free), set(range(len(times))), []
    m = len(free)
    while True:
        chosen, feasible = {}, {}
        for i in open_jobs:
            able = [r for r in range(m) if times[i, r] < np.inf]
            time = sum(times[i, r] for r in able) / max(len(able), 1) or 1.0
            cost = sum(price[r] * times[i, r] for r in able) / max(len(able), 1) or 1.0
            ends = {r: free[r] + times[i, r] for r in able if free[r] + times[i, r] <= deadline[i]}
            if not ends:
                continue
            sums = {
                r: (1 - weight[i]) / time * (end - now) + weight[i] / cost * (price[r] * times[i, r])
                for r, end in ends.items()
            }
            r = min(ends, key=lambda r: (sums[r], r))
            chosen[i], feasible[i] = (ends[r], r), len(ends)
        if not chosen:
            return plan
        pressing = [(deadline[i], i) for i in chosen if feasible[i] < urgent]
        i = min(pressing)[1] if pressing else min((end, i) for i, (end, _) in chosen.items())[1]
        r = chosen[i][1]
        free[r] += times[i, r]
        open_jobs.remove(i)
        plan.append((i, r))


def by_key(times, free, deadline, key, urgent):
    """Max-min and sufferage, with one assignment per step."""
    free, open_jobs, plan = list(free), set(range(len(times))), []
    while True:
        options = {}
        for i in open_jobs:
            ends = sorted((free[r] + times[i, r], r) for r in range(len(free)) if times[i, r] < np.inf)
            ends = [(c, r) for c, r in ends if c <= deadline[i]]
            if ends:
                options[i] = ends
        if not options:
            return plan
        pressing = [(deadline[i], i) for i, ends in options.items() if len(ends) < urgent]
        if pressing:
            i = min(pressing)[1]
        else:
            second = {i: ends[1][0] if len(ends) > 1 else np.inf for i, ends in options.items()}
            value = {i: ends[0][0] if key == "largest" else second[i] - ends[0][0] for i, ends in options.items()}
            i = min(options, key=lambda i: (-value[i], i))
        r = options[i][0][1]
        free[r] += times[i, r]
        open_jobs.remove(i)
        plan.append((i, r))


def best_makespan(times):
    """Return the smallest makespan by trying every mapping."""
    from itertools import product

    n, m = times.shape
    return min(
        max(sum(times[i, where[i]] for i in range(n) if where[i] == r) for r in range(m))
        for where in product(range(m), repeat=n)
    )


def exchanges(times, price, where, a, b):
    """Return (load of a, load of b, added cost) after each exchange of one or two jobs of a for at most two jobs of
    b."""
    on = {r: [i for i in range(len(where)) if where[i] == r] for r in (a, b)}
    few = {r: [[i] for i in on[r]] + [list(pair) for pair in combinations(on[r], 2)] for r in (a, b)}
    load = {r: sum(times[i][r] for i in on[r]) for r in (a, b)}
    for out in few[a]:
        for back in [[], *few[b]]:
            left = load[a] - sum(times[i][a] for i in out) + sum(times[i][a] for i in back)
            right = load[b] + sum(times[i][b] for i in out) - sum(times[i][b] for i in back)
            yield left, right, price[a] * (left - load[a]) + price[b] * (right - load[b])


def chains(times, price, where, first, cap, barrier, deepest):
    """Return the change of the sum of price times load for every chain of moves that begins on `first` and leaves all
    touched resources below the cap.

    Each job moves to any other resource; while that resource lies above the cap (by at most `barrier`, at a price), a
    job that has not moved yet leaves it, so that it is at most at the cap.
    """

    def after(where, r, moved):
        load = sum(times[i][where[i]] for i in range(len(where)) if where[i] == r)
        for i in range(len(where)):
            if where[i] != r or i in moved or load - times[i][r] > cap:
                continue
            for target in range(len(price)):
                if target == r:
                    continue
                then = [*where[:i], target, *where[i + 1 :]]
                over = sum(times[k][target] for k in range(len(then)) if then[k] == target) - cap
                dear = price[target] * times[i][target] - price[r] * times[i][r]
                if over <= 0:
                    yield dear, then
                elif price[target] * over <= barrier and len(moved) + 1 < deepest:
                    for more, end in after(then, target, [*moved, i]):
                        yield dear + more, end

    yield from after(list(where), first, [])
