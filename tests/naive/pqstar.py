"""The three histories of PQStar as the paper describes them: sets of running jobs, walks over all submissions."""

from __future__ import annotations

import numpy as np

HOUR = 3600.0


def large_from(size, strict):
    """Return the class by counting up through the powers of two."""
    for exponent in range(64):
        power = 2.0**exponent
        if power > size**0.5 or (power == size**0.5 and not strict):
            return power
    raise AssertionError


def similar(jobs, a, b):
    return jobs["procs"][a] == jobs["procs"][b] and abs(jobs["limit"][a] - jobs["limit"][b]) <= HOUR


class State:
    """Return which jobs run and wait when job i is submitted, from the record alone (starts and ends up to then have
    happened)."""

    def __init__(self, jobs, i):
        now = jobs["submit"][i]
        before = range(i)
        self.now = now
        self.running = {j for j in before if jobs["ran"][j] and jobs["start"][j] <= now < jobs["end"][j]}
        self.queue = [j for j in before if jobs["start"][j] > now]
        self.left = {j for j in before if jobs["start"][j] <= now}


def runs_at(jobs, now):
    """Return the set of running jobs at an instant, in any log order within the instant."""
    n = len(jobs["submit"])
    return {j for j in range(n) if jobs["ran"][j] and jobs["start"][j] <= now < jobs["end"][j]}


def rank(jobs, state, i, column):
    if not state.queue:
        return 0.0
    return sum(jobs[column][j] < jobs[column][i] for j in state.queue) / len(state.queue)


def mark(jobs, states, i, size, threshold, strict=True, tables=False, missing_passes=True):
    """Return the mark (1 near, 2 rank by size, 3 rank by limit, 4 free processors, 5 far, 0 none) and the length of the
    near history."""
    large = large_from(size, strict)

    def busy(s):
        return sum(jobs["procs"][j] >= large for j in s.running)

    me = states[i]
    near = i
    while near > 0 and busy(states[near - 1]) == busy(me):
        near -= 1
    mid = near
    while mid > 0 and runs_at(jobs, jobs["submit"][mid - 1]) & me.running:
        mid -= 1

    def evidence(first, last):
        found = [j for j in range(first, last) if j in me.left and similar(jobs, i, j)]
        return any(jobs["wait"][j] <= threshold for j in found) if tables else bool(found)

    def stuck(first):
        return any(j >= first and similar(jobs, i, j) and me.now - jobs["submit"][j] > threshold for j in me.queue)

    if evidence(near, i) and not stuck(near):
        return 1, i - near
    if evidence(mid, near) and not stuck(mid):
        for code, column in ((2, "procs"), (3, "limit")):
            quick = [j for j in range(near, i) if j in me.left and jobs["wait"][j] <= threshold]
            late = [j for j in range(near, i) if j in me.left and jobs["wait"][j] > threshold]
            late += [j for j in range(near, i) if j in me.queue and me.now - jobs["submit"][j] > threshold]
            limits = [max(rank(jobs, states[j], j, column) for j in quick)] if quick else []
            limits += [min(rank(jobs, states[j], j, column) for j in late)] if late else []
            own = rank(jobs, me, i, column)
            if (not limits and missing_passes) or (limits and (own <= min(limits) if tables else own < min(limits))):
                return code, i - near
        free = max(size - sum(jobs["procs"][j] for j in me.running), 0.0)
        first = [j for j in me.queue if jobs["procs"][j] < jobs["procs"][i] or jobs["limit"][j] < jobs["limit"][i]]
        if free - sum(jobs["procs"][j] for j in first) > jobs["procs"][i]:
            return 4, i - near
    old = [j for j in range(mid) if j in me.left and similar(jobs, i, j)]
    if old and all(jobs["wait"][j] <= threshold for j in old):
        return 5, i - near
    return 0, i - near


def marks(trace, size, threshold, **reading):
    """Return marks and near lengths of a whole log in which every wait is known and not negative and every job fits."""
    wait, run = trace.wait_time, trace.run_time
    limit = np.where(np.isnan(trace.req_time), 1e12, np.minimum(trace.req_time, 1e12))
    jobs = {
        "submit": trace.submit_time, "wait": wait, "start": trace.submit_time + wait, "ran": ~np.isnan(run),
        "end": trace.submit_time + wait + np.nan_to_num(run), "procs": trace.procs(), "limit": limit,
    }  # fmt: skip
    states = [State(jobs, i) for i in range(len(trace))]
    told = [mark(jobs, states, i, size, threshold, **reading) for i in range(len(trace))]
    return [m for m, _ in told], [n for _, n in told]
