# SPDX-License-Identifier: Apache-2.0
"""Slurm's two loops, and the clock that runs the loops, events and priority updates in time order.

The main loop starts jobs in priority order, and a job that does not fit blocks its partition. The backfill loop plans
jobs down to the last job in the queue that could start now.
"""

from __future__ import annotations

from ...compiled import branching, inner
from ...compiled.arrays import bits
from ..state import pop
from . import arrays
from .arrays import GONE, INFINITE, MASK, NONE, OPEN, QUEUED, RUNNING, SEEN, UP, Jobs, Rules, Site, State
from .place import choose_nodes
from .plan import apart, kept_from, next_candidate, open_table, plan_job
from .policy import independent, plan_in, planned_of, set_planned, taken_cpus, throttled, too_many, too_much
from .priority import compact, compact_until, decay_usage, enqueue, fair_tree, recompute, trim
from .start import add_event, finish, leave, preempt, start_job


@inner
def fits_empty(site: Site, jobs: Jobs, s: State, j: int, part: int) -> bool:
    """Return whether the job fits on the nodes MASK if they are empty; the result for a whole partition is cached."""
    whole = True
    for w in range(s.bits.shape[1]):
        whole = whole and s.bits[MASK, w] == site.inside[part, w]
    shape = jobs.row[j].form
    if not whole:
        return choose_nodes(site, jobs, s, j, part, MASK, 1)
    if s.shape[shape, part].fits < 0:
        s.shape[shape, part].fits = choose_nodes(site, jobs, s, j, part, MASK, 1)
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
    # slurmctld compares times in whole seconds; only this simulation has fractions of a second.
    words, t = s.bits.shape[1], float(int(now))
    for w in range(words):
        s.bits[OPEN, w] = s.bits[UP, w]
    s.part.failed[:] = 0
    s.reg[0].passes += 1
    depth, started, failed, examined = 0, 0, 0, int(s.reg[0].first)
    for k in range(int(s.reg[0].first), int(s.reg[0].queue)):
        j, part = s.queue[k].job, s.queue[k].part
        examined = k + 1
        if s.job[j].status != QUEUED or not independent(jobs, s, j, now):
            continue
        a = jobs.row[j].array
        if a != NONE:
            if planned_of(s, a, part):
                continue
            set_planned(s, a, part, 1)  # the whole array is skipped until one of its tasks starts
        # A pass after an event tests default_queue_depth jobs. Only the pass of every sched_interval tests the whole
        # queue.
        if not full and depth > rules.default_queue_depth:
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
        kept_from(site, jobs, s, j, t, t + plan_in(site, part, jobs.row[j].plan))
        if choose_nodes(site, jobs, s, j, part, MASK, 0):
            if not too_much(site, jobs, rules, s, j, part, taken_cpus(s), s.reg[0].allocated):
                start_job(site, jobs, s, j, part, now, t, 0)
                started += 1
                if a != NONE:
                    set_planned(s, a, part, 0)
            continue
        if too_much(site, jobs, rules, s, j, part, s.job[j].sized, float(jobs.row[j].min_nodes)):
            continue  # the job is refused because of a limit, which does not block other jobs
        for w in range(words):
            s.bits[SEEN, w] = s.bits[MASK, w]
        if preempt(site, jobs, rules, s, j, part, now):
            continue
        # bf_min_prio_reserve and bf_min_age_reserve count in slurmctld's main loop too: a job below them does not block
        # its partition.
        if not reserves(rules, s, k, now):
            continue
        if fits_empty(site, jobs, s, j, part) or some_taken(site, jobs, s, j, part):  # the nodes exist but are busy
            # slurmctld takes the partition's nodes out of the pass, so jobs of other partitions cannot use them either.
            s.part[part].failed = 1
            for w in range(words):
                s.bits[OPEN, w] &= ~site.inside[part, w]
            failed += 1
            # All partitions are blocked, so no further job can start in this pass.
            if failed == len(site.part) - 1:
                break
    if started:
        compact_until(s, examined)


@inner
def backfill(site: Site, jobs: Jobs, rules: Rules, s: State, now: float) -> None:
    """Plan queued jobs by priority on nodes without bookings of earlier jobs; start jobs that can start now."""
    t = float(int(now))
    s.reg[0].tests = s.reg[0].slots = 0
    s.reg[0].passes += 1
    started, k, tests_before, cursor, stands = False, int(s.reg[0].first), 0, int(s.reg[0].first), False
    # A cycle changes nothing but the jobs that it starts. If tests take no time, the cycle can end when no later job
    # could start now (`next_candidate`), because the remaining bookings would have no effect.
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
            open_table(site, rules, s, t)
            s.part.part_tests[:] = 0
            s.user_tests[:] = 0
        outcome = test_job(site, jobs, rules, s, k, now, t)
        k += 1
        tests_before = max(tests_before - 1, 0)
        # The candidate stays valid while no booking takes one of its nodes (WITNESS), so it is not searched again.
        stands = s.reg[0].tests + tests_before < rules.bf_max_job_test and (outcome == 0 or apart(s))
        if outcome == 1:
            started, cursor, tests_before, stands = True, k, 0, False
    if started:
        compact_until(s, k)
    if s.reg[0].slots > 0:
        # Bookings last for one cycle: Slurm plans anew in each cycle.
        s.node.booked[:] = INFINITE


@inner
def reserves(rules: Rules, s: State, k: int, now: float) -> bool:
    """Return whether the priority and the wait of the job at position k are high enough to reserve nodes."""
    waited = now - s.job[s.queue[k].job].eligible
    return bool(-s.queue[k].order >= rules.bf_min_prio_reserve and waited >= rules.bf_min_age_reserve)


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
            # The tasks of an array have equal requests, so a limit that stops one task stops the array for this cycle.
            set_planned(s, a, part, -1)
            return 0
    elif too_many(site, jobs, rules, s, j):
        return 0
    u = jobs.row[j].user
    if (0 < rules.bf_max_job_user <= s.user_tests[u]) or (0 < rules.bf_max_job_part <= s.part[part].part_tests):
        return 0
    # bf_max_job_user and bf_max_job_part limit the number of tested jobs, not of started jobs.
    s.user_tests[u] += 1
    s.part[part].part_tests += 1
    s.reg[0].tests += 1
    outcome = plan_job(site, jobs, rules, s, j, part, now, t, reserves(rules, s, k, now))
    if a != NONE and outcome != 1:
        set_planned(s, a, part, planned_of(s, a, part) + 1 if outcome == 2 else -1)
    return outcome


PATIENCE = 1000  # number of instants without an end, submission or start after which the loop stops


@inner
def pass_time(site: Site, jobs: Jobs, rules: Rules, s: State, now: float) -> None:
    """Process all events until `now`: ends, submissions, cancellations, releases, changes of nodes."""
    due, before = 0, s.reg[0].now
    while s.reg[0].heap > 0 and s.heap[0].key <= now:
        at, kind, item = s.heap[0].key, s.heap[0].tie, s.heap[0].item
        s.reg[0].heap = pop(s.heap, int(s.reg[0].heap))
        s.reg[0].dirty = 1
        # the event is outdated: it is the end of an earlier run of a requeued job
        if kind == arrays.END and s.job[item].due > at and s.job[item].status == RUNNING:
            add_event(s, s.job[item].due, arrays.END, item)
        elif (kind in (arrays.END, arrays.CANCEL)) and s.job[item].status == RUNNING:
            finish(site, jobs, rules, s, item, at)
            s.reg[0].pass_due = 1
        elif kind == arrays.LEAVE:
            leave(site, jobs, rules, s, item, at)
        elif kind == arrays.NODE:
            change_node(s, item, at)
        elif kind == arrays.END:
            s.job[item].ending = 0
        else:
            if kind == arrays.BEGIN and rules.lazy and rules.fifo:  # only the main loop finds the job
                s.reg[0].pass_due = 1
            s.list[due].due = kind * len(jobs.row) + item
            due += 1
    while s.reg[0].submitted < len(s.order):
        j = s.order[int(s.reg[0].submitted)]
        if jobs.row[j].submit > now:
            break
        submit(site, jobs, rules, s, j, now)
    # Changes of queued jobs come after the submissions, because a job can be submitted and cancelled at one instant.
    for k in range(due):
        later_change(site, jobs, rules, s, s.list[k].due // len(jobs.row), s.list[k].due % len(jobs.row), now)
    settle(jobs, s, before, now)
    trim(s)
    s.reg[0].now = now


@inner
def submit(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, now: float) -> None:
    """Add a job to the queue."""
    s.reg[0].submitted += 1
    # All tasks of an array have the place of their first task in the order of submission, because slurmctld has one job
    # record for the tasks that wait.
    g = jobs.row[j].group
    if s.group_sequence[g] < 0:
        s.group_sequence[g] = s.reg[0].sequence
        s.reg[0].sequence += 1
    s.job[j].status = QUEUED
    s.reg[0].pass_due = s.reg[0].dirty = 1
    enqueue(site, jobs, rules, s, j)
    s.list[int(s.reg[0].special)].special = j
    s.reg[0].special += 1


@inner
def later_change(site: Site, jobs: Jobs, rules: Rules, s: State, kind: int, j: int, now: float) -> None:
    """Cancel or release a queued job, or start a job at its recorded time."""
    if s.job[j].status != QUEUED:
        return
    if kind == arrays.CANCEL:
        s.job[j].status = GONE
    elif kind == arrays.RELEASE:
        s.group_sequence[jobs.row[j].group] = s.reg[0].sequence + 0.5
        compact(s, j)
        enqueue(site, jobs, rules, s, j)
        s.reg[0].pass_due = 1
    elif kind == arrays.FIXED:
        take_as_recorded(site, jobs, s, j)
        begun = jobs.row[j].fixed
        start_job(site, jobs, s, j, jobs.row[j].fixed_part, begun, float(int(begun)), 0)


@inner
def take_as_recorded(site: Site, jobs: Jobs, s: State, j: int) -> None:
    """Choose the recorded nodes of a job, or any nodes if none is recorded."""
    first, recorded = jobs.row[j].fixed_from, jobs.row[j + 1].fixed_from - jobs.row[j].fixed_from
    for w in range(s.bits.shape[1]):
        s.bits[SEEN, w] = 0 if recorded else s.bits[UP, w]
    for i in jobs.fixed_node[first : first + recorded]:
        s.bits[SEEN, i >> 6] |= 1 << (i & 63)
    fits = choose_nodes(site, jobs, s, j, jobs.row[j].fixed_part, SEEN, 0)
    if fits and (s.reg[0].allocated == recorded or not recorded):
        return
    # The record is a fact: if the simulated placement differs from it, the recorded nodes count.
    for k in range(recorded):
        s.node[k].allocated, s.node[k].asks = jobs.fixed_node[first + k], jobs.fixed_cpus[first + k]
    s.reg[0].allocated = recorded


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
        s.reg[0].pass_due = 1


@inner
def settle(jobs: Jobs, s: State, before: float, now: float) -> None:
    """Update the eligible time of jobs that a begin time, hold, dependency or array throttle may delay."""
    kept = 0
    for k in range(int(s.reg[0].special)):
        j = s.list[k].special
        if s.job[j].status != QUEUED:
            continue
        free = independent(jobs, s, j, now)
        if free and s.job[j].accrued >= INFINITE:
            s.job[j].accrued = now
        if not free or throttled(jobs, s, j):
            s.job[j].eligible = -1.0
        elif s.job[j].eligible < 0:
            # A job that nothing has delayed is eligible at its submission, not at the later instant at which the loop
            # sees it.
            s.job[j].eligible = float(int(jobs.row[j].submit if before < jobs.row[j].submit else now))
        # Only a throttle can delay a free job again, so all other free jobs leave the list.
        if not free or jobs.row[j].throttle > 0:
            s.list[kept].special = j
            kept += 1
    s.reg[0].special = kept


@inner
def next_instant(jobs: Jobs, rules: Rules, s: State) -> float:
    """Return the next poll, backfill cycle or priority update; with `lazy`, skip instants that cannot change a job."""
    poll = s.reg[0].first_poll + s.reg[0].polls * rules.poll
    if rules.lazy:
        event = INFINITE
        if s.reg[0].submitted < len(s.order):
            event = jobs.row[s.order[int(s.reg[0].submitted)]].submit
        if s.reg[0].heap > 0:
            event = min(event, s.heap[0].key)
        if s.reg[0].pass_due:
            event = min(event, max(s.reg[0].now, s.reg[0].last + rules.batch_sched_delay, rules.since))
        # No poll before the next event can change a job. The number of polls grows by the skipped polls, so that later
        # polls keep their phase.
        skipped = (event - poll) / rules.poll
        if 0 < skipped < INFINITE / 1e6:
            s.reg[0].polls += float(int(skipped + 0.999999))
            poll = s.reg[0].first_poll + s.reg[0].polls * rules.poll
        # If nothing has changed since the last backfill cycle, the next cycle starts no job.
        if not s.reg[0].dirty or s.reg[0].queue == s.reg[0].first:
            idle = (event - s.reg[0].cycle) / rules.bf_interval
            if 0 < idle < INFINITE / 1e6:
                s.reg[0].cycle += rules.bf_interval * float(int(idle + 0.999999))
        # priority/basic has no usage that decays.
        if rules.multifactor == 0:
            s.reg[0].decay = INFINITE
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
        # If several loops are due at one instant, priorities are updated first, because the other loops use them.
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
            # Slurm's backfill thread sleeps for bf_interval after a cycle has ended, so a long cycle delays the next
            # one.
            s.reg[0].cycle += rules.bf_interval + rules.test_length * s.reg[0].tests
    return int(s.reg[0].submitted)


@inner
def poll(site: Site, jobs: Jobs, rules: Rules, s: State, now: float) -> None:
    """Process one second of the controller: run a scheduling pass if one is due."""
    s.reg[0].polls += 1
    t = float(int(now))
    long_ago = t - s.reg[0].full >= rules.sched_interval
    if now >= rules.since and (long_ago or (s.reg[0].pass_due and t - s.reg[0].last >= rules.batch_sched_delay)):
        if long_ago:
            s.reg[0].full = t
        s.reg[0].pass_due, s.reg[0].last = 0, t
        main_loop(site, jobs, rules, s, now, int(long_ago))
