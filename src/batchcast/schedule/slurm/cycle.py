"""Backfill: every queued job planned in priority order, as far down the queue as a job could start now.

Bookings matter only to jobs behind them, so a cycle ends where no job behind could start now. Whether one could is
judged by what is free and not booked, which only shrinks within a cycle: the schedule is that of the whole cycle.
"""

from __future__ import annotations

from ...compiled import inner
from .arrays import (
    FAR,
    FIRST,
    GROWN,
    NONE,
    PASS,
    QUEUE,
    QUEUED,
    SLOTS,
    TAKEN,
    TESTS,
    Jobs,
    Rules,
    Site,
    State,
)  # fmt: skip
from .foresee import begin_ahead, enough_ahead, go_ahead, will_run
from .place import available_beside, bits, lowest, most_nodes, wanted_memory
from .policy import independent, plan_of, planned_of, set_planned, taken_cpus, throttled, too_many, too_much
from .queue import compact_until
from .start import start_job
from .table import book, booked_by_others, kept_from, open_table, usable_nodes

LATE = 1e300


@inner
def backfill(site: Site, jobs: Jobs, rules: Rules, s: State, now: float) -> None:
    """Plan queued jobs in priority order on nodes that no better one has booked; start what can start now."""
    t = float(int(now))
    open_table(rules, s, t)
    s.reg[TESTS] = 0
    s.reg[PASS] += 1
    for p in range(len(site.part) - 1):
        s.part[p].part_tests = 0
    for u in range(len(s.user_tests)):
        s.user_tests[u] = 0
    for i in range(len(site.node)):
        s.node[i].booked = FAR
    started, k, ahead, cursor = False, int(s.reg[FIRST]), 0, int(s.reg[FIRST])
    whole = rules.test_length > 0
    while k < s.reg[QUEUE] and s.reg[TESTS] < rules.bf_max_job_test:
        if not whole:
            if cursor < k:
                cursor, ahead = k, 0
            cursor, ahead = next_candidate(site, jobs, rules, s, cursor, ahead, now, t)
            if cursor < 0:
                break
        outcome = test_job(site, jobs, rules, s, k, now, t)
        k += 1
        ahead = max(ahead - 1, 0)
        if outcome == 1:
            started, cursor, ahead = True, k, 0
    if started:
        compact_until(s, k)


@inner
def next_candidate(
    site: Site, jobs: Jobs, rules: Rules, s: State, k: int, ahead: int, now: float, t: float
) -> tuple[int, int]:
    """The first place from k on with a job that could start now, and the tests surely before it; -1 if none."""
    limited = rules.bf_max_job_user > 0 or rules.bf_max_job_part > 0
    while k < s.reg[QUEUE] and s.reg[TESTS] + ahead < rules.bf_max_job_test:
        j, part = s.queue[k].job, s.queue[k].part
        if s.job[j].status == QUEUED and independent(jobs, s, j, now) and not too_many(site, jobs, rules, s, j):
            if could_start(site, jobs, rules, s, j, part, t):
                return k, ahead
            if jobs.row[j].array == NONE and not limited:
                ahead += 1
        k += 1
    return -1, ahead


@inner
def could_start(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, t: float) -> bool:
    """Whether enough is free for the job now on nodes not booked before its end, or its size is not known yet."""
    if rules.sizes_matter and (jobs.row[j].then < 0 or s.job[j].sized != jobs.row[j].then):
        return True
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
    for w in range(len(s.word)):
        s.word[w].mask = s.word[w].idle & site.inside[part, w] & s.word[w].up
    untouched = kept_from(site, jobs, s, j, t, end) < 0
    total, nodes = 0, 0
    for w in range(len(s.word)):
        word = s.word[w].mask
        while word:
            i = (w << 6) + lowest(word)
            word &= word - 1
            free = available_beside(site, jobs, s, j, i, most, per, False)
            if free > 0:
                if s.node[i].booked <= end:
                    untouched = False
                    continue
                total += free
                nodes += 1
                if total >= jobs.row[j].cpus and nodes >= jobs.row[j].min_nodes:
                    return True
    if untouched:
        s.shape[shape, part].refused = int(s.reg[GROWN])
    else:
        s.shape[shape, part].cycle, s.shape[shape, part].length = int(s.reg[PASS]), length
    return False


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


@inner
def plan_job(
    site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, now: float, t: float, reserves: bool
) -> int:
    """Try one job now and after each booking that is in its way: 1 started, 2 booked for later, 0 neither."""
    length, later = plan_of(site, jobs, j, part), t
    step = rules.bf_resolution
    # a start after `later` is not used, but the size it tells would be kept
    cuts = not rules.sizes_matter or s.job[j].sized == jobs.row[j].then
    window, ahead = (0, 0, 0), NONE  # of the table; the place among those that run, NONE: to be begun
    while later >= 0:
        earliest = later
        later, window = usable_nodes(site, jobs, s, j, part, earliest, earliest + length, window)
        start, left, tried = -1.0, 0, True
        for w in range(len(s.word)):
            left += bits(s.word[w].seen)
        if left >= jobs.row[j].min_nodes:
            if cuts and reserves and later >= 0:  # a start after `later` is none: is there enough by then?
                if ahead == NONE:
                    begin_ahead(site, jobs, s, j, part)
                    ahead = 0
                ahead = go_ahead(site, jobs, s, j, t, ahead, later)
                tried = enough_ahead(site, jobs, s, j)
            if tried:
                start = will_run(site, jobs, s, j, part, t, later if cuts and later >= 0 else LATE)
        if start < 0:
            if not reserves:
                return 0
            continue
        s.job[j].sized = taken_cpus(s)
        start = max(start, earliest)
        if start <= t:
            if too_much(site, jobs, rules, s, j, part, taken_cpus(s), s.reg[TAKEN]):
                return 0
            start_job(site, jobs, s, j, part, now, t, 1)
            return 1
        if not reserves:
            return 0
        if 0 <= later < start:
            continue
        if start > t + rules.bf_window:
            return 0
        begin = int(start) // step * step
        end = max(int(start + length) // step * step, begin + step)
        for w in range(len(s.word)):
            s.word[w].mine = 0
        for k in range(int(s.reg[TAKEN])):
            i = s.node[k].taken
            s.word[i >> 6].mine |= 1 << (i & 63)
        if booked_by_others(s, float(begin), float(end)):
            if start > earliest:
                later = start
            continue
        if too_much(site, jobs, rules, s, j, part, taken_cpus(s), s.reg[TAKEN]):
            return 0
        if s.reg[SLOTS] + 2 <= len(s.slot):  # else the table is full, and what it shows is not what was booked
            for k in range(int(s.reg[TAKEN])):
                i = s.node[k].taken
                s.node[i].booked = min(s.node[i].booked, float(begin))
        book(s, float(begin), float(end))
        return 2
    return 0
