# SPDX-License-Identifier: Apache-2.0
"""Backfill's plan of one job: whether the job could start now, when it starts after other bookings, and its booking.

Bookings are in a table of nodes without bookings over time: records of begin, end and a set of nodes, linked by time.
`room` is the number of processors on a record's nodes that are free by the record's end if running jobs end as planned;
`slot_ready` has the nodes with such processors. A job that needs more than `room` processors cannot start by that end
on the record's nodes, so most will-run tests are unnecessary.
"""

from __future__ import annotations

from ...compiled import inlined, inner
from ...compiled.arrays import bits, lowest
from .arrays import IDLE, MASK, MINE, NONE, QUEUED, SEEN, UP, WITNESS, Jobs, Rules, Site, State
from .place import KILL_WAIT, NOW, available, cpus_by, first_after, may_start, most_nodes, wanted_memory, will_run
from .policy import independent, plan_in, taken_cpus, too_many, too_much
from .start import list_victims, preempt, start_job

LOT = 512  # running jobs


@inner
def open_table(site: Site, rules: Rules, s: State, t: float) -> None:
    """Reset the table to one record: all nodes that are up, from now to the end of the window."""
    # As in Slurm, all times of the table are multiples of bf_resolution: fewer distinct times make fewer records.
    step = rules.bf_resolution
    end = float((int(t) + rules.bf_window) // step * step)
    s.reg[0].slots, s.reg[0].spare_slot, s.reg[0].same = 1, NONE, 0
    s.slot[0].begin, s.slot[0].end = float(int(t) // step * step), end
    s.slot[0].next, s.slot[0].same, s.slot[0].rises = NONE, 0, 0
    room = 0
    for w in range(s.bits.shape[1]):
        s.slot_free[0, w], s.slot_ready[0, w] = s.bits[UP, w], 0
    for i in range(len(site.node)):
        free = cpus_by(site, s, i, t, end)
        if free > 0:
            one = 1 << (i & 63)
            s.slot_ready[0, i >> 6] |= one
            room += free if s.bits[UP, i >> 6] & one else 0
    s.slot[0].room = room


@inner
def kept_from(site: Site, jobs: Jobs, s: State, j: int, start: float, end: float) -> float:
    """Remove from MASK the nodes that reservations block for the job in [start, end); return the first end, or -1."""
    first = -1.0
    for v in range(len(site.reservation)):
        begin, over = site.reservation[v].begin, site.reservation[v].end
        if site.reservation[v].every > 0 and over <= start:  # use the first occurrence that ends after the start
            turns = float(int((start - over) / site.reservation[v].every) + 1) * site.reservation[v].every
            begin, over = begin + turns, over + turns
        lets_in = v == jobs.row[j].reservation or end - start <= site.reservation[v].within
        if not lets_in and begin < min(end, site.reservation[v].until) and over > start:
            for w in range(s.bits.shape[1]):
                s.bits[MASK, w] &= ~site.reserved[v, w]
            if first < 0 or over < first:
                first = over
    return first


@inner
def record_after(s: State, row: int, at: float) -> int:
    """Return the first record from `row` on that ends after `at`, or NONE."""
    while row != NONE and s.slot[row].end <= at:
        row = s.slot[row].next
    return row


@inner
def rise_after(s: State, row: int, end: float) -> int:
    """Return the first record from `row` on whose successor has a further free node of MASK, or NONE if none by
    `end`."""
    while row != NONE:
        if rises_after(s, row):
            return row
        if s.slot[row].begin > end:
            return NONE
        row = s.slot[row].next
    return NONE


@inlined
def rises_after(s: State, row: int) -> bool:
    """Return whether a MASK node that is booked in record `row` is free in the next record."""
    if s.slot[row].rises:
        following = s.slot[row].next
        for w in range(s.bits.shape[1]):
            if s.bits[MASK, w] & s.slot_free[following, w] & ~s.slot_free[row, w]:
                return True
    return False


@inner
def last_rise(s: State, row: int, until: int) -> int:
    """Return the last record from `row` to `until` whose successor has a further free node of MASK, or `row`."""
    last = row
    while row != until:
        row = s.slot[row].next
        if rises_after(s, row):
            last = row
    return last


@inner
def free_until(s: State, row: int, end: float) -> int:
    """Set SEEN to the nodes of MASK that are free in all records from `row` that begin by `end`; return their
    number."""
    words, count = s.bits.shape[1], 0
    for w in range(words):
        s.bits[SEEN, w] = s.bits[MASK, w]
    while row != NONE and s.slot[row].begin <= end:
        for w in range(words):
            s.bits[SEEN, w] &= s.slot_free[row, w]
        row = s.slot[row].next
    for w in range(words):
        count += bits(s.bits[SEEN, w])
    return count


@inner
def booked_by_others(s: State, row: int, begin: float, end: float) -> bool:
    """Return whether a node of MINE is booked in [begin, end); `row` must be at or before the first such record."""
    row = record_after(s, row, begin)
    while row != NONE and s.slot[row].begin < end:
        for w in range(s.bits.shape[1]):
            if s.bits[MINE, w] & ~s.slot_free[row, w]:
                return True
        row = s.slot[row].next
    return False


@inner
def book(site: Site, s: State, row: int, t: float, begin: float, end: float) -> None:
    """Book the nodes of MINE in [begin, end), and join one pair of equal neighbouring records per call, as Slurm does.

    `row` must be at or before the record that contains `begin`. Neighbours can become equal only at the two ends,
    because these nodes had no booking in between.
    """
    words, first = s.bits.shape[1], s.slot[0].begin
    cut(site, s, row, t, max(begin, first))
    cut(site, s, row, t, end)
    last = NONE
    while row != NONE and s.slot[row].end <= end:
        if s.slot[row].begin >= begin:
            for w in range(words):
                s.slot_free[row, w] &= ~s.bits[MINE, w]
            for k in range(int(s.reg[0].allocated)):  # the processors of the booked nodes are no longer available
                s.slot[row].room -= max(cpus_by(site, s, s.node[k].allocated, t, s.slot[row].end), 0)
            if last != NONE and s.slot[last].end <= begin:
                compare(s, last)
        last = row
        row = s.slot[row].next
    if last != NONE:
        compare(s, last)
    row = 0
    while begin > first and s.reg[0].same > 0:
        if s.slot[row].same:
            join(s, row)
            return
        row = s.slot[row].next


@inner
def compare(s: State, row: int) -> None:
    """Store whether a record and its successor have equal nodes, and whether the successor has additional nodes."""
    following, same, rises = s.slot[row].next, 1, 0
    if following == NONE:
        return
    for w in range(s.bits.shape[1]):
        if s.slot_free[row, w] != s.slot_free[following, w]:
            same = 0
            if s.slot_free[following, w] & ~s.slot_free[row, w]:
                rises = 1
                break
    s.reg[0].same += same - s.slot[row].same
    s.slot[row].same, s.slot[row].rises = same, rises


@inner
def join(s: State, row: int) -> None:
    """Join a record with its successor, which has equal nodes."""
    gone = s.slot[row].next
    s.slot[row].end, s.slot[row].room = s.slot[gone].end, s.slot[gone].room
    s.slot[row].next, s.slot[row].same, s.slot[row].rises = s.slot[gone].next, s.slot[gone].same, s.slot[gone].rises
    for w in range(s.bits.shape[1]):
        s.slot_ready[row, w] = s.slot_ready[gone, w]
    s.slot[gone].next = int(s.reg[0].spare_slot)
    s.reg[0].spare_slot = gone
    s.reg[0].slots -= 1
    s.reg[0].same -= 1


@inner
def cut(site: Site, s: State, row: int, t: float, at: float) -> None:
    """Split the record from `row` on that contains `at`, if the table has room."""
    row = record_after(s, row, at)
    if row == NONE or s.slot[row].begin >= at or s.reg[0].slots >= len(s.slot):
        return
    fresh, end = int(s.reg[0].spare_slot), s.slot[row].end
    if fresh == NONE:
        fresh = int(s.reg[0].slots)
    else:
        s.reg[0].spare_slot = s.slot[fresh].next
    s.slot[fresh] = s.slot[row]
    s.slot[fresh].begin = s.slot[row].end = at
    s.slot[row].next, s.slot[row].same, s.slot[row].rises = fresh, 1, 0
    for w in range(s.bits.shape[1]):
        s.slot_free[fresh, w], s.slot_ready[fresh, w] = s.slot_free[row, w], s.slot_ready[row, w]
    s.reg[0].slots += 1
    s.reg[0].same += 1
    give_later(site, s, row, t, at, end)


@inner
def give_later(site: Site, s: State, row: int, t: float, at: float, end: float) -> None:
    """Reduce the number of available processors (`room`) of a table record, whose end moved from `end` to `at`, by the
    processors released in between.

    If the update is too much work, `room` is not reduced. A `room` that is too large is safe, because it only avoids
    fewer will-run tests.
    """
    s.reg[0].stamp += 1
    stamp, k = int(s.reg[0].stamp), first_after(s, t, at)
    if first_after(s, t, end) - k > LOT:
        return
    while k < s.reg[0].running and max(s.active[k].end, t + KILL_WAIT) <= end:
        entry = s.job[s.active[k].job].head
        while entry != NONE:
            i = s.pool[entry].node
            one = 1 << (i & 63)
            if s.node[i].stamp != stamp:
                s.node[i].stamp = stamp
                free = cpus_by(site, s, i, t, at)
                if s.slot_free[row, i >> 6] & one:
                    s.slot[row].room -= max(cpus_by(site, s, i, t, end), 0) - max(free, 0)
                if free <= 0:
                    s.slot_ready[row, i >> 6] &= ~one
            entry = s.pool[entry].next
        k += 1


@inner
def hold_back(site: Site, s: State, t: float, until: float) -> None:
    """Reduce the number of available processors (`room`) of table records that end before `until`, because a job
    started on the chosen nodes."""
    row = 0
    while row != NONE and s.slot[row].end < max(until, t + KILL_WAIT):
        for k in range(int(s.reg[0].allocated)):
            i = s.node[k].allocated
            free = cpus_by(site, s, i, t, s.slot[row].end)
            if s.slot_free[row, i >> 6] >> (i & 63) & 1:
                s.slot[row].room -= max(free + s.node[k].asks, 0) - max(free, 0)
            if free <= 0:
                s.slot_ready[row, i >> 6] &= ~(1 << (i & 63))
        row = s.slot[row].next


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
            # Not every task of an array is tested, and with a limit per user or partition not every job. Counting these
            # jobs as tested could end the cycle too early.
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
        s.bits[WITNESS] = 0
        return True
    shape, length = s.shape[jobs.row[j].form, part], plan_in(site, part, jobs.row[j].plan)
    # A request of a form that found too few free nodes is refused without a new look at the nodes until processors are
    # released (`grown`).
    refused = shape.refused == s.reg[0].grown or (shape.cycle == s.reg[0].passes and length >= shape.length)
    if refused or jobs.row[j].cpus > idle_cpus(site, s, part):
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
            free = available(site, jobs, s, j, i, most, per, NOW)
            if free > 0:
                if s.node[i].booked <= end:
                    untouched = False
                    continue
                total += free
                nodes += 1
                s.bits[WITNESS, w] |= one
                if total >= jobs.row[j].cpus and nodes >= jobs.row[j].min_nodes:
                    return True
    # If neither bookings nor reservations caused the refusal, it holds until processors are released; else it holds for
    # this cycle, and only for jobs that run at least as long.
    if untouched:
        shape.refused = int(s.reg[0].grown)
    else:
        shape.cycle, shape.length = int(s.reg[0].passes), length
    return False


LATE = 1e300


@inner
def plan_job(
    site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, now: float, t: float, reserves: bool
) -> int:
    """Try to start or book a job now and after each booking that prevents an earlier start; return 1 if started, 2 if
    booked, else 0."""
    length, later, row, scan, short = plan_in(site, part, jobs.row[j].plan), t, 0, 0, NONE
    reserved = len(site.reservation) > 0
    last = float((int(t) + rules.bf_window) // rules.bf_resolution * rules.bf_resolution)  # the end of the table
    # the caller does not use a start after `later`, but Slurm stores the job size that the will-run test computes
    victims = list_victims(site, jobs, rules, s, j, part, t)
    cuts = victims == 0 and (not rules.sizes_matter or s.job[j].sized == jobs.row[j].then)
    ends = next_mask(site, jobs, s, j, part, t, t + length)
    while later >= 0:
        earliest, end = later, later + length
        if reserved:
            ends = next_mask(site, jobs, s, j, part, earliest, end)
        row = record_after(s, row, earliest)
        rise = rise_after(s, row, end)
        later = s.slot[rise].end if rise != NONE else -1.0
        if ends >= 0 and ends + 1 < last and (later < 0 or ends + 1 < later):
            later, rise = ends + 1, record_after(s, row, ends + 1)
        if cuts and reserves and later >= 0:  # the caller does not use a start after `later`
            scan, short = short_until(s, scan, short, jobs.row[j].cpus, end)
            if short != NONE and s.slot[short].begin >= s.slot[rise].begin:
                if not reserved:  # this record has too few processors, so all starts before its end fail
                    row = last_rise(s, rise, short)
                    later = s.slot[row].end
                continue
            if not may_start(site, jobs, s, j, t, row, end, rise, later):
                continue
        start = -1.0
        if free_until(s, row, end) >= jobs.row[j].min_nodes:
            start = will_run(site, jobs, s, j, part, t, later if cuts and later >= 0 else LATE, victims)
        if start < 0:
            if not reserves:
                return 0
            continue
        s.job[j].sized = taken_cpus(s)
        # The will-run test has returned t - 1: the job could start now if it preempted other jobs.
        if start < earliest <= t:
            if reserves and reserve(site, jobs, rules, s, j, part, row, t, t, t + length) != 2:
                return 0
            preempt(site, jobs, rules, s, j, part, now)  # the booking keeps the nodes for the job
            return 2 if reserves else 0
        start = max(start, earliest)
        if start <= t:
            if too_much(site, jobs, rules, s, j, part, taken_cpus(s), s.reg[0].allocated):
                return 0
            start_job(site, jobs, s, j, part, now, t, 1)
            hold_back(site, s, t, s.job[j].planned)
            return 1
        if not reserves:
            return 0
        # A booking ends before this start, so the job may start earlier on the nodes of that booking.
        if 0 <= later < start:
            continue
        if start > t + rules.bf_window:
            return 0
        outcome = reserve(site, jobs, rules, s, j, part, row, t, start, start + length)
        if outcome >= 0:
            return outcome
        # Another booking has one of the nodes at that time: try again from the start that was found.
        if start > earliest:
            later = start
    return 0


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
def reserve(
    site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, row: int, t: float, start: float, until: float
) -> int:
    """Book the chosen nodes from `start` to `until`: return 2, or 0 if a limit forbids it, or -1 if one of the nodes is
    already booked."""
    step = rules.bf_resolution
    begin = int(start) // step * step
    end = max(int(until) // step * step, begin + step)
    s.bits[MINE] = 0
    for k in range(int(s.reg[0].allocated)):
        i = s.node[k].allocated
        s.bits[MINE, i >> 6] |= 1 << (i & 63)
    if row == NONE or s.slot[row].begin >= begin:  # the booking may make the record before it equal
        row = 0
    if booked_by_others(s, row, float(begin), float(end)):
        return -1
    if too_much(site, jobs, rules, s, j, part, taken_cpus(s), s.reg[0].allocated):
        return 0
    if s.reg[0].slots + 2 <= len(s.slot):  # if the table is full, it does not contain this booking
        for k in range(int(s.reg[0].allocated)):
            i = s.node[k].allocated
            s.node[i].booked = min(s.node[i].booked, float(begin))
    book(site, s, row, t, float(begin), float(end))
    return 2
