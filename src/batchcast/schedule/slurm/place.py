# SPDX-License-Identifier: Apache-2.0
"""Chooses the nodes and processors of a job, like Slurm's select/cons_tres, now or when running jobs have ended.

Slurm's will-run test computes when a job could start if running jobs end as planned. It removes running jobs in groups
by their planned end.
"""

from __future__ import annotations

from ...compiled import inlined, inner
from ...compiled.arrays import bits, lowest
from .arrays import IDLE, MASK, NONE, RICH, SEEN, Jobs, Site, State


@inlined
def wanted_memory(site: Site, jobs: Jobs, j: int, part: int) -> tuple[float, float]:
    """Return the job's MiB per node and per processor; -1 means no request, 0 per node the node's whole memory."""
    if jobs.row[j].mem_node >= 0 or jobs.row[j].mem_cpu >= 0:
        return jobs.row[j].mem_node, jobs.row[j].mem_cpu
    return site.part[part].mem_node, site.part[part].mem_cpu


@inlined
def most_nodes(site: Site, jobs: Jobs, j: int) -> int:
    """Return the maximum number of nodes of the job, which is at most its number of tasks."""
    everyone = len(site.node)
    most = min(jobs.row[j].max_nodes if jobs.row[j].max_nodes > 0 else everyone, everyone)
    tasks = max(jobs.row[j].tasks, jobs.row[j].per_node * jobs.row[j].min_nodes)
    return max(min(most, tasks), jobs.row[j].min_nodes) if tasks > 0 else most


NOW, LATER, EMPTY = range(3)  # a node beside its running jobs, beside the jobs that `take_off` left, or without jobs


@inlined
def available(site: Site, jobs: Jobs, s: State, j: int, i: int, most: int, per: tuple[float, float], when: int) -> int:
    """Return the number of processors that the job could use on node i, NOW, LATER or if the node were EMPTY."""
    node, per_node, per_cpu = s.node[i], per[0], per[1]
    free, spare = site.node[i].cpus, site.node[i].memory
    if jobs.row[j].features & ~site.node[i].features:
        return 0
    if when != EMPTY:
        if (node.tmp_exclusive if when == LATER else node.exclusive_jobs) > 0:
            return 0
        if jobs.row[j].exclusive and (node.tmp_jobs if when == LATER else node.node_jobs) > 0:
            return 0
        free -= node.tmp_cpus if when == LATER else node.used_cpus
        spare -= node.tmp_memory if when == LATER else node.used_memory
    if jobs.row[j].any_gres:
        for g in range(site.gres.shape[1]):
            used = 0 if when == EMPTY else s.tmp_gres[i, g] if when == LATER else s.used_gres[i, g]
            if jobs.gres[j, g] > site.gres[i, g] - used:
                return 0
    # A request of 0 (--mem=0) means the node's whole memory.
    if (per_node == 0 and spare < site.node[i].memory) or per_node > spare:
        return 0
    if per_cpu > 0 and free * per_cpu > spare:
        free = int(spare // per_cpu)
    if jobs.row[j].exclusive:
        return free if free == site.node[i].cpus else 0
    tasks = free // jobs.row[j].per_task
    least = jobs.row[j].per_node
    if least == 0:
        # A job that may use only one node needs all its tasks there; otherwise one task per node is enough.
        least = max(jobs.row[j].tasks, 1) if most == 1 else 1
    if tasks < least:
        return 0
    if jobs.row[j].any_gres:  # with GRES, Slurm counts only the processors of the tasks that the node would run
        if jobs.row[j].per_node > 0:
            tasks = min(tasks, jobs.row[j].per_node)
        elif jobs.row[j].tasks > 0:
            one = jobs.row[j].tasks == 1 or jobs.row[j].tasks == jobs.row[j].min_nodes == jobs.row[j].max_nodes
            tasks = min(tasks, 1 if one else jobs.row[j].tasks)
    return int(tasks * jobs.row[j].per_task)


@inner
def survey(site: Site, jobs: Jobs, s: State, j: int, part: int, words: int, empty: int) -> None:
    """Compute the processors that the job could use on each node of the set `words`: now, or if the nodes were empty
    (`empty`)."""
    most, per = most_nodes(site, jobs, j), wanted_memory(site, jobs, j, part)
    total, nodes = 0, 0
    for w in range(s.bits.shape[1]):
        word = s.bits[words, w] & site.inside[part, w]
        if not empty:
            word &= s.bits[IDLE, w]
        rich = 0
        while word:
            i = (w << 6) + lowest(word)
            if empty:
                free = available(site, jobs, s, j, i, most, per, EMPTY)
            else:
                free = available(site, jobs, s, j, i, most, per, NOW)
            if free > 0:
                s.node[i].free = free
                total += free
                nodes += 1
                rich |= word & -word
            word &= word - 1
        s.bits[RICH, w] = rich
    s.reg[0].total, s.reg[0].count = total, nodes


@inner
def enough(site: Site, jobs: Jobs, s: State, j: int, part: int) -> bool:
    """Return whether the nodes SEEN would suffice for the job if they were empty; equal nodes are examined once."""
    most, per = most_nodes(site, jobs, j), wanted_memory(site, jobs, j, part)
    total, nodes = 0, 0
    for c in range(len(site.sample)):
        each = available(site, jobs, s, j, site.sample[c], most, per, EMPTY)
        if each > 0:
            for w in range(s.bits.shape[1]):
                here = bits(s.bits[SEEN, w] & site.alike[c, w])
                total += here * each
                nodes += here
            if total >= jobs.row[j].cpus and nodes >= jobs.row[j].min_nodes:
                return True
    return False


@inner
def choose_nodes(site: Site, jobs: Jobs, s: State, j: int, part: int, words: int, empty: int) -> bool:
    """Choose nodes of the set `words` for the job, beside running jobs or as if all nodes were empty; sets `allocated`
    and `asks`."""
    survey(site, jobs, s, j, part, words, empty)
    return pick(site, jobs, s, j, part)


@inner
def pick(site: Site, jobs: Jobs, s: State, j: int, part: int) -> bool:
    """Choose among the nodes whose usable processors were computed.

    The best set of neighbouring nodes is tried first. If that set is not sufficient, the nodes with the fewest
    processors are left out.
    """
    if s.reg[0].total < jobs.row[j].cpus or s.reg[0].count < jobs.row[j].min_nodes:
        return False
    count, richest, most = 0, 0, most_nodes(site, jobs, j)
    for w in range(s.bits.shape[1]):
        word = s.bits[RICH, w]
        while word:
            i = (w << 6) + lowest(word)
            s.node[count].listed = i
            s.node[i].trial = s.node[i].free
            richest = max(richest, s.node[i].free)
            count += 1
            word &= word - 1
    # Slurm leaves out small nodes step by step to avoid a knapsack problem: small nodes can use up the job's maximum
    # number of nodes before there are enough processors.
    for least in range(richest):
        changed = least == 0
        kept = 0
        for k in range(count):
            i = s.node[k].listed
            if s.node[i].trial <= least:
                s.node[i].trial = 0
                changed = True
            else:
                s.node[kept].listed = i
                kept += 1
        count = kept
        if not changed:
            continue
        by_load = site.part[part].loaded
        if choose_idle(site, jobs, s, j, most, count) if by_load else choose(site, jobs, s, j, most, count):
            spread(site, jobs, s, j)
            return True
    return False


@inner
def choose(site: Site, jobs: Jobs, s: State, j: int, most: int, listed: int) -> bool:
    """Choose sets of neighbours of equal weight: the smallest sufficient set, else the largest sets until their
    processors suffice."""
    # Slurm prefers nodes that follow each other in its table, because their positions usually reflect the network.
    sets, last = 0, -2
    for k in range(listed):
        i = s.node[k].listed
        if i != last + 1 or site.node[i].weight != site.node[last].weight:
            s.node[sets].set_from = i
            s.node[sets].set_cpus = s.node[sets].set_nodes = 0
            sets += 1
        last = i
        s.node[sets - 1].set_to = i
        s.node[sets - 1].set_cpus += s.node[i].trial
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
        # A request that fits on one node gets the node with the fewest sufficient processors, which leaves larger nodes
        # free.
        if nodes <= 1:
            for i in range(s.node[best].set_from, s.node[best].set_to + 1):
                if s.node[i].trial >= cpus and (only == NONE or s.node[i].trial < s.node[only].trial):
                    only = i
        for i in range(s.node[best].set_from, s.node[best].set_to + 1):
            if most == 0 or (nodes <= 0 and cpus <= 0):
                break
            if (only != NONE and i != only) or (most == 1 and s.node[i].trial < cpus):
                continue
            s.node[count].chosen = i
            count += 1
            cpus -= s.node[i].trial
            nodes -= 1
            most -= 1
        s.node[best].set_nodes = 0
        if nodes <= 0 and cpus <= 0:
            s.reg[0].allocated = count
            return True
    return False


@inner
def choose_idle(site: Site, jobs: Jobs, s: State, j: int, most: int, listed: int) -> bool:
    """Choose nodes one by one as with Slurm's CR_LLN: among nodes of the lowest weight, choose the node with the most
    free processors."""
    cpus, nodes, count = jobs.row[j].cpus, max(jobs.row[j].min_nodes, jobs.row[j].max_nodes, 1), 0
    while most > 0 and (nodes > 0 or cpus > 0):
        best = NONE
        for k in range(listed):
            i = s.node[k].listed
            if s.node[i].trial <= 0 or (most == 1 and s.node[i].trial < cpus):
                continue
            lighter = site.node[i].weight - site.node[best].weight
            if best == NONE or lighter < 0 or (lighter == 0 and s.node[i].trial > s.node[best].trial):
                best = i
        if best == NONE:
            break
        s.node[count].chosen = best
        count, cpus, nodes, most = count + 1, cpus - s.node[best].trial, nodes - 1, most - 1
        s.node[best].trial = -s.node[best].trial
    for k in range(count):
        s.node[s.node[k].chosen].trial = -s.node[s.node[k].chosen].trial
    s.reg[0].allocated = count
    return bool(nodes <= 0 and cpus <= 0)


@inner
def spread(site: Site, jobs: Jobs, s: State, j: int) -> None:
    """Distribute the job's processors over the chosen nodes in order, and leave at least one for each further node."""
    left, count = jobs.row[j].cpus, int(s.reg[0].allocated)
    for k in range(count):
        i = s.node[k].chosen
        s.node[k].allocated = i
        if jobs.row[j].exclusive:
            s.node[k].asks = site.node[i].cpus
        elif jobs.row[j].tasks == 0 or jobs.row[j].per_node > 0:
            s.node[k].asks = max(jobs.row[j].per_node, 1) * jobs.row[j].per_task
        else:
            most = left - max(jobs.row[j].min_nodes - k - 1, 0)
            s.node[k].asks = max(min(s.node[i].trial, most), jobs.row[j].per_task)
            left -= s.node[k].asks


KILL_WAIT = 5.0


@inlined
def cpus_by(site: Site, s: State, i: int, t: float, until: float) -> int:
    """Return the number of processors that are free on node i by `until` if running jobs end as planned."""
    free, entry = site.node[i].cpus - s.node[i].used_cpus, s.node[i].head
    if until >= t + KILL_WAIT:
        while entry != NONE and s.pool[entry].end <= until:
            free += s.pool[entry].cpus
            entry = s.pool[entry].next_on_node
    return int(free)


@inner
def first_after(s: State, t: float, at: float) -> int:
    """Return the position of the first running job that is planned to end after `at`."""
    if at < t + KILL_WAIT:
        return 0
    low, high = 0, int(s.reg[0].running)
    while low < high:
        middle = (low + high) >> 1
        if s.active[middle].end <= at:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def may_start(
    site: Site, jobs: Jobs, s: State, j: int, t: float, row: int, end: float, rise: int, later: float
) -> bool:
    """Return whether the job may start by `later` on MASK nodes without bookings in the records from `row` to `end`.

    `rise` is the index of the backfill table's record that contains the time `later`. The function does not check
    memory and sharing; `will_run` does. The function never rejects a job that can start, because `total`, the number of
    processors free by `later`, is never too small.
    """
    cpus, least = jobs.row[j].cpus, jobs.row[j].min_nodes
    each, features = max(jobs.row[j].per_node, 1) * jobs.row[j].per_task, jobs.row[j].features
    total, nodes = 0, 0
    for w in range(s.bits.shape[1]):
        word, k = s.bits[MASK, w] & s.slot_ready[rise, w], row
        while word and k != NONE and s.slot[k].begin <= end:
            word &= s.slot_free[k, w]
            k = s.slot[k].next
        while word:
            i = (w << 6) + lowest(word)
            word &= word - 1
            has_gres = not jobs.row[j].any_gres or gres_by(site, jobs, s, j, i, t, later)
            if features & ~site.node[i].features or not has_gres:
                continue
            free = cpus_by(site, s, i, t, later)
            if free >= (site.node[i].cpus if jobs.row[j].exclusive else each):
                total += free
                nodes += 1
                if total >= cpus and nodes >= least:
                    return True
    return False


@inner
def gres_by(site: Site, jobs: Jobs, s: State, j: int, i: int, t: float, until: float) -> bool:
    """Return whether node i has enough free GRES for the job by `until`."""
    for g in range(site.gres.shape[1]):
        lacks, entry = jobs.gres[j, g] + s.used_gres[i, g] - site.gres[i, g], s.node[i].head
        if jobs.gres[j, g] > 0:
            while lacks > 0 and entry != NONE and max(s.pool[entry].end, t + KILL_WAIT) <= until:
                lacks -= jobs.gres[s.pool[entry].job, g]
                entry = s.pool[entry].next_on_node
            if lacks > 0:
                return False
    return True


MANY = 96  # nodes; above this number, marking the jobs on the nodes costs more than a loop over the running jobs


@inner
def will_run(site: Site, jobs: Jobs, s: State, j: int, part: int, t: float, latest: float, victims: int) -> float:
    """Return when the job starts on the nodes SEEN if running jobs end as planned: `t` means now, -1 never or after
    `latest`. The result `t - 1` means now, if the first `victims` listed jobs are preempted.

    Slurm removes ending jobs in groups, whose time windows double in length, and tries to place the job after each
    group. This function examines only the nodes of removed jobs again, and a placement is tried only if the total
    number of processors is sufficient. Preempted jobs are removed before the first group.
    """
    if choose_nodes(site, jobs, s, j, part, SEEN, 0):
        return t
    if not enough(site, jobs, s, j, part):
        return -1.0
    s.reg[0].stamp += 1
    stamp, window, base, running = int(s.reg[0].stamp), 30.0, -1.0, int(s.reg[0].running)
    mark_touching(s, t, latest, running)
    for k in range(victims):
        other = s.list[k].victim
        s.job[other].listed = stamp
        s.marks[s.job[other].position >> 6] &= ~(1 << (s.job[other].position & 63))
        take_off(site, jobs, s, j, part, other)
    # In this case Slurm's will-run test returns `now`, so that backfill preempts at once. The result t - 1 tells the
    # caller that the start needs preemption.
    if victims > 0 and pick(site, jobs, s, j, part):
        return t - 1
    k, following, last = next_marked(s, 0, running), 0, 0.0
    while k != NONE:
        closed = removed = False
        while k != NONE and not closed:
            end, other, following = max(s.active[k].end, t + KILL_WAIT), s.active[k].job, k + 1
            while following < running and s.job[s.active[following].job].listed == stamp:
                following += 1
            k = next_marked(s, following, running)
            if end > latest:
                if touches(s, other):
                    return -1.0
                continue
            if take_off(site, jobs, s, j, part, other):
                if base < 0:
                    base = end + 30 - end % 30
                removed, last = True, end
                closed = following < running and max(s.active[following].end, t + KILL_WAIT) > base + window
        while not closed and following < running:  # unmarked jobs end after `latest`, or have no node of SEEN
            if touches(s, s.active[following].job) and s.job[s.active[following].job].listed != stamp:
                return -1.0
            following += 1
        if not removed:
            return -1.0
        window *= 2
        while following < running and max(s.active[following].end, t + KILL_WAIT) > base + window:
            window *= 2
        if pick(site, jobs, s, j, part):
            return float(last)
    return -1.0


@inner
def mark_touching(s: State, t: float, latest: float, running: int) -> None:
    """Mark the running jobs that end by `latest` and use a node of the set SEEN.

    If the node set SEEN is large, all running jobs are marked, because a loop over the jobs is then less work.
    """
    seen = 0
    for w in range(s.bits.shape[1]):
        seen += bits(s.bits[SEEN, w])
    everyone = seen > MANY
    s.marks[: (running >> 6) + 1] = -1 if everyone else 0
    if everyone or latest < t + KILL_WAIT:
        return
    for w in range(s.bits.shape[1]):
        word = s.bits[SEEN, w]
        while word:
            entry = s.node[(w << 6) + lowest(word)].head
            word &= word - 1
            while entry != NONE and s.pool[entry].end <= latest:
                k = s.job[s.pool[entry].job].position
                s.marks[k >> 6] |= 1 << (k & 63)
                entry = s.pool[entry].next_on_node


@inner
def touches(s: State, o: int) -> bool:
    """Return whether running job o uses a node of the set SEEN."""
    entry = s.job[o].head
    while entry != NONE:
        i = s.pool[entry].node
        if s.bits[SEEN, i >> 6] >> (i & 63) & 1:
            return True
        entry = s.pool[entry].next
    return False


@inlined
def next_marked(s: State, k: int, running: int) -> int:
    """Return the first marked running job from position k on, or NONE."""
    if k >= running:
        return NONE
    w, word = k >> 6, s.marks[k >> 6] & (-1 << (k & 63))
    while word == 0:
        w += 1
        if w << 6 >= running:
            return NONE
        word = s.marks[w]
    position = (w << 6) + lowest(word)
    return position if position < running else NONE


@inner
def take_off(site: Site, jobs: Jobs, s: State, j: int, part: int, o: int) -> bool:
    """Remove running job o from its nodes in SEEN in the will-run test of job j, and update sums; return whether it had
    such nodes."""
    most, per = most_nodes(site, jobs, j), wanted_memory(site, jobs, j, part)
    stamp, had = int(s.reg[0].stamp), False
    entry = s.job[o].head
    while entry != NONE:
        i = s.pool[entry].node
        one = 1 << (i & 63)
        if s.bits[SEEN, i >> 6] & one:
            had = True
            before = s.node[i].free if s.bits[RICH, i >> 6] & one else 0
            # The stamp marks the nodes whose temporary values belong to this test, so that no array must be cleared
            # before each test.
            if s.node[i].stamp != stamp:
                s.node[i].stamp = stamp
                s.node[i].tmp_cpus, s.node[i].tmp_memory = s.node[i].used_cpus, s.node[i].used_memory
                s.node[i].tmp_exclusive, s.node[i].tmp_jobs = s.node[i].exclusive_jobs, s.node[i].node_jobs
                for g in range(site.gres.shape[1]):
                    s.tmp_gres[i, g] = s.used_gres[i, g]
            s.node[i].tmp_cpus -= s.pool[entry].cpus
            s.node[i].tmp_memory -= s.pool[entry].memory
            s.node[i].tmp_jobs -= 1
            s.node[i].tmp_exclusive -= jobs.row[o].exclusive
            for g in range(site.gres.shape[1]):
                s.tmp_gres[i, g] -= jobs.gres[o, g]
            free = available(site, jobs, s, j, i, most, per, LATER)
            if free > 0:
                s.node[i].free = free
                s.bits[RICH, i >> 6] |= one
            s.reg[0].total += free - before
            s.reg[0].count += int(free > 0) - int(before > 0)
        entry = s.pool[entry].next
    return had
