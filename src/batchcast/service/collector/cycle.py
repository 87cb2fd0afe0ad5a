# SPDX-License-Identifier: Apache-2.0
"""Runs one cycle of the collector: reads the batch system, stores changes, advances the clock, stores predictions.

Every write is one transaction that can be repeated. So a collector that is killed at any instant and started again
neither loses nor duplicates data. The collector only reads from the batch system, unless the setting `plan` lets it
change jobs (`service.planning`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ...errors import BatchcastError, Unreachable, WrongCluster
from ...formats.sighting import Site, Snapshot, gathers_memory
from ...formats.slurm.reasons import Rule, rule
from ...planning.record import CycleOutcome
from ...predict.registry import split_specs
from ...slurm.transport import wrong_cluster
from ...store import clock_jobs, history
from ...store.database import Store
from ...store.place import clock_path, close_to_others, open_to_others
from ...store.reader import Reader, Row
from ..answers import track_record
from ..answers.advice import rules_of
from ..answers.answer import nodes_away, usages
from ..answers.fair_share import passes_of
from ..answers.model_store import fit_trouble, make_predictors
from ..batch_system import BatchSystem
from ..settings import Settings, is_private, keep_since, own_name
from .clock import SHARE, Step, StoredClock, compare_with_slurm, note_nodes
from .inputs import InputReader, roots_of
from .machine import MachineWatch, latest_starts

if TYPE_CHECKING:
    from ...machines.machine import Machine
    from ..planning.agent import Planner


@dataclass(slots=True)
class Cycle:
    """The results of one cycle, for the log line and for `doctor`."""

    at: float
    jobs: int = 0
    seen: history.Taken = field(default_factory=history.Taken)
    ended: history.Taken = field(default_factory=history.Taken)
    step: Step = field(default_factory=Step)
    gone: int = 0
    windows: int = 0
    broken: int = 0
    behind_s: float = math.nan
    notices: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unreachable: bool = False
    planned: CycleOutcome = field(default_factory=CycleOutcome)


SITE_EVERY_S = 3600.0
JUMP_S = 60.0
"""If the wall clock and the monotonic clock of this machine advance by amounts that differ this much between two
cycles, the wall clock was set.
"""
STAMPED_S = 1.0
"""Uncertainty of the difference to the batch system's clock, which is read from a time stamp in whole seconds."""
MOST_BY_ID = 200
TASK_GRACE_S = 60.0
"""Accounting may report an array task that ran this many seconds late. A task that disappears while other tasks of its
array are shown was probably cancelled alone: slurmctld then removes it from the array's record, and accounting never
reports it.
"""


SIGHT_EVERY_S = 300.0
"""While Slurm hides jobs from users but not from the collector, its permission is checked every so many seconds."""


class Collector:
    """Collects the jobs of one cluster into one store. `health` returns the transport's counters, for display."""

    # the first successful query of the site (`_learn_site`) sets these attributes
    site: Site
    _clock: StoredClock
    _machine: MachineWatch

    def __init__(
        self, scheduler: BatchSystem, store: Store, settings: Settings, health: Callable[[], dict[str, Any]] = dict
    ) -> None:
        self.scheduler, self.store, self.settings, self.health = scheduler, store, settings, health
        self.planner: Planner | None = None
        self._memory_by = ""
        self._site_at = self._history_at = self._judged_at = self._kept_at = self._nodes_at = self._saved_at = -math.inf
        self._latest_at = self._latest_next = -math.inf
        self._ticks: tuple[float, float] | None = None
        self._shown_jobs: frozenset[tuple[str, float]] = frozenset()
        self._blind, self._sight_at = "", -math.inf
        roots = roots_of(settings["input_roots"])
        self._inputs = InputReader(roots, settings["input_s"]) if roots else None

    @property
    def cluster(self) -> str:
        """The cluster's name in the store."""
        return self.settings["cluster"] or self.site.cluster

    @property
    def _has_site(self) -> bool:
        """Whether the batch system has answered a query of the site."""
        return self._site_at > -math.inf

    def cycle(self) -> Cycle:
        """Run one cycle: read the queue, fetch history, advance the clock. Report errors without raising them.

        Errors of the batch system and of the database are added to the result. Only WrongCluster is raised, because
        another cluster's jobs must never be stored, and waiting would not help.
        """
        done = Cycle(self.scheduler.now())
        # Planning directly follows the look at the queue, because the limit of a job that has started must be restored
        # soon; reading accounting can take half of the cycle's interval.
        for part in (self._look, self._plan, self._fetch, self._tell, self._let_go):
            try:
                part(done)
            except WrongCluster:
                raise
            except BatchcastError as error:
                done.problems.append(error.message)
                done.unreachable |= isinstance(error, Unreachable)
                if not self._has_site:  # no cycle has succeeded yet: there is nothing to fetch or process
                    return done
            if self._blind:  # a hidden job may still run, so do not plan, and do not take any job as ended
                done.problems.append(self._blind)
                break
        try:
            if self._has_site:
                self._note(done)
        except BatchcastError as error:
            done.problems.append(error.message)
        return done

    def _in_store(self, step: Callable[..., Any], *given: Any, **values: Any) -> Any:
        """Call a function of the store for this cluster, in a transaction, and return its result."""
        with self.store.begin() as connection:
            return step(connection, self.cluster, *given, **values)

    def _write(self, **values: Any) -> None:
        """Store values of the cluster in a transaction."""
        self._in_store(clock_jobs.write_meta, **values)

    # -- read the queue -----------------------------------------------------------------------------------------

    def _look(self, done: Cycle) -> None:
        """Read the queue and facts about the site, and store what has changed."""
        if not 0 <= done.at - self._site_at <= SITE_EVERY_S or self._clock_was_set(done.at):
            self._learn_site(done.at)
        else:
            self._learn_privacy()
        snapshot = self.scheduler.snapshot()
        done.jobs, done.broken = len(snapshot.jobs), snapshot.broken
        self._follow_privacy(self.site.private, done)
        if self._why_blind(self.site.private, snapshot):
            return
        with self.store.begin() as connection:
            memory = clock_jobs.read_meta(connection, self.cluster)
            last = memory.get("snapshot_at")
            if last is not None and last > snapshot.asked_at:  # this machine's clock was ahead and has been corrected
                last = None
            seen = history.take_in(connection, self.cluster, snapshot.jobs, snapshot.asked_at)
            shown = {(s.job_id, s.submit_time) for s in snapshot.jobs if s.certain}
            gone = [row for row, *key, _ in history.open_keys(connection, self.cluster) if tuple(key) not in shown]
            # The job was seen in the last look, so it ended after that.
            history.mark_vanished(connection, gone, snapshot.asked_at if last is None else last)
            # Slurm forgets a finished job after MinJobAge (`keeps_s`). If two looks are further apart, a job can come
            # and go unseen, and history must be read from accounting. The factor is a safety margin.
            unbroken = last is not None and snapshot.asked_at - last < 0.8 * self.site.keeps_s
            since = min(memory["unbroken_since"], snapshot.asked_at) if unbroken else snapshot.asked_at
            live = memory.get("live_since", snapshot.asked_at)
            now = {"snapshot_at": snapshot.asked_at, "unbroken_since": since, "live_since": live}
            clock_jobs.write_meta(connection, self.cluster, **now)
        done.seen = seen  # count the jobs only after they were stored
        self._shown_jobs = frozenset((s.job_id, s.submit_time) for s in snapshot.jobs)
        self._read_inputs()
        if any(rule(s.reason) is Rule.RESERVATION for s in snapshot.jobs if s.state == "PENDING"):
            self._write(reservations=self.scheduler.reservations())
        self._learn_nodes(snapshot)
        self._learn_machine(snapshot)

    def _follow_privacy(self, private: bool, done: Cycle) -> None:
        """Make the store unreadable for other users if jobs are hidden; make a new store readable if they are not.

        If the owner made a store unreadable, it stays unreadable. A store that this method made unreadable is not made
        readable again, because it has all users' jobs from the time when jobs were hidden.
        """
        is_new, self.store.is_new = self.store.is_new, False
        opened = f"{self.store.safe_url} was open to others and is closed (mode 600)"
        try:
            if is_private(self.settings, {"site": {"private": private}}):
                if close_to_others(self.store.url):
                    done.notices.append(f"jobs are hidden from now on: {opened}")
            elif is_new:
                open_to_others(self.store.url)
        except OSError as error:
            what = f"{self.store.safe_url} is open to others and cannot be closed: {error.strerror}"
            done.problems.append(f"jobs are hidden, and {what}")

    def _why_blind(self, private: bool, snapshot: Snapshot) -> str:
        """Return why other users' jobs cannot be seen in this snapshot of the queue; empty if they can be seen. The
        reason is stored as `blind`.

        The permission is checked when Slurm begins to hide jobs, in each cycle while it is missing, and otherwise every
        five minutes. The permission is also checked at once if Slurm no longer shows any other user's job, because a
        permission can be withdrawn. If the check of the permission fails, the result of the last check holds.
        """
        me = own_name()
        with self.store.begin() as connection:
            known = clock_jobs.read_meta(connection, self.cluster).get("blind")
            alone = private and all(s.requested.get("user_id") == me for s in snapshot.jobs)
            alone = alone and history.has_others_open(connection, self.cluster, me)
        if not private:
            self._blind, self._sight_at = "", -math.inf
        elif self._blind or alone or not 0 <= snapshot.asked_at - self._sight_at < SIGHT_EVERY_S:
            try:
                # a batch system without this query is assumed to show all jobs
                why_blind = getattr(self.scheduler, "why_blind", lambda _: "")
                self._blind, self._sight_at = str(why_blind(me)), snapshot.asked_at
            except BatchcastError as error:
                if alone or self._sight_at == -math.inf:
                    self._blind = f"Slurm hides jobs, and whether {me} may see them cannot be asked: {error.message}"
        if bool(self._blind) != bool(known):
            self._write(blind={"since": snapshot.asked_at, "why": self._blind} if self._blind else None)
        return self._blind

    def _read_inputs(self) -> None:
        """Store the features of new jobs' input files before the clock processes the submissions."""
        if self._inputs is None:
            return
        if new := self._in_store(history.without_inputs):
            features = self._inputs.read(new)
            with self.store.begin() as connection:
                history.keep_inputs(connection, features)

    def _learn_machine(self, snapshot: Snapshot) -> None:
        """Read the machine on which waits are simulated, and store usage, projected priorities and latest starts."""
        watch, shown = self._machine, {str(s.requested.get("partition_id") or "") for s in snapshot.jobs}
        if watch.look(self.scheduler, snapshot.asked_at, {name for text in shown for name in text.split(",") if name}):
            self._clock.use_machine(watch.machine)
            self._learn_site(snapshot.asked_at)
        known = watch.stored_values(self.scheduler, snapshot.asked_at)
        with Reader(self.settings["store"]) as reader:
            jobs = reader.ask("open_with", cluster=self.cluster)
        if "shares" in known:
            passes = passes_of(jobs, watch.machine, usages(known), snapshot.asked_at)
            known["passes"] = None if passes is None else {"at": snapshot.asked_at, "jobs": passes}
        self._write(**known)
        self._learn_latest_starts(jobs, watch.machine, snapshot.asked_at)

    def _learn_latest_starts(self, jobs: Sequence[Row], machine: Machine | None, now: float) -> None:
        """Store the latest starts that time limits imply. If the queue is very long, the latest starts are computed
        less often (`SHARE`).
        """
        if self._latest_at <= now < self._latest_next:
            return
        began = time.process_time()
        away = nodes_away(self._in_store(clock_jobs.read_meta))
        latest = latest_starts(jobs, self.site._asdict(), machine, away, now)
        self._write(latest=latest.stored(now))
        self._clock.latest = latest.jobs
        self._latest_at, self._latest_next = now, now + (time.process_time() - began) / SHARE

    def _learn_nodes(self, snapshot: Snapshot) -> None:
        """Read which nodes are down or drained, if a job waits, as often as accounting is queried."""
        now, waits = snapshot.asked_at, any(s.state == "PENDING" for s in snapshot.jobs)
        if snapshot.away is None and not (waits and self._is_due(now, self._nodes_at)):
            return
        away = self.scheduler.nodes_away() if snapshot.away is None else snapshot.away
        self._nodes_at = now
        self._in_store(note_nodes, away, now)

    def _clock_was_set(self, now: float) -> bool:
        """Return whether the wall clock of this machine was set since the last cycle, judged by its monotonic clock."""
        ticks = self.scheduler.ticks()
        before, self._ticks = self._ticks, (now, ticks)
        return before is not None and abs((now - before[0]) - (ticks - before[1])) > JUMP_S

    def _learn_privacy(self) -> None:
        """Store at once whether Slurm hides jobs, so that the next answer hides them too, before the hourly query of
        the site.
        """
        private = self.scheduler.hides_jobs()
        answered_by = getattr(self.scheduler, "answered_by", "")
        if answered_by and answered_by != self.site.cluster:
            raise wrong_cluster(self.site.cluster, answered_by)
        if private != self.site.private:
            self.site = self.site._replace(private=private)
            self._write(site={**self._in_store(clock_jobs.read_meta)["site"], "private": private})

    def _learn_site(self, now: float) -> None:
        """Read facts about the site. After a restart the stored facts apply until the batch system answers."""
        site = self.scheduler.site()
        is_first = not self._has_site
        if not is_first and self.site.cluster != site.cluster:
            raise wrong_cluster(self.site.cluster, site.cluster)
        self.site = site
        if is_first:
            self._machine = MachineWatch(self.settings, self.cluster)
        memory_by = self.settings["memory"] if gathers_memory(self.site.gathers) else ""
        runtime, wait, limits = (self.settings[name] for name in ("runtime", "wait", "limits"))
        if is_first or memory_by != self._memory_by:
            self._memory_by = memory_by
            path, rules = clock_path(self.store.url, self.cluster), rules_of(self.settings)
            memory_s = self.settings["memory_days"] * 86400.0
            specs = runtime, wait, memory_by, limits
            self._clock = StoredClock(
                self.cluster, lambda: make_predictors(*specs, self._machine.machine), memory_s, path, rules
            )
        self._site_at = now
        total = self.site.total_procs if math.isfinite(self.site.total_procs) else None
        self._write(
            site={**self.site._asdict(), "total_procs": total},
            # the size of the clock's machine is never changed
            total_procs=self._in_store(clock_jobs.read_meta).get("total_procs", total),
            runtime_methods=split_specs(runtime),
            wait_methods=split_specs(wait, "wait"),
            memory_methods=split_specs(memory_by),
            limit_methods=split_specs(limits),
        )

    def _plan(self, done: Cycle) -> None:
        """Restore and set planned limits. Planning is off by default, and is the only part of the collector that
        changes jobs in Slurm.
        """
        if self.planner is not None and self._has_site:
            booted = getattr(self.scheduler, "booted", math.nan)
            done.planned = self.planner.cycle(self.cluster, booted=booted)
            done.problems += done.planned.problems

    # -- read ended jobs from accounting ------------------------------------------------------------------------

    def _fetch(self, done: Cycle) -> None:
        """Read history from accounting in time windows, for at most half a cycle's interval; give up on jobs that no
        query reports.
        """
        if not self.site.accounting:
            self._in_store(self._give_up, done.at)
            return
        end = done.at + self.settings["interval_s"] / 2
        while True:
            now = self.scheduler.now()
            window = self._in_store(self._next_window, now)
            # At least one window per cycle is read, so that reading advances even if one window takes longer than the
            # time allowed.
            if window is None or (done.windows and now >= end):
                return
            answer = self.scheduler.history(*window)
            with self.store.begin() as connection:
                ended = history.take_in(connection, self.cluster, answer.jobs, answer.asked_at)
                # Accounting cannot answer about times after the query, even if the window ends later.
                clock_jobs.write_meta(connection, self.cluster, history_until=min(window[1], answer.asked_at))
            done.ended, done.broken = done.ended + ended, done.broken + answer.broken
            done.windows += 1
            if window[1] >= now:
                self._history_at = now
                self._ask_by_id(done, now)
                return

    def _ask_by_id(self, done: Cycle, now: float) -> None:
        """Query accounting by job id for jobs that the queried time windows do not show, such as a job cancelled before
        it was eligible.
        """
        with self.store.begin() as connection:
            missing = [(i, v) for _, i, _, v in history.open_keys(connection, self.cluster, history.VANISHED)]
        if missing:
            since = min(v for _, v in missing) - self.settings["overlap_s"]
            answer = self.scheduler.ended([job_id for job_id, _ in missing[:MOST_BY_ID]], since)
            done.ended += self._in_store(history.take_in, answer.jobs, answer.asked_at)
        self._in_store(self._give_up, now)

    def _next_window(self, connection: Any, cluster: str, now: float) -> tuple[float, float] | None:
        """Return the next time span to read from accounting; None if accounting has been read and no query is due."""
        memory = clock_jobs.read_meta(connection, cluster)
        reached = memory.get("history_until")
        overlap, length = self.settings["overlap_s"], self.settings["window_s"]
        if reached is None:
            since = now - self.settings["history_days"] * 86400
            clock_jobs.write_meta(connection, cluster, history_from=since)
            return since, min(since + length, now)
        vanished = [v for *_, v in history.open_keys(connection, cluster, history.VANISHED)]
        behind = reached < memory.get("unbroken_since", now) or now - reached > length
        # if this machine's clock was ahead for a while, `reached` lies in the future, which was not read
        reached = min(reached, now)
        if not (vanished or behind or self._is_due(now, self._history_at)):
            return None
        # Records reach accounting late, so each window begins before the end of the last one.
        since = min([reached, *vanished]) - overlap
        # A job that vanished long ago must not keep the windows from advancing.
        return since, min(max(since + length, reached + length / 2), now)

    def _give_up(self, connection: Any, cluster: str, now: float) -> None:
        """Give up on jobs whose end is still unknown after accounting has answered up to now, or without accounting."""
        patience = self.settings["patience_s"]
        arrays = {(job_id.partition("_")[0], submit) for job_id, submit in self._shown_jobs if "_" in job_id}
        cancelled = []
        for row, job_id, submit, v in history.vanished_tasks(connection, cluster):
            grace = min(TASK_GRACE_S, patience) if (job_id.partition("_")[0], submit) in arrays else patience
            if v < now - grace and (job_id, submit) not in self._shown_jobs:
                cancelled.append(row)
        history.give_up(connection, cancelled, "cancelled")
        vanished = history.open_keys(connection, cluster, history.VANISHED)
        lost = [row for row, *key, v in vanished if v < now - patience and tuple(key) not in self._shown_jobs]
        history.give_up(connection, lost)

    # -- advance the live clock ---------------------------------------------------------------------------------

    def _tell(self, done: Cycle) -> None:
        """Advance the live clock up to the time until which every event is stored, and store its predictions."""
        try:
            with self.store.begin() as connection:
                until = self._surely_complete(connection)
                if until is None:
                    return
                memory = clock_jobs.read_meta(connection, self.cluster)
                done.step = self._clock.advance(connection, until, self.scheduler.now(), memory["live_since"])
                compare_with_slurm(connection, self.cluster, memory["snapshot_at"])
                to_keep = self._clock.to_keep(connection) if self._is_due(done.at, self._saved_at) else None
        except BatchcastError:
            self._clock.forget()
            raise
        except Exception as error:  # a defect of a predictor must not stop the collection of history
            self._clock.forget()
            raise BatchcastError(f"no forecasts: unexpected {type(error).__name__}: {error}") from error
        done.behind_s = self.scheduler.now() - until
        if unfitted := fit_trouble():
            done.problems.append(unfitted)
        if to_keep is not None:
            self._saved_at = done.at
            self._write(**self._clock.save(to_keep))
        self._judge(done.at)

    def _is_due(self, now: float, last: float) -> bool:
        """Return whether a task that runs as often as accounting is queried is due."""
        return not 0 <= now - last < self.settings["history_every_s"]

    def _judge(self, now: float) -> None:
        """Choose the wait predictor that answers users (`best_bound`), as often as accounting is queried."""
        if self._is_due(now, self._judged_at):
            methods = split_specs(self.settings["wait"], "wait")
            self._write(answers_by=track_record.best_of(self.store.url, self.cluster, methods, now))
            self._judged_at = now

    def _let_go(self, done: Cycle) -> None:
        """Delete some of the jobs older than `retention_days` per cycle, until no such job is left; then check again at
        intervals.
        """
        before = keep_since(self.settings, done.at)
        if before is None or not self._is_due(done.at, self._kept_at):
            return
        done.gone = self._in_store(history.remove_some, before)
        self._kept_at = done.at if done.gone == 0 else -math.inf

    def _surely_complete(self, connection: Any) -> float | None:
        """Return the last whole second up to which every event is surely stored; None while history is being
        fetched.
        """
        memory = clock_jobs.read_meta(connection, self.cluster)
        last, patience = memory.get("snapshot_at"), self.settings["patience_s"]
        read = (memory.get("history_until") or -math.inf) if self.site.accounting else math.inf
        if last is None or read < memory["unbroken_since"]:
            return None
        keys = history.open_keys(connection, self.cluster, history.VANISHED)
        recent = self.scheduler.now() - patience
        vanished = [v for _, *key, v in keys if tuple(key) not in self._shown_jobs or v > recent]
        # if this machine's clock is ahead, a time that has passed here may not have come on the batch system's clock
        ahead = self.site.clock_ahead_s
        ahead = ahead + STAMPED_S if ahead > 0 else 0.0  # the known clock difference, and its uncertainty
        # Slurm's times are whole seconds, so more events can still occur in the last second.
        return float(math.floor(min([last, *vanished]) - ahead) - 1 - self.settings["settle_s"])

    def _note(self, done: Cycle) -> None:
        """Store the state of the collector, which `doctor` and answers show."""
        self._write(
            cycle_at=done.at,
            interval_s=self.settings["interval_s"],
            collected_by=own_name(),
            cycle_s=self.scheduler.now() - done.at,
            problems=done.problems,
            health=self.health(),
            last_cycle={**asdict(done), "behind_s": done.behind_s if math.isfinite(done.behind_s) else None},
        )


def run(
    collector: Collector, stop: Callable[[float], bool], report: Callable[[Cycle], None], once: bool = False
) -> Cycle:
    """Run cycles until `stop(seconds)`, which waits for this time, returns true. Cycles that were missed during a long
    cycle are not run later.

    With `once`, stop when all history is stored or a cycle had a problem. Returns the last cycle.
    """
    while True:
        began = collector.scheduler.now()
        cycle = collector.cycle()
        report(cycle)
        if once and (cycle.problems or math.isfinite(cycle.behind_s)):
            return cycle
        if not math.isfinite(cycle.behind_s) and not cycle.problems and not stop(0.0):
            continue  # while history is being read, only the transport pauses between calls
        left = collector.settings["interval_s"] - (collector.scheduler.now() - began)
        if stop(max(left, 0.0)):
            return cycle
