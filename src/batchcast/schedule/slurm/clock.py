# SPDX-License-Identifier: Apache-2.0
"""The clock of Slurm's kernels: runs events, scheduling passes, backfill cycles and priority updates in time order."""

from __future__ import annotations

from ...compiled import branching, inner
from .arrays import FAR, GONE, QUEUED, RUNNING, SEEN, UP, Jobs, Rules, Site, State
from .loops import backfill, main_loop
from .place import place
from .policy import independent, throttled
from .preempt import leave
from .priority import compact, decay_usage, enqueue, fair_tree, recompute, trim
from .start import BEGIN, CANCEL, END, FIXED, LEAVE, NODE, RELEASE, finish, pop, push, start_job

PATIENCE = 1000  # number of instants without an end, submission or start after which the loop stops


@inner
def pass_time(site: Site, jobs: Jobs, rules: Rules, s: State, now: float) -> None:
    """Process all events until `now`: ends, submissions, cancellations, releases, changes of nodes."""
    due, before = 0, s.reg[0].now
    while s.reg[0].heap > 0 and s.heap[0].time <= now:
        at, kind, item = s.heap[0].time, s.heap[0].kind, s.heap[0].what
        pop(s)
        s.reg[0].dirty = 1
        # the event is outdated: it is the end of an earlier run of a requeued job
        if kind == END and s.job[item].due > at and s.job[item].status == RUNNING:
            push(s, s.job[item].due, END, item)
        elif (kind in (END, CANCEL)) and s.job[item].status == RUNNING:
            finish(site, jobs, rules, s, item, at)
            s.reg[0].asked = 1
        elif kind == LEAVE:
            leave(site, jobs, rules, s, item, at)
        elif kind == NODE:
            change_node(s, item, at)
        elif kind == END:
            s.job[item].ending = 0
        else:
            if kind == BEGIN and rules.lazy and rules.fifo:  # without backfill cycles, only the main loop finds the job
                s.reg[0].asked = 1
            s.list[due].due = kind * len(jobs.row) + item
            due += 1
    while s.reg[0].submitted < len(s.order):
        j = s.order[int(s.reg[0].submitted)]
        if jobs.row[j].submit > now:
            break
        submit(site, jobs, rules, s, j, now)
    for k in range(due):
        later_change(site, jobs, rules, s, s.list[k].due // len(jobs.row), s.list[k].due % len(jobs.row), now)
    settle(jobs, s, before, now)
    trim(s)
    s.reg[0].now = now


@inner
def submit(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, now: float) -> None:
    """Add a job to the queue."""
    s.reg[0].submitted += 1
    g = jobs.row[j].group
    if s.group_sequence[g] < 0:
        s.group_sequence[g] = s.reg[0].sequence
        s.reg[0].sequence += 1
    s.job[j].status = QUEUED
    s.reg[0].asked = s.reg[0].dirty = 1
    enqueue(site, jobs, rules, s, j)
    s.list[int(s.reg[0].special)].special = j
    s.reg[0].special += 1


@inner
def later_change(site: Site, jobs: Jobs, rules: Rules, s: State, kind: int, j: int, now: float) -> None:
    """Cancel or release a queued job, or start a job at its recorded time."""
    if s.job[j].status != QUEUED:
        return
    if kind == CANCEL:
        s.job[j].status = GONE
    elif kind == RELEASE:
        s.group_sequence[jobs.row[j].group] = s.reg[0].sequence + 0.5
        compact(s, j)
        enqueue(site, jobs, rules, s, j)
        s.reg[0].asked = 1
    elif kind == FIXED:
        take_as_recorded(site, jobs, s, j)
        begun = jobs.row[j].fixed
        start_job(site, jobs, s, j, jobs.row[j].fixed_part, begun, float(int(begun)), 0)


@inner
def take_as_recorded(site: Site, jobs: Jobs, s: State, j: int) -> None:
    """Choose the recorded nodes of a job, or any nodes if none is recorded."""
    taken = 0
    known = jobs.row[j].fixed_from < jobs.row[j + 1].fixed_from
    for w in range(s.bits.shape[1]):
        s.bits[SEEN, w] = 0 if known else s.bits[UP, w]
    for k in range(jobs.row[j].fixed_from, jobs.row[j + 1].fixed_from):
        i = jobs.fixed_node[k]
        s.bits[SEEN, i >> 6] |= 1 << (i & 63)
        taken += 1
    if place(site, jobs, s, j, jobs.row[j].fixed_part, SEEN, 0) and (s.reg[0].taken == taken or not known):
        return
    for k in range(taken):
        s.node[k].taken = jobs.fixed_node[jobs.row[j].fixed_from + k]
        s.node[k].asks = jobs.fixed_cpus[jobs.row[j].fixed_from + k]
    s.reg[0].taken = taken


@inner
def change_node(s: State, k: int, at: float) -> None:
    """Set a node down or up at a recorded time."""
    i = s.down[k].node
    if i < 0:  # a reservation begins or ends
        return
    one = 1 << (i & 63)
    if at < s.down[k].end:
        s.bits[UP, i >> 6] &= ~one
    else:
        s.bits[UP, i >> 6] |= one
        s.reg[0].grown += 1
        s.reg[0].asked = 1


@inner
def settle(jobs: Jobs, s: State, before: float, now: float) -> None:
    """Update the eligible time of jobs that a begin time, hold, dependency or array throttle may delay."""
    kept = 0
    for k in range(int(s.reg[0].special)):
        j = s.list[k].special
        if s.job[j].status != QUEUED:
            continue
        free = independent(jobs, s, j, now)
        if free and s.job[j].accrued >= FAR:
            s.job[j].accrued = now
        if not free or throttled(jobs, s, j):
            s.job[j].eligible = -1.0
        elif s.job[j].eligible < 0:
            s.job[j].eligible = float(int(jobs.row[j].submit if before < jobs.row[j].submit else now))
        if not free or jobs.row[j].throttle > 0:
            s.list[kept].special = j
            kept += 1
    s.reg[0].special = kept


@inner
def next_instant(jobs: Jobs, rules: Rules, s: State) -> float:
    """Return the next poll, backfill cycle or priority update; with `lazy`, skip instants that cannot change a job."""
    poll = s.reg[0].first_poll + s.reg[0].polls * rules.poll
    if rules.lazy:
        event = FAR
        if s.reg[0].submitted < len(s.order):
            event = jobs.row[s.order[int(s.reg[0].submitted)]].submit
        if s.reg[0].heap > 0:
            event = min(event, s.heap[0].time)
        if s.reg[0].asked:
            event = min(event, max(s.reg[0].now, s.reg[0].last + rules.batch_sched_delay, rules.since))
        skipped = (event - poll) / rules.poll
        if 0 < skipped < FAR / 1e6:
            s.reg[0].polls += float(int(skipped + 0.999999))
            poll = s.reg[0].first_poll + s.reg[0].polls * rules.poll
        if not s.reg[0].dirty or s.reg[0].queue == s.reg[0].first:
            idle = (event - s.reg[0].cycle) / rules.bf_interval
            if 0 < idle < FAR / 1e6:
                s.reg[0].cycle += rules.bf_interval * float(int(idle + 0.999999))
        if rules.multifactor == 0:
            s.reg[0].decay = FAR
    return float(min(poll, s.reg[0].cycle, s.reg[0].decay))


@branching
def advance(site: Site, jobs: Jobs, rules: Rules, s: State, events: int) -> int:
    """Process at most `events` instants; return the number of submitted jobs, or -1 if the simulation is over."""
    for _ in range(events):
        if s.reg[0].submitted == len(s.order) and s.reg[0].running == 0 and s.reg[0].heap == 0:
            s.reg[0].quiet += 1
            if s.reg[0].queue == s.reg[0].first or s.reg[0].quiet > PATIENCE:  # jobs that still wait will never start
                return -1
        else:
            s.reg[0].quiet = 0
        now = next_instant(jobs, rules, s)
        if now > rules.until:
            return -1
        pass_time(site, jobs, rules, s, now)
        if now == s.reg[0].decay:
            s.reg[0].prio_now = now
            if rules.multifactor:
                decay_usage(site, jobs, rules, s, now - rules.calc_period, now)
                fair_tree(site, s)
                recompute(site, jobs, rules, s)
                s.reg[0].dirty = 1
            s.reg[0].decay += rules.calc_period
        elif now == s.reg[0].first_poll + s.reg[0].polls * rules.poll:
            poll(site, jobs, rules, s, now)
        else:
            s.reg[0].tests = 0
            if now >= rules.since and not rules.fifo:
                s.reg[0].dirty = 0
                backfill(site, jobs, rules, s, now)
            s.reg[0].cycle += rules.bf_interval + rules.test_length * s.reg[0].tests
    return int(s.reg[0].submitted)


@inner
def poll(site: Site, jobs: Jobs, rules: Rules, s: State, now: float) -> None:
    """Process one second of the controller: run a scheduling pass if one is due."""
    s.reg[0].polls += 1
    t = float(int(now))
    long_ago = t - s.reg[0].full >= rules.sched_interval
    if now >= rules.since and (long_ago or (s.reg[0].asked and t - s.reg[0].last >= rules.batch_sched_delay)):
        if long_ago:
            s.reg[0].full = t
        s.reg[0].asked, s.reg[0].last = 0, t
        main_loop(site, jobs, rules, s, now, int(long_ago))
