# SPDX-License-Identifier: Apache-2.0
"""Starts and ends jobs in the simulated Slurm: allocations, counts for limits, running jobs, and the heap of events."""

from __future__ import annotations

from ...compiled import inner
from .arrays import DONE, END, IDLE, NONE, RUNNING, Jobs, Rules, Site, State
from .place import wanted_memory
from .policy import count, held_of, taken_cpus
from .priority import charge


@inner
def push(s: State, time: float, kind: int, item: int) -> None:
    """Push an event onto the heap."""
    k = int(s.reg[0].heap)
    s.reg[0].heap += 1
    while k > 0 and s.heap[(k - 1) >> 1].time > time:
        up = (k - 1) >> 1
        s.heap[k].time, s.heap[k].kind, s.heap[k].what = s.heap[up].time, s.heap[up].kind, s.heap[up].what
        k = up
    s.heap[k].time, s.heap[k].kind, s.heap[k].what = time, kind, item


@inner
def pop(s: State) -> None:
    """Remove the earliest event."""
    s.reg[0].heap -= 1
    n = int(s.reg[0].heap)
    time, kind, item, k = s.heap[n].time, s.heap[n].kind, s.heap[n].what, 0
    while 2 * k + 1 < n:
        down = 2 * k + 1
        if down + 1 < n and s.heap[down + 1].time < s.heap[down].time:
            down += 1
        if s.heap[down].time >= time:
            break
        s.heap[k].time, s.heap[k].kind, s.heap[k].what = s.heap[down].time, s.heap[down].kind, s.heap[down].what
        k = down
    s.heap[k].time, s.heap[k].kind, s.heap[k].what = time, kind, item


@inner
def allocate(site: Site, jobs: Jobs, s: State, j: int, part: int, end: float) -> None:
    """Allocate the chosen nodes to a job that is planned to end at `end`."""
    per_node, per_cpu = wanted_memory(site, jobs, j, part)
    s.job[j].head = NONE
    for k in range(int(s.reg[0].taken)):
        i, cpus = s.node[k].taken, s.node[k].asks
        entry = int(s.reg[0].freed)
        if entry != NONE:
            s.reg[0].freed = s.pool[entry].next
        else:
            entry = int(s.reg[0].pool)
            s.reg[0].pool += 1
        memory = site.node[i].memory if per_node == 0 else max(per_node, 0.0)
        if per_node < 0 and per_cpu > 0:
            memory = per_cpu * cpus
        s.pool[entry].node, s.pool[entry].cpus, s.pool[entry].memory = i, cpus, memory
        s.pool[entry].next = s.job[j].head
        s.job[j].head = entry
        s.pool[entry].job, s.pool[entry].end = j, end
        list_by_end(s, i, entry)
        s.node[i].used_cpus += cpus
        s.node[i].used_memory += memory
        s.node[i].node_jobs += 1
        s.node[i].exclusive_jobs += jobs.row[j].exclusive
        for g in range(site.gres.shape[1]):
            s.used_gres[i, g] += jobs.gres[j, g]
        if s.node[i].exclusive_jobs > 0 or s.node[i].used_cpus >= site.node[i].cpus:
            s.bits[IDLE, i >> 6] &= ~(1 << (i & 63))


@inner
def give_back(site: Site, jobs: Jobs, s: State, j: int) -> None:
    """Release the nodes that are allocated to a job."""
    entry = s.job[j].head
    while entry != NONE:
        i, following = s.pool[entry].node, s.pool[entry].next
        s.node[i].used_cpus -= s.pool[entry].cpus
        s.node[i].used_memory -= s.pool[entry].memory
        s.node[i].node_jobs -= 1
        s.node[i].exclusive_jobs -= jobs.row[j].exclusive
        for g in range(site.gres.shape[1]):
            s.used_gres[i, g] -= jobs.gres[j, g]
        if s.node[i].exclusive_jobs == 0 and s.node[i].used_cpus < site.node[i].cpus:
            s.bits[IDLE, i >> 6] |= 1 << (i & 63)
        unlist(s, i, entry)
        s.pool[entry].next = int(s.reg[0].freed)
        s.reg[0].freed = entry
        entry = following
    s.job[j].head = NONE
    s.reg[0].grown += 1


@inner
def list_by_end(s: State, i: int, entry: int) -> None:
    """Insert a job's allocation on node i into the node's list, by planned end."""
    last, k = NONE, s.node[i].head
    while k != NONE and s.pool[k].end < s.pool[entry].end:
        last, k = k, s.pool[k].beside
    s.pool[entry].beside = k
    if last == NONE:
        s.node[i].head = entry
    else:
        s.pool[last].beside = entry


@inner
def unlist(s: State, i: int, entry: int) -> None:
    """Remove a job's allocation from the list of node i."""
    last, k = NONE, s.node[i].head
    while k != entry:
        last, k = k, s.pool[k].beside
    if last == NONE:
        s.node[i].head = s.pool[entry].beside
    else:
        s.pool[last].beside = s.pool[entry].beside


@inner
def start_job(site: Site, jobs: Jobs, s: State, j: int, part: int, now: float, when: float, backfilled: int) -> None:
    """Start the job on the nodes that `place` chose."""
    end = when + held_of(site, jobs, j, part)
    allocate(site, jobs, s, j, part, end)
    s.job[j].start, s.job[j].began, s.job[j].part, s.job[j].backfilled = when, now, part, backfilled
    run_order(s, j, end)
    s.job[j].ended, s.job[j].due, s.job[j].first_out = 0.0, now + jobs.row[j].run, int(s.reg[0].out)
    if not s.job[j].ending:  # else the heap still has the end of a preempted run, whose event pushes this end
        s.job[j].ending = 1
        push(s, s.job[j].due, END, j)
    s.reg[0].dirty = 1
    count(site, jobs, s, j, part, taken_cpus(s), s.reg[0].taken, 1)
    for k in range(int(s.reg[0].taken)):
        row = int(s.reg[0].out)
        if row < len(s.out):
            s.out[row].job, s.out[row].node, s.out[row].cpus = j, s.node[k].taken, s.node[k].asks
            s.reg[0].out += 1


@inner
def finish(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, at: float) -> None:
    """End a running job."""
    cpus, nodes, entry = 0.0, 0.0, s.job[j].head
    while entry != NONE:
        cpus += s.pool[entry].cpus
        nodes += 1
        entry = s.pool[entry].next
    if rules.multifactor:
        charge(site, jobs, rules, s, j, s.reg[0].prio_now, at)
    count(site, jobs, s, j, int(s.job[j].part), cpus, nodes, -1)
    give_back(site, jobs, s, j)
    stop_order(s, j)
    s.job[j].status, s.job[j].ended = DONE, at


@inner
def run_order(s: State, j: int, end: float) -> None:
    """Insert a started job into the running jobs, by planned end."""
    k = int(s.reg[0].running)
    s.reg[0].running += 1
    while k > 0 and (s.active[k - 1].end > end or (s.active[k - 1].end == end and s.active[k - 1].job > j)):
        s.active[k].job, s.active[k].end = s.active[k - 1].job, s.active[k - 1].end
        s.job[s.active[k].job].place = k
        k -= 1
    s.active[k].job, s.active[k].end = j, end
    s.job[j].place = k
    s.job[j].status, s.job[j].planned = RUNNING, end


@inner
def stop_order(s: State, j: int) -> None:
    """Remove a job from the running jobs."""
    s.reg[0].running -= 1
    for k in range(s.job[j].place, int(s.reg[0].running)):
        s.active[k].job, s.active[k].end = s.active[k + 1].job, s.active[k + 1].end
        s.job[s.active[k].job].place = k
