# SPDX-License-Identifier: Apache-2.0
"""The live clock whose state is in the store: restores it, and advances it in the transaction that stores
predictions.

Each large change of a waiting job's predicted start is stored with the events that explain the change. The explanation
uses only the queue and the running jobs, not the predictor: it names the events that freed or used the most
processor-seconds, compared with the predicted run times.
"""

from __future__ import annotations

import json
import math
import secrets
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from ...events.event import End, Submit
from ...events.live import LiveClock, live_events
from ...formats.sighting import NodeAway
from ...formats.slurm.resources import fold
from ...job import JobRequest
from ...machines.machine import Machine
from ...predict.conditional import given_waited
from ...predict.namesakes import MOST_KINDS
from ...predict.peak_memory import LateMemory
from ...predict.protocol import Grounds, Prediction
from ...store import clock_jobs
from ...store.database import Connection
from ...store.rows import as_prediction, newest, node_peak
from ..answers import model_store as files
from ..answers.accuracy import BEFORE, SCORED
from ..answers.advice import BUILT_IN, RISK, Rules, advised_limit, advised_memory
from ..answers.answer import nodes_away, of_partition, usages
from ..answers.model_store import SUBMITTED_WITHIN_S, Key, SavedClock, Unusable, resume, take_asked, use_machine
from ..answers.start import capped, length_of, with_margin

TEST = "asked"
"""The `moment` of a prediction that `start --test` made before the job was submitted."""
NEXT = "next"
"""The `moment` of a suggestion for the next similar job. There is one per kind of job, and it is never scored."""
SHARE = 0.05
"""Renewing predictions takes at most this share of the time, and so does computing latest starts. If the queue is very
long, both are done less often.
"""


def as_at_submission(row: Mapping[str, Any], waited: float) -> Prediction | None:
    """Return the prediction at submission, given that the job has waited `waited` seconds; None if the job has waited
    longer than every predicted quantile.
    """
    issued = as_prediction(row)
    now = given_waited(issued, waited, issued.levels) if issued.levels else given_waited(issued, waited)
    middle = given_waited(issued, waited, (0.5,)).point
    if not math.isfinite(middle):
        return None
    return _finite(replace(now, point=middle, basis=issued.basis, grounds=issued.grounds))


def _finite(prediction: Prediction) -> Prediction:
    """Return the prediction without its infinite quantiles."""
    n = sum(map(math.isfinite, prediction.quantiles))  # quantiles are monotone
    return replace(prediction, levels=prediction.levels[:n], quantiles=prediction.quantiles[:n])


@dataclass(slots=True)
class Step:
    """The results of one advance of the live clock: numbers of events, stored predictions, late events, and renewed
    predictions.

    If history was replayed because the saved clock could not be used, `rebuilt` gives the reason.
    """

    events: int = 0
    issued: int = 0
    late: int = 0
    renewed: int = 0
    rebuilt: str = ""


class StoredClock:
    """The live clock of one cluster. The clock's state is in the store, so a new process can continue the clock.

    What the predictors have learned is also saved in the file `path`, if given, so that a new process need not replay
    history. `latest` maps rows of waiting jobs to their latest starts (`answers.start`); each cycle sets it anew.
    """

    def __init__(
        self,
        cluster: str,
        make_predictors: Callable[[], Mapping[Key, Any]],
        memory_s: float = math.inf,
        path: Path | None = None,
        rules: Rules = BUILT_IN,
    ) -> None:
        self.cluster, self.memory_s, self.path, self.rules = cluster, memory_s, path, rules
        self._make, self._slack_s = make_predictors, max(86400.0, memory_s / 10)
        self._clock: LiveClock | None = None
        self.rebuilt, self._since = "", -math.inf
        self._renewed_at = self._renew_at = -math.inf
        self._open_questions: list[Mapping[str, Any]] = []
        self._next: dict[tuple[object, ...], int] = {}
        self.latest: Mapping[int, float] = {}

    @property
    def clock(self) -> LiveClock:
        """The clock in memory, which `rebuild` makes and `forget` discards."""
        assert self._clock is not None
        return self._clock

    def rebuild(self, connection: Connection, since: float = -math.inf) -> None:
        """Continue from the saved clock, or replay the events of jobs that ended after `since`. A replay takes linear
        time.
        """
        memory = clock_jobs.read_meta(connection, self.cluster)
        try:
            saved = self._saved(memory, since)
        except Unusable as error:
            self.rebuilt = f"{self.path}: {error}: history is replayed instead" if str(error) else ""
            self._clock = files.replay(clock_jobs.told_jobs(connection, self.cluster, since), self._make(), memory)
            self._since = since
            clock_jobs.write_meta(connection, self.cluster, heard_since=since if math.isfinite(since) else None)
        else:
            self._clock = resume(saved, clock_jobs.told_jobs(connection, self.cluster, saved.told_until))
            self._since = saved.since

    def use_machine(self, machine: Machine | None) -> None:
        """Let predictors simulate queue waits on this machine from now on."""
        if self._clock is not None:
            use_machine(self._clock.predictors.values(), machine)

    def _saved(self, memory: Mapping[str, Any], since: float) -> SavedClock:
        """Return the saved clock. If the saved clock is not usable, raise Unusable with the reason, or with an empty
        text if no clock was saved.
        """
        if self.path is None:
            raise Unusable("")
        saved = files.load(self.path, self._make(), memory.get("store_id", ""))
        reached = memory.get("told_until")
        # since the clock was saved, no event may have been late and no history undone
        follows = reached is not None and saved.told_until <= reached and saved.late == memory.get("late", 0)
        if not (follows and saved.since <= since <= saved.since + self._slack_s):
            raise Unusable("not of the history in this store")
        return saved

    def to_keep(self, connection: Connection) -> SavedClock | None:
        """Return the present clock, which the caller saves after this transaction; None while a model is being
        fitted.
        """
        memory = clock_jobs.read_meta(connection, self.cluster)
        until = memory.get("told_until")
        if self._clock is None or until is None:
            return None
        # A fit runs in another process. Its result would be missing in the saved clock, so a later cycle saves it.
        fits = (getattr(one, "fitting", None) for one in self._clock.predictors.values())
        if any(fit is not None and fit.is_at_work for fit in fits):
            return None
        heard = {job.request.row: job.told for job in clock_jobs.told_jobs(connection, self.cluster, until)}
        # The id ties the file to this store: the clock of an earlier store at the same path must not be used.
        store = memory.get("store_id") or secrets.token_hex(8)
        clock_jobs.write_meta(connection, self.cluster, store_id=store)
        return SavedClock(self._clock, until, memory.get("late", 0), self._since, heard, store)

    def save(self, saved: SavedClock) -> dict[str, str | None]:
        """Write the clock to its file; return what could not be saved, for the store's meta: the file (`not_kept`), and
        methods (`methods_not_kept`). If saving fails, only the collector's next start takes longer.
        """
        trouble, methods = None, None
        if self.path is not None:
            try:
                methods = files.save(self.path, saved) or None
            except OSError as error:
                trouble = f"{error.filename or self.path}: {error.strerror}"
        return {"not_kept": trouble, "methods_not_kept": methods}

    def advance(self, connection: Connection, until: float, issued_at: float, live_since: float) -> Step:
        """Process all events until `until`, and store predictions for the submitted jobs that had not started at
        `live_since`.

        The method runs inside the caller's transaction. If the transaction fails, the caller must call `forget`,
        because this clock has then processed more events than the store has.
        """
        if self._clock is None or until - self.memory_s > self._since + self._slack_s:
            self.rebuild(connection, until - self.memory_s)
        memory = clock_jobs.read_meta(connection, self.cluster)
        before = memory.get("told_until", -math.inf) or -math.inf
        waiting = clock_jobs.untold_jobs(connection, self.cluster, until)
        # a job stopped waiting when it started or, without a start, when it ended; infinity if it still waits
        begun = {j.request.row: next((t for t in (j.start_time, j.end_time) if t == t), math.inf) for j in waiting}
        step, self.rebuilt = Step(rebuilt=self.rebuilt), ""
        issue: list[dict[str, Any]] = []
        events = live_events(waiting, until)
        ended: dict[int, JobRequest] = {}
        again = [event.job.row for event in events if isinstance(event, Submit) and event.time <= before]
        # a job that was given up as lost and was shown again later is submitted a second time
        predicted_rows = clock_jobs.rows_forecast(connection, again)
        for event in events:
            step.late += event.time <= before
            if isinstance(event, Submit):
                # Jobs that had started before the collector first ran only teach the predictors, because their starts
                # were already known.
                ask = begun[event.job.row] > live_since and event.job.row not in predicted_rows
                shared = {"moment": "submit", "as_of": event.time, "issued_at": issued_at}
                issue += self._to_issue(event.job, self.clock.tell(event, ask), memory, **shared)
                continue
            self.clock.tell(event, ask=False)
            if isinstance(event, End) and event.time > live_since:
                ended[event.job.row] = event.job
        ended |= _hear_memory(connection, self.clock)
        clock_jobs.issue(connection, issue)
        self._advise_the_next(connection, ended.values(), memory, issued_at)
        step.renewed = self.renew(connection, until, issued_at)
        self._store_asked(connection, issued_at)
        clock_jobs.mark_told(connection, events)
        late = memory.get("late", 0) + step.late
        # A job that vanishes from the queue can make `until` earlier than before, but delivered events stay delivered.
        clock_jobs.write_meta(connection, self.cluster, told_until=max(before, until), late=late)
        step.events, step.issued = len(events), len(issue)
        return step

    def _to_issue(
        self, job: JobRequest, forecasts: Mapping[Key, Prediction], memory: Mapping[str, Any], **more: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield the predictions to store for a job, with the values in `more`: suggested limits, other predictions, and
        the memory requests that these predictions suggest.
        """
        partition = of_partition(memory, job.partition_id)
        for (kind, method), forecast in forecasts.items():
            of_kind, predictor = {kind: forecast}, self.clock.predictors[kind, method]
            if kind == "limit":
                limit = advised_limit(forecast, job.req_time, self.rules, partition)
                of_kind = {} if limit is None else {kind: replace(forecast, point=limit)}
            rests_on = predictor.bound(job, RISK, forecast) if isinstance(predictor, LateMemory) else None
            if rests_on is not None and (amount := advised_memory(rests_on, RISK, self.rules, partition)) is not None:
                of_kind["request"] = Prediction(amount, basis=rests_on.basis, grounds=rests_on.grounds)
            for kind, said in of_kind.items():
                yield {"row": job.row, "kind": kind, "method": method, "prediction": said, **more}

    def _advise_the_next(
        self, connection: Connection, ended: Iterable[JobRequest], memory: Mapping[str, Any], now: float
    ) -> None:
        """Store a suggestion for the next job of each kind that has ended. The tasks of a workflow are submitted at
        once, so the predictions at their submissions could not learn from any of them.
        """
        latest = {(job.user_id, job.partition_id, job.job_name, job.procs): job for job in ended}
        issue: list[dict[str, Any]] = []
        for job in latest.values():
            shared = {"moment": NEXT, "as_of": self.clock.state.now, "issued_at": now}
            issue += self._to_issue(job, self.clock.again(job), memory, **shared)
        rows: dict[tuple[object, ...], int] = {like: job.row for like, job in latest.items()}
        # Each kind has one suggestion, so the suggestion of the kind's last job is deleted.
        clock_jobs.take_back(connection, NEXT, [*rows.values(), *(self._next.pop(like, -1) for like in rows)])
        clock_jobs.issue(connection, [one for one in issue if one["kind"] in ("limit", "request")])
        # This bounds the memory; the last suggestion of a forgotten kind only stays in the store.
        self._next = rows if len(self._next) > MOST_KINDS else self._next | rows

    def renew(self, connection: Connection, until: float, now: float) -> int:
        """Renew the predictions of waiting jobs as of `until`, with every method that can renew predictions; return the
        number of renewed predictions.

        No predicted start is later than the job's latest start by time limits, plus a margin (`answers.start`).
        Renewing does not change the clock. If no method can renew predictions, older renewed predictions are deleted.
        """
        clock = self.clock
        able = {key: one for key, one in clock.predictors.items() if hasattr(one, "of_waiting")}
        # if `now` is before the last renewal, this machine's clock was ahead and has been corrected
        if able and self._renewed_at <= now < self._renew_at:
            return 0
        began = time.process_time()
        rows: list[dict[str, Any]] = []
        memory = clock_jobs.read_meta(connection, self.cluster)
        clock.state.nodes_away, clock.state.usage = nodes_away(memory), usages(memory)
        why: dict[int, str | None] = {}
        submitted = clock.state.queued
        last_event, as_of = clock.state.now, max(clock.state.now, until)
        clock.state.now = as_of  # predictors predict as of this instant, which is after the last event
        try:
            for number, ((_, method), predictor) in enumerate(able.items()):
                predictions = [
                    # no predicted start is later than the latest start by time limits, plus the margin
                    (row, capped(of, with_margin(self.latest.get(row, math.inf), as_of) - submitted[row].submit_time))
                    for row, of in predictor.of_waiting(clock.state)
                ]
                if number == 0:  # the first method that can renew also answers users, unless its bound failed
                    answers = (start_times(row, submitted[row].submit_time, of, as_of) for row, of in predictions)
                    why = remember(connection, self.cluster, answers, as_of)
                shared = {"method": method, "as_of": as_of}
                rows += [{**shared, "row": row, "prediction": of, "why": why.get(row)} for row, of in predictions]
        finally:  # the next event may be older than `as_of`
            clock.state.now = last_event
        clock_jobs.renew(connection, self.cluster, rows)
        self._store_scored(connection, until, now)
        self._renewed_at, self._renew_at = now, now + (time.process_time() - began) / SHARE
        return len(rows)

    def _store_scored(self, connection: Connection, until: float, now: float) -> None:
        """Store predictions to score for jobs that have waited a certain time, such as 1 h: the renewed prediction, and
        the prediction at submission given this wait.
        """
        issue: list[dict[str, Any]] = []
        for moment, age in SCORED.items():
            for row in clock_jobs.waited_since(connection, self.cluster, moment, age, until):
                shared = {"row": row["row"], "kind": "wait", "moment": moment, "as_of": until, "issued_at": now}
                issue.append({**shared, "method": row["method"], "prediction": as_prediction(newest(row))})
                if (old := as_at_submission(row, max(until - row["submit_time"], 0.0))) is not None:
                    issue.append({**shared, "method": row["method"] + BEFORE, "prediction": old})
        clock_jobs.issue(connection, issue)

    def _store_asked(self, connection: Connection, now: float) -> None:
        """Store the answers to questions to `start --test` as predictions for the jobs that were submitted afterwards.

        If several questions fit a job, the job is the outcome of the last question only.
        """
        if self.path is None:
            return
        self._open_questions += take_asked(self.path.with_suffix(".asked.jsonl"))
        still_open, issue = [], {}
        for question in sorted(self._open_questions, key=lambda question: question["at"]):
            asked_at = question["at"]
            until = asked_at + SUBMITTED_WITHIN_S
            row = clock_jobs.followed_by(connection, self.cluster, question["like"], asked_at, until)
            if row is not None:
                shared = {"row": row, "kind": "wait", "moment": TEST, "as_of": asked_at, "issued_at": now}
                said = {"method": question["method"], "prediction": as_prediction(question["said"])}
                issue[row] = {**shared, **said}
            elif now < until:
                still_open.append(question)
        self._open_questions = still_open
        clock_jobs.issue(connection, list(issue.values()))

    def forget(self) -> None:
        """Discard the clock after a failed transaction, so that the next step rebuilds it."""
        self._clock = None


def _hear_memory(connection: Connection, clock: LiveClock) -> dict[int, JobRequest]:
    """Process new memory measurements of ended jobs, which accounting reports later than the queue shows the ends.
    Return the measured jobs by row.
    """
    measured_jobs = {}
    for predictor in clock.predictors.values():
        if isinstance(predictor, LateMemory) and predictor.pending:
            for row in clock_jobs.measured(connection, list(predictor.pending)):
                measured_jobs[row["row"]] = predictor.pending[row["row"]].job
                predictor.measured(row["row"], node_peak(row), row["status"], clock.state)
    return measured_jobs


def compare_with_slurm(connection: Connection, cluster: str, at: float) -> int:
    """Store the first start estimate of the batch system for each job, and batchcast's predictions at the same time."""
    issue = []
    seen: set[int] = set()
    for forecast in clock_jobs.newly_estimated(connection, cluster):
        waited = max(at - forecast["submit_time"], 0.0)
        now = given_waited(as_prediction(forecast), waited, (0.5, 0.9))
        shared = {"row": forecast["row"], "kind": "wait", "moment": "slurm", "as_of": at, "issued_at": at}
        # Both methods must be compared on the same jobs, so a job that has outwaited every quantile needs a point, too.
        beyond = Prediction(waited * 1.5 + 1, (), (), "longer than the forecast reached")
        ours = _finite(now) if math.isfinite(now.point) else beyond
        issue.append({**shared, "method": forecast["method"], "prediction": ours})
        if forecast["row"] not in seen:
            estimate = max(forecast["expected_start"] - forecast["submit_time"], 0.0)
            theirs = Prediction(estimate, basis="Slurm's own estimate", grounds=Grounds.SCHEDULER)
            issue.append({**shared, "method": "squeue --start", "prediction": theirs})
            seen.add(forecast["row"])
    clock_jobs.issue(connection, issue)
    return len(seen)


LEAST_S, LEAST_SHARE = 300.0, 0.1
"""A start has moved if it differs from the stored answer by this many seconds and this share of the remaining wait."""
PAUSE_SHARE = 0.05
"""The answer for a job is stored again only after this share of its wait has passed."""
EXPLAINED = 20.0
"""Jobs that end early or late explain a moved start only if it moved by at most this many times their own difference. A
job that ends two minutes late does not delay another job by a day and a half.
"""
BACK_S = 86400.0
"""The return of a node to service is stored for this many seconds."""
Row = Mapping[str, Any]
NO_NODES: Mapping[str, Any] = {}


class StartTimes(NamedTuple):
    """The present prediction for a waiting job: its row, and submit time, likely start and 90 % start in epoch
    seconds.
    """

    row: int
    submit: float
    likely: float
    by_90: float


def start_times(row: int, submit: float, prediction: Prediction, now: float) -> StartTimes:
    """Return the likely and the 90 % start of a job that has waited since `submit`, from its newest prediction."""
    given = given_waited(prediction, max(now - submit, 0.0), (0.5, 0.9))
    return StartTimes(row, submit, submit + given.point, submit + (given.quantiles[1] if given.levels else math.nan))


def remember(connection: Connection, cluster: str, answers: Iterable[StartTimes], now: float) -> dict[int, str | None]:
    """Store the predicted starts that have moved, with the reasons. Return the reason of the last move for each row, as
    JSON.
    """
    last, why, new, moved = clock_jobs.last_moves(connection, cluster), {}, [], []
    for answer in answers:
        before = last.get(answer.row)
        why[answer.row] = None if before is None else before["why"]
        if before is None:
            new.append(_row_of(answer, now, None))
        elif has_moved(before, answer, now):
            moved.append((before, answer))
    if moved:
        nodes = clock_jobs.read_meta(connection, cluster).get("nodes") or {}
        jobs = clock_jobs.happened(connection, cluster, min(before["as_of"] for before, _ in moved))
        of = {job["row"]: job for job in jobs}
        spans: dict[tuple[float, Any], Span] = {}
        for before, answer in moved:
            mine = of.get(answer.row, {})
            key = before["as_of"], mine.get("partition_id")
            if key not in spans:
                spans[key] = Span([job for job in jobs if job["partition_id"] == key[1]], key[0], now)
            by = answer.likely - before["likely_start"]
            changed = _changed_nodes(nodes, key[1], before["as_of"], answer, by < 0)
            reason = spans[key].reason(mine.get("priority"), by < 0, changed)
            if "seconds" in reason and abs(by) > EXPLAINED * reason["jobs"] * reason["seconds"]:
                reason = {"cause": ""}
            if not reason["cause"] and before["likely_start"] <= now and by > 0:
                reason = {"cause": "passed"}
            why[answer.row] = json.dumps({"by_s": by, "since": before["as_of"], **reason})
            new.append(_row_of(answer, now, why[answer.row]))
    clock_jobs.keep_moves(connection, cluster, new)
    return why


def note_nodes(connection: Connection, cluster: str, away: Iterable[NodeAway], now: float) -> None:
    """Store which nodes are down or drained, which nodes returned in the last day, and since when."""
    noted = clock_jobs.read_meta(connection, cluster).get("nodes")
    before = noted or {}
    nodes: dict[str, dict[str, Any]] = {}
    for one in away:
        known = before.get(one.node)
        first = 0.0 if noted is None else now  # at the first query it is unknown since when the node is down
        since = known["at"] if known and known["away"] else first
        here = nodes.setdefault(one.node, {"away": True, "at": since, "procs": one.procs, "in": []})
        here["in"].append(one.partition)
    for name, known in before.items():
        if name not in nodes and (known["away"] or known["at"] > now - BACK_S):
            nodes[name] = {**known, "away": False, "at": now if known["away"] else known["at"]}
    if nodes != noted:
        clock_jobs.write_meta(connection, cluster, nodes=nodes)


def _changed_nodes(
    nodes: Mapping[str, Mapping[str, Any]], partition: str | None, since: float, answer: StartTimes, sooner: bool
) -> dict[str, Any]:
    """Return the partition's nodes that went down after `since` (for a sooner start: nodes that returned), with the
    work that they could do.

    For a later start, nodes that have been down longer are also named, but without work.
    """
    changed = {name: node for name, node in nodes.items() if partition in node["in"] and node["away"] is not sooner}
    here = {name: node for name, node in changed.items() if node["at"] > (since if sooner else answer.submit)}
    new = {name: node for name, node in here.items() if node["at"] > since}
    work = sum(node["procs"] * max(answer.likely - node["at"], 0.0) for node in new.values())
    names = sorted(new or here, key=lambda name: (len(name), name))
    return {"nodes": fold(names), "count": len(names), "work": work} if names else {}


def has_moved(before: Row, answer: StartTimes, now: float) -> bool:
    """Return whether the likely start differs enough from the stored answer.

    >>> before = {"as_of": 0.0, "likely_start": 7200.0}
    >>> [has_moved(before, StartTimes(1, 0.0, likely, math.nan), 600.0) for likely in (7300.0, 9000.0, 5000.0)]
    [False, True, True]
    """
    if not math.isfinite(answer.likely) or now - before["as_of"] < max(LEAST_S, PAUSE_SHARE * (now - answer.submit)):
        return False
    least = max(LEAST_S, LEAST_SHARE * (before["likely_start"] - now))
    return bool(abs(answer.likely - before["likely_start"]) >= least)


def _row_of(answer: StartTimes, now: float, why: str | None) -> dict[str, Any]:
    """Return a predicted start as a row of the table `moves`."""
    by_90 = answer.by_90 if math.isfinite(answer.by_90) else None
    return {"row": answer.row, "as_of": now, "likely_start": answer.likely, "by_90_start": by_90, "why": why}


class Span:
    """The events in one partition between two instants, which explain why a predicted start moved.

    >>> job = {"row": 1, "submit_time": 0.0, "start_time": 0.0, "end_time": 600.0, "priority": 5.0, "req_procs": 512.0,
    ...        "alloc_procs": None, "req_time": 11400.0, "run_point_s": None}
    >>> Span([job], 300.0, 900.0).reason(1.0, sooner=True)
    {'cause': 'early', 'jobs': 1, 'procs': 512.0, 'seconds': 10800.0}
    """

    def __init__(self, jobs: Sequence[Row], since: float, now: float) -> None:
        self.early, self.late = [], []
        arrived, withdrawn = [], []
        for job in jobs:
            start, end, procs = job["start_time"], job["end_time"], job["alloc_procs"] or job["req_procs"] or 1.0
            if start is not None:
                due = start + length_of(job)
                if end is not None and since < end <= now and due - end >= 60.0:
                    self.early.append((procs * (due - end), procs, due - end))
                elif end is None and since < due <= now:
                    self.late.append((procs * (now - due), procs, now - due))
            if job["priority"] is not None and math.isfinite(length_of(job)):
                above = job["priority"], procs * length_of(job)
                if since < job["submit_time"] <= now:
                    arrived.append(above)
                elif start is None and end is not None and since < end <= now:
                    withdrawn.append(above)
        self.arrived, self.withdrawn = _Above(arrived), _Above(withdrawn)

    def reason(self, priority: float | None, sooner: bool, nodes: Mapping[str, Any] = NO_NODES) -> dict[str, Any]:
        """Return the main cause of a predicted start's move, for a job of this priority; empty if no event explains the
        move.
        """
        ran = self.early if sooner else self.late
        jobs, work = (self.withdrawn if sooner else self.arrived).than(priority)
        done = sum(weight for weight, _, _ in ran)
        if nodes and nodes["work"] >= max(work, done):
            return {"cause": "back" if sooner else "nodes", "nodes": nodes["nodes"], "jobs": nodes["count"]}
        if jobs and work >= done:
            return {"cause": "left" if sooner else "came", "jobs": jobs}
        if ran:
            _, procs, seconds = max(ran)
            return {"cause": "early" if sooner else "late", "jobs": len(ran), "procs": procs, "seconds": seconds}
        return {"cause": ""}


class _Above:
    """Jobs in order of priority, to find the number and the work of the jobs above a priority."""

    def __init__(self, jobs: list[tuple[float, float]]) -> None:
        jobs.sort()
        self.priorities = [priority for priority, _ in jobs]
        self.work = [0.0, *accumulate(work for _, work in jobs)]

    def than(self, priority: float | None) -> tuple[int, float]:
        """Return the number and the work of the jobs above `priority`; zero if `priority` is unknown."""
        at = len(self.priorities) if priority is None else bisect_right(self.priorities, priority)
        return len(self.priorities) - at, self.work[-1] - self.work[at]
