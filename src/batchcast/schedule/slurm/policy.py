# SPDX-License-Identifier: Apache-2.0
"""Decides which jobs may run: dependencies, array throttles, licenses, and limits of QOS and associations."""

from __future__ import annotations

from ...compiled import inlined, inner
from .arrays import AFTERNOTOK, AFTEROK, DONE, GONE, INFINITE, NONE, Jobs, Rules, Site, State
from .place import wanted_memory

NODES, MEMORY = 1, 2  # indices of TRES: processors, nodes, memory, then each GRES


@inlined
def plan_in(site: Site, part: int, length: float) -> float:
    """Return the planned run time of a job in a partition: its limit or prediction `length`, or the partition's default
    limit if `length` is -1; at most MaxTime."""
    if length < 0:
        length = site.part[part].default_time if site.part[part].default_time >= 0 else site.part[part].max_time
    # Slurm plans a job without any limit with one year.
    return float(min(length, site.part[part].max_time, 31536000.0))


@inner
def independent(jobs: Jobs, s: State, j: int, now: float) -> bool:
    """Return whether the job is eligible: no begin time, hold, dependency or singleton delays it."""
    if jobs.row[j].begin > now or jobs.row[j].release > now:
        return False
    for k in range(jobs.row[j].needs_from, jobs.row[j + 1].needs_from):
        o = jobs.needs[k]
        if s.job[o].status != DONE and s.job[o].status != GONE:
            return False
        # A cancelled job counts as failed.
        bad = s.job[o].status == GONE or jobs.row[o].fails or jobs.row[o].cancel <= now
        if (jobs.needs_kind[k] == AFTEROK and bad) or (jobs.needs_kind[k] == AFTERNOTOK and not bad):
            return False
    if jobs.row[j].singleton:
        o = jobs.row[j].earlier
        while o != NONE and (s.job[o].status == DONE or s.job[o].status == GONE):
            o = jobs.row[o].earlier
        # Jobs that have ended are skipped for good, so that the chain is walked only once.
        jobs.row[j].earlier = o
        return bool(o == NONE)
    return True


@inner
def throttled(jobs: Jobs, s: State, j: int) -> bool:
    """Return whether the job's array already runs its maximum number of tasks."""
    return bool(jobs.row[j].throttle > 0 and s.array_running[jobs.row[j].array] >= jobs.row[j].throttle)


@inner
def too_many(site: Site, jobs: Jobs, rules: Rules, s: State, j: int) -> bool:
    """Return whether a license or a limit on job counts forbids the start; QOS limits replace association limits."""
    if jobs.row[j].licensed:
        for k in range(len(s.licenses)):
            if jobs.licenses[j, k] > site.licenses[k] - s.licenses[k]:
                return True
    if not rules.enforce:
        return False
    # The time limit is above MaxWall: without the flag DenyOnLimit, Slurm accepts the job and never starts it.
    if jobs.row[j].barred:
        return True
    q, u, a = jobs.row[j].qos, jobs.row[j].user, jobs.row[j].assoc
    full = s.qos[q].jobs >= site.qos[q].jobs or s.qos_user_jobs[q, u] >= site.qos[q].user_jobs
    if full or s.qos_account_jobs[q, jobs.row[j].account] >= site.qos[q].account_jobs:
        return True
    if site.qos[q].user_jobs == INFINITE and a != NONE and s.assoc[a].jobs >= site.assoc[a].own_jobs:
        return True
    if site.qos[q].jobs == INFINITE:
        while a != NONE:
            if s.assoc[a].jobs >= site.assoc[a].jobs:
                return True
            a = site.assoc[a].parent
    return False


@inlined
def amount(site: Site, jobs: Jobs, j: int, part: int, k: int, cpus: float, nodes: float) -> float:
    """Return the job's amount of TRES k (processors, nodes, MiB, then each GRES) with `cpus` on `nodes`."""
    if k == 0:
        return cpus
    if k == NODES:
        return nodes
    if k > MEMORY:
        return float(jobs.gres[j, k - MEMORY - 1] * nodes)
    per_node, per_cpu = wanted_memory(site, jobs, j, part)
    if per_node == 0:
        return float(site.node[site.members[site.part[part].first]].memory * nodes)
    return float(per_node * nodes if per_node > 0 else max(per_cpu, 0.0) * cpus)


@inner
def too_much(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, part: int, cpus: float, nodes: float) -> bool:
    """Return whether `cpus` on `nodes` would exceed a TRES limit per job or a TRES limit on all running jobs."""
    if not rules.enforce:
        return False
    q, u, c = jobs.row[j].qos, jobs.row[j].user, jobs.row[j].account
    for k in range(site.qos_tres.shape[1]):
        asks = amount(site, jobs, j, part, k, cpus, nodes)
        if asks <= 0:
            continue
        if asks + s.qos_user_tres[q, u, k] > site.qos_user_tres[q, k] or asks + s.qos_tres[q, k] > site.qos_tres[q, k]:
            return True
        if asks + s.qos_account_tres[q, c, k] > site.qos_account_tres[q, k] or asks > site.qos_job_tres[q, k]:
            return True
        a = jobs.row[j].assoc
        if site.qos_job_tres[q, k] == INFINITE and a != NONE and asks > site.assoc_job_tres[a, k]:
            return True
        if site.qos_tres[q, k] < INFINITE:
            continue
        while a != NONE:
            if asks + s.assoc_tres[a, k] > site.assoc_tres[a, k]:
                return True
            a = site.assoc[a].parent
    return False


@inner
def taken_cpus(s: State) -> float:
    """Return the number of processors that the function `place` allocated."""
    total = 0.0
    for k in range(int(s.reg[0].allocated)):
        total += s.node[k].asks
    return total


@inner
def count(site: Site, jobs: Jobs, s: State, j: int, part: int, cpus: float, nodes: float, sign: int) -> None:
    """Add (sign +1) or remove (-1) a job in the usage that is compared with limits."""
    q, u, c, a = jobs.row[j].qos, jobs.row[j].user, jobs.row[j].account, jobs.row[j].assoc
    s.qos[q].jobs += sign
    s.qos_user_jobs[q, u] += sign
    s.qos_account_jobs[q, c] += sign
    for k in range(len(s.licenses)):
        s.licenses[k] += sign * jobs.licenses[j, k]
    for k in range(site.qos_tres.shape[1]):
        more = sign * amount(site, jobs, j, part, k, cpus, nodes)
        s.qos_tres[q, k] += more
        s.qos_user_tres[q, u, k] += more
        s.qos_account_tres[q, c, k] += more
    while a != NONE:
        s.assoc[a].jobs += sign
        for k in range(site.qos_tres.shape[1]):
            s.assoc_tres[a, k] += sign * amount(site, jobs, j, part, k, cpus, nodes)
        a = site.assoc[a].parent
    if jobs.row[j].array != NONE:
        s.array_running[jobs.row[j].array] += sign


@inlined
def planned_of(s: State, a: int, part: int) -> int:
    """Return the number of bookings of a job array in this pass, or -1 if the pass skips the array."""
    return int(s.array_planned[a, part]) if s.array_pass[a, part] == s.reg[0].passes else 0


@inlined
def set_planned(s: State, a: int, part: int, count: int) -> None:
    """Set the number of bookings of a job array in this pass."""
    # The number of the pass tells whether a value is current, so that the table is not cleared before each pass.
    s.array_pass[a, part], s.array_planned[a, part] = int(s.reg[0].passes), count
