"""A slow reference version of Slurm's two loops, second by second with dicts and lists; schedule/slurm must equal
it."""

from __future__ import annotations

import math
from functools import cmp_to_key

from batchcast.units import parse_duration

INF = math.inf


class Node:
    def __init__(self, index, name, group):
        self.index, self.name, self.group = index, name, group
        self.kinds = set(group.gres) | {k.split(":")[0] for k in group.gres}
        self.gres = {}
        for kind, count in group.gres.items():
            self.gres[kind.split(":")[0]] = self.gres.get(kind.split(":")[0], 0) + count


class Twin:
    def __init__(
        self,
        machine,
        requests,
        *,
        cycle=0.0,
        cycle_length=0.0,
        decay=0.0,
        down=(),
        fixed=None,
        since=-1,
        until=INF,
        poll=1.015,
        phase=None,
    ):
        self.poll, self.phase = poll, phase
        self.m, s = machine, machine.settings
        self.nodes = [Node(i, n, g) for i, (n, g) in enumerate((n, g) for g in machine.nodes for n in g.names)]
        self.by_name = {n.name: n for n in self.nodes}
        self.parts = {p.name: p for p in machine.partitions}
        self.fifo = "builtin" in s.get("SchedulerType", "sched/backfill")
        self.multi = "multifactor" in s.get("PriorityType", "")
        self.enforce = "limits" in s.get("AccountingStorageEnforce", "")
        self.num = lambda k, d: float(str(s.get(k, d)).split()[0])
        self.jobs = list(requests)
        self.order = {id(j): k for k, j in enumerate(self.jobs)}
        self.seq = {}
        self.real, self.start, self.where, self.ended, self.gone, self.part_of = {}, {}, {}, {}, set(), {}
        self.running, self.by_backfill, self.tests = [], set(), 0
        self.down, self.fixed, self.since, self.until = down, fixed or {}, since, until
        self.cycle, self.cycle_length, self.decay_phase = cycle, cycle_length, decay
        self.usage, self.fair, self.accrued, self.eligible, self.prio, self.sized = {}, {}, {}, {}, {}, {}
        self.broken, self.told, self.leaving, self.begins, self.last_told = [], {}, {}, {}, {}
        self.qos = {q.name: q for q in machine.qos}
        self.assoc = {(a.account, a.user): a for a in machine.associations}

    # ---- clock -------------------------------------------------------------------------------------------------
    def run(self):
        first = int(min(j.submit for j in self.jobs))
        asked, last, full, cycle, _submitted = False, -INF, first, self.cycle, 0
        cycle = max(cycle, first - 1000)
        while cycle < first:
            cycle += self.num("bf_interval", 30)
        decay = first + (self.decay_phase - first) % 60
        first_poll, polls = first + ((0.5 if self.phase is None else self.phase) - first) % self.poll, 0
        self.first_poll = first_poll
        self.todo, self.queue, now = sorted(self.jobs, key=lambda j: j.submit), [], first - 1
        self.fairshare(decay - 60, first)
        while (self.todo or self.queue or self.running) and now <= min(self.until, first + 10**6):
            poll = first_poll + polls * self.poll
            before, now = now, min(poll, cycle, decay)
            asked = self.pass_time(before, now) or asked
            t = int(now)
            if now == decay:
                self.fairshare(decay - 60, now)
                decay += 60
            elif now == poll:
                polls += 1
                long_ago = t - full >= self.num("sched_interval", 60)
                if now >= self.since and (long_ago or (asked and t - last >= self.num("batch_sched_delay", 3))):
                    full = t if long_ago else full
                    asked, last = False, t
                    self.main(t, now, long_ago)
            else:
                self.tests = 0
                if now >= self.since and not self.fifo:
                    self.backfill(t, now)
                cycle += self.num("bf_interval", 30) + self.cycle_length * self.tests
        return self.start

    def pass_time(self, before, now):
        """Apply everything that happens in (before, now], and return whether it triggers a scheduling pass."""
        asked = False
        for j in list(self.running):
            end, (until, told) = min(self.real[j] + j.run, j.cancel), self.told.get(j, (INF, INF))
            looks = 0 if until == INF else int((until - self.first_poll) / 30 + 1)
            leaves = self.first_poll + looks * 30 if told < until < INF else told
            if end <= now and end <= leaves:
                self.running.remove(j)
                self.ended[j] = end
                asked = True
            elif leaves <= now:
                self.leave(j, leaves)
                asked = True
            elif j in self.told:
                self.leaving[j] = until
        while self.todo and self.todo[0].submit <= now:
            self.queue.append(self.todo.pop(0))
            self.seq.setdefault(self.queue[-1].key, len(self.seq))
            self.prioritize(self.queue[-1])
            asked = True
        for j in [j for j in self.queue if j.cancel <= now]:
            self.queue.remove(j)
            self.gone.add(j)
        for j in self.queue:
            if before < j.release <= now:
                self.seq[j.key] = len(self.seq) + 0.5
                self.prioritize(j)
                asked = True
        for j in [j for j in self.queue if j in self.fixed and self.fixed[j][0] <= now]:
            self.begin(j, *self.fixed[j], now)
        for j in self.queue:
            free = self.independent(j, now)
            if j not in self.accrued and free:
                self.accrued[j] = now
            if not free or self.throttled(j):
                self.eligible.pop(j, None)
            else:
                self.eligible.setdefault(j, int(j.submit if before < j.submit else now))
        return asked or any(before < b <= now for _, _, b in self.down)

    def begin(self, j, t, part, takes, now):
        self.queue.remove(j)
        self.running.append(j)
        self.start[j], self.where[j], self.part_of[j], self.real[j] = t, takes, part, now

    def limit(self, j, part):
        p = self.parts[part]
        usual = p.default_time if p.default_time == p.default_time else p.max_time
        asked = j.limit if j.limit == j.limit else self.wall(j) if self.wall(j) < INF else usual
        return min(asked, p.max_time, 365 * 86400)

    def plan_end(self, j):
        return self.leaving.get(j, self.start[j] + self.limit(j, self.part_of[j]))

    def up(self, t):
        names = {n for n, a, b in self.down if a <= t < b} | {n for g in self.m.nodes for n in g.down}
        return [n for n in self.nodes if n.name not in names]

    # ---- who may run -------------------------------------------------------------------------------------------
    def independent(self, j, t):
        if self.begins.get(j, j.begin) > t or j.release > t:
            return False
        for kind, key in j.depends:
            others = [o for o in self.jobs if o.key == key]
            if any(o not in self.ended and o not in self.gone for o in others):
                return False
            bad = any(o in self.gone or o.fails or o.cancel <= t for o in others)
            if (kind == "afterok" and bad) or (kind == "afternotok" and not bad):
                return False
        if j.singleton:
            same = [o for o in self.queue + self.running if (o.name, o.user) == (j.name, j.user) and o is not j]
            return not any(self.order[id(o)] < self.order[id(j)] for o in same)
        return True

    def throttled(self, j):
        return j.throttle and sum(o.array == j.array for o in self.running) >= j.throttle

    def key(self, j, part):
        return (-self.parts[part].priority_tier, -self.prio[j, part], self.seq[j.key], j.task)

    def priority(self, j, part):
        if not self.multi:
            return -self.seq[j.key] - j.nice
        m, w = self.m, lambda k: self.num(f"PriorityWeight{k}", 0)
        age = max(self.now_prio - self.accrued.get(j, self.now_prio), 0) / parse_duration(m.settings["PriorityMaxAge"])
        age, size = min(age, 1), (j.min_nodes / len(self.nodes) + self.sized.get(j, j.cpus) / m.cpus) / 2
        factor = self.parts[part].priority_job_factor / max(p.priority_job_factor for p in m.partitions)
        qos = self.qos[j.qos].priority / max(q.priority for q in m.qos)
        fair = self.fair.get((j.account, j.user), 0)
        total = w("Age") * age + w("FairShare") * fair + w("JobSize") * size + w("Partition") * factor + w("QOS") * qos
        for item in filter(None, m.settings.get("PriorityWeightTRES", "").split(",")):
            name, _, weight = item.partition("=")
            asks, held = self.tres(j, part)[name]
            total += float(weight) * (asks / held) if held else 0
        return int(total) - j.nice

    def tres(self, j, part):
        """Return the job's request of each TRES, and the amounts that its partition has."""
        nodes, cpus = [n for n in self.nodes if n.name in self.parts[part].nodes], self.sized.get(j, j.cpus)
        per_node, per_cpu = self.memory(j, part)
        whole = (per_node if per_node > 0 else nodes[0].group.memory_mib) * j.min_nodes
        return {
            "CPU": (cpus, sum(n.group.cpus for n in nodes)),
            "Mem": (per_cpu * cpus if per_cpu > 0 else whole, sum(n.group.memory_mib for n in nodes)),
            "GRES/gpu": (self.gpus(j) * j.min_nodes, sum(n.gres.get("gpu", 0) for n in nodes)),
        }

    def fairshare(self, last, now):
        """Let usage decay and add the use since `last`; then rank users by Fair Tree, depth first by level."""
        self.now_prio = now
        if self.multi:
            self.rank(last, now)
        for j in self.queue:
            self.prioritize(j)

    def prioritize(self, j):
        self.prio.update({(j, part): self.priority(j, part) for part in j.partitions or self.default()})

    def rank(self, last, now):
        keep = 1 - 0.693 / parse_duration(self.m.settings["PriorityDecayHalfLife"])
        for k in self.usage:
            self.usage[k] *= keep ** (now - last)
        runs = [(j, self.real[j], self.ended.get(j, now), self.part_of[j], self.where[j]) for j in self.start]
        for j, begun, end, part, takes in runs + self.broken:
            span = min(end, now) - max(begun, last)
            if span > 0:
                used = span * keep**span * self.billed(j, part, takes)
                self.usage[j.account, j.user] = self.usage.get((j.account, j.user), 0) + used
        users = [a for a in self.m.associations if a.user]

        def total(acct):
            return sum(self.usage.get((a.account, a.user), 0) for a in users if a.account == acct)

        accounts = [a for a in self.m.associations if not a.user and a.account != "root"]
        top = accounts + [a for a in users if a.account == "root"]
        rank, count = len(users), [0]

        def level(a, peers, use):  # only siblings are compared, also if accounts with equal usage are walked together
            peers = [p for p in peers if not p.user or p.account == a.account]
            share = a.shares / sum(p.shares for p in peers)
            mine, all_ = use(a), sum(use(p) for p in peers)
            return INF if not mine or not all_ else share / (mine / all_)

        def walk(peers, use, rank):
            tied = sorted(((level(a, peers, use), a) for a in peers), key=lambda x: -x[0])
            while tied:
                same = [a for v, a in tied if v == tied[0][0]]
                tied = [(v, a) for v, a in tied if a not in same]
                here = [a for a in same if a.user]
                for a in here:
                    self.fair[a.account, a.user] = rank / len(users)
                below = [a for s in same if not s.user for a in users if a.account == s.account]
                count[0] += len(here)
                if below:
                    walk(
                        below, lambda a: self.usage.get((a.account, a.user), 0), rank if here else len(users) - count[0]
                    )
                rank = len(users) - count[0]

        walk(top, lambda a: self.usage.get((a.account, a.user), 0) if a.user else total(a.account), rank)

    def billed(self, j, part, takes):
        weights = self.parts[part].billing_weights or {"cpu": 1}
        amounts = {
            "cpu": sum(c for _, c in takes),
            "node": len(takes),
            "gres/gpu": self.gpus(j) * len(takes),
            "mem": sum(self.holds(j, n, c, part) for n, c in takes),
        }
        return sum(weight * amounts[kind] for kind, weight in weights.items())

    def limited(self, j, part, cpus, gpus, nodes):
        """A QOS's limit overrides an association's limit of the same kind; running jobs count."""
        if any(n + sum(o.licenses.get(k, 0) for o in self.running) > self.m.licenses[k] for k, n in j.licenses.items()):
            return True
        if not self.enforce:
            return False
        if j.limit > self.wall(j):
            return True
        q, chain = self.qos[j.qos].limits, [self.assoc[j.account, j.user]]
        chain += [a for a in self.m.associations if not a.user and a.account == j.account != "root"]
        chain += [a for a in self.m.associations if not a.user and a.account == "root"]

        def mine(sel):
            return [o for o in self.running if sel(o)]

        of_qos = mine(lambda o: o.qos == j.qos)
        by_user = [o for o in of_qos if o.user == j.user]
        by_account = [o for o in of_qos if o.account == j.account]
        if len(of_qos) >= q.grp_jobs or len(by_user) >= q.max_jobs_per_user:
            return True
        if len(by_account) >= q.max_jobs_per_account:
            return True

        def own(name, unset):
            return next((v for a in chain if (v := getattr(a.limits, name)) and v != INF), unset)

        if q.max_jobs_per_user == INF and len(mine(lambda o: (o.account, o.user) == (j.account, j.user))) >= own(
            "max_jobs", INF
        ):
            return True
        if q.grp_jobs == INF and any(len(mine(self.under(a))) >= a.limits.grp_jobs for a in chain):
            return True
        if cpus is None:
            return False
        asks = {"cpu": cpus, "gres/gpu": gpus, "node": nodes, "mem": self.mib(j, part, cpus, nodes)}
        for k, v in asks.items():
            if v and (
                v + self.used(k, by_user) > q.max_tres_per_user.get(k, INF)
                or v + self.used(k, of_qos) > q.grp_tres.get(k, INF)
                or v + self.used(k, by_account) > q.max_tres_per_account.get(k, INF)
                or v > (q.max_tres if k in q.max_tres else own("max_tres", {})).get(k, INF)
            ):
                return True
            if (
                v
                and k not in q.grp_tres
                and any(v + self.used(k, mine(self.under(a))) > a.limits.grp_tres.get(k, INF) for a in chain)
            ):
                return True
        return False

    def under(self, a):
        return lambda o: a.account == "root" or (o.account == a.account and (not a.user or o.user == a.user))

    def used(self, kind, jobs):
        if kind == "cpu":
            return sum(c for o in jobs for _, c in self.where[o])
        if kind == "mem":
            return sum(self.mib(o, self.part_of[o], self.asks(o, self.where[o])[0], len(self.where[o])) for o in jobs)
        return sum(len(self.where[o]) * (1 if kind == "node" else self.gpus(o)) for o in jobs)

    def mib(self, j, part, cpus, nodes):
        per_node, per_cpu = self.memory(j, part)
        if per_node == 0:
            return nodes * next(n for n in self.nodes if n.name in self.parts[part].nodes).group.memory_mib
        return per_node * nodes if per_node == per_node else per_cpu * cpus if per_cpu == per_cpu else 0

    def wall(self, j):
        chain = [(j.account, j.user), (j.account, ""), ("root", "")]
        tried = [self.qos[j.qos].limits.max_wall, *(self.assoc[a].limits.max_wall for a in chain if a in self.assoc)]
        return next((w for w in tried if w < INF), INF) if self.enforce else INF

    def gpus(self, j):
        return sum(c for k, c in j.gres.items() if k.split(":")[0] == "gpu")

    # ---- placement ---------------------------------------------------------------------------------------------
    def avail(self, j, node, held, part):
        """Return the processors that this job could use on the node beside the jobs in `held`."""
        here = [(o, c) for o in held for n, c in self.where[o] if n is node]
        g = node.group
        if not set(j.features) <= set(g.features) or not set(j.gres) <= node.kinds:
            return 0
        if any(o.exclusive for o, _ in here) or (j.exclusive and here):
            return 0
        free = g.cpus - sum(c for _, c in here)
        for kind, count in j.gres.items():
            name = kind.split(":")[0]
            if count > node.gres.get(name, 0) - sum(
                c for o, _ in here for k, c in o.gres.items() if k.split(":")[0] == name
            ):
                return 0
        per_node, per_cpu = self.memory(j, part)
        spare = g.memory_mib - sum(self.holds(o, node, c) for o, c in here)
        if per_node == 0 and spare < g.memory_mib:
            return 0
        if per_node == per_node and per_node > spare:
            return 0
        if per_cpu == per_cpu and per_cpu > 0:
            free = min(free, int(spare // per_cpu))
        if j.exclusive:
            return free if free == g.cpus else 0
        tasks = free // j.cpus_per_task
        least = j.tasks_per_node or (max(j.tasks, 1) if self.most(j) == 1 else 1)
        if tasks < least:
            return 0
        if j.gres:  # with GRES, only the processors of the tasks that the node would run are counted
            one = j.tasks == 1 or j.tasks == j.min_nodes == j.max_nodes
            tasks = min(tasks, j.tasks_per_node or (1 if one else j.tasks or tasks))
        return tasks * j.cpus_per_task

    def memory(self, j, part):
        p = self.parts[part]
        if j.mem_per_node == j.mem_per_node or j.mem_per_cpu == j.mem_per_cpu:
            return j.mem_per_node, j.mem_per_cpu
        return p.default_mem_per_node, p.default_mem_per_cpu

    def holds(self, j, node, cpus, part=None):
        per_node, per_cpu = self.memory(j, part or self.part_of[j])
        if per_node == per_node:
            return per_node or node.group.memory_mib
        return per_cpu * cpus if per_cpu == per_cpu else 0

    def most(self, j):
        most = min(j.max_nodes or len(self.nodes), len(self.nodes))
        tasks = max(j.tasks, j.tasks_per_node * j.min_nodes)
        return max(min(most, tasks), j.min_nodes) if tasks else most

    def place(self, j, nodes, held, part):
        """Return (node, processors) of the best set of neighboring nodes; while it fails, drop the poorest nodes."""
        free = {n: self.avail(j, n, held, part) for n in nodes}
        free = {n: c for n, c in free.items() if c}
        for least in range(max(free.values(), default=0)):
            kept = {n: c for n, c in free.items() if c > least}
            if least and len(kept) == len(free):
                continue
            free = kept
            chosen = self.choose(j, free, part)
            if chosen:
                return self.spread(j, [(n, free[n]) for n in chosen])
        return None

    def choose_idle(self, j, free):
        """Choose nodes by CR_LLN: the emptiest nodes of the lowest weight, one after the other."""
        cpus, nodes, most, chosen = j.cpus, max(j.min_nodes, j.max_nodes if j.max_nodes else 1), self.most(j), []
        while most > 0 and (nodes > 0 or cpus > 0):
            left = [n for n in free if n not in chosen and not (most == 1 and free[n] < cpus)]
            if not left:
                return None
            chosen.append(min(left, key=lambda n: (n.group.weight, -free[n], n.index)))
            cpus, nodes, most = cpus - free[chosen[-1]], nodes - 1, most - 1
        return chosen if nodes <= 0 and cpus <= 0 else None

    def choose(self, j, free, part):
        if self.parts[part].least_loaded or "CR_LLN" in self.m.settings.get("SelectTypeParameters", ""):
            return self.choose_idle(j, free)
        sets, last = [], None
        for n in sorted(free, key=lambda n: n.index):
            if last is None or n.index != last.index + 1 or n.group.weight != last.group.weight:
                sets.append([])
            sets[-1].append(n)
            last = n
        cpus, nodes, most, chosen = j.cpus, max(j.min_nodes, j.max_nodes if j.max_nodes else 1), self.most(j), []
        while sets and most > 0:
            best = None
            for s in sets:
                enough = sum(free[n] for n in s) >= cpus and len(s) >= nodes
                size, weight = sum(free[n] for n in s), s[0].group.weight
                if (
                    best is None
                    or weight < best[2]
                    or (
                        weight == best[2]
                        and ((enough and not best[1]) or (enough and size < best[3]) or (not enough and size > best[3]))
                    )
                ):
                    best = (s, enough, weight, size)
            s = best[0]
            sets.remove(s)
            if nodes <= 1 and any(free[n] >= cpus for n in s):
                s = [min((n for n in s if free[n] >= cpus), key=lambda n: (free[n], n.index))]
            for n in s:
                if most == 0 or (nodes <= 0 and cpus <= 0):
                    break
                if most == 1 and free[n] < cpus:
                    continue
                chosen.append(n)
                cpus, nodes, most = cpus - free[n], nodes - 1, most - 1
            if nodes <= 0 and cpus <= 0:
                return chosen
        return None

    def spread(self, j, chosen):
        """Tasks fill nodes in the order in which the nodes were chosen, with one task left for each node still needed;
        exclusive jobs take all processors."""
        if j.exclusive:
            return [(n, n.group.cpus) for n, _ in chosen]
        if not j.tasks or j.tasks_per_node:
            return [(n, max(j.tasks_per_node, 1) * j.cpus_per_task) for n, _ in chosen]
        left, out = j.cpus, []
        for k, (n, c) in enumerate(chosen):
            take = max(min(c, left - max(j.min_nodes - k - 1, 0)), j.cpus_per_task)
            out.append((n, take))
            left -= take
        return out

    # ---- the two loops -----------------------------------------------------------------------------------------
    def candidates(self, t):
        pairs = [(j, p) for j in self.queue if self.independent(j, t) for p in (j.partitions or self.default())]

        def compare(x, y):
            preempts = self.may_preempt(y[0], x[0]) - self.may_preempt(x[0], y[0])
            return preempts or (self.key(*x) > self.key(*y)) - (self.key(*x) < self.key(*y))

        return sorted(pairs, key=cmp_to_key(compare))

    def default(self):
        return tuple(p.name for p in self.m.partitions if p.default)

    def reserved(self, j, start, end):
        """Return the nodes that reservations withhold from this job in [start, end), and when the first of these
        reservations ends."""
        turns = [
            (r, r.start + k * r.every, r.end + k * r.every)
            for r in self.m.reservations
            if r.name != j.reservation and end - start > r.max_time
            for k in range(5 if r.every else 1)
            if r.start + k * r.every < r.until
        ]
        mine = [(r, until) for r, begin, until in turns if begin < end and until > start]
        return {n for r, _ in mine for n in r.nodes}, min((until for _, until in mine), default=None)

    def asks(self, j, takes):
        return sum(c for _, c in takes), self.gpus(j) * len(takes), len(takes)

    def main(self, t, now, full=True):
        open_nodes, failed, refused = set(self.up(t)), set(), set()
        depth = 0
        for j, part in self.candidates(now):
            if j not in self.queue or (j.array, part) in refused:
                continue
            if j.array:
                refused.add((j.array, part))
            if not full and depth > self.num("default_queue_depth", 100):
                break
            depth += 1
            if part in failed or self.throttled(j) or self.limited(j, part, None, 0, 0):
                continue
            inside = [n for n in self.nodes if n in open_nodes and n.name in self.parts[part].nodes]
            if j.min_nodes > len(inside):
                continue
            kept, _ = self.reserved(j, t, t + self.limit(j, part))
            inside = [n for n in inside if n.name not in kept]
            takes = self.place(j, inside, self.running, part)
            if takes:
                if not self.limited(j, part, *self.asks(j, takes)):
                    self.begin(j, t, part, takes, now)
                    refused.discard((j.array, part))
                continue
            if self.limited(j, part, self.sized.get(j, j.cpus), self.gpus(j) * j.min_nodes, j.min_nodes):
                continue  # the reason is a limit then, so the job blocks no other job
            if self.preempt(j, inside, part, t, now) == "limited":
                continue
            if not self.reserves(j, part, now):
                continue
            fit = [n for n in inside if set(j.features) <= set(n.group.features) and set(j.gres) <= n.kinds]
            taken = {n for o in self.running if o.exclusive or j.exclusive for n, _ in self.where[o]}
            if self.place(j, inside, [], part) or any(
                n in taken for n in fit
            ):  # the nodes are busy, not absent: no job passes in this partition or on its nodes
                failed.add(part)
                open_nodes -= {n for n in self.nodes if n.name in self.parts[part].nodes}

    def reserves(self, j, part, now):
        """Return whether processors may be reserved for the job, by its priority and by how long it has been
        eligible."""
        enough = self.prio[j, part] >= self.num("bf_min_prio_reserve", -math.inf)
        return enough and now - self.eligible[j] >= self.num("bf_min_age_reserve", 0)

    # ---- preemption --------------------------------------------------------------------------------------------
    def may_preempt(self, j, o):
        """By QOS."""
        return self.m.settings.get("PreemptType", "").endswith("qos") and o.qos in self.qos[j.qos].preempts

    def victims(self, j, part, t):
        """Return the running jobs that job j may preempt: lowest tier or QOS first, then fewest nodes, then the
        earliest start."""
        by_tier = self.m.settings.get("PreemptType", "").endswith("partition_prio")
        found = []
        for o in self.running:
            low = self.parts[self.part_of[o]]
            gives = by_tier and low.preempt and low.priority_tier < self.parts[part].priority_tier
            exempt = self.start[o] + parse_duration(self.m.settings.get("PreemptExemptTime", "0")) > t
            exempt = exempt or self.told.get(o, (INF, 0))[0] <= t
            near = any(n.name in self.parts[part].nodes for n, _ in self.where[o])
            if (gives or self.may_preempt(j, o)) and not exempt and near:
                rank = low.priority_tier if by_tier else self.qos[o.qos].priority
                found.append((rank, len(self.where[o]), self.order[id(o)], o))
        return [o for *_, o in sorted(found)]

    def preempt(self, j, nodes, part, t, now):
        listed, passes = self.victims(j, part, t), 0
        while listed:
            held, takes, last = list(self.running), None, None
            for k, o in enumerate(listed):
                if any(n in nodes for n, _ in self.where[o]):
                    held.remove(o)
                    takes, last = self.place(j, nodes, held, part), k
                    if takes:
                        break
            if not takes:
                return None
            passes += 1
            mine = {n for n, _ in takes}
            if passes > 2 or len(listed) <= passes:
                break
            before = sorted(listed[:last], key=lambda o: -sum(n in mine for n, _ in self.where[o]))
            touching = [o for o in before if any(n in mine for n, _ in self.where[o])]
            others = [o for o in listed[:last] if o not in touching]
            listed = [listed[last], *touching, *others, *listed[last + 1 :]]
        if not listed:
            return None
        if self.limited(j, part, *self.asks(j, takes)):
            return "limited"
        if self.last_told.get(j, -INF) > t - 40:
            return None
        self.last_told[j] = t
        for o in listed[: last + 1]:
            if o not in self.told and any(n in mine for n, _ in self.where[o]):
                low = self.parts[self.part_of[o]]
                grace = low.grace_time if low.preempt and not self.may_preempt(j, o) else self.qos[o.qos].grace_time
                self.told[o] = (min(max(self.plan_end(o), t), t + grace), now)
        return None

    def leave(self, j, at):
        """Preempt the job: it waits again and cannot start for two minutes."""
        self.running.remove(j)
        self.broken.append((j, self.real[j], at, self.part_of[j], self.where[j]))
        for known in (self.told, self.leaving, self.start, self.accrued, self.eligible):
            known.pop(j, None)
        self.begins[j] = int(at) + 121
        self.queue.append(j)
        self.prioritize(j)

    def will_run(self, j, nodes, part, t):
        takes = self.place(j, nodes, self.running, part)
        if takes:
            return t, takes
        victims = self.victims(j, part, t)
        held = [o for o in self.running if o not in victims]
        takes = self.place(j, nodes, held, part) if victims else None
        if takes:
            return t - 1, takes  # the jobs start now if the preempted jobs leave
        inside = set(nodes)
        ends = sorted((self.plan_end(o), self.order[id(o)], o) for o in held)
        ends = [(max(end, t + 5), k, o) for end, k, o in ends]
        window, base, k = 30, None, 0
        while k < len(ends):
            removed = False
            while k < len(ends):
                end, _, o = ends[k]
                k += 1
                if not any(n in inside for n, _ in self.where[o]):
                    continue
                base = base if base is not None else end + 30 - end % 30
                held.remove(o)
                removed, last = True, end
                if k < len(ends) and ends[k][0] > base + window:
                    break
            if not removed:
                break
            window *= 2
            while k < len(ends) and ends[k][0] > base + window:
                window *= 2
            takes = self.place(j, nodes, held, part)
            if takes:
                return last, takes
        return None, None

    def backfill(self, t, now):
        step, window = int(self.num("bf_resolution", 60)), int(self.num("bf_window", 1440)) * 60
        slots = [[t // step * step, (t + window) // step * step, set(self.up(t))]]
        tested, reserved = 0, {}
        self.tests = 0
        for j, part in self.candidates(now):
            if tested >= self.num("bf_max_job_test", 500):
                break
            booked = reserved.get((j.array, part), 0) if j.array else 0
            if j not in self.queue or booked is None or booked >= self.num("bf_max_job_array_resv", 20):
                continue
            if j.array:
                reserved[j.array, part] = None  # rejected until a task starts or is reserved
            if self.throttled(j) or self.limited(j, part, None, 0, 0):
                continue
            tested += 1
            self.tests = tested
            length, later = self.limit(j, part), t
            keeps = self.reserves(j, part, now)
            while later is not None:
                start_res, later = later, None
                end_time = start_res + length
                kept, resv_end = self.reserved(j, start_res, end_time)
                usable = {n for n in self.nodes if n.name in self.parts[part].nodes and n.name not in kept}
                seen = set(usable)
                for k, (a, b, free) in enumerate(slots):
                    if (
                        b > start_res
                        and k + 1 < len(slots)
                        and later is None
                        and not (usable & slots[k + 1][2]) <= (seen & free)
                    ):
                        later = b
                    if b > start_res:
                        if a > end_time:
                            break
                        seen &= free
                if resv_end is not None and resv_end + 1 < slots[-1][1] and (later is None or resv_end + 1 < later):
                    later = resv_end + 1
                start, takes = None, None
                if len(seen) >= j.min_nodes:
                    start, takes = self.will_run(j, sorted(seen, key=lambda n: n.index), part, t)
                if takes is None:
                    if not keeps:
                        break
                    continue
                self.sized[j] = sum(c for _, c in takes)
                gives_way, start = start < start_res <= t, max(start, start_res)
                if gives_way:
                    if not self.limited(j, part, *self.asks(j, takes)):
                        a, b = t // step * step, max((t + length) // step * step, t // step * step + step)
                        if keeps:
                            slots = self.book(slots, a, b, {n for n, _ in takes})
                            reserved[j.array, part] = booked + 1
                        self.preempt(j, sorted(seen, key=lambda n: n.index), part, t, now)
                    break
                if start <= t:
                    if not self.limited(j, part, *self.asks(j, takes)):
                        self.begin(j, t, part, takes, now)
                        self.by_backfill.add(j)
                        reserved[j.array, part] = booked
                    break
                if not keeps:
                    break
                if later is not None and start > later:
                    continue
                if start > t + window:
                    break
                a, b = start // step * step, max((start + length) // step * step, start // step * step + step)
                mine = {n for n, _ in takes}
                if any(y > a and x < b and not mine <= free for x, y, free in slots):
                    later = start if start > start_res else later
                    continue
                if self.limited(j, part, *self.asks(j, takes)):
                    break
                slots = self.book(slots, a, b, mine)
                reserved[j.array, part] = booked + 1
                break

    def book(self, slots, a, b, mine):
        """Remove `mine` from the table of free nodes over time in [a, b), and join one pair of equal neighboring rows
        per call."""
        out, a = [], max(a, slots[0][0])
        joined = a == slots[0][0]  # Slurm's table has an empty first row then, and joins it with that row
        for x, y, free in slots:
            for u, v in ((x, min(y, a)), (max(x, a), min(y, b)), (max(x, b), y)):
                if u < v:
                    out.append([u, v, free - mine if a <= u < b else free])
        for k in range(len(out) - 1):
            if not joined and out[k][2] == out[k + 1][2]:
                out[k : k + 2] = [[out[k][0], out[k + 1][1], out[k][2]]]
                break
        return out
