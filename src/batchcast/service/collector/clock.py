# SPDX-License-Identifier: Apache-2.0
"""The live clock whose state is in the store: restores it, and advances it in the transaction that stores
predictions.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from ...events.event import End, Submit
from ...events.live import LiveClock, live_events
from ...events.state import SystemState
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
from ..answers.advice import BUILT_IN, RISK, Rules, advised_limit, advised_memory, of_partition
from ..answers.asked import SUBMITTED_WITHIN_S, take_asked
from ..answers.latest import capped, with_margin
from ..answers.model_store import SavedClock, Unusable, resume, use_machine
from ..collector import moves

ASKED = "asked"
"""The `moment` of a prediction that `start --test` made before the job was submitted."""
NEXT = "next"
"""The `moment` of a suggestion for the next similar job. There is one per kind of job, and it is never scored."""
SHARE = 0.05
"""Renewing predictions takes at most this share of the time, and so does computing latest starts. If the queue is very
long, both are done less often.
"""


class Renewal:
    """Renews the predictions of waiting jobs, and remembers when the next renewal is due."""

    def __init__(self) -> None:
        self.last = self.next = -math.inf

    def renew(
        self,
        connection: Connection,
        cluster: str,
        clock: LiveClock,
        until: float,
        now: float,
        latest: Mapping[int, float] = MappingProxyType({}),
    ) -> int:
        """Renew the predictions of waiting jobs as of `until`, with every method that can renew predictions; return the
        number of renewed predictions.

        No predicted start is later than the job's latest start by time limits, plus a margin (`answers.latest`).
        Renewing does not change the clock. If no method can renew predictions, older renewed predictions are deleted.
        """
        able = {key: one for key, one in clock.predictors.items() if hasattr(one, "of_waiting")}
        # if `now` is before `last`, this machine's clock was ahead and has been corrected
        if able and self.last <= now < self.next:
            return 0
        began = time.process_time()
        rows: list[dict[str, Any]] = []
        clock.state.nodes_away = moves.nodes_away(connection, cluster)
        clock.state.usage = files.used(clock_jobs.read_meta(connection, cluster))
        why: dict[int, str | None] = {}
        submitted = clock.state.queued
        with _as_of(clock.state, until) as as_of:
            for number, (key, predictor) in enumerate(able.items()):
                predictions = [
                    # no predicted start is later than the latest start by time limits, plus the margin
                    (row, capped(of, with_margin(latest.get(row, math.inf), as_of) - submitted[row].submit_time))
                    for row, of in predictor.of_waiting(clock.state)
                ]
                if number == 0:  # the first method that can renew also answers users, unless its bound failed
                    answers = (moves.start_times(row, submitted[row].submit_time, of, as_of) for row, of in predictions)
                    why = moves.remember(connection, cluster, answers, as_of)
                shared = {"method": json.loads(key)[1], "as_of": as_of}
                rows += [{**shared, "row": row, "prediction": of, "why": why.get(row)} for row, of in predictions]
        clock_jobs.renew(connection, cluster, rows)
        self._keep_some(connection, cluster, until, now)
        self.last, self.next = now, now + (time.process_time() - began) / SHARE
        return len(rows)

    @staticmethod
    def _keep_some(connection: Connection, cluster: str, until: float, now: float) -> None:
        """Store predictions to score for jobs that have waited a certain time, such as 1 h: the renewed prediction, and
        the prediction at submission given this wait.
        """
        issue: list[dict[str, Any]] = []
        for moment, age in SCORED.items():
            for row in clock_jobs.waited_since(connection, cluster, moment, age, until):
                shared = {"row": row["row"], "kind": "wait", "moment": moment, "as_of": until, "issued_at": now}
                issue.append({**shared, "method": row["method"], "prediction": as_prediction(newest(row))})
                if (old := as_at_submission(row, max(until - row["submit_time"], 0.0))) is not None:
                    issue.append({**shared, "method": row["method"] + BEFORE, "prediction": old})
        clock_jobs.issue(connection, issue)


@contextmanager
def _as_of(state: SystemState, instant: float) -> Iterator[float]:
    """Set the state's time to an instant after its last event while the block predicts; yield this instant.

    After the block the time is reset, even if a predictor fails, because the next event may be older than the instant.
    """
    last_event, state.now = state.now, max(state.now, instant)
    try:
        yield state.now
    finally:
        state.now = last_event


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

    What the predictors have learned is also saved in the file `place`, if given, so that a new process need not replay
    history. `latest` maps rows of waiting jobs to their latest starts (`answers.latest`); each cycle sets it anew.
    """

    def __init__(
        self,
        cluster: str,
        make_predictors: Callable[[], Mapping[tuple[str, str], Any]],
        memory_s: float = math.inf,
        place: Path | None = None,
        rules: Rules = BUILT_IN,
    ) -> None:
        self.cluster, self.memory_s, self.place, self.rules = cluster, memory_s, place, rules
        self._make = make_predictors
        self._clock: LiveClock | None = None
        self.rebuilt, self._since = "", -math.inf
        self._renewal = Renewal()
        self._asked = AskedBefore(place.with_suffix(".asked.jsonl")) if place is not None else None
        self._next: dict[tuple[object, ...], int] = {}
        self.latest: Mapping[int, float] = {}

    def rebuild(self, connection: Connection, since: float = -math.inf) -> None:
        """Continue from the saved clock, or replay the events of jobs that ended after `since`. A replay takes linear
        time.
        """
        memory = clock_jobs.read_meta(connection, self.cluster)
        try:
            saved = self._saved(memory, since)
        except Unusable as error:
            self.rebuilt = f"{self.place}: {error}: history is replayed instead" if str(error) else ""
        else:
            self._clock = resume(saved, clock_jobs.told_jobs(connection, self.cluster, saved.told_until))
            self._since = saved.since
            return
        self._clock = files.replay(clock_jobs.told_jobs(connection, self.cluster, since), self._fresh(), memory)
        self._since = since
        clock_jobs.write_meta(connection, self.cluster, heard_since=since if math.isfinite(since) else None)

    def use_machine(self, machine: Machine | None) -> None:
        """Let predictors simulate queue waits on this machine from now on."""
        if self._clock is not None:
            use_machine(self._clock.predictors.values(), machine)

    def _fresh(self) -> dict[str, Any]:
        return {json.dumps(key): predictor for key, predictor in self._make().items()}

    def _saved(self, memory: Mapping[str, Any], since: float) -> SavedClock:
        """Return the saved clock. If the saved clock is not usable, raise Unusable with the reason, or with an empty
        text if no clock was saved.
        """
        if self.place is None:
            raise Unusable("")
        saved = files.load(self.place, self._fresh())
        if not files.can_answer(saved.clock):
            raise Unusable("a library that its models need cannot be loaded")
        reached = memory.get("told_until")
        # since the clock was saved, no event may have been late and no history undone
        follows = reached is not None and saved.told_until <= reached and saved.late == memory.get("late", 0)
        if not (follows and saved.since <= since <= saved.since + self._slack()):
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
        fits = (getattr(one, "fitting", None) for one in self._clock.predictors.values())
        if any(fit is not None and fit.is_at_work for fit in fits):
            return None
        heard = {job.request.row: job.told for job in clock_jobs.told_jobs(connection, self.cluster, until)}
        return SavedClock(self._clock, until, memory.get("late", 0), self._since, heard)

    def save(self, saved: SavedClock) -> str | None:
        """Write the clock to its file; return the error, if any. If saving fails, only the collector's next start takes
        longer.
        """
        if self.place is None:
            return None
        try:
            return files.save(self.place, saved) or None
        except OSError as error:
            return f"{self.place}: {error.strerror}"
        except Exception as error:  # the state of a predictor from another package cannot be read
            return f"{self.place}: {type(error).__name__}: {error}"

    def _slack(self) -> float:
        """Return by how many seconds the age of the clock's oldest event may exceed `memory_s` before the clock is
        rebuilt.
        """
        return max(86400.0, self.memory_s / 10)

    def advance(self, connection: Connection, until: float, issued_at: float, live_since: float) -> Step:
        """Process all events until `until`, and store predictions for the submitted jobs that had not started at
        `live_since`.

        The method runs inside the caller's transaction. If the transaction fails, the caller must call `forget`,
        because this clock has then processed more events than the store has.
        """
        if self._clock is None or until - self.memory_s > self._since + self._slack():
            self.rebuild(connection, until - self.memory_s)
        assert self._clock is not None
        memory = clock_jobs.read_meta(connection, self.cluster)
        before = memory.get("told_until", -math.inf) or -math.inf
        waiting = clock_jobs.untold_jobs(connection, self.cluster, until)
        begun = {j.request.row: _begun(j.start_time, j.end_time) for j in waiting}
        step, issue = Step(rebuilt=self.rebuilt), []
        self.rebuilt = ""
        events = live_events(waiting, until)
        ended: dict[int, JobRequest] = {}
        again = [event.job.row for event in events if isinstance(event, Submit) and event.time <= before]
        # a job that was given up as lost and was shown again later is submitted a second time
        predicted_rows = clock_jobs.rows_forecast(connection, again)
        for event in events:
            if isinstance(event, End) and event.time > live_since:
                ended[event.job.row] = event.job
            step.late += event.time <= before
            row = event.job.row if isinstance(event, Submit) else -1
            ask = isinstance(event, Submit) and begun[row] > live_since and row not in predicted_rows
            for key, prediction in self._clock.tell(event, ask).items():
                method = json.loads(key)[1]
                shared = {"row": row, "moment": "submit", "method": method, "as_of": event.time, "issued_at": issued_at}
                assert isinstance(event, Submit)  # only submissions require predictions
                for kept_as, said in self._kept_as(key, event.job, prediction, memory):
                    issue.append({**shared, "kind": kept_as, "prediction": said})
        ended |= self._hear_memory(connection)
        clock_jobs.issue(connection, issue)
        self._advise_the_next(connection, ended.values(), memory, issued_at)
        step.renewed = self._renewal.renew(connection, self.cluster, self._clock, until, issued_at, self.latest)
        if self._asked is not None:
            self._asked.find(connection, self.cluster, issued_at)
        clock_jobs.mark_told(connection, events)
        clock_jobs.write_meta(
            connection, self.cluster, told_until=max(before, until), late=memory.get("late", 0) + step.late
        )
        step.events, step.issued = len(events), len(issue)
        return step

    def _kept_as(
        self, key: str, job: JobRequest, forecast: Prediction, memory: Mapping[str, Any]
    ) -> Iterator[tuple[str, Prediction]]:
        """Yield predictions to store, by kind: a prediction and the memory request that it suggests, or a suggested
        limit.
        """
        assert self._clock is not None
        kind, partition = json.loads(key)[0], of_partition(memory, job.partition_id)
        if kind == "limit":
            limit = advised_limit(forecast, job.req_time, self.rules, partition)
            if limit is not None:
                yield kind, replace(forecast, point=limit)
            return
        yield kind, forecast
        one = self._clock.predictors[key]
        rests_on = one.bound(job, RISK, forecast) if isinstance(one, LateMemory) else None
        if rests_on is not None and (amount := advised_memory(rests_on, RISK, self.rules, partition)) is not None:
            yield "request", Prediction(amount, basis=rests_on.basis, grounds=rests_on.grounds)

    def _advise_the_next(
        self, connection: Connection, ended: Iterable[JobRequest], memory: Mapping[str, Any], now: float
    ) -> None:
        """Store a suggestion for the next job of each kind that has ended. The tasks of a workflow are submitted at
        once, so the predictions at their submissions could not learn from any of them.
        """
        assert self._clock is not None
        latest = {(job.user_id, job.partition_id, job.job_name, job.procs): job for job in ended}
        issue: list[dict[str, Any]] = []
        for job in latest.values():
            for key, forecast in self._clock.again(job).items():
                shared = {"row": job.row, "moment": NEXT, "method": json.loads(key)[1], "issued_at": now}
                for kind, said in self._kept_as(key, job, forecast, memory):
                    if kind in ("limit", "request"):
                        issue.append({**shared, "kind": kind, "as_of": self._clock.state.now, "prediction": said})
        rows: dict[tuple[object, ...], int] = {like: job.row for like, job in latest.items()}
        clock_jobs.take_back(connection, NEXT, [*rows.values(), *(self._next.pop(like, -1) for like in rows)])
        clock_jobs.issue(connection, issue)
        self._next = rows if len(self._next) > MOST_KINDS else self._next | rows

    def _hear_memory(self, connection: Connection) -> dict[int, JobRequest]:
        """Process new memory measurements of ended jobs, which accounting reports later than the queue shows
        the ends.
        """
        assert self._clock is not None
        measured_jobs = {}
        for predictor in self._clock.predictors.values():
            if isinstance(predictor, LateMemory) and predictor.pending:
                for row in clock_jobs.measured(connection, list(predictor.pending)):
                    measured_jobs[row["row"]] = predictor.pending[row["row"]].job
                    predictor.measured(row["row"], node_peak(row), row["status"], self._clock.state)
        return measured_jobs

    def forget(self) -> None:
        """Discard the clock after a failed transaction, so that the next step rebuilds it."""
        self._clock = None


class AskedBefore:
    """The questions to `start --test` whose jobs are not submitted yet. When a matching job is submitted, the answer to
    its question is stored.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open: list[Mapping[str, Any]] = []

    def find(self, connection: Connection, cluster: str, now: float) -> int:
        """Store the answers to questions as predictions for the jobs that were submitted afterwards; return their
        number.

        If several questions fit a job, the job is the outcome of the last question only.
        """
        self._open += take_asked(self.path)
        still_open, issue = [], {}
        for question in sorted(self._open, key=lambda question: question["at"]):
            asked_at = question["at"]
            until = asked_at + SUBMITTED_WITHIN_S
            row = clock_jobs.followed_by(connection, cluster, question["like"], asked_at, until)
            if row is not None:
                shared = {"row": row, "kind": "wait", "moment": ASKED, "as_of": asked_at, "issued_at": now}
                said = {"method": question["method"], "prediction": as_prediction(question["said"])}
                issue[row] = {**shared, **said}
            elif now < until:
                still_open.append(question)
        self._open = still_open
        clock_jobs.issue(connection, list(issue.values()))
        return len(issue)


def compare_with_slurm(connection: Connection, cluster: str, at: float) -> int:
    """Store the first start estimate of the batch system for each job, and batchcast's predictions at the same time."""
    issue = []
    seen: set[int] = set()
    for forecast in clock_jobs.newly_estimated(connection, cluster):
        waited = max(at - forecast["submit_time"], 0.0)
        now = given_waited(as_prediction(forecast), waited, (0.5, 0.9))
        shared = {"row": forecast["row"], "kind": "wait", "moment": "slurm", "as_of": at, "issued_at": at}
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


def _begun(start: float, end: float) -> float:
    """Return the time when a job stopped waiting; infinity if it still waits."""
    return start if start == start else end if end == end else math.inf
