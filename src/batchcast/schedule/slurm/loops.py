# SPDX-License-Identifier: Apache-2.0
"""Slurm's two loops.

The main loop starts jobs in priority order, and a job that does not fit blocks its partition. The backfill loop plans
jobs down to the last job in the queue that could start now.
"""

from __future__ import annotations

from ...compiled import inner
from ...compiled.arrays import bits
from .arrays import FAR, MASK, NONE, OPEN, QUEUED, SEEN, UP, Jobs, Rules, Site, State
from .place import place
from .plan import apart, next_candidate, plan_job
from .policy import independent, plan_of, planned_of, set_planned, taken_cpus, throttled, too_many, too_much
from .preempt import LIMITED, preempt
from .priority import compact_until
from .start import start_job
from .table import kept_from, open_table


@inner
def fits_empty(site: Site, jobs: Jobs, s: State, j: int, part: int) -> bool:
    """Return whether the job fits on the nodes MASK if they are empty; the result for a whole partition is cached."""
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
    """Return whether, among the MASK nodes with the job's features, one is in exclusive use, or in use while the job is
    exclusive."""
    for k in range(site.part[part].first, site.part[part + 1].first):
        i = site.members[k]
        held = s.node[i].node_jobs if jobs.row[j].exclusive else s.node[i].exclusive_jobs
        if s.bits[MASK, i >> 6] >> (i & 63) & 1 and not jobs.row[j].features & ~site.node[i].features and held > 0:
            return True
    return False


@inner
def main_loop(site: Site, jobs: Jobs, rules: Rules, s: State, now: float, full: int) -> None:
    """Start jobs by priority. A job that does not fit blocks its partition and the partition's nodes."""
    words, t = s.bits.shape[1], float(int(now))
    for w in range(words):
        s.bits[OPEN, w] = s.bits[UP, w]
    for p in range(len(site.part) - 1):
        s.part[p].failed = 0
    s.reg[0].passes += 1
    depth, started, seen = 0, 0, int(s.reg[0].first)
    for k in range(int(s.reg[0].first), int(s.reg[0].queue)):
        j, part = s.queue[k].job, s.queue[k].part
        seen = k + 1
        if s.job[j].status != QUEUED or not independent(jobs, s, j, now):
            continue
        a = jobs.row[j].array
        if a != NONE:
            if planned_of(s, a, part):
                continue
            set_planned(s, a, part, 1)  # the whole array is skipped until one of its tasks starts
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
            if not too_much(site, jobs, rules, s, j, part, taken_cpus(s), s.reg[0].taken):
                start_job(site, jobs, s, j, part, now, t, 0)
                started += 1
                if a != NONE:
                    set_planned(s, a, part, 0)
            continue
        if too_much(site, jobs, rules, s, j, part, s.job[j].sized, float(jobs.row[j].min_nodes)):
            continue  # the job is refused because of a limit, which does not block other jobs
        for w in range(words):
            s.bits[SEEN, w] = s.bits[MASK, w]
        if preempt(site, jobs, rules, s, j, part, now) == LIMITED:
            continue
        if not reserves(rules, s, k, now):
            continue
        if fits_empty(site, jobs, s, j, part) or some_taken(site, jobs, s, j, part):  # the nodes exist but are busy
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


@inner
def backfill(site: Site, jobs: Jobs, rules: Rules, s: State, now: float) -> None:
    """Plan queued jobs by priority on nodes without bookings of earlier jobs; start jobs that can start now."""
    t = float(int(now))
    s.reg[0].tests = s.reg[0].slots = 0
    s.reg[0].passes += 1
    started, k, tests_before, cursor, stands = False, int(s.reg[0].first), 0, int(s.reg[0].first), False
    whole = rules.test_length > 0
    while k < s.reg[0].queue and s.reg[0].tests < rules.bf_max_job_test:
        if not whole:
            if cursor < k:
                cursor, tests_before, stands = k, 0, False
            if not stands:
                cursor, tests_before = next_candidate(site, jobs, rules, s, cursor, tests_before, now, t)
            if cursor < 0:
                break
        if s.reg[0].slots == 0:
            begin_cycle(site, rules, s, t)
        outcome = test_job(site, jobs, rules, s, k, now, t)
        k += 1
        tests_before = max(tests_before - 1, 0)
        stands = s.reg[0].tests + tests_before < rules.bf_max_job_test and (outcome == 0 or apart(s))
        if outcome == 1:
            started, cursor, tests_before, stands = True, k, 0, False
    if started:
        compact_until(s, k)
    if s.reg[0].slots > 0:
        for i in range(len(site.node)):
            s.node[i].booked = FAR


@inner
def reserves(rules: Rules, s: State, k: int, now: float) -> bool:
    """Return whether the priority and the wait of the job at position k are high enough to reserve nodes."""
    waited = now - s.job[s.queue[k].job].eligible
    return bool(-s.queue[k].order >= rules.bf_min_prio_reserve and waited >= rules.bf_min_age_reserve)


@inner
def begin_cycle(site: Site, rules: Rules, s: State, t: float) -> None:
    """Reset the backfill table, and reset the counts of tested jobs."""
    open_table(site, rules, s, t)
    for p in range(len(site.part) - 1):
        s.part[p].part_tests = 0
    for u in range(len(s.user_tests)):
        s.user_tests[u] = 0


@inner
def test_job(site: Site, jobs: Jobs, rules: Rules, s: State, k: int, now: float, t: float) -> int:
    """Test the queued job at position k; return 1 if it started, 2 if it is booked for later, else 0."""
    j, part = s.queue[k].job, s.queue[k].part
    if s.job[j].status != QUEUED or not independent(jobs, s, j, now):
        return 0
    a = jobs.row[j].array
    if a != NONE:
        planned = planned_of(s, a, part)
        if planned < 0 or planned >= rules.bf_max_job_array_resv:
            return 0
        if throttled(jobs, s, j) or too_many(site, jobs, rules, s, j):
            set_planned(s, a, part, -1)
            return 0
    elif too_many(site, jobs, rules, s, j):
        return 0
    u = jobs.row[j].user
    if (0 < rules.bf_max_job_user <= s.user_tests[u]) or (0 < rules.bf_max_job_part <= s.part[part].part_tests):
        return 0
    s.user_tests[u] += 1
    s.part[part].part_tests += 1
    s.reg[0].tests += 1
    outcome = plan_job(site, jobs, rules, s, j, part, now, t, reserves(rules, s, k, now))
    if a != NONE and outcome != 1:
        set_planned(s, a, part, planned_of(s, a, part) + 1 if outcome == 2 else -1)
    return outcome
