"""Slurm's main loop: jobs in priority order, which a blocked partition stops."""

from __future__ import annotations

from ...compiled import inner
from ...compiled.words import bits
from .arrays import FIRST, MASK, NONE, OPEN, PASS, QUEUE, QUEUED, SEEN, TAKEN, UP, Jobs, Rules, Site, State
from .place import place
from .policy import independent, plan_of, planned_of, set_planned, taken_cpus, throttled, too_many, too_much
from .preempt import LIMITED, preempt
from .queue import compact_until
from .start import start_job
from .table import kept_from


@inner
def fits_empty(site: Site, jobs: Jobs, s: State, j: int, part: int) -> bool:
    """Whether the job would fit on the MASK if nothing ran there; for a whole partition it is found out once."""
    whole = True
    for w in range(s.bits.shape[1]):
        whole = whole and s.bits[MASK, w] == site.inside[part, w]
    shape = jobs.row[j].form
    if not whole:
        return place(site, jobs, s, j, part, MASK, 1)
    if s.shape[shape, part].fits < 0:
        s.shape[shape, part].fits = place(site, jobs, s, j, part, MASK, 1)
    return bool(s.shape[shape, part].fits)


@inner
def some_taken(site: Site, jobs: Jobs, s: State, j: int, part: int) -> bool:
    """Whether a node of the MASK with the job's features is held alone by a job, or by any if it wants it alone."""
    for k in range(site.part[part].first, site.part[part + 1].first):
        i = site.members[k]
        held = s.node[i].node_jobs if jobs.row[j].exclusive else s.node[i].exclusive_jobs
        if s.bits[MASK, i >> 6] >> (i & 63) & 1 and not jobs.row[j].features & ~site.node[i].features and held > 0:
            return True
    return False


@inner
def main_loop(site: Site, jobs: Jobs, rules: Rules, s: State, now: float, full: int) -> None:
    """Start what fits, best priority first. Where a job does not, nobody passes it in its partition or on its nodes."""
    words, t = s.bits.shape[1], float(int(now))
    for w in range(words):
        s.bits[OPEN, w] = s.bits[UP, w]
    for p in range(len(site.part) - 1):
        s.part[p].failed = 0
    s.reg[PASS] += 1
    depth, started, seen = 0, 0, int(s.reg[FIRST])
    for k in range(int(s.reg[FIRST]), int(s.reg[QUEUE])):
        j, part = s.queue[k].job, s.queue[k].part
        seen = k + 1
        if s.job[j].status != QUEUED or not independent(jobs, s, j, now):
            continue
        a = jobs.row[j].array
        if a != NONE:
            if planned_of(s, a, part):
                continue
            set_planned(s, a, part, 1)  # the whole array is refused until a task starts
        if not full and depth > rules.queue_depth:
            break
        depth += 1
        if s.part[part].failed or throttled(jobs, s, j) or too_many(site, jobs, rules, s, j):
            continue
        inside = 0
        for w in range(words):
            s.bits[MASK, w] = s.bits[OPEN, w] & site.inside[part, w]
            inside += bits(s.bits[MASK, w])
        if jobs.row[j].min_nodes > inside:
            continue
        kept_from(site, jobs, s, j, t, t + plan_of(site, jobs, j, part))
        if place(site, jobs, s, j, part, MASK, 0):
            if not too_much(site, jobs, rules, s, j, part, taken_cpus(s), s.reg[TAKEN]):
                start_job(site, jobs, s, j, part, now, t, 0)
                started += 1
                if a != NONE:
                    set_planned(s, a, part, 0)
            continue
        if too_much(site, jobs, rules, s, j, part, s.job[j].sized, float(jobs.row[j].min_nodes)):
            continue  # a limit is the reason then, and nobody is blocked
        for w in range(words):
            s.bits[SEEN, w] = s.bits[MASK, w]
        if preempt(site, jobs, rules, s, j, part, now) == LIMITED:
            continue
        if -s.queue[k].order < rules.bf_min_prio_reserve:
            continue
        if fits_empty(site, jobs, s, j, part) or some_taken(site, jobs, s, j, part):  # busy, not absent
            s.part[part].failed = 1
            for w in range(words):
                s.bits[OPEN, w] &= ~site.inside[part, w]
            left = 0
            for p in range(len(site.part) - 1):
                left += 1 - s.part[p].failed
            if left == 0:
                break
    if started:
        compact_until(s, seen)
