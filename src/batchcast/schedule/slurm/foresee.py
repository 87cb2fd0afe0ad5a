"""When a job would start if running jobs ended as planned: Slurm's look ahead, group of ends by group of ends."""

from __future__ import annotations

from ...compiled import inlined, inner
from .arrays import COUNT, NONE, RUNNING_COUNT, STAMP, TOTAL, Jobs, Site, State
from .place import available_beside, enough, lowest, most_nodes, pick, survey, wanted_memory

KILL_WAIT = 5.0


@inner
def will_run(site: Site, jobs: Jobs, s: State, j: int, part: int, t: float, latest: float) -> float:
    """When the job would start on `s.seen` if running jobs ended as planned: `t` if now, -1 if never or after `latest`.

    Slurm takes the jobs that end off in groups, each twice as long as the one before, and tries after each group.
    Only the nodes of a job taken off are looked at again, and no group is tried before there is enough in sum.
    """
    survey(site, jobs, s, j, part, 1, 0)
    if pick(site, jobs, s, j, part):
        return t
    if not enough(site, jobs, s, j, part):
        return -1.0
    s.reg[STAMP] += 1
    window, base, last, k = 30.0, -1.0, 0.0, 0
    running = int(s.reg[RUNNING_COUNT])
    while k < running:
        removed = False
        while k < running:
            o, end = s.active[k].job, max(s.active[k].end, t + KILL_WAIT)
            k += 1
            if end > latest:
                return -1.0
            if not take_off(site, jobs, s, j, part, o):
                continue
            if base < 0:
                base = end + 30 - end % 30
            removed, last = True, end
            if k < running and max(s.active[k].end, t + KILL_WAIT) > base + window:
                break
        if not removed:
            break
        window *= 2
        while k < running and max(s.active[k].end, t + KILL_WAIT) > base + window:
            window *= 2
        if pick(site, jobs, s, j, part):
            return last
    return -1.0


@inner
def take_off(site: Site, jobs: Jobs, s: State, j: int, part: int, o: int) -> bool:
    """Take running job o off the nodes of `s.seen` in the look ahead for j, whose sums follow; whether it had any."""
    most, per = most_nodes(site, jobs, j), wanted_memory(site, jobs, j, part)
    stamp, had = int(s.reg[STAMP]), False
    entry = s.job[o].head
    while entry != NONE:
        i = s.pool[entry].node
        one = 1 << (i & 63)
        if s.word[i >> 6].seen & one:
            had = True
            before = s.node[i].free if s.word[i >> 6].rich & one else 0
            lift(site, jobs, s, i, entry, o, stamp)
            free = available_beside(site, jobs, s, j, i, most, per, True)
            if free > 0:
                s.node[i].free = free
                s.word[i >> 6].rich |= one
            s.reg[TOTAL] += free - before
            s.reg[COUNT] += int(free > 0) - int(before > 0)
        entry = s.pool[entry].next
    return had


@inlined
def lift(site: Site, jobs: Jobs, s: State, i: int, entry: int, o: int, stamp: int) -> None:
    """Take what running job o holds of node i off it in the look ahead numbered `stamp`."""
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


@inner
def begin_ahead(site: Site, jobs: Jobs, s: State, j: int, part: int) -> None:
    """`s.ahead`: processors that the job could take now on each node of its partition."""
    most, per = most_nodes(site, jobs, j), wanted_memory(site, jobs, j, part)
    s.reg[STAMP] += 1
    for k in range(site.part[part].first, site.part[part + 1].first):
        i = site.members[k]
        idle = s.word[i >> 6].idle >> (i & 63) & 1
        s.ahead[i] = available_beside(site, jobs, s, j, i, most, per, False) if idle else 0


@inner
def go_ahead(site: Site, jobs: Jobs, s: State, j: int, part: int, t: float, k: int, until: float) -> int:
    """`s.ahead` once running jobs from place k on that end by `until` are gone; the place of the first that is not."""
    most, per = most_nodes(site, jobs, j), wanted_memory(site, jobs, j, part)
    stamp, running = int(s.reg[STAMP]), int(s.reg[RUNNING_COUNT])
    while k < running and max(s.active[k].end, t + KILL_WAIT) <= until:
        o = s.active[k].job
        entry = s.job[o].head
        while entry != NONE:
            i = s.pool[entry].node
            if site.inside[part, i >> 6] >> (i & 63) & 1:
                lift(site, jobs, s, i, entry, o, stamp)
                s.ahead[i] = available_beside(site, jobs, s, j, i, most, per, True)
            entry = s.pool[entry].next
        k += 1
    return k


@inner
def enough_ahead(jobs: Jobs, s: State, j: int) -> bool:
    """Whether `s.ahead` has enough for the job on the nodes of `s.seen`, in sum."""
    total, nodes, cpus, least = 0, 0, jobs.row[j].cpus, jobs.row[j].min_nodes
    for w in range(len(s.word)):
        word = s.word[w].seen
        while word:
            free = s.ahead[(w << 6) + lowest(word)]
            word &= word - 1
            if free > 0:
                total += free
                nodes += 1
                if total >= cpus and nodes >= least:
                    return True
    return False
