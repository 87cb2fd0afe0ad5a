# SPDX-License-Identifier: Apache-2.0
"""Computes when a job could start if running jobs end as planned, and what is then free on a node.

The module implements Slurm's will-run test, which removes running jobs in groups by their planned end.
"""

from __future__ import annotations

from ...compiled import inlined, inner
from ...compiled.arrays import bits, lowest
from .arrays import MASK, NONE, RICH, SEEN, Jobs, Site, State
from .place import available_beside, enough, most_nodes, pick, survey, wanted_memory

KILL_WAIT = 5.0


@inlined
def cpus_by(site: Site, s: State, i: int, t: float, until: float) -> int:
    """Return the number of processors that are free on node i by `until` if running jobs end as planned."""
    free, entry = site.node[i].cpus - s.node[i].used_cpus, s.node[i].head
    if until >= t + KILL_WAIT:
        while entry != NONE and s.pool[entry].end <= until:
            free += s.pool[entry].cpus
            entry = s.pool[entry].beside
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
    """Return whether node i has enough free GRES for the job by `until`."""
    for g in range(site.gres.shape[1]):
        lacks, entry = jobs.gres[j, g] + s.used_gres[i, g] - site.gres[i, g], s.node[i].head
        if jobs.gres[j, g] > 0:
            while lacks > 0 and entry != NONE and max(s.pool[entry].end, t + KILL_WAIT) <= until:
                lacks -= jobs.gres[s.pool[entry].job, g]
                entry = s.pool[entry].beside
            if lacks > 0:
                return False
    return True


MANY = 96  # nodes; above this number, marking the jobs on the nodes costs more than a loop over the running jobs


@inner
def will_run(site: Site, jobs: Jobs, s: State, j: int, part: int, t: float, latest: float) -> float:
    """Return when the job starts on the nodes SEEN if running jobs end as planned: `t` means now, -1 never or after
    `latest`.

    Slurm removes ending jobs in groups, whose time windows double in length, and tries to place the job after each
    group. This function examines only the nodes of removed jobs again, and a placement is tried only if the total
    number of processors is sufficient.
    """
    survey(site, jobs, s, j, part, SEEN, 0)
    if pick(site, jobs, s, j, part):
        return t
    if not enough(site, jobs, s, j, part):
        return -1.0
    s.reg[0].stamp += 1
    window, base, running = 30.0, -1.0, int(s.reg[0].running)
    mark_touching(s, t, latest, running)
    k, following, last = next_marked(s, 0, running), 0, 0.0
    while k != NONE:
        closed = removed = False
        while k != NONE and not closed:
            end, other, following = max(s.active[k].end, t + KILL_WAIT), s.active[k].job, k + 1
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
            if touches(s, s.active[following].job):
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
    for w in range((running >> 6) + 1):
        s.marks[w] = -1 if everyone else 0
    if everyone or latest < t + KILL_WAIT:
        return
    for w in range(s.bits.shape[1]):
        word = s.bits[SEEN, w]
        while word:
            entry = s.node[(w << 6) + lowest(word)].head
            word &= word - 1
            while entry != NONE and s.pool[entry].end <= latest:
                k = s.job[s.pool[entry].job].place
                s.marks[k >> 6] |= 1 << (k & 63)
                entry = s.pool[entry].beside


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
    place = (w << 6) + lowest(word)
    return place if place < running else NONE


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
                s.bits[RICH, i >> 6] |= one
            s.reg[0].total += free - before
            s.reg[0].count += int(free > 0) - int(before > 0)
        entry = s.pool[entry].next
    return had
