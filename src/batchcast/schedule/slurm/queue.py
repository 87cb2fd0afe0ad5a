# SPDX-License-Identifier: Apache-2.0
"""The queue: pairs of job and partition in Slurm's order."""

from __future__ import annotations

from ...compiled import inner
from .arrays import FIRST, NONE, QUEUE, QUEUED, Jobs, Rules, Site, State
from .priority import priority


@inner
def comes_before(
    jobs: Jobs, s: State, tier: int, order: float, job: int, other_tier: int, other_order: float, other: int
) -> bool:
    """Whether one queued pair comes before another: who may preempt by QOS, tier, priority, submission, task."""
    if jobs.row[job].preempts >> jobs.row[other].qos & 1:
        return True
    if jobs.row[other].preempts >> jobs.row[job].qos & 1:
        return False
    if tier != other_tier:
        return tier < other_tier
    if order != other_order:
        return order < other_order
    x, y = s.group_sequence[jobs.row[job].group], s.group_sequence[jobs.row[other].group]
    if x != y:
        return bool(x < y)
    if jobs.row[job].task != jobs.row[other].task:
        return bool(jobs.row[job].task < jobs.row[other].task)
    return job < other


@inner
def before(jobs: Jobs, s: State, a: int, b: int) -> bool:
    """Whether the pair at place a comes before the pair at b."""
    x, y = s.queue[a], s.queue[b]
    return comes_before(jobs, s, x.tier, x.order, x.job, y.tier, y.order, y.job)


@inner
def swap(s: State, a: int, b: int) -> None:
    """Exchange two queued pairs."""
    s.queue[a].job, s.queue[b].job = s.queue[b].job, s.queue[a].job
    s.queue[a].part, s.queue[b].part = s.queue[b].part, s.queue[a].part
    s.queue[a].tier, s.queue[b].tier = s.queue[b].tier, s.queue[a].tier
    s.queue[a].order, s.queue[b].order = s.queue[b].order, s.queue[a].order


@inner
def sink(jobs: Jobs, s: State, k: int) -> None:
    """Move the pair at k forward to its place among those before it."""
    while k > s.reg[FIRST] and before(jobs, s, k, k - 1):
        swap(s, k, k - 1)
        k -= 1


@inner
def enqueue(site: Site, jobs: Jobs, rules: Rules, s: State, j: int) -> None:
    """One pair for each partition of the job, each in its place."""
    if s.reg[QUEUE] + len(site.part) > len(s.queue):
        compact(s, j)
    for part in range(len(site.part) - 1):
        if jobs.row[j].partitions >> part & 1:
            k = int(s.reg[QUEUE])
            s.reg[QUEUE] += 1
            s.queue[k].job, s.queue[k].part = j, part
            s.queue[k].tier = -site.part[part].tier
            s.queue[k].order = -priority(site, jobs, rules, s, j, part)
            sink(jobs, s, k)


@inner
def compact(s: State, without: int) -> None:
    """Drop pairs of jobs that wait no more, and of `without`; the queue begins at the array's begin again."""
    kept = 0
    for k in range(int(s.reg[FIRST]), int(s.reg[QUEUE])):
        j = s.queue[k].job
        if s.job[j].status == QUEUED and j != without:
            if kept != k:
                move(s, k, kept)
            kept += 1
    s.reg[FIRST], s.reg[QUEUE] = 0, kept


@inner
def compact_until(s: State, end: int) -> None:
    """Drop pairs of jobs that wait no more before place `end`: those before them move up, the tail stays."""
    kept = end
    for k in range(end - 1, int(s.reg[FIRST]) - 1, -1):
        if s.job[s.queue[k].job].status == QUEUED:
            kept -= 1
            if kept != k:
                move(s, k, kept)
    s.reg[FIRST] = kept


@inner
def trim(s: State) -> None:
    """Drop what waits no more from the queue's begin."""
    k, end = int(s.reg[FIRST]), int(s.reg[QUEUE])
    while k < end and s.job[s.queue[k].job].status != QUEUED:
        k += 1
    s.reg[FIRST] = k


@inner
def move(s: State, a: int, b: int) -> None:
    """Copy a queued pair."""
    s.queue[b].job, s.queue[b].part = s.queue[a].job, s.queue[a].part
    s.queue[b].tier, s.queue[b].order = s.queue[a].tier, s.queue[a].order


@inner
def recompute(site: Site, jobs: Jobs, rules: Rules, s: State) -> None:
    """Every queued pair's priority anew, and the queue in its order."""
    compact(s, NONE)
    for k in range(int(s.reg[QUEUE])):
        s.queue[k].order = -priority(site, jobs, rules, s, s.queue[k].job, s.queue[k].part)
    sort(jobs, s)


@inner
def sort(jobs: Jobs, s: State) -> None:
    """Merge sorted runs, from runs of 16 on: stable, and cheap where little has changed its place."""
    n, width = int(s.reg[QUEUE]), 16
    for k in range(n):
        m = k
        while m % width and before(jobs, s, m, m - 1):
            swap(s, m, m - 1)
            m -= 1
    while width < n:
        for low in range(0, n - width, 2 * width):
            merge(jobs, s, low, low + width, min(low + 2 * width, n))
        width *= 2


@inner
def merge(jobs: Jobs, s: State, low: int, middle: int, high: int) -> None:
    """Two sorted neighbours become one; the first waits in `spare` meanwhile."""
    if not before(jobs, s, middle, middle - 1):
        return
    for k in range(low, middle):
        s.spare[k - low] = s.queue[k]
    a, b, size = 0, middle, middle - low
    for k in range(low, high):
        if a == size:
            return
        if b < high:
            later = s.queue[b]
            first = s.spare[a]
            if comes_before(jobs, s, later.tier, later.order, later.job, first.tier, first.order, first.job):
                move(s, b, k)
                b += 1
                continue
        s.queue[k] = s.spare[a]
        a += 1
