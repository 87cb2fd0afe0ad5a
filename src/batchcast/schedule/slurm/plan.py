# SPDX-License-Identifier: Apache-2.0
"""Backfill's plan of one job: whether the job could start now, when it starts after other bookings, and its booking."""

from __future__ import annotations

from ...compiled import inlined, inner
from ...compiled.arrays import lowest
from .arrays import IDLE, MASK, MINE, NONE, QUEUED, UP, WITNESS, Jobs, Rules, Site, State
from .look_ahead import may_start, will_run
from .place import available_beside, most_nodes, wanted_memory
from .policy import independent, plan_of, taken_cpus, too_many, too_much
from .preempt import list_victims, preempt, will_run_past
from .start import start_job
from .table import book, booked_by_others, free_until, hold_back, kept_from, last_rise, record_after, rise_after


@inner
def next_candidate(
    site: Site, jobs: Jobs, rules: Rules, s: State, k: int, tests_before: int, now: float, t: float
) -> tuple[int, int]:
    """Return the first queue position from k on whose job could start now (-1: none), and the number of jobs tested
    before."""
    limited = rules.bf_max_job_user > 0 or rules.bf_max_job_part > 0
    while k < s.reg[0].queue and s.reg[0].tests + tests_before < rules.bf_max_job_test:
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
    """Return whether the latest booking has no node in common with the candidate's nodes (the set WITNESS)."""
    for w in range(s.bits.shape[1]):
        if s.bits[MINE, w] & s.bits[WITNESS, w]:
            return False
    return True


@inner
def idle_cpus(site: Site, s: State, part: int) -> int:
    """Return the free processors of a partition, counted once per pass, because they only decrease during a pass."""
    if s.part[part].idle_pass != s.reg[0].passes:
        total = 0
        for w in range(s.bits.shape[1]):
            word = s.bits[IDLE, w] & s.bits[UP, w] & site.inside[part, w]
            while word:
                i = (w << 6) + lowest(word)
                word &= word - 1
                total += site.node[i].cpus - s.node[i].used_cpus
        s.part[part].idle_pass, s.part[part].idle_cpus = int(s.reg[0].passes), total
    return int(s.part[part].idle_cpus)


@inner
def could_start(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, t: float) -> bool:
    """Return whether the job could start now: enough nodes without an early booking are free, or the job's number of
    nodes is unknown.

    Sets WITNESS to a sufficient set of nodes.
    """
    gives_way = site.part[part].preempts | jobs.row[j].preempts  # a job that may preempt does not need free nodes
    if gives_way or (rules.sizes_matter and (jobs.row[j].then < 0 or s.job[j].sized != jobs.row[j].then)):
        for w in range(s.bits.shape[1]):
            s.bits[WITNESS, w] = 0
        return True
    if jobs.row[j].cpus > idle_cpus(site, s, part):
        return False
    shape = jobs.row[j].form
    if s.shape[shape, part].refused == s.reg[0].grown:
        return False
    length = plan_of(site, jobs, j, part)
    if s.shape[shape, part].cycle == s.reg[0].passes and length >= s.shape[shape, part].length:
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
        s.shape[shape, part].refused = int(s.reg[0].grown)
    else:
        s.shape[shape, part].cycle, s.shape[shape, part].length = int(s.reg[0].passes), length
    return False


LATE = 1e300


@inner
def plan_job(
    site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, now: float, t: float, reserves: bool
) -> int:
    """Try to start or book a job now and after each booking that prevents an earlier start; return 1 if started, 2 if
    booked, else 0."""
    length, later, row, scan, short = plan_of(site, jobs, j, part), t, 0, 0, NONE
    kept, last = len(site.reservation) > 0, table_end(rules, t)
    # the caller does not use a start after `later`, but Slurm stores the job size that the will-run test computes
    victims = list_victims(site, jobs, rules, s, j, part, t)
    cuts = victims == 0 and (not rules.sizes_matter or s.job[j].sized == jobs.row[j].then)
    ends = next_mask(site, jobs, s, j, part, t, t + length)
    while later >= 0:
        earliest, end = later, later + length
        if kept:
            ends = next_mask(site, jobs, s, j, part, earliest, end)
        row = record_after(s, row, earliest)
        rise = rise_after(s, row, end)
        later = s.slot[rise].end if rise != NONE else -1.0
        if ends >= 0 and ends + 1 < last and (later < 0 or ends + 1 < later):
            later, rise = ends + 1, record_after(s, row, ends + 1)
        if cuts and reserves and later >= 0:  # the caller does not use a start after `later`
            scan, short = short_until(s, scan, short, jobs.row[j].cpus, end)
            if short != NONE and s.slot[short].begin >= s.slot[rise].begin:
                if not kept:  # this record has too few processors, so all starts before its end fail
                    row = last_rise(s, rise, short)
                    later = s.slot[row].end
                continue
            if not may_start(site, jobs, s, j, t, row, end, rise, later):
                continue
        start = -1.0
        if free_until(s, row, end) >= jobs.row[j].min_nodes:
            if victims > 0:
                start = will_run_past(site, jobs, s, j, part, t, victims)
            else:
                start = will_run(site, jobs, s, j, part, t, later if cuts and later >= 0 else LATE)
        if start < 0:
            if not reserves:
                return 0
            continue
        s.job[j].sized = taken_cpus(s)
        if start < earliest <= t:
            return make_room(site, jobs, rules, s, j, part, row, now, t, length, reserves)
        start = max(start, earliest)
        if start <= t:
            return start_now(site, jobs, rules, s, j, part, now, t)
        if not reserves:
            return 0
        if 0 <= later < start:
            continue
        if start > t + rules.bf_window:
            return 0
        outcome = reserve(site, jobs, rules, s, j, part, row, t, start, start + length)
        if outcome >= 0:
            return outcome
        if start > earliest:
            later = start
    return 0


@inlined
def table_end(rules: Rules, t: float) -> float:
    """Return the end of the time window that the backfill table covers."""
    return float((int(t) + rules.bf_window) // rules.bf_resolution * rules.bf_resolution)


@inlined
def short_until(s: State, row: int, short: int, cpus: int, end: float) -> tuple[int, int]:
    """Advance in the backfill table from `row` past records that begin by `end`; return the next record, and the last
    one with too few processors."""
    while row != NONE and s.slot[row].begin <= end:
        if s.slot[row].room < cpus:
            short = row
        row = s.slot[row].next
    return row, short


@inner
def next_mask(site: Site, jobs: Jobs, s: State, j: int, part: int, start: float, end: float) -> float:
    """Set MASK to the partition's nodes that no reservation blocks; return when the first blocking reservation ends."""
    for w in range(s.bits.shape[1]):
        s.bits[MASK, w] = site.inside[part, w]
    return kept_from(site, jobs, s, j, start, end)


@inner
def start_now(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, now: float, t: float) -> int:
    """Start the job on the chosen nodes and return 1; return 0 if a limit forbids the start."""
    if too_much(site, jobs, rules, s, j, part, taken_cpus(s), s.reg[0].taken):
        return 0
    start_job(site, jobs, s, j, part, now, t, 1)
    hold_back(site, s, t, s.job[j].planned)
    return 1


@inner
def make_room(
    site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, row: int, now: float, t: float, length: float,
    reserves: bool,
) -> int:  # fmt: skip
    """Book the chosen nodes from now on, preempt the jobs on them and return 2; return 0 if a limit forbids it."""
    if reserves and reserve(site, jobs, rules, s, j, part, row, t, t, t + length) != 2:
        return 0
    preempt(site, jobs, rules, s, j, part, now)
    return 2 if reserves else 0


@inner
def reserve(
    site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, row: int, t: float, start: float, until: float
) -> int:
    """Book the chosen nodes from `start` to `until`: return 2, or 0 if a limit forbids it, or -1 if one of the nodes is
    already booked."""
    step = rules.bf_resolution
    begin = int(start) // step * step
    end = max(int(until) // step * step, begin + step)
    for w in range(s.bits.shape[1]):
        s.bits[MINE, w] = 0
    for k in range(int(s.reg[0].taken)):
        i = s.node[k].taken
        s.bits[MINE, i >> 6] |= 1 << (i & 63)
    if row == NONE or s.slot[row].begin >= begin:  # the booking may make the record before it equal
        row = 0
    if booked_by_others(s, row, float(begin), float(end)):
        return -1
    if too_much(site, jobs, rules, s, j, part, taken_cpus(s), s.reg[0].taken):
        return 0
    if s.reg[0].slots + 2 <= len(s.slot):  # if the table is full, it does not contain this booking
        for k in range(int(s.reg[0].taken)):
            i = s.node[k].taken
            s.node[i].booked = min(s.node[i].booked, float(begin))
    book(site, s, row, t, float(begin), float(end))
    return 2
