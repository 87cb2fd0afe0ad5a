# SPDX-License-Identifier: Apache-2.0
"""Preemption: chooses the running jobs that are preempted for a waiting job, and removes them.

The module follows the rules of preempt/partition_prio and preempt/qos with PreemptMode REQUEUE or CANCEL. A preempted
job is notified, runs on for its grace time, and is then removed. The waiting job starts in a later pass, on nodes that
are free by then.
"""

from __future__ import annotations

from ...compiled import inner
from .arrays import BEGIN, FAR, LEAVE, NONE, QUEUED, RUNNING, SEEN, Jobs, Rules, Site, State
from .place import KILL_WAIT, enough, pick, survey, take_off
from .policy import taken_cpus, too_much
from .priority import compact, enqueue
from .start import finish, list_by_end, push, run_order, stop_order, unlist

NOBODY, GIVES_WAY, LIMITED = range(3)
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
        if not (site.part[part].preempts >> p | jobs.row[j].preempts >> q) & 1 or s.job[o].leaves_at <= now:
            continue
        if s.job[o].start + site.qos[q].exempt > now:
            continue
        nodes, near, entry = 0, False, s.job[o].head
        while entry != NONE:
            i = s.pool[entry].node
            near = near or bool(site.inside[part, i >> 6] >> (i & 63) & 1)
            nodes += 1
            entry = s.pool[entry].next
        if near:
            s.job[o].rank = float((site.part[p].tier if site.part[part].preempts else site.qos[q].rank) * 65536 + nodes)
            if rules.youngest:
                s.job[o].rank = -s.job[o].start
            put(s, count, o, True)
            count += 1
    return count


@inner
def put(s: State, count: int, o: int, by_place: bool) -> None:
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
def preempt(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, now: float) -> int:
    """Preempt as many listed jobs as job j needs on the nodes SEEN, after choosing again with the last chosen job
    first.

    Within KillWait + MessageTimeout of its last preemption, j does not preempt further jobs.
    """
    t, passes = float(int(now)), 0
    count = list_victims(site, jobs, rules, s, j, part, t)
    if count == 0:
        return NOBODY
    while True:
        last = take_until(site, jobs, s, j, part, count)
        if last == NONE:
            return NOBODY
        passes += 1
        if passes > rules.reorder_count + 1 or count <= passes:
            break
        last_first(s, last, count)
    if too_much(site, jobs, rules, s, j, part, taken_cpus(s), s.reg[0].taken):
        return LIMITED
    if s.job[j].preempted > t - rules.preempt_wait:
        return GIVES_WAY
    s.job[j].preempted = t
    mark_taken(s)
    for k in range(last + 1):
        o = s.list[k].victim
        if s.job[o].leaves_at == FAR and nodes_taken(s, o) > 0:
            grace = site.part[s.job[o].part].grace + site.qos[jobs.row[o].qos].grace
            s.job[o].leaves_at = min(max(s.job[o].planned, t), t + grace)
            push(s, now, LEAVE, o)
    return GIVES_WAY


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
        s.job[o].rank = -FAR if k == last else -float(nodes_taken(s, o)) if k < last else 0.0
    for k in range(count):
        put(s, k, s.list[k].victim, False)


@inner
def mark_taken(s: State) -> None:
    """Mark the nodes that the function `pick` chose."""
    s.reg[0].stamp += 1
    for k in range(int(s.reg[0].taken)):
        s.node[s.node[k].taken].stamp = int(s.reg[0].stamp)


@inner
def nodes_taken(s: State, o: int) -> int:
    """Return how many nodes of job o the function `pick` chose."""
    count, entry = 0, s.job[o].head
    while entry != NONE:
        count += s.node[s.pool[entry].node].stamp == s.reg[0].stamp
        entry = s.pool[entry].next
    return count


@inner
def will_run_past(site: Site, jobs: Jobs, s: State, j: int, part: int, t: float, count: int) -> float:
    """Return when job j starts on the nodes SEEN if the `count` listed jobs are preempted.

    The result is `t` if job j starts without preemption, `t - 1` if preempting the listed jobs is sufficient, -1 if j
    never starts, and else the planned end of the other running jobs (removed in groups) that must end first.
    """
    survey(site, jobs, s, j, part, SEEN, 0)
    if pick(site, jobs, s, j, part):
        return t
    if not enough(site, jobs, s, j, part):
        return -1.0
    s.reg[0].stamp += 1
    stamp = int(s.reg[0].stamp)
    for k in range(count):
        s.job[s.list[k].victim].listed = stamp
        take_off(site, jobs, s, j, part, s.list[k].victim)
    if pick(site, jobs, s, j, part):
        return t - 1
    window, base, last, removed, just = 30.0, -1.0, 0.0, False, False
    for k in range(int(s.reg[0].running)):
        if s.job[s.active[k].job].listed == stamp:
            continue
        end = max(s.active[k].end, t + KILL_WAIT)
        if just and end > base + window:
            window *= 2
            while end > base + window:
                window *= 2
            if pick(site, jobs, s, j, part):
                return last
            removed = False
        just = take_off(site, jobs, s, j, part, s.active[k].job)
        if just:
            if base < 0:
                base = end + 30 - end % 30
            removed, last = True, end
    return last if removed and pick(site, jobs, s, j, part) else -1.0


@inner
def leave(site: Site, jobs: Jobs, rules: Rules, s: State, o: int, at: float) -> None:
    """Remove a notified job if its grace time is over, else schedule its removal.

    slurmctld checks every 30 seconds for jobs that are over their time.
    """
    if s.job[o].status != RUNNING or s.job[o].leaves_at == FAR:
        return
    if s.job[o].leaves_at > at:
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
        push(s, s.reg[0].first_poll + checks * CHECK_PERIOD, LEAVE, o)
        return
    part, ran, entry = int(s.job[o].part), at - s.job[o].began, s.job[o].head
    while entry != NONE:
        s.reg[0].lost += ran * s.pool[entry].cpus
        entry = s.pool[entry].next
    finish(site, jobs, rules, s, o, at)
    s.job[o].runs += 1
    s.job[o].leaves_at = FAR
    s.reg[0].asked = 1
    if site.part[part].cancels or site.qos[jobs.row[o].qos].cancels:
        jobs.row[o].run = ran
        return
    s.job[o].status, s.job[o].part, s.job[o].eligible, s.job[o].accrued = QUEUED, NONE, -1.0, FAR
    s.job[o].ended = -1.0
    jobs.row[o].begin = float(int(at)) + rules.requeue_delay + 1
    push(s, jobs.row[o].begin, BEGIN, o)
    compact(s, o)
    enqueue(site, jobs, rules, s, o)
    s.list[int(s.reg[0].special)].special = o
    s.reg[0].special += 1
