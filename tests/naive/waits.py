"""Slow reference versions of what the wait predictors other than `pqstar` compute."""

from __future__ import annotations

from fractions import Fraction
from math import comb


def binomial_rank(n, q, c):
    """Return the smallest k with P(Bin(n, q) < k) >= c in exact fractions; n + 1 if no k up to n satisfies it."""
    q, c = Fraction(q).limit_denominator(1000), Fraction(c).limit_denominator(1000)
    below = Fraction(0)
    for k in range(1, n + 1):
        below += comb(n, k - 1) * q ** (k - 1) * (1 - q) ** (n - k + 1)
        if below >= c:
            return k
    return n + 1


def nearest(distances, newest_first, k):
    """Return the k nearest jobs by sorting all of them; among equals, the newer ones."""
    return sorted(newest_first, key=lambda j: (distances[j], newest_first.index(j)))[:k]


def forward_start(total, running, queued, policy, of=-1):
    """Return when the last of `queued` (procs, planned), or the job at `of`, starts beside `running` (procs, left),
    computed again at each instant.

    The policy is FCFS, EASY, or EASY with the shortest candidate first; infinity if the job is larger than the machine.
    """
    now, running = 0.0, [list(job) for job in running]
    queue = [(k, *job) for k, job in enumerate(queued) if job[0] <= total]
    last = of % len(queued)
    if queued[last][0] > total:
        return float("inf")
    while True:
        free = total - sum(p for p, _ in running)
        while queue and queue[0][1] <= free:
            k, procs, planned = queue.pop(0)
            if k == last:
                return now
            running.append([procs, now + planned])
            free -= procs
        if queue and policy != "fcfs":
            head, spare, shadow = queue[0], free, None
            for procs, end in sorted(running, key=lambda job: job[1]):
                spare += procs
                if shadow is None and spare >= head[1]:
                    shadow = end
            extra = free + sum(p for p, end in running if end <= shadow) - head[1]
            for job in sorted(queue[1:], key=lambda job: job[2] if policy == "easy-sjbf" else job[0]):
                k, procs, planned = job
                if procs <= free and (now + planned <= shadow or procs <= extra):
                    if now + planned > shadow:
                        extra -= procs
                    if k == last:
                        return now
                    queue.remove(job)
                    running.append([procs, now + planned])
                    free -= procs
        now = min(end for _, end in running)
        running = [job for job in running if job[1] > now]


def counts_blindly(story, each=20):
    """Return which submissions count as evidence; all earlier events are read again for each submission. Events are
    (`submit`, sender, name), (`known`, name) when a wait becomes known, and (`gone`, name) when it never will.

    A sender's predictions are numbered since the sender last had no open prediction; blind predictions are the open
    ones later than the latest prediction with a known outcome. Up to twice `each` all predictions count, then every
    second one up to four times `each`, and so on.
    """
    counts = {}
    for at, (kind, *told) in enumerate(story):
        if kind != "submit":
            continue
        sender, name = told
        mine = {}  # name -> number of its prediction, and whether the prediction is open or known
        latest, number = 0, 0
        for what, *other in (*story[:at], ("submit", sender, name)):
            if what == "submit" and other[0] == sender:
                if not any(state == "open" for _, state in mine.values()):
                    mine, latest, number = {}, 0, 0
                number += 1
                mine[other[1]] = (number, "open")
            elif what != "submit" and other[0] in mine:
                mine[other[0]] = (mine[other[0]][0], what)
                if what == "known":
                    latest = max(latest, mine[other[0]][0])
        blind = min(sum(state == "open" for _, state in mine.values()), number - latest)
        every = 1
        while blind >= 2 * each * every:
            every *= 2
        counts[name] = number % every == 0
    return counts


def levels_by_age(story, ages, levels, steps, repaid, borrowed=0.0, remembered=5000.0, memory=500.0):
    """Compute the calibrated levels for each age from a list of events in order of time.

    Events are (now, `look`, number, job, waited, bounds) and (now, `start`, job).

    An outcome moves the level of each bound that was open: up by the level if the wait passed the bound, else down by 1
    minus the level, both times a step that becomes smaller with time. A missing correction is added in full later. The
    k-th open prediction of one age of a job counts 1 / k. With `borrowed`, the levels are a weighted mean of the age's
    own levels and of the levels of all ages together, weighted by the outcomes of that age and by `borrowed`.
    """
    moved = {age: list(levels) for age in range(len(ages) + 1)}
    owed, known = {age: [0.0] * len(levels) for age in moved}, dict.fromkeys(moved, 0.0)
    looks = []

    def learn(look, k, kept):
        age, wrong = look["age"], levels[k] - kept
        owed[age][k] = (1.0 - 1.0 / remembered) * owed[age][k] + wrong
        by = steps[k] * wrong - (moved[age][k] - levels[k]) / memory
        moved[age][k] = min(max(moved[age][k] + by * look["weight"], 0.0), 1.0)
        look["open"].discard(k)

    for now, what, *told in story:
        open_ = [(n, look, k) for n, look in enumerate(looks) for k in look["open"]]
        for at, n, k in sorted((look["at"] + 1.0 + look["bounds"][k] + 1e-6, n, k) for n, look, k in open_):
            if at < now:
                learn(looks[n], k, False)
        if what == "look":
            number, job, waited, bounds = told
            age = sum(waited >= one for one in ages)
            same = [one for one in looks if one["job"] == job and one["age"] == age]
            looks.append({
                "number": number, "job": job, "at": now, "age": age, "weight": 1.0 / (1 + len(same)), "bounds": bounds,
                "open": set(range(len(levels))),
            })  # fmt: skip
        else:
            for look in [one for one in looks if one["job"] == told[0]]:
                rest = now - look["at"] - (0.5 + look["number"] * 0.6180339887498949) % 1.0
                for k in sorted(look["open"]):
                    learn(look, k, rest <= look["bounds"][k] * (1.0 + 1e-9))
                known[look["age"]] += look["weight"]
                looks.remove(look)
    asked = {}
    for age, mine in moved.items():
        owes = [repaid[k] * steps[k] * owed[age][k] for k in range(len(levels))]
        paid = [min(max(owe, -x), 1 - x) for owe, x in zip(owes, levels)]
        asked[age] = [min(max(max(mine[j] + paid[j] for j in range(k + 1)), 0.0), 1.0) for k in range(len(levels))]
    if borrowed:
        (whole,) = levels_by_age(story, (), levels, steps, repaid, 0.0, remembered, memory).values()
        share = {age: known[age] / (known[age] + borrowed) for age in asked}
        asked = {age: [share[age] * a + (1.0 - share[age]) * b for a, b in zip(asked[age], whole)] for age in asked}
    return asked
