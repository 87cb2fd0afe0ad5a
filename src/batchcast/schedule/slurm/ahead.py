"""What is free on a node once those of its running jobs are gone that are planned to end by some instant.

Each node has a list of what jobs hold of it, by planned end. Slurm takes a job that is over its planned end to end in
five seconds.
"""

from __future__ import annotations

from ...compiled import inlined, inner
from ...compiled.words import lowest
from .arrays import MASK, NONE, RUNNING_COUNT, Jobs, Site, State

KILL_WAIT = 5.0


@inlined
def cpus_by(site: Site, s: State, i: int, t: float, until: float) -> int:
    """Processors free on node i by `until`."""
    free, entry = site.node[i].cpus - s.node[i].used_cpus, s.node[i].head
    if until >= t + KILL_WAIT:
        while entry != NONE and s.pool[entry].end <= until:
            free += s.pool[entry].cpus
            entry = s.pool[entry].beside
    return int(free)


@inner
def first_after(s: State, t: float, at: float) -> int:
    """The place of the first running job that is planned to end after `at`."""
    if at < t + KILL_WAIT:
        return 0
    low, high = 0, int(s.reg[RUNNING_COUNT])
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
    """Whether the job could start by `later` on nodes of the MASK free in the records from `row` to `end`.

    `rise` is the record in which `later` lies. Memory, sharing and what other gres need are left to `will_run`, and
    no job that starts then is refused here: TOTAL processors free by `later` are never fewer than it counts.
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
            if features & ~site.node[i].features or (
                jobs.row[j].any_gres and not gres_by(site, jobs, s, j, i, t, later)
            ):
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
    """Whether node i has each kind of gres that the job asks for by `until`."""
    for g in range(site.gres.shape[1]):
        lacks, entry = jobs.gres[j, g] + s.used_gres[i, g] - site.gres[i, g], s.node[i].head
        if jobs.gres[j, g] > 0:
            while lacks > 0 and entry != NONE and max(s.pool[entry].end, t + KILL_WAIT) <= until:
                lacks -= jobs.gres[s.pool[entry].job, g]
                entry = s.pool[entry].beside
            if lacks > 0:
                return False
    return True
