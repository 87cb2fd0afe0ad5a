"""When a job would start if running jobs ended as planned: Slurm's look ahead, group of ends by group of ends."""

from __future__ import annotations

from ...compiled import inlined, inner
from .arrays import COUNT, NONE, RUNNING_COUNT, STAMP, TOTAL, Jobs, Site, State
from .place import available_beside, enough, lowest, most_nodes, pick, survey, wanted_memory

KILL_WAIT = 5.0
NEVER = -(1 << 40)


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
            free = available_beside(site, jobs, s, j, i, most, per, True)
            if free > 0:
                s.node[i].free = free
                s.word[i >> 6].rich |= one
            s.reg[TOTAL] += free - before
            s.reg[COUNT] += int(free > 0) - int(before > 0)
        entry = s.pool[entry].next
    return had


@inlined
def counted(site: Site, jobs: Jobs, j: int) -> int:
    """What a look ahead counts for the job: a kind of gres it asks for, or processors (-1)."""
    if jobs.row[j].any_gres:
        for g in range(site.gres.shape[1]):
            if jobs.gres[j, g] > 0:
                return g
    return -1


@inlined
def needed(jobs: Jobs, j: int, kind: int) -> int:
    """The least of that on a node without which the job can have nothing there; 0: all its processors."""
    if kind >= 0:
        return int(jobs.gres[j, kind])
    return 0 if jobs.row[j].exclusive else int(max(jobs.row[j].per_node, 1) * jobs.row[j].per_task)


@inner
def begin_ahead(site: Site, jobs: Jobs, s: State, j: int, part: int) -> None:
    """`s.ahead`: what is free now on each node of the partition, and the set `ready` of those that may do for the job.

    No node has more for the job than this: memory, sharing and other gres are left to `will_run`.
    """
    kind = counted(site, jobs, j)
    least, features = needed(jobs, j, kind), jobs.row[j].features
    for w in range(len(s.word)):
        s.word[w].ready = 0
    for k in range(site.part[part].first, site.part[part + 1].first):
        i = site.members[k]
        if features & ~site.node[i].features:
            s.ahead[i] = NEVER
            continue
        free = site.gres[i, kind] - s.used_gres[i, kind] if kind >= 0 else site.node[i].cpus - s.node[i].used_cpus
        s.ahead[i] = free
        if free >= (least if least > 0 else site.node[i].cpus):
            s.word[i >> 6].ready |= 1 << (i & 63)


@inner
def go_ahead(site: Site, jobs: Jobs, s: State, j: int, t: float, k: int, until: float) -> int:
    """The same once running jobs from place k on that end by `until` are gone; the place of the first that is not."""
    kind, running = counted(site, jobs, j), int(s.reg[RUNNING_COUNT])
    least = needed(jobs, j, kind)
    while k < running and max(s.active[k].end, t + KILL_WAIT) <= until:
        o = s.active[k].job
        entry = s.job[o].head
        while entry != NONE:
            i = s.pool[entry].node
            free = s.ahead[i] + (jobs.gres[o, kind] if kind >= 0 else s.pool[entry].cpus)
            s.ahead[i] = free
            if free >= (least if least > 0 else site.node[i].cpus):
                s.word[i >> 6].ready |= 1 << (i & 63)
            entry = s.pool[entry].next
        k += 1
    return k


@inner
def enough_ahead(site: Site, jobs: Jobs, s: State, j: int) -> bool:
    """Whether `s.ahead` may be enough for the job on the nodes of `s.seen`, in sum."""
    total, nodes, cpus, least = 0, 0, jobs.row[j].cpus, jobs.row[j].min_nodes
    kind = counted(site, jobs, j)
    for w in range(len(s.word)):
        word = s.word[w].seen & s.word[w].ready
        while word:
            i = (w << 6) + lowest(word)
            word &= word - 1
            total += site.node[i].cpus if kind >= 0 else s.ahead[i]
            nodes += 1
            if total >= cpus and nodes >= least:
                return True
    return False
