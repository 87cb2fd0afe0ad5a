# SPDX-License-Identifier: Apache-2.0
"""Starts, ends and preempts jobs in the simulated Slurm: allocations, counts for limits, running jobs, and the heap of
events.

Preemption follows the rules of preempt/partition_prio and preempt/qos with PreemptMode REQUEUE or CANCEL. A preempted
job is notified, runs on for its grace time, and is then removed. The waiting job starts in a later pass, on nodes that
are free by then.
"""

from __future__ import annotations

from ...compiled import inner
from ..state import push
from .arrays import BEGIN, DONE, END, IDLE, INFINITE, LEAVE, NONE, QUEUED, RUNNING, SEEN, Jobs, Rules, Site, State
from .place import pick, survey, take_off, wanted_memory
from .policy import count, plan_in, taken_cpus, too_much
from .priority import charge, compact, enqueue


@inner
def add_event(s: State, time: float, kind: int, item: int) -> None:
    """Push an event onto the heap. Events of one instant are in the order of their kinds."""
    s.reg[0].heap = push(s.heap, int(s.reg[0].heap), time, kind, item)


@inner
def allocate(site: Site, jobs: Jobs, s: State, j: int, part: int, end: float) -> None:
    """Allocate the chosen nodes to a job that is planned to end at `end`."""
    per_node, per_cpu = wanted_memory(site, jobs, j, part)
    s.job[j].head = NONE
    for k in range(int(s.reg[0].allocated)):
        i, cpus = s.node[k].allocated, s.node[k].asks
        # Entries of ended jobs are used again, so that the pool does not grow with the log.
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
        last, k = k, s.pool[k].next_on_node
    s.pool[entry].next_on_node = k
    if last == NONE:
        s.node[i].head = entry
    else:
        s.pool[last].next_on_node = entry


@inner
def unlist(s: State, i: int, entry: int) -> None:
    """Remove a job's allocation from the list of node i."""
    last, k = NONE, s.node[i].head
    while k != entry:
        last, k = k, s.pool[k].next_on_node
    if last == NONE:
        s.node[i].head = s.pool[entry].next_on_node
    else:
        s.pool[last].next_on_node = s.pool[entry].next_on_node


@inner
def start_job(site: Site, jobs: Jobs, s: State, j: int, part: int, now: float, when: float, backfilled: int) -> None:
    """Start the job on the nodes that `choose_nodes` chose."""
    end = when + plan_in(site, part, jobs.row[j].held)
    allocate(site, jobs, s, j, part, end)
    s.job[j].start, s.job[j].began, s.job[j].part, s.job[j].backfilled = when, now, part, backfilled
    run_order(s, j, end)
    s.job[j].due, s.job[j].first_out = now + jobs.row[j].run, int(s.reg[0].out)
    if not s.job[j].ending:  # else the heap still has the end of a preempted run, whose event pushes this end
        s.job[j].ending = 1
        add_event(s, s.job[j].due, END, j)
    s.reg[0].dirty = 1
    count(site, jobs, s, j, part, taken_cpus(s), s.reg[0].allocated, 1)
    for k in range(int(s.reg[0].allocated)):
        row = int(s.reg[0].out)
        if row < len(s.out):
            s.out[row].job, s.out[row].node, s.out[row].cpus = j, s.node[k].allocated, s.node[k].asks
            s.reg[0].out += 1


@inner
def finish(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, at: float) -> None:
    """End a running job."""
    cpus, nodes, entry = 0.0, 0.0, s.job[j].head
    while entry != NONE:
        cpus += s.pool[entry].cpus
        nodes += 1
        entry = s.pool[entry].next
    # The job is charged before its nodes are released, because the charge is read from its allocation.
    if rules.multifactor:
        charge(site, jobs, rules, s, j, s.reg[0].prio_now, at)
    count(site, jobs, s, j, int(s.job[j].part), cpus, nodes, -1)
    give_back(site, jobs, s, j)
    stop_order(s, j)
    s.job[j].status = DONE


@inner
def run_order(s: State, j: int, end: float) -> None:
    """Insert a started job into the running jobs, by planned end."""
    k = int(s.reg[0].running)
    s.reg[0].running += 1
    while k > 0 and (s.active[k - 1].end > end or (s.active[k - 1].end == end and s.active[k - 1].job > j)):
        s.active[k] = s.active[k - 1]
        s.job[s.active[k].job].position = k
        k -= 1
    s.active[k].job, s.active[k].end = j, end
    s.job[j].position = k
    s.job[j].status, s.job[j].planned = RUNNING, end


@inner
def stop_order(s: State, j: int) -> None:
    """Remove a job from the running jobs."""
    s.reg[0].running -= 1
    for k in range(s.job[j].position, int(s.reg[0].running)):
        s.active[k] = s.active[k + 1]
        s.job[s.active[k].job].position = k


CHECK_PERIOD = 30.0  # seconds


@inner
def list_victims(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, now: float) -> int:
    """List the running jobs that j may preempt in this partition, by preemption rank and then size; return their
    number."""
    count = 0
    if not site.part[part].preempts and not jobs.row[j].preempts:
        return count
    for k in range(int(s.reg[0].running)):
        o = s.active[k].job
        q, p = jobs.row[o].qos, s.job[o].part
        gives_way = (site.part[part].preempts >> p | jobs.row[j].preempts >> q) & 1
        if not gives_way or s.job[o].leaves_at <= now or s.job[o].start + site.qos[q].exempt > now:
            continue
        nodes, near, entry = 0, False, s.job[o].head
        while entry != NONE:
            i = s.pool[entry].node
            near = near or bool(site.inside[part, i >> 6] >> (i & 63) & 1)
            nodes += 1
            entry = s.pool[entry].next
        if near:
            # As in Slurm, the tier or the priority of the QOS comes first; of equal jobs, the job on fewer nodes is
            # preempted first.
            s.job[o].rank = float((site.part[p].tier if site.part[part].preempts else site.qos[q].rank) * 65536 + nodes)
            if rules.youngest:
                s.job[o].rank = -s.job[o].start
            insert_victim(s, count, o, True)
            count += 1
    return count


@inner
def insert_victim(s: State, count: int, o: int, by_place: bool) -> None:
    """Insert a job into the `count` listed jobs by rank; jobs of equal rank are in log order, or in order of
    insertion."""
    k = count
    while k > 0:
        other = s.list[k - 1].victim
        if s.job[other].rank < s.job[o].rank or (s.job[other].rank == s.job[o].rank and (other < o or not by_place)):
            break
        s.list[k].victim = other
        k -= 1
    s.list[k].victim = o


@inner
def preempt(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, now: float) -> bool:
    """Preempt as many listed jobs as job j needs on the nodes SEEN, after choosing again with the last chosen job
    first. Return whether a limit forbids the start of job j.

    Within KillWait + MessageTimeout of its last preemption, j does not preempt further jobs.
    """
    t, passes = float(int(now)), 0
    count = list_victims(site, jobs, rules, s, j, part, t)
    if count == 0:
        return False
    while True:
        last = take_until(site, jobs, s, j, part, count)
        if last == NONE:
            return False
        # The job that made the request fit may be enough alone. Slurm therefore chooses again with this job first,
        # reorder_count times.
        passes += 1
        if passes > rules.reorder_count + 1 or count <= passes:
            break
        last_first(s, last, count)
    if too_much(site, jobs, rules, s, j, part, taken_cpus(s), s.reg[0].allocated):
        return True
    if s.job[j].preempted > t - rules.preempt_wait:
        return False
    s.job[j].preempted = t
    mark_taken(s)
    for k in range(last + 1):
        o = s.list[k].victim
        if s.job[o].leaves_at == INFINITE and nodes_taken(s, o) > 0:
            grace = site.part[s.job[o].part].grace + site.qos[jobs.row[o].qos].grace
            s.job[o].leaves_at = min(max(s.job[o].planned, t), t + grace)
            add_event(s, now, LEAVE, o)
    return False


@inner
def take_until(site: Site, jobs: Jobs, s: State, j: int, part: int, count: int) -> int:
    """Remove listed jobs from the nodes SEEN one by one until job j fits; return the position of the last removed job,
    or -1."""
    survey(site, jobs, s, j, part, SEEN, 0)
    s.reg[0].stamp += 1
    for k in range(count):
        if take_off(site, jobs, s, j, part, s.list[k].victim) and pick(site, jobs, s, j, part):
            return k
    return NONE


@inner
def last_first(s: State, last: int, count: int) -> None:
    """Put the job whose removal made job j fit first in the list, then the jobs before it by their number of chosen
    nodes."""
    mark_taken(s)
    for k in range(count):
        o = s.list[k].victim
        s.job[o].rank = -INFINITE if k == last else -float(nodes_taken(s, o)) if k < last else 0.0
    for k in range(count):
        insert_victim(s, k, s.list[k].victim, False)


@inner
def mark_taken(s: State) -> None:
    """Mark the nodes that the function `pick` chose."""
    s.reg[0].stamp += 1
    for k in range(int(s.reg[0].allocated)):
        s.node[s.node[k].allocated].stamp = int(s.reg[0].stamp)


@inner
def nodes_taken(s: State, o: int) -> int:
    """Return how many nodes of job o the function `pick` chose."""
    count, entry = 0, s.job[o].head
    while entry != NONE:
        count += s.node[s.pool[entry].node].stamp == s.reg[0].stamp
        entry = s.pool[entry].next
    return count


@inner
def leave(site: Site, jobs: Jobs, rules: Rules, s: State, o: int, at: float) -> None:
    """Remove a notified job if its grace time is over, else schedule its removal.

    slurmctld checks every 30 seconds for jobs that are over their time.
    """
    if s.job[o].status != RUNNING or s.job[o].leaves_at == INFINITE:
        return
    if s.job[o].leaves_at > at:
        # During its grace time the job is planned to end at the removal, which other jobs' plans must use.
        until, entry = s.job[o].leaves_at, s.job[o].head
        stop_order(s, o)
        run_order(s, o, until)
        while entry != NONE:
            i = s.pool[entry].node
            unlist(s, i, entry)
            s.pool[entry].end = until
            list_by_end(s, i, entry)
            entry = s.pool[entry].next
        checks = int((until - s.reg[0].first_poll) / CHECK_PERIOD + 1)
        add_event(s, s.reg[0].first_poll + checks * CHECK_PERIOD, LEAVE, o)
        return
    part, ran, entry = int(s.job[o].part), at - s.job[o].began, s.job[o].head
    while entry != NONE:
        s.reg[0].lost += ran * s.pool[entry].cpus
        entry = s.pool[entry].next
    finish(site, jobs, rules, s, o, at)
    s.job[o].runs += 1
    s.job[o].leaves_at = INFINITE
    s.reg[0].pass_due = 1
    if site.part[part].cancels or site.qos[jobs.row[o].qos].cancels:
        jobs.row[o].run = ran
        return
    s.job[o].status, s.job[o].part, s.job[o].eligible, s.job[o].accrued = QUEUED, NONE, -1.0, INFINITE
    jobs.row[o].begin = float(int(at)) + rules.requeue_delay + 1
    add_event(s, jobs.row[o].begin, BEGIN, o)
    compact(s, o)
    enqueue(site, jobs, rules, s, o)
    s.list[int(s.reg[0].special)].special = o
    s.reg[0].special += 1
