"""Who may run and in which order: dependencies, throttles, QOS and association limits, multifactor priority."""

from __future__ import annotations

from ...compiled import kernel
from .arrays import (
    AFTERNOTOK,
    AFTEROK,
    DONE,
    FAR,
    GONE,
    NONE,
    PRIO_NOW,
    QUEUE,
    QUEUED,
    RUNNING,
    RUNNING_COUNT,
    TAKEN,
    Jobs,
    Rules,
    Site,
    State,
)  # fmt: skip

NODES = 1  # places of the TRES: processors, nodes, then each gres


@kernel
def plan_of(site: Site, jobs: Jobs, j: int, part: int) -> float:
    """Seconds that the job is planned with in this partition: its limit or forecast, else the default; never more."""
    asked = jobs.row[j].plan
    if asked < 0:
        asked = site.part[part].default_time if site.part[part].default_time >= 0 else site.part[part].max_time
    return float(min(asked, site.part[part].max_time, 31536000.0))


@kernel
def independent(jobs: Jobs, s: State, j: int, now: float) -> bool:
    """Whether nothing but the queue holds the job: begin time, hold, dependencies, singleton."""
    if jobs.row[j].begin > now or jobs.row[j].release > now:
        return False
    for k in range(jobs.row[j].needs_from, jobs.row[j + 1].needs_from):
        o = jobs.needs[k]
        if s.job[o].status != DONE and s.job[o].status != GONE:
            return False
        bad = s.job[o].status == GONE or jobs.row[o].fails or jobs.row[o].cancel <= now
        if jobs.needs_kind[k] == AFTEROK and bad:
            return False
        if jobs.needs_kind[k] == AFTERNOTOK and not bad:
            return False
    if jobs.row[j].singleton:
        o = jobs.row[j].earlier
        while o != NONE and (s.job[o].status == DONE or s.job[o].status == GONE):
            o = jobs.row[o].earlier
        jobs.row[j].earlier = o
        return bool(o == NONE)
    return True


@kernel
def throttled(jobs: Jobs, s: State, j: int) -> bool:
    """Whether the job's array already runs as many tasks as it may."""
    return bool(jobs.row[j].throttle > 0 and s.array_running[jobs.row[j].array] >= jobs.row[j].throttle)


@kernel
def too_many(site: Site, jobs: Jobs, rules: Rules, s: State, j: int) -> bool:
    """Limits on counts of running jobs; a QOS's limit stands before an association's of the same kind."""
    if not rules.enforce:
        return False
    q, u, a = jobs.row[j].qos, jobs.row[j].user, jobs.row[j].assoc
    if s.qos[q].jobs >= site.qos[q].jobs or s.qos_user_jobs[q, u] >= site.qos[q].user_jobs:
        return True
    if site.qos[q].user_jobs == FAR and a != NONE and s.assoc[a].jobs >= site.assoc[a].own_jobs:
        return True
    if site.qos[q].jobs == FAR:
        while a != NONE:
            if s.assoc[a].jobs >= site.assoc[a].jobs:
                return True
            a = site.assoc[a].parent
    return False


@kernel
def too_much(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, cpus: float, nodes: float) -> bool:
    """Limits on processors, nodes and gres, if the job had `cpus` on `nodes`."""
    if not rules.enforce:
        return False
    q, u = jobs.row[j].qos, jobs.row[j].user
    for k in range(site.qos_tres.shape[1]):
        asks = cpus if k == 0 else nodes if k == NODES else jobs.gres[j, k - 2] * nodes
        if asks <= 0:
            continue
        if asks + s.qos_user_tres[q, u, k] > site.qos_user_tres[q, k] or asks + s.qos_tres[q, k] > site.qos_tres[q, k]:
            return True
        if site.qos_tres[q, k] < FAR:
            continue
        a = jobs.row[j].assoc
        while a != NONE:
            if asks + s.assoc_tres[a, k] > site.assoc_tres[a, k]:
                return True
            a = site.assoc[a].parent
    return False


@kernel
def taken_cpus(s: State) -> float:
    """Processors of what `place` took."""
    total = 0
    for k in range(int(s.reg[TAKEN])):
        total += s.node[k].asks
    return total


@kernel
def count(site: Site, jobs: Jobs, s: State, j: int, cpus: float, nodes: float, sign: int) -> None:
    """A job starts (+1) or ends (-1) in the counts that limits look at."""
    q, u, a = jobs.row[j].qos, jobs.row[j].user, jobs.row[j].assoc
    s.qos[q].jobs += sign
    s.qos_user_jobs[q, u] += sign
    for k in range(site.qos_tres.shape[1]):
        amount = cpus if k == 0 else nodes if k == NODES else jobs.gres[j, k - 2] * nodes
        s.qos_tres[q, k] += sign * amount
        s.qos_user_tres[q, u, k] += sign * amount
    while a != NONE:
        s.assoc[a].jobs += sign
        for k in range(site.qos_tres.shape[1]):
            amount = cpus if k == 0 else nodes if k == NODES else jobs.gres[j, k - 2] * nodes
            s.assoc_tres[a, k] += sign * amount
        a = site.assoc[a].parent
    if jobs.row[j].array != NONE:
        s.array_running[jobs.row[j].array] += sign


@kernel
def priority(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int) -> float:
    """priority/basic: first come first served, less nice; priority/multifactor: the weighted factors, truncated."""
    if not rules.multifactor:
        return float(-s.group_sequence[jobs.row[j].group] - jobs.row[j].nice)
    now = s.reg[PRIO_NOW]
    waited = max(now - s.job[j].accrued, 0.0) if s.job[j].accrued < FAR else 0.0
    age = min(waited / rules.max_age, 1.0)
    size = (jobs.row[j].min_nodes / len(site.node) + s.job[j].sized / rules.machine_cpus) / 2
    fair = s.assoc[jobs.row[j].assoc].fair if jobs.row[j].assoc != NONE else 0.0
    total = (
        rules.w_age * age
        + rules.w_fairshare * fair
        + rules.w_size * size
        + rules.w_partition * site.part[part].factor
        + rules.w_qos * site.qos[jobs.row[j].qos].factor
    )
    return float(int(total) - jobs.row[j].nice)


@kernel
def before(jobs: Jobs, s: State, a: int, b: int) -> bool:
    """Whether queued pair a comes before pair b: tier, priority, submission, task."""
    if s.queue[a].tier != s.queue[b].tier:
        return bool(s.queue[a].tier < s.queue[b].tier)
    if s.queue[a].order != s.queue[b].order:
        return bool(s.queue[a].order < s.queue[b].order)
    x, y = s.group_sequence[jobs.row[s.queue[a].job].group], s.group_sequence[jobs.row[s.queue[b].job].group]
    if x != y:
        return bool(x < y)
    if jobs.row[s.queue[a].job].task != jobs.row[s.queue[b].job].task:
        return bool(jobs.row[s.queue[a].job].task < jobs.row[s.queue[b].job].task)
    return bool(s.queue[a].job < s.queue[b].job)


@kernel
def swap(s: State, a: int, b: int) -> None:
    """Exchange two queued pairs."""
    s.queue[a].job, s.queue[b].job = s.queue[b].job, s.queue[a].job
    s.queue[a].part, s.queue[b].part = s.queue[b].part, s.queue[a].part
    s.queue[a].tier, s.queue[b].tier = s.queue[b].tier, s.queue[a].tier
    s.queue[a].order, s.queue[b].order = s.queue[b].order, s.queue[a].order


@kernel
def sink(jobs: Jobs, s: State, k: int) -> None:
    """Move the pair at k forward to its place among those before it."""
    while k > 0 and before(jobs, s, k, k - 1):
        swap(s, k, k - 1)
        k -= 1


@kernel
def enqueue(site: Site, jobs: Jobs, rules: Rules, s: State, j: int) -> None:
    """One pair for each partition of the job, each in its place."""
    for part in range(len(site.part) - 1):
        if jobs.row[j].partitions >> part & 1:
            k = int(s.reg[QUEUE])
            s.reg[QUEUE] += 1
            s.queue[k].job, s.queue[k].part = j, part
            s.queue[k].tier = -site.part[part].tier
            s.queue[k].order = -priority(site, jobs, rules, s, j, part)
            sink(jobs, s, k)


@kernel
def compact(s: State, without: int) -> None:
    """Drop pairs of jobs that wait no more, and of `without`."""
    kept = 0
    for k in range(int(s.reg[QUEUE])):
        j = s.queue[k].job
        if s.job[j].status == QUEUED and j != without:
            if kept != k:
                s.queue[kept].job, s.queue[kept].part = j, s.queue[k].part
                s.queue[kept].tier, s.queue[kept].order = s.queue[k].tier, s.queue[k].order
            kept += 1
    s.reg[QUEUE] = kept


@kernel
def recompute(site: Site, jobs: Jobs, rules: Rules, s: State) -> None:
    """Every queued pair's priority anew, and the queue in its order."""
    compact(s, NONE)
    for k in range(int(s.reg[QUEUE])):
        s.queue[k].order = -priority(site, jobs, rules, s, s.queue[k].job, s.queue[k].part)
        sink(jobs, s, k)


@kernel
def decay_usage(site: Site, jobs: Jobs, rules: Rules, s: State, last: float, now: float) -> None:
    """Usage halves in a half-life and grows by what ran since `last`, processor seconds by association."""
    keep = 1 - 0.693 / rules.half_life
    for a in range(len(site.assoc)):
        s.assoc[a].usage = s.assoc[a].usage * keep ** (now - last) + s.assoc[a].recent
        s.assoc[a].recent = 0.0
    for k in range(int(s.reg[RUNNING_COUNT])):
        charge(site, jobs, rules, s, s.active[k].job, last, now)
    for a in range(len(site.assoc)):
        s.assoc[a].usage += s.assoc[a].recent
        s.assoc[a].recent = 0.0


@kernel
def charge(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, last: float, until: float) -> None:
    """What a job used since `last`, kept apart until the next update."""
    span = until - max(s.job[j].real, last)
    if span <= 0 or jobs.row[j].assoc == NONE:
        return
    cpus, entry = 0, s.job[j].head
    while entry != NONE:
        cpus += s.pool[entry].cpus
        entry = s.pool[entry].next
    s.assoc[jobs.row[j].assoc].recent += span * (1 - 0.693 / rules.half_life) ** span * cpus


@kernel
def fair_tree(site: Site, s: State) -> None:
    """Rank users depth first by level: share of the siblings' shares over usage of the siblings' usage.

    Accounts of equal level are walked as one; users of equal level share a rank. Factor: rank / number of users.
    """
    count, users = len(site.assoc), 0
    for a in range(count):
        s.assoc[a].level = s.assoc[a].usage
        users += site.assoc[a].is_user
    for a in range(count):  # usage of accounts: that of the users below
        if site.assoc[a].is_user:
            b = site.assoc[a].parent
            while b != NONE:
                s.assoc[b].level += s.assoc[a].usage
                b = site.assoc[b].parent
    for a in range(count):
        everyone = 0.0
        for b in range(count):
            if site.assoc[b].parent == site.assoc[a].parent:
                everyone += s.assoc[b].level
        s.assoc[a].fair = (
            FAR if s.assoc[a].level == 0 or everyone == 0 else site.assoc[a].share / (s.assoc[a].level / everyone)
        )
    for a in range(count):
        s.assoc[a].level = s.assoc[a].fair
    ranked, depth, top = 0, 0, 0
    for a in range(count):
        if site.assoc[a].parent == NONE:
            top = put_children(site, s, a, 0, top)
    s.stack[0, 0], s.stack[0, 1] = 0, top
    while depth >= 0:
        k, end = s.stack[depth, 0], s.stack[depth, 1]
        if k >= end:
            depth -= 1
            continue
        tied = k
        while tied < end and s.assoc[s.assoc[tied].siblings].level == s.assoc[s.assoc[k].siblings].level:
            tied += 1
        s.stack[depth, 0] = tied
        rank, top = users - ranked, end
        for m in range(k, tied):
            a = s.assoc[m].siblings
            if site.assoc[a].is_user:
                s.assoc[a].fair = rank / users
                ranked += 1
        for m in range(k, tied):
            if not site.assoc[s.assoc[m].siblings].is_user:
                top = put_children(site, s, s.assoc[m].siblings, end, top)
        depth += 1
        s.stack[depth, 0], s.stack[depth, 1] = end, top


@kernel
def put_children(site: Site, s: State, parent: int, begin: int, top: int) -> int:
    """Children of an association among `s.assoc[begin:top].siblings`, highest level first; the new top."""
    for a in range(len(site.assoc)):
        if site.assoc[a].parent == parent:
            k = top
            while k > begin and s.assoc[s.assoc[k - 1].siblings].level < s.assoc[a].level:
                s.assoc[k].siblings = s.assoc[k - 1].siblings
                k -= 1
            s.assoc[k].siblings = a
            top += 1
    return top


@kernel
def run_order(s: State, j: int, end: float) -> None:
    """Put a job that starts into the list of running ones, by planned end."""
    k = int(s.reg[RUNNING_COUNT])
    s.reg[RUNNING_COUNT] += 1
    while k > 0 and (s.active[k - 1].end > end or (s.active[k - 1].end == end and s.active[k - 1].job > j)):
        s.active[k].job, s.active[k].end = s.active[k - 1].job, s.active[k - 1].end
        k -= 1
    s.active[k].job, s.active[k].end = j, end
    s.job[j].status = RUNNING


@kernel
def stop_order(s: State, j: int) -> None:
    """Take a job out of the list of running ones."""
    kept = 0
    for k in range(int(s.reg[RUNNING_COUNT])):
        if s.active[k].job != j:
            s.active[kept].job, s.active[kept].end = s.active[k].job, s.active[k].end
            kept += 1
    s.reg[RUNNING_COUNT] = kept
