"""A slow reference version of memory predictions: what was known at a submission, and what all attempts of a job
request."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from batchcast.table import Trace


def known_peaks(log: Trace, row: int) -> list[float]:
    """Return MiB per processor of the user's measured jobs that had ended when `row` was submitted, in order of end.

    Logs in this test have no nodes and no job out of memory, and no two events at one instant.
    """
    now, user = log.submit_time[row], log.nominal("user_id").decode()
    ends = log.submit_time + log.wait_time + log.run_time
    used = log.number("used_mem_kib") / log.number("alloc_procs") / 1024.0
    before = [k for k in range(len(log)) if user[k] == user[row] and ends[k] < now and used[k] > 0]
    return [max(float(used[k]), 1.0) for k in sorted(before, key=lambda k: float(ends[k]))]


def spent(request: float, peak: float, again: float) -> float:
    """Return the sum of what a job's attempts request."""
    attempts = [request]
    if peak > request and again >= peak:
        attempts.append(again)
    while attempts[-1] < peak:
        attempts.append(2.0 * attempts[-1])
    return sum(attempts)


def expected(request: float, levels: Sequence[float], bounds: Sequence[float], again: float) -> float:
    """Return the expected memory that all attempts request. The peak equals each bound with the probability between the
    previous level and the bound's level, and twice the last bound with the remaining probability."""
    peaks, edges = [*bounds, 2.0 * bounds[-1]], [0.0, *levels, 1.0]
    return math.fsum((edges[k + 1] - edges[k]) * spent(request, peak, again) for k, peak in enumerate(peaks))


def cheapest(peaks: Sequence[float], lengths: Sequence[float], asked: float, risk: float) -> float:
    """Return the cheapest request among amounts near the peaks that at most the share `risk` of the tasks exceed."""
    count, most = len(peaks), max(peaks)
    logs = [math.log(peak) for peak in peaks]
    middle = sum(logs) / count
    spread = math.sqrt((sum((one - middle) ** 2 for one in logs) + 0.25) / count)
    steps = [-2.5 + 0.5 * k for k in range(11)]
    weights = [math.exp(-step * step / 2) for step in steps]
    chances = []
    for one, length in zip(logs, lengths, strict=True):
        for step, weight in zip(steps, weights, strict=True):
            amount = math.exp(one + 0.5 * spread * count**-0.2 * step)
            amount = amount if math.isnan(asked) else min(amount, max(asked, most))
            chances.append((amount, weight / sum(weights) / count, weight / sum(weights) * length / sum(lengths)))
    again = asked if asked >= most else 2.0 * most
    costs = []
    for request in sorted({amount for amount, _, _ in chances}):
        if sum(tasks for amount, tasks, _ in chances if amount > request) <= risk + 1e-9:
            costs.append((request + again * sum(hours for amount, _, hours in chances if amount > request), request))
    return min(costs)[1]


def share_for_new(shares: Sequence[float], risk: float) -> float:
    """Return the cheapest share of the request that a new kind of job exceeds with probability `risk` at most. The new
    kind counts as one more kind besides the kinds in `shares`."""
    found = []
    for share in set(shares):
        outgrown = (1 + sum(one > share for one in shares)) / (1 + len(shares))
        if outgrown <= 2.0 * min(risk, 0.05) + 1e-9:
            found.append((share + outgrown, min(share, 1.0)))
    return min(found)[1] if found else math.nan


def namesakes(log: Trace, row: int) -> list[int]:
    """Return the rows of the same user, name and processors that had ended and were measured when `row` was
    submitted."""
    name, user = log.nominal("job_name").decode(), log.nominal("user_id").decode()
    ends, size = log.submit_time + log.wait_time + log.run_time, log.procs("req")
    kind = [(name[k], user[k], size[k]) for k in range(len(log))]
    return [k for k in range(len(log)) if kind[k] == kind[row] and ends[k] <= log.submit_time[row]]


def memory_log(jobs: int, seed: int, per_node: bool = False) -> Trace:
    """A log of users with habits that has requested and used memory; some requests are far too large, some far too
    small."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 6, jobs)
    app = rng.integers(0, 3, jobs)
    usual = 2.0 ** (7 + (3 * user + app) % 7)
    used = np.maximum(usual * rng.lognormal(0.0, 0.15, jobs), 1.0) * 1024.0
    asked = 1024.0 * usual * np.where(user == 0, 0.9, 4.0)
    out = (used > asked) & (rng.random(jobs) < 0.8)
    run = np.round(rng.uniform(600, 7200, jobs)) + 0.25
    columns = {
        "submit_time": np.cumsum(rng.integers(60, 1200, jobs)) * 1.0,
        "wait_time": rng.integers(0, 600, jobs) + 0.5,
        "run_time": run,
        "req_procs": np.full(jobs, 4.0),
        "alloc_procs": np.full(jobs, 4.0),
        "req_time": np.full(jobs, 7200.0) + 3600.0 * app,
        "user_id": [f"user{u}" for u in user],
        "job_name": [f"case_{a}" for a in app],
        "req_mem_kib": asked,
        "used_mem_kib": np.where(out, np.minimum(used, asked), used),
        "status": np.where(out, "out_of_memory", "completed").tolist(),
    }
    if per_node:
        columns |= {"req_nodes": np.ones(jobs), "alloc_nodes": np.ones(jobs)}
    return Trace.from_arrays(columns)


def limit_by_namesakes(log: Trace, row: int, risk: float) -> float:
    """Return the limit in seconds that follows from jobs of the same user, name and size; NaN if too few had ended for
    `risk`, or if their run times differ too much.

    A job that reached its limit counts as needing twice the limit. A running job that has run longer than half of the
    ended jobs counts as needing twice its time so far, at most the request of `row`. The limit is chosen so that at
    most the share `risk` of these jobs and the next job needs more; a quarter is added, up to the request of `row`.
    """
    name, user, size = log.nominal("job_name").decode(), log.nominal("user_id").decode(), log.procs("req")
    now, asked = log.submit_time[row], float(log.req_time[row])
    kind = [k for k in range(len(log)) if (name[k], user[k], size[k]) == (name[row], user[row], size[row])]
    start = log.submit_time + log.wait_time
    end = start + log.run_time
    ended = sorted((k for k in kind if end[k] <= now), key=lambda k: float(end[k]))[-100:]
    needs = [float(2 * log.run_time[k] if log.run_time[k] >= log.req_time[k] else log.run_time[k]) for k in ended]
    if len(needs) < max(1 / risk - 1, 3) or np.log(needs).std() > 0.75:
        return math.nan
    middle = float(np.median(needs))
    needs += [min(2 * (now - start[k]), asked) for k in kind if start[k] < now < end[k] and now - start[k] > middle]
    enough = [need for need in needs if 1 + sum(other > need for other in needs) <= risk * (len(needs) + 1) + 1e-9]
    need = max(cheapest(needs, [1.0] * len(needs), asked, risk), min(enough))
    return need if need >= asked else min(1.25 * need, asked)


def keeps_its_limit(log: Trace, row: int, risk: float, bound: np.ndarray) -> bool:
    """Return whether a job keeps its limit: fewer than three jobs of its kind had ended, and of the last hundred ended
    jobs that were new in this way (plus one), more than the share 2 `risk` exceeded their `bound` within their own
    limits."""
    name, user, size = log.nominal("job_name").decode(), log.nominal("user_id").decode(), log.procs("req")
    end = log.submit_time + log.wait_time + log.run_time

    def is_new(job: int) -> bool:
        kind = [k for k in range(len(log)) if (name[k], user[k], size[k]) == (name[job], user[job], size[job])]
        return sum(end[k] <= log.submit_time[job] for k in kind) < 3

    ended = sorted((k for k in range(len(log)) if end[k] <= log.submit_time[row]), key=lambda k: float(end[k]))
    missed = [bound[k] < log.run_time[k] < log.req_time[k] for k in ended if is_new(k)][-100:]
    return is_new(row) and (1 + sum(missed)) / (1 + len(missed)) > 2 * risk + 1e-9
