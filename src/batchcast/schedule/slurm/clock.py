# SPDX-License-Identifier: Apache-2.0
"""The clock of Slurm's kernels: events between instants, and at each instant a pass, a cycle or a priority update."""

from __future__ import annotations

from ...compiled import branching, inner
from .arrays import (
    ASKED,
    CYCLE,
    DECAY,
    DIRTY,
    FAR,
    FIRST,
    FIRST_POLL,
    FULL,
    GONE,
    GROWN,
    HEAP,
    LAST,
    NOW,
    POLLS,
    PRIO_NOW,
    QUEUE,
    QUEUED,
    QUIET,
    RUNNING,
    RUNNING_COUNT,
    SEEN,
    SEQUENCE,
    SPECIAL,
    SUBMITTED,
    TAKEN,
    TESTS,
    UP,
    Jobs,
    Rules,
    Site,
    State,
)  # fmt: skip
from .loops import backfill, main_loop
from .place import place
from .policy import independent, throttled
from .preempt import leave
from .priority import compact, decay_usage, enqueue, fair_tree, recompute, trim
from .start import BEGIN, CANCEL, END, FIXED, LEAVE, NODE, RELEASE, finish, pop, push, start_job

PATIENCE = 1000  # instants in which nothing ends, comes or starts


@inner
def pass_time(site: Site, jobs: Jobs, rules: Rules, s: State, now: float) -> None:
    """Everything that happens until `now`: ends, submissions, withdrawals, releases, nodes down and back."""
    due, before = 0, s.reg[NOW]
    while s.reg[HEAP] > 0 and s.heap[0].time <= now:
        at, kind, item = s.heap[0].time, s.heap[0].kind, s.heap[0].what
        pop(s)
        s.reg[DIRTY] = 1
        if kind == END and s.job[item].due > at and s.job[item].status == RUNNING:  # the end of an earlier run
            push(s, s.job[item].due, END, item)
        elif (kind in (END, CANCEL)) and s.job[item].status == RUNNING:
            finish(site, jobs, rules, s, item, at)
            s.reg[ASKED] = 1
        elif kind == LEAVE:
            leave(site, jobs, rules, s, item, at)
        elif kind == NODE:
            change_node(s, item, at)
        elif kind == END:
            s.job[item].ending = 0
        else:
            if kind == BEGIN and rules.lazy and rules.fifo:  # no cycle would find it
                s.reg[ASKED] = 1
            s.list[due].due = kind * len(jobs.row) + item
            due += 1
    while s.reg[SUBMITTED] < len(s.order):
        j = s.order[int(s.reg[SUBMITTED])]
        if jobs.row[j].submit > now:
            break
        submit(site, jobs, rules, s, j, now)
    for k in range(due):
        later_change(site, jobs, rules, s, s.list[k].due // len(jobs.row), s.list[k].due % len(jobs.row), now)
    settle(jobs, s, before, now)
    trim(s)
    s.reg[NOW] = now


@inner
def submit(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, now: float) -> None:
    """A job enters the queue."""
    s.reg[SUBMITTED] += 1
    g = jobs.row[j].group
    if s.group_sequence[g] < 0:
        s.group_sequence[g] = s.reg[SEQUENCE]
        s.reg[SEQUENCE] += 1
    s.job[j].status = QUEUED
    s.reg[ASKED] = s.reg[DIRTY] = 1
    enqueue(site, jobs, rules, s, j)
    s.list[int(s.reg[SPECIAL])].special = j
    s.reg[SPECIAL] += 1


@inner
def later_change(site: Site, jobs: Jobs, rules: Rules, s: State, kind: int, j: int, now: float) -> None:
    """A queued job is cancelled, released or, in a replayed past, starts as recorded."""
    if s.job[j].status != QUEUED:
        return
    if kind == CANCEL:
        s.job[j].status = GONE
    elif kind == RELEASE:
        s.group_sequence[jobs.row[j].group] = s.reg[SEQUENCE] + 0.5
        compact(s, j)
        enqueue(site, jobs, rules, s, j)
        s.reg[ASKED] = 1
    elif kind == FIXED:
        take_as_recorded(site, jobs, s, j)
        begun = jobs.row[j].fixed
        start_job(site, jobs, s, j, jobs.row[j].fixed_part, begun, float(int(begun)), 0)


@inner
def take_as_recorded(site: Site, jobs: Jobs, s: State, j: int) -> None:
    """The recorded nodes, any where none is; how many processors on each is what `place` says, where it can."""
    taken = 0
    known = jobs.row[j].fixed_from < jobs.row[j + 1].fixed_from
    for w in range(s.bits.shape[1]):
        s.bits[SEEN, w] = 0 if known else s.bits[UP, w]
    for k in range(jobs.row[j].fixed_from, jobs.row[j + 1].fixed_from):
        i = jobs.fixed_node[k]
        s.bits[SEEN, i >> 6] |= 1 << (i & 63)
        taken += 1
    if place(site, jobs, s, j, jobs.row[j].fixed_part, SEEN, 0) and (s.reg[TAKEN] == taken or not known):
        return
    for k in range(taken):
        s.node[k].taken = jobs.fixed_node[jobs.row[j].fixed_from + k]
        s.node[k].asks = jobs.fixed_cpus[jobs.row[j].fixed_from + k]
    s.reg[TAKEN] = taken


@inner
def change_node(s: State, k: int, at: float) -> None:
    """A node goes down or comes back."""
    i = s.down[k].node
    if i < 0:  # a reservation begins or ends
        return
    one = 1 << (i & 63)
    if at < s.down[k].end:
        s.bits[UP, i >> 6] &= ~one
    else:
        s.bits[UP, i >> 6] |= one
        s.reg[GROWN] += 1
        s.reg[ASKED] = 1


@inner
def settle(jobs: Jobs, s: State, before: float, now: float) -> None:
    """Since when nothing but the queue holds each job that something else may hold."""
    kept = 0
    for k in range(int(s.reg[SPECIAL])):
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
    s.reg[SPECIAL] = kept


@inner
def next_instant(jobs: Jobs, rules: Rules, s: State) -> float:
    """The next poll, cycle or priority update; with `lazy`, none at which nothing could have changed."""
    poll = s.reg[FIRST_POLL] + s.reg[POLLS] * rules.poll
    if rules.lazy:
        event = FAR
        if s.reg[SUBMITTED] < len(s.order):
            event = jobs.row[s.order[int(s.reg[SUBMITTED])]].submit
        if s.reg[HEAP] > 0:
            event = min(event, s.heap[0].time)
        if s.reg[ASKED]:
            event = min(event, max(s.reg[NOW], s.reg[LAST] + rules.batch_sched_delay, rules.since))
        skipped = (event - poll) / rules.poll
        if 0 < skipped < FAR / 1e6:
            s.reg[POLLS] += float(int(skipped + 0.999999))
            poll = s.reg[FIRST_POLL] + s.reg[POLLS] * rules.poll
        if not s.reg[DIRTY] or s.reg[QUEUE] == s.reg[FIRST]:
            idle = (event - s.reg[CYCLE]) / rules.bf_interval
            if 0 < idle < FAR / 1e6:
                s.reg[CYCLE] += rules.bf_interval * float(int(idle + 0.999999))
        if rules.multifactor == 0:
            s.reg[DECAY] = FAR
    return float(min(poll, s.reg[CYCLE], s.reg[DECAY]))


@branching
def advance(site: Site, jobs: Jobs, rules: Rules, s: State, events: int) -> int:
    """Go on for at most `events` instants or until all jobs are done; jobs that have ended or gone so far."""
    for _ in range(events):
        if s.reg[SUBMITTED] == len(s.order) and s.reg[RUNNING_COUNT] == 0 and s.reg[HEAP] == 0:
            s.reg[QUIET] += 1
            if s.reg[QUEUE] == s.reg[FIRST] or s.reg[QUIET] > PATIENCE:  # what still waits will never start
                return -1
        else:
            s.reg[QUIET] = 0
        now = next_instant(jobs, rules, s)
        if now > rules.until:
            return -1
        pass_time(site, jobs, rules, s, now)
        if now == s.reg[DECAY]:
            s.reg[PRIO_NOW] = now
            if rules.multifactor:
                decay_usage(site, jobs, rules, s, now - rules.calc_period, now)
                fair_tree(site, s)
                recompute(site, jobs, rules, s)
                s.reg[DIRTY] = 1
            s.reg[DECAY] += rules.calc_period
        elif now == s.reg[FIRST_POLL] + s.reg[POLLS] * rules.poll:
            poll(site, jobs, rules, s, now)
        else:
            s.reg[TESTS] = 0
            if now >= rules.since and not rules.fifo:
                s.reg[DIRTY] = 0
                backfill(site, jobs, rules, s, now)
            s.reg[CYCLE] += rules.bf_interval + rules.test_length * s.reg[TESTS]
    return int(s.reg[SUBMITTED])


@inner
def poll(site: Site, jobs: Jobs, rules: Rules, s: State, now: float) -> None:
    """A second of the controller: a pass if one is due."""
    s.reg[POLLS] += 1
    t = float(int(now))
    long_ago = t - s.reg[FULL] >= rules.sched_interval
    if now >= rules.since and (long_ago or (s.reg[ASKED] and t - s.reg[LAST] >= rules.batch_sched_delay)):
        if long_ago:
            s.reg[FULL] = t
        s.reg[ASKED], s.reg[LAST] = 0, t
        main_loop(site, jobs, rules, s, now, int(long_ago))
