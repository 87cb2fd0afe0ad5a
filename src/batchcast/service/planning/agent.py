# SPDX-License-Identifier: Apache-2.0
"""The planning agent in the collector: reads, decides, records, changes limits, and verifies by reading back.

The order makes it safe: an entry is on disk before its limit is requested. If the process is killed in between, the
next look sees which of the entry's two limits holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import BatchcastError, UsageError
from ...formats.slurm.plannable import Plannable
from ...planning.decide import PLANNED_BY_ANOTHER, Action, decide, planned_by_another, verdict
from ...planning.record import GIVEN_BACK, CycleOutcome, Entry, How, Owner, Quiet, State, Terms, owner_of, start_list
from ...planning.update import at_once, chunks, is_done, is_same, stale, targets
from ...slurm import limits
from ...slurm.transport import Transport
from ...store import clock_jobs, planned
from ...store.database import Store
from ...trace.whole_file import whole_file
from ..settings import Settings
from .comments import Adviser, CommentWriter
from .order import Orderer
from .terms import (
    LIMITS,
    MOST_LOOKED_UP,
    Submissions,
    forecasts_by,
    method_of,
    over_time_cuts,
    terms_of,
    uses_predictions,
    why_forecasts_fail,
)


@dataclass(slots=True)
class StartList:
    """The list of planned jobs, in the file at `place`. Without a place there is no script, and nothing is written."""

    place: str
    _last: str | None = None

    def write(self, entries: Iterable[Entry]) -> str:
        """Write the list if it has changed; return what failed.

        Everybody can read it, because slurmctld's user must: it has only ids and limits.
        """
        text = start_list(entries) if self.place else ""
        if not self.place or text == self._last:
            return ""
        try:
            with whole_file(Path(self.place)) as part:
                part.write_text(text, encoding="ascii")
                part.chmod(0o644)
        except OSError as error:
            self._last = None
            return f"plan_list {self.place}: {error.strerror}: looks alone give limits back"
        self._last = text
        return ""


HOUR = 3600.0
STORE_PAUSE_S = 600.0
"""After a failed write to the store, no planned limits are applied for this many seconds."""
Change = tuple[Entry, float, float, str]


@dataclass(slots=True)
class Planner:
    """Plans one cluster. `alarm` is why planning is stopped at present, and until when."""

    transport: Transport
    store: Store
    settings: Settings
    alarm: tuple[str, float] = ("", -math.inf)
    comments: CommentWriter = field(init=False)
    adviser: Adviser = field(init=False)
    orderer: Orderer = field(init=False)
    submissions: Submissions = field(init=False)
    start_list: StartList = field(init=False)
    _refused: dict[tuple[str, float], float] = field(default_factory=dict)
    _walls: tuple[float, dict[tuple[str, ...], float], list[str]] = (-math.inf, {}, [])
    _judged_at: float = -math.inf
    _cycle_at: float = math.nan
    _record: dict[str, Entry] = field(default_factory=dict)
    _owed: list[Change] = field(default_factory=list)
    _others: list[str] = field(default_factory=list)
    _failures: int = 0
    _quiet: Quiet = field(default_factory=Quiet)
    _over_time: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.comments = CommentWriter(self.transport)
        self.adviser = Adviser(self.transport, self.store, self.settings)
        self.submissions = Submissions(self.transport)
        self.orderer = Orderer(self.transport, self.store, self.settings)
        self.start_list = StartList(self.settings["plan_list"])

    def cycle(self, cluster: str, stop: str = "", booted: float = math.nan) -> CycleOutcome:
        """Set limits, order and comments. `stop` says why no planned limit may be applied; then all are restored.

        `booted` is when slurmctld started (epoch, s). If it is known, planning that is off and has given everything
        back makes no calls.
        """
        done = self._limits(cluster, stop, booted)
        began = self.transport.now()
        with self._may_fail(done, "the order"):
            done.placed = self.orderer.placed(cluster)
            alarm = f"watchdog: {self.alarm[0]}" if self.alarm[1] > began else ""
            order = self.orderer.cycle(cluster, stop or alarm, booted)
            done.problems += order.problems
            done.ordered, done.returned, done.placed = order.set, order.returned, order.standing
        if self.settings["plan"] == "order":
            self._watch(cluster, began, self.transport.now(), done)
        with self._may_fail(done):
            done.commented, problems = self.adviser.cycle(cluster)
            done.problems += problems
        return done

    def _limits(self, cluster: str, stop: str, booted: float) -> CycleOutcome:
        """Look at the queue once, and set or restore limits."""
        done = CycleOutcome()
        record, off = self._remembered(cluster, done)
        stop = stop or ("" if self.settings["plan"] in LIMITS else f"plan = {self.settings['plan']}")
        stop = stop or (f"switched off by {off['by']}" if off else "")
        if stop and not record:
            self._list(record, [], done)
            return done
        began = self.transport.now()
        if stop and self._quiet.holds(booted):
            if self._quiet.is_settled(began):
                self._drop(cluster, [entry._replace(at=began) for entry in record.values()], "planning is off", done)
            return done
        look, terms = self._look(stop)
        self._watch(cluster, began, self.transport.now(), done)
        done.problems += over_time_cuts(self._over_time, terms.over_time)
        self._over_time = terms.over_time
        if not stop and self.alarm[1] > terms.now:
            terms = terms._replace(stopped=f"watchdog: {self.alarm[0]}")
        self._notice(
            cluster, [job.job_id for job in look.jobs if job.job_id not in record and planned_by_another(job)], done
        )
        actions = self._decide(cluster, look, record, terms)
        for_now = {a.job.job_id: a.entry for a in actions if a.what != "plan"}
        restores = [a for a in actions if a.what == "restore"]
        fresh = {a.job.job_id for a in restores if record[a.job.job_id].state is not State.RESTORING}
        self._restore(cluster, restores, fresh, terms, done)
        self._write(cluster, [_change(a, a.job.limit, a.job.limit) for a in actions if a.what == "note"], done)
        plans = at_once([a for a in actions if a.what == "plan" and self._may_try(a, terms.now)], terms)
        record |= for_now
        sent = self._plan(cluster, plans, record, terms, done)
        record |= {a.job.job_id: a.entry for a in sent}
        self._read_back(cluster, [*restores, *sent], fresh, look, record, terms, done)
        self._forget(cluster, look, record, done)
        is_idle = bool(stop) and not actions and not look.broken
        self._quiet.note(is_idle and _is_all_given_back(record, look, terms), booted, look.asked_at)
        self._list(record, [], done)
        self._record = record
        return done

    def preview(self, cluster: str) -> list[tuple[Plannable, float, float, str]]:
        """Return what a cycle would plan now, without a change: each waiting job, its prediction, planned limit (NaN),
        why.
        """
        with self.store.begin() as connection:
            record = planned.entries(connection, cluster)
        look, terms = self._look("")
        forecast = self._forecasts(cluster)
        first = [j for j in look.jobs if j.waits and not math.isnan(verdict(j, terms, forecast, lambda _: "")[0])]
        self.submissions.look_up(first, most=10 * MOST_LOOKED_UP)
        rows = []
        for job in look.jobs:
            entry = record.get(job.job_id)
            if job.waits and entry is not None and owner_of(job, entry, terms) is not Owner.USERS:
                rows.append((job, math.nan, job.limit, "it stands on this limit, see batchcast plan"))
            elif job.waits:
                limit, why = verdict(job, terms, forecast, self.submissions.why_not(terms))
                said = forecast(job)
                rows.append((job, said if isinstance(said, float) else math.nan, limit, why))
        return rows

    def _remembered(self, cluster: str, done: CycleOutcome) -> tuple[dict[str, Entry], Any]:
        """Return the record of planning, and whether planning is switched off.

        Failed writes are repeated first. If the store still fails, the last known record is used and limits are
        restored, because a new limit could not be recorded for a later process.
        """
        record, off = self._record, None
        with self._may_fail(done):
            with self.store.begin() as connection:
                planned.write(connection, cluster, self._owed)
                record = planned.entries(connection, cluster)
                memory = clock_jobs.read_meta(connection, cluster)
                off, self._others = memory.get(planned.SWITCH), memory.get(planned.OTHERS) or []
            self._owed.clear()
        if self.store.failures != self._failures:
            self._failures = self.store.failures
            self.alarm = "the store could not be written", max(self.alarm[1], self.transport.now() + STORE_PAUSE_S)
            if self.settings["plan"] != "off":
                done.problems.append(f"planning stops for {STORE_PAUSE_S / 60:.0f} min: {self.alarm[0]}")
        return record | {entry.job_id: entry for entry, *_ in self._owed}, off

    # -- seeing -------------------------------------------------------------------------------------------------

    def _look(self, stop: str) -> tuple[limits.Look, Terms]:
        """Read partitions before jobs; an OverTimeLimit that is lowered in between is seen at the next look."""
        ground = limits.ground(self.transport, self.transport.now())
        at, walls, counted = self._walls
        enforces = bool(ground.enforced & {"limits", "safe"})
        if enforces and not stop and not 0 <= self.transport.now() - at < HOUR:
            self._walls = self.transport.now(), *limits.walls(self.transport)
            _, walls, counted = self._walls
        look = limits.look(self.transport)
        terms = terms_of(self.settings, ground, walls if enforces else {}, counted, look.asked_at, stop)
        return look, terms._replace(comments=self.comments.may_write())

    def _watch(self, cluster: str, began: float, now: float, done: CycleOutcome) -> None:
        """The watchdog: stops planning after a late look, a slow slurmctld, or predictions that no longer hold."""
        why = ""
        if self._cycle_at == self._cycle_at and began - self._cycle_at > self.settings["plan_lag_s"]:
            why = f"the look before was {began - self._cycle_at:.0f} s ago"
        if now - began > 5 * self.settings["plan_call_s"]:
            why = f"five calls to slurmctld took {now - began:.0f} s"
        self._cycle_at = now
        if uses_predictions(self.settings) and not 0 <= now - self._judged_at < self.settings["history_every_s"]:
            self._judged_at = now
            with self._may_fail(done), self.store.begin() as connection:
                why = why_forecasts_fail(connection, cluster, self.settings, now) or why
        if why:
            self.alarm = why, now + HOUR
            done.problems.append(f"planning stops for an hour: {why}")
            with self._may_fail(done), self.store.begin() as connection:
                clock_jobs.write_meta(connection, cluster, plan_alarm={"why": why, "until": self.alarm[1]})

    def _decide(self, cluster: str, look: limits.Look, record: dict[str, Entry], terms: Terms) -> list[Action]:
        """Decide; decide again if submissions had to be looked up first."""
        forecast = self._forecasts(cluster) if not terms.stopped else lambda _: "planning is off"
        wanted: list[Plannable] = []
        known = self.submissions.why_not(terms)

        def first(job: Plannable) -> str:
            if job.raw_id not in self.submissions.known:
                wanted.append(job)
            return known(job)

        actions = decide(look.jobs, record, terms, forecast, first)
        if wanted and self.submissions.look_up(wanted):
            actions = decide(look.jobs, record, terms, forecast, known)
        self.submissions.keep(look.jobs)
        return actions

    def _forecasts(self, cluster: str) -> Callable[[Plannable], float | str]:
        with self.store.begin() as connection:
            issued = planned.run_forecasts(connection, cluster, method_of(self.settings))
        return forecasts_by(issued, self.settings["plan_length_quantile"], self.settings["plan_shortest_s"])

    def _notice(self, cluster: str, others: list[str], done: CycleOutcome) -> None:
        """Report jobs that another batchcast plans when they are first seen, and store them for `doctor`."""
        if others == self._others:
            return
        if set(others) - set(self._others):
            done.problems.append(f"{len(others)} jobs, {others[0]} say, are left alone: {PLANNED_BY_ANOTHER}")
        self._others = others
        with self._may_fail(done), self.store.begin() as connection:
            clock_jobs.write_meta(connection, cluster, **{planned.OTHERS: others})

    # -- changing -----------------------------------------------------------------------------------------------

    def _restore(
        self, cluster: str, actions: Sequence[Action], fresh: set[str], terms: Terms, done: CycleOutcome
    ) -> None:
        """Restore limits: recorded first if possible, restored in any case."""
        news = [a for a in actions if a.job.job_id in fresh]
        self._write(cluster, [_change(a, a.entry.planned, a.entry.user_limit) for a in news], done)
        for update, target, _ in targets(actions, terms):
            if complaint := self.comments.send(target, update):
                done.problems.append(f"restoring {target}: {complaint}")

    def _plan(
        self, cluster: str, actions: Sequence[Action], record: Mapping[str, Entry], terms: Terms, done: CycleOutcome
    ) -> list[Action]:
        """Set planned limits in batches; each job is read again just before, and recorded first."""
        sent: list[Action] = []
        for some in chunks(actions):
            again = {
                j.job_id: j for j in limits.look(self.transport, list(dict.fromkeys(a.job.raw_id for a in some))).jobs
            }
            same = [a for a in some if is_same(again.get(a.job.job_id), a.job)]
            try:
                with self.store.begin() as connection:
                    if clock_jobs.read_meta(connection, cluster).get(planned.SWITCH):
                        return sent
                    planned.write(connection, cluster, [_change(a, a.entry.user_limit, a.entry.planned) for a in same])
            except BatchcastError as error:
                done.problems.append(f"nothing more is planned: {error.message}")
                return sent
            self._list(record, [*sent, *same], done)
            for update, target, _ in targets(same, terms):
                if complaint := self.comments.send(target, update):
                    done.problems.append(f"planning {target}: {complaint}")
            sent += same
        return sent

    def _read_back(
        self,
        cluster: str,
        sent: Sequence[Action],
        fresh: set[str],
        look: limits.Look,
        record: dict[str, Entry],
        terms: Terms,
        done: CycleOutcome,
    ) -> None:
        """Check which changes took effect, and count the jobs with planned limits."""
        jobs = {job.job_id: job for job in (limits.look(self.transport) if sent else look).jobs}
        notes, refused = [], []
        for action in sent:
            job, change = jobs.get(action.job.job_id), _change(action, action.job.limit, action.limit)
            if job is not None and is_done(job, action):
                entry = action.entry._replace(state=action.done, at=self.transport.now())
                notes.append((entry, *change[1:3], "read back"))
                done.planned += int(action.what == "plan")
                done.restored += int(action.what == "restore")
            elif job is not None and not job.finished:
                at, name = (job.time_min if action.how is How.TIME_MIN else job.limit) / 60, str(action.how)
                done.problems.append(f"job {job.job_id}: {name} is {at:.0f} min, not {action.limit / 60:.0f}")
                if action.what == "plan" or action.job.job_id in fresh:
                    self._refused[action.job.job_id, action.job.submit_time] = terms.now
                    refused.append((*change[:3], "it was not carried out"))
        self._write(cluster, notes, done)
        if refused:
            with self._may_fail(done), self.store.begin() as connection:
                planned.refuse(connection, cluster, refused)
        record |= {entry.job_id: entry for entry, *_ in notes}
        if terms.comments:
            done.problems += self.comments.clear(stale(jobs.values(), record, terms))
        left = (job for job in jobs.values() if job.job_id in record and not job.finished)
        done.standing = sum(owner_of(job, record[job.job_id], terms) is Owner.OURS for job in left)

    def _may_try(self, action: Action, now: float) -> bool:
        """Return whether to try a change; a change without effect is tried again after an hour."""
        return now - self._refused.get((action.job.job_id, action.job.submit_time), -math.inf) > HOUR

    # -- writing ------------------------------------------------------------------------------------------------

    def _list(self, record: Mapping[str, Entry], sent: Sequence[Action], done: CycleOutcome) -> None:
        """Write the list for the script at a job's start: jobs that have, or are about to get, a planned limit."""
        now = {**record, **{a.job.job_id: a.entry for a in sent}}
        if complaint := self.start_list.write(now.values()):
            done.problems.append(complaint)

    def _write(self, cluster: str, changes: Sequence[Change], done: CycleOutcome) -> None:
        """Write entries. A failure is reported and repeated at the next look; limits are restored nevertheless."""
        if not changes:
            return
        try:
            with self.store.begin() as connection:
                planned.write(connection, cluster, changes)
        except BatchcastError as error:
            self._owed += changes
            done.problems.append(f"the record of planning: {error.message}")

    @contextmanager
    def _may_fail(self, done: CycleOutcome, part: str = "the record of planning") -> Iterator[None]:
        """Report a failure of a step that can wait for the next look; restoring limits cannot wait."""
        try:
            yield
        except BatchcastError as error:
            done.problems.append(f"{part}: {error.message}")

    def _forget(self, cluster: str, look: limits.Look, record: dict[str, Entry], done: CycleOutcome) -> None:
        """Delete entries of jobs that slurmctld no longer has and whose end accounting has reported."""
        unseen = record.keys() - {job.job_id for job in look.jobs}
        if not unseen or look.broken:
            return
        with self._may_fail(done), self.store.begin() as connection:
            gone = unseen & set(planned.closed(connection, cluster))
        self._drop(cluster, [record[i]._replace(at=look.asked_at) for i in sorted(gone)], "it is over", done)

    def _drop(self, cluster: str, entries: Sequence[Entry], why: str, done: CycleOutcome) -> None:
        """Delete some entries and give the reason in the audit."""
        with self._may_fail(done), self.store.begin() as connection:
            planned.forget(connection, cluster, [(entry, why) for entry in entries])


def planner_of(scheduler: Any, store: Store, settings: Settings) -> Planner | None:
    """Return the planner of a Slurm; None for other batch systems. UsageError for settings that cannot work."""
    if settings["scheduler"] != "slurm":
        if settings["plan"] != "off":
            raise UsageError(f"plan = {settings['plan']}: only a Slurm can be planned for, not {settings['scheduler']}")
        return None
    return Planner(scheduler.transport, store, settings)


def _is_all_given_back(record: Mapping[str, Entry], look: limits.Look, terms: Terms) -> bool:
    """Return whether no entry needs a further look: limits are given back, no --time-min or token is left."""
    left = any(job.time_min for job in look.jobs if (e := record.get(job.job_id)) and e.how is How.TIME_MIN)
    states = {entry.state for entry in record.values()}
    return states <= GIVEN_BACK and not left and not (terms.comments and stale(look.jobs, record, terms))


def _change(action: Action, before: float, after: float) -> Change:
    return action.entry, before, after, action.why
