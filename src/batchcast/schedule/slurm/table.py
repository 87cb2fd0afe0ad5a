# SPDX-License-Identifier: Apache-2.0
"""Backfill's table of nodes without bookings over time: records of begin, end and a set of nodes, linked by time.

`room` is the number of processors on a record's nodes that are free by the record's end if running jobs end as planned;
`slot_ready` has the nodes with such processors. A job that needs more than `room` processors cannot start by that end
on the record's nodes, so most will-run tests are unnecessary.
"""

from __future__ import annotations

from ...compiled import inlined, inner
from ...compiled.arrays import bits
from .arrays import MASK, MINE, NONE, SEEN, UP, Jobs, Rules, Site, State
from .look_ahead import KILL_WAIT, cpus_by, first_after

LOT = 512  # running jobs


@inner
def open_table(site: Site, rules: Rules, s: State, t: float) -> None:
    """Reset the table to one record: all nodes that are up, from now to the end of the window."""
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
            if last == NONE or s.slot[last].end <= begin:
                take_room(site, s, row, t, end)
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


@inlined
def take_room(site: Site, s: State, first: int, t: float, end: float) -> None:
    """Reduce the number of available processors (`room`) of the table's records from `first` to `end` by the processors
    that are free on the chosen nodes."""
    for k in range(int(s.reg[0].taken)):
        i, row = s.node[k].taken, first
        free, entry = site.node[i].cpus - s.node[i].used_cpus, s.node[i].head
        while row != NONE and s.slot[row].end <= end:
            until = s.slot[row].end
            if until >= t + KILL_WAIT:
                while entry != NONE and s.pool[entry].end <= until:
                    free += s.pool[entry].cpus
                    entry = s.pool[entry].beside
            s.slot[row].room -= max(free, 0)
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
                free, more = site.node[i].cpus - s.node[i].used_cpus, s.node[i].head
                while more != NONE and s.pool[more].end <= at and at >= t + KILL_WAIT:
                    free += s.pool[more].cpus
                    more = s.pool[more].beside
                if s.slot_free[row, i >> 6] & one:
                    later = free
                    while more != NONE and s.pool[more].end <= end:
                        later += s.pool[more].cpus
                        more = s.pool[more].beside
                    s.slot[row].room -= max(later, 0) - max(free, 0)
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
        for k in range(int(s.reg[0].taken)):
            i = s.node[k].taken
            free = cpus_by(site, s, i, t, s.slot[row].end)
            if s.slot_free[row, i >> 6] >> (i & 63) & 1:
                s.slot[row].room -= max(free + s.node[k].asks, 0) - max(free, 0)
            if free <= 0:
                s.slot_ready[row, i >> 6] &= ~(1 << (i & 63))
        row = s.slot[row].next
