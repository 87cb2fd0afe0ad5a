"""select/cons_tres: where a job's tasks go, and what they hold there."""

from __future__ import annotations

from ...compiled import kernel
from .arrays import FREED, NONE, POOL, TAKEN, Jobs, Site, State


@kernel
def wanted_memory(site: Site, jobs: Jobs, j: int, part: int) -> tuple[float, float]:
    """MiB a node and MiB a processor that the job is taken to ask for; -1 where not, 0 a node is all of it."""
    if jobs.row[j].mem_node >= 0 or jobs.row[j].mem_cpu >= 0:
        return jobs.row[j].mem_node, jobs.row[j].mem_cpu
    return site.part[part].mem_node, site.part[part].mem_cpu


@kernel
def most_nodes(site: Site, jobs: Jobs, j: int) -> int:
    """Nodes that the job may take at most: no more than it has tasks."""
    everyone = len(site.node)
    most = min(jobs.row[j].max_nodes if jobs.row[j].max_nodes > 0 else everyone, everyone)
    tasks = max(jobs.row[j].tasks, jobs.row[j].per_node * jobs.row[j].min_nodes)
    return max(min(most, tasks), jobs.row[j].min_nodes) if tasks > 0 else most


@kernel
def available(site: Site, jobs: Jobs, s: State, j: int, part: int, i: int, simulated: int, most: int) -> int:
    """Processors the job could take on node i, beside those that run (or beside what `will_run` left there)."""
    if jobs.row[j].features & ~site.node[i].features:
        return 0
    for g in range(site.gres.shape[1]):
        used = s.tmp_gres[i, g] if simulated else s.used_gres[i, g]
        if jobs.gres[j, g] > site.gres[i, g] - used:
            return 0
    if (s.node[i].tmp_exclusive if simulated else s.node[i].exclusive_jobs) > 0:
        return 0
    if jobs.row[j].exclusive and (s.node[i].tmp_jobs if simulated else s.node[i].node_jobs) > 0:
        return 0
    free = site.node[i].cpus - (s.node[i].tmp_cpus if simulated else s.node[i].used_cpus)
    spare = site.node[i].memory - (s.node[i].tmp_memory if simulated else s.node[i].used_memory)
    per_node, per_cpu = wanted_memory(site, jobs, j, part)
    if (per_node == 0 and spare < site.node[i].memory) or per_node > spare:
        return 0
    if per_cpu > 0 and free * per_cpu > spare:
        free = int(spare // per_cpu)
    if jobs.row[j].exclusive:
        return free if free == site.node[i].cpus else 0
    tasks = free // jobs.row[j].per_task
    least = jobs.row[j].per_node
    if least == 0:
        least = max(jobs.row[j].tasks, 1) if most == 1 else 1
    if tasks < least:
        return 0
    asks = 0
    for g in range(site.gres.shape[1]):
        asks += jobs.gres[j, g]
    if (
        asks > 0 and jobs.row[j].tasks > 0
    ):  # with gres only the processors of the tasks that the node would run are counted
        one = jobs.row[j].tasks == 1 or (
            jobs.row[j].tasks == jobs.row[j].min_nodes and jobs.row[j].tasks == jobs.row[j].max_nodes
        )
        few = jobs.row[j].per_node if jobs.row[j].per_node > 0 else (1 if one else jobs.row[j].tasks)
        tasks = min(tasks, few)
    elif asks > 0 and jobs.row[j].per_node > 0:
        tasks = min(tasks, jobs.row[j].per_node)
    return int(tasks * jobs.row[j].per_task)


@kernel
def place(site: Site, jobs: Jobs, s: State, j: int, part: int, words: int, simulated: int) -> bool:
    """Choose nodes of `s.mask` (what `words` says: 0 mask, 1 seen) for the job: `s.taken`, `s.asks` in order chosen.

    The best set of neighbours is taken first; while that fails, the poorest nodes are left out and it is tried again.
    """
    most = most_nodes(site, jobs, j)
    total, richest, nodes = 0, 0, 0
    for k in range(site.part[part].first, site.part[part + 1].first):
        i = site.members[k]
        word = s.word[i >> 6].mask if words == 0 else s.word[i >> 6].seen
        s.node[i].free = 0
        if word >> (i & 63) & 1:
            s.node[i].free = available(site, jobs, s, j, part, i, simulated, most)
            if s.node[i].free > 0:
                total += s.node[i].free
                nodes += 1
                richest = max(richest, s.node[i].free)
    if total < jobs.row[j].cpus or nodes < jobs.row[j].min_nodes:
        return False
    for least in range(richest):
        changed = least == 0
        for k in range(site.part[part].first, site.part[part + 1].first):
            i = site.members[k]
            if 0 < s.node[i].free <= least:
                s.node[i].free = 0
                changed = True
        if changed and choose(site, jobs, s, j, part, most):
            spread(site, jobs, s, j)
            return True
    return False


@kernel
def choose(site: Site, jobs: Jobs, s: State, j: int, part: int, most: int) -> bool:
    """Sets of neighbours of one weight: the tightest that suffices, else the largest, until there is enough."""
    sets, last = 0, -2
    for k in range(site.part[part].first, site.part[part + 1].first):
        i = site.members[k]
        if s.node[i].free == 0:
            continue
        if i != last + 1 or site.node[i].weight != site.node[last].weight:
            s.node[sets].set_from = i
            s.node[sets].set_cpus = s.node[sets].set_nodes = 0
            sets += 1
        last = i
        s.node[sets - 1].set_to = i
        s.node[sets - 1].set_cpus += s.node[i].free
        s.node[sets - 1].set_nodes += 1
    cpus, nodes, count = jobs.row[j].cpus, max(jobs.row[j].min_nodes, jobs.row[j].max_nodes, 1), 0
    while most > 0:
        best, sufficient = NONE, False
        for q in range(sets):
            if s.node[q].set_nodes == 0:
                continue
            enough = s.node[q].set_cpus >= cpus and s.node[q].set_nodes >= nodes
            if best == NONE:
                better = True
            else:
                lighter = site.node[s.node[q].set_from].weight - site.node[s.node[best].set_from].weight
                size, held = s.node[q].set_cpus, s.node[best].set_cpus
                fits = enough and (not sufficient or size < held)
                better = lighter < 0 or (lighter == 0 and (fits or (not enough and size > held)))
            if better:
                best, sufficient = q, enough
        if best == NONE:
            return False
        only = NONE
        if nodes <= 1:
            for i in range(s.node[best].set_from, s.node[best].set_to + 1):
                if s.node[i].free >= cpus and (only == NONE or s.node[i].free < s.node[only].free):
                    only = i
        for i in range(s.node[best].set_from, s.node[best].set_to + 1):
            if most == 0 or (nodes <= 0 and cpus <= 0):
                break
            if (only != NONE and i != only) or (most == 1 and s.node[i].free < cpus):
                continue
            s.node[count].chosen = i
            count += 1
            cpus -= s.node[i].free
            nodes -= 1
            most -= 1
        s.node[best].set_nodes = 0
        if nodes <= 0 and cpus <= 0:
            s.reg[TAKEN] = count
            return True
    return False


@kernel
def spread(site: Site, jobs: Jobs, s: State, j: int) -> None:
    """Processors on each chosen node: filled in the order chosen, one kept for each node still needed."""
    left, count = jobs.row[j].cpus, int(s.reg[TAKEN])
    for k in range(count):
        i = s.node[k].chosen
        s.node[k].taken = i
        if jobs.row[j].exclusive:
            s.node[k].asks = site.node[i].cpus
        elif jobs.row[j].tasks == 0 or jobs.row[j].per_node > 0:
            s.node[k].asks = max(jobs.row[j].per_node, 1) * jobs.row[j].per_task
        else:
            s.node[k].asks = max(
                min(s.node[i].free, left - max(jobs.row[j].min_nodes - k - 1, 0)), jobs.row[j].per_task
            )
            left -= s.node[k].asks


@kernel
def allocate(site: Site, jobs: Jobs, s: State, j: int, part: int) -> None:
    """Hold the taken nodes for a job that starts."""
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
        s.node[i].used_cpus += cpus
        s.node[i].used_memory += memory
        s.node[i].node_jobs += 1
        s.node[i].exclusive_jobs += jobs.row[j].exclusive
        for g in range(site.gres.shape[1]):
            s.used_gres[i, g] += jobs.gres[j, g]


@kernel
def give_back(site: Site, jobs: Jobs, s: State, j: int, simulated: int) -> None:
    """What a job holds is free again: for good, or in `will_run`'s simulation only."""
    entry = s.job[j].head
    while entry != NONE:
        i, following = s.pool[entry].node, s.pool[entry].next
        if simulated:
            s.node[i].tmp_cpus -= s.pool[entry].cpus
            s.node[i].tmp_memory -= s.pool[entry].memory
            s.node[i].tmp_jobs -= 1
            s.node[i].tmp_exclusive -= jobs.row[j].exclusive
            for g in range(site.gres.shape[1]):
                s.tmp_gres[i, g] -= jobs.gres[j, g]
        else:
            s.node[i].used_cpus -= s.pool[entry].cpus
            s.node[i].used_memory -= s.pool[entry].memory
            s.node[i].node_jobs -= 1
            s.node[i].exclusive_jobs -= jobs.row[j].exclusive
            for g in range(site.gres.shape[1]):
                s.used_gres[i, g] -= jobs.gres[j, g]
            s.pool[entry].next = int(s.reg[FREED])
            s.reg[FREED] = entry
        entry = following
    if not simulated:
        s.job[j].head = NONE


@kernel
def holds_any(s: State, j: int) -> bool:
    """Whether a running job has a node in `s.seen`."""
    entry = s.job[j].head
    while entry != NONE:
        i = s.pool[entry].node
        if s.word[i >> 6].seen >> (i & 63) & 1:
            return True
        entry = s.pool[entry].next
    return False
