# SPDX-License-Identifier: Apache-2.0
"""priority/basic and priority/multifactor: fair-share with its Fair Tree, usage with its half-life."""

from __future__ import annotations

from ...compiled import inner, kernel
from .arrays import FAR, NONE, PRIO_NOW, RUNNING_COUNT, Jobs, Rules, Site, State
from .policy import MEMORY, amount


@inner
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
    for k in range(len(site.tres_weight)):
        if site.tres_weight[k] > 0 and site.part_tres[part, k] > 0:
            asks = amount(site, jobs, j, part, k, s.job[j].sized, float(jobs.row[j].min_nodes))
            if k == MEMORY and asks == 0:  # who asks for none is taken to ask for the nodes' own
                asks = site.node[site.members[site.part[part].first]].memory * jobs.row[j].min_nodes
            total += site.tres_weight[k] * (asks / site.part_tres[part, k])
    return float(int(total) - jobs.row[j].nice)


@inner
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


@inner
def charge(site: Site, jobs: Jobs, rules: Rules, s: State, j: int, last: float, until: float) -> None:
    """What a job used since `last`, kept apart until the next update."""
    span = until - max(s.job[j].began, last)
    if span <= 0 or jobs.row[j].assoc == NONE:
        return
    part, billed, entry = int(s.job[j].part), 0.0, s.job[j].head
    while entry != NONE:
        billed += site.billing[part, 0] * s.pool[entry].cpus + site.billing[part, 1]
        billed += site.billing[part, 2] * s.pool[entry].memory
        for g in range(site.gres.shape[1]):
            billed += site.billing[part, 3 + g] * jobs.gres[j, g]
        entry = s.pool[entry].next
    s.assoc[jobs.row[j].assoc].recent += span * (1 - 0.693 / rules.half_life) ** span * billed


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


@inner
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
