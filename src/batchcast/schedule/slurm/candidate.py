"""Which queued jobs could start now, as far as that can be said without planning those before them.

Judged by what is free and not booked, which only shrinks within a cycle.
"""

from __future__ import annotations

from ...compiled import inlined, inner
from ...compiled.words import lowest
from .arrays import (
    GROWN,
    IDLE,
    MASK,
    MINE,
    NONE,
    PASS,
    QUEUE,
    QUEUED,
    TESTS,
    UP,
    WITNESS,
    Jobs,
    Rules,
    Site,
    State,
)  # fmt: skip
from .place import available_beside, most_nodes, wanted_memory
from .policy import independent, plan_of, too_many, too_much
from .table import kept_from


@inner
def next_candidate(
    site: Site, jobs: Jobs, rules: Rules, s: State, k: int, tests_before: int, now: float, t: float
) -> tuple[int, int]:
    """The first place from k on with a job that could start now, and the tests surely before it; -1 if none."""
    limited = rules.bf_max_job_user > 0 or rules.bf_max_job_part > 0
    while k < s.reg[QUEUE] and s.reg[TESTS] + tests_before < rules.bf_max_job_test:
        j, part = s.queue[k].job, s.queue[k].part
        if s.job[j].status == QUEUED and independent(jobs, s, j, now) and not too_many(site, jobs, rules, s, j):
            if could_start(site, jobs, rules, s, j, part, t):
                return k, tests_before
            if jobs.row[j].array == NONE and not limited:
                tests_before += 1
        k += 1
    return -1, tests_before


@inlined
def apart(s: State) -> bool:
    """Whether what was booked last leaves alone where the candidate has room."""
    for w in range(s.bits.shape[1]):
        if s.bits[MINE, w] & s.bits[WITNESS, w]:
            return False
    return True


@inner
def idle_cpus(site: Site, s: State, part: int) -> int:
    """Processors free on a partition's nodes, counted once a pass: in it they only become fewer."""
    if s.part[part].idle_pass != s.reg[PASS]:
        total = 0
        for w in range(s.bits.shape[1]):
            word = s.bits[IDLE, w] & s.bits[UP, w] & site.inside[part, w]
            while word:
                i = (w << 6) + lowest(word)
                word &= word - 1
                total += site.node[i].cpus - s.node[i].used_cpus
        s.part[part].idle_pass, s.part[part].idle_cpus = int(s.reg[PASS]), total
    return int(s.part[part].idle_cpus)


@inner
def could_start(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, t: float) -> bool:
    """Whether enough is free for the job now on nodes not booked before its end, or its size is not known yet.

    The WITNESS are nodes that are enough.
    """
    gives_way = site.part[part].preempts | jobs.row[j].preempts  # who may preempt needs nothing that is free
    if gives_way or (rules.sizes_matter and (jobs.row[j].then < 0 or s.job[j].sized != jobs.row[j].then)):
        for w in range(s.bits.shape[1]):
            s.bits[WITNESS, w] = 0
        return True
    if jobs.row[j].cpus > idle_cpus(site, s, part):
        return False
    shape = jobs.row[j].form
    if s.shape[shape, part].refused == s.reg[GROWN]:
        return False
    length = plan_of(site, jobs, j, part)
    if s.shape[shape, part].cycle == s.reg[PASS] and length >= s.shape[shape, part].length:
        return False
    if rules.enforce:
        least = jobs.row[j].min_nodes
        cpus = min(jobs.row[j].cpus, least * max(jobs.row[j].per_node, 1) * jobs.row[j].per_task)
        if too_much(site, jobs, rules, s, j, part, float(cpus), float(least)):
            return False
    most, per, end = most_nodes(site, jobs, j), wanted_memory(site, jobs, j, part), t + length
    for w in range(s.bits.shape[1]):
        s.bits[MASK, w] = s.bits[IDLE, w] & site.inside[part, w] & s.bits[UP, w]
        s.bits[WITNESS, w] = 0
    untouched = kept_from(site, jobs, s, j, t, end) < 0
    total, nodes = 0, 0
    for w in range(s.bits.shape[1]):
        word = s.bits[MASK, w]
        while word:
            i, one = (w << 6) + lowest(word), word & -word
            word ^= one
            free = available_beside(site, jobs, s, j, i, most, per, False)
            if free > 0:
                if s.node[i].booked <= end:
                    untouched = False
                    continue
                total += free
                nodes += 1
                s.bits[WITNESS, w] |= one
                if total >= jobs.row[j].cpus and nodes >= jobs.row[j].min_nodes:
                    return True
    if untouched:
        s.shape[shape, part].refused = int(s.reg[GROWN])
    else:
        s.shape[shape, part].cycle, s.shape[shape, part].length = int(s.reg[PASS]), length
    return False
