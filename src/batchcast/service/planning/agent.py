# SPDX-License-Identifier: Apache-2.0
"""The planning agent in the collector. The agent reads the queue, decides, records each change, changes limits, and
verifies by reading the jobs again. It also writes comments on jobs: the token of a planned limit or, with
`plan = "advise"`, the predicted start.

A cycle reads the store once, at its start (`_read`). A cycle writes to the store before its calls to slurmctld
(`_write_before`) and after them (`_write_after`). After the limits, the same cycle sets the queue order (`order`).

The sequence of record, change and verification is safe against crashes: an entry is on disk before slurmctld is asked
to change the limit. If the process is killed in between, the next cycle sees which of the entry's two limits the job
has.

An administrator writes the field AdminComment. An operator may only write the field Comment, which belongs to the user,
so other text in it is preserved. No decision depends on comments.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ...errors import BatchcastError, UsageError
from ...formats.slurm.plannable import Plannable
from ...planning import update as updates
from ...planning.decide import PLANNED_BY_ANOTHER, Action, decide, planned_by_another, token_text, verdict
from ...planning.record import GIVEN_BACK, CycleOutcome, Entry, How, Owner, Quiet, State, Terms, opted_in, owner_of
from ...planning.record import start_list as list_text
from ...planning.update import TOGETHER, Field, Start, Update
from ...slurm import limits
from ...slurm.client import Slurm
from ...slurm.limits import Look
from ...slurm.transport import Transport
from ...store import clock_jobs, planned
from ...store.database import Connection, Store
from ...store.reader import Reader
from ...trace.whole_file import whole_file
from ..answers.start import latest_start, start_answer
from ..answers.track_record import answering_method
from ..settings import Settings, own_name
from . import terms as planning_terms
from .order import Orderer
from .terms import LIMITS, ORDERS, Stored, Submissions, read_stored

HOUR = 3600.0
STORE_PAUSE_S = 600.0
"""After a failed write to the store, no planned limits are applied for this many seconds."""
Record = dict[str, Entry]
"""The planned limits by job id."""
Change = tuple[Entry, float, float, str]
Changes = Sequence[Change]
NO_VALUES: Mapping[str, Any] = {}
MOST_CLEARED = 20
"""Largest number of outdated comments that are removed per cycle, because each needs one call to slurmctld."""
COMMENT_FIELD = "plan_advised"
"""The stored value with this name is the field (Comment or AdminComment) in which batchcast has written comments."""
MOST_WRITTEN = 10
"""Largest number of comments that are written per cycle, because each needs one call to slurmctld."""


def _is_administrator(transport: Transport) -> bool:
    """Return whether this user may write AdminComment, which only root and administrators may. If slurmdbd does not
    answer, the result is False, because limits are more important and need no comment.
    """
    who = own_name()
    try:
        return who == "root" or Slurm(transport).admin_level(who).lower() == "administrator"
    except BatchcastError:
        return False


@dataclass(slots=True)
class Comments:
    """Sends updates of jobs to slurmctld, with a comment if slurmctld accepts it, and writes predicted starts in the
    comments of waiting jobs.
    """

    transport: Transport
    store: Store
    settings: Settings
    _may: bool = False
    _asked_at: float = -math.inf

    def may_write(self) -> bool:
        """Return whether this user may write AdminComment. The right is checked once an hour."""
        now = self.transport.now()
        if not 0 <= now - self._asked_at < HOUR:
            self._asked_at, self._may = now, _is_administrator(self.transport)
        return self._may

    def send(self, target: str, update: Update) -> str:
        """Send an update to slurmctld. If slurmctld refuses the comment, send the update without the comment. Return
        the error message.
        """
        complaint = limits.update(self.transport, target, update.words)
        bare = update._replace(admin_comment=None)
        if complaint and update.admin_comment is not None and bare.words:
            if not (again := limits.update(self.transport, target, bare.words)):
                # The update succeeded without its comment, so the right to write comments was withdrawn.
                self._may, self._asked_at = False, self.transport.now()
            return again
        return complaint

    def clear(self, left: Sequence[tuple[Plannable, str]]) -> list[str]:
        """Remove some outdated tokens from comments; return error messages."""
        by_comment: dict[str, dict[str, None]] = defaultdict(dict)
        for job, comment in left:
            by_comment[comment][job.raw_id if job.waits and job.raw_id == job.base else job.job_id] = None
        some = ((",".join(list(ids)[:TOGETHER]), text) for text, ids in islice(by_comment.items(), MOST_CLEARED))
        said = [limits.update(self.transport, ids, (f"admincomment={text}",)) for ids, text in some]
        return [f"clearing a comment: {complaint}" for complaint in said if complaint]

    def advise(self, cluster: str, values: Mapping[str, Any]) -> tuple[int, list[str]]:
        """Read the queue and write predicted starts in comments; return the number of changes and the errors.

        `values` are the stored values of the cluster. If `plan` is not "advise", the comments are removed, and
        afterwards no queries are sent.
        """
        stop = "off" if self.settings["plan"] != "advise" or values.get(planned.SWITCH) else ""
        written = values.get(COMMENT_FIELD)
        if stop and not written:
            return 0, []
        mine: Field = "admin_comment" if _is_administrator(self.transport) else "comment"
        field: Field = written if stop and written in ("admin_comment", "comment") else mine
        # The field is stored before the first comment is written, so that a later process finds and removes the
        # comments.
        if not stop and written != field:
            self._remember(cluster, field)
        look = limits.look(self.transport)
        terms = opted_in(self.settings, look.asked_at, stop)
        wanted = updates.comments(look.jobs, {} if stop else self._starts(cluster, look.asked_at), terms, field)
        changed, problems = self._write(wanted[: 10 * MOST_WRITTEN if stop else MOST_WRITTEN], field)
        left = limits.look(self.transport) if changed else look
        if stop and not any(token_text(str(getattr(job, field))) for job in left.jobs if not job.finished):
            self._remember(cluster, None)
        return changed, problems

    def _remember(self, cluster: str, field: Field | None) -> None:
        """Store the field in which batchcast writes comments; None if batchcast has removed its comments."""
        with self.store.begin() as connection:
            clock_jobs.write_meta(connection, cluster, **{COMMENT_FIELD: field})

    def _starts(self, cluster: str, now: float) -> dict[str, Start]:
        """Return the start times that `batchcast start` gives for every waiting job."""
        with Reader(self.store.url) as reader:
            memory = reader.memory(cluster)
            rows = reader.waiting(cluster, answering_method(memory))
        answers = (start_answer(row, now, latest=latest_start(row, memory, now)) for row in rows)
        return {a["job_id"]: Start(a["likely_start_s"], a["by_90_start_s"]) for a in answers}

    def _write(self, wanted: Sequence[tuple[Plannable, str]], field: Field) -> tuple[int, list[str]]:
        """Write comments on the jobs that have not changed since the queue was read. Waiting tasks of an array share a
        comment.
        """
        if not wanted:
            return 0, []
        # The user may have changed the comment since the look, and an update would overwrite the user's text.
        again = {j.job_id: j for j in limits.look(self.transport, [job.raw_id for job, _ in wanted]).jobs}
        same = [(job, text) for job, text in wanted if _status(again.get(job.job_id), field) == _status(job, field)]
        texts = {job.job_id if "_" not in job.job_id or not job.waits else job.raw_id: text for job, text in same}
        word = field.replace("_", "")
        said = {name: limits.update(self.transport, name, (f"{word}={text}",)) for name, text in texts.items()}
        problems = [f"the comment of {name}: {complaint}" for name, complaint in said.items() if complaint]
        return len(said) - len(problems), problems


@dataclass(slots=True)
class Turn:
    """One turn of setting a queue's time limits: the jobs and terms that it has read, and the record of planned limits,
    which each of its steps updates. `new` has the jobs whose restoring was not recorded before.
    """

    cluster: str
    look: Look
    terms: Terms
    record: Record
    outcome: CycleOutcome
    new: Set[str] = frozenset()


class Planner:
    """Plans the jobs of one cluster. `alarm` has the reason why planning is stopped, and until when."""

    def __init__(self, transport: Transport, store: Store, settings: Settings) -> None:
        self.transport, self.store, self.settings = transport, store, settings
        self.alarm = "", -math.inf
        self.comments, self.orderer = Comments(transport, store, settings), Orderer(transport, store, settings)
        self.submissions = Submissions(transport)
        self._refused: dict[tuple[str, float], float] = {}
        self._walls: planning_terms.Walls = ({}, [])
        self._walls_at, self._judged_at, self._cycle_at = -math.inf, -math.inf, math.nan
        self._record: dict[str, Entry] = {}
        self._owed: list[Change] = []
        self._failures, self._quiet = 0, Quiet()
        self._over_time: Mapping[str, float] = {}
        self._listed: str | None = None

    def cycle(self, cluster: str, stop: str = "", booted: float = math.nan) -> CycleOutcome:
        """Set limits, queue order and comments. If `stop` gives a reason not to plan, all planned limits are restored.

        `booted` is when slurmctld started (epoch seconds). If `booted` is known, planning makes no further calls after
        it is switched off and has restored everything.
        """
        outcome = CycleOutcome()
        stored = self._read(cluster, stop, outcome)
        self._set_limits(cluster, stop, booted, stored, outcome)
        # Without the store, limits can be restored by the entries in memory, but no factor may be changed without a
        # record.
        if stored.order is not None:
            self._set_order(cluster, stop, booted, stored, outcome)
            self._write_comments(cluster, stored, outcome)
        return outcome

    def _read(self, cluster: str, stop: str, outcome: CycleOutcome) -> Stored:
        """Repeat writes that failed before, and read the store once for the whole cycle.

        If the store fails, the last known entries are used, and limits are restored, because a new limit could not be
        recorded for a later process.
        """
        stored, now = Stored(self._record), self.transport.now()
        with self._may_fail(outcome):
            if self._owed:
                with self.store.begin() as connection:
                    planned.write(connection, cluster, self._owed)
                self._owed.clear()
        with self._may_fail(outcome), self.store.begin() as connection:
            stop = stop or ("" if self.settings["plan"] in LIMITS + ORDERS else "off")
            stored = read_stored(connection, cluster, self.settings, stop)
            if not (stop or stored.off):
                if self.settings["plan"] in ORDERS:
                    self.orderer.learn(connection, cluster, stored)
                stored = stored._replace(misfit=self._misfit(connection, cluster, now))
        if self.store.failures != self._failures:
            self._failures = self.store.failures
            self.alarm = "the store could not be written", max(self.alarm[1], now + STORE_PAUSE_S)
            if self.settings["plan"] != "off":
                outcome.problems.append(f"planning stops for {STORE_PAUSE_S / 60:.0f} min: {self.alarm[0]}")
        return stored._replace(entries=stored.entries | {entry.job_id: entry for entry, *_ in self._owed})

    def _set_limits(self, cluster: str, stop: str, booted: float, stored: Stored, outcome: CycleOutcome) -> None:
        """Set or restore time limits: look at the queue, decide, restore, plan, and read the result."""
        stop = stop or ("" if self.settings["plan"] in LIMITS else f"plan = {self.settings['plan']}")
        stop = stop or (f"switched off by {stored.off['by']}" if stored.off else "")
        if stop and self._is_over(cluster, booted, stored, outcome):
            return
        began = self.transport.now()
        look, terms = self._look(stop)
        alarm = {} if self.settings["plan"] == "order" else self._watch(began, stored, outcome)
        if not stop and self.alarm[1] > terms.now:
            terms = terms._replace(stopped=f"watchdog: {self.alarm[0]}")
        turn = Turn(cluster, look, terms, dict(stored.entries), outcome)
        actions = self._decide(turn, stored)
        # Restoring comes before planning: a planned limit that is not restored can end a running job, but a limit that
        # is not planned costs nothing.
        restored = self._restore(turn, actions, alarm | self._notice(turn, stored))
        planned_now = self._plan(turn, actions)
        self._read_back(turn, [*restored, *planned_now], stored.ended)
        is_idle = bool(stop) and not actions and not look.broken
        self._quiet.note(is_idle and _is_all_given_back(turn.record, look, terms), booted, look.asked_at)
        self._list(turn.record, outcome)
        self._record = turn.record

    def _set_order(self, cluster: str, stop: str, booted: float, stored: Stored, outcome: CycleOutcome) -> None:
        """Set or restore the queue order. If only the order is planned, the watchdog judges these calls."""
        assert stored.order is not None
        began = self.transport.now()
        with self._may_fail(outcome, "the order"):
            outcome.placed = sum(standing.factor != 0 for standing in stored.order.values())
            alarm = f"watchdog: {self.alarm[0]}" if self.alarm[1] > began else ""
            self.orderer.cycle(cluster, stored, outcome, stop or alarm, booted)
            self.orderer.save(cluster)
        if self.settings["plan"] == "order":
            with self._may_fail(outcome):
                self._write_before(cluster, (), self._watch(began, stored, outcome))

    def _write_comments(self, cluster: str, stored: Stored, outcome: CycleOutcome) -> None:
        """Write predicted starts in the comments of waiting jobs, or remove them."""
        with self._may_fail(outcome):
            outcome.commented, problems = self.comments.advise(cluster, stored.values)
            outcome.problems += problems

    def preview(self, cluster: str) -> list[tuple[Plannable, float, float, str]]:
        """Return what a cycle would plan now, without changing jobs: each waiting job, its prediction, its planned
        limit (NaN: none), and the reason.
        """
        with self.store.begin() as connection:
            stored = read_stored(connection, cluster, self.settings, even_if_off=True)
        look, terms = self._look("")
        forecast = planning_terms.forecasts_by(stored.forecasts, self.settings)
        first = [j for j in look.jobs if j.waits and not math.isnan(verdict(j, terms, forecast, lambda _: "")[0])]
        self.submissions.look_up(first, most=10 * planning_terms.MOST_LOOKED_UP)
        rows = []
        for job in (job for job in look.jobs if job.waits):
            entry = stored.entries.get(job.job_id)
            if entry is not None and owner_of(job, entry, terms) is not Owner.USERS:
                rows.append((job, math.nan, job.limit, "it has this planned limit, see batchcast plan"))
            else:
                predicted = forecast(job)
                limit_and_why = verdict(job, terms, forecast, self.submissions.why_not(terms))
                rows.append((job, predicted if isinstance(predicted, float) else math.nan, *limit_and_why))
        return rows

    # -- seeing -------------------------------------------------------------------------------------------------

    def _misfit(self, connection: Connection, cluster: str, now: float) -> str:
        """Return why the predictions that planning uses should not be used, judged at intervals; empty in between."""
        uses = self.settings["plan"] != "order" or not planning_terms.orders_by_limits(self.settings)
        if not uses or 0 <= now - self._judged_at < self.settings["history_every_s"]:
            return ""
        self._judged_at = now
        return planning_terms.why_forecasts_fail(connection, cluster, self.settings, now)

    def _is_over(self, cluster: str, booted: float, stored: Stored, outcome: CycleOutcome) -> bool:
        """Return whether limits are no longer planned and all are restored, so that Slurm need not be asked. After some
        time, delete the entries of the restored limits.
        """
        if not stored.entries:
            self._list({}, outcome)
            return True
        # Everything was restored and read back. Only a restart of slurmctld (`booted`) can bring back planned limits,
        # because it loads an older saved state.
        if not self._quiet.holds(booted):
            return False
        if self._quiet.is_settled(now := self.transport.now()):
            over = [(entry._replace(at=now), "planning is off") for entry in stored.entries.values()]
            self._write_after(cluster, outcome, (), (), over)
        return True

    def _look(self, stop: str) -> tuple[Look, Terms]:
        """Read the partitions and then the jobs. If OverTimeLimit is lowered in between, the next cycle sees it."""
        ground = limits.ground(self.transport, self.transport.now())
        enforces = bool(ground.enforced & {"limits", "safe"})
        if enforces and not stop and not 0 <= self.transport.now() - self._walls_at < HOUR:
            self._walls_at, self._walls = self.transport.now(), limits.walls(self.transport)
        look = limits.look(self.transport)
        accounting = self._walls if enforces else ({}, self._walls[1])
        terms = planning_terms.terms_of(self.settings, ground, accounting, look.asked_at, stop)
        return look, terms._replace(comments=self.comments.may_write())

    def _watch(self, began: float, stored: Stored, outcome: CycleOutcome) -> dict[str, Any]:
        """The watchdog: stop planning for an hour after a late cycle, a slow slurmctld, or predictions whose coverage
        is too low.

        Returns the alarm as a value to store.
        """
        why, now = stored.misfit, self.transport.now()
        if not why and now - began > 5 * self.settings["plan_call_s"]:
            why = f"five calls to slurmctld took {now - began:.0f} s"
        if not why and began - self._cycle_at > self.settings["plan_lag_s"]:
            why = f"the last cycle was {began - self._cycle_at:.0f} s ago"
        self._cycle_at = now
        if not why:
            return {}
        self.alarm = why, now + HOUR
        outcome.problems.append(f"planning stops for an hour: {why}")
        return {"plan_alarm": {"why": why, "until": self.alarm[1]}}

    def _notice(self, turn: Turn, stored: Stored) -> dict[str, Any]:
        """Report partitions whose OverTimeLimit was lowered, and jobs that another installation of batchcast plans;
        return these jobs as a value for `doctor`.
        """
        turn.outcome.problems += planning_terms.over_time_cuts(self._over_time, turn.terms.over_time)
        self._over_time = turn.terms.over_time
        others = [job.job_id for job in turn.look.jobs if job.job_id not in stored.entries and planned_by_another(job)]
        before = stored.values.get(planned.OTHER_PLANNERS) or []
        if others == before or stored.order is None:
            return {}
        if set(others) - set(before):
            example = f"{len(others)} jobs, for example {others[0]}"
            turn.outcome.problems.append(f"{example}, are not planned: {PLANNED_BY_ANOTHER}")
        return {planned.OTHER_PLANNERS: others}

    # -- changing -----------------------------------------------------------------------------------------------

    def _decide(self, turn: Turn, stored: Stored) -> list[Action]:
        """Return the changes to make. If submit options had to be looked up first, decide again with these options."""
        forecast = planning_terms.forecasts_by(stored.forecasts, self.settings)
        wanted: list[Plannable] = []
        known = self.submissions.why_not(turn.terms)

        def first(job: Plannable) -> str:
            if job.raw_id not in self.submissions.by_raw_id:
                wanted.append(job)
            return known(job)

        actions = decide(turn.look.jobs, turn.record, turn.terms, forecast, first)
        if wanted and self.submissions.look_up(wanted):
            actions = decide(turn.look.jobs, turn.record, turn.terms, forecast, known)
        self.submissions.keep(turn.look.jobs)
        return actions

    def _restore(self, turn: Turn, actions: Sequence[Action], values: Mapping[str, Any]) -> list[Action]:
        """Restore limits, and return what was sent. If the record fails, limits are restored anyway."""
        restores = [a for a in actions if a.kind == "restore"]
        turn.new = {a.job.job_id for a in restores if turn.record[a.job.job_id].state is not State.RESTORING}
        changes = [_change(a, a.entry.planned, a.entry.user_limit) for a in restores if a.job.job_id in turn.new]
        changes += [_change(a, a.job.limit, a.job.limit) for a in actions if a.kind == "note"]
        try:
            self._write_before(turn.cluster, changes, values)
        except BatchcastError as error:
            self._owed += changes
            turn.outcome.problems.append(f"the record of planning: {error.message}")
        self._send("restoring", restores, turn)
        turn.record |= {a.job.job_id: a.entry for a in actions if a.kind != "plan"}
        return restores

    def _plan(self, turn: Turn, actions: Sequence[Action]) -> list[Action]:
        """Set planned limits in batches. Each job is read again and recorded just before its limit is changed. Return
        what was sent to slurmctld.
        """
        # a change that had no effect is tried again after an hour
        tried = {key for key, at in self._refused.items() if turn.terms.now - at <= HOUR}
        plans = [a for a in actions if a.kind == "plan" and (a.job.job_id, a.job.submit_time) not in tried]
        sent: list[Action] = []
        for some in updates.chunks(updates.at_once(plans, turn.terms)):
            raw_ids = list(dict.fromkeys(a.job.raw_id for a in some))
            again = {j.job_id: j for j in limits.look(self.transport, raw_ids).jobs}
            same = [a for a in some if updates.is_same(again.get(a.job.job_id), a.job)]
            try:
                changes = [_change(a, a.entry.user_limit, a.entry.planned) for a in same]
                if not self._write_before(turn.cluster, changes, unless_off=True):
                    return sent
            except BatchcastError as error:
                turn.outcome.problems.append(f"no further job is planned: {error.message}")
                return sent
            sent += same
            turn.record |= {a.job.job_id: a.entry for a in same}
            # The list must name the jobs before their limits change, because a job can start at once.
            self._list(turn.record, turn.outcome)
            self._send("planning", same, turn)
        return sent

    def _send(self, what: str, actions: Sequence[Action], turn: Turn) -> None:
        """Send the changes to slurmctld, and report its error messages."""
        for update, target, _ in updates.targets(actions, turn.terms):
            if complaint := self.comments.send(target, update):
                turn.outcome.problems.append(f"{what} {target}: {complaint}")

    def _read_back(self, turn: Turn, sent: Sequence[Action], ended: frozenset[str]) -> None:
        """Read the changed jobs again, and record which changes took effect and which did not, and which entries are
        over. Count jobs with planned limits.
        """
        # Only the jobs themselves show whether an update took effect: an update of several jobs can fail for some of
        # them.
        jobs = {job.job_id: job for job in (limits.look(self.transport) if sent else turn.look).jobs}
        notes: list[Change] = []
        refused: list[Change] = []
        for action in sent:
            job, change = jobs.get(action.job.job_id), _change(action, action.job.limit, action.limit)
            if job is not None and updates.is_done(job, action):
                entry = action.entry._replace(state=action.final_state, at=self.transport.now())
                notes.append((entry, *change[1:3], "read back"))
                turn.outcome.planned += int(action.kind == "plan")
                turn.outcome.restored += int(action.kind == "restore")
            elif job is not None and not job.finished:
                at, name = (job.time_min if action.how is How.TIME_MIN else job.limit) / 60, str(action.how)
                turn.outcome.problems.append(f"job {job.job_id}: {name} is {at:.0f} min, not {action.limit / 60:.0f}")
                if action.kind == "plan" or action.job.job_id in turn.new:
                    self._refused[action.job.job_id, action.job.submit_time] = turn.terms.now
                    refused.append((*change[:3], "it was not carried out"))
        turn.record |= {entry.job_id: entry for entry, *_ in notes}
        if turn.terms.comments:
            turn.outcome.problems += self.comments.clear(updates.stale(jobs.values(), turn.record, turn.terms))
        left = (job for job in jobs.values() if job.job_id in turn.record and not job.finished)
        turn.outcome.standing = sum(owner_of(job, turn.record[job.job_id], turn.terms) is Owner.OURS for job in left)
        # If the output of squeue was truncated, missing jobs may still be open.
        unseen = set() if turn.look.broken else turn.record.keys() - {job.job_id for job in turn.look.jobs}
        over = [(turn.record[i]._replace(at=turn.look.asked_at), "it is over") for i in sorted(unseen & ended)]
        self._write_after(turn.cluster, turn.outcome, notes, refused, over)

    # -- writing ------------------------------------------------------------------------------------------------

    def _list(self, record: Record, outcome: CycleOutcome) -> None:
        """Write the list of the jobs that have a planned limit or are about to get one, if the list has changed and the
        setting `plan_list` names its file. The script `batchcast-start` reads the list when a job starts.

        Every user can read the file, because slurmctld's user must be able to. The file contains only job ids and
        limits.
        """
        place = self.settings["plan_list"]
        text = list_text(record.values()) if place else None
        if text is None or text == self._listed:
            return
        try:
            with whole_file(Path(place)) as part:
                part.write_text(text, encoding="ascii")
                part.chmod(0o644)
            self._listed = text
        except OSError as error:
            self._listed = None
            why = f"{error.strerror}: only cycles of the collector restore limits"
            outcome.problems.append(f"plan_list {place}: {why}")

    def _write_before(
        self, cluster: str, changes: Changes, values: Mapping[str, Any] = NO_VALUES, unless_off: bool = False
    ) -> bool:
        """Record the changes before the calls that make them. If `unless_off` is set and an operator has switched
        planning off since the cycle began, write no record and return False.
        """
        if not changes and not values:
            return True
        with self.store.begin() as connection:
            if unless_off and clock_jobs.read_meta(connection, cluster).get(planned.SWITCH):
                return False
            planned.write(connection, cluster, changes)
            clock_jobs.write_meta(connection, cluster, **values)
        return True

    def _write_after(
        self, cluster: str, outcome: CycleOutcome, notes: Changes, refused: Changes, over: Sequence[tuple[Entry, str]]
    ) -> None:
        """Record the results of the calls, and delete the entries of jobs that need no planning any more, with the
        reasons.
        """
        if not (notes or refused or over):
            return
        try:
            with self.store.begin() as connection:
                planned.write(connection, cluster, notes)
                planned.refuse(connection, cluster, refused)
                planned.forget(connection, cluster, over)
        except BatchcastError as error:
            self._owed += notes
            outcome.problems.append(f"the record of planning: {error.message}")

    @contextmanager
    def _may_fail(self, outcome: CycleOutcome, part: str = "the record of planning") -> Iterator[None]:
        """Report the failure of a step that can wait for the next cycle. Steps that restore limits must not use this
        method.
        """
        try:
            yield
        except BatchcastError as error:
            outcome.problems.append(f"{part}: {error.message}")


def planner_of(scheduler: Any, store: Store, settings: Settings) -> Planner | None:
    """Return the planner for Slurm; None for other batch systems. Raises UsageError if planning is on for another batch
    system.
    """
    if settings["scheduler"] != "slurm":
        if settings["plan"] != "off":
            raise UsageError(f"plan = {settings['plan']}: planning needs Slurm, not {settings['scheduler']}")
        return None
    return Planner(scheduler.transport, store, settings)


def _is_all_given_back(record: Record, look: Look, terms: Terms) -> bool:
    """Return whether no job needs a further cycle: limits are restored, and no --time-min and no token is left."""
    left = any(job.time_min for job in look.jobs if (e := record.get(job.job_id)) and e.how is How.TIME_MIN)
    states = {entry.state for entry in record.values()}
    return states <= GIVEN_BACK and not left and not (terms.comments and updates.stale(look.jobs, record, terms))


def _change(action: Action, before: float, after: float) -> Change:
    """Return the change that an action makes, for the audit log."""
    return action.entry, before, after, action.why


def _status(job: Plannable | None, field: Field) -> tuple[bool, str | None] | None:
    """Return whether a job waits, and its comment; None without a job."""
    return None if job is None else (job.waits, getattr(job, field))
