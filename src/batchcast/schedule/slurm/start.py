"""A job begins and ends: what it holds, what limits count, and the list of running jobs by planned end."""

from __future__ import annotations

from ...compiled import inner
from .arrays import DIRTY, DONE, NONE, OUT, PRIO_NOW, RUNNING, RUNNING_COUNT, TAKEN, Jobs, Rules, Site, State
from .heap import END, push
from .hold import allocate, give_back
from .policy import count, held_of, taken_cpus
from .priority import charge


@inner
def start_job(site: Site, jobs: Jobs, s: State, j: int, part: int, now: float, when: float, backfilled: int) -> None:
    """The job begins on what `place` took."""
    end = when + held_of(site, jobs, j, part)
    allocate(site, jobs, s, j, part, end)
    s.job[j].start, s.job[j].began, s.job[j].part, s.job[j].backfilled = when, now, part, backfilled
    run_order(s, j, end)
    s.job[j].ended, s.job[j].due, s.job[j].first_out = 0.0, now + jobs.row[j].run, int(s.reg[OUT])
    if not s.job[j].ending:  # the end of a run that was broken off stands on the heap still, and before this one
        s.job[j].ending = 1
        push(s, s.job[j].due, END, j)
    s.reg[DIRTY] = 1
    count(site, jobs, s, j, part, taken_cpus(s), s.reg[TAKEN], 1)
    for k in range(int(s.reg[TAKEN])):
        row = int(s.reg[OUT])
        if row < len(s.out):
            s.out[row].job, s.out[row].node, s.out[row].cpus = j, s.node[k].taken, s.node[k].asks
            s.reg[OUT] += 1


@inner
def finish(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, at: float) -> None:
    """A running job ends."""
    cpus, nodes, entry = 0.0, 0.0, s.job[j].head
    while entry != NONE:
        cpus += s.pool[entry].cpus
        nodes += 1
        entry = s.pool[entry].next
    if rules.multifactor:
        charge(site, jobs, rules, s, j, s.reg[PRIO_NOW], at)
    count(site, jobs, s, j, int(s.job[j].part), cpus, nodes, -1)
    give_back(site, jobs, s, j)
    stop_order(s, j)
    s.job[j].status, s.job[j].ended = DONE, at


@inner
def run_order(s: State, j: int, end: float) -> None:
    """Put a job that starts into the list of running ones, by planned end."""
    k = int(s.reg[RUNNING_COUNT])
    s.reg[RUNNING_COUNT] += 1
    while k > 0 and (s.active[k - 1].end > end or (s.active[k - 1].end == end and s.active[k - 1].job > j)):
        s.active[k].job, s.active[k].end = s.active[k - 1].job, s.active[k - 1].end
        s.job[s.active[k].job].place = k
        k -= 1
    s.active[k].job, s.active[k].end = j, end
    s.job[j].place = k
    s.job[j].status, s.job[j].planned = RUNNING, end


@inner
def stop_order(s: State, j: int) -> None:
    """Take a job out of the list of running ones."""
    s.reg[RUNNING_COUNT] -= 1
    for k in range(s.job[j].place, int(s.reg[RUNNING_COUNT])):
        s.active[k].job, s.active[k].end = s.active[k + 1].job, s.active[k + 1].end
        s.job[s.active[k].job].place = k
