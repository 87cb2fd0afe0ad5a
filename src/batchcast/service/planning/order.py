# SPDX-License-Identifier: Apache-2.0
"""Sets the queue order in Slurm by SiteFactors: reads the queue, decides, records, changes, and reads the result.

Before each call, the new factor and batchcast's previous factor are recorded. So after a crash at any instant the next
cycle finds one of the two factors in Slurm. Both factors stay recorded while the job waits, because a killed slurmctld
restores its saved state, which may have the previous factor. Any other factor was set by somebody else and is not
changed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...errors import BatchcastError
from ...formats.slurm.plannable import Plannable
from ...planning import order as rules
from ...planning.decide import is_drawn, is_opted_in
from ...planning.order import AgeFinder, OrderRule, Queue, decide_order, kind_of
from ...planning.record import ORDER_STATE, SETTLED_S, CycleOutcome, Quiet, Terms, opted_in
from ...planning.update import array_of
from ...slurm import limits
from ...slurm.limits import Priority
from ...slurm.transport import Transport
from ...store import clock_jobs, planned
from ...store.database import Connection, Store
from ...store.planned import Standing, Step
from ..settings import Settings, planned_by
from .terms import ORDERS, Stored, order_time, orders_by_limits, read_stored

MOST_CALLS = 20
"""Largest number of calls per cycle that set factors. Calls that restore factors are not limited."""
PAUSE_S = 3600.0
"""If slurmctld denies a call, no factors are set for this many seconds. Otherwise the audit log would fill with equal
refusals.
"""
OVERRUN = "time limit and arrival: jobs of this user ran longer than predicted"
NEW = "time limit and arrival: no job of this user with this name and command has ended"
TOGETHER = 500
"""Largest number of job records per call."""


class Group(NamedTuple):
    """A waiting job record of slurmctld, which may have several array tasks: its tasks, its priority in sprio, and
    whether it may be ordered.
    """

    tasks: tuple[Plannable, ...]
    sprio: Priority
    may: bool

    @property
    def first(self) -> Plannable:
        """Return the first task, which represents all tasks, because they were submitted together."""
        return self.tasks[0]

    @property
    def target(self) -> str:
        """Return the id of the record for `scontrol update jobid=`. For an array it lists the tasks that wait in this
        record.
        """
        one = self.first
        return array_of(self.tasks) if "_" in one.job_id and one.raw_id == one.base else one.job_id


Standings = dict[str, Standing]
"""The factors of job records, by raw id."""
Call = tuple[int, list[Group]]
"""One call to slurmctld: a SiteFactor, and the records that get it."""


class Orderer:
    """Sets the order of one cluster's queue."""

    def __init__(self, transport: Transport, store: Store, settings: Settings) -> None:
        self.transport, self.store, self.settings = transport, store, settings
        self._finder, self._quiet = AgeFinder(math.nan), Quiet()
        self._not_before = self._overrun_due = self._saved_at = -math.inf
        self._overrun: frozenset[str] = frozenset()
        self._ended: dict[str, set[tuple[Hashable, ...]]] = {}
        self._settled: dict[str, float] = {}
        self._by_limit: dict[str, str] = {}
        self._is_restored = False

    def state(self) -> dict[str, Any]:
        """Return what the order has learned from the queue and from ended jobs, as values for JSON."""
        overrun = {"users": sorted(self._overrun), "due": self._overrun_due} if self._overrun_due > 0 else None
        return {"age": self._finder.state(), "overrun": overrun}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned. A damaged state is ignored: everything is then learned anew."""
        with suppress(TypeError, ValueError, KeyError, AttributeError):
            overrun = state.get("overrun") or {"users": (), "due": -math.inf}
            self._overrun, self._overrun_due = frozenset(map(str, overrun["users"])), float(overrun["due"])
            self._finder.restore(state["age"])

    def save(self, cluster: str) -> None:
        """Store the state if something was learned, as often as accounting is queried."""
        now = self.transport.now()
        if self._is_restored and not 0 <= now - self._saved_at < self.settings["history_every_s"]:
            self._saved_at = now
            with self.store.begin() as connection:
                clock_jobs.write_meta(connection, cluster, **{ORDER_STATE: self.state()})

    def cycle(self, cluster: str, stored: Stored, outcome: CycleOutcome, stop: str, booted: float) -> None:
        """Read the queue and set SiteFactors, and count the changes in `outcome`. If `stop` gives a reason not to plan,
        restore every factor that batchcast has set.

        After every factor is restored, no calls are made as long as `stop` holds and slurmctld's start time, `booted`,
        does not change. Raises BatchcastError.
        """
        assert stored.order is not None
        record = dict(stored.order)
        if stored.off or (not stop and self.settings["plan"] not in ORDERS):
            stop = "off"
        if stop and not record:
            return
        if stop and self._quiet.holds(booted):
            outcome.placed = 0
            if self._quiet.is_settled(now := self.transport.now()):
                self._write(cluster, {}, [], now)
            return
        stop = stop or limits.why_unordered(self.transport, self.settings["plan_band"])
        if not stop and not stored.forecasts and not orders_by_limits(self.settings):
            stop = f"there is no forecast by {planned_by(self.settings)} of any waiting job"
        if stop and stop != "off":
            outcome.problems.append(f"nothing is ordered: {stop}")
            if not record:  # sprio fails without the plugin priority/multifactor
                return
        look = limits.look(self.transport)
        groups = self._groups(look.jobs, look.asked_at, stop)
        before = dict(record)
        self._settle(groups, record, look.asked_at)
        wanted = self._decide(groups, record, stored, look.asked_at) if not stop else {}
        changes = self._changes(groups, record, wanted)
        if stop:
            changes += self._hidden(look.jobs, groups, record)
        self._quiet.note(bool(stop) and not changes and not look.broken, booted, look.asked_at)
        known = {j.raw_id for j in look.jobs if not j.finished}
        if not look.broken:
            record = {i: one for i, one in record.items() if i in known}
        # A denied call only stops new factors. Restoring is tried in every cycle.
        if look.asked_at < self._not_before:
            changes = [one for one in changes if one[1] == 0]
        calls = _at_once(changes)
        if not calls:
            if record != before:
                self._write(cluster, record, [], look.asked_at)
            shown = {i: group.sprio for i, group in groups.items()}
            outcome.placed = sum(_stands(one, record.get(i)) for i, one in shown.items())
            return
        self._carry_out(cluster, calls, record, look.asked_at, stop, outcome)

    def preview(self, cluster: str) -> tuple[dict[str, int], str]:
        """Return the factor that each waiting job would get now, or the reason why no job would get one. Nothing is
        changed.
        """
        if why := limits.why_unordered(self.transport, self.settings["plan_band"]):
            return {}, why
        with self.store.begin() as connection:
            stored = read_stored(connection, cluster, self.settings, even_if_off=True)
            self.learn(connection, cluster, stored)
        look = limits.look(self.transport)
        groups = self._groups(look.jobs, look.asked_at, "")
        wanted = self._decide(groups, stored.order or {}, stored, look.asked_at)
        return {job.job_id: factor for name, factor in wanted.items() for job in groups[name].tasks}, ""

    def learn(self, connection: Connection, cluster: str, stored: Stored) -> None:
        """Find the users whose jobs often ran longer than predicted. The waiting jobs of these users are ordered by
        time limit. After a restart, continue from the stored state.

        Also find which kinds of jobs of each user have ended. These users and kinds are renewed at intervals; the jobs
        of a new user are looked up at once.
        """
        if not self._is_restored:
            self.restore(stored.values.get(ORDER_STATE) or {})
            self._is_restored = True
        now = self.transport.now()
        if not stored.forecasts or orders_by_limits(self.settings):
            return
        users = sorted({row["user_id"] for row in stored.forecasts.values() if row["user_id"]})
        due = now >= self._overrun_due
        unknown = users if due else [user for user in users if user not in self._ended]
        if unknown:
            ended = planned.ended_kinds(connection, cluster, unknown)
            self._ended = ended if due else self._ended | ended
        if not due:
            return
        self._overrun_due, rule = now + rules.OVERRUNS_EVERY_S, OrderRule()
        since = now - rules.OVERRUN_WINDOW
        rows = planned.started_jobs(connection, cluster, planned_by(self.settings), users, since, now)
        number = {name: k for k, name in enumerate(users)}
        whose = np.array([number[row["user_id"]] for row in rows], np.int64)
        elapsed = np.array([row["elapsed_s"] for row in rows], float)
        limit = np.array([row["req_time"] for row in rows], float)  # NaN for None
        order_times = (order_time(row, self.settings) for row in rows)
        length = np.array([rule.length(at, upto) for at, upto in zip(order_times, limit.tolist())])
        procs = np.array([row["procs"] or 1.0 for row in rows])
        found = rules.overrunning(rules.Ran(whose, elapsed, length, limit, procs), rule.most_overrun)
        self._overrun = frozenset(users[k] for k in found.tolist())

    def _groups(self, jobs: Iterable[Plannable], now: float, stop: str) -> dict[str, Group]:
        """Return the waiting job records that sprio shows, by raw id."""
        tasks = defaultdict(list)
        for job in jobs:
            if job.waits:
                tasks[job.raw_id].append(job)
        seen = limits.priorities(self.transport) if tasks else {}
        terms: Terms = opted_in(self.settings, now, stop)

        def may(some: Sequence[Plannable]) -> bool:
            return not stop and all(is_opted_in(j, terms) and is_drawn(j.base, terms) for j in some)

        return {i: Group(tuple(some), seen[i], may(some)) for i, some in tasks.items() if i in seen}

    def _decide(
        self, groups: Mapping[str, Group], record: Mapping[str, Standing], stored: Stored, now: float
    ) -> dict[str, int]:
        """Return the factor of each record that may be ordered, as `planning.order.decide_order` decides."""
        names = [i for i, group in groups.items() if group.may]
        party: dict[tuple[object, ...], int] = {}
        within, columns, ids = self.settings["plan_within"], [], []
        rule = OrderRule(within, band=self.settings["plan_band"])
        self._by_limit = {}
        for k, name in enumerate(names):
            group, shown = groups[name], groups[name].sprio
            one = group.first
            who = one.account, one.user if within == "user" else "", one.qos, tuple(sorted(one.partitions))
            number = party.setdefault(who, len(party))
            for job in group.tasks:
                said = stored.forecasts.get((job.job_id, job.submit_time))
                ids.append(job.job_id)
                if said is not None and (why := self._why_by_limit(said)):
                    said, self._by_limit[name] = None, why
                length = rule.length(order_time(said, self.settings), job.limit)
                columns.append(
                    (k, shown.eligible, shown.cpus, shown.priority, shown.factor, _is_ours(shown, record.get(name)),
                     length, number)
                )  # fmt: skip
        if not columns:
            return {}
        queue = Queue(*(np.array(column) for column in zip(*columns)))
        age = self.settings["plan_age_s"]
        if not age:
            self._finder.processors = float(stored.values.get("total_procs") or math.nan)
            age = self._finder.look(ids, queue.arrival, queue.forecast * queue.size, now)
        order = decide_order(queue, replace(rule, age=age), now)
        return {names[k]: factor for k, factor in zip(queue.group.tolist(), order.factor.tolist())}

    def _why_by_limit(self, said: Mapping[str, Any]) -> str:
        """Return why a job with a prediction is ordered by its time limit; empty if its prediction orders it."""
        user = said["user_id"]
        if user in self._overrun:
            return OVERRUN
        is_new = user in self._ended and kind_of(user, said["job_name"], said["app_id"]) not in self._ended[user]
        return NEW if is_new else ""

    def _changes(
        self, groups: Mapping[str, Group], record: Standings, wanted: Mapping[str, int]
    ) -> list[tuple[Group, int]]:
        """Return the factors to set. Records whose factor somebody else has changed are removed from `record`."""
        changes = []
        for name, group in groups.items():
            if group.sprio.factor != 0 and not _is_ours(group.sprio, record.get(name)):
                record.pop(name, None)
            elif (factor := wanted.get(name, 0)) != group.sprio.factor:
                changes.append((group, factor))
        return changes

    def _settle(self, groups: Mapping[str, Group], record: Standings, now: float) -> None:
        """Remove records whose factor was restored and seen as 0 so long ago that a crash of slurmctld cannot
        undo it.
        """
        for name, one in record.items():
            if one.factor != 0 or (name in groups and groups[name].sprio.factor != 0):
                self._settled.pop(name, None)
            elif name in groups:
                self._settled.setdefault(name, now)
                record[name] = one._replace(is_read_back=True)
        self._settled = {name: at for name, at in self._settled.items() if name in record}
        for name, at in self._settled.items():
            if now - at >= SETTLED_S:
                del record[name]

    def _hidden(
        self, jobs: Iterable[Plannable], groups: Mapping[str, Group], record: Mapping[str, Standing]
    ) -> list[tuple[Group, int]]:
        """Return the calls that restore factors of held or running jobs, which sprio does not show. If such a job were
        requeued, its old factor would take effect again.
        """
        tasks = defaultdict(list)
        for job in jobs:
            one = record.get(job.raw_id)
            if (job.has_started or job.waits) and one and not one.is_read_back and job.raw_id not in groups:
                tasks[job.raw_id].append(job)
        shown = {name: Priority(0.0, record[name].factor, 1.0, math.nan) for name in tasks}
        return [(Group(tuple(some), shown[name], False), 0) for name, some in tasks.items()]

    def _carry_out(
        self, cluster: str, calls: Sequence[Call], record: Standings, at: float, stop: str, outcome: CycleOutcome
    ) -> None:
        """Record the changes, send them to slurmctld, and read the result."""
        steps, changes = [], [(group, factor) for factor, some in calls for group in some]
        by = "time limit" if orders_by_limits(self.settings) else "forecast"
        for group, factor in changes:
            name, now = group.first.raw_id, group.sprio.factor
            record[name] = Standing(factor, now)
            basis = self._by_limit.get(name, f"{by} and arrival")
            why = stop or (f"its place by {basis}" if factor else "it may not be ordered any longer")
            what = "sets" if factor else "returns"
            steps.append(Step(group.target, group.first.submit_time, what, now, factor, why))
        try:
            if not self._write(cluster, record, steps, at, unless_off=not stop):
                # `plan --off` has just restored the factors; the next cycle sees that planning is off
                outcome.placed = 0
                return
        except BatchcastError:
            if not stop:
                raise
            outcome.problems.append("the record of the order could not be written; factors are restored anyway")
        refused: dict[str, str] = {}
        for factor, some in calls:
            words = (f"SiteFactor={factor}",)
            if complaint := limits.update(self.transport, ",".join(g.target for g in some), words):
                outcome.problems.append(f"SiteFactor={factor} of {len(some)} jobs: {complaint}")
                refused |= {g.first.raw_id: complaint for g in some}
                if "denied" in complaint.lower():
                    self._not_before = at + PAUSE_S
        shown = limits.priorities(self.transport)
        steps = []
        for group, factor in changes:
            name = group.first.raw_id
            holds = shown[name].factor if name in shown else None if name in refused else factor
            if holds == factor:
                outcome.ordered, outcome.returned = outcome.ordered + bool(factor), outcome.returned + (not factor)
                # sprio does not show held jobs, so the factor cannot be read later
                if not factor and name not in shown:
                    del record[name]
                elif not factor:
                    record[name] = record[name]._replace(is_read_back=True)
                what, why = "holds", "read back"
            else:
                what, why = "refused", refused.get(name, "it was not carried out")
            steps.append(Step(group.target, group.first.submit_time, what, group.sprio.factor, factor, why))
        self._write(cluster, record, steps, self.transport.now())
        outcome.placed = sum(_stands(one, record.get(i)) for i, one in shown.items())

    def _write(
        self, cluster: str, record: Mapping[str, Standing], steps: Sequence[Step], at: float, unless_off: bool = False
    ) -> bool:
        """Write the record and the audit log. If `unless_off` is set and an operator has switched planning off since
        the cycle began, write neither and return False.
        """
        with self.store.begin() as connection:
            if unless_off and clock_jobs.read_meta(connection, cluster).get(planned.SWITCH):
                return False
            planned.write_order(connection, cluster, record, steps, at)
        return True


def extremes(factors: Mapping[str, int]) -> str:
    """Return a sentence with the lowest and the highest factor of a preview and their jobs; empty without jobs.

    >>> extremes({"7": -512, "8": 0, "9": 1024})
    'the lowest factor would be -512, of job 7; the highest +1024, of job 9'
    """
    if not factors:
        return ""
    low, high = (which(factors, key=lambda i: factors[i]) for which in (min, max))
    return f"the lowest factor would be {factors[low]:+d}, of job {low}; the highest {factors[high]:+d}, of job {high}"


def _is_ours(seen: Priority, standing: Standing | None) -> bool:
    """Return whether batchcast has set the present factor of a job record."""
    return standing is not None and seen.factor in (standing.factor, standing.before)


def _stands(seen: Priority, standing: Standing | None) -> bool:
    """Return whether a job has a factor that batchcast has set."""
    return seen.factor != 0 and _is_ours(seen, standing)


def _at_once(changes: Sequence[tuple[Group, int]]) -> list[Call]:
    """Return all calls that restore factors, and then at most `MOST_CALLS` calls that set factors, the highest factors
    first.
    """
    by_factor = defaultdict(list)
    for group, factor in changes:
        by_factor[factor].append(group)
    ordered = sorted(by_factor.items(), reverse=True, key=lambda item: item[0])
    calls = [(factor, some[k : k + TOGETHER]) for factor, some in ordered for k in range(0, len(some), TOGETHER)]
    return [call for call in calls if call[0] == 0] + [call for call in calls if call[0] != 0][:MOST_CALLS]
