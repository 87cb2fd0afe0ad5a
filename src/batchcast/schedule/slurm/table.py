"""Backfill's table: which nodes are free of bookings, over time, as records of begin, end and a set of nodes."""

from __future__ import annotations

from ...compiled import inner
from .arrays import SLOTS, Jobs, Rules, Site, State


@inner
def open_table(rules: Rules, s: State, t: float) -> None:
    """One record: everything that is up, from now to the end of the window."""
    step = rules.bf_resolution
    s.reg[SLOTS] = 1
    s.slot[0].order = 0
    s.slot[0].begin = float(int(t) // step * step)
    s.slot[0].end = float((int(t) + rules.bf_window) // step * step)
    for w in range(len(s.word)):
        s.slot_free[0, w] = s.word[w].up


@inner
def kept_from(site: Site, jobs: Jobs, s: State, j: int, start: float, end: float) -> float:
    """Take nodes that reservations keep from the job in [start, end) off the mask; when the first ends, or -1."""
    first = -1.0
    for v in range(len(site.reservation)):
        if v != jobs.row[j].reservation and site.reservation[v].begin < end and site.reservation[v].end > start:
            for w in range(len(s.word)):
                s.word[w].mask &= ~site.reserved[v, w]
            if first < 0 or site.reservation[v].end < first:
                first = site.reservation[v].end
    return first


@inner
def usable_nodes(
    site: Site, jobs: Jobs, s: State, j: int, part: int, start: float, end: float, window: tuple[int, int, int]
) -> tuple[float, tuple[int, int, int]]:
    """`s.seen`: nodes free of bookings and reservations in [start, end]; when to look again, -1 if that cannot help.

    `window` is that of the last call for this job, (0, 0, 0) at first: the records of [start, end] go from its first
    to its last place, and only move forward. What is free in all of them is kept as two parts, `slot_all` from each
    place to the middle and `front` from there on, so that a record is looked at twice, however often one looks again.
    """
    words, slots = len(s.word), int(s.reg[SLOTS])
    for w in range(words):
        s.word[w].mask = site.inside[part, w]
    ends = kept_from(site, jobs, s, j, start, end)
    q, middle, stop = window
    if stop == 0:
        for w in range(words):
            s.word[w].front = -1
    while q < slots and s.slot[s.slot[q].order].end <= start:
        q += 1
    while stop < slots and s.slot[s.slot[stop].order].begin <= end:
        for w in range(words):
            s.word[w].front &= s.slot_free[s.slot[stop].order, w]
        stop += 1
    if q >= middle:
        middle = stop
        for w in range(words):
            rest = -1
            for k in range(stop - 1, q - 1, -1):
                rest &= s.slot_free[s.slot[k].order, w]
                s.slot_all[k, w] = rest
            s.word[w].front = -1
    for w in range(words):
        s.word[w].seen = s.word[w].mask & s.word[w].front & (s.slot_all[q, w] if q < middle else -1)
    later = more_nodes(s, q, end)
    if ends >= 0 and ends + 1 < s.slot[s.slot[slots - 1].order].end and (later < 0 or ends + 1 < later):
        later = ends + 1
    return later, (q, middle, stop)


@inner
def more_nodes(s: State, q: int, end: float) -> float:
    """The end of the first record from q on after which a node of `s.mask` is free that was not since q; -1: none."""
    words, k = len(s.word), q
    for w in range(words):
        s.word[w].so_far = s.word[w].mask
    while k + 1 < s.reg[SLOTS]:
        row, following = s.slot[k].order, s.slot[k + 1].order
        for w in range(words):
            if s.word[w].mask & s.slot_free[following, w] & ~(s.word[w].so_far & s.slot_free[row, w]):
                return float(s.slot[row].end)
        if s.slot[row].begin > end:
            break
        for w in range(words):
            s.word[w].so_far &= s.slot_free[row, w]
        k += 1
    return -1.0


@inner
def booked_by_others(s: State, begin: float, end: float) -> bool:
    """Whether a node of `s.mine` is booked somewhere in [begin, end)."""
    for q in range(int(s.reg[SLOTS])):
        row = s.slot[q].order
        if s.slot[row].end > begin and s.slot[row].begin < end:
            for w in range(len(s.word)):
                if s.word[w].mine & ~s.slot_free[row, w]:
                    return True
    return False


@inner
def book(s: State, begin: float, end: float) -> None:
    """Take `s.mine` out of the table in [begin, end); one pair of equal neighbours is joined a call, as Slurm does."""
    first = s.slot[s.slot[0].order].begin
    joined = begin <= first
    cut(s, max(begin, first))
    cut(s, end)
    slots = int(s.reg[SLOTS])
    for q in range(slots):
        row = s.slot[q].order
        if s.slot[row].begin >= begin and s.slot[row].end <= end:
            for w in range(len(s.word)):
                s.slot_free[row, w] &= ~s.word[w].mine
    if joined:
        return
    for q in range(slots - 1):
        row, following, same = s.slot[q].order, s.slot[q + 1].order, True
        for w in range(len(s.word)):
            same = same and s.slot_free[row, w] == s.slot_free[following, w]
        if same:
            s.slot[row].end = s.slot[following].end
            for m in range(q + 1, slots - 1):
                s.slot[m].order = s.slot[m + 1].order
            s.slot[slots - 1].order = following
            s.reg[SLOTS] -= 1
            return


@inner
def cut(s: State, at: float) -> None:
    """Let a record of the table begin at `at`, if that lies inside one and the table has room."""
    slots = int(s.reg[SLOTS])
    if slots >= len(s.slot):
        return
    for q in range(slots):
        row = s.slot[q].order
        if s.slot[row].begin < at < s.slot[row].end:
            fresh = s.slot[slots].order
            for m in range(slots, q + 1, -1):
                s.slot[m].order = s.slot[m - 1].order
            s.slot[q + 1].order = fresh
            s.slot[fresh].begin, s.slot[fresh].end, s.slot[row].end = at, s.slot[row].end, at
            for w in range(len(s.word)):
                s.slot_free[fresh, w] = s.slot_free[row, w]
            s.reg[SLOTS] += 1
            return
