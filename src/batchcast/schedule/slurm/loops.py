"""Slurm's two loops: the main one in priority order, which a blocked partition stops, and backfill."""

from __future__ import annotations

from ...compiled import kernel
from .arrays import DIRTY, NONE, OUT, QUEUE, QUEUED, RUNNING_COUNT, SLOTS, TAKEN, TESTS, Jobs, Rules, Site, State
from .place import allocate, give_back, holds_any, place
from .policy import compact, count, independent, plan_of, run_order, taken_cpus, throttled, too_many, too_much

KILL_WAIT = 5.0


@kernel
def start_job(site: Site, jobs: Jobs, s: State, j: int, part: int, now: float, when: float, backfilled: int) -> None:
    """The job begins on what `place` took."""
    allocate(site, jobs, s, j, part)
    s.job[j].start, s.job[j].real, s.job[j].part, s.job[j].backfilled = when, now, part, backfilled
    run_order(s, j, when + plan_of(site, jobs, j, part))
    s.reg[DIRTY] = 1
    count(site, jobs, s, j, taken_cpus(s), s.reg[TAKEN], 1)
    for k in range(int(s.reg[TAKEN])):
        row = int(s.reg[OUT])
        if row < len(s.out):
            s.out[row].job, s.out[row].node, s.out[row].cpus = j, s.node[k].taken, s.node[k].asks
            s.reg[OUT] += 1


@kernel
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


@kernel
def fits_empty(site: Site, jobs: Jobs, s: State, j: int, part: int) -> bool:
    """Whether the job would fit on `s.mask` if nothing ran there."""
    for k in range(site.part[part].first, site.part[part + 1].first):
        i = site.members[k]
        s.node[i].tmp_cpus, s.node[i].tmp_memory, s.node[i].tmp_exclusive, s.node[i].tmp_jobs = 0, 0.0, 0, 0
        for g in range(site.gres.shape[1]):
            s.tmp_gres[i, g] = 0
    return place(site, jobs, s, j, part, 0, 1)


@kernel
def some_taken(site: Site, jobs: Jobs, s: State, j: int, part: int) -> bool:
    """Whether a node of `s.mask` with the job's features is held alone by a job, or by any if it wants it alone."""
    for k in range(site.part[part].first, site.part[part + 1].first):
        i = site.members[k]
        held = s.node[i].node_jobs if jobs.row[j].exclusive else s.node[i].exclusive_jobs
        if s.word[i >> 6].mask >> (i & 63) & 1 and not jobs.row[j].features & ~site.node[i].features and held > 0:
            return True
    return False


@kernel
def main_loop(site: Site, jobs: Jobs, rules: Rules, s: State, now: float, full: int) -> None:
    """Start what fits, best priority first. Where a job does not, nobody passes it in its partition or on its nodes."""
    words, t = len(s.word), float(int(now))
    for w in range(words):
        s.word[w].open_nodes = s.word[w].up
    for p in range(len(site.part) - 1):
        s.part[p].failed = 0
        for a in range(len(s.array_planned)):
            s.array_planned[a, p] = 0
    depth, started = 0, 0
    for k in range(int(s.reg[QUEUE])):
        j, part = s.queue[k].job, s.queue[k].part
        if s.job[j].status != QUEUED or not independent(jobs, s, j, now):
            continue
        a = jobs.row[j].array
        if a != NONE:
            if s.array_planned[a, part]:
                continue
            s.array_planned[a, part] = 1  # the whole array is refused until a task starts
        if not full and depth > rules.queue_depth:
            break
        depth += 1
        if s.part[part].failed or throttled(jobs, s, j) or too_many(site, jobs, rules, s, j):
            continue
        inside = 0
        for w in range(words):
            s.word[w].mask = s.word[w].open_nodes & site.inside[part, w]
            inside += bits(s.word[w].mask)
        if jobs.row[j].min_nodes > inside:
            continue
        kept_from(site, jobs, s, j, t, t + plan_of(site, jobs, j, part))
        if place(site, jobs, s, j, part, 0, 0):
            if not too_much(site, jobs, rules, s, j, taken_cpus(s), s.reg[TAKEN]):
                start_job(site, jobs, s, j, part, now, t, 0)
                started += 1
                if a != NONE:
                    s.array_planned[a, part] = 0
            continue
        if too_much(site, jobs, rules, s, j, s.job[j].sized, jobs.row[j].min_nodes):
            continue  # a limit is the reason then, and nobody is blocked
        if -s.queue[k].order < rules.bf_min_prio_reserve:
            continue
        if some_taken(site, jobs, s, j, part) or fits_empty(site, jobs, s, j, part):  # busy, not absent
            s.part[part].failed = 1
            for w in range(words):
                s.word[w].open_nodes &= ~site.inside[part, w]
            left = 0
            for p in range(len(site.part) - 1):
                left += 1 - s.part[p].failed
            if left == 0:
                break
    if started:
        compact(s, NONE)


@kernel
def bits(word: int) -> int:
    """Bits set in a word."""
    n = 0
    while word:
        word &= word - 1
        n += 1
    return n


@kernel
def will_run(site: Site, jobs: Jobs, s: State, j: int, part: int, t: float) -> float:
    """When the job would start on `s.seen` if running jobs ended as planned: `t` if now, -1 if never.

    Slurm takes the jobs that end off in groups, each twice as long as the one before, and tries after each group.
    """
    if place(site, jobs, s, j, part, 1, 0):
        return t
    for k in range(site.part[part].first, site.part[part + 1].first):
        i = site.members[k]
        s.node[i].tmp_cpus, s.node[i].tmp_memory = s.node[i].used_cpus, s.node[i].used_memory
        s.node[i].tmp_exclusive, s.node[i].tmp_jobs = s.node[i].exclusive_jobs, s.node[i].node_jobs
        for g in range(site.gres.shape[1]):
            s.tmp_gres[i, g] = s.used_gres[i, g]
    window, base, last, k = 30.0, -1.0, 0.0, 0
    running = int(s.reg[RUNNING_COUNT])
    while k < running:
        removed = False
        while k < running:
            o, end = s.active[k].job, max(s.active[k].end, t + KILL_WAIT)
            k += 1
            if not holds_any(s, o):
                continue
            if base < 0:
                base = end + 30 - end % 30
            give_back(site, jobs, s, o, 1)
            removed, last = True, end
            if k < running and max(s.active[k].end, t + KILL_WAIT) > base + window:
                break
        if not removed:
            break
        window *= 2
        while k < running and max(s.active[k].end, t + KILL_WAIT) > base + window:
            window *= 2
        if place(site, jobs, s, j, part, 1, 1):
            return last
    return -1.0


@kernel
def backfill(site: Site, jobs: Jobs, rules: Rules, s: State, now: float) -> None:
    """Plan every queued job in priority order on nodes that no better one has booked; start what can start now."""
    t, step = float(int(now)), rules.bf_resolution
    s.reg[SLOTS], s.reg[TESTS] = 1, 0
    s.slot[0].order = 0
    s.slot[0].begin = float(int(t) // step * step)
    s.slot[0].end = float((int(t) + rules.bf_window) // step * step)
    for w in range(len(s.word)):
        s.slot_free[0, w] = s.word[w].up
    for p in range(len(site.part) - 1):
        s.part[p].failed = s.part[p].part_tests = 0
        for a in range(len(s.array_planned)):
            s.array_planned[a, p] = 0
    for u in range(len(s.user_tests)):
        s.user_tests[u] = 0
    started = False
    for k in range(int(s.reg[QUEUE])):
        j, part = s.queue[k].job, s.queue[k].part
        if s.reg[TESTS] >= rules.bf_max_job_test:
            break
        if s.job[j].status != QUEUED or not independent(jobs, s, j, now):
            continue
        a = jobs.row[j].array
        if a != NONE:
            if s.array_planned[a, part] < 0 or s.array_planned[a, part] >= rules.bf_max_job_array_resv:
                continue
            if throttled(jobs, s, j) or too_many(site, jobs, rules, s, j):
                s.array_planned[a, part] = -1
                continue
        elif too_many(site, jobs, rules, s, j):
            continue
        u = jobs.row[j].user
        if (0 < rules.bf_max_job_user <= s.user_tests[u]) or (0 < rules.bf_max_job_part <= s.part[part].part_tests):
            continue
        s.user_tests[u] += 1
        s.part[part].part_tests += 1
        s.reg[TESTS] += 1
        reserves = -s.queue[k].order >= rules.bf_min_prio_reserve
        outcome = plan_job(site, jobs, rules, s, j, part, now, t, reserves)
        started = started or outcome == 1
        if a != NONE:
            if outcome == 2:
                s.array_planned[a, part] += 1
            elif outcome == 0:
                s.array_planned[a, part] = -1
    if started:
        compact(s, NONE)


@kernel
def plan_job(
    site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, now: float, t: float, reserves: bool
) -> int:
    """Try one job now and after each booking that is in its way: 1 started, 2 booked for later, 0 neither."""
    length, later = plan_of(site, jobs, j, part), t
    step = rules.bf_resolution
    while later >= 0:
        earliest = later
        later = usable_nodes(site, jobs, s, j, part, earliest, earliest + length)
        left = 0
        for w in range(len(s.word)):
            left += bits(s.word[w].seen)
        start = -1.0
        if left >= jobs.row[j].min_nodes:
            start = will_run(site, jobs, s, j, part, t)
        if start < 0:
            if not reserves:
                return 0
            continue
        s.job[j].sized = taken_cpus(s)
        start = max(start, earliest)
        if start <= t:
            if too_much(site, jobs, rules, s, j, taken_cpus(s), s.reg[TAKEN]):
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
        if too_much(site, jobs, rules, s, j, taken_cpus(s), s.reg[TAKEN]):
            return 0
        book(s, float(begin), float(end))
        return 2
    return 0


@kernel
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


@kernel
def booked_by_others(s: State, begin: float, end: float) -> bool:
    """Whether a node of `s.mine` is booked somewhere in [begin, end)."""
    for q in range(int(s.reg[SLOTS])):
        row = s.slot[q].order
        if s.slot[row].end > begin and s.slot[row].begin < end:
            for w in range(len(s.word)):
                if s.word[w].mine & ~s.slot_free[row, w]:
                    return True
    return False


@kernel
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


@kernel
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
