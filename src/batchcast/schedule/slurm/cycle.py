"""Backfill: every queued job planned in priority order, as far down the queue as a job could start now.

Bookings matter only to jobs behind them, so a cycle ends where no job behind could start now. Whether one could is
judged by what is free and not booked, which only shrinks within a cycle: the schedule is that of the whole cycle.
"""

from __future__ import annotations

from ...compiled import inner
from .arrays import FAR, FIRST, NONE, PASS, QUEUE, QUEUED, SLOTS, TESTS, Jobs, Rules, Site, State
from .candidate import apart, next_candidate
from .plan import plan_job
from .policy import independent, planned_of, set_planned, throttled, too_many
from .queue import compact_until
from .table import open_table


@inner
def backfill(site: Site, jobs: Jobs, rules: Rules, s: State, now: float) -> None:
    """Plan queued jobs in priority order on nodes that no better one has booked; start what can start now."""
    t = float(int(now))
    s.reg[TESTS] = s.reg[SLOTS] = 0
    s.reg[PASS] += 1
    started, k, tests_before, cursor, stands = False, int(s.reg[FIRST]), 0, int(s.reg[FIRST]), False
    whole = rules.test_length > 0
    while k < s.reg[QUEUE] and s.reg[TESTS] < rules.bf_max_job_test:
        if not whole:
            if cursor < k:
                cursor, tests_before, stands = k, 0, False
            if not stands:
                cursor, tests_before = next_candidate(site, jobs, rules, s, cursor, tests_before, now, t)
            if cursor < 0:
                break
        if s.reg[SLOTS] == 0:
            begin_cycle(site, rules, s, t)
        outcome = test_job(site, jobs, rules, s, k, now, t)
        k += 1
        tests_before = max(tests_before - 1, 0)
        stands = s.reg[TESTS] + tests_before < rules.bf_max_job_test and (outcome == 0 or apart(s))
        if outcome == 1:
            started, cursor, tests_before, stands = True, k, 0, False
    if started:
        compact_until(s, k)
    if s.reg[SLOTS] > 0:
        for i in range(len(site.node)):
            s.node[i].booked = FAR


@inner
def begin_cycle(site: Site, rules: Rules, s: State, t: float) -> None:
    """The table, and nobody tested yet."""
    open_table(site, rules, s, t)
    for p in range(len(site.part) - 1):
        s.part[p].part_tests = 0
    for u in range(len(s.user_tests)):
        s.user_tests[u] = 0


@inner
def test_job(site: Site, jobs: Jobs, rules: Rules, s: State, k: int, now: float, t: float) -> int:
    """One place of the queue: 1 started, 2 booked for later, 0 neither."""
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
    s.reg[TESTS] += 1
    reserves = -s.queue[k].order >= rules.bf_min_prio_reserve
    outcome = plan_job(site, jobs, rules, s, j, part, now, t, reserves)
    if a != NONE and outcome != 1:
        set_planned(s, a, part, planned_of(s, a, part) + 1 if outcome == 2 else -1)
    return outcome
