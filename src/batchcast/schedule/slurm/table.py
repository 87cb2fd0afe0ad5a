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
def usable_nodes(site: Site, jobs: Jobs, s: State, j: int, part: int, start: float, end: float) -> float:
    """`s.seen`: nodes free of bookings and reservations in [start, end]; when to look again, -1 if that cannot help."""
    later, words = -1.0, len(s.word)
    for w in range(words):
        s.word[w].mask = site.inside[part, w]
    ends = kept_from(site, jobs, s, j, start, end)
    for w in range(words):
        s.word[w].seen = s.word[w].mask
    slots = int(s.reg[SLOTS])
    for q in range(slots):
        row = s.slot[q].order
        if s.slot[row].end <= start:
            continue
        if q + 1 < slots and later < 0:
            following = s.slot[q + 1].order
            for w in range(words):
                if s.word[w].mask & s.slot_free[following, w] & ~(s.word[w].seen & s.slot_free[row, w]):
                    later = s.slot[row].end
                    break
        if s.slot[row].begin > end:
            break
        for w in range(words):
            s.word[w].seen &= s.slot_free[row, w]
    if ends >= 0 and ends + 1 < s.slot[s.slot[slots - 1].order].end and (later < 0 or ends + 1 < later):
        later = ends + 1
    return later


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
