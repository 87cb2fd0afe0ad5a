"""What jobs hold of the nodes: taken when they start, given back when they end."""

from __future__ import annotations

from ...compiled import inner
from .arrays import FREED, GROWN, IDLE, NONE, POOL, TAKEN, Jobs, Site, State
from .place import wanted_memory


@inner
def allocate(site: Site, jobs: Jobs, s: State, j: int, part: int, end: float) -> None:
    """Hold the taken nodes for a job that starts and is planned to end at `end`."""
    per_node, per_cpu = wanted_memory(site, jobs, j, part)
    s.job[j].head = NONE
    for k in range(int(s.reg[TAKEN])):
        i, cpus = s.node[k].taken, s.node[k].asks
        entry = int(s.reg[FREED])
        if entry != NONE:
            s.reg[FREED] = s.pool[entry].next
        else:
            entry = int(s.reg[POOL])
            s.reg[POOL] += 1
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
    """What a job holds is free again."""
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
        s.pool[entry].next = int(s.reg[FREED])
        s.reg[FREED] = entry
        entry = following
    s.job[j].head = NONE
    s.reg[GROWN] += 1


@inner
def list_by_end(s: State, i: int, entry: int) -> None:
    """Put what a job holds of node i into the node's list."""
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
    """Take it out again."""
    last, k = NONE, s.node[i].head
    while k != entry:
        last, k = k, s.pool[k].beside
    if last == NONE:
        s.node[i].head = s.pool[entry].beside
    else:
        s.pool[last].beside = s.pool[entry].beside
