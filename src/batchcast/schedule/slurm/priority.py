# SPDX-License-Identifier: Apache-2.0
"""Computes priorities like Slurm's multifactor plugin with Fair Tree, and sorts the queue by priority."""

from __future__ import annotations

from typing import Any

from ...compiled import inner, kernel
from ...compiled.arrays import Record
from .arrays import INFINITE, NONE, QUEUED, Jobs, Rules, Site, State
from .policy import MEMORY, amount


@inner
def priority(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int) -> float:
    """Return the priority: with priority/basic the order of submission minus nice, else the truncated weighted sum."""
    if not rules.multifactor:
        return float(-s.group_sequence[jobs.row[j].group] - jobs.row[j].nice)
    # Ages count up to the last PriorityCalcPeriod, because slurmctld compares stored priorities.
    now = s.reg[0].prio_now
    waited = max(now - s.job[j].accrued, 0.0) if s.job[j].accrued < INFINITE else 0.0
    age = min(waited / rules.max_age, 1.0)
    size = (jobs.row[j].min_nodes / len(site.node) + s.job[j].sized / rules.machine_cpus) / 2
    fair = s.assoc[jobs.row[j].assoc].fair if jobs.row[j].assoc != NONE else 0.0
    of_job = rules.w_age * age + rules.w_fairshare * fair + rules.w_jobsize * size
    total = of_job + rules.w_partition * site.part[part].factor + rules.w_qos * site.qos[jobs.row[j].qos].factor
    for k in range(len(site.tres_weight)):
        if site.tres_weight[k] > 0 and site.part_tres[part, k] > 0:
            asks = amount(site, jobs, j, part, k, s.job[j].sized, float(jobs.row[j].min_nodes))
            if k == MEMORY and asks == 0:  # without a memory request, the nodes' whole memory counts
                asks = site.node[site.members[site.part[part].first]].memory * jobs.row[j].min_nodes
            total += site.tres_weight[k] * (asks / site.part_tres[part, k])
    return float(int(total) - jobs.row[j].nice)


@inner
def decay_usage(site: Site, jobs: Jobs, rules: Rules, s: State, last: float, now: float) -> None:
    """Decay the usage of associations by the half-life, and add the processor-seconds since the time `last`."""
    # Slurm uses this approximation of 2 ** (-1 / half-life) as its decay factor per second.
    keep = 1 - 0.693 / rules.half_life
    for a in range(len(site.assoc)):
        # `recent` has the usage of jobs that have ended since the last update.
        s.assoc[a].usage = s.assoc[a].usage * keep ** (now - last) + s.assoc[a].recent
        s.assoc[a].recent = 0.0
    for k in range(int(s.reg[0].running)):
        charge(site, jobs, rules, s, s.active[k].job, last, now)
    for a in range(len(site.assoc)):
        s.assoc[a].usage += s.assoc[a].recent
        s.assoc[a].recent = 0.0


@inner
def charge(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, last: float, until: float) -> None:
    """Add what a job used since the time `last` to its association's recent usage, which the next update includes."""
    span = until - max(s.job[j].began, last)
    if span <= 0 or jobs.row[j].assoc == NONE:
        return
    part, billed, entry = int(s.job[j].part), 0.0, s.job[j].head
    while entry != NONE:
        billed += site.billing[part, 0] * s.pool[entry].cpus + site.billing[part, 1]
        billed += site.billing[part, 2] * s.pool[entry].memory
        for g in range(site.gres.shape[1]):
            billed += site.billing[part, 3 + g] * jobs.gres[j, g]
        entry = s.pool[entry].next
    # Slurm decays the whole span, as if all of it had been used at its beginning.
    s.assoc[jobs.row[j].assoc].recent += span * (1 - 0.693 / rules.half_life) ** span * billed


@kernel
def fair_tree(site: Site, s: State) -> None:
    """Rank users depth first by level: (share / siblings' shares) / (usage / siblings' usage).

    Accounts of equal level are visited together; users of equal level share a rank. The fair-share factor is rank /
    users.
    """
    count, users = len(site.assoc), 0
    for a in range(count):
        s.assoc[a].level = s.assoc[a].usage
        users += site.assoc[a].is_user
    for a in range(count):  # the usage of an account is the sum of its users' usage
        if site.assoc[a].is_user:
            b = site.assoc[a].parent
            while b != NONE:
                s.assoc[b].level += s.assoc[a].usage
                b = site.assoc[b].parent
    for a in range(count):
        everyone = 0.0
        for b in range(count):
            if site.assoc[b].parent == site.assoc[a].parent:
                everyone += s.assoc[b].level
        level = s.assoc[a].level
        # An association without usage comes first.
        s.assoc[a].fair = INFINITE if level == 0 or everyone == 0 else site.assoc[a].share / (level / everyone)
    for a in range(count):
        s.assoc[a].level = s.assoc[a].fair
    ranked, depth, top = 0, 0, 0
    for a in range(count):
        if site.assoc[a].parent == NONE:
            top = put_children(site, s, a, 0, top)
    s.stack[0, 0], s.stack[0, 1] = 0, top
    while depth >= 0:
        k, end = s.stack[depth, 0], s.stack[depth, 1]
        if k >= end:
            depth -= 1
            continue
        tied = k
        while tied < end and s.assoc[s.assoc[tied].siblings].level == s.assoc[s.assoc[k].siblings].level:
            tied += 1
        s.stack[depth, 0] = tied
        rank, top = users - ranked, end
        for m in range(k, tied):
            a = s.assoc[m].siblings
            if site.assoc[a].is_user:
                s.assoc[a].fair = rank / users
                ranked += 1
        for m in range(k, tied):
            if not site.assoc[s.assoc[m].siblings].is_user:
                top = put_children(site, s, s.assoc[m].siblings, end, top)
        depth += 1
        s.stack[depth, 0], s.stack[depth, 1] = end, top


@inner
def put_children(site: Site, s: State, parent: int, begin: int, top: int) -> int:
    """Insert an association's children into `s.assoc[begin:top].siblings`, highest level first; return the new top."""
    for a in range(len(site.assoc)):
        if site.assoc[a].parent == parent:
            k = top
            while k > begin and s.assoc[s.assoc[k - 1].siblings].level < s.assoc[a].level:
                s.assoc[k].siblings = s.assoc[k - 1].siblings
                k -= 1
            s.assoc[k].siblings = a
            top += 1
    return top


@inner
def comes_before(jobs: Jobs, s: State, pair: Record, than: Record) -> bool:
    """Return whether a pair (job, partition) comes before the pair `than`: by QOS preemption, tier, priority,
    submission, task."""
    job, other = pair.job, than.job
    if jobs.row[job].preempts >> jobs.row[other].qos & 1:
        return True
    if jobs.row[other].preempts >> jobs.row[job].qos & 1:
        return False
    if pair.tier != than.tier or pair.order != than.order:
        return bool(pair.tier < than.tier or (pair.tier == than.tier and pair.order < than.order))
    mine = (s.group_sequence[jobs.row[job].group], jobs.row[job].task, job)
    return bool(mine < (s.group_sequence[jobs.row[other].group], jobs.row[other].task, other))


@inner
def sink(jobs: Jobs, s: State, k: int, first: int) -> None:
    """Move the pair at position k forward, at most to position `first`, until the pairs from `first` to k are in
    order."""
    s.spare[0] = s.queue[k]
    while k > first and comes_before(jobs, s, s.spare[0], s.queue[k - 1]):
        s.queue[k] = s.queue[k - 1]
        k -= 1
    s.queue[k] = s.spare[0]


@inner
def enqueue(site: Site, jobs: Jobs, rules: Rules, s: State, j: int) -> None:
    """Insert a pair (job, partition) into the queue for each partition of the job."""
    if s.reg[0].queue + len(site.part) > len(s.queue):
        compact(s, j)
    for part in range(len(site.part) - 1):
        if jobs.row[j].partitions >> part & 1:
            k = int(s.reg[0].queue)
            s.reg[0].queue += 1
            s.queue[k].job, s.queue[k].part = j, part
            # The queue is in ascending order, so higher tiers and priorities are stored as negative numbers.
            s.queue[k].tier = -site.part[part].tier
            s.queue[k].order = -priority(site, jobs, rules, s, j, part)
            sink(jobs, s, k, int(s.reg[0].first))


@inner
def compact(s: State, without: int) -> None:
    """Remove the pairs of jobs that do not wait and the pairs of the job `without`; the queue then begins at index
    0."""
    kept = 0
    for k in range(int(s.reg[0].first), int(s.reg[0].queue)):
        j = s.queue[k].job
        if s.job[j].status == QUEUED and j != without:
            s.queue[kept] = s.queue[k]
            kept += 1
    s.reg[0].first, s.reg[0].queue = 0, kept


@inner
def compact_until(s: State, end: int) -> None:
    """Remove the pairs of jobs that do not wait before position `end`; later pairs are not moved."""
    kept = end
    for k in range(end - 1, int(s.reg[0].first) - 1, -1):
        if s.job[s.queue[k].job].status == QUEUED:
            kept -= 1
            s.queue[kept] = s.queue[k]
    s.reg[0].first = kept


@inner
def trim(s: State) -> None:
    """Remove the pairs of jobs that do not wait from the beginning of the queue."""
    k, end = int(s.reg[0].first), int(s.reg[0].queue)
    while k < end and s.job[s.queue[k].job].status != QUEUED:
        k += 1
    s.reg[0].first = k


@inner
def recompute(site: Site, jobs: Jobs, rules: Rules, s: State) -> None:
    """Recompute the priority of every queued pair, and sort the queue."""
    compact(s, NONE)
    for k in range(int(s.reg[0].queue)):
        s.queue[k].order = -priority(site, jobs, rules, s, s.queue[k].job, s.queue[k].part)
    sort(jobs, s)


@kernel
def reprioritize(site: Site, jobs: Jobs, rules: Rules, s: State, updated: Any, now: float) -> None:
    """Recompute the priorities of the jobs in the mask `updated` (n,) as of now, and sort the queue.

    Slurm recomputes a job's priority at each update of the job, whatever the update changes. The age of an updated job
    then counts up to now, and the age of all other jobs up to the last PriorityCalcPeriod.
    """
    compact(s, NONE)
    last, s.reg[0].prio_now = s.reg[0].prio_now, now
    for k in range(int(s.reg[0].queue)):
        j = s.queue[k].job
        if updated[j]:
            s.queue[k].order = -priority(site, jobs, rules, s, j, s.queue[k].part)
    s.reg[0].prio_now = last
    sort(jobs, s)


@inner
def sort(jobs: Jobs, s: State) -> None:
    """Sort the queue by merging runs, beginning with runs of 16: stable, and fast if few pairs are out of order."""
    n, width = int(s.reg[0].queue), 16
    for k in range(n):
        sink(jobs, s, k, k - k % width)
    while width < n:
        for low in range(0, n - width, 2 * width):
            merge(jobs, s, low, low + width, min(low + 2 * width, n))
        width *= 2


@inner
def merge(jobs: Jobs, s: State, low: int, middle: int, high: int) -> None:
    """Merge two sorted neighbouring runs; `spare` holds a copy of the first."""
    # Both runs are in order already, which is usual if few priorities have changed.
    if not comes_before(jobs, s, s.queue[middle], s.queue[middle - 1]):
        return
    for k in range(low, middle):
        s.spare[k - low] = s.queue[k]
    a, b, size = 0, middle, middle - low
    for k in range(low, high):
        if a == size:
            return
        if b < high and comes_before(jobs, s, s.queue[b], s.spare[a]):
            s.queue[k] = s.queue[b]
            b += 1
        else:
            s.queue[k] = s.spare[a]
            a += 1
